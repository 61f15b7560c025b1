/* SPDX-License-Identifier: Apache-2.0 */
/* The search, as the accesses of a running thread need it. */
#ifndef HEARTH_STRESS_EXPLORER_ENGINE_H
#define HEARTH_STRESS_EXPLORER_ENGINE_H

#include "explorer.h"

/* The running thread; EXPLORER_THREADS in start and finish. */
unsigned engine_current(void);

/* Before an atomic access: any thread may go on. */
void engine_point(void);

/* One of so many, each of them in some execution. */
unsigned engine_choose(unsigned of);

/* A line of the trace. A location of EXPLORER_LOCATIONS is none. */
void engine_note(const char *what, unsigned location, enum order order, uint64_t before,
                 uint64_t after, unsigned age);

/* Found something: does not come back to a thread. */
void engine_fail(const char *what);

#endif
