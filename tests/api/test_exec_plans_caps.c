/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: retention caps and trims.
 * Covered: caps that let nothing, less than a slab, a slab be kept; caps lowered and lifted while idle and in
 * mid-run; trims while idle and in mid-run; plans after them. Not covered: limits of a service
 * (test_exec_plans_limits.c). */
#include "plan_runs.h"

enum { TAKES = 48 };

static struct memory memory;
static struct stage stage;
static struct script script;
static struct play play;
static size_t slab;

/* How large the slab of the script is. */
static void setup(void)
{
    memory_init(&memory);
    misuse_record();
    script_net(&script, TAKES, 6);
    stage_open(&stage, &memory, 0);
    play_learn(&stage, &script);
    slab = (size_t)stats_of(stage.arena).slab_bytes;
    cr_assert_gt(slab, 0);
}

static void teardown(void)
{
    EXPECT_SIZE(0, misuse.count);
    stage_close(&stage);
    EXPECT_SIZE(0, memory.bytes);
    memory_fini(&memory);
}

TestSuite(exec_plans_caps, .init = setup, .fini = teardown, .timeout = 120);

static void open_with(size_t cap)
{
    stage_close(&stage);
    stage_open(&stage, &memory, cap);
}

static void cap(size_t bytes)
{
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(stage.arena, bytes));
    stage_check(&stage);
}

static size_t trim(void)
{
    size_t released = SIZE_MAX, footprint = hearth_exec_footprint(stage.arena);
    EXPECT(HEARTH_OK, hearth_exec_trim(stage.arena, &released));
    stage_check(&stage);
    EXPECT_SIZE(footprint, released + hearth_exec_footprint(stage.arena));
    return released;
}

/* Within three runs there are no backing calls any more, and all is served. */
static void recovers(void)
{
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    play_served(&stage, &script);
    play_served(&stage, &script);
    expect_compact(&stage, script_peak(&script));
}

Test(exec_plans_caps, nothing_is_kept)
{
    open_with(HEARTH_RETAIN_NOTHING);
    for (unsigned run = 0; run < 6; run++) {
        EXPECT_SIZE(0, play_run(&stage, &script));
        EXPECT_SIZE(0, memory.bytes);
    }
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT_SIZE(0, stats.planned_runs + stats.plan_hits + stats.plan_misses);
    EXPECT_SIZE(0, stats.slab_bytes);
}

Test(exec_plans_caps, less_than_a_slab)
{
    static const size_t parts[] = {1, 2, 4, 64};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        open_with(parts[i] == 1 ? slab - 1 : slab / parts[i]);
        for (unsigned run = 0; run < 6; run++)
            EXPECT_SIZE(0, play_run(&stage, &script));
        struct hearth_exec_stats stats = stats_of(stage.arena);
        EXPECT_SIZE(0, stats.planned_runs + stats.plan_hits + stats.plan_misses);
        EXPECT_SIZE(0, stats.slab_bytes);
    }
}

Test(exec_plans_caps, just_a_slab)
{
    open_with(slab);
    play_learn(&stage, &script);
    EXPECT_SIZE(slab, stats_of(stage.arena).slab_bytes);
    for (unsigned run = 0; run < 6; run++)
        play_served(&stage, &script);
    /* What lists serve besides is not kept on top of it. */
    for (size_t number = 1; number < 6; number++) {
        struct script other = script_extra(&script, number, 64 * 1100);
        cr_assert_geq(play_run(&stage, &other), TAKES);
    }
    play_served(&stage, &script);
}

Test(exec_plans_caps, one_of_two_shapes_is_too_large)
{
    struct script large = script_scaled(&script, 3, 1);
    open_with(slab);
    for (unsigned run = 0; run < 8; run++) {
        size_t hits = play_run(&stage, &script);
        EXPECT_SIZE(0, play_run(&stage, &large));
        if (run >= 4)
            EXPECT_SIZE(TAKES, hits);
    }
}

Test(exec_plans_caps, lowered_while_idle)
{
    cap(slab);
    EXPECT_SIZE(slab, hearth_exec_retained_bytes(stage.arena));
    play_served(&stage, &script);
    cap(slab - 1);
    cr_assert_leq(memory.bytes, slab - 1);
    for (unsigned run = 0; run < 5; run++)
        EXPECT_SIZE(0, play_run(&stage, &script));
    cap(HEARTH_UNBOUNDED);
    recovers();
    cap(0);
    EXPECT_SIZE(0, memory.bytes);
    for (unsigned run = 0; run < 5; run++)
        EXPECT_SIZE(0, play_run(&stage, &script));
    cap(10 * slab);
    recovers();
}

Test(exec_plans_caps, lowered_in_mid_run)
{
    for (size_t number = 0; number < TAKES; number += 5) {
        cap(HEARTH_UNBOUNDED);
        recovers();
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(stage.arena, slab / 2));
        check_identity(stage.arena, &memory);
        for (size_t i = 0; i <= number; i++) {
            if (play_live(&play, i))
                stage_verify(&stage, play.places[i]);
        }
        /* The slab is there as long as something in it is live; what is free of it is retained. */
        stage.quick = true;
        play_end(&play);
        stage.quick = false;
        EXPECT_SIZE(0, play_run(&stage, &script));
    }
}

Test(exec_plans_caps, trim_while_idle)
{
    for (unsigned round = 0; round < 3; round++) {
        size_t retained = hearth_exec_retained_bytes(stage.arena);
        EXPECT_SIZE(retained, trim());
        EXPECT_SIZE(0, memory.bytes);
        EXPECT_SIZE(0, hearth_exec_footprint(stage.arena));
        EXPECT_SIZE(0, trim());
        recovers();
    }
}

Test(exec_plans_caps, trim_after_the_first_run)
{
    open_with(0);
    (void)play_run(&stage, &script);
    (void)trim();
    EXPECT_SIZE(0, memory.bytes);
    (void)play_run(&stage, &script);
    (void)trim();
    EXPECT_SIZE(0, memory.bytes);
    recovers();
}

Test(exec_plans_caps, trim_in_mid_run)
{
    for (size_t number = 0; number < TAKES; number += 3) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        (void)trim();
        for (size_t i = 0; i <= number; i++) {
            if (play_live(&play, i))
                stage_verify(&stage, play.places[i]);
        }
        play_end(&play);
        recovers();
    }
}

Test(exec_plans_caps, trim_after_each_request)
{
    for (unsigned run = 0; run < 4; run++) {
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            (void)trim();
        }
        play_end(&play);
    }
    recovers();
}

Test(exec_plans_caps, trim_between_told_runs)
{
    for (unsigned run = 0; run < 12; run++) {
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 5));
        if (run % 3 == 0)
            (void)trim();
        (void)play_run(&stage, &script);
        if (run % 3 == 1)
            (void)trim();
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
        if (run % 3 == 2)
            (void)trim();
    }
    recovers();
}

Test(exec_plans_caps, trims_of_carried_buffers)
{
    play_begin(&play, &stage, &script);
    play_to(&play, 10);
    unsigned kept = play_keep(&play, 10);
    play_end(&play);
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    for (unsigned i = 0; i < 3; i++) {
        (void)trim();
        stage_verify(&stage, kept);
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
        (void)play_run(&stage, &script);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    }
    stage_give(&stage, kept);
    (void)trim();
    EXPECT_SIZE(0, memory.bytes);
    recovers();
}
