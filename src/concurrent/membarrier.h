/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier that a few pay for, so that the many need none: after it, every thread of the process has
 * executed a full fence since the call began. It is the other half of the compiler barrier in section.h.
 */
#ifndef HEARTH_CONCURRENT_MEMBARRIER_H
#define HEARTH_CONCURRENT_MEMBARRIER_H

#include <stdbool.h>

/* Whether the kernel offers it (Linux 4.14; a seccomp filter may forbid it). Without, threads keep no
 * caches: nobody could be kept out of them. The first call asks. */
bool hearth__membarrier_ready(void);

/* Thread: any. A system call; about 0.3 us alone, tens of us when other cores have to be interrupted. False if
 * the kernel came to refuse it (a filter installed late): then nobody may be visited. */
bool hearth__membarrier(void);

#endif
