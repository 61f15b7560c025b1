/* SPDX-License-Identifier: Apache-2.0 */
#include "waiter_threads.h"

#include <sched.h>

struct hearth__budget budget;
static _Atomic(int) slots;

void open_shared(void)
{
    struct hearth__budget_limits limits = {HEARTH_UNBOUNDED, MIB, LIMIT, 0, true};
    hearth__budget_init(&budget, &limits);
}

void close_shared(void)
{
    hearth__budget_fini(&budget);
}

void fill(size_t bytes)
{
    cr_assert(hearth__budget_room_take(&budget, bytes, HEARTH_PRIORITY_HIGH));
}

static bool take_slot(void)
{
    int free_slots = hearth__load_relaxed(&slots);
    while (free_slots > 0) {
        if (hearth__cas_weak_acquire(&slots, &free_slots, free_slots - 1))
            return true;
    }
    return false;
}

void put_slot(void)
{
    (void)hearth__fetch_add_release(&slots, 1);
    hearth__budget_room_give(&budget, 0);
}

static void *wait_for_it(void *argument)
{
    struct waiter *waiter = argument;
    hearth__store_release(&waiter->token, hearth__thread_token());
    while ((waiter->status = hearth__budget_wait(&budget, &waiter->wait)) == HEARTH_OK) {
        bool use = !waiter->needs_slot || take_slot();
        (void)hearth__fetch_add_release(&waiter->tries, 1);
        if (use) {
            hearth__budget_wait_end(&budget, &waiter->wait);
            break;
        }
    }
    hearth__store_release(&waiter->done, true);
    return NULL;
}

static void start(struct waiter *waiter, size_t bytes, uint32_t priority, bool needs_slot)
{
    *waiter = (struct waiter){.wait = HEARTH__WAIT_INIT(bytes, priority, UINT64_MAX)};
    waiter->needs_slot = needs_slot;
    size_t before = hearth__budget_waiter_count(&budget);
    cr_assert_eq(pthread_create(&waiter->thread, NULL, wait_for_it, waiter), 0);
    while (hearth__budget_waiter_count(&budget) == before)
        (void)sched_yield();
}

void start_waiter(struct waiter *waiter, size_t bytes)
{
    start(waiter, bytes, HEARTH_PRIORITY_NORMAL, false);
}

void start_high_waiter(struct waiter *waiter, size_t bytes)
{
    start(waiter, bytes, HEARTH_PRIORITY_HIGH, false);
}

void start_waiter_for_slots(struct waiter *waiter, size_t bytes)
{
    start(waiter, bytes, HEARTH_PRIORITY_NORMAL, true);
}

bool is_done(const struct waiter *waiter)
{
    return hearth__load_acquire(&waiter->done);
}

static void nap(void)
{
    (void)usleep(200);
}

void await_tries(struct waiter *waiter, size_t tries)
{
    uint64_t give_up = hearth__now_ns() + 20000 * MILLISECOND;
    while (hearth__load_acquire(&waiter->tries) < tries) {
        cr_assert_lt(hearth__now_ns(), give_up, "%zu turns of %zu",
                     hearth__load_relaxed(&waiter->tries), tries);
        nap();
    }
    assert_size(waiter->tries, tries);
}

void join_waiter(struct waiter *waiter, enum hearth_status status)
{
    uint64_t give_up = hearth__now_ns() + 20000 * MILLISECOND;
    while (!is_done(waiter)) {
        cr_assert_lt(hearth__now_ns(), give_up, "it still waits");
        nap();
    }
    cr_assert_eq(pthread_join(waiter->thread, NULL), 0);
    assert_status(waiter->status, status);
}
