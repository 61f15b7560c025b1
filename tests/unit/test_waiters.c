/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for room: order, passing, deadlines, cancels, close. Races are in test_waiters_race.c. */
#include "waiter_threads.h"

Test(waiters, room_that_is_there_is_had_at_once, .init = open_shared, .fini = close_shared)
{
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, HEARTH_NO_WAIT);
    assert_ok(hearth__budget_wait(&budget, &wait));
    assert_size(hearth__budget_live_capacity(&budget), KIB);
    assert_size(hearth__budget_waiter_count(&budget), 1);
    hearth__budget_wait_end(&budget, &wait);
    assert_size(hearth__budget_waiter_count(&budget), 0);
    assert_size(hearth__budget_live_capacity(&budget), KIB);
    cr_assert_eq(hearth__load_relaxed(&budget.room) & HEARTH__ROOM_WAITING, 0);
}

Test(waiters, a_deadline_ends_the_wait_and_leaves_nothing, .init = open_shared,
     .fini = close_shared)
{
    fill(LIMIT);
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, HEARTH_NO_WAIT);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    wait.deadline_ns = hearth__now_ns() + 20 * MILLISECOND;
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    cr_assert_geq(hearth__now_ns(), wait.deadline_ns);
    cr_assert_not(wait.cancelled);
    assert_size(hearth__budget_waiter_count(&budget), 0);
    assert_size(hearth__budget_live_capacity(&budget), LIMIT);
    cr_assert_eq(hearth__load_relaxed(&budget.room) & HEARTH__ROOM_WAITING, 0);
}

Test(waiters, first_in_first_out, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiters[4];
    for (unsigned i = 0; i < 4; i++)
        start_waiter(&waiters[i], KIB);
    for (unsigned i = 0; i < 4; i++) {
        hearth__budget_room_give(&budget, KIB);
        join_waiter(&waiters[i], HEARTH_OK);
        assert_size(hearth__budget_waiter_count(&budget), 3 - i);
    }
    assert_size(hearth__budget_live_capacity(&budget), LIMIT);
}

Test(waiters, one_return_serves_all_that_fit, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiters[4];
    for (unsigned i = 0; i < 4; i++)
        start_waiter(&waiters[i], KIB);
    hearth__budget_room_give(&budget, 4 * KIB);
    for (unsigned i = 0; i < 4; i++)
        join_waiter(&waiters[i], HEARTH_OK);
}

Test(waiters, a_large_one_is_passed_so_often_and_no_more, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter large, small;
    start_waiter(&large, LIMIT / 2);
    for (unsigned i = 0; i < HEARTH__WAIT_PASSES; i++) {
        start_waiter(&small, KIB);
        hearth__budget_room_give(&budget, KIB);
        join_waiter(&small, HEARTH_OK);
    }
    start_waiter(&small, KIB);
    for (size_t given = KIB; given <= LIMIT / 2; given += KIB) {
        hearth__budget_room_give(&budget, KIB);
        cr_assert_eq(hearth__budget_waiter_count(&budget),
                     given < LIMIT / 2 ? 2 : 1 + !is_done(&large));
    }
    join_waiter(&large, HEARTH_OK);
    cr_assert_not(is_done(&small));
    hearth__budget_room_give(&budget, KIB);
    join_waiter(&small, HEARTH_OK);
}

Test(waiters, who_may_wait_stays_behind_the_starved, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT - KIB);
    struct waiter large;
    start_waiter(&large, LIMIT / 2);
    uint32_t polite = HEARTH_PRIORITY_NORMAL | HEARTH__ROOM_MAY_WAIT;
    for (unsigned i = 0; i < HEARTH__WAIT_PASSES; i++) {
        cr_assert(hearth__budget_room_take(&budget, KIB, polite), "%u", i);
        cr_assert_not(hearth__budget_room_take(&budget, KIB, polite), "there is none");
        hearth__budget_room_give(&budget, KIB);
    }
    cr_assert_not(hearth__budget_room_take(&budget, KIB, polite));
    cr_assert(hearth__budget_room_take(&budget, 0, polite), "nothing is always there");
    cr_assert(hearth__budget_room_take(&budget, KIB, HEARTH_PRIORITY_NORMAL), "it cannot wait");
    hearth__budget_room_give(&budget, LIMIT / 2);
    join_waiter(&large, HEARTH_OK);
    hearth__budget_room_give(&budget, KIB);
    cr_assert(hearth__budget_room_take(&budget, KIB, polite), "nobody waits");
}

