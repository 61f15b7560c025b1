/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing buffers of an I/O arena; and the arena through the allocator interface.
 * Covered: within the capacity, moves with and without content, leased and stale buffers, figures, other
 * threads, out of slots; alloc, free, resize and figures through hearth_allocator. */
#include "io_support.h"

static struct memory memory;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_finish(io, &memory);
}

TestSuite(io_resize, .init = setup, .fini = teardown);

Test(io_resize, within_the_capacity_nothing_moves)
{
    struct hearth_buf *buf = io_take(io, 900);
    void *data = hearth_buf_data(buf);
    uint64_t generation = hearth_buf_generation(buf);
    static const size_t sizes[] = {1024, 0, 1, 1000, 1024, 3};
    fill(buf, 9);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        EXPECT(HEARTH_OK,
               i % 2 ? hearth_buf_resize(buf, sizes[i]) : hearth_buf_resize_keep(buf, sizes[i]));
        cr_assert_eq(hearth_buf_data(buf), data);
        EXPECT_SIZE(sizes[i], hearth_buf_size(buf));
        EXPECT_SIZE(1024, hearth_buf_capacity(buf));
        EXPECT_SIZE(sizes[i], hearth_io_live_bytes(io));
        EXPECT_SIZE(1024, hearth_io_live_capacity(io));
        EXPECT_SIZE(1024, hearth_io_peak_bytes(io));
    }
    cr_assert_eq(hearth_buf_generation(buf), generation);
    cr_assert(filled(buf, 3, 9));
    EXPECT_SIZE(1, memory.acquires);
    io_give(io, buf);
}

Test(io_resize, a_move_keeps_what_was_asked_for)
{
    static const size_t from[] = {1, 900, 50000, 300 * KIB}, to[] = {70, 5000, 90000, 2 * MIB};
    for (size_t i = 0; i < COUNT_OF(from); i++) {
        struct hearth_buf *buf = io_take(io, from[i]);
        uint64_t generation = hearth_buf_generation(buf);
        size_t left = hearth_buf_capacity(buf);
        fill(buf, 0x5A);
        EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, to[i]));
        cr_assert(filled(buf, from[i], 0x5A));
        EXPECT_SIZE(to[i], hearth_buf_size(buf));
        EXPECT_SIZE(class_of(to[i]), hearth_buf_capacity(buf));
        cr_assert_eq(hearth_buf_generation(buf), generation);
        struct hearth_buf *found = NULL;
        EXPECT(HEARTH_OK, hearth_buf_of(hearth_buf_data(buf), &found));
        cr_assert_eq(found, buf);
        EXPECT_SIZE(1, hearth_io_live_count(io));
        EXPECT_SIZE(to[i], hearth_io_live_bytes(io));
        EXPECT_SIZE(left, hearth_io_retained_bytes(io));
        io_identity(io, &memory);
        fill(buf, 0x5B);
        EXPECT(HEARTH_OK, hearth_buf_resize(buf, from[i])); /* keeps its capacity */
        EXPECT_SIZE(class_of(to[i]), hearth_buf_capacity(buf));
        io_give(io, buf);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    }
}

Test(io_resize, a_move_uses_retained_storage)
{
    struct hearth_buf *large = io_take(io, 100 * KIB), *buf = io_take(io, 100);
    void *data = hearth_buf_data(large);
    io_give(io, large);
    memory_clear_log(&memory);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 90 * KIB));
    cr_assert_eq(hearth_buf_data(buf), data);
    EXPECT_SIZE(0, memory.acquires);
    EXPECT(HEARTH_STALE, hearth_io_free(io, large));
    io_give(io, io_take(io, 100)); /* what was left behind serves */
    EXPECT_SIZE(0, memory.acquires);
    io_give(io, buf);
}

Test(io_resize, an_aligned_buffer_stays_aligned)
{
    struct hearth_buf *buf = io_take_aligned(io, 5000, 4096);
    for (size_t size = 10000; size < 3 * MIB; size *= 2) {
        EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, size));
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 4096, 0u);
    }
    io_give(io, buf);
}

Test(io_resize, leased_and_stale_buffers)
{
    struct hearth_buf *buf = io_take(io, 100);
    struct hearth_lease lease = io_export(io, buf);
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_LEASED, hearth_buf_resize(buf, 50));
    EXPECT(HEARTH_LEASED, hearth_buf_resize_keep(buf, 5000));
    io_unchanged(&before, io);
    EXPECT_SIZE(100, hearth_lease_size(lease));
    io_drop(lease);
    before = io_figures(io);
    EXPECT(HEARTH_STALE, hearth_buf_resize(buf, 50));
    EXPECT(HEARTH_STALE, hearth_buf_resize_keep(buf, 5000));
    io_unchanged(&before, io);
}

