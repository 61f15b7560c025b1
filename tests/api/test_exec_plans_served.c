/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: runs that repeat.
 * Covered: from the third identical run on all is served by the plan, without a backing call and in little more
 * than the bytes live at most; the figures. Not covered: where runs end (test_exec_plans_bounds.c), several
 * shapes (test_exec_plans_shapes.c), runs that differ (test_exec_plans_mismatch.c). */
#include "plan_runs.h"

#include <string.h>

static struct memory memory;
static struct stage stage;
static struct script script;

static void setup(void)
{
    memory_init(&memory);
    stage_open(&stage, &memory, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, misuse.count);
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_served, .init = setup, .fini = teardown, .timeout = 120);

Test(exec_plans_served, the_third_run_is_served_wholly)
{
    script_net(&script, 60, 1);
    EXPECT_SIZE(0, play_run(&stage, &script));
    EXPECT_SIZE(0, play_run(&stage, &script));
    EXPECT_SIZE(1, stats_of(stage.arena).plans_made);
    for (unsigned i = 0; i < 50; i++)
        play_served(&stage, &script);
}

Test(exec_plans_served, memory_is_little_more_than_the_peak)
{
    for (unsigned seed = 1; seed <= 12; seed++) {
        stage_close(&stage);
        stage_open(&stage, &memory, 0);
        script_net(&script, 16 + 12 * (size_t)seed, seed);
        size_t peak = script_peak(&script);
        (void)play_run(&stage, &script);
        EXPECT_SIZE(peak, hearth_exec_peak_bytes(stage.arena));
        (void)play_run(&stage, &script);
        expect_compact(&stage, peak);
        for (unsigned i = 0; i < 3; i++) {
            struct play play;
            play_begin(&play, &stage, &script);
            for (size_t number = 0; number < script.takes; number += 5) {
                play_to(&play, number);
                expect_compact(&stage, peak);
            }
            play_end(&play);
            expect_compact(&stage, peak);
        }
        play_served(&stage, &script);
        EXPECT_SIZE(peak, hearth_exec_peak_bytes(stage.arena));
    }
}

Test(exec_plans_served, the_figures)
{
    script_net(&script, 100, 3);
    size_t peak = script_peak(&script);
    (void)play_run(&stage, &script);
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT_SIZE(1, stats.runs);
    EXPECT_SIZE(0, stats.planned_runs + stats.plan_hits + stats.plan_misses + stats.plan_blocked);
    EXPECT_SIZE(0, stats.plans_made + stats.plans);
    (void)play_run(&stage, &script);
    for (uint64_t run = 3; run <= 10; run++) {
        (void)play_run(&stage, &script);
        stats = stats_of(stage.arena);
        EXPECT_SIZE(run, stats.runs);
        EXPECT_SIZE(run - 2, stats.planned_runs);
        EXPECT_SIZE(100 * (run - 2), stats.plan_hits);
        EXPECT_SIZE(0, stats.plan_misses + stats.plan_blocked);
        EXPECT_SIZE(1, stats.plans_made);
        EXPECT_SIZE(1, stats.plans);
        EXPECT_SIZE(peak, stats.plan_bound);
        cr_assert_geq(stats.plan_bytes, peak);
        cr_assert_leq(stats.plan_bytes, peak + peak / 20);
        cr_assert_geq(stats.slab_bytes, stats.plan_bytes);
        EXPECT_SIZE(stats.footprint, stats.retained_bytes);
        cr_assert_geq(stats.footprint, stats.slab_bytes);
        EXPECT_SIZE(100 * run, stats.allocs);
        EXPECT_SIZE(100 * run, stats.frees);
        EXPECT_SIZE(stats.allocs, stats.hits + stats.misses);
        EXPECT_SIZE(0, stats.remote_frees + stats.pending_count + stats.misuses);
    }
}

