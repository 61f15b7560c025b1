/* SPDX-License-Identifier: Apache-2.0 */
/* Handles that own I/O buffers and leases.
 * Covered: every way to make one and to take it apart, move, reset, scopes, stale ones, refusals. */
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

TestSuite(io_handle, .init = setup, .fini = teardown);

static void check_empty(const struct hearth_handle *handle)
{
    cr_assert_null(hearth_handle_buf(handle));
    cr_assert_null(hearth_handle_owner(handle));
    EXPECT_SIZE(0, hearth_handle_capacity(handle));
    cr_assert_not(hearth_handle_holds_lease(handle));
}

static void check_lease(const struct hearth_handle *handle, const struct hearth_buf *buf,
                        size_t size, size_t capacity)
{
    cr_assert(hearth_handle_holds_lease(handle));
    cr_assert_eq(hearth_handle_buf(handle), buf);
    EXPECT_SIZE(size, hearth_handle_logical_size(handle));
    EXPECT_SIZE(capacity, hearth_handle_capacity(handle));
    cr_assert_eq(hearth_handle_owner(handle), hearth_io_allocator(io));
}

Test(io_handle, export_to_a_handle)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = io_take(io, 1000), *other = io_take(io, 10), *out = NULL;
    EXPECT(HEARTH_OK, hearth_io_export_handle(io, buf, &handle));
    check_lease(&handle, buf, 1000, 1024);
    EXPECT_SIZE(1, hearth_io_leased_count(io));
    EXPECT(HEARTH_LEASED, hearth_handle_release(&handle, &out));
    cr_assert_null(out);
    check_lease(&handle, buf, 1000, 1024);
    EXPECT(HEARTH_BUSY, hearth_io_export_handle(io, other, &handle));
    EXPECT_SIZE(1, hearth_io_owned_count(io));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    check_empty(&handle);
    EXPECT_SIZE(0, hearth_io_leased_count(io));
    EXPECT(HEARTH_STALE, hearth_io_export_handle(io, buf, &handle));
    check_empty(&handle);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    io_give(io, other);
}

Test(io_handle, a_held_buffer_becomes_a_held_lease)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = io_take(io, 100 * KIB);
    EXPECT(HEARTH_INVALID, hearth_io_export_held(io, &handle));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    cr_assert_not(hearth_handle_holds_lease(&handle));
    cr_assert_eq(hearth_handle_owner(&handle), hearth_io_allocator(io));
    EXPECT(HEARTH_OK, hearth_io_export_held(io, &handle));
    check_lease(&handle, buf, 100 * KIB, 112 * KIB);
    EXPECT(HEARTH_INVALID, hearth_io_export_held(io, &handle));
    check_lease(&handle, buf, 100 * KIB, 112 * KIB);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
}

Test(io_handle, an_export_behind_its_back)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = io_take(io, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    struct hearth_lease lease = io_export(io, buf);
    EXPECT(HEARTH_LEASED, hearth_io_export_held(io, &handle));
    cr_assert_not(hearth_handle_holds_lease(&handle));
    cr_assert_neq(hearth_handle_reset(&handle), HEARTH_OK);
    cr_assert(hearth_lease_valid(lease));
    io_drop(lease);

    EXPECT(HEARTH_OK, hearth_handle_from_buf(io_take(io, 100), &handle));
    io_give(io, hearth_handle_buf(&handle));
    EXPECT(HEARTH_STALE, hearth_io_export_held(io, &handle));
    struct hearth_buf *next = io_take(io, 100);
    cr_assert_eq(next, hearth_handle_buf(&handle), "the slot is used again");
    EXPECT(HEARTH_STALE, hearth_io_export_held(io, &handle));
    EXPECT(HEARTH_STALE, hearth_handle_reset(&handle));
    EXPECT_SIZE(1, hearth_io_owned_count(io));
    io_give(io, next);
}

