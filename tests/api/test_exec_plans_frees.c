/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: returns that differ from what was learned, and wrong ones.
 * Covered: order and lateness within a run, returns by other threads, second returns, stale handles, the wrong arena,
 * addresses inside of a slab. Not covered: returns after the end of a run (test_exec_plans_carry.c). */
#include "plan_runs.h"

enum { TAKES = 48 };

static struct memory memory;
static struct stage stage;
static struct script script;
static struct play play;

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
    play_served(&stage, &script);
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_frees, .init = setup, .fini = teardown, .timeout = 120);

/* An arena that knows the script and nothing else. */
static void fresh(void)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    play_learn(&stage, &script);
}

static uint64_t hits_before, misses_before;

static void begin_and_go_to(size_t number)
{
    hits_before = stats_of(stage.arena).plan_hits;
    misses_before = stats_of(stage.arena).plan_misses;
    play_begin(&play, &stage, &script);
    play_to(&play, number);
}

/* The rest of the run is served, and so is the next one. */
static void rest_is_served(void)
{
    play_end(&play);
    EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits_before);
    EXPECT_SIZE(misses_before, stats_of(stage.arena).plan_misses);
    play_served(&stage, &script);
}

Test(exec_plans_frees, in_another_order)
{
    struct script pile;
    script_pile(&pile, 40, 1000, 64);
    play_learn(&stage, &pile);
    for (size_t stride = 1; stride < 40; stride += 2) {
        struct script other = pile;
        for (size_t i = 0; i < 40; i++)
            other.acts[40 + i].value = (i * stride + stride / 2) % 40;
        if (stride % 5 != 0)
            play_served(&stage, &other);
    }
}

Test(exec_plans_frees, later_than_learned)
{
    for (size_t distance = 1; distance <= 12; distance++) {
        fresh();
        struct script other = script_late(&script, distance);
        uint64_t before = stats_of(stage.arena).plan_misses;
        size_t hits = play_run(&stage, &other);
        EXPECT_SIZE(TAKES, hits + (stats_of(stage.arena).plan_misses - before));
        play_served(&stage, &script);
    }
}

Test(exec_plans_frees, one_late_return)
{
    size_t hits = 0;
    for (size_t number = 0; number + 1 < TAKES; number++) {
        fresh();
        begin_and_go_to(number);
        unsigned late = play_keep(&play, number);
        play_to(&play, TAKES - 1);
        stage_give(&stage, late);
        play_end(&play);
        struct hearth_exec_stats stats = stats_of(stage.arena);
        EXPECT_SIZE(stats.plan_misses, stats.plan_blocked);
        hits += stats.plan_hits - TAKES;
        play_served(&stage, &script);
    }
    /* Nothing can have its bytes for the rest of the run, which is half of it on average. */
    cr_assert_geq(hits * 10, (TAKES - 1) * TAKES * 8u, "%zu requests were served", hits);
}

struct errand {
    struct hearth_buf *bufs[SCRIPT_TAKES];
    size_t count;
};
static struct errand errand;

static void return_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < errand.count; i++)
        EXPECT(HEARTH_OK, hearth_exec_free(stage.arena, errand.bufs[i]));
    errand.count = 0;
}

static void send(unsigned place)
{
    errand.bufs[errand.count++] = stage_hand_over(&stage, place);
}

/* The end of a run that another thread brought about is seen by the next operation. */
static size_t hits_at_the_end(void)
{
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    EXPECT_SIZE(0, hearth_exec_pending_count(stage.arena));
    return (size_t)(stats_of(stage.arena).plan_hits - hits_before);
}

Test(exec_plans_frees, one_by_another_thread)
{
    stage.shared = true;
    for (size_t number = 1; number < TAKES; number++) {
        begin_and_go_to(number);
        send(play_keep(&play, number));
        on_thread(return_all, NULL);
        stage_check(&stage);
        EXPECT_SIZE(1, hearth_exec_pending_count(stage.arena));
        play_end(&play);
        EXPECT_SIZE(TAKES, hits_at_the_end());
    }
    EXPECT_SIZE(TAKES - 1, stats_of(stage.arena).remote_frees);
}

Test(exec_plans_frees, one_by_another_thread_and_nobody_tells)
{
    stage.shared = true;
    hits_before = stats_of(stage.arena).plan_hits;
    misses_before = stats_of(stage.arena).plan_misses;
    for (size_t number = 1; number < TAKES; number++) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        send(play_keep(&play, number));
        on_thread(return_all, NULL);
        play_end(&play);
    }
    EXPECT_SIZE((TAKES - 1) * TAKES, hits_at_the_end());
    EXPECT_SIZE(misses_before, stats_of(stage.arena).plan_misses);
}

Test(exec_plans_frees, the_last_by_another_thread)
{
    uint64_t runs = stats_of(stage.arena).runs, hits = stats_of(stage.arena).plan_hits;
    stage.shared = true;
    for (unsigned run = 0; run < 10; run++) {
        begin_and_go_to(TAKES - 1);
        unsigned last = play_keep(&play, 0);
        play_end(&play);
        send(last);
        on_thread(return_all, NULL);
        stage_check(&stage);
        EXPECT_SIZE(0, stage.live_count);
    }
    (void)hits_at_the_end();
    EXPECT_SIZE(10, stats_of(stage.arena).runs - runs);
    EXPECT_SIZE(10 * TAKES, stats_of(stage.arena).plan_hits - hits);
}

