/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pattern that a replay writes into each buffer and expects to find before the free. Marks go
 * to the buffer's first bytes, to every multiple of the stride above them, and to its last byte.
 * They stand at absolute addresses, so buffers that overlap in a mark's place collide there: with a
 * stride of a page every page is written; with one of 64 no overlap of 64-byte aligned buffers goes
 * unseen.
 */
#ifndef HEARTH_TOOL_PATTERN_H
#define HEARTH_TOOL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where and what the first wrong mark is. */
struct pattern_mismatch {
    size_t offset;
    uint64_t expected;
    uint64_t found;
};

/** `stride` is a power of two of at least 64. The marks depend on `seed` and their offset. */
void pattern_write(void *data, size_t bytes, size_t stride, uint64_t seed);

/** Whether all marks are there; if not, `mismatch` names the first that is not. */
bool pattern_check(const void *data, size_t bytes, size_t stride, uint64_t seed,
                   struct pattern_mismatch *mismatch);

#endif
