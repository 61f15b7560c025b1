/* SPDX-License-Identifier: Apache-2.0 */
/* Credit under the ceiling, and room under the limit on live bytes. Waiting is in test_waiters.c. */
#include "concurrent/budget.h"
#include "support.h"

#include <pthread.h>
#include <string.h>

static void open_budget(struct hearth__budget *budget, size_t ceiling, size_t limit, size_t reserve)
{
    struct hearth__budget_limits limits = {
        .ceiling = ceiling,
        .grant = MIB,
        .live_limit = limit,
        .reserve = reserve,
        .metered = true,
    };
    /* Memory that was something else before. */
    memset(budget, 0xa5, sizeof *budget);
    hearth__budget_init(budget, &limits);
}

Test(budget, charge_takes_between_least_and_wish)
{
    struct hearth__budget budget;
    open_budget(&budget, 10 * MIB, HEARTH_UNBOUNDED, 0);
    int64_t all = hearth__units(10 * MIB);
    cr_assert_eq(hearth__budget_charge(&budget, 1, 100), 100);
    cr_assert_eq(hearth__budget_charge(&budget, 100, 1), 100,
                 "a wish below the least is the least");
    cr_assert_eq(hearth__budget_charge(&budget, 1, INT64_MAX), all - 200);
    cr_assert_eq(hearth__budget_charge(&budget, 1, 1), 0);
    hearth__budget_refund(&budget, 5);
    cr_assert_eq(hearth__budget_charge(&budget, 6, 10), 0, "less than the least is nothing");
    cr_assert_eq(hearth__budget_charge(&budget, 4, 10), 5);
    hearth__budget_fini(&budget);
}

Test(budget, the_ceiling_moves_with_what_is_charged)
{
    struct hearth__budget budget;
    open_budget(&budget, HEARTH_UNBOUNDED, HEARTH_UNBOUNDED, 0);
    cr_assert_not(hearth__budget_bounded(&budget));
    int64_t weight = (int64_t)hearth__weight_of(3, 3 * MIB);
    cr_assert_eq(hearth__budget_charge(&budget, weight, weight), weight);
    hearth__budget_set_ceiling(&budget, 2 * MIB);
    cr_assert(hearth__budget_bounded(&budget));
    assert_size(hearth__budget_ceiling(&budget), 2 * MIB);
    cr_assert_eq(hearth__budget_missing(&budget), weight - hearth__units(2 * MIB));
    cr_assert_eq(hearth__budget_charge(&budget, 1, 1), 0);
    hearth__budget_refund(&budget, weight);
    cr_assert_eq(hearth__budget_missing(&budget), 0);
    cr_assert_eq(hearth__budget_charge(&budget, 1, INT64_MAX), hearth__units(2 * MIB));
    hearth__budget_set_ceiling(&budget, HEARTH_UNBOUNDED);
    cr_assert_not(hearth__budget_bounded(&budget));
    hearth__budget_fini(&budget);
}

struct setter {
    struct hearth__budget *budget;
    size_t bytes;
};

static void *set_ceilings(void *argument)
{
    const struct setter *setter = argument;
    for (size_t i = 1; i <= 20000; i++)
        hearth__budget_set_ceiling(setter->budget, setter->bytes + i * MIB);
    return NULL;
}

Test(budget, racing_setters_leave_credit_that_fits_the_ceiling)
{
    struct hearth__budget budget;
    open_budget(&budget, MIB, HEARTH_UNBOUNDED, 0);
    struct setter setters[2] = {{&budget, 0}, {&budget, 7 * KIB}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, set_ceilings, &setters[i]), 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(hearth__budget_charge(&budget, 1, INT64_MAX),
                 hearth__units(hearth__budget_ceiling(&budget)));
    hearth__budget_fini(&budget);
}

Test(budget, room_ends_at_the_limit)
{
    struct hearth__budget budget;
    open_budget(&budget, HEARTH_UNBOUNDED, 1000, 0);
    assert_size(hearth__budget_live_limit(&budget), 1000);
    cr_assert_not(hearth__budget_room_take(&budget, 961, 0), "units of 64 bytes, never above");
    cr_assert(hearth__budget_room_take(&budget, 960, 0));
    cr_assert_not(hearth__budget_room_take(&budget, 1, 0));
    cr_assert(hearth__budget_room_take(&budget, 0, 0));
    assert_size(hearth__budget_live_capacity(&budget), 960);
    hearth__budget_room_give(&budget, 960);
    hearth__budget_room_give(&budget, 0);
    assert_size(hearth__budget_live_capacity(&budget), 0);
    cr_assert_not(hearth__budget_room_take(&budget, SIZE_MAX, 0));
    cr_assert_not(hearth__budget_room_take(&budget, SIZE_MAX / 2, 0));
    hearth__budget_fini(&budget);
}

