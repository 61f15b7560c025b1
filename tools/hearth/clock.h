/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_TOOL_CLOCK_H
#define HEARTH_TOOL_CLOCK_H

#include <stdint.h>
#include <time.h>

/** Monotonic time in nanoseconds. */
static inline uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
