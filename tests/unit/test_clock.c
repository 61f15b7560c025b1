/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: it never goes back, and it is the clock of deadlines. */
#include "core/clock.h"
#include "support.h"

#include <time.h>

static uint64_t monotonic_now(void)
{
    struct timespec time;
    cr_assert_eq(clock_gettime(CLOCK_MONOTONIC, &time), 0);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

Test(clock, never_goes_back)
{
    uint64_t last = hearth__now_ns();
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t now = hearth__now_ns();
        cr_assert_geq(now, last);
        last = now;
    }
}

Test(clock, is_the_monotonic_one)
{
    uint64_t before = monotonic_now();
    uint64_t now = hearth__now_ns();
    cr_assert_geq(now, before);
    cr_assert_leq(now, monotonic_now());
}