Test(io_handle, a_foreign_buffer_is_not_exported)
{
    struct hearth_io *other = io_create(&memory, 0, 0, 0);
    struct hearth_handle handle = HEARTH_HANDLE_INIT, none = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = io_take(io, 100);
    EXPECT(HEARTH_FOREIGN, hearth_io_export_handle(other, buf, &none));
    check_empty(&none);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    EXPECT(HEARTH_FOREIGN, hearth_io_export_held(other, &handle));
    cr_assert_eq(hearth_handle_buf(&handle), buf);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_OK, hearth_io_destroy(other));
}

Test(io_handle, from_a_lease_and_back)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, full = HEARTH_HANDLE_INIT;
    struct hearth_lease lease = io_lease(io, 1000), out = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    check_lease(&handle, lease.buf, 1000, 1024);
    EXPECT(HEARTH_BUSY, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_handle_release_lease(&handle, &out));
    check_empty(&handle);
    cr_assert(out.buf == lease.buf && out.generation == lease.generation);
    EXPECT(HEARTH_INVALID, hearth_handle_release_lease(&handle, &out));
    EXPECT(HEARTH_INVALID, hearth_handle_release_lease(NULL, &out));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(io_take(io, 1), &full));
    EXPECT(HEARTH_INVALID, hearth_handle_release_lease(&full, &out));
    EXPECT(HEARTH_OK, hearth_handle_reset(&full));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    io_is_stale(lease);
    EXPECT(HEARTH_FOREIGN,
           hearth_handle_from_lease((struct hearth_lease)HEARTH_LEASE_INIT, &handle));
    check_empty(&handle);
}

Test(io_handle, reset_gives_up_one_reference)
{
    struct hearth_handle a = HEARTH_HANDLE_INIT, b = HEARTH_HANDLE_INIT;
    struct hearth_lease lease = io_lease(io, 1000);
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &a));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &b));
    EXPECT(HEARTH_OK, hearth_handle_reset(&a));
    cr_assert(hearth_lease_valid(lease));
    EXPECT(HEARTH_OK, hearth_handle_reset(&b));
    io_is_stale(lease);
}

Test(io_handle, move_passes_the_reference_on)
{
    struct hearth_handle a = HEARTH_HANDLE_INIT, b = HEARTH_HANDLE_INIT;
    struct hearth_lease first = io_lease(io, 100), second = io_lease(io, 70000);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(first, &a));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(second, &b));
    EXPECT(HEARTH_OK, hearth_handle_move(&b, &a));
    check_empty(&a);
    io_is_stale(second);
    check_lease(&b, first.buf, 100, 128);
    EXPECT(HEARTH_OK, hearth_handle_move(&b, &b));
    cr_assert(hearth_lease_valid(first));
    io_drop(first); /* behind the handle's back */
    EXPECT(HEARTH_STALE, hearth_handle_move(&b, &a));
    check_empty(&b);
}

static void leave_scope(struct hearth_lease lease, struct hearth_lease *kept)
{
    HEARTH_HANDLE_SCOPED handle = HEARTH_HANDLE_INIT;
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    if (kept)
        EXPECT(HEARTH_OK, hearth_handle_release_lease(&handle, kept));
}

Test(io_handle, leaving_the_scope_releases_the_lease)
{
    struct hearth_lease lease = io_lease(io, 100), kept = HEARTH_LEASE_INIT;
    leave_scope(lease, &kept);
    cr_assert(hearth_lease_valid(lease));
    leave_scope(kept, NULL);
    io_is_stale(lease);
}

Test(io_handle, a_handle_may_outlive_the_arena)
{
    struct hearth_io *other = io_create(&memory, 0, 0, 0);
    struct hearth_handle held = HEARTH_HANDLE_INIT, stale = HEARTH_HANDLE_INIT;
    struct hearth_lease lease = io_lease(other, 100);
    EXPECT(HEARTH_OK, hearth_io_export_handle(other, io_take(other, 70000), &held));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &stale));
    io_drop(lease);
    hearth_io_unref(other);
    memset(hearth_buf_data(hearth_handle_buf(&held)), 1, 70000);
    EXPECT(HEARTH_OK, hearth_handle_reset(&held));
    EXPECT_SIZE(0, memory.bytes);
    EXPECT(HEARTH_STALE, hearth_handle_reset(&stale));
}
