/* SPDX-License-Identifier: Apache-2.0 */
/* A 64-bit finalizer (splitmix64, Steele et al. 2014): neighbouring inputs give unrelated
 * outputs. */
#ifndef HEARTH_TOOL_MIX_H
#define HEARTH_TOOL_MIX_H

#include <stdint.h>

static inline uint64_t mix64(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

#endif
