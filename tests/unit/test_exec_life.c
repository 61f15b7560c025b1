/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an arena, with and without outstanding buffers; slots that have used up their generations;
 * change of owner. */
#include "concurrent/exec.h"
#include "support.h"

#include <hearth/handle.h>

static struct lender lender;
static struct hearth_backing *backing;
static struct hearth_exec *arena;

static void start(void)
{
    backing = lender_open(&lender);
    arena = exec_open(backing, 0, 0);
    misuse_record();
}

/* The arena's end: its reference to the backing is gone. */
static bool ended(void)
{
    return hearth__load_relaxed(&backing->references) == 1;
}

Test(exec_life, detach_of_nothing_is_destroy, .init = start)
{
    size_t outstanding = 99;
    assert_ok(hearth_exec_free(arena, exec_take(arena, 100)));
    assert_ok(hearth_exec_detach(arena, &outstanding));
    assert_size(outstanding, 0);
    cr_assert(ended());
    assert_size(lender.lent, 0);
    cr_assert_eq(exec_open(backing, 0, 0), arena, "its core is used again");
    outstanding = 99;
    assert_ok(hearth_exec_detach(NULL, &outstanding));
    assert_size(outstanding, 0);
    assert_ok(hearth_exec_detach(NULL, NULL));
    assert_ok(hearth_exec_destroy(NULL));
}

TheoryDataPoints(exec_life, the_last_return_ends_a_detached_arena) = {
    DataPoints(size_t, 1, 2, 7, 500, 1500),
    DataPoints(int, 0, 1),
};

Theory((size_t count, int elsewhere), exec_life, the_last_return_ends_a_detached_arena)
{
    static struct hearth_buf *bufs[1500];
    size_t outstanding = 0;
    start();
    for (size_t i = 0; i < count; i++)
        bufs[i] = exec_take(arena, 100);
    assert_ok(hearth_exec_free(arena, exec_take(arena, 5000)));
    assert_ok(hearth_exec_detach(arena, &outstanding));
    assert_size(outstanding, count);
    assert_size(lender.lent, 128 * count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_not(ended());
        if (elsewhere)
            free_elsewhere(arena, &bufs[i], 1);
        else
            assert_ok(hearth_exec_free(arena, bufs[i]));
        assert_size(lender.lent, 128 * (count - i - 1));
    }
    cr_assert(ended());
    assert_size(misuse_seen.count, 0);
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 1);
}

Test(exec_life, outstanding_does_not_count_what_was_queued, .init = start)
{
    size_t outstanding = 0;
    struct hearth_buf *queued[] = {exec_take(arena, 1), exec_take(arena, 2)};
    struct hearth_buf *held = exec_take(arena, 3);
    free_elsewhere(arena, queued, COUNT_OF(queued));
    assert_ok(hearth_exec_detach(arena, &outstanding));
    assert_size(outstanding, 1);
    assert_size(lender.lent, 64);
    assert_ok(hearth_free(hearth_buf_owner(held), held));
    cr_assert(ended());
}

Test(exec_life, outstanding_buffers_stay_usable, .init = start)
{
    struct hearth_buf *found = NULL;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 1000);
    struct hearth_buf *other = exec_take(arena, 1000);
    pattern_write(hearth_buf_data(buf), 1000, 4);
    assert_ok(hearth_exec_detach(arena, NULL));
    cr_assert(pattern_holds(hearth_buf_data(buf), 1000, 4));
    assert_ok(hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    assert_ok(hearth_handle_from_buf(buf, &handle));
    struct hearth_handle copy = handle;
    assert_ok(hearth_handle_reset(&handle));
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
    cr_assert_not(ended());
    assert_ok(hearth_exec_free(arena, other));
    cr_assert(ended());
    assert_status(hearth_exec_free(arena, other), HEARTH_STALE);
    assert_size(lender.releases, 2);
}

Test(exec_life, segments_stay_flat_over_detaches, .timeout = 120, .init = start)
{
    static struct hearth_buf *bufs[700];
    uint32_t segments = 0;
    assert_ok(hearth_exec_destroy(arena));
    for (unsigned round = 0; round < 300; round++) {
        arena = exec_open(backing, 0, 0);
        for (size_t i = 0; i < COUNT_OF(bufs); i++)
            bufs[i] = i % 10 == 0 ? exec_take_aligned(arena, 64, 256) : exec_take(arena, 64);
        assert_ok(hearth_exec_detach(arena, NULL));
        for (size_t i = 0; i < COUNT_OF(bufs); i++)
            assert_ok(hearth_exec_free(arena, bufs[i]));
        cr_assert(ended());
        if (round == 0)
            segments = hearth__segment_count();
        cr_assert_eq(hearth__segment_count(), segments, "round %u", round);
    }
    assert_size(lender.lent, 0);
}

Test(exec_life, two_arenas_that_take_turns_stay_flat, .init = start)
{
    struct hearth_buf *last = exec_take(arena, 64);
    uint32_t segments = 0;
    assert_ok(hearth_exec_detach(arena, NULL));
    for (unsigned round = 0; round < 1000; round++) {
        struct hearth_exec *next = exec_open(backing, 0, 0);
        struct hearth_buf *buf = exec_take(next, 64);
        assert_ok(hearth_exec_free(arena, last));
        assert_ok(hearth_exec_detach(next, NULL));
        arena = next;
        last = buf;
        if (round == 0)
            segments = hearth__segment_count();
    }
    cr_assert_eq(hearth__segment_count(), segments);
    assert_ok(hearth_exec_free(arena, last));
    assert_size(lender.lent, 0);
}

