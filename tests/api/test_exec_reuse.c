/* SPDX-License-Identifier: Apache-2.0 */
/* Which storage an execution arena hands out, and what it counts while it does.
 * Covered: smallest sufficient, unused slots, growing, the slot limit, the reuse ratio, LIFO, resize,
 * size 0, peak. Not covered: caps (test_exec_cap.c), threads, random sequences (test_model.c). */
#include "support.h"

#include <string.h>

static struct memory memory;

static void setup(void)
{
    memory_init(&memory);
    misuse_record(); /* keeps the default callback quiet */
}

static void finish(struct hearth_exec *arena)
{
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(exec_reuse, .init = setup);

Test(exec_reuse, storage_of_a_returned_buffer_is_handed_out_again)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(arena, 1000);
    void *data = hearth_buf_data(buf);
    EXPECT_SIZE(1024, hearth_buf_capacity(buf));
    cr_assert_eq(hearth_buf_owner(buf), hearth_exec_allocator(arena));
    give(arena, buf);

    struct hearth_buf *again = take(arena, 900);
    cr_assert_eq(hearth_buf_data(again), data);
    EXPECT_SIZE(900, hearth_buf_size(again));
    EXPECT_SIZE(1024, hearth_buf_capacity(again));
    EXPECT_SIZE(1, memory.acquires);
    give(arena, again);
    finish(arena);
}

Test(exec_reuse, smallest_sufficient_buffer_first)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 1024);
    static const size_t sizes[] = {2048, 512, 8192, 256, 1024};
    struct hearth_buf *bufs[5];
    for (size_t i = 0; i < 5; i++)
        bufs[i] = take(arena, sizes[i]);
    for (size_t i = 0; i < 5; i++)
        give(arena, bufs[i]);

    static const size_t expected[] = {512, 1024, 2048, 8192};
    for (size_t i = 0; i < 4; i++) {
        bufs[i] = take(arena, 400);
        EXPECT_SIZE(expected[i], hearth_buf_capacity(bufs[i]));
    }
    EXPECT_SIZE(5, memory.acquires);
    EXPECT_SIZE(1, hearth_exec_retained_count(arena));
    for (size_t i = 0; i < 4; i++)
        give(arena, bufs[i]);
    finish(arena);
}

Test(exec_reuse, unused_slot_is_preferred_when_no_buffer_suffices)
{
    struct hearth_exec *arena = arena_create(&memory, 3, 0, 0);
    struct hearth_buf *small = take(arena, 64), *middle = take(arena, 256);
    give(arena, small);
    give(arena, middle);

    struct hearth_buf *large = take(arena, 4096);
    EXPECT_SIZE(2, hearth_exec_retained_count(arena));
    EXPECT_SIZE(320, hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(3, memory.acquires);
    EXPECT_SIZE(0, memory.releases);
    give(arena, large);
    finish(arena);
}

Test(exec_reuse, largest_free_buffer_grows_when_slots_ran_out)
{
    struct hearth_exec *arena = arena_create(&memory, 3, 0, 0);
    struct hearth_buf *a = take(arena, 64), *b = take(arena, 512), *c = take(arena, 256);
    give(arena, b);
    give(arena, a);
    give(arena, c);

    struct hearth_buf *large = take(arena, 4096);
    EXPECT_SIZE(4096, hearth_buf_capacity(large));
    EXPECT_SIZE(2, hearth_exec_retained_count(arena));
    EXPECT_SIZE(64 + 256, hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(4096 + 64 + 256, hearth_exec_footprint(arena));
    EXPECT_SIZE(4096, hearth_exec_peak_bytes(arena));
    fill(large, 1);
    check_identity(arena, &memory);
    give(arena, large);
    finish(arena);
}

Test(exec_reuse, any_size_serves_when_slots_ran_out)
{
    struct hearth_exec *arena = arena_create(&memory, 1, 0, 1);
    struct hearth_buf *large = take(arena, MIB);
    void *data = hearth_buf_data(large);
    give(arena, large);
    struct hearth_buf *small = take(arena, 1);
    cr_assert_eq(hearth_buf_data(small), data);
    EXPECT_SIZE(MIB, hearth_buf_capacity(small));
    EXPECT_SIZE(1, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(1, memory.acquires);
    give(arena, small);
    finish(arena);
}

/* exec.h, hearth_exec_alloc(): when slots ran out, the smallest sufficient buffer of any size. */
Test(exec_reuse, any_sufficient_buffer_serves_when_slots_ran_out)
{
    struct hearth_exec *arena = arena_create(&memory, 2, 0, 2);
    struct hearth_buf *a = take(arena, 64 * KIB), *b = take(arena, MIB);
    give(arena, b);
    give(arena, a);
    struct hearth_buf *small = take(arena, 64);
    EXPECT_SIZE(64 * KIB, hearth_buf_capacity(small));
    struct hearth_buf *next = take(arena, 64);
    EXPECT_SIZE(MIB, hearth_buf_capacity(next));
    EXPECT_SIZE(2, memory.acquires);
    give(arena, small);
    give(arena, next);
    finish(arena);
}

Test(exec_reuse, within_the_ratio_the_smallest_serves_also_when_slots_ran_out)
{
    struct hearth_exec *arena = arena_create(&memory, 2, 0, 2);
    struct hearth_buf *a = take(arena, 1024), *b = take(arena, MIB);
    give(arena, a);
    give(arena, b);
    struct hearth_buf *buf = take(arena, 1000);
    EXPECT_SIZE(1024, hearth_buf_capacity(buf));
    give(arena, buf);
    finish(arena);
}

Test(exec_reuse, slot_limit_is_answered_with_no_slot)
{
    struct hearth_exec *arena = arena_create(&memory, 2, 0, 0);
    EXPECT_SIZE(2, hearth_exec_slots(arena));
    struct hearth_buf *a = take(arena, 10), *b = take(arena, 20), *none = NULL;
    struct hearth_exec_stats before = stats_of(arena);
    EXPECT(HEARTH_NO_SLOT, hearth_exec_alloc(arena, 30, &none));
    cr_assert_null(none);
    check_unchanged(&before, arena);
    give(arena, a);
    a = take(arena, 30);
    EXPECT(HEARTH_NO_SLOT, hearth_exec_alloc(arena, 0, &none));
    give(arena, a);
    give(arena, b);
    finish(arena);
}

Test(exec_reuse, default_number_of_slots)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    EXPECT_SIZE(HEARTH_EXEC_SLOTS_DEFAULT, hearth_exec_slots(arena));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_exec_retention_cap(arena));
    finish(arena);
}

/* Whether a retained buffer of `kept` bytes serves a request of `asked` bytes. */
static bool serves(uint32_t ratio, size_t kept, size_t asked)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, ratio);
    struct hearth_buf *buf = take(arena, kept);
    void *data = hearth_buf_data(buf);
    give(arena, buf);
    buf = take(arena, asked);
    bool same = hearth_buf_data(buf) == data;
    EXPECT_SIZE(same ? kept : class_of(asked), hearth_buf_capacity(buf));
    give(arena, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    return same;
}