/* Told of the runs or not. */
static void all_by_another_thread(bool told)
{
    stage.shared = true;
    uint64_t hits = stats_of(stage.arena).plan_hits;
    for (unsigned run = 0; run < 10; run++) {
        if (told)
            EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
        begin_and_go_to(TAKES - 1);
        for (size_t number = 0; number < TAKES; number++) {
            if (play_live(&play, number))
                send(play_keep(&play, number));
        }
        on_thread(return_all, NULL);
        play_end(&play);
        if (told)
            EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    }
    (void)hits_at_the_end();
    hits = stats_of(stage.arena).plan_hits - hits;
    EXPECT_SIZE(10 * TAKES, hits);
    play_served(&stage, &script);
}

Test(exec_plans_frees, the_rest_of_each_run_by_another_thread)
{
    all_by_another_thread(false);
}

Test(exec_plans_frees, the_rest_of_each_told_run_by_another_thread)
{
    all_by_another_thread(true);
}

/* Nothing is planned inside of a request: where the owner only takes, it has to tell of the ends. */
static void each_by_another_thread(bool told)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    stage.shared = true;
    for (unsigned run = 0; run < 6; run++) {
        if (told)
            EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
        play_begin(&play, &stage, &script);
        for (size_t i = 0; i < script.acts_count; i++) {
            if (script.acts[i].take) {
                play_to(&play, play.takes);
                continue;
            }
            send(play_keep(&play, script.acts[i].value));
            on_thread(return_all, NULL);
            stage_check(&stage);
        }
        play_end(&play);
    }
    (void)hits_at_the_end();
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT_SIZE(6, stats.runs);
    if (told)
        EXPECT_SIZE(4 * TAKES, stats.plan_hits);
    for (unsigned i = 0; i < 3; i++)
        (void)play_run(&stage, &script);
}

Test(exec_plans_frees, each_by_another_thread_from_the_first_run_on)
{
    each_by_another_thread(false);
}

Test(exec_plans_frees, each_by_another_thread_from_the_first_told_run_on)
{
    each_by_another_thread(true);
}

Test(exec_plans_frees, a_second_return_is_stale)
{
    for (size_t number = 1; number < TAKES; number += 3) {
        begin_and_go_to(number);
        struct hearth_buf *buf = stage_hand_over(&stage, play_keep(&play, number));
        give(stage.arena, buf);
        struct hearth_exec_stats before = stats_of(stage.arena);
        unsigned told = misuse.count;
        EXPECT(HEARTH_STALE, hearth_exec_free(stage.arena, buf));
        EXPECT(HEARTH_STALE, hearth_free(hearth_exec_allocator(stage.arena), buf));
        EXPECT(HEARTH_STALE, hearth_buf_resize(buf, 10));
        cr_assert_eq(misuse.count, told + 3);
        cr_assert_eq(misuse.status, HEARTH_STALE);
        check_unchanged(&before, stage.arena);
        rest_is_served();
        EXPECT(HEARTH_STALE, hearth_exec_free(stage.arena, buf)); /* nothing is live */
    }
}

Test(exec_plans_frees, a_second_return_by_another_thread_is_stale)
{
    begin_and_go_to(10);
    struct hearth_buf *buf = stage_hand_over(&stage, play_keep(&play, 10));
    give(stage.arena, buf);
    stage.shared = true;
    for (unsigned i = 0; i < 2; i++) {
        struct hearth_buf *once = stage_hand_over(&stage, play_keep(&play, 9 - i));
        errand.bufs[0] = once;
        errand.count = 1;
        on_thread(return_all, NULL);
        EXPECT(HEARTH_STALE, hearth_exec_free(stage.arena, once));
        EXPECT(HEARTH_STALE, hearth_exec_free(stage.arena, buf));
        stage_check(&stage);
    }
    rest_is_served();
}

Test(exec_plans_frees, a_stale_handle_does_not_return_the_next_holders_buffer)
{
    struct hearth_handle handles[TAKES];
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        handles[number] = (struct hearth_handle)HEARTH_HANDLE_INIT;
        play_to(&play, number);
        EXPECT(HEARTH_OK,
               hearth_handle_from_buf(stage_buf(&stage, play.places[number]), &handles[number]));
        cr_assert_eq(hearth_handle_owner(&handles[number]), hearth_exec_allocator(stage.arena));
    }
    play_end(&play);
    for (unsigned run = 0; run < 2; run++) { /* the same descriptors are live again */
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            struct hearth_handle copy = handles[number];
            EXPECT(HEARTH_STALE, hearth_handle_reset(&copy));
            stage_check(&stage);
            stage_verify(&stage, play.places[number]);
        }
        play_end(&play);
    }
}

Test(exec_plans_frees, handles_return_planned_buffers)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    for (size_t number = 1; number < TAKES; number += 5) {
        begin_and_go_to(number);
        EXPECT(HEARTH_OK,
               hearth_handle_from_buf(stage_hand_over(&stage, play_keep(&play, number)), &handle));
        EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
        stage_check(&stage);
        rest_is_served();
    }
}

Test(exec_plans_frees, the_wrong_arena_is_foreign)
{
    static struct stage other;
    stage_open(&other, &memory, 0);
    stage.memory = other.memory = NULL; /* it is both's */
    struct hearth_buf *foreign = stage_buf(&other, stage_take(&other, 5000));
    begin_and_go_to(20);
    struct hearth_buf *buf = stage_buf(&stage, play.places[20]);
    struct hearth_exec_stats here = stats_of(stage.arena), there = stats_of(other.arena);
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(other.arena, buf));
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(stage.arena, foreign));
    check_unchanged(&here, stage.arena);
    check_unchanged(&there, other.arena);
    cr_assert_eq(hearth_buf_owner(buf), hearth_exec_allocator(stage.arena));
    rest_is_served();
    stage_give(&other, 0);
    stage_close(&other);
    stage.memory = &memory;
}