Test(waiters, one_that_can_never_fit_holds_up_nobody, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter large, small;
    start_waiter(&large, LIMIT + KIB);
    for (unsigned i = 0; i < 2 * HEARTH__WAIT_PASSES; i++) {
        start_waiter(&small, KIB);
        hearth__budget_room_give(&budget, KIB);
        join_waiter(&small, HEARTH_OK);
    }
    hearth__budget_room_give(&budget, LIMIT);
    hearth__budget_set_live_limit(&budget, LIMIT + KIB, 0);
    join_waiter(&large, HEARTH_OK);
}

Test(waiters, the_reserve_serves_high_priority_first, .init = open_shared, .fini = close_shared)
{
    hearth__budget_set_live_limit(&budget, LIMIT, 2 * KIB);
    fill(LIMIT);
    struct waiter normal, high;
    start_waiter(&normal, KIB);
    start_high_waiter(&high, KIB);
    hearth__budget_room_give(&budget, KIB);
    join_waiter(&high, HEARTH_OK);
    hearth__budget_room_give(&budget, 2 * KIB);
    cr_assert_not(is_done(&normal));
    hearth__budget_room_give(&budget, KIB);
    join_waiter(&normal, HEARTH_OK);
}

Test(waiters, a_starved_normal_one_does_not_stop_high_ones, .init = open_shared,
     .fini = close_shared)
{
    fill(LIMIT);
    struct waiter large, high;
    start_waiter(&large, LIMIT / 2);
    for (unsigned i = 0; i < 2 * HEARTH__WAIT_PASSES; i++) {
        start_high_waiter(&high, KIB);
        hearth__budget_room_give(&budget, KIB);
        join_waiter(&high, HEARTH_OK);
    }
    hearth__budget_room_give(&budget, LIMIT / 2);
    join_waiter(&large, HEARTH_OK);
}

Test(waiters, raising_the_limit_serves_them, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiters[3];
    for (unsigned i = 0; i < 3; i++)
        start_waiter(&waiters[i], KIB);
    hearth__budget_set_live_limit(&budget, LIMIT + 2 * KIB, 0);
    join_waiter(&waiters[0], HEARTH_OK);
    join_waiter(&waiters[1], HEARTH_OK);
    cr_assert_not(is_done(&waiters[2]));
    hearth__budget_set_live_limit(&budget, HEARTH_UNBOUNDED, 0);
    join_waiter(&waiters[2], HEARTH_OK);
}

Test(waiters, a_turn_that_is_no_use_keeps_the_place, .init = open_shared, .fini = close_shared)
{
    hearth__budget_set_live_limit(&budget, HEARTH_UNBOUNDED, 0);
    struct waiter first, second;
    start_waiter_for_slots(&first, KIB);
    start_waiter_for_slots(&second, KIB);
    await_tries(&first, 1);
    await_tries(&second, 1);
    assert_size(hearth__budget_live_capacity(&budget), 0);
    /* Something came back that is of no use: each has one turn. */
    hearth__budget_room_give(&budget, 0);
    await_tries(&first, 2);
    await_tries(&second, 2);
    /* Room alone is nothing new for them. */
    cr_assert(hearth__budget_room_take(&budget, KIB, 0));
    hearth__budget_room_undo(&budget, KIB);
    put_slot();
    join_waiter(&first, HEARTH_OK);
    await_tries(&second, 3);
    cr_assert_not(is_done(&second));
    put_slot();
    join_waiter(&second, HEARTH_OK);
    assert_size(second.tries, 4);
    assert_size(hearth__budget_live_capacity(&budget), 2 * KIB);
}

Test(waiters, what_a_try_puts_back_is_no_return, .init = open_shared, .fini = close_shared)
{
    struct hearth__wait wait =
        HEARTH__WAIT_INIT(4 * KIB, HEARTH_PRIORITY_NORMAL, hearth__now_ns() + 30 * MILLISECOND);
    struct waiter rival;
    size_t tries = 0;
    assert_ok(hearth__budget_wait(&budget, &wait));
    start_waiter_for_slots(&rival, KIB);
    do {
        tries++;
        /* Half a bulk, which goes home again. */
        hearth__budget_room_give(&budget, KIB);
        wait.units -= hearth__room_units(KIB);
    } while (hearth__budget_wait(&budget, &wait) == HEARTH_OK);
    assert_size(tries, 1);
    await_tries(&rival, 1);
    put_slot();
    join_waiter(&rival, HEARTH_OK);
    assert_size(hearth__budget_live_capacity(&budget), KIB);
}

