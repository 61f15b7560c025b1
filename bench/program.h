/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of bench/ have in common around their cases. */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/** The file that malloc comes from, so that a peer that was not preloaded cannot pass for one. */
const char *bench_malloc_origin(void);

/** Whether `name` is one of the comma-separated words of `list`. */
bool bench_listed(const char *list, const char *name);

/** The number of comma-separated words. */
size_t bench_word_count(const char *list);

/** A positive decimal number, or 0 where the text is anything else. */
size_t bench_parse_count(const char *text);

/** Run `run(context)` in a process of its own: what one case taught the allocator (thresholds,
 *  retained memory, that there are threads) must not change the next. Ends the calling process when
 *  that one fails; false: it was stopped because it had not ended after so many seconds. */
bool bench_isolated(const char *what, void (*run)(const void *context), const void *context,
                    unsigned seconds);

#endif