Test(exec_life, destroy_is_busy_while_buffers_are_out, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    struct hearth_buf *queued = exec_take(arena, 100);
    free_elsewhere(arena, &queued, 1);
    assert_status(hearth_exec_destroy(arena), HEARTH_BUSY);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_sound(arena);
    struct hearth_buf *more = exec_take(arena, 200);
    assert_ok(hearth_exec_free(arena, more));
    free_elsewhere(arena, &buf, 1);
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.lent, 0);
    cr_assert(ended());
}

static void wear_out(struct hearth_buf *buf)
{
    hearth__store_relaxed(&buf->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__LIVE));
}

static void assert_retired(struct hearth_buf *buf)
{
    size_t made = arena->slots.made;
    cr_assert_eq(buf->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__UNUSED));
    cr_assert_null(hearth_buf_data(buf));
    assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
    assert_sound(arena);
    struct hearth_buf *next = exec_take(arena, 100);
    cr_assert_neq(next, buf);
    assert_size(arena->slots.made, made + 1);
}

Test(exec_life, a_worn_out_slot_retires, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    wear_out(buf);
    assert_ok(hearth_exec_free(arena, buf));
    assert_size(hearth_exec_retained_count(arena), 0);
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(lender.lent, 0);
    assert_retired(buf);
}

Test(exec_life, a_worn_out_slot_retires_when_it_comes_from_afar, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    wear_out(buf);
    free_elsewhere(arena, &buf, 1);
    assert_size(hearth_exec_pending_count(arena), 1);
    assert_ok(hearth_exec_set_retention_cap(arena, HEARTH_UNBOUNDED));
    assert_size(lender.lent, 0);
    assert_retired(buf);
}

Test(exec_life, the_last_generation_but_one_is_used, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    hearth__store_relaxed(&buf->state, hearth__word(HEARTH__GENERATION_MAX - 1, HEARTH__LIVE));
    assert_ok(hearth_exec_free(arena, buf));
    assert_size(hearth_exec_retained_count(arena), 1);
    cr_assert_eq(exec_take(arena, 100), buf);
    cr_assert_eq(hearth_buf_generation(buf), HEARTH__GENERATION_MAX);
    assert_ok(hearth_exec_free(arena, buf));
    assert_retired(buf);
}

Test(exec_life, a_slot_worn_out_after_a_detach_is_not_used_again, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    wear_out(buf);
    assert_ok(hearth_exec_detach(arena, NULL));
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert(ended());
    cr_assert_eq(exec_open(backing, 0, 0), arena);
    cr_assert_neq(exec_take(arena, 100), buf);
    assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
    assert_sound(arena);
}

Test(exec_life, generations_go_on_in_the_next_arena, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t generation = hearth_buf_generation(buf);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
    cr_assert_eq(exec_open(backing, 0, 0), arena);
    cr_assert_eq(exec_take(arena, 100), buf);
    cr_assert_eq(hearth_buf_generation(buf), generation + 1);
}

struct turn {
    enum hearth_status first;
    enum hearth_status second;
    struct hearth_buf *buf;
};

static void take_turn(void *argument)
{
    struct turn *turn = argument;
    struct hearth_buf *none = NULL;
    turn->first = hearth_exec_alloc(arena, 100, turn->buf == NULL ? &turn->buf : &none);
    turn->second = hearth_exec_trim(arena, NULL);
    (void)hearth_exec_release_owner(arena);
}

Test(exec_life, ownership_is_claimed_after_release, .init = start)
{
    struct turn turn = {HEARTH_OK, HEARTH_OK, NULL};
    on_thread(take_turn, &turn);
    cr_assert_eq(turn.first, HEARTH_NOT_OWNER);
    cr_assert_eq(turn.second, HEARTH_NOT_OWNER);
    assert_size(misuse_seen.count, 3);
    assert_ok(hearth_exec_release_owner(arena));
    assert_status(hearth_exec_release_owner(arena), HEARTH_NOT_OWNER);
    on_thread(take_turn, &turn);
    cr_assert_eq(turn.first, HEARTH_OK);
    cr_assert_eq(turn.second, HEARTH_OK);
    assert_size(hearth_exec_live_count(arena), 1);
    /* The other thread released it again: the next to allocate is the owner. */
    assert_ok(hearth_exec_free(arena, exec_take(arena, 50)));
    assert_ok(hearth_exec_free(arena, turn.buf));
    assert_sound(arena);
    assert_ok(hearth_exec_destroy(arena));
}

Test(exec_life, impossible_creations, .init = start)
{
    struct hearth_exec *none = NULL;
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = backing;
    assert_status(hearth_exec_create(&options, NULL), HEARTH_INVALID);
    options.size -= 8;
    assert_status(hearth_exec_create(&options, &none), HEARTH_INVALID);
    options.size += 8;
    options.store = HEARTH_EXEC_STORE_PLANS + 1;
    assert_status(hearth_exec_create(&options, &none), HEARTH_INVALID);
    options.store = HEARTH_EXEC_STORE_DEFAULT;
    options.slots = HEARTH__SLOTS_MAX + 1;
    assert_status(hearth_exec_create(&options, &none), HEARTH_OVERFLOW);
    cr_assert_null(none);
    assert_size(misuse_seen.count, 3);
    options.slots = HEARTH__SLOTS_MAX;
    assert_ok(hearth_exec_create(&options, &none));
}