Test(budget, the_reserve_is_for_high_priority)
{
    struct hearth__budget budget;
    open_budget(&budget, HEARTH_UNBOUNDED, 10 * KIB, 4 * KIB);
    assert_size(hearth__budget_reserve(&budget), 4 * KIB);
    cr_assert_not(hearth__budget_room_take(&budget, 7 * KIB, HEARTH_PRIORITY_NORMAL));
    cr_assert(hearth__budget_room_take(&budget, 6 * KIB, HEARTH_PRIORITY_NORMAL));
    cr_assert_not(hearth__budget_room_take(&budget, 64, HEARTH_PRIORITY_NORMAL));
    cr_assert(hearth__budget_room_take(&budget, 3 * KIB, HEARTH_PRIORITY_HIGH));
    cr_assert_not(hearth__budget_room_take(&budget, 2 * KIB, HEARTH_PRIORITY_HIGH));
    cr_assert(hearth__budget_room_take(&budget, KIB, HEARTH_PRIORITY_HIGH | HEARTH__ROOM_MAY_WAIT));
    hearth__budget_room_give(&budget, 5 * KIB);
    cr_assert_not(hearth__budget_room_take(&budget, 2 * KIB, HEARTH_PRIORITY_NORMAL));
    cr_assert(hearth__budget_room_take(&budget, KIB, HEARTH_PRIORITY_NORMAL));
    hearth__budget_fini(&budget);
}

Test(budget, the_limit_changes_under_live_bytes)
{
    struct hearth__budget budget;
    open_budget(&budget, HEARTH_UNBOUNDED, HEARTH_UNBOUNDED, 0);
    assert_size(hearth__budget_live_limit(&budget), HEARTH_UNBOUNDED);
    cr_assert(hearth__budget_room_take(&budget, 10 * MIB, 0));
    assert_size(hearth__budget_live_capacity(&budget), 10 * MIB);
    hearth__budget_set_live_limit(&budget, 4 * MIB, MIB);
    assert_size(hearth__budget_live_limit(&budget), 4 * MIB);
    assert_size(hearth__budget_reserve(&budget), MIB);
    assert_size(hearth__budget_live_capacity(&budget), 10 * MIB);
    hearth__budget_room_give(&budget, 7 * MIB);
    cr_assert_not(hearth__budget_room_take(&budget, 64, HEARTH_PRIORITY_NORMAL));
    cr_assert(hearth__budget_room_take(&budget, MIB, HEARTH_PRIORITY_HIGH));
    hearth__budget_set_live_limit(&budget, 6 * MIB, 0);
    cr_assert(hearth__budget_room_take(&budget, 2 * MIB, HEARTH_PRIORITY_NORMAL));
    assert_size(hearth__budget_live_capacity(&budget), 6 * MIB);
    hearth__budget_set_live_limit(&budget, HEARTH_UNBOUNDED, 0);
    cr_assert(hearth__budget_room_take(&budget, (size_t)1 << 50, HEARTH_PRIORITY_NORMAL));
    assert_size(hearth__budget_live_capacity(&budget), 6 * MIB + ((size_t)1 << 50));
    hearth__budget_fini(&budget);
}

Test(budget, what_is_not_metered_is_not_counted)
{
    struct hearth__budget budget;
    struct hearth__budget_limits limits = {HEARTH_UNBOUNDED, MIB, HEARTH_UNBOUNDED, 0, false};
    hearth__budget_init(&budget, &limits);
    cr_assert(hearth__budget_room_take(&budget, SIZE_MAX, 0));
    hearth__budget_room_give(&budget, 5);
    assert_size(hearth__budget_live_capacity(&budget), 0);
    struct hearth__wait wait = HEARTH__WAIT_INIT(1, HEARTH_PRIORITY_NORMAL, UINT64_MAX);
    assert_status(hearth__budget_wait(&budget, &wait), HEARTH_TIMEOUT);
    hearth__budget_fini(&budget);
}

#define TAKERS 3
#define ROUNDS 30000

static struct hearth__budget shared;
static _Atomic(size_t) held;

static void *take_and_give(void *argument)
{
    size_t bytes = *(const size_t *)argument;
    for (unsigned i = 0; i < ROUNDS; i++) {
        if (!hearth__budget_room_take(&shared, bytes, 0))
            continue;
        size_t now = hearth__fetch_add_acq_rel(&held, bytes) + bytes;
        cr_assert_leq(now, 8 * KIB);
        (void)hearth__fetch_sub_acq_rel(&held, bytes);
        hearth__budget_room_give(&shared, bytes);
    }
    return NULL;
}

static void *change_limit(void *argument)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        hearth__budget_set_live_limit(&shared, i % 3 == 0 ? 4 * KIB : 8 * KIB, i % 2 * KIB);
    return argument;
}

Test(budget, live_never_passes_the_limit)
{
    open_budget(&shared, HEARTH_UNBOUNDED, 8 * KIB, 0);
    size_t sizes[TAKERS] = {KIB, 3 * KIB, 5 * KIB};
    pthread_t threads[TAKERS + 1];
    for (unsigned i = 0; i < TAKERS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, take_and_give, &sizes[i]), 0);
    cr_assert_eq(pthread_create(&threads[TAKERS], NULL, change_limit, NULL), 0);
    for (unsigned i = 0; i < ROUNDS; i++)
        cr_assert_leq(hearth__budget_live_capacity(&shared), 8 * KIB, "and no reader sees more");
    for (unsigned i = 0; i <= TAKERS; i++)
        pthread_join(threads[i], NULL);
    assert_size(hearth__budget_live_capacity(&shared), 0);
    hearth__budget_fini(&shared);
}
