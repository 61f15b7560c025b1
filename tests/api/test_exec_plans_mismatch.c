/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: runs that differ from what was learned.
 * Covered: a request more, less, moved, larger, smaller, at each place of a run; runs that stop early and runs
 * that go on; the rest of the run and the next one are served; runs that are different for good are learned anew.
 * Not covered: returns that differ (test_exec_plans_frees.c), random programs (test_exec_plans_random.c). */
#include "plan_runs.h"

enum { TAKES = 48 };

static struct memory memory;
static struct stage stage;
static struct script script;

static void setup(void)
{
    memory_init(&memory);
    stage_open(&stage, &memory, 0);
    misuse_record();
    script_net(&script, TAKES, 6);
    play_learn(&stage, &script);
}

static void teardown(void)
{
    EXPECT_SIZE(0, misuse.count);
    play_served(&stage, &script);
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_mismatch, .init = setup, .fini = teardown, .timeout = 120);

/* A run of which at most `lost` requests are not served by the plan, and after it a perfect one. */
static void differ(const struct script *other, size_t lost)
{
    struct hearth_exec_stats before = stats_of(stage.arena);
    size_t hits = play_run(&stage, other);
    struct hearth_exec_stats after = stats_of(stage.arena);
    cr_assert_geq(hits + lost, other->takes, "%zu of %zu requests were served", hits, other->takes);
    EXPECT_SIZE(other->takes, hits + (after.plan_misses - before.plan_misses));
    cr_assert_leq(after.plan_blocked - before.plan_blocked, after.plan_misses - before.plan_misses);
    EXPECT_SIZE(before.runs + 1, after.runs);
    EXPECT_SIZE(before.planned_runs + 1, after.planned_runs);
    play_served(&stage, &script);
}

Test(exec_plans_mismatch, an_extra_request)
{
    for (size_t number = 1; number < TAKES; number++) {
        struct script other = script_extra(&script, number, 64 * 1500 + 64 * number);
        differ(&other, 1);
    }
}

Test(exec_plans_mismatch, a_small_extra_request)
{
    for (size_t number = 1; number < TAKES; number++) {
        struct script other = script_extra(&script, number, 1);
        differ(&other, 4);
    }
}

Test(exec_plans_mismatch, two_extra_requests_in_a_row)
{
    for (size_t number = 1; number < TAKES; number++) {
        struct script other = script_extra(&script, number, 64 * 1025);
        other = script_extra(&other, number, 64 * 1026);
        differ(&other, 2);
    }
}

Test(exec_plans_mismatch, the_first_request_is_another)
{
    struct script other = script_extra(&script, 0, 64 * 1500);
    struct hearth_exec_stats before = stats_of(stage.arena);
    (void)play_run(&stage, &other); /* no plan begins like this */
    EXPECT_SIZE(before.runs + 1, stats_of(stage.arena).runs);
    play_served(&stage, &script);
    for (unsigned i = 0; i < 2; i++)
        (void)play_run(&stage, &other);
    play_served(&stage, &other);
}

Test(exec_plans_mismatch, a_missing_request)
{
    for (size_t number = 1; number + 1 < TAKES; number++) {
        struct script other = script_missing(&script, number);
        differ(&other, 2);
    }
}

Test(exec_plans_mismatch, several_missing_requests)
{
    for (size_t number = 2; number + 4 < TAKES; number += 3) {
        struct script other = script_missing(&script, number);
        other = script_missing(&other, number);
        other = script_missing(&other, number);
        differ(&other, 6);
    }
}

Test(exec_plans_mismatch, two_swapped_requests)
{
    size_t lost = 0;
    for (size_t number = 1; number + 1 < TAKES; number++) {
        struct script other = script_swapped(&script, number);
        lost += TAKES - play_run(&stage, &other);
        play_served(&stage, &script);
    }
    /* What comes between the two in the plan may have the place of the other one still. */
    cr_assert_leq(lost, 2 * TAKES, "%zu requests were not served", lost);
}

