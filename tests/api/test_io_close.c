/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an I/O arena: close, destroy, references.
 * Covered: what goes on after close and what does not, BUSY while something is out, returns after the last
 * reference, everything back at the backing with the last return, leases of arenas that are gone, on this
 * thread and on others. Not covered: close while others work (stress/). */
#include "io_support.h"

static struct memory memory;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    misuse_record();
}

TestSuite(io_close, .init = setup);

static void count_release(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    ++*(unsigned *)context;
}

static void expect_closed(unsigned *calls)
{
    struct hearth_request request = {.size = 100, .alignment = 4096};
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearth_exec *exec = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *mine = take(exec, 100), *none = NULL;
    EXPECT(HEARTH_CLOSED, hearth_io_alloc(io, 100, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_alloc(io, 100 * KIB, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_alloc_ex(io, &request, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_lease(io, 100, &lease));
    EXPECT(HEARTH_CLOSED, hearth_io_lease(io, 100 * KIB, &lease));
    EXPECT(HEARTH_CLOSED, hearth_io_lease_ex(io, &request, &lease));
    EXPECT(HEARTH_CLOSED, hearth_alloc(hearth_io_allocator(io), 100, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_take(io, mine, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_adopt(io, calls, 4, count_release, calls, &lease));
    EXPECT(HEARTH_CLOSED, hearth_io_close(io));
    cr_assert_null(none);
    cr_assert_null(lease.buf);
    give(exec, mine);
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
}

Test(io_close, close_ends_the_beginnings_and_nothing_else)
{
    static const size_t sizes[] = {100, 100 * KIB};
    unsigned calls = 0;
    struct hearth_lease adopted = HEARTH_LEASE_INIT;
    struct hearth_buf *bare[2], *exported[2];
    struct hearth_lease leases[2];
    for (size_t i = 0; i < 2; i++) {
        bare[i] = io_take(io, sizes[i]);
        exported[i] = io_take(io, sizes[i]);
        leases[i] = io_lease(io, sizes[i]);
    }
    io_give(io, io_take(io, 5000));
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &calls, 4, count_release, &calls, &adopted));
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_OK, hearth_io_close(io));
    EXPECT_SIZE(before.live_count, hearth_io_live_count(io));
    EXPECT_SIZE(before.live_bytes, hearth_io_live_bytes(io));
    expect_closed(&calls);
    for (size_t i = 0; i < 2; i++) {
        struct hearth_view view;
        struct hearth_lease lease = io_export(io, exported[i]);
        EXPECT(HEARTH_OK, hearth_lease_retain(leases[i]));
        EXPECT(HEARTH_OK, hearth_lease_view(leases[i], 1, 99, &view));
        EXPECT_SIZE(sizes[i], hearth_lease_size(leases[i]));
        EXPECT(HEARTH_OK, hearth_buf_resize(bare[i], 10));
        io_give(io, bare[i]);
        io_drop(lease);
        io_drop(view.lease);
        io_drop(leases[i]);
        io_drop(leases[i]);
        io_is_stale(leases[i]);
        EXPECT(HEARTH_STALE, hearth_io_free(io, bare[i]));
    }
    EXPECT_SIZE(0, calls);
    EXPECT_SIZE(1, hearth_io_live_count(io));
    io_drop(adopted);
    EXPECT_SIZE(1, calls);
    EXPECT_SIZE(0, hearth_io_live_count(io));
    EXPECT_SIZE(0, hearth_io_live_bytes(io));
    EXPECT_SIZE(memory.bytes, hearth_io_footprint(io));
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    memory_fini(&memory);
}

Test(io_close, trim_works_after_close)
{
    io_give(io, io_take(io, 5000));
    io_give(io, io_take(io, 500000));
    EXPECT(HEARTH_OK, hearth_io_close(io));
    EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    EXPECT_SIZE(0, hearth_io_footprint(io));
    EXPECT_SIZE(0, memory.bytes);
    hearth_io_unref(io);
    memory_fini(&memory);
}

Test(io_close, destroy_is_busy_while_something_is_out)
{
    unsigned calls = 0;
    struct hearth_buf *bare = io_take(io, 100);
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_BUSY, hearth_io_destroy(io));
    io_unchanged(&before, io);
    struct hearth_lease lease = io_export(io, bare), adopted = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_BUSY, hearth_io_destroy(io));
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_io_adopt(io, NULL, 0, count_release, &calls, &adopted));
    EXPECT(HEARTH_BUSY, hearth_io_destroy(io));
    io_drop(io_lease(io, 100)); /* it is as open as before */
    io_drop(adopted);
    EXPECT_SIZE(1, calls);
    io_finish(io, &memory);
}

Test(io_close, references_are_counted)
{
    hearth_io_ref(io);
    hearth_io_ref(io);
    hearth_io_unref(io);
    io_drop(io_lease(io, 100));
    hearth_io_unref(io);
    io_drop(io_lease(io, 100));
    EXPECT_SIZE(128, memory.bytes);
    hearth_io_unref(io);
    memory_fini(&memory);
}

