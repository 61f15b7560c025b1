/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait for storage. The queue is part of a budget; see the essay in waiters.c.
 *
 *     struct hearth__wait wait = HEARTH__WAIT_INIT(bytes, priority, deadline_ns);
 *     enum hearth_status status;
 *     while ((status = hearth__budget_wait(budget, &wait)) == HEARTH_OK) {
 *         // `bytes` of room are ours; what came back from now on gives another turn
 *         if (the storage can be had) {
 *             hearth__budget_wait_end(budget, &wait);
 *             return HEARTH_OK;
 *         }
 *     }
 *     return status;  // TIMEOUT or CLOSED: nothing is reserved, and the place is given up
 *
 * No call here may be made inside a section: they take a lock, and wait sleeps.
 */
#ifndef HEARTH_CONCURRENT_WAITERS_H
#define HEARTH_CONCURRENT_WAITERS_H

#include "core/atomic.h"

#include <hearth/status.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__budget;

/* A waiter that does not fit is passed by this many later ones, and then by none. */
#define HEARTH__WAIT_PASSES 64

/* Cancels of threads that do not wait are remembered for this many threads; then the oldest is forgotten. */
#define HEARTH__CANCELS_MOST 4096
#define HEARTH__CANCELS_INLINE 16

/* One waiting request, on its thread's stack. The first three members are the caller's, `cancelled` is for
 * it to read, the rest is guarded by the queue's lock. */
struct hearth__wait {
    size_t bytes;         /* of room; all of a bulk together. May be changed between calls */
    uint32_t priority;    /* enum hearth_priority */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    bool cancelled;       /* why it was TIMEOUT */

    _Atomic(uint32_t) state; /* enum hearth__wait_state. Writer: under the lock. Slept on */
    uint32_t passed;         /* by how many later ones */
    uint32_t ends;           /* HEARTH__WAIT_*: what to do when the turn was no use */
    uint64_t units;          /* of room, held during a turn */
    uint64_t seen;           /* the last return that it had a turn for */
    uint64_t token;          /* the thread's */
    struct hearth__wait *next, *prev;
};

#define HEARTH__WAIT_INIT(bytes, priority, deadline_ns)                                            \
    {                                                                                              \
        (bytes), (priority), (deadline_ns), false, 0, 0, 0, 0, 0, 0, NULL, NULL                    \
    }

/* The queue of a budget. All but `count` is guarded by the lock. */
struct hearth__waiters {
    /* Rank: innermost. Nothing is called with it held but malloc, for cancels to remember. */
    pthread_mutex_t lock;
    struct hearth__wait *first, *last; /* in the order of arrival */
    uint64_t returns;                  /* how often something came back while somebody waited */
    size_t turns;                      /* waiters that are trying */
    size_t turns_most;                 /* how many may: one for each return that somebody may use */
    uint32_t passes_lent;              /* what `passes` was set to */
    bool closed;
    bool reserved;
    _Atomic(size_t) count;
    /* How often those who are not in the queue may still pass its first waiter. */
    _Atomic(int32_t) passes;
    /* Came back while the lock's own holder was interrupted. */
    _Atomic(uint32_t) again;
    /* A ring of remembered cancels. */
    uint64_t *cancels;
    size_t cancels_first, cancels_count, cancels_size;
    uint64_t cancels_inline[HEARTH__CANCELS_INLINE];
};

/*
 * Wait until `wait->bytes` of room are there and it is this request's turn. OK: the room is reserved for
 * the caller, who now tries to obtain the storage, and then either ends the wait or calls again with the
 * same `wait`; calling again gives the room back, keeps the place in the queue, and sleeps until
 * something else came back (or did since the last call returned). Whatever comes back from the first
 * call on is seen.
 * TIMEOUT (deadline or cancel), CLOSED: nothing is reserved and the wait has ended.
 */
enum hearth_status hearth__budget_wait(struct hearth__budget *budget, struct hearth__wait *wait);

/* The caller of a wait that was OK has its storage and keeps the room; the next ones get a turn. */
void hearth__budget_wait_end(struct hearth__budget *budget, struct hearth__wait *wait);

/* End the waits of the thread with this token, all of them for 0: they answer TIMEOUT, `cancelled` set.
 * A token that does not sleep now has its next wait ended, or this one if its turn is no use. `woken`, if
 * not NULL, receives how many slept. */
void hearth__budget_cancel(struct hearth__budget *budget, uint64_t token, size_t *woken);

/* All who wait answer CLOSED, and so does whoever comes later. */
void hearth__budget_close(struct hearth__budget *budget);

/* How many wait. Any thread. */
size_t hearth__budget_waiter_count(const struct hearth__budget *budget);

/* For budget.c. */

void hearth__waiters_init(struct hearth__waiters *waiters);
void hearth__waiters_fini(struct hearth__waiters *waiters);
void hearth__waiters_after_fork_child(struct hearth__waiters *waiters);

/* Something came back, for up to `turns` waiters: give them their turns. Takes the lock. */
void hearth__waiters_serve(struct hearth__budget *budget, size_t turns);

/* Whether somebody who is not in the queue may pass it once more. Lock-free. */
bool hearth__waiters_pass(struct hearth__waiters *waiters);
void hearth__waiters_unpass(struct hearth__waiters *waiters);

#endif
