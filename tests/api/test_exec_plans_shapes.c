/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: several shapes in turn.
 * Covered: six shapes of one model in rotation, in any order of sizes, in one slab; more shapes than there are plans;
 * shapes that go and come back. */
#include "plan_runs.h"

enum { SHAPES = 12 };

static struct memory memory;
static struct stage stage;
static struct script shapes[SHAPES];

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

TestSuite(exec_plans_shapes, .init = setup, .fini = teardown, .timeout = 120);

/* Shape i is the largest one times numerators[i] / 6. */
static void rotate(const size_t *numerators, size_t count, unsigned rotations)
{
    struct script base;
    size_t peak = 0, hits = 0, requests = 0;
    script_net(&base, 50, 4);
    for (size_t i = 0; i < count; i++) {
        shapes[i] = script_scaled(&base, numerators[i], 6);
        requests += shapes[i].takes;
        peak = script_peak(&shapes[i]) > peak ? script_peak(&shapes[i]) : peak;
    }
    for (unsigned rotation = 1; rotation <= rotations; rotation++) {
        uint64_t acquires = memory.acquires;
        hits = 0;
        for (size_t i = 0; i < count; i++) {
            if (rotation > 2)
                play_served(&stage, &shapes[i]);
            else
                hits += play_run(&stage, &shapes[i]);
        }
        if (rotation == 1)
            EXPECT_SIZE(0, hits);
        if (rotation > 2)
            EXPECT_SIZE(acquires, memory.acquires);
        if (rotation >= 2)
            expect_compact(&stage, peak);
    }
    struct hearth_exec_stats stats = stats_of(stage.arena);
    cr_assert_leq(stats.slab_bytes, peak + peak / 20 + 4 * KIB, "a slab of %zu for a peak of %zu",
                  (size_t)stats.slab_bytes, peak);
    EXPECT_SIZE(count, stats.plans);
    EXPECT_SIZE(count, stats.plans_made);
    EXPECT_SIZE(count * rotations, stats.runs);
    cr_assert_leq(stats.plan_bytes, stats.slab_bytes);
    cr_assert_eq(requests * (rotations - 2), stats.plan_hits);
}

Test(exec_plans_shapes, six_shapes_from_the_largest_down)
{
    rotate((const size_t[]){6, 5, 4, 3, 2, 1}, 6, 6);
}

Test(exec_plans_shapes, six_shapes_from_the_smallest_up)
{
    rotate((const size_t[]){1, 2, 3, 4, 5, 6}, 6, 6);
}

Test(exec_plans_shapes, six_shapes_mixed)
{
    rotate((const size_t[]){3, 6, 1, 5, 2, 4}, 6, 6);
}

Test(exec_plans_shapes, eight_shapes)
{
    rotate((const size_t[]){8, 3, 6, 1, 5, 7, 2, 4}, 8, 5);
}

Test(exec_plans_shapes, two_in_turn)
{
    rotate((const size_t[]){6, 1}, 2, 20);
}

/* plan_bytes and plan_bound are those of the plan used last. */
Test(exec_plans_shapes, figures_are_of_the_plan_used_last)
{
    rotate((const size_t[]){6, 1, 3}, 3, 4);
    size_t slab = stats_of(stage.arena).slab_bytes;
    for (size_t i = 0; i < 9; i++) {
        play_served(&stage, &shapes[i % 3]);
        struct hearth_exec_stats stats = stats_of(stage.arena);
        size_t peak = script_peak(&shapes[i % 3]);
        EXPECT_SIZE(peak, stats.plan_bound);
        cr_assert_geq(stats.plan_bytes, peak);
        cr_assert_leq(stats.plan_bytes, peak + peak / 20);
        EXPECT_SIZE(slab, stats.slab_bytes);
    }
}

Test(exec_plans_shapes, more_shapes_than_plans)
{
    size_t peak = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        script_net(&shapes[i], 30, 100 + (unsigned)i);
        peak = script_peak(&shapes[i]) > peak ? script_peak(&shapes[i]) : peak;
    }
    for (unsigned rotation = 0; rotation < 6; rotation++) {
        for (size_t i = 0; i < SHAPES; i++)
            (void)play_run(&stage, &shapes[i]);
    }
    struct hearth_exec_stats stats = stats_of(stage.arena);
    cr_assert_leq(stats.plans, 8);
    /* None comes twice within eight runs: lists serve them, and less and less is recorded. */
    cr_assert_leq(stats.footprint, 8 * peak);
    for (unsigned run = 0; play_run(&stage, &shapes[0]) == 0; run++)
        cr_assert_lt(run, 1100, "never learned");
    for (size_t i = 1; i < SHAPES; i++)
        play_learn(&stage, &shapes[i]);
    cr_assert_leq(stats_of(stage.arena).plans, 8);
    expect_compact(&stage, peak);
}

Test(exec_plans_shapes, the_least_recently_run_plan_goes)
{
    for (size_t i = 0; i < 9; i++)
        script_net(&shapes[i], 30, 100 + (unsigned)i);
    for (size_t i = 0; i < 8; i++)
        play_learn(&stage, &shapes[i]);
    EXPECT_SIZE(8, stats_of(stage.arena).plans);
    for (size_t i = 0; i < 8; i++)
        play_served(&stage, &shapes[i]);
    play_served(&stage, &shapes[0]); /* 1 is the oldest now */
    play_learn(&stage, &shapes[8]);
    EXPECT_SIZE(8, stats_of(stage.arena).plans);
    for (size_t i = 0; i < 9; i++) {
        if (i != 1)
            play_served(&stage, &shapes[i]);
    }
    for (unsigned i = 0; i < 3; i++)
        (void)play_run(&stage, &shapes[1]);
    play_served(&stage, &shapes[1]);
}

/* A shape that is not seen for long does not make the others worse. */
Test(exec_plans_shapes, one_shape_now_and_then)
{
    script_net(&shapes[0], 50, 1);
    shapes[1] = script_scaled(&shapes[0], 2, 1);
    play_learn(&stage, &shapes[0]);
    for (unsigned i = 0; i < 40; i++) {
        size_t hits = play_run(&stage, &shapes[i % 10 == 9]);
        if (i % 10 != 9) /* what lists got for the other one may go back meanwhile */
            EXPECT_SIZE(shapes[0].takes, hits);
    }
    expect_compact(&stage, script_peak(&shapes[0]) * 5);
}

Test(exec_plans_shapes, a_random_order)
{
    uint32_t state = 12345;
    struct script base;
    script_net(&base, 50, 4);
    for (size_t i = 0; i < 6; i++)
        shapes[i] = script_scaled(&base, i + 1, 6);
    for (size_t i = 0; i < 18; i++)
        (void)play_run(&stage, &shapes[i % 6]);
    for (unsigned i = 0; i < 100; i++) {
        state = state * 1664525u + 1013904223u;
        play_served(&stage, &shapes[(state >> 16) % 6]);
    }
    expect_compact(&stage, script_peak(&shapes[5]));
}
