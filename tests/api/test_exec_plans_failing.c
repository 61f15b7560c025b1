/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: backings that fail.
 * Covered: each backing call of the runs that learn and are served fails in turn, once, for long and for ever; a
 * slab that is never had; requests that are refused change nothing, and plans come later. */
#include "plan_runs.h"

enum { TAKES = 32 };

static struct memory memory;
static struct hearth_backing *failing;
static struct stage stage;
static struct script script;
static uint64_t refused;

static void open_stage(void)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    options.store = HEARTH_EXEC_STORE_PLANS;
    options.backing = failing;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    stage_on(&stage, arena, &memory);
}

static void setup(void)
{
    memory_init(&memory);
    EXPECT(HEARTH_OK, hearth_backing_create_failing(memory.backing, &failing));
    misuse_record();
    script_net(&script, TAKES, 11);
    open_stage();
}

static void teardown(void)
{
    EXPECT_SIZE(0, misuse.count);
    stage_close(&stage);
    hearth_backing_unref(failing);
    memory_fini(&memory);
}

TestSuite(exec_plans_failing, .init = setup, .fini = teardown, .timeout = 300);

static void fail(uint64_t nth, uint64_t count)
{
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, nth, count));
}

/* A run that goes on without what is refused. */
static void run_with_refusals(void)
{
    static unsigned places[TAKES];
    static bool there[TAKES];
    size_t takes = 0;
    for (size_t i = 0; i < script.acts_count; i++) {
        const struct act *act = &script.acts[i];
        if (!act->take) {
            if (there[act->value])
                stage_give(&stage, places[act->value]);
            continue;
        }
        const struct hearth_request request = {.size = act->value};
        struct hearth_exec_stats before = stats_of(stage.arena);
        enum hearth_status status = stage_try(&stage, &request, &places[takes]);
        there[takes++] = status == HEARTH_OK;
        if (status == HEARTH_OK)
            continue;
        struct hearth_exec_stats after = stats_of(stage.arena);
        EXPECT(HEARTH_NO_MEMORY, status);
        EXPECT_SIZE(before.live_count, after.live_count);
        EXPECT_SIZE(before.allocs, after.allocs);
        EXPECT_SIZE(before.plan_hits, after.plan_hits);
        EXPECT_SIZE(before.runs, after.runs);
        refused++;
    }
    stage_check(&stage);
}

/* Without failures all is served at the latest after so many runs. */
static void plans_come(unsigned runs)
{
    fail(0, 0);
    for (unsigned run = 0; play_run(&stage, &script) < TAKES; run++)
        cr_assert_lt(run, runs, "no plans after %u runs", runs);
    play_served(&stage, &script);
    play_served(&stage, &script);
    expect_compact(&stage, script_peak(&script));
}

/* Backing calls of three runs. */
static uint64_t calls_of_three_runs(void)
{
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    uint64_t calls = memory.acquires;
    stage_close(&stage);
    open_stage();
    return calls;
}

static void each_fails(uint64_t count)
{
    uint64_t calls = calls_of_three_runs();
    cr_assert_gt(calls, 5);
    for (uint64_t nth = 1; nth <= calls + 1; nth++) {
        fail(nth, count);
        for (unsigned run = 0; run < 3; run++)
            run_with_refusals();
        plans_come(40);
        stage_close(&stage);
        EXPECT_SIZE(0, memory.bytes);
        open_stage();
    }
}

Test(exec_plans_failing, each_call_once)
{
    each_fails(1);
}

Test(exec_plans_failing, two_calls_in_a_row)
{
    each_fails(2);
}

Test(exec_plans_failing, ten_calls_in_a_row)
{
    each_fails(10);
    cr_assert_gt(refused, 0);
}

Test(exec_plans_failing, all_calls_from_one_on)
{
    each_fails(UINT64_MAX / 2);
    cr_assert_gt(refused, 0);
}

Test(exec_plans_failing, served_runs_do_not_notice)
{
    play_learn(&stage, &script);
    fail(1, UINT64_MAX / 2);
    for (unsigned run = 0; run < 5; run++)
        play_served(&stage, &script);
}

/* What the plan does not serve is refused, or has what the run does not need of the slab at that time: never. */
Test(exec_plans_failing, mismatches_without_memory)
{
    play_learn(&stage, &script);
    fail(1, UINT64_MAX / 2);
    for (size_t number = 1; number < TAKES; number++) {
        struct play play;
        unsigned place;
        const struct hearth_request request = {.size = 64 * 1500};
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        EXPECT(HEARTH_NO_MEMORY, stage_try(&stage, &request, &place));
        for (size_t i = 0; i <= number; i++) {
            if (play_live(&play, i))
                stage_verify(&stage, play.places[i]);
        }
        EXPECT(HEARTH_NO_MEMORY,
               hearth_buf_resize_keep(stage_buf(&stage, play.places[number]), 64 * 1500));
        stage_verify(&stage, play.places[number]);
        play_end(&play);
        play_served(&stage, &script);
    }
    plans_come(1);
}

Test(exec_plans_failing, a_slab_is_never_had)
{
    memory.limit = 64 * 1024; /* as large as the largest buffer */
    for (unsigned run = 0; run < 40; run++)
        EXPECT_SIZE(0, play_run(&stage, &script));
    EXPECT_SIZE(0, stats_of(stage.arena).slab_bytes);
    uint64_t acquires = memory.acquires;
    for (unsigned run = 0; run < 12; run++)
        (void)play_run(&stage, &script);
    /* Lists serve; the slab is asked for now and then, and ever less often. */
    cr_assert_leq(memory.acquires - acquires, 12 * 2, "%u backing calls in 12 runs",
                  (unsigned)(memory.acquires - acquires));
    memory.limit = 0;
    plans_come(200);
}

Test(exec_plans_failing, a_larger_slab_is_not_had)
{
    struct script large = script_scaled(&script, 3, 1);
    play_learn(&stage, &script);
    memory.limit = 3 * 64 * 1024;
    for (unsigned run = 0; run < 6; run++)
        (void)play_run(&stage, &large);
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&stage, &script);
    memory.limit = 0;
    for (unsigned run = 0; run < 40; run++)
        (void)play_run(&stage, &large);
    play_served(&stage, &large);
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&stage, &script);
    play_served(&stage, &script);
}
