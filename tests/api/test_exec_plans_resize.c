/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: buffers that change in mid-run.
 * Covered: resizes within a place, beyond it and down, then and later; runs that were learned with resizes; buffers
 * taken to an I/O arena, once and in each run. Not covered: other kinds of requests (test_exec_plans_requests.c). */
#include "io_support.h"
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
    EXPECT_SIZE(0, misuse.count);
    stage_close(&stage);
    memory_fini(&memory);
}

TestSuite(exec_plans_resize, .init = setup, .fini = teardown, .timeout = 120);

static void fresh(void)
{
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    play_learn(&stage, &script);
}

/* One run with a resize of request `number`; returns how many requests were served. */
static size_t run_with(size_t number, size_t numerator, size_t denominator, bool keep)
{
    uint64_t hits = stats_of(stage.arena).plan_hits;
    play_begin(&play, &stage, &script);
    play_to(&play, number);
    unsigned place = play.places[number];
    stage_resize(&stage, place, stage.places[place].size * numerator / denominator, keep);
    play_end(&play);
    return (size_t)(stats_of(stage.arena).plan_hits - hits);
}

Test(exec_plans_resize, within_the_place)
{
    for (size_t number = 0; number < TAKES; number++) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        unsigned place = play.places[number];
        const unsigned char *data = stage.places[place].data;
        stage_resize(&stage, place, stage.places[place].capacity, number % 2);
        cr_assert_eq(stage.places[place].data, data);
        stage_resize(&stage, place, stage.places[place].capacity - 63, number % 2);
        cr_assert_eq(stage.places[place].data, data);
        play_end(&play);
        play_served(&stage, &script);
    }
}

Test(exec_plans_resize, smaller_keeps_the_capacity)
{
    for (size_t number = 0; number < TAKES; number++) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        unsigned place = play.places[number];
        struct place before = stage.places[place];
        stage_resize(&stage, place, before.size / 2, number % 2);
        stage_resize(&stage, place, 0, number % 2);
        cr_assert_eq(stage.places[place].data, before.data);
        EXPECT_SIZE(before.capacity, stage.places[place].capacity);
        stage_resize(&stage, place, before.size, number % 2);
        cr_assert_eq(stage.places[place].data, before.data);
        play_end(&play);
        play_served(&stage, &script);
    }
}

Test(exec_plans_resize, beyond_the_place)
{
    for (size_t number = 0; number < TAKES; number++) {
        fresh();
        EXPECT_SIZE(TAKES, run_with(number, 3, 1, number % 2 == 0));
        play_served(&stage, &script);
        EXPECT_SIZE(TAKES, run_with(number, 2, 1, number % 2 == 1));
        play_served(&stage, &script);
    }
}

Test(exec_plans_resize, beyond_the_place_again_and_again)
{
    for (size_t number = 0; number < TAKES; number += 5) {
        fresh();
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        unsigned place = play.places[number];
        for (size_t size = 100; size < 200 * KIB; size = size * 2 + 1) {
            stage_resize(&stage, place, size, true);
            stage_resize(&stage, place, size / 3, true);
        }
        play_end(&play);
        play_served(&stage, &script);
    }
}

/* A resize is not asked for on another thread; the return may come from one. */
static struct hearth_buf *sent;
static enum hearth_status there;

static void resize_and_return(void *unused)
{
    (void)unused;
    there = hearth_buf_resize(sent, 10 * MIB);
    EXPECT(HEARTH_OK, hearth_exec_free(stage.arena, sent));
}

Test(exec_plans_resize, moved_buffers_come_home_from_other_threads)
{
    stage.shared = true;
    for (size_t number = 0; number < TAKES; number += 3) {
        fresh();
        stage.shared = true;
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        stage_resize(&stage, play.places[number], 300 * KIB, true);
        sent = stage_hand_over(&stage, play_keep(&play, number));
        on_thread(resize_and_return, NULL);
        EXPECT(HEARTH_NOT_OWNER, there);
        stage_check(&stage);
        play_end(&play);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena)); /* which the return may have been */
        EXPECT_SIZE(TAKES, play_run(&stage, &script));
    }
    misuse_record();
}

Test(exec_plans_resize, failing_to_move_leaves_it_as_it_was)
{
    play_begin(&play, &stage, &script);
    for (size_t number = 0; number < TAKES; number++) {
        play_to(&play, number);
        struct hearth_buf *buf = stage_buf(&stage, play.places[number]);
        EXPECT(HEARTH_OVERFLOW, hearth_buf_resize(buf, SIZE_MAX));
        EXPECT(HEARTH_OVERFLOW, hearth_buf_resize_keep(buf, SIZE_MAX - 64));
        EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize_keep(buf, 2048 * MIB));
        stage_verify(&stage, play.places[number]);
    }
    play_end(&play);
    misuse_record();
    for (unsigned i = 0; i < 3; i++)
        (void)play_run(&stage, &script); /* the slab's pages may have been given back for it */
    play_served(&stage, &script);
}

