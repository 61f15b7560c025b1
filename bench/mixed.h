/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mixed workload: BENCH_MIXED_LIVE buffers are live at any time; each step frees one chosen at
 * random and allocates another of a random size. The steps are generated beforehand from a fixed
 * seed, so every allocator sees the same ones and the loop pays for no random numbers.
 */
#ifndef BENCH_MIXED_H
#define BENCH_MIXED_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_MIXED_LIVE 16u
#define BENCH_MIXED_SIZES 64u
#define BENCH_MIXED_SMALLEST ((size_t)4 << 10)
#define BENCH_MIXED_LARGEST ((size_t)4 << 20)
/* 128 KiB of steps: far too many for a branch predictor to learn, and still in the L2 cache. */
#define BENCH_MIXED_STEPS ((size_t)1 << 14)

struct bench_step {
    uint32_t slot;
    uint32_t bytes;
};

struct bench_mixed {
    struct bench_step steps[BENCH_MIXED_STEPS];
    size_t position; /* of the next step; counts on and on, wraps by masking */
    void *live[BENCH_MIXED_LIVE];
};

/** The `index`th of the sizes: geometric between smallest and largest, rounded up to 64 bytes. */
uint32_t bench_mixed_size(unsigned index);

/** Fill in the steps; no buffer is live yet. */
void bench_mixed_init(struct bench_mixed *mixed);

#endif