Test(io_resize, after_close_only_in_place)
{
    struct hearth_io *other = io_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = io_take(other, 900);
    EXPECT(HEARTH_OK, hearth_io_close(other));
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 1024));
    EXPECT_SIZE(1024, hearth_io_live_bytes(other));
    EXPECT_SIZE(1024, hearth_io_peak_bytes(other));
    EXPECT(HEARTH_CLOSED, hearth_buf_resize(buf, 1025));
    EXPECT_SIZE(1024, hearth_buf_size(buf));
    io_give(other, buf);
    EXPECT(HEARTH_OK, hearth_io_destroy(other));
}

static struct hearth_buf *shared;

static void resize_it(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(shared, 200));
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(shared, 100 * KIB));
}

Test(io_resize, any_thread_may)
{
    shared = io_take(io, 100);
    fill(shared, 4);
    on_thread(resize_it, NULL);
    cr_assert(filled(shared, 100, 4));
    EXPECT_SIZE(100 * KIB, hearth_io_live_bytes(io));
    io_give(io, shared);
}

Test(io_resize, a_failed_move_changes_nothing)
{
    struct hearth_buf *buf = io_take(io, 1000);
    void *data = hearth_buf_data(buf);
    fill(buf, 6);
    memory.limit = MIB;
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize_keep(buf, 2 * MIB));
    EXPECT(HEARTH_OVERFLOW, hearth_buf_resize(buf, SIZE_MAX));
    io_unchanged(&before, io);
    cr_assert_eq(hearth_buf_data(buf), data);
    EXPECT_SIZE(1000, hearth_buf_size(buf));
    cr_assert(filled(buf, 1000, 6));
    io_give(io, buf);
}

Test(io_resize, needs_no_slot)
{
    struct hearth_io *few = io_create(&memory, 2, 0, 0);
    struct hearth_buf *a = io_take(few, 100), *b = io_take(few, 100);
    fill(a, 8);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(a, 5000));
    cr_assert(filled(a, 100, 8));
    EXPECT_SIZE(5000, hearth_buf_size(a));
    EXPECT_SIZE(2, hearth_io_live_count(few));
    io_identity(few, &memory);
    io_give(few, b);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(a, 9000));
    cr_assert(filled(a, 100, 8));
    cr_assert_leq(hearth_io_live_count(few) + hearth_io_retained_count(few), (size_t)2);
    io_give(few, a);
    EXPECT(HEARTH_OK, hearth_io_destroy(few));
}

Test(io_resize, through_the_allocator_interface)
{
    struct hearth_allocator *allocator = hearth_io_allocator(io);
    struct hearth_request request = {.size = 100, .alignment = 4096, .zero = 1};
    struct hearth_buf *buf = NULL, *aligned = NULL, *none = NULL;
    cr_assert_str_eq(allocator->ops->kind, "io");
    EXPECT(HEARTH_OK, hearth_alloc(allocator, 1000, &buf));
    EXPECT(HEARTH_OK, hearth_alloc_ex(allocator, &request, &aligned));
    cr_assert_eq((uintptr_t)hearth_buf_data(aligned) % 4096, 0u);
    cr_assert(filled(aligned, 100, 0));
    cr_assert_eq(hearth_buf_owner(buf), allocator);
    EXPECT_SIZE(1100, hearth_live_bytes(allocator));
    EXPECT_SIZE(2, hearth_io_owned_count(io));
    fill(buf, 2);
    EXPECT(HEARTH_OK, hearth_resize(allocator, buf, 5000, true));
    cr_assert(filled(buf, 1000, 2));
    EXPECT_SIZE(5100, hearth_live_bytes(allocator));
    EXPECT(HEARTH_OVERFLOW, hearth_alloc(allocator, SIZE_MAX, &none));
    EXPECT(HEARTH_OK, hearth_free(allocator, buf));
    EXPECT(HEARTH_STALE, hearth_free(allocator, buf));
    EXPECT(HEARTH_FOREIGN, hearth_free(allocator, NULL));
    struct hearth_lease lease = io_export(io, aligned);
    EXPECT(HEARTH_LEASED, hearth_free(allocator, aligned));
    io_drop(lease);
    EXPECT_SIZE(0, hearth_live_bytes(allocator));
    EXPECT_SIZE(5100, hearth_peak_bytes(allocator));
}
