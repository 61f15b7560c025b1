/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting with everything at once: turns against deadlines, cancels, and signal handlers that return. */
#include "waiter_threads.h"

#include <signal.h>

#define THREADS 4
#define ROUNDS 3000

static _Atomic(size_t) held;
static _Atomic(size_t) served, late, cancelled;

static void hold_and_give(size_t bytes)
{
    size_t now = hearth__fetch_add_acq_rel(&held, bytes) + bytes;
    cr_assert_leq(now, LIMIT);
    (void)hearth__fetch_sub_acq_rel(&held, bytes);
    hearth__budget_room_give(&budget, bytes);
}

/* Requests of a third to all of the limit, with deadlines of about the time a turn takes to come. */
static void *wait_shortly(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = LIMIT / 3 + random_next(&state) % (2 * LIMIT / 3);
        struct hearth__wait wait = HEARTH__WAIT_INIT(
            bytes, HEARTH_PRIORITY_NORMAL, hearth__now_ns() + random_next(&state) % 60000);
        enum hearth_status status = hearth__budget_wait(&budget, &wait);
        if (status != HEARTH_OK) {
            assert_status(status, HEARTH_TIMEOUT);
            (void)hearth__fetch_add_relaxed(wait.cancelled ? &cancelled : &late, 1);
            continue;
        }
        hearth__budget_wait_end(&budget, &wait);
        (void)hearth__fetch_add_relaxed(&served, 1);
        hold_and_give(bytes / 64 * 64 == bytes ? bytes : bytes / 64 * 64 + 64);
    }
    return NULL;
}

static void run_threads(void *(*fn)(void *), pthread_t *threads)
{
    for (uintptr_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, fn, (void *)(i + 1)), 0);
}

static void join_threads(const pthread_t *threads)
{
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_size(hearth__budget_waiter_count(&budget), 0);
    assert_size(hearth__budget_live_capacity(&budget), 0);
    cr_assert_eq(hearth__load_relaxed(&budget.room) & HEARTH__ROOM_WAITING, 0);
}

Test(waiters_race, deadlines_against_turns, .init = open_shared, .fini = close_shared)
{
    pthread_t threads[THREADS];
    run_threads(wait_shortly, threads);
    join_threads(threads);
    cr_assert_gt(served, 0);
    assert_size(served + late, THREADS * ROUNDS);
}

Test(waiters_race, cancels_against_turns, .init = open_shared, .fini = close_shared)
{
    pthread_t threads[THREADS];
    run_threads(wait_shortly, threads);
    uint64_t first = hearth__thread_token();
    for (unsigned i = 0; i < ROUNDS; i++) {
        hearth__budget_cancel(&budget, i % 3 == 0 ? 0 : first + i % 8, NULL);
        cr_assert_leq(hearth__budget_live_capacity(&budget), LIMIT);
    }
    join_threads(threads);
    assert_size(served + late + cancelled, THREADS * ROUNDS);
}

/* Without deadlines: who is never woken hangs, and the test with it. */
static void *wait_for_good(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        size_t bytes = (LIMIT / 4 + random_next(&state) % (LIMIT / 2)) / 64 * 64;
        uint32_t polite = HEARTH_PRIORITY_NORMAL | HEARTH__ROOM_MAY_WAIT;
        if (!hearth__budget_room_take(&budget, bytes, polite)) {
            struct hearth__wait wait = HEARTH__WAIT_INIT(bytes, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
            assert_ok(hearth__budget_wait(&budget, &wait));
            hearth__budget_wait_end(&budget, &wait);
        }
        hold_and_give(bytes);
    }
    return NULL;
}

Test(waiters_race, nobody_is_forgotten, .init = open_shared, .fini = close_shared, .timeout = 60)
{
    pthread_t threads[THREADS];
    run_threads(wait_for_good, threads);
    join_threads(threads);
}

/* One slot that goes from hand to hand. Room is there in plenty. */
static _Atomic(int) slot = 1;

static void *wait_for_slot(void *argument)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct hearth__wait wait = HEARTH__WAIT_INIT(64, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
        int there = 1;
        if (!hearth__cas_acquire(&slot, &there, 0)) {
            for (;;) {
                assert_ok(hearth__budget_wait(&budget, &wait));
                there = 1;
                if (hearth__cas_acquire(&slot, &there, 0))
                    break;
            }
            hearth__budget_wait_end(&budget, &wait);
            hearth__budget_room_undo(&budget, 64);
        }
        hearth__store_release(&slot, 1);
        hearth__budget_room_give(&budget, 0);
    }
    return argument;
}

Test(waiters_race, no_slot_is_overlooked, .init = open_shared, .fini = close_shared, .timeout = 60)
{
    pthread_t threads[THREADS];
    run_threads(wait_for_slot, threads);
    join_threads(threads);
}

static void return_some(int number)
{
    (void)number;
    hearth__budget_room_give(&budget, 64);
}

Test(waiters_race, a_signal_handler_may_return, .init = open_shared, .fini = close_shared,
     .timeout = 60)
{
    (void)signal(SIGUSR1, return_some);
    hearth__budget_set_live_limit(&budget, HEARTH_UNBOUNDED, 0);
    fill((size_t)ROUNDS * THREADS * 64);
    hearth__budget_set_live_limit(&budget, LIMIT, 0);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, wait_shortly, (void *)1), 0);
    for (unsigned i = 0; i < ROUNDS * THREADS; i++)
        cr_assert_eq(pthread_kill(thread, SIGUSR1), 0);
    /* Signals of one kind coalesce, so not all room is back; what matters is that nothing hangs. */
    pthread_join(thread, NULL);
    assert_size(hearth__budget_waiter_count(&budget), 0);
}
