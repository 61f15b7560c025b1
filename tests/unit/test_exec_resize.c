/* SPDX-License-Identifier: Apache-2.0 */
/* Changing sizes: in place, by moving, with every slot live, and refused. */
#include "concurrent/exec.h"
#include "support.h"

static struct lender lender;
static struct hearth_exec *arena;

static void open_arena(size_t slots)
{
    arena = exec_open(lender_open(&lender), slots, 0);
    misuse_record();
}

static void start(void)
{
    open_arena(0);
}

Test(exec_resize, within_the_capacity_nothing_moves, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 1000);
    void *data = hearth_buf_data(buf);
    pattern_write(data, 1000, 1);
    static const size_t sizes[] = {1024, 0, 1, 1000, 512, 1024};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_ok(i % 2 == 0 ? hearth_buf_resize(buf, sizes[i])
                             : hearth_buf_resize_keep(buf, sizes[i]));
        cr_assert_eq(hearth_buf_data(buf), data);
        assert_size(hearth_buf_size(buf), sizes[i]);
        assert_size(hearth_buf_capacity(buf), 1024);
        assert_size(hearth_exec_live_bytes(arena), sizes[i]);
        assert_size(hearth_exec_live_count(arena), 1);
        assert_sound(arena);
    }
    cr_assert(pattern_holds(data, 1000, 1));
    assert_size(hearth_exec_peak_bytes(arena), 1024);
    assert_size(lender.acquires, 1);
}

Test(exec_resize, beyond_it_the_storage_changes_and_the_descriptor_stays, .init = start)
{
    struct hearth_buf *found = NULL;
    struct hearth_buf *buf = exec_take(arena, 1000);
    void *old = hearth_buf_data(buf);
    uint64_t generation = hearth_buf_generation(buf);
    pattern_write(old, 1000, 2);
    assert_ok(hearth_buf_resize_keep(buf, 3000));
    cr_assert_neq(hearth_buf_data(buf), old);
    cr_assert(pattern_holds(hearth_buf_data(buf), 1000, 2));
    cr_assert_eq(hearth_buf_generation(buf), generation);
    assert_size(hearth_buf_capacity(buf), 3072);
    assert_size(hearth_exec_live_bytes(arena), 3000);
    assert_size(hearth_exec_live_capacity(arena), 3072);
    assert_size(hearth_exec_retained_bytes(arena), 1024);
    assert_ok(hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    assert_status(hearth_buf_of(old, &found), HEARTH_STALE);
    assert_sound(arena);
    struct hearth_buf *next = exec_take(arena, 1000);
    cr_assert_eq(hearth_buf_data(next), old, "the old storage serves others");
    cr_assert_neq(next, buf);
    assert_ok(hearth_exec_free(arena, next));
    assert_ok(hearth_exec_free(arena, buf));
    assert_sound(arena);
}

Test(exec_resize, uses_what_is_retained, .init = start)
{
    struct hearth_buf *large = exec_take(arena, 4096);
    void *storage = hearth_buf_data(large);
    struct hearth_buf *buf = exec_take(arena, 64);
    assert_ok(hearth_exec_free(arena, large));
    assert_ok(hearth_buf_resize(buf, 4000));
    cr_assert_eq(hearth_buf_data(buf), storage);
    assert_size(lender.acquires, 2);
    assert_sound(arena);
}

Test(exec_resize, works_with_every_slot_live)
{
    open_arena(2);
    struct hearth_buf *a = exec_take(arena, 100);
    struct hearth_buf *b = exec_take(arena, 100);
    pattern_write(hearth_buf_data(a), 100, 1);
    pattern_write(hearth_buf_data(b), 100, 2);
    assert_ok(hearth_buf_resize_keep(a, 10000));
    cr_assert(pattern_holds(hearth_buf_data(a), 100, 1));
    cr_assert(pattern_holds(hearth_buf_data(b), 100, 2));
    assert_size(lender.lent, 10240 + 128);
    assert_size(lender.releases, 1);
    assert_size(hearth_exec_retained_count(arena), 0);
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, a));
    assert_ok(hearth_exec_free(arena, b));
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.wrong_cookies, 0);
}

TheoryDataPoints(exec_resize, keeps_the_alignment) = {
    DataPoints(size_t, 64, 128, 1024, 4096, 65536, HEARTH_ALIGNMENT_MAX),
};