/* "Close the arena and give up the caller's reference." */
Test(io_close, destroy_closes_for_the_other_references)
{
    struct hearth_buf *none = NULL;
    hearth_io_ref(io);
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    EXPECT(HEARTH_CLOSED, hearth_io_alloc(io, 100, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_close(io));
    hearth_io_unref(io);
    memory_fini(&memory);
}

static void last_return_ends(size_t size, bool lease)
{
    struct hearth_buf *bufs[3];
    struct hearth_lease leases[3];
    for (size_t i = 0; i < 3; i++) {
        bufs[i] = io_take(io, size);
        if (lease)
            leases[i] = io_export(io, bufs[i]);
    }
    io_give(io, io_take(io, 3 * size + 1000));
    hearth_io_unref(io);
    for (size_t i = 0; i < 3; i++) {
        EXPECT_SIZE((3 - i) * class_of(size), memory.bytes);
        memset(lease ? hearth_lease_data(leases[i]) : hearth_buf_data(bufs[i]), 1, size);
        if (lease)
            io_drop(leases[i]);
        else
            io_give(io, bufs[i]);
    }
    EXPECT_SIZE(0, memory.bytes);
    for (size_t i = 0; i < 3 && lease; i++)
        io_is_stale(leases[i]);
    for (size_t i = 0; i < 3; i++)
        cr_assert_null(hearth_buf_owner(bufs[i]));
}

Test(io_close, the_last_return_gives_everything_back)
{
    static const size_t sizes[] = {100, 5000, 100 * KIB, MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        if (i)
            io = io_create(&memory, 0, 0, 0);
        last_return_ends(sizes[i], false);
        io = io_create(&memory, 0, 0, 0);
        last_return_ends(sizes[i], true);
    }
    memory_fini(&memory);
}

Test(io_close, an_export_after_the_last_reference)
{
    struct hearth_buf *a = io_take(io, 100), *b = io_take(io, 100 * KIB);
    hearth_io_unref(io);
    struct hearth_lease lease = io_export(io, a);
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    io_give(io, b); /* the caller's last bare buffer */
    io_drop(lease);
    cr_assert(hearth_lease_valid(lease));
    io_drop(lease);
    io_is_stale(lease);
    memory_fini(&memory);
}

Test(io_close, an_adopted_lease_outlives_the_arena)
{
    unsigned calls = 0;
    struct hearth_lease adopted = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &calls, 4, count_release, &calls, &adopted));
    hearth_io_unref(io);
    EXPECT_SIZE(0, calls);
    cr_assert_eq(hearth_lease_data(adopted), &calls);
    io_drop(adopted);
    EXPECT_SIZE(1, calls);
    io_is_stale(adopted);
    memory_fini(&memory);
}

/* Slots are used again by later arenas; their generations go on. */
Test(io_close, leases_stay_stale_through_later_arenas)
{
    struct hearth_lease old[200];
    for (size_t i = 0; i < COUNT_OF(old); i++)
        old[i] = io_lease(io, 100 + i * 1000);
    for (size_t i = 0; i < COUNT_OF(old); i++)
        io_drop(old[i]);
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    for (size_t round = 0; round < 5; round++) {
        struct hearth_lease leases[200];
        io = io_create(&memory, 0, 0, 0);
        for (size_t i = 0; i < COUNT_OF(leases); i++)
            leases[i] = io_lease(io, 100);
        struct io_figures before = io_figures(io);
        for (size_t i = 0; i < COUNT_OF(old); i++)
            io_is_stale(old[i]);
        io_unchanged(&before, io);
        for (size_t i = 0; i < COUNT_OF(leases); i++)
            io_drop(leases[i]);
        EXPECT(HEARTH_OK, hearth_io_destroy(io));
    }
    memory_fini(&memory);
}

static struct hearth_lease shared[2];

static void use_and_leave(void *unused)
{
    (void)unused;
    shared[0] = io_lease(io, 100);
    shared[1] = io_lease(io, 100 * KIB);
    io_give(io, io_take(io, 1000));
    hearth_io_unref(io);
    io_give(io, io_take(io, 1000)); /* the main thread's reference is left */
}

static void release_both(void *unused)
{
    (void)unused;
    io_drop(shared[0]);
    io_drop(shared[1]);
}

Test(io_close, the_last_return_may_come_from_any_thread)
{
    hearth_io_ref(io);
    on_thread(use_and_leave, NULL);
    hearth_io_unref(io);
    EXPECT_SIZE(128 + 112 * KIB, memory.bytes);
    on_thread(release_both, NULL);
    io_is_stale(shared[0]);
    memory_fini(&memory);
}

Test(io_close, tick_has_nothing_to_do)
{
    EXPECT(HEARTH_OK, hearth_io_tick());
    io_finish(io, &memory);
    EXPECT(HEARTH_OK, hearth_io_tick());
}
