/* SPDX-License-Identifier: Apache-2.0 */
/* The one clock: deadlines, budgets and ages are told by it. */
#ifndef HEARTH_CORE_CLOCK_H
#define HEARTH_CORE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t hearth__now_ns(void);

#endif
