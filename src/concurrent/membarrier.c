/* SPDX-License-Identifier: Apache-2.0 */
#include "concurrent/membarrier.h"

#include "core/atomic.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

enum answer { UNASKED, YES, NO };

static _Atomic(int) answer = UNASKED;

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

bool hearth__membarrier_ready(void)
{
    int known = hearth__load_relaxed(&answer);
    if (hearth__unlikely(known == UNASKED)) {
        /* Registering twice is fine, so threads may race here. */
        known = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 ? YES : NO;
        hearth__store_relaxed(&answer, known);
    }
    return known == YES;
}

bool hearth__membarrier(void)
{
    if (hearth__likely(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0))
        return true;
    hearth__store_relaxed(&answer, NO);
    /* What the caller cannot do without, it gets the slow way, or by waiting far longer than any processor
     * keeps a store to itself. */
    if (membarrier(MEMBARRIER_CMD_GLOBAL) != 0)
        (void)usleep(20000);
    return false;
}
