/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait for storage: a queue behind the room of a budget.
 *
 * Problem. Storage comes back in many places: a shared list, a magazine, the backing, a slot, the limit on
 * live bytes. A waiter must not miss any, whoever returns must not pay while nobody waits, and a large
 * request must not starve behind small ones.
 *
 * No lost wake-up. "Somebody waits" is a flag in the word of the room. Whoever returns something first
 * puts it where it is found and then adds to the word; a waiter first adds the flag to the word, then
 * looks everywhere, then sleeps. Of these two read-modify-writes one comes first: either the returner's
 * sees the flag and serves the queue, or the waiter's sees what the returner did before its own. The
 * flag stays up until the queue is empty; both under the lock. EDGE budget.room.
 *
 *         returner                              waiter
 *     put it on a list                     word |= waits        observes
 *     word += room         publishes       turn: room reserved, look everywhere
 *     flag seen? lock, serve               sleep, until a turn comes
 *
 * Turns. A waiter that is given a turn has its room reserved, and tries to obtain the storage. What it
 * needs besides room (a slot, a buffer that is large enough, the backing's consent) only its try can tell,
 * so each return is worth one turn, for the first in the queue that fits and was not yet given one since;
 * when its turn ends, whether it was of use or not, the turn goes on to the next. A try that fails
 * gives its room back, and what it had taken; that is no return but for those who tried at the same time,
 * so waiters do not wake each other in a circle.
 *
 *     OUT --wait--> SLEEPS --serve--> TURN --wait_end--> OUT
 *                     |  ^------wait--/ |
 *                     |                 | deadline, cancel or close found by the next wait
 *          deadline   |                 v
 *          OUT <------+               OUT
 *                     | cancel, close
 *                     +-----> ENDED --wakes--> OUT
 *
 * All of this is under the lock, so a turn against a deadline needs no protocol: who is given a turn has
 * the room, whatever the time; who leaves was given none. Waiters sleep on their own state word by futex
 * and without the lock; a condition variable would take the lock inside, where a signal handler that
 * returns a buffer could not have it.
 *
 * Passing. A waiter that does not fit is passed by later ones that do, at most HEARTH__WAIT_PASSES times;
 * then nobody of its priority or below is given a turn before it. Requests that would wait but find room
 * before they enter the queue count, too: they are lent so many passes of the first waiter. Who cannot
 * wait takes what there is. A waiter that asks for more than the limit holds up nobody.
 *
 * Re-entry. A signal handler may return storage while its thread holds the lock; `inside` tells, and the
 * holder serves once more when it unlocks.
 *
 * Cost. None without waiters but the word's read-modify-write; with them each return takes the lock and
 * walks the queue.
 */
#include "concurrent/waiters.h"

#include "concurrent/budget.h"
#include "concurrent/thread.h"
#include "core/clock.h"
#include "core/perturb.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NANOSECONDS ((uint64_t)1000000000)

/* The queues that the calling thread has locked or is about to lock: more than one if signal handlers return
 * storage of several services. Initial-exec as in thread.h. */
#define INSIDE_MOST 8u
static _Thread_local struct {
    _Atomic(struct hearth__waiters *) queues[INSIDE_MOST];
    _Atomic(uint32_t) depth;
} inside __attribute__((tls_model("initial-exec")));

/* False: this is a signal handler, and the interrupted code has the lock. */
static bool lock(struct hearth__waiters *waiters)
{
    uint32_t depth = hearth__load_relaxed(&inside.depth);
    for (uint32_t i = 0; i < depth; i++)
        if (hearth__load_relaxed(&inside.queues[i]) == waiters)
            return false;
    if (depth == INSIDE_MOST)
        return false;
    /* The place first: a handler that comes in between takes the next one, and leaves all as it was. */
    hearth__store_relaxed(&inside.queues[depth], NULL);
    hearth__store_release(&inside.depth, depth + 1);
    hearth__store_release(&inside.queues[depth], waiters);
    (void)pthread_mutex_lock(&waiters->lock);
    return true;
}

static void serve_wishes(struct hearth__budget *budget);

static void unlock(struct hearth__budget *budget)
{
    struct hearth__waiters *waiters = &budget->waiters;
    for (;;) {
        (void)pthread_mutex_unlock(&waiters->lock);
        uint32_t depth = hearth__load_relaxed(&inside.depth) - 1;
        hearth__store_release(&inside.queues[depth], NULL);
        hearth__store_release(&inside.depth, depth);
        if (hearth__likely(hearth__load_relaxed(&waiters->again) == 0) ||
            hearth__exchange_acq_rel(&waiters->again, 0) == 0)
            return;
        (void)lock(waiters);
        serve_wishes(budget);
        hearth__waiters_count_return(waiters, true, SIZE_MAX);
        hearth__waiters_give_turns(budget);
    }
}

/* Sleep until the deadline, a signal, or a change of state. */
static void sleep_on(struct hearth__wait *wait)
{
    struct timespec until = {
        .tv_sec = (time_t)(wait->deadline_ns / NANOSECONDS),
        .tv_nsec = (long)(wait->deadline_ns % NANOSECONDS),
    };
    (void)syscall(SYS_futex, hearth__wait_address(wait), FUTEX_WAIT_BITSET_PRIVATE,
                  HEARTH__WAIT_SLEEPS, wait->deadline_ns == UINT64_MAX ? NULL : &until, NULL,
                  FUTEX_BITSET_MATCH_ANY);
}

static bool is_over(const struct hearth__wait *wait)
{
    return wait->deadline_ns != UINT64_MAX && hearth__now_ns() >= wait->deadline_ns;
}

/* The queue. */

static void raise_flag(struct hearth__budget *budget)
{
    /* EDGE budget.room, observe: what came back before the flag was up. */
    (void)hearth__fetch_or_acq_rel(&budget->room, HEARTH__ROOM_WAITING);
}

static void join(struct hearth__budget *budget, struct hearth__wait *wait)
{
    struct hearth__waiters *waiters = &budget->waiters;
    wait->passed = 0;
    wait->units = 0;
    wait->failed = 0;
    /* It is owed a turn: what it failed to get may have come back meanwhile. */
    wait->seen = waiters->returns - 1;
    wait->next = NULL;
    wait->prev = waiters->last;
    *(waiters->last == NULL ? &waiters->first : &waiters->last->next) = wait;
    waiters->last = wait;
    hearth__store_relaxed(&wait->state, (uint32_t)HEARTH__WAIT_SLEEPS);
    hearth__store_relaxed(&waiters->count, hearth__load_relaxed(&waiters->count) + 1);
    if (waiters->turns_most == 0)
        waiters->turns_most = 1;
#ifndef HEARTH_BROKEN_WAIT_FLAG_LATE
    raise_flag(budget);
#endif
    HEARTH__PERTURB("budget.room");
}

static void take_out(struct hearth__budget *budget, struct hearth__wait *wait,
                     enum hearth__wait_state state)
{
    struct hearth__waiters *waiters = &budget->waiters;
    *(wait->prev == NULL ? &waiters->first : &wait->prev->next) = wait->next;
    *(wait->next == NULL ? &waiters->last : &wait->next->prev) = wait->prev;
    size_t count = hearth__load_relaxed(&waiters->count) - 1;
    hearth__store_relaxed(&waiters->count, count);
    if (count == 0)
        (void)hearth__fetch_and_acq_rel(&budget->room, ~HEARTH__ROOM_WAITING);
    if (hearth__wait_is(wait, HEARTH__WAIT_TURN))
        waiters->turns--;
    hearth__store_relaxed(&wait->state, (uint32_t)state);
}

/* Waiting. */

static enum hearth_status why_over(const struct hearth__budget *budget,
                                   const struct hearth__wait *wait)
{
    if (budget->waiters.closed)
        return HEARTH_CLOSED;
    return wait->ends || is_over(wait) ? HEARTH_TIMEOUT : HEARTH_OK;
}

/* The first call for a request. */
static enum hearth_status enter(struct hearth__budget *budget, struct hearth__wait *wait)
{
    wait->ends = false;
    wait->named = false;
    wait->token = hearth__thread_token();
    if (budget->waiters.closed)
        return HEARTH_CLOSED;
    if (hearth__cancels_take(&budget->waiters.cancels, wait->token)) {
        wait->ends = true;
        return HEARTH_TIMEOUT;
    }
    join(budget, wait);
    return HEARTH_OK;
}

/* A turn was of no use. */
static void step_back(struct hearth__budget *budget, struct hearth__wait *wait)
{
    /* What asks for more than it had was not refused that. */
    if (hearth__room_units(wait->bytes) != wait->asked)
        wait->seen = budget->waiters.returns - 1;
    wait->failed = ++budget->waiters.clock;
    (void)hearth__budget_room_add(budget, wait->units);
    wait->units = 0;
    budget->waiters.turns--;
    hearth__store_relaxed(&wait->state, (uint32_t)HEARTH__WAIT_SLEEPS);
}

/* Under the lock, let go meanwhile. */
static enum hearth_status await_turn(struct hearth__budget *budget, struct hearth__wait *wait)
{
    while (hearth__wait_is(wait, HEARTH__WAIT_SLEEPS)) {
        enum hearth_status status = why_over(budget, wait);
        if (status != HEARTH_OK) {
            take_out(budget, wait, HEARTH__WAIT_OUT);
            hearth__waiters_give_turns(budget);
            return status;
        }
#ifdef HEARTH_BROKEN_WAIT_FLAG_LATE
        HEARTH__PERTURB("budget.room");
        raise_flag(budget);
#endif
        unlock(budget);
        sleep_on(wait);
        (void)lock(&budget->waiters);
    }
    if (hearth__wait_is(wait, HEARTH__WAIT_TURN))
        return HEARTH_OK;
    hearth__store_relaxed(&wait->state, (uint32_t)HEARTH__WAIT_OUT);
    return wait->ends ? HEARTH_TIMEOUT : HEARTH_CLOSED;
}

enum hearth_status hearth__budget_wait(struct hearth__budget *budget, struct hearth__wait *wait)
{
    /* Nobody would wake it; or this is a signal handler that must not wait for whom it interrupted. */
    if (!budget->metered || !lock(&budget->waiters))
        return HEARTH_TIMEOUT;
    enum hearth_status status = HEARTH_OK;
    bool again = hearth__wait_is(wait, HEARTH__WAIT_TURN);
    if (again)
        step_back(budget, wait);
    else
        status = enter(budget, wait);
    if (status == HEARTH_OK) {
        if (!again || why_over(budget, wait) == HEARTH_OK)
            hearth__waiters_give_turns(budget);
        status = await_turn(budget, wait);
    }
    wait->cancelled = status == HEARTH_TIMEOUT && wait->ends;
    unlock(budget);
    return status;
}

void hearth__budget_wait_end(struct hearth__budget *budget, struct hearth__wait *wait)
{
    (void)lock(&budget->waiters);
    for (struct hearth__wait *ahead = wait->prev; ahead != NULL; ahead = ahead->prev)
        ahead->passed++;
    /* The cancel came too late for this one. */
    if (wait->ends && wait->named)
        hearth__cancels_add(&budget->waiters.cancels, wait->token);
    take_out(budget, wait, HEARTH__WAIT_OUT);
    hearth__waiters_give_turns(budget);
    unlock(budget);
}

/* From outside. */

/* The calling thread's request, if this is its turn. */
static const struct hearth__wait *own_turn(const struct hearth__waiters *waiters)
{
    uint64_t token = hearth__thread_token_peek();
    const struct hearth__wait *wait = waiters->first;
    while (wait != NULL && !(wait->token == token && hearth__wait_is(wait, HEARTH__WAIT_TURN)))
        wait = wait->next;
    return wait;
}

/* A try failed half-way and puts back what it took: that is new to those alone who tried meanwhile. */
static void tell_rivals(struct hearth__waiters *waiters, const struct hearth__wait *own)
{
    for (struct hearth__wait *wait = waiters->first; wait != NULL; wait = wait->next) {
        if (hearth__wait_is(wait, HEARTH__WAIT_SLEEPS) && wait->failed > own->began)
            wait->seen = waiters->returns - 1;
    }
}

void hearth__waiters_serve(struct hearth__budget *budget, bool storage, size_t turns)
{
    struct hearth__waiters *waiters = &budget->waiters;
    if (!lock(waiters)) {
        hearth__store_relaxed(&waiters->again, 1);
        return;
    }
    const struct hearth__wait *own = own_turn(waiters);
    if (own != NULL)
        tell_rivals(waiters, own);
    hearth__waiters_count_return(waiters, storage && own == NULL, turns);
    hearth__waiters_give_turns(budget);
    unlock(budget);
}

bool hearth__waiters_lock(struct hearth__budget *budget)
{
    return lock(&budget->waiters);
}

void hearth__waiters_unlock_and_serve(struct hearth__budget *budget)
{
    hearth__waiters_count_return(&budget->waiters, true, SIZE_MAX);
    hearth__waiters_give_turns(budget);
    unlock(budget);
}

/* Wake a sleeping waiter for good, or have it told when its turn was of no use. Whether it slept. */
static bool end_wait(struct hearth__budget *budget, struct hearth__wait *wait)
{
    if (!hearth__wait_is(wait, HEARTH__WAIT_SLEEPS))
        return false;
    take_out(budget, wait, HEARTH__WAIT_ENDED);
    hearth__wait_wake(wait);
    return true;
}

static size_t cancel_waits(struct hearth__budget *budget, uint64_t token)
{
    size_t count = 0;
    bool found = false;
    struct hearth__wait *next;
    for (struct hearth__wait *wait = budget->waiters.first; wait != NULL; wait = next) {
        next = wait->next;
        if (token != 0 && wait->token != token)
            continue;
        found = true;
        wait->ends = true;
        wait->named |= token != 0;
        count += end_wait(budget, wait);
    }
    if (token != 0 && !found)
        hearth__cancels_add(&budget->waiters.cancels, token);
    hearth__waiters_give_turns(budget);
    return count;
}

static void close_queue(struct hearth__budget *budget)
{
    budget->waiters.closed = true;
    struct hearth__wait *next;
    for (struct hearth__wait *wait = budget->waiters.first; wait != NULL; wait = next) {
        next = wait->next;
        (void)end_wait(budget, wait);
    }
}

/* Under the lock: what signal handlers asked for while its holder was interrupted. */
static void serve_wishes(struct hearth__budget *budget)
{
    struct hearth__waiters *waiters = &budget->waiters;
    uint64_t token = hearth__exchange_acq_rel(&waiters->cancel_wanted, 0);
    if (token != 0)
        (void)cancel_waits(budget, token == UINT64_MAX ? 0 : token);
    if (hearth__load_relaxed(&waiters->close_wanted))
        close_queue(budget);
}

/* A signal handler interrupted the holder: it serves the wish when it is done. Of several threads' names the last
 * one counts. */
static void wish(struct hearth__waiters *waiters)
{
    hearth__store_release(&waiters->again, 1);
}

void hearth__budget_cancel(struct hearth__budget *budget, uint64_t token, size_t *woken)
{
    size_t count = 0;
    if (lock(&budget->waiters)) {
        count = cancel_waits(budget, token);
        unlock(budget);
    } else {
        hearth__store_relaxed(&budget->waiters.cancel_wanted, token == 0 ? UINT64_MAX : token);
        wish(&budget->waiters);
    }
    if (woken != NULL)
        *woken = count;
}

void hearth__budget_close(struct hearth__budget *budget)
{
    if (lock(&budget->waiters)) {
        close_queue(budget);
        unlock(budget);
    } else {
        hearth__store_relaxed(&budget->waiters.close_wanted, true);
        wish(&budget->waiters);
    }
}

size_t hearth__budget_waiter_count(const struct hearth__budget *budget)
{
    return hearth__load_relaxed(&budget->waiters.count);
}

/* Life. */

static void reset(struct hearth__waiters *waiters)
{
    (void)pthread_mutex_init(&waiters->lock, NULL);
    waiters->first = NULL;
    waiters->last = NULL;
    waiters->clock = 0;
    waiters->turns = 0;
    waiters->turns_most = 0;
    waiters->passes_lent = HEARTH__WAIT_PASSES;
    hearth__store_relaxed(&waiters->passes, HEARTH__WAIT_PASSES);
    hearth__store_relaxed(&waiters->count, 0);
    hearth__store_relaxed(&waiters->again, 0);
    hearth__store_relaxed(&waiters->cancel_wanted, 0);
    hearth__store_relaxed(&waiters->close_wanted, false);
    hearth__cancels_init(&waiters->cancels);
}

void hearth__waiters_init(struct hearth__waiters *waiters)
{
    waiters->returns = 0;
    waiters->closed = false;
    reset(waiters);
}

void hearth__waiters_fini(struct hearth__waiters *waiters)
{
    hearth__cancels_fini(&waiters->cancels);
    (void)pthread_mutex_destroy(&waiters->lock);
}

void hearth__waiters_after_fork_child(struct hearth__waiters *waiters)
{
    /* Remembered cancels may have been half written; they name the parent's threads. */
    reset(waiters);
}