Test(exec_reuse, reuse_ratio_bounds_the_capacity_from_above)
{
    cr_expect(serves(0, 4096, 1024));
    cr_expect(serves(0, 4096, 897), "the request is rounded to 1024 first");
    cr_expect_not(serves(0, 4096, 896));
    cr_expect(serves(0, 256, 1));
    cr_expect_not(serves(0, 320, 1));
    cr_expect(serves(1, 1024, 1024));
    cr_expect(serves(1, 1024, 897));
    cr_expect_not(serves(1, 1024, 896));
    cr_expect(serves(2, 2048, 1024));
    cr_expect_not(serves(2, 2048, 896));
    cr_expect_not(serves(2, 2560, 1024));
    cr_expect(serves(1024, 64 * KIB, 0));
    cr_expect_not(serves(1024, 80 * KIB, 0));
    cr_expect(serves(3, 192, 64));
    cr_expect_not(serves(3, 256, 64));
    memory_fini(&memory);
}

Test(exec_reuse, last_returned_is_first_reused)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *bufs[8];
    void *data[8];
    for (size_t i = 0; i < 8; i++) {
        bufs[i] = take(arena, 5000);
        data[i] = hearth_buf_data(bufs[i]);
    }
    for (size_t i = 0; i < 8; i++)
        give(arena, bufs[i]);
    for (size_t i = 8; i-- > 0;) {
        bufs[i] = take(arena, 5000);
        cr_assert_eq(hearth_buf_data(bufs[i]), data[i]);
    }
    for (size_t i = 0; i < 8; i++)
        give(arena, bufs[i]);
    finish(arena);
}

Test(exec_reuse, resize_within_the_capacity_moves_nothing)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(arena, 1000);
    void *data = hearth_buf_data(buf);
    uint64_t generation = hearth_buf_generation(buf);
    fill(buf, 7);
    static const size_t sizes[] = {10, 1024, 0, 500};
    for (size_t i = 0; i < 4; i++) {
        EXPECT(HEARTH_OK, hearth_buf_resize(buf, sizes[i]));
        EXPECT_SIZE(sizes[i], hearth_buf_size(buf));
        EXPECT_SIZE(sizes[i], hearth_exec_live_bytes(arena));
        EXPECT_SIZE(1024, hearth_buf_capacity(buf));
        cr_assert_eq(hearth_buf_data(buf), data);
        cr_assert_eq(hearth_buf_generation(buf), generation);
        check_identity(arena, &memory);
    }
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 1000));
    cr_assert(filled(buf, 1000, 7), "a resize in place touched the content");
    EXPECT_SIZE(1024, hearth_exec_peak_bytes(arena));
    EXPECT_SIZE(1, memory.acquires);
    give(arena, buf);
    finish(arena);
}

