/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: where runs begin and end.
 * Covered: by the last return, by run_begin and run_end in any order, keys, short and empty runs, buffers that
 * live longer than runs, wrong calls. */
#include "plan_runs.h"

static struct memory memory;
static struct stage stage;
static struct script script;

static void setup(void)
{
    memory_init(&memory);
    stage_open(&stage, &memory, 0);
    misuse_record();
    script_net(&script, 40, 2);
}

static void teardown(void)
{
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_bounds, .init = setup, .fini = teardown, .timeout = 120);

static uint64_t runs(void)
{
    return stats_of(stage.arena).runs;
}

static void begin(uint64_t key)
{
    EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, key));
    stage_check(&stage);
}

static void end(void)
{
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    stage_check(&stage);
}

static size_t told_run(const struct script *of, uint64_t key)
{
    return play_told(&stage, of, key);
}

Test(exec_plans_bounds, the_last_return_ends_a_run)
{
    struct play play;
    for (unsigned run = 0; run < 6; run++) {
        play_begin(&play, &stage, &script);
        play_to(&play, script.takes - 1);
        EXPECT_SIZE(run, runs());
        play_end(&play);
        EXPECT_SIZE(run + 1, runs());
    }
    EXPECT_SIZE(4, stats_of(stage.arena).planned_runs);
}

Test(exec_plans_bounds, told_runs)
{
    for (unsigned run = 0; run < 6; run++) {
        uint64_t acquires = memory.acquires;
        EXPECT_SIZE(run < 2 ? 0 : script.takes, told_run(&script, 0));
        EXPECT_SIZE(run + 1, runs());
        if (run >= 2)
            EXPECT_SIZE(acquires, memory.acquires);
    }
    expect_compact(&stage, script_peak(&script));
}

Test(exec_plans_bounds, a_told_run_may_have_moments_without_buffers)
{
    struct script other;
    script_net(&other, 30, 8);
    for (unsigned run = 0; run < 6; run++) {
        uint64_t before = stats_of(stage.arena).plan_hits;
        begin(0);
        (void)play_run(&stage, &script);
        (void)play_run(&stage, &other);
        (void)play_run(&stage, &script);
        EXPECT_SIZE(run, runs());
        end();
        EXPECT_SIZE(run + 1, runs());
        EXPECT_SIZE(run < 2 ? 0 : 2 * script.takes + other.takes,
                    stats_of(stage.arena).plan_hits - before);
    }
    EXPECT_SIZE(1, stats_of(stage.arena).plans_made);
}

Test(exec_plans_bounds, told_and_untold_runs_share_a_plan)
{
    (void)told_run(&script, 0);
    (void)told_run(&script, 0);
    play_served(&stage, &script);
    EXPECT_SIZE(script.takes, told_run(&script, 0));
    play_served(&stage, &script);
    EXPECT_SIZE(1, stats_of(stage.arena).plans_made);
}

Test(exec_plans_bounds, an_end_without_a_begin)
{
    struct play play;
    end();
    end();
    EXPECT_SIZE(0, runs());
    /* It ends a run that began by itself. */
    play_begin(&play, &stage, &script);
    play_to(&play, 30);
    end();
    EXPECT_SIZE(1, runs());
    play_end(&play);
    /* Whatever the end of that was called: the next ones are what they always are. */
    for (unsigned i = 0; i < 4; i++)
        (void)play_run(&stage, &script);
    play_served(&stage, &script);
    end();
    play_served(&stage, &script);
    EXPECT_SIZE(0, misuse.count);
}

Test(exec_plans_bounds, a_begin_ends_the_run_before)
{
    begin(1);
    begin(2);
    begin(2);
    (void)play_run(&stage, &script);
    uint64_t before = runs();
    begin(2);
    EXPECT_SIZE(before + 1, runs());
    (void)play_run(&stage, &script);
    begin(2);
    EXPECT_SIZE(before + 2, runs());
    for (unsigned i = 1; i < 4; i++) {
        (void)play_run(&stage, &script);
        begin(2);
        EXPECT_SIZE(before + 2 + i, runs());
        EXPECT_SIZE(i * script.takes, stats_of(stage.arena).plan_hits);
    }
    end();
    EXPECT_SIZE(before + 5, runs());
}

Test(exec_plans_bounds, keys_tell_runs_apart_that_begin_alike)
{
    struct script shapes[3];
    for (size_t i = 0; i < 3; i++) {
        shapes[i] = script;
        for (size_t number = 10; i > 0 && number < script.takes; number++)
            shapes[i] = script_resized(&shapes[i], number, 64 * (2000 + 300 * i + number));
    }
    for (unsigned round = 0; round < 6; round++) {
        uint64_t acquires = memory.acquires;
        for (size_t i = 0; i < 3; i++)
            EXPECT_SIZE(round < 2 ? 0 : script.takes, told_run(&shapes[i], 100 + i));
        if (round >= 2)
            EXPECT_SIZE(acquires, memory.acquires);
    }
    EXPECT_SIZE(3, stats_of(stage.arena).plans);
    size_t peak = script_peak(&shapes[2]);
    expect_compact(&stage, peak);
}