Test(waiters, a_cancel_names_one_or_all, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiters[3];
    for (unsigned i = 0; i < 3; i++)
        start_waiter(&waiters[i], KIB);
    size_t woken = 9;
    hearth__budget_cancel(&budget, waiters[1].token, &woken);
    assert_size(woken, 1);
    join_waiter(&waiters[1], HEARTH_TIMEOUT);
    cr_assert(waiters[1].wait.cancelled);
    cr_assert_not(is_done(&waiters[0]) || is_done(&waiters[2]));
    hearth__budget_cancel(&budget, 0, &woken);
    assert_size(woken, 2);
    join_waiter(&waiters[0], HEARTH_TIMEOUT);
    join_waiter(&waiters[2], HEARTH_TIMEOUT);
    cr_assert(waiters[0].wait.cancelled && waiters[2].wait.cancelled);
    assert_size(hearth__budget_live_capacity(&budget), LIMIT);
    hearth__budget_cancel(&budget, 0, NULL);
}

Test(waiters, a_cancel_before_the_wait_ends_it_once, .init = open_shared, .fini = close_shared)
{
    uint64_t token = hearth__thread_token();
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
    size_t woken = 9;
    hearth__budget_cancel(&budget, token, &woken);
    hearth__budget_cancel(&budget, token, NULL);
    hearth__budget_cancel(&budget, 0, NULL);
    assert_size(woken, 0);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    cr_assert(wait.cancelled);
    assert_ok(hearth__budget_wait(&budget, &wait));
    cr_assert_not(wait.cancelled);
    hearth__budget_wait_end(&budget, &wait);
}

Test(waiters, a_cancel_during_a_turn_ends_this_wait_or_the_next, .init = open_shared,
     .fini = close_shared)
{
    uint64_t token = hearth__thread_token();
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
    assert_ok(hearth__budget_wait(&budget, &wait));
    hearth__budget_cancel(&budget, token, NULL);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    cr_assert(wait.cancelled);
    assert_ok(hearth__budget_wait(&budget, &wait));
    hearth__budget_cancel(&budget, token, NULL);
    hearth__budget_wait_end(&budget, &wait);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    cr_assert(wait.cancelled);
    assert_ok(hearth__budget_wait(&budget, &wait));
    hearth__budget_cancel(&budget, 0, NULL);
    hearth__budget_wait_end(&budget, &wait);
    assert_ok(hearth__budget_wait(&budget, &wait));
    hearth__budget_wait_end(&budget, &wait);
}

Test(waiters, cancels_are_remembered_for_so_many, .init = open_shared, .fini = close_shared)
{
    uint64_t token = hearth__thread_token();
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
    hearth__budget_cancel(&budget, token, NULL);
    for (uint64_t i = 1; i < HEARTH__CANCELS_MOST; i++)
        hearth__budget_cancel(&budget, token + i, NULL);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    hearth__budget_cancel(&budget, token, NULL);
    for (uint64_t i = 1; i <= HEARTH__CANCELS_MOST; i++)
        hearth__budget_cancel(&budget, token + i, NULL);
    assert_ok(hearth__budget_wait(&budget, &wait));
    hearth__budget_wait_end(&budget, &wait);
}

Test(waiters, close_wakes_all, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiters[3];
    for (unsigned i = 0; i < 3; i++)
        start_waiter(&waiters[i], KIB);
    hearth__budget_close(&budget);
    for (unsigned i = 0; i < 3; i++)
        join_waiter(&waiters[i], HEARTH_CLOSED);
    struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_CLOSED);
    hearth__budget_room_give(&budget, LIMIT);
    assert_size(hearth__budget_waiter_count(&budget), 0);
}

Test(waiters, a_bulk_waits_for_all_of_it, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter bulk;
    start_waiter(&bulk, 8 * KIB);
    for (unsigned i = 0; i < 7; i++)
        hearth__budget_room_give(&budget, KIB);
    cr_assert_not(is_done(&bulk));
    assert_size(hearth__budget_live_capacity(&budget), LIMIT - 7 * KIB);
    hearth__budget_room_give(&budget, KIB);
    join_waiter(&bulk, HEARTH_OK);
    assert_size(hearth__budget_live_capacity(&budget), LIMIT);
}

Test(waiters, a_forked_child_has_none, .init = open_shared, .fini = close_shared)
{
    fill(LIMIT);
    struct waiter waiter;
    start_waiter(&waiter, KIB);
    pid_t child = fork();
    if (child == 0) {
        hearth__budget_after_fork_child(&budget, hearth__budget_live_capacity(&budget));
        hearth__budget_room_give(&budget, KIB);
        struct hearth__wait wait = HEARTH__WAIT_INIT(KIB, HEARTH_PRIORITY_NORMAL, HEARTH_NO_WAIT);
        bool right = hearth__budget_waiter_count(&budget) == 0 &&
                     hearth__budget_wait(&budget, &wait) == HEARTH_OK;
        hearth__budget_wait_end(&budget, &wait);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    hearth__budget_room_give(&budget, KIB);
    join_waiter(&waiter, HEARTH_OK);
}
