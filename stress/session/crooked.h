/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor that does whatever an executor may do: it reorders, delays, calls inside submit, refuses, and keeps
 * some calls until long after the session was ended.
 */
#ifndef HEARTH_STRESS_SESSION_CROOKED_H
#define HEARTH_STRESS_SESSION_CROOKED_H

#include <hearth/executor.h>

#include <stdint.h>

enum crooked_mode {
    CROOKED_MIXED,  /* a bit of all */
    CROOKED_SWIFT,  /* soon, in any order */
    CROOKED_INSIDE, /* all inside submit */
    CROOKED_LATE,   /* nothing before crooked_call_late() */
    CROOKED_REFUSE, /* nothing at all */
    CROOKED_MODES
};

/* Start so many threads, which serve all modes; and end them, after all calls. */
void crooked_open(unsigned count, uint64_t seed);
void crooked_close(void);

/* An executor that says it has so many threads. */
struct hearth_executor crooked_executor(enum crooked_mode mode, uint32_t count);

/* Call fn(arg) soon, on one of the threads. */
void crooked_call(void (*fn)(void *arg), void *arg);

/* Wait until no call is being made. Those that are delayed or kept may come at any time. */
void crooked_settle(void);

/* Make the calls that were kept, and wait until no call is left. */
void crooked_call_late(void);

#endif