Test(exec_plans_resize, runs_learned_with_resizes)
{
    for (size_t factor = 1; factor <= 4; factor++) {
        stage_close(&stage);
        stage_open(&stage, &memory, 0);
        for (unsigned run = 0; run < 8; run++) {
            uint64_t hits = stats_of(stage.arena).plan_hits;
            uint64_t acquires = memory.acquires;
            play_begin(&play, &stage, &script);
            for (size_t number = 0; number < TAKES; number++) {
                play_to(&play, number);
                unsigned place = play.places[number];
                if (number % 7 == 3)
                    stage_resize(&stage, place, stage.places[place].size * factor / 2, true);
            }
            play_end(&play);
            hits = stats_of(stage.arena).plan_hits - hits;
            if (run >= 2)
                cr_assert_geq(hits, TAKES - TAKES / 7 - 1);
            if (run >= 4)
                EXPECT_SIZE(acquires, memory.acquires);
        }
    }
}

static struct hearth_io *io;

/* The figures of storage that went to another arena: the backing is both's. */
static void io_open(void)
{
    io = io_create(&memory, 0, 0, 0);
    stage.memory = NULL;
    cr_assert(hearth_io_can_take(io, stage.arena));
}

static void io_close(void)
{
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    stage.memory = &memory;
}

static struct hearth_buf *take_out(size_t number)
{
    struct hearth_buf *taken = NULL;
    unsigned place = play_keep(&play, number);
    struct place before = stage.places[place];
    struct hearth_buf *buf = stage_hand_over(&stage, place);
    EXPECT(HEARTH_OK, hearth_io_take(io, buf, &taken));
    EXPECT_SIZE(before.size, hearth_buf_size(taken));
    cr_assert_geq(hearth_buf_capacity(taken), before.size);
    cr_assert_eq(hearth_buf_owner(taken), hearth_io_allocator(io));
    const unsigned char *data = hearth_buf_data(taken);
    cr_assert_eq(memcmp(data, &before.word, sizeof before.word), 0);
    cr_assert_eq(memcmp(data, data + 8, before.size - 8), 0);
    EXPECT(HEARTH_STALE, hearth_exec_free(stage.arena, buf));
    stage_check(&stage);
    return taken;
}

Test(exec_plans_resize, taken_to_an_io_arena)
{
    for (size_t number = 0; number < TAKES; number++) {
        fresh();
        io_open();
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        struct hearth_buf *taken = take_out(number);
        memset(hearth_buf_data(taken), 0x3c, hearth_buf_capacity(taken));
        play_end(&play);
        EXPECT_SIZE(TAKES, play_run(&stage, &script));
        cr_assert(filled(taken, hearth_buf_capacity(taken), 0x3c));
        io_give(io, taken);
        io_close();
        play_served(&stage, &script);
    }
    misuse_record();
}

Test(exec_plans_resize, taken_from_each_run)
{
    struct hearth_buf *taken = NULL;
    size_t hits = 0;
    stage_close(&stage);
    stage_open(&stage, &memory, 0);
    io_open();
    for (unsigned run = 0; run < 8; run++) {
        uint64_t before = stats_of(stage.arena).plan_hits, acquires = memory.acquires;
        play_begin(&play, &stage, &script);
        play_to(&play, 20);
        if (taken != NULL)
            io_give(io, taken);
        const void *data = stage.places[play.places[20]].data;
        taken = take_out(20);
        if (run >= 2) /* planned out: its storage moves */
            cr_assert_eq(hearth_buf_data(taken), data);
        play_end(&play);
        hits = (size_t)(stats_of(stage.arena).plan_hits - before);
        EXPECT_SIZE(run < 2 ? 0 : TAKES - 1, hits);
        if (run >= 4)
            EXPECT_SIZE(acquires, memory.acquires);
    }
    io_give(io, taken);
    io_close();
    misuse_record();
}

/* Learned without: it is copied, and must not cost more than that. */
Test(exec_plans_resize, taken_from_each_run_after_it_was_learned)
{
    uint64_t hits = 0;
    io_open();
    for (unsigned run = 0; run < 20; run++) {
        uint64_t before = stats_of(stage.arena).plan_hits;
        play_begin(&play, &stage, &script);
        play_to(&play, 20);
        struct hearth_buf *taken = take_out(20);
        play_end(&play);
        io_give(io, taken);
        hits = stats_of(stage.arena).plan_hits - before;
        cr_assert(hits == 0 || hits >= TAKES - 1); /* recorded again, or served */
    }
    cr_assert_geq(hits, TAKES - 1);
    io_close();
    misuse_record();
}

Test(exec_plans_resize, what_a_take_refuses)
{
    struct hearth_buf *none = NULL;
    struct memory elsewhere;
    memory_init(&elsewhere);
    struct hearth_io *other = io_create(&elsewhere, 0, 0, 0);
    struct hearth_io *small = io_create_limited(&memory, 64);
    stage.memory = NULL;
    play_begin(&play, &stage, &script);
    play_to(&play, 20);
    struct hearth_buf *buf = stage_buf(&stage, play.places[20]);
    struct hearth_exec_stats before = stats_of(stage.arena);
    if (!hearth_io_can_take(other, stage.arena))
        EXPECT(HEARTH_INVALID, hearth_io_take(other, buf, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_take(small, buf, &none));
    check_unchanged(&before, stage.arena);
    stage_verify(&stage, play.places[20]);
    play_end(&play);
    misuse_record();
    EXPECT(HEARTH_OK, hearth_io_destroy(other));
    EXPECT(HEARTH_OK, hearth_io_destroy(small));
    memory_fini(&elsewhere);
    stage.memory = &memory;
    play_served(&stage, &script);
}
