/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: requests of other kinds inside of planned runs.
 * Covered: alignments, zeroed memory, no bytes, sizes that nothing can have, wrong requests. */
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
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_requests, .init = setup, .fini = teardown, .timeout = 120);

static unsigned ask_for(size_t size, size_t alignment, bool zero)
{
    const struct hearth_request request = {.size = size, .alignment = alignment, .zero = zero};
    unsigned place = 0;
    EXPECT(HEARTH_OK, stage_try(&stage, &request, &place));
    return place;
}

static void beside(size_t alignment)
{
    for (unsigned run = 0; run < 6; run++) {
        uint64_t hits = stats_of(stage.arena).plan_hits, acquires = memory.acquires;
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            unsigned aligned = ask_for(5000 + number, alignment, number % 2);
            play_to(&play, number);
            stage_give(&stage, aligned);
        }
        unsigned last = ask_for(100, alignment, false);
        play_end(&play);
        stage_give(&stage, last);
        EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits);
        if (run > 0)
            EXPECT_SIZE(acquires, memory.acquires);
    }
    EXPECT_SIZE(1, stats_of(stage.arena).plans_made);
}

Test(exec_plans_requests, pages_beside_a_plan)
{
    beside(4096);
}

Test(exec_plans_requests, two_cache_lines_beside_a_plan)
{
    beside(128);
}

Test(exec_plans_requests, huge_pages_beside_a_plan)
{
    beside(2 * MIB);
}

Test(exec_plans_requests, alignments_in_the_runs_that_are_learned)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    for (unsigned run = 0; run < 6; run++) {
        uint64_t hits = stats_of(stage.arena).plan_hits, acquires = memory.acquires;
        play_begin(&play, &stage, &script);
        unsigned first = ask_for(10000, 4096, false);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            if (number % 5 == 0) {
                stage_give(&stage, first);
                first = ask_for(1000 * (number + 1), 256, true);
            }
        }
        stage_give(&stage, first);
        play_end(&play);
        EXPECT_SIZE(run < 2 ? 0 : TAKES, stats_of(stage.arena).plan_hits - hits);
        if (run > 2)
            EXPECT_SIZE(acquires, memory.acquires);
    }
}

/* 64 bytes and less are every buffer's. */
Test(exec_plans_requests, small_alignments_are_planned)
{
    uint64_t hits = stats_of(stage.arena).plan_hits;
    play_begin(&play, &stage, &script);
    for (size_t i = 0; i < script.acts_count; i++) {
        const struct act *act = &script.acts[i];
        if (act->take)
            play.places[play.takes] = ask_for(act->value, (size_t)1 << play.takes % 7, false);
        else
            stage_give(&stage, play.places[act->value]);
        play.takes += act->take;
    }
    EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits);
    play_served(&stage, &script);
}

Test(exec_plans_requests, zeroed_memory)
{
    memory.zeroed = true; /* a fresh slab would be known to be zero */
    for (unsigned round = 0; round < 2; round++) {
        stage_close(&stage);
        stage_open(&stage, &memory, 0);
        for (unsigned run = 0; run < 6; run++) {
            uint64_t hits = stats_of(stage.arena).plan_hits;
            play_begin(&play, &stage, &script);
            for (size_t i = 0; i < script.acts_count; i++) {
                const struct act *act = &script.acts[i];
                if (act->take)
                    play.places[play.takes] =
                        ask_for(act->value, 0, round == 0 || (run + play.takes) % 2 == 0);
                else
                    stage_give(&stage, play.places[act->value]);
                play.takes += act->take;
            }
            EXPECT_SIZE(run < 2 ? 0 : TAKES, stats_of(stage.arena).plan_hits - hits);
        }
    }
}

Test(exec_plans_requests, no_bytes)
{
    struct script other = script_resized(&script, 7, 0);
    other = script_resized(&other, 20, 0);
    other = script_resized(&other, 21, 0);
    cr_assert_geq(play_run(&stage, &other), TAKES - 6);
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    for (unsigned run = 0; run < 5; run++) {
        size_t hits = play_run(&stage, &other);
        if (run >= 2)
            cr_assert_geq(hits, TAKES - 3);
    }
    script_pile(&other, 50, 0, 0);
    for (unsigned run = 0; run < 5; run++)
        (void)play_run(&stage, &other);
}

Test(exec_plans_requests, refused_requests_change_nothing)
{
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        unsigned place;
        struct hearth_buf *none = NULL;
        play_to(&play, number);
        struct hearth_exec_stats before = stats_of(stage.arena);
        struct hearth_request wrong = {.size = 100, .alignment = 96};
        EXPECT(HEARTH_OVERFLOW,
               stage_try(&stage, &(struct hearth_request){.size = SIZE_MAX}, &place));
        EXPECT(HEARTH_OVERFLOW,
               stage_try(&stage, &(struct hearth_request){.size = SIZE_MAX - 63}, &place));
        EXPECT(HEARTH_OVERFLOW,
               stage_try(&stage, &(struct hearth_request){.size = SIZE_MAX, .zero = 1}, &place));
        EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(stage.arena, &wrong, &none));
        wrong = (struct hearth_request){.size = 100, .reserved = {0, 1}};
        EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(stage.arena, &wrong, &none));
        EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(stage.arena, NULL, &none));
        EXPECT(HEARTH_INVALID, hearth_exec_alloc(stage.arena, 100, NULL));
        check_unchanged(&before, stage.arena);
    }
    play_end(&play);
    play_served(&stage, &script);
}

/* More than the backing has: what is retained is given back before it is refused, live buffers are not. */
Test(exec_plans_requests, more_than_there_is)
{
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number += 6) {
        unsigned place;
        play_to(&play, number);
        EXPECT(HEARTH_NO_MEMORY,
               stage_try(&stage, &(struct hearth_request){.size = 2048 * MIB}, &place));
    }
    play_end(&play);
    for (unsigned i = 0; i < 3; i++)
        (void)play_run(&stage, &script);
    play_served(&stage, &script);
}

static enum hearth_status there;

static void ask_from_elsewhere(void *unused)
{
    struct hearth_buf *none = NULL;
    (void)unused;
    there = hearth_exec_alloc(stage.arena, script.acts[0].value, &none);
    cr_assert_null(none);
}

Test(exec_plans_requests, other_threads_are_not_served)
{
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number += 6) {
        play_to(&play, number);
        on_thread(ask_from_elsewhere, NULL);
        EXPECT(HEARTH_NOT_OWNER, there);
        stage_check(&stage);
    }
    play_end(&play);
    play_served(&stage, &script);
}