Test(exec_plans_served, figures_of_odd_sizes)
{
    script_net(&script, 64, 5);
    size_t rounded = 0;
    for (size_t i = 0; i < script.acts_count; i++) {
        if (script.acts[i].take)
            script.acts[i].value -= i % 63;
    }
    struct script whole = script_scaled(&script, 1, 1);
    rounded = script_peak(&whole);
    play_learn(&stage, &script);
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT_SIZE(script_peak(&script), stats.peak_bytes);
    EXPECT_SIZE(rounded, stats.plan_bound);
    expect_compact(&stage, rounded);
}

Test(exec_plans_served, the_slab_counts_as_retained_while_it_is_not_live)
{
    struct play play;
    script_net(&script, 60, 1);
    play_learn(&stage, &script);
    size_t footprint = hearth_exec_footprint(stage.arena);
    EXPECT_SIZE(footprint, hearth_exec_retained_bytes(stage.arena));
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < script.takes; number++) {
        play_to(&play, number);
        EXPECT_SIZE(footprint, hearth_exec_footprint(stage.arena));
        EXPECT_SIZE(footprint - stage.live_capacity, hearth_exec_retained_bytes(stage.arena));
    }
    play_end(&play);
}

Test(exec_plans_served, reset_of_the_peak_within_a_run)
{
    struct play play;
    script_net(&script, 60, 1);
    play_learn(&stage, &script);
    play_begin(&play, &stage, &script);
    play_to(&play, 20);
    EXPECT(HEARTH_OK, hearth_exec_reset_peak(stage.arena));
    stage.peak_bytes = stage.live_bytes;
    stage_check(&stage);
    play_end(&play);
    EXPECT(HEARTH_OK, hearth_exec_reset_peak(stage.arena));
    stage.peak_bytes = 0;
    stage_check(&stage);
    play_served(&stage, &script);
    EXPECT_SIZE(script_peak(&script), hearth_exec_peak_bytes(stage.arena));
}

Test(exec_plans_served, through_the_allocator_interface)
{
    struct hearth_allocator *allocator = hearth_exec_allocator(stage.arena);
    struct hearth_buf *bufs[40];
    for (unsigned run = 1; run <= 5; run++) {
        for (size_t i = 0; i < 40; i++) {
            struct hearth_request request = {.size = 1000 * (i + 1)};
            EXPECT(HEARTH_OK, i % 2 ? hearth_alloc(allocator, request.size, &bufs[i])
                                    : hearth_alloc_ex(allocator, &request, &bufs[i]));
            memset(hearth_buf_data(bufs[i]), (int)i, request.size);
        }
        for (size_t i = 0; i < 40; i++) {
            cr_assert(filled(bufs[i], 1000 * (i + 1), (unsigned char)i));
            EXPECT(HEARTH_OK, hearth_free(allocator, bufs[i]));
        }
        EXPECT_SIZE(run > 2 ? 40 * (run - 2) : 0, stats_of(stage.arena).plan_hits);
        check_identity(stage.arena, &memory);
    }
    stage.peak_bytes = hearth_exec_peak_bytes(stage.arena);
}

Test(exec_plans_served, piles_and_equal_sizes)
{
    static const size_t sizes[] = {1, 64, 100, 4096, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        script_pile(&script, 200, sizes[i], 0);
        play_learn(&stage, &script);
        play_served(&stage, &script);
    }
}

Test(exec_plans_served, descriptors_and_places_are_the_same_in_each_run)
{
    static const void *data[60];
    struct play play;
    script_net(&script, 60, 1);
    play_learn(&stage, &script);
    for (unsigned run = 0; run < 3; run++) {
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < script.takes; number++) {
            play_to(&play, number);
            const void *now = hearth_buf_data(stage_buf(&stage, play.places[number]));
            cr_assert(run == 0 || data[number] == now, "request %zu moved", number);
            data[number] = now;
        }
        play_end(&play);
    }
}

Test(exec_plans_served, many_requests)
{
    script_net(&script, SCRIPT_TAKES, 7);
    stage.quick = true;
    play_learn(&stage, &script);
    expect_compact(&stage, script_peak(&script));
    for (unsigned i = 0; i < 20; i++)
        play_served(&stage, &script);
}
