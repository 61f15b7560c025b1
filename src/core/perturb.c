/* SPDX-License-Identifier: Apache-2.0 */
#include "core/perturb.h"

#include <stdint.h>

#if defined(HEARTH_PERTURB) && HEARTH_PERTURB

#include <sched.h>
#include <unistd.h>

void hearth__perturb(const char *edge)
{
    static _Thread_local uint64_t random;
    (void)edge;
    if (random == 0)
        random = (uint64_t)(uintptr_t)&random | 1;
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    /* Now and then long enough for other threads to do whole operations meanwhile. */
    if (random % 512 == 0)
        (void)usleep(100);
    else if (random % 16 == 0)
        (void)sched_yield();
}

#else

/* A translation unit must declare something. */
typedef uint8_t hearth__perturb_unused;

#endif
