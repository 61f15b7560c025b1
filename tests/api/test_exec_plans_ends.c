/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: arenas that end or change owners, of no service.
 * Covered: destroy and detach with planned buffers outstanding, returned by this and by other threads; owners that
 * change between and within runs, or end. Not covered: arenas of a service (test_exec_plans_lent.c). */
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
    EXPECT_SIZE(0, memory.bytes);
    memory_fini(&memory);
}

TestSuite(exec_plans_ends, .init = setup, .fini = teardown, .timeout = 120);

Test(exec_plans_ends, destroy_is_busy_then_ok)
{
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number += 5) {
        play_to(&play, number);
        EXPECT(HEARTH_BUSY, hearth_exec_destroy(stage.arena));
        stage_check(&stage);
    }
    play_end(&play);
    play_served(&stage, &script);
    EXPECT(HEARTH_OK, hearth_exec_destroy(stage.arena));
}

static void destroy_elsewhere(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_exec_destroy(stage.arena));
}

Test(exec_plans_ends, destroyed_by_another_thread)
{
    on_thread(destroy_elsewhere, NULL);
}

Test(exec_plans_ends, destroyed_while_it_learns)
{
    EXPECT(HEARTH_OK, hearth_exec_destroy(stage.arena));
    for (unsigned runs = 0; runs < 3; runs++) {
        stage_open(&stage, &memory, 0);
        for (unsigned run = 0; run < runs; run++)
            (void)play_run(&stage, &script);
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 3));
        stage_give(&stage, stage_take(&stage, 1000));
        EXPECT(HEARTH_OK, hearth_exec_destroy(stage.arena));
        EXPECT_SIZE(0, memory.bytes);
    }
}

static struct hearth_allocator *allocator;
static struct hearth_buf *outstanding[TAKES];
static size_t outstanding_count;

static void return_them(void *unused)
{
    (void)unused;
    while (outstanding_count > 0)
        EXPECT(HEARTH_OK, hearth_free(allocator, outstanding[--outstanding_count]));
}

/* Detached in mid-run; the outstanding ones keep their content and come home later. */
static void detach_at(size_t number, bool by_another, bool moved)
{
    size_t out = SIZE_MAX;
    play_begin(&play, &stage, &script);
    play_to(&play, number);
    if (moved)
        stage_resize(&stage, play.places[number], 200 * KIB, true);
    allocator = hearth_exec_allocator(stage.arena);
    EXPECT(HEARTH_OK, hearth_exec_detach(stage.arena, &out));
    EXPECT_SIZE(stage.live_count, out);
    cr_assert_geq(memory.bytes, stage.live_capacity);
    for (size_t i = 0; i <= number; i++) {
        if (!play_live(&play, i))
            continue;
        struct hearth_buf *buf = stage_hand_over(&stage, play_keep(&play, i));
        cr_assert_eq(hearth_buf_owner(buf), allocator);
        outstanding[outstanding_count++] = buf;
    }
    EXPECT_SIZE(out, outstanding_count);
    if (by_another)
        on_thread(return_them, NULL);
    else
        return_them(NULL);
    EXPECT_SIZE(0, memory.bytes);
}

static void detach_everywhere(bool by_another, bool moved)
{
    for (size_t number = 0; number < TAKES; number++) {
        detach_at(number, by_another, moved);
        stage_open(&stage, &memory, 0);
        play_learn(&stage, &script);
    }
    size_t out = SIZE_MAX;
    EXPECT(HEARTH_OK, hearth_exec_detach(stage.arena, &out));
    EXPECT_SIZE(0, out);
}

Test(exec_plans_ends, detach)
{
    detach_everywhere(false, false);
}

Test(exec_plans_ends, detach_and_home_from_another_thread)
{
    detach_everywhere(true, false);
}

Test(exec_plans_ends, detach_with_moved_buffers)
{
    detach_everywhere(false, true);
}

Test(exec_plans_ends, detach_with_moved_buffers_and_home_from_another_thread)
{
    detach_everywhere(true, true);
}

Test(exec_plans_ends, wrong_returns_after_a_detach)
{
    play_begin(&play, &stage, &script);
    play_to(&play, 20);
    struct hearth_handle handle = HEARTH_HANDLE_INIT, stale = HEARTH_HANDLE_INIT;
    size_t out = 0;
    for (size_t i = 0; i < 20; i++) {
        if (play_live(&play, i))
            stage_give(&stage, play_keep(&play, i));
    }
    struct hearth_buf *buf = stage_hand_over(&stage, play_keep(&play, 20));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    stale = handle;
    EXPECT(HEARTH_OK, hearth_exec_detach(stage.arena, &out));
    EXPECT_SIZE(1, out);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT_SIZE(0, memory.bytes);
    struct hearth_buf *found = NULL;
    cr_assert_neq(hearth_buf_generation(buf), stale.generation);
    cr_assert_null(hearth_buf_owner(buf));
    EXPECT(HEARTH_FOREIGN, hearth_buf_of(&memory, &found));
}

static void one_run(void *unused)
{
    (void)unused;
    play_served(&stage, &script);
    EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
}

Test(exec_plans_ends, owners_change_between_runs)
{
    EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
    for (unsigned i = 0; i < 10; i++)
        on_thread(one_run, NULL);
    play_served(&stage, &script);
    stage_close(&stage);
}

static size_t stop_at;

static void a_part(void *unused)
{
    (void)unused;
    play_to(&play, stop_at);
    EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
}

Test(exec_plans_ends, owners_change_within_a_run)
{
    stage.shared = true; /* returns before the first request are not the owner's */
    for (unsigned run = 0; run < 3; run++) {
        uint64_t hits = stats_of(stage.arena).plan_hits;
        EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
        play_begin(&play, &stage, &script);
        for (stop_at = 3 + run; stop_at < TAKES - 4; stop_at += 4)
            on_thread(a_part, NULL);
        play_end(&play); /* makes this thread the owner: it takes */
        EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits);
    }
    stage_close(&stage);
}

Test(exec_plans_ends, owners_change_while_it_learns)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    stage.shared = true;
    for (unsigned run = 0; run < 5; run++) {
        uint64_t hits = stats_of(stage.arena).plan_hits;
        EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
        play_begin(&play, &stage, &script);
        for (stop_at = 3; stop_at < TAKES; stop_at += 9)
            on_thread(a_part, NULL);
        play_end(&play);
        EXPECT_SIZE(run < 2 ? 0 : TAKES, stats_of(stage.arena).plan_hits - hits);
    }
    stage_close(&stage);
}

static void end_as_owner(void *unused)
{
    (void)unused;
    play_begin(&play, &stage, &script);
    play_to(&play, stop_at);
}

/* An owner that ends without a word: returns, figures, destroy and detach go on. */
Test(exec_plans_ends, an_owner_that_ends)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 9) {
        EXPECT(HEARTH_OK, hearth_exec_release_owner(stage.arena));
        on_thread(end_as_owner, NULL);
        stage.shared = true;
        for (size_t i = 0; i <= stop_at; i++) {
            if (play_live(&play, i))
                stage_give(&stage, play_keep(&play, i));
        }
        stage_close(&stage);
        EXPECT_SIZE(0, memory.bytes);
        stage_open(&stage, &memory, 0);
        play_learn(&stage, &script);
    }
    stage_close(&stage);
}
