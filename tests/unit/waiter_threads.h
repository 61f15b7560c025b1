/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait on one budget, for the tests of waiting. */
#ifndef HEARTH_TESTS_UNIT_WAITER_THREADS_H
#define HEARTH_TESTS_UNIT_WAITER_THREADS_H

#include "concurrent/budget.h"
#include "concurrent/thread.h"
#include "core/clock.h"
#include "support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT (256 * KIB)
#define MILLISECOND ((uint64_t)1000000)

extern struct hearth__budget budget;

/* A budget with a limit of LIMIT and nothing live. */
void open_shared(void);
void close_shared(void);

/* Take that much room, all there is for high priority. */
void fill(size_t bytes);

struct waiter {
    struct hearth__wait wait;
    pthread_t thread;
    _Atomic(uint64_t) token;
    _Atomic(size_t) tries;
    _Atomic(bool) done;
    bool needs_slot; /* besides room */
    enum hearth_status status;
};

/* Start a thread that waits without a deadline, and return when it is in the queue. */
void start_waiter(struct waiter *waiter, size_t bytes);
void start_high_waiter(struct waiter *waiter, size_t bytes);
void start_waiter_for_slots(struct waiter *waiter, size_t bytes);

/* Add a slot that one of them may use, and tell. */
void put_slot(void);

bool is_done(const struct waiter *waiter);

/* Wait until it had that many turns. */
void await_tries(struct waiter *waiter, size_t tries);

/* Wait for its end, which must come soon and with this answer. */
void join_waiter(struct waiter *waiter, enum hearth_status status);

#endif