Theory((size_t alignment), exec_resize, keeps_the_alignment)
{
    start();
    struct hearth_buf *buf = exec_take_aligned(arena, 100, alignment);
    pattern_write(hearth_buf_data(buf), 100, 3);
    for (size_t size = 20000; size < 2 * MIB; size *= 5) {
        assert_ok(hearth_buf_resize_keep(buf, size));
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
        cr_assert(pattern_holds(hearth_buf_data(buf), 100, 3));
        assert_size(lender.last_alignment, alignment);
    }
    assert_ok(hearth_exec_free(arena, buf));
    assert_sound(arena);
    assert_ok(hearth_exec_destroy(arena));
}

Test(exec_resize, a_refusal_changes_nothing, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 1000);
    void *data = hearth_buf_data(buf);
    pattern_write(data, 1000, 9);
    lender.budget = 2000;
    assert_status(hearth_buf_resize(buf, SIZE_MAX), HEARTH_OVERFLOW);
    assert_status(hearth_buf_resize(buf, HEARTH__CLASS_SIZE_MAX + 1), HEARTH_OVERFLOW);
    assert_status(hearth_buf_resize(buf, 4000), HEARTH_NO_MEMORY);
    assert_status(hearth_buf_resize_keep(buf, 4000), HEARTH_NO_MEMORY);
    cr_assert_eq(hearth_buf_data(buf), data);
    assert_size(hearth_buf_size(buf), 1000);
    assert_size(hearth_exec_live_bytes(arena), 1000);
    assert_size(hearth_exec_peak_bytes(arena), 1000);
    cr_assert(pattern_holds(data, 1000, 9));
    assert_sound(arena);
}

static void resize_there(void *argument)
{
    misuse_seen.slot = argument;
    misuse_seen.count = hearth_buf_resize(argument, 10) == HEARTH_NOT_OWNER ? 100 : 0;
}

Test(exec_resize, misuse, .init = start)
{
    int local = 0;
    struct hearth_buf *buf = exec_take(arena, 1000);
    on_thread(resize_there, buf);
    assert_size(misuse_seen.count, 100);
    assert_status(hearth_buf_resize((struct hearth_buf *)(void *)&local, 10), HEARTH_FOREIGN);
    assert_status(hearth_buf_resize(hearth_buf_data(buf), 10), HEARTH_FOREIGN);
    assert_size(hearth_buf_size(buf), 1000);
    assert_ok(hearth_exec_free(arena, buf));
    assert_status(hearth_buf_resize(buf, 10), HEARTH_STALE);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_status(hearth_buf_resize(buf, 10), HEARTH_STALE);
    assert_ok(hearth_exec_destroy(arena));
    assert_status(hearth_buf_resize(buf, 10), HEARTH_STALE);
}

/* The storage that a resize left behind was freed before what is freed afterwards. */
Test(exec_resize, left_storage_has_its_place_in_the_order_of_eviction, .init = start)
{
    struct hearth_buf *moved = exec_take(arena, 64 * KIB);
    struct hearth_buf *later = exec_take(arena, 4 * KIB);
    assert_ok(hearth_buf_resize(moved, 256 * KIB));
    assert_ok(hearth_exec_free(arena, later));
    assert_size(hearth_exec_retained_bytes(arena), 68 * KIB);
    assert_ok(hearth_exec_set_retention_cap(arena, 68 * KIB - 1));
    assert_size(hearth_exec_retained_bytes(arena), 4 * KIB);
    assert_sound(arena);
}

Test(exec_resize, two_moves_keep_their_order, .init = start)
{
    struct hearth_buf *first = exec_take(arena, 64 * KIB);
    struct hearth_buf *second = exec_take(arena, 4 * KIB);
    assert_ok(hearth_buf_resize(first, 256 * KIB));
    assert_ok(hearth_buf_resize(second, 1 * MIB));
    assert_ok(hearth_exec_set_retention_cap(arena, 68 * KIB - 1));
    assert_size(hearth_exec_retained_bytes(arena), 4 * KIB);
}

Test(exec_resize, left_storage_obeys_the_cap, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 64 * KIB);
    assert_ok(hearth_exec_set_retention_cap(arena, 1000));
    assert_ok(hearth_buf_resize(buf, 256 * KIB));
    assert_size(hearth_exec_retained_bytes(arena), 0);
    assert_size(lender.lent, 256 * KIB);
    assert_sound(arena);
}

/* As for an allocation: what the cap sends back is back before the request fails. */
Test(exec_resize, displaced_storage_is_given_back_before_no_memory, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 64 * KIB);
    struct hearth_buf *gone = exec_take(arena, 64 * KIB);
    assert_ok(hearth_exec_set_retention_cap(arena, 1));
    free_elsewhere(arena, &gone, 1);
    lender.budget = 192 * KIB;
    assert_ok(hearth_buf_resize(buf, 128 * KIB));
    assert_size(lender.lent, 128 * KIB);
    assert_sound(arena);
}
