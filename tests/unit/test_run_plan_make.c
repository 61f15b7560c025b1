/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making run plans: random runs against oracles that look at all pairs and at each unit of the slab, what is
 * planned out, slices, refusals, records that are united. Following plans is in test_run_plan.c. Not covered: how
 * good layouts are, see test_pack_traces.c, and failing memory.
 */
#include "pack_check.h"
#include "plan_check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* A run of `count` requests, each returned just before the next. */
static struct hearth__run_record *one_by_one(uint32_t count)
{
    struct hearth__run_record *record = plan_record(count);
    for (uint32_t i = 0; i < count; i++)
        record->requests[i].end = i + 1;
    return record;
}

Test(run_plan_make, random_runs_are_laid_out_right)
{
    uint64_t state = 1;
    for (uint32_t round = 0; round < 1500; round++) {
        uint32_t count = HEARTH__RUN_LEAST + pack_draw(&state, 90);
        struct hearth__run_record *record = plan_record(count);
        record->key = round;
        plan_random_record(record, 1 + pack_draw(&state, 40), round % 4 * 10, &state);
        struct hearth__plan *plan = plan_made(record, UINT64_MAX);
        plan_check(plan, record);
        /* Each entry splits two pieces at most, so that there are fewer than three predecessors for each. */
        cr_assert_lt(plan->edge_count, 3 * count);
        hearth__plan_free(plan);
        free(record);
    }
}

Test(run_plan_make, slices_make_no_difference)
{
    uint64_t state = 2;
    for (uint32_t round = 0; round < 60; round++) {
        struct hearth__run_record *record = plan_record(HEARTH__RUN_LEAST + pack_draw(&state, 60));
        plan_random_record(record, 20, 10, &state);
        struct hearth__plan *whole = plan_made(record, UINT64_MAX);
        struct hearth__plan *thin = plan_made(record, 0);
        struct hearth__plan *thick = plan_made(record, 1 + pack_draw(&state, 3000));
        plan_check(thin, record);
        cr_assert(plan_same(whole, thin));
        cr_assert(plan_same(whole, thick));
        hearth__plan_free(whole);
        hearth__plan_free(thin);
        hearth__plan_free(thick);
        free(record);
    }
}

Test(run_plan_make, work_bounds_a_slice)
{
    struct hearth__run_record *record = one_by_one(2000);
    struct hearth__planning *planning = hearth__planning_begin(record);
    size_t steps = 1;
    while (!hearth__planning_step(planning, 2000))
        steps++;
    cr_assert_gt(steps, 100, "%zu steps", steps);
    cr_assert(hearth__planning_step(planning, 2000), "nothing is left");
    struct hearth__plan *plan = hearth__planning_end(planning);
    plan_check(plan, record);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, ends_before_it_is_done)
{
    struct hearth__run_record *record = one_by_one(100);
    struct hearth__planning *planning = hearth__planning_begin(record);
    cr_assert_null(hearth__planning_end(planning));
    planning = hearth__planning_begin(record);
    while (!hearth__planning_step(planning, 0)) {
        struct hearth__planning *other = hearth__planning_begin(record);
        (void)hearth__planning_step(other, 300);
        cr_assert_null(hearth__planning_end(other));
    }
    hearth__plan_free(hearth__planning_end(planning));
    hearth__plan_free(NULL);
    free(record);
}

Test(run_plan_make, one_after_the_other_is_one_place)
{
    struct hearth__run_record *record = one_by_one(20);
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->bytes, 64);
    assert_size(plan->edge_count, 19);
    for (uint32_t i = 1; i < 20; i++)
        assert_size(plan->edges[plan->entries[i].first], i - 1);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, half_open_lives)
{
    /* Returned after two requests: what comes next may have its bytes, what came second may not. */
    struct hearth__run_record *record = one_by_one(16);
    record->requests[0].end = 2;
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->bytes, 128);
    cr_assert_neq(plan->offsets[0], plan->offsets[1]);
    hearth__plan_free(plan);
    /* Sooner than it was asked for is not possible; it lives for one request all the same. */
    record->requests[0].end = 0;
    record->requests[7].end = 3;
    plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->bytes, 64);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, remote_returns_have_a_margin)
{
    struct hearth__run_record *record = one_by_one(16);
    record->requests[3].remote = true;
    record->requests[3].end = 4;
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->bytes, 128);
    for (uint32_t i = 4; i < 8; i++)
        cr_assert_neq(plan->offsets[i], plan->offsets[3]);
    hearth__plan_free(plan);
    /* Beyond the end of the run. */
    record->requests[15].remote = true;
    record->requests[14].remote = true;
    plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, what_is_planned_out)
{
    struct hearth__run_record *record = one_by_one(18);
    record->requests[2].end = HEARTH__RUN_NO_END;
    record->requests[4].taken = true;
    record->requests[6].most = HEARTH__PACK_TOTAL_MAX + 1;
    record->requests[8].size = record->requests[8].most = SIZE_MAX;
    record->requests[17].end = HEARTH__RUN_NO_END;
    /* That another thread returns it is no matter where it is never returned. */
    record->requests[17].remote = true;
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->off_count, 5);
    assert_size(plan->bytes, 64);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, no_size_takes_a_unit)
{
    struct hearth__run_record *record = one_by_one(16);
    for (uint32_t i = 0; i < 16; i++)
        record->requests[i] = (struct hearth__run_request){.end = 16};
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->bytes, 16 * 64);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, room_for_the_largest_size)
{
    struct hearth__run_record *record = one_by_one(16);
    record->requests[5].most = 1000;
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    assert_size(plan->units[5], 16);
    assert_size(plan->entries[5].size, 64);
    hearth__plan_free(plan);
    free(record);
}