Test(exec_plans_bounds, runs_that_begin_alike_without_keys)
{
    struct script other = script;
    for (size_t number = 10; number < script.takes; number++)
        other = script_resized(&other, number, 64 * (2000 + number));
    for (unsigned round = 0; round < 8; round++) {
        (void)play_run(&stage, &script);
        (void)play_run(&stage, &other);
    }
    /* Both are learned, once; a longer equal prefix switches plans. */
    struct hearth_exec_stats before = stats_of(stage.arena);
    for (unsigned round = 0; round < 16; round++) {
        (void)play_run(&stage, &script);
        (void)play_run(&stage, &other);
    }
    struct hearth_exec_stats after = stats_of(stage.arena);
    EXPECT_SIZE(before.plans_made, after.plans_made);
    cr_assert_geq((after.plan_hits - before.plan_hits) * 2, 16 * 2 * script.takes,
                  "%u of %zu are served", (unsigned)(after.plan_hits - before.plan_hits),
                  16 * 2 * script.takes);
}

Test(exec_plans_bounds, short_runs_stay_on_lists)
{
    struct script brief;
    script_net(&brief, 15, 2);
    for (unsigned run = 0; run < 10; run++)
        EXPECT_SIZE(0, play_run(&stage, &brief));
    for (unsigned run = 0; run < 10; run++)
        EXPECT_SIZE(0, told_run(&brief, 7));
    EXPECT_SIZE(0, stats_of(stage.arena).plans_made);
    EXPECT_SIZE(0, stats_of(stage.arena).slab_bytes);
    script_net(&brief, 16, 2);
    play_learn(&stage, &brief);
}

Test(exec_plans_bounds, short_runs_between_planned_ones)
{
    struct script brief;
    script_net(&brief, 4, 3);
    for (unsigned run = 0; run < 10; run++) {
        EXPECT_SIZE(run < 2 ? 0 : script.takes, play_run(&stage, &script));
        (void)play_run(&stage, &brief);
        stage_give(&stage, stage_take(&stage, 100));
    }
}

Test(exec_plans_bounds, empty_runs)
{
    play_learn(&stage, &script);
    for (unsigned run = 0; run < 10; run++) {
        struct hearth_exec_stats before = stats_of(stage.arena);
        begin(run);
        end();
        struct hearth_exec_stats after = stats_of(stage.arena);
        EXPECT_SIZE(before.footprint, after.footprint);
        EXPECT_SIZE(before.planned_runs, after.planned_runs);
        play_served(&stage, &script);
    }
}

Test(exec_plans_bounds, a_buffer_that_lives_through_all_runs)
{
    unsigned weights = stage_take(&stage, 50000);
    for (unsigned run = 0; run < 6; run++)
        EXPECT_SIZE(run < 2 ? 0 : script.takes, told_run(&script, 0));
    stage_verify(&stage, weights);
    stage_give(&stage, weights);
    EXPECT_SIZE(script.takes, told_run(&script, 0));
}

Test(exec_plans_bounds, buffers_that_outlive_each_run_are_planned_out)
{
    unsigned output = 0;
    for (unsigned run = 0; run < 8; run++) {
        struct play play;
        struct hearth_exec_stats before = stats_of(stage.arena);
        uint64_t acquires = memory.acquires;
        begin(0);
        if (run > 0)
            stage_give(&stage, output);
        play_begin(&play, &stage, &script);
        play_to(&play, 5);
        output = play_keep(&play, 5);
        play_end(&play);
        end();
        EXPECT_SIZE(run + 1, runs());
        EXPECT_SIZE(run < 2 ? 0 : script.takes - 1,
                    stats_of(stage.arena).plan_hits - before.plan_hits);
        if (run > 2)
            EXPECT_SIZE(acquires, memory.acquires);
    }
    stage_give(&stage, output);
}

static enum hearth_status there[2];

static void tell_from_elsewhere(void *unused)
{
    (void)unused;
    there[0] = hearth_exec_run_begin(stage.arena, 1);
    there[1] = hearth_exec_run_end(stage.arena);
}

Test(exec_plans_bounds, wrong_calls)
{
    play_learn(&stage, &script);
    struct hearth_exec_stats before = stats_of(stage.arena);
    EXPECT(HEARTH_INVALID, hearth_exec_run_begin(NULL, 1));
    EXPECT(HEARTH_INVALID, hearth_exec_run_end(NULL));
    on_thread(tell_from_elsewhere, NULL);
    EXPECT(HEARTH_NOT_OWNER, there[0]);
    EXPECT(HEARTH_NOT_OWNER, there[1]);
    check_unchanged(&before, stage.arena);
    EXPECT_SIZE(4, misuse.count);
    play_served(&stage, &script);
}

Test(exec_plans_bounds, other_stores_take_no_notice)
{
    struct hearth_exec *lists = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(lists, 1000);
    struct hearth_exec_stats before = stats_of(lists);
    EXPECT(HEARTH_OK, hearth_exec_run_begin(lists, 1));
    EXPECT(HEARTH_OK, hearth_exec_run_begin(lists, 2));
    EXPECT(HEARTH_OK, hearth_exec_run_end(lists));
    EXPECT(HEARTH_OK, hearth_exec_run_end(lists));
    check_unchanged(&before, lists);
    give(lists, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(lists));
}
