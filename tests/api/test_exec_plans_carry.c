/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: buffers that outlive their run, and what can be asked of planned buffers.
 * Covered: content over further runs, whose bytes they keep; what else is served meanwhile; all is served after the
 * return; several at a time; the last of a run by another thread; addresses, owners and generations. */
#include "plan_runs.h"

#include <stdlib.h>

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

TestSuite(exec_plans_carry, .init = setup, .fini = teardown, .timeout = 300);

/* An arena that knows the script and nothing else. */
static void fresh(void)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    play_learn(&stage, &script);
}

static size_t told_run(void)
{
    return play_told(&stage, &script, 0);
}

static unsigned run_and_keep(size_t number)
{
    EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
    play_begin(&play, &stage, &script);
    play_to(&play, number);
    unsigned kept = play_keep(&play, number);
    play_end(&play);
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    return kept;
}

static struct hearth_buf *sent;

static void return_sent(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_exec_free(stage.arena, sent));
}

static void come_home(unsigned kept, bool by_another)
{
    if (by_another) {
        stage.shared = true;
        sent = stage_hand_over(&stage, kept);
        on_thread(return_sent, NULL);
    } else {
        stage_give(&stage, kept);
    }
}

/* Whatever was thought of the runs before: at the latest after so many more, all is served. */
static void all_is_served_again(unsigned runs)
{
    while (told_run() < TAKES)
        cr_assert_neq(runs--, 0, "something is not served any more");
    uint64_t acquires = memory.acquires;
    EXPECT_SIZE(TAKES, told_run());
    EXPECT_SIZE(acquires, memory.acquires);
}

/* Each request of a run is kept over three more. */
static void keep_each(bool by_another)
{
    for (size_t number = 0; number < TAKES; number++) {
        fresh();
        unsigned kept = run_and_keep(number);
        for (unsigned run = 0; run < 3; run++) {
            size_t hits = told_run();
            cr_assert_lt(hits, TAKES, "the place of request %zu was handed out again", number);
            cr_assert(hits >= TAKES / 2 || run > 0, "%zu requests were served", hits);
            stage_verify(&stage, kept);
        }
        come_home(kept, by_another);
        all_is_served_again(4);
    }
}

Test(exec_plans_carry, over_three_runs)
{
    keep_each(false);
}

Test(exec_plans_carry, over_three_runs_and_home_from_another_thread)
{
    keep_each(true);
}

Test(exec_plans_carry, over_one_run_and_all_is_served_again)
{
    for (size_t number = 0; number < TAKES; number++) {
        fresh();
        unsigned kept = run_and_keep(number);
        cr_assert_lt(told_run(), TAKES);
        stage_give(&stage, kept);
        all_is_served_again(3);
    }
}

Test(exec_plans_carry, home_before_the_next_run)
{
    for (size_t number = 0; number < TAKES; number++) {
        fresh();
        unsigned kept = run_and_keep(number);
        come_home(kept, number % 2 == 1);
        stage_check(&stage);
        EXPECT_SIZE(TAKES, told_run());
    }
}

Test(exec_plans_carry, home_in_the_middle_of_the_next_run)
{
    for (size_t number = 0; number < TAKES; number += 3) {
        fresh();
        unsigned kept = run_and_keep(number);
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
        play_begin(&play, &stage, &script);
        play_to(&play, TAKES / 2);
        stage_give(&stage, kept);
        play_end(&play);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
        all_is_served_again(3);
    }
}

Test(exec_plans_carry, all_of_a_moment)
{
    unsigned kept[TAKES], count = 0;
    for (unsigned round = 0; round < 5; round++) {
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
        play_begin(&play, &stage, &script);
        play_to(&play, 25);
        for (size_t number = 0; number < TAKES; number++) {
            if (play_live(&play, number))
                kept[count++] = play_keep(&play, number);
        }
        play_end(&play);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
        (void)told_run();
        (void)told_run();
        while (count > 0)
            stage_give(&stage, kept[--count]);
        for (unsigned run = 0; run < 3; run++)
            (void)told_run();
    }
}

/* An output that its user holds on to: the plan serves around it, or is laid out anew; either way it ends. */
Test(exec_plans_carry, a_buffer_that_is_kept_for_good)
{
    for (size_t number = 0; number < TAKES; number += 6) {
        fresh();
        unsigned kept = run_and_keep(number);
        for (unsigned run = 0; run < 8; run++)
            (void)told_run();
        uint64_t acquires = memory.acquires;
        for (unsigned run = 0; run < 8; run++) {
            size_t hits = told_run();
            cr_assert_geq(hits, TAKES / 2, "%zu requests are served while %zu is kept", hits,
                          number);
        }
        EXPECT_SIZE(acquires, memory.acquires);
        cr_assert_leq(hearth_exec_footprint(stage.arena), 2 * script_peak(&script));
        stage_verify(&stage, kept);
        stage_give(&stage, kept);
        all_is_served_again(4);
    }
}

