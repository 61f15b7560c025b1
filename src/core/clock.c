/* SPDX-License-Identifier: Apache-2.0 */
#include "core/clock.h"

#include <time.h>

uint64_t hearth__now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
