/* SPDX-License-Identifier: Apache-2.0 */
#include "mixed.h"

#include <math.h>
#include <string.h>

#define SEED UINT64_C(0x9e3779b97f4a7c15)

uint32_t bench_mixed_size(unsigned index)
{
    double span = (double)BENCH_MIXED_LARGEST / (double)BENCH_MIXED_SMALLEST;
    double exponent = (double)index / (double)(BENCH_MIXED_SIZES - 1);
    double bytes = (double)BENCH_MIXED_SMALLEST * pow(span, exponent);
    return ((uint32_t)lround(bytes) + 63u) & ~63u;
}

/* xorshift64*: small, and good enough to shuffle sizes. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

void bench_mixed_init(struct bench_mixed *mixed)
{
    uint64_t state = SEED;
    memset(mixed, 0, sizeof(*mixed));
    for (size_t i = 0; i < BENCH_MIXED_STEPS; i++) {
        uint64_t random = next_random(&state);
        mixed->steps[i].slot = (uint32_t)(random >> 32) % BENCH_MIXED_LIVE;
        mixed->steps[i].bytes = bench_mixed_size((unsigned)(random >> 48) % BENCH_MIXED_SIZES);
    }
}
