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
 * These calls take a lock, and wait sleeps: outside of sections. A signal handler that interrupted one of
 * them may return storage (hearth__budget_room_give()), and is not made to wait.
 */
#ifndef HEARTH_CONCURRENT_WAITERS_H
#define HEARTH_CONCURRENT_WAITERS_H

#include "concurrent/cancels.h"
#include "core/atomic.h"

#include <hearth/status.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__budget;

/* A waiter that does not fit is passed by this many later ones, and then by none. */
#define HEARTH__WAIT_PASSES 64

enum hearth__wait_state {
    HEARTH__WAIT_OUT = 0, /* not in the queue */
    HEARTH__WAIT_SLEEPS,
    HEARTH__WAIT_TURN,  /* in the queue, has its room, and tries to obtain storage */
    HEARTH__WAIT_ENDED, /* taken out of the queue by somebody else */
};

/* One waiting request, on its thread's stack. The first three members are the caller's, `cancelled` is for
 * it to read, the rest is guarded by the queue's lock. */
struct hearth__wait {
    size_t bytes;         /* of room; all of a bulk together. May be changed between calls */
    uint32_t priority;    /* enum hearth_priority */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC; UINT64_MAX: none */
    bool cancelled;       /* why it was TIMEOUT */

    bool ends;               /* by a cancel, if its turn is of no use */
    bool named;              /* the cancel named this thread */
    _Atomic(uint32_t) state; /* enum hearth__wait_state. Writer: under the lock. Slept on */
    uint32_t passed; /* how often later ones, or some who did not wait, were served instead */
    uint64_t units;  /* of room, reserved during a turn */
    uint64_t asked;  /* units of its last turn */
    uint64_t seen;   /* the last return that it had a turn for */
    uint64_t began, failed; /* its last turn, by the queue's clock */
    uint64_t token;         /* the thread's */
    struct hearth__wait *next, *prev;
};

#define HEARTH__WAIT_INIT(bytes, priority, deadline_ns)                                            \
    {                                                                                              \
        (bytes), (priority), (deadline_ns), false, false, false, 0, 0, 0, 0, 0, 0, 0, 0, NULL,     \
            NULL                                                                                   \
    }

/* The queue of a budget. Guarded by the lock, but for the atomics. */
struct hearth__waiters {
    /* Rank: innermost. Nothing is called with it held but malloc, for cancels to remember. */
    pthread_mutex_t lock;
    struct hearth__wait *first, *last; /* in the order of arrival */
    uint64_t returns;                  /* how often something came back while somebody waited */
    uint64_t clock;                    /* of turns that begin and fail */
    size_t turns;                      /* waiters that are trying */
    size_t turns_most;                 /* how many may try at once */
    int32_t passes_lent;               /* what `passes` was set to */
    bool closed;
    _Atomic(size_t) count; /* waiters */
    /* How often some who do not wait may still pass the first waiter; they count it down. */
    _Atomic(int32_t) passes;
    /* Something came back to a signal handler that had interrupted the lock's holder. */
    _Atomic(uint32_t) again;
    /* Asked for meanwhile: the end of waits, of one thread's or (UINT64_MAX) of all; and the close. */
    _Atomic(uint64_t) cancel_wanted;
    _Atomic(bool) close_wanted;
    struct hearth__cancels cancels; /* remembered */
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

/* Room came back; with `storage`, something besides that could not be had before. `turns` waiters may try
 * for it at once. Takes the lock. */
void hearth__waiters_serve(struct hearth__budget *budget, bool storage, size_t turns);

/* Take and release the lock; serving whom a change of the limit lets pass in between. */
/* False: the calling thread was interrupted while it held it. */
bool hearth__waiters_lock(struct hearth__budget *budget);
void hearth__waiters_unlock_and_serve(struct hearth__budget *budget);

/* Whether some who would wait may pass the first waiter once more, and its undoing. Lock-free. */
bool hearth__waiters_pass(struct hearth__waiters *waiters);
void hearth__waiters_pass_undo(struct hearth__waiters *waiters);

/* Between waiters.c and waiters_turns.c; under the lock. */

static inline bool hearth__wait_is(const struct hearth__wait *wait, enum hearth__wait_state state)
{
    return hearth__load_relaxed(&wait->state) == (uint32_t)state;
}

/* What a waiter sleeps on, and the call that has it look. */
void *hearth__wait_address(struct hearth__wait *wait);
void hearth__wait_wake(struct hearth__wait *wait);

/* Note what came back: it is worth so many turns. */
void hearth__waiters_count_return(struct hearth__waiters *waiters, bool storage, size_t turns);

/* Give turns to whom they belong, until as many are under way as may be. */
void hearth__waiters_give_turns(struct hearth__budget *budget);

#endif
