/* SPDX-License-Identifier: Apache-2.0 */
/* Whose turn it is, and who may pass whom; see the essay in waiters.c. All under the lock, but for passes. */
#include "concurrent/budget.h"
#include "concurrent/thread.h"
#include "concurrent/waiters.h"

#include <hearth/allocator.h>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void *hearth__wait_address(struct hearth__wait *wait)
{
    return (void *)&wait->state;
}

void hearth__wait_wake(struct hearth__wait *wait)
{
    (void)syscall(SYS_futex, hearth__wait_address(wait), FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void hearth__waiters_count_return(struct hearth__waiters *waiters, bool storage, size_t turns)
{
    size_t count = hearth__load_relaxed(&waiters->count);
    waiters->returns += storage;
    size_t most = turns < count ? waiters->turns_most + turns : count;
    waiters->turns_most = most < count ? most : count;
}

/* How often this waiter may still be passed. */
static uint32_t passes_left(const struct hearth__wait *wait)
{
    return wait->passed < HEARTH__WAIT_PASSES ? HEARTH__WAIT_PASSES - wait->passed : 0;
}

static bool is_possible(const struct hearth__budget *budget, const struct hearth__wait *wait)
{
    return hearth__budget_room_possible(budget, hearth__room_units(wait->bytes), wait->priority);
}

/* The first waiter that can be passed. */
static struct hearth__wait *first_sleeper(const struct hearth__budget *budget)
{
    struct hearth__wait *wait = budget->waiters.first;
    while (wait != NULL &&
           !(hearth__wait_is(wait, HEARTH__WAIT_SLEEPS) && is_possible(budget, wait)))
        wait = wait->next;
    return wait;
}

/* Charge the first waiter with the passes that others used. */
static void count_passes(struct hearth__budget *budget)
{
    struct hearth__waiters *waiters = &budget->waiters;
    int32_t left = hearth__load_relaxed(&waiters->passes);
    struct hearth__wait *wait = first_sleeper(budget);
    if (wait != NULL && left < waiters->passes_lent)
        wait->passed += (uint32_t)(waiters->passes_lent - left);
    waiters->passes_lent = left;
}

/* As many as the first waiter has now. By addition: whoever asks meanwhile must not find none. */
static void lend_passes(struct hearth__budget *budget)
{
    struct hearth__waiters *waiters = &budget->waiters;
    const struct hearth__wait *wait = first_sleeper(budget);
    int32_t lent = wait == NULL ? HEARTH__WAIT_PASSES : (int32_t)passes_left(wait);
    (void)hearth__fetch_add_relaxed(&waiters->passes, lent - waiters->passes_lent);
    waiters->passes_lent = lent;
}

bool hearth__waiters_pass(struct hearth__waiters *waiters)
{
    int32_t passes = hearth__load_relaxed(&waiters->passes);
    do {
        if (passes <= 0)
            return false;
    } while (!hearth__cas_weak_relaxed(&waiters->passes, &passes, passes - 1));
    return true;
}

void hearth__waiters_pass_undo(struct hearth__waiters *waiters)
{
    (void)hearth__fetch_add_relaxed(&waiters->passes, 1);
}

/* A walk through the queue that gives turns. */
struct walk {
    size_t behind;  /* turns under way of waiters that the walk has not come to */
    size_t given;   /* turns */
    size_t most[2]; /* to be given to each priority */
};

/* Whoever comes after this one in the queue would pass it. */
static void hold_back(const struct hearth__budget *budget, struct walk *walk,
                      const struct hearth__wait *wait)
{
    if (!is_possible(budget, wait))
        return;
    size_t left = passes_left(wait);
    size_t most = walk->given + (left > walk->behind ? left - walk->behind : 0);
    unsigned last = wait->priority == HEARTH_PRIORITY_HIGH;
    for (unsigned priority = 0; priority <= last; priority++) {
        if (most < walk->most[priority])
            walk->most[priority] = most;
    }
}

static bool give_turn(struct hearth__budget *budget, struct walk *walk, struct hearth__wait *wait)
{
    uint64_t units = hearth__room_units(wait->bytes);
    bool high = wait->priority == HEARTH_PRIORITY_HIGH;
    if (wait->seen == budget->waiters.returns || walk->given >= walk->most[high] ||
        !hearth__budget_room_reserve(budget, units, wait->priority))
        return false;
    wait->units = units;
    wait->asked = units;
    wait->began = ++budget->waiters.clock;
    wait->seen = budget->waiters.returns;
    budget->waiters.turns++;
    walk->given++;
    hearth__store_relaxed(&wait->state, (uint32_t)HEARTH__WAIT_TURN);
    if (wait->token != hearth__thread_token_peek())
        hearth__wait_wake(wait);
    return true;
}

void hearth__waiters_give_turns(struct hearth__budget *budget)
{
    struct hearth__waiters *waiters = &budget->waiters;
    struct walk walk = {waiters->turns, 0, {SIZE_MAX, SIZE_MAX}};
    count_passes(budget);
    for (struct hearth__wait *wait = waiters->first;
         wait != NULL && waiters->turns < waiters->turns_most; wait = wait->next) {
        if (hearth__wait_is(wait, HEARTH__WAIT_TURN))
            walk.behind--;
        else if (give_turn(budget, &walk, wait))
            continue;
        hold_back(budget, &walk, wait);
    }
    /* Nobody is there to use more. */
    waiters->turns_most = waiters->turns;
    lend_passes(budget);
}