Test(exec_reuse, resize_beyond_the_capacity_keeps_descriptor_and_generation)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(arena, 1000), *found = NULL;
    uint64_t generation = hearth_buf_generation(buf);
    fill(buf, 7);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 5000));
    EXPECT_SIZE(5000, hearth_buf_size(buf));
    EXPECT_SIZE(5120, hearth_buf_capacity(buf));
    cr_assert(filled(buf, 1000, 7));
    fill(buf, 8);
    cr_assert_eq(hearth_buf_generation(buf), generation);
    EXPECT(HEARTH_OK, hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    check_identity(arena, &memory);

    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 100000));
    fill(buf, 9);
    EXPECT_SIZE(100000, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    EXPECT_SIZE(100000, hearth_exec_peak_bytes(arena));
    cr_assert_eq(hearth_buf_generation(buf), generation);
    check_identity(arena, &memory);
    give(arena, buf);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    finish(arena);
}

Test(exec_reuse, resize_keeps_the_alignment)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take_aligned(arena, 1000, 8192);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 300000));
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 8192, 0u);
    give(arena, buf);
    finish(arena);
}

Test(exec_reuse, resize_works_when_every_slot_is_live)
{
    struct hearth_exec *arena = arena_create(&memory, 1, 0, 0);
    struct hearth_buf *buf = take(arena, 1000);
    fill(buf, 3);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 5000));
    cr_assert(filled(buf, 1000, 3));
    EXPECT_SIZE(5120, hearth_exec_live_capacity(arena));
    check_identity(arena, &memory);
    give(arena, buf);
    finish(arena);
}

Test(exec_reuse, a_resize_that_fails_changes_nothing)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(arena, 1000);
    void *data = hearth_buf_data(buf);
    fill(buf, 3);
    memory.limit = 4096;
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize_keep(buf, 5000));
    EXPECT(HEARTH_OVERFLOW, hearth_buf_resize(buf, SIZE_MAX));
    EXPECT_SIZE(1000, hearth_buf_size(buf));
    cr_assert_eq(hearth_buf_data(buf), data);
    cr_assert(filled(buf, 1000, 3));
    EXPECT_SIZE(1000, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(1000, hearth_exec_peak_bytes(arena));
    check_identity(arena, &memory);
    give(arena, buf);
    finish(arena);
}

Test(exec_reuse, size_zero_gives_distinct_valid_buffers)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *a = take(arena, 0), *b = take(arena, 0), *found = NULL;
    cr_assert_neq(a, b);
    cr_assert_not_null(hearth_buf_data(a));
    cr_assert_neq(hearth_buf_data(a), hearth_buf_data(b));
    EXPECT(HEARTH_OK, hearth_buf_of(hearth_buf_data(b), &found));
    cr_assert_eq(found, b);
    EXPECT_SIZE(2, hearth_exec_live_count(arena));
    EXPECT_SIZE(0, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(0, hearth_exec_peak_bytes(arena));
    give(arena, a);
    give(arena, b);
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, a));
    finish(arena);
}

Test(exec_reuse, peak_is_exact_and_can_be_reset)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *a = take(arena, 100), *b = take(arena, 1000);
    give(arena, a);
    EXPECT_SIZE(1100, hearth_exec_peak_bytes(arena));
    a = take(arena, 50);
    EXPECT_SIZE(1100, hearth_exec_peak_bytes(arena));
    EXPECT(HEARTH_OK, hearth_exec_reset_peak(arena));
    EXPECT_SIZE(1050, hearth_exec_peak_bytes(arena));
    EXPECT(HEARTH_OK, hearth_buf_resize(b, 3000));
    EXPECT_SIZE(3050, hearth_exec_peak_bytes(arena));
    EXPECT(HEARTH_OK, hearth_buf_resize(b, 0));
    EXPECT_SIZE(3050, hearth_exec_peak_bytes(arena));
    hearth_reset_peak(hearth_exec_allocator(arena));
    EXPECT_SIZE(50, hearth_peak_bytes(hearth_exec_allocator(arena)));
    EXPECT_SIZE(50, hearth_live_bytes(hearth_exec_allocator(arena)));
    give(arena, a);
    give(arena, b);
    EXPECT_SIZE(50, hearth_exec_peak_bytes(arena));
    finish(arena);
}