Test(run_plan_make, refusals)
{
    struct hearth__run_record *record = one_by_one(HEARTH__RUN_LEAST);
    record->count--;
    cr_assert_null(hearth__planning_begin(record));
    record->count++;
    record->overflow = true;
    cr_assert_null(hearth__planning_begin(record));
    record->overflow = false;
    for (uint32_t i = 0; i < record->count; i++)
        record->requests[i].taken = true;
    cr_assert_null(hearth__planning_begin(record), "nothing to plan");
    record->requests[9].taken = false;
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    hearth__plan_free(plan);
    /* More at a time than a slab may have. */
    for (uint32_t i = 0; i < record->count; i++)
        record->requests[i] = (struct hearth__run_request){
            .size = 1, .most = HEARTH__PACK_TOTAL_MAX / 8, .end = HEARTH__RUN_LEAST};
    cr_assert_null(plan_made(record, 1000));
    free(record);
}

Test(run_plan_make, equal_is_key_and_sizes)
{
    struct hearth__run_record *a = one_by_one(16);
    struct hearth__run_record *b = plan_record(17);
    cr_assert_not(hearth__run_record_equal(a, b), "longer");
    b->count = 16;
    cr_assert(hearth__run_record_equal(a, b), "whatever the ends");
    b->key = 1;
    cr_assert_not(hearth__run_record_equal(a, b));
    b->key = 0;
    b->requests[15].size++;
    cr_assert_not(hearth__run_record_equal(a, b));
    free(a);
    free(b);
}

Test(run_plan_make, unite_takes_the_longer_and_the_larger)
{
    struct hearth__run_record *a = one_by_one(16);
    struct hearth__run_record *b = one_by_one(16);
    a->requests[0].end = 7;
    b->requests[1].end = 9;
    b->requests[2].end = HEARTH__RUN_NO_END;
    a->requests[3].end = HEARTH__RUN_NO_END;
    a->requests[4].most = 100;
    b->requests[5].most = 200;
    a->requests[6].taken = true;
    b->requests[7].taken = true;
    a->requests[8].remote = true;
    b->requests[9].remote = true;
    hearth__run_record_unite(a, b);
    assert_size(a->requests[0].end, 7);
    assert_size(a->requests[1].end, 9);
    assert_size(a->requests[2].end, HEARTH__RUN_NO_END);
    assert_size(a->requests[3].end, HEARTH__RUN_NO_END);
    assert_size(a->requests[4].most, 100);
    assert_size(a->requests[5].most, 200);
    cr_assert(a->requests[6].taken && a->requests[7].taken && !a->requests[5].taken);
    cr_assert(a->requests[8].remote && a->requests[9].remote && !a->requests[5].remote);
    assert_size(a->requests[10].end, 11);
    free(a);
    free(b);
}

/* The longest run there may be, with wide and narrow buffers in turns, which is what makes most pieces. */
Test(run_plan_make, the_longest_run)
{
    struct hearth__run_record *record = plan_record(HEARTH__RUN_MOST);
    uint64_t state = 3;
    for (uint32_t i = 0; i < record->count; i++) {
        size_t size = i % 512 == 0 ? 200000 : 1 + pack_draw(&state, 2000);
        uint32_t end = i % 512 == 0 ? i + 1 : i + 1 + pack_draw(&state, 512 - i % 512);
        record->requests[i] = (struct hearth__run_request){.size = size, .most = size, .end = end};
    }
    struct hearth__plan *plan = plan_made(record, 1000000);
    cr_assert_not_null(plan);
    cr_assert_lt(plan->edge_count, 3 * plan->count);
    hearth__plan_free(plan);
    free(record);
}
