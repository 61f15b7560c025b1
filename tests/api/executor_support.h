/* SPDX-License-Identifier: Apache-2.0 */
/* Executors that do as they are told, so that what runs where does not depend on a schedule. */
#ifndef HEARTH_TESTS_API_EXECUTOR_SUPPORT_H
#define HEARTH_TESTS_API_EXECUTOR_SUPPORT_H

#include "run_support.h"

struct call {
    void (*fn)(void *);
    void *arg;
};

enum { CALLS_KEPT = 256 };

/* Keeps what it is given. */
struct keeper {
    unsigned count;
    struct call calls[CALLS_KEPT];
};

struct hearth_executor keeper_executor(struct keeper *keeper, uint32_t threads);
/* Makes the calls on the calling thread. */
void keeper_call(struct keeper *keeper);

/* Makes each call on a thread of its own, and returns when the call did. */
struct hearth_executor apart_executor(uint32_t threads);

/* Makes each call inside of submit. */
struct hearth_executor inline_executor(uint32_t threads);
/* The most of its calls that were ever inside of each other on a thread. */
extern unsigned inline_deepest;

/* Makes none. */
struct hearth_executor refusing_executor(uint32_t threads);

struct hearth_run_stats run_on(struct run *run, const struct hearth_executor *executor);

#endif
