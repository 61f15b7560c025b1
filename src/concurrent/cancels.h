/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cancels of threads that do not wait now: a set of thread tokens, each there once. It forgets the oldest
 * beyond HEARTH__CANCELS_MOST, or HEARTH__CANCELS_INLINE when there is no memory. Not for several threads.
 */
#ifndef HEARTH_CONCURRENT_CANCELS_H
#define HEARTH_CONCURRENT_CANCELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTH__CANCELS_MOST 4096
#define HEARTH__CANCELS_INLINE 16

struct hearth__cancels {
    uint64_t *tokens; /* oldest first */
    size_t count, size;
    uint64_t inline_tokens[HEARTH__CANCELS_INLINE];
};

void hearth__cancels_init(struct hearth__cancels *cancels);
void hearth__cancels_fini(struct hearth__cancels *cancels);

void hearth__cancels_add(struct hearth__cancels *cancels, uint64_t token);

/* Take a token out; whether it was there. O(tokens). */
bool hearth__cancels_take(struct hearth__cancels *cancels, uint64_t token);

#endif