Test(exec_plans_mismatch, a_smaller_request)
{
    for (size_t number = 1; number < TAKES; number++) {
        size_t size = script.acts[0].value;
        for (size_t i = 0, takes = 0; takes <= number; i++) {
            takes += script.acts[i].take;
            size = script.acts[i].value;
        }
        struct script other = script_resized(&script, number, size - 63);
        differ(&other, size < 128); /* less than half is another request */
        other = script_resized(&script, number, size / 2);
        differ(&other, 3);
    }
}

Test(exec_plans_mismatch, a_larger_request)
{
    for (size_t number = 1; number < TAKES; number++) {
        struct script other = script_resized(&script, number, 64 * 1500 + number);
        differ(&other, 1);
    }
}

Test(exec_plans_mismatch, a_run_that_stops_early)
{
    for (size_t takes = 16; takes < TAKES; takes++) {
        struct script other = script_cut(&script, takes);
        differ(&other, 0);
    }
}

Test(exec_plans_mismatch, a_run_that_stops_at_once)
{
    for (size_t takes = 1; takes < 16; takes++) {
        struct script other = script_cut(&script, takes);
        (void)play_run(&stage, &other);
        play_served(&stage, &script);
    }
}

Test(exec_plans_mismatch, a_run_that_goes_on)
{
    for (size_t more = 1; more <= 6; more++) {
        struct script other = script_longer(&script, more, 64 * 5);
        differ(&other, more);
    }
}

Test(exec_plans_mismatch, a_run_that_goes_on_for_long)
{
    struct script other = script_longer(&script, 9 * TAKES, 640);
    cr_assert_geq(play_run(&stage, &other), TAKES);
    play_served(&stage, &script);
}

Test(exec_plans_mismatch, the_same_run_twice)
{
    struct script other = script_twice(&script);
    cr_assert_geq(play_run(&stage, &other), TAKES);
    play_served(&stage, &script);
}

/* Every fault at once, in each run; the plan stays. */
Test(exec_plans_mismatch, every_run_has_some_fault)
{
    size_t hits = 0, requests = 0;
    for (size_t run = 0; run < 200; run++) {
        size_t number = 1 + run * 17 % (TAKES - 2);
        struct script other = run % 4 == 0   ? script_extra(&script, number, 64 * (1100 + run))
                              : run % 4 == 1 ? script_missing(&script, number)
                              : run % 4 == 2 ? script_swapped(&script, number)
                                             : script_resized(&script, number, 64 * (1100 + run));
        hits += play_run(&stage, &other);
        requests += other.takes;
    }
    cr_assert_geq(hits * 100, requests * 90, "%zu of %zu requests were served", hits, requests);
    cr_assert_leq(hearth_exec_footprint(stage.arena), 3 * script_peak(&script));
    for (unsigned i = 0; i < 3; i++)
        (void)play_run(&stage, &script); /* may have been planned otherwise meanwhile */
}

Test(exec_plans_mismatch, another_model_with_the_same_beginning)
{
    struct script other = script;
    for (size_t number = 3; number < TAKES; number++)
        other = script_resized(&other, number, 64 * (1100 + 5 * number));
    size_t runs = 0;
    while (play_run(&stage, &other) < TAKES)
        cr_assert_lt(++runs, 8, "not learned after %zu runs", runs);
    /* What the lists had to serve until then goes when it was of no use for a while. */
    for (unsigned i = 0; i < 8; i++)
        (void)play_run(&stage, &other);
    play_served(&stage, &other);
    cr_assert_leq(hearth_exec_footprint(stage.arena), 2 * script_peak(&other));
    for (unsigned i = 0; i < 8 && play_run(&stage, &script) < TAKES; i++)
        continue;
}

Test(exec_plans_mismatch, sizes_that_differ_within_a_unit)
{
    for (size_t less = 1; less < 64; less++) {
        struct script other = script;
        for (size_t i = 1; i < other.acts_count; i++) /* the first one tells which plan it is */
            other.acts[i].value -=
                other.acts[i].take && other.acts[i].value >= 128 ? (less + i) % 64 : 0;
        differ(&other, 0);
    }
}
