/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the packer share: an oracle that knows nothing of how it works, and items to lay out. */
#ifndef HEARTH_TESTS_UNIT_PACK_CHECK_H
#define HEARTH_TESTS_UNIT_PACK_CHECK_H

#include "core/pack.h"

#include <stdbool.h>

/* The most bytes alive in one step, sizes rounded. */
size_t pack_peak(const struct hearth__pack_item *items, size_t count);

/* Fails the test unless the layout is right: aligned, nobody's bytes shared in time, the total and the
 * bound as they are. */
void pack_check(const struct hearth__pack_item *items, size_t count, const size_t *offsets,
                const struct hearth__pack_report *report);

/* Pack and check; answers what was reported. */
struct hearth__pack_report pack_checked(const struct hearth__pack_item *items, size_t count,
                                        const struct hearth__pack_options *options);

/* A number below `bound`. */
uint32_t pack_draw(uint64_t *state, uint32_t bound);

/* Random items: up to `steps` steps, lives up to `life`, sizes of up to 2^`size_log` bytes, each power of
 * two as likely; some of size 0. */
void pack_make_items(struct hearth__pack_item *items, size_t count, uint32_t steps, uint32_t life,
                     uint32_t size_log, uint64_t seed);

#endif