/* Without being told, a run goes on while something is live. */
Test(exec_plans_carry, runs_that_are_not_told)
{
    play_begin(&play, &stage, &script);
    play_to(&play, 10);
    unsigned kept = play_keep(&play, 10);
    play_end(&play);
    for (unsigned run = 0; run < 5; run++)
        (void)play_run(&stage, &script);
    stage_give(&stage, kept);
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    play_served(&stage, &script);
}

Test(exec_plans_carry, random_lives)
{
    unsigned kept[16] = {0};
    bool holds[16] = {false};
    uint32_t state = 99;
    for (unsigned run = 0; run < 200; run++) {
        EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 0));
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            state = state * 1664525u + 1013904223u;
            unsigned which = state >> 16 & 15;
            if ((state >> 24) % 16 != 0)
                continue;
            if (holds[which])
                come_home(kept[which], (state >> 20 & 1) != 0);
            else
                kept[which] = play_keep(&play, number);
            holds[which] = !holds[which];
        }
        play_end(&play);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    }
    for (unsigned which = 0; which < 16; which++) {
        if (holds[which])
            stage_give(&stage, kept[which]);
    }
    all_is_served_again(1100); /* after much in vain, fewer runs are recorded */
}

Test(exec_plans_carry, addresses_inside_of_a_slab)
{
    const unsigned char *starts[TAKES], *low = NULL, *high = NULL;
    struct hearth_buf *found = NULL;
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        play_to(&play, number);
        struct hearth_buf *buf = stage_buf(&stage, play.places[number]);
        unsigned char *data = hearth_buf_data(buf);
        starts[number] = data;
        low = low == NULL || data < low ? data : low;
        high = data + hearth_buf_capacity(buf) > high ? data + hearth_buf_capacity(buf) : high;
        EXPECT(HEARTH_OK, hearth_buf_of(data, &found));
        cr_assert_eq(found, buf);
        EXPECT(HEARTH_FOREIGN, hearth_buf_of(data + 1, &found));
        EXPECT(HEARTH_FOREIGN, hearth_buf_of(data + 8, &found));
        EXPECT(HEARTH_FOREIGN, hearth_buf_of(data + hearth_buf_size(buf) - 1, &found));
    }
    play_end(&play);
    for (const unsigned char *at = low; at < high; at += 64) {
        bool start = false;
        for (size_t number = 0; number < TAKES; number++)
            start = start || starts[number] == at;
        EXPECT(start ? HEARTH_STALE : HEARTH_FOREIGN, hearth_buf_of(at, &found));
        EXPECT(HEARTH_FOREIGN, hearth_exec_free(stage.arena, (struct hearth_buf *)(uintptr_t)at));
    }
    play_served(&stage, &script);
}

/* A place is another buffer's, or nobody's, before its own buffer lives. */
Test(exec_plans_carry, what_is_found_at_an_address_is_what_lives_there)
{
    const void *starts[TAKES];
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        play_to(&play, number);
        starts[number] = hearth_buf_data(stage_buf(&stage, play.places[number]));
    }
    play_end(&play);
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        play_to(&play, number);
        for (size_t other = 0; other < TAKES; other++) {
            struct hearth_buf *found = NULL, *expected = NULL;
            for (size_t live = 0; live <= number; live++) {
                if (play_live(&play, live) && starts[live] == starts[other])
                    expected = stage_buf(&stage, play.places[live]);
            }
            EXPECT(expected != NULL ? HEARTH_OK : HEARTH_STALE,
                   hearth_buf_of(starts[other], &found));
            cr_assert(expected == NULL || found == expected);
        }
    }
    play_end(&play);
}

Test(exec_plans_carry, owners_and_generations)
{
    struct hearth_buf *bufs[TAKES];
    uint64_t generations[TAKES];
    for (unsigned run = 0; run < 3; run++) {
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            struct hearth_buf *buf = stage_buf(&stage, play.places[number]);
            cr_assert_eq(hearth_buf_owner(buf), hearth_exec_allocator(stage.arena));
            uint64_t generation = hearth_buf_generation(buf);
            cr_assert_neq(generation, 0);
            if (run > 0 && bufs[number] == buf)
                cr_assert_neq(generation, generations[number]);
            bufs[number] = buf;
            generations[number] = generation;
            for (uintptr_t offset = 1; offset < 64; offset += 7) {
                const void *inside = (const char *)buf + offset;
                cr_assert_eq(hearth_buf_generation(inside), 0);
                cr_assert_null(hearth_buf_owner(inside));
            }
        }
        play_end(&play);
        for (size_t number = 0; number < TAKES; number++)
            cr_assert_neq(hearth_buf_generation(bufs[number]), generations[number]);
    }
}
