/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: exactly-once owners. Covered: making, moving, resetting, releasing, stale twins, scopes.
 * Not covered: leases (with the I/O arena). */
#include "support.h"

static struct memory memory;
static struct hearth_exec *arena;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(handle_api, .init = setup, .fini = teardown);

static void check_empty(const struct hearth_handle *handle)
{
    cr_assert_null(hearth_handle_buf(handle));
    cr_assert_null(hearth_handle_owner(handle));
    EXPECT_SIZE(0, hearth_handle_capacity(handle));
    EXPECT_SIZE(0, hearth_handle_logical_size(handle));
    cr_assert_not(hearth_handle_holds_lease(handle));
}

Test(handle_api, an_empty_handle)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, zeroed = {0};
    struct hearth_buf *buf = (struct hearth_buf *)(uintptr_t)&handle;
    check_empty(&handle);
    check_empty(&zeroed);
    check_empty(NULL);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(NULL));
    EXPECT(HEARTH_OK, hearth_handle_release(&handle, &buf));
    cr_assert_null(buf);
    EXPECT(HEARTH_INVALID, hearth_handle_release(NULL, &buf));
    EXPECT(HEARTH_OK, hearth_handle_move(&zeroed, &handle));
    check_empty(&zeroed);
    hearth_handle_cleanup(&handle);
}

Test(handle_api, owns_and_returns_a_buffer)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = take(arena, 1000);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    cr_assert_eq(hearth_handle_buf(&handle), buf);
    cr_assert_eq(hearth_handle_owner(&handle), hearth_exec_allocator(arena));
    EXPECT_SIZE(1024, hearth_handle_capacity(&handle));
    EXPECT_SIZE(1000, hearth_handle_logical_size(&handle));
    cr_assert_not(hearth_handle_holds_lease(&handle));
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    check_empty(&handle);
    EXPECT_SIZE(1, hearth_exec_retained_count(arena));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, buf));
}

Test(handle_api, making_one_is_checked)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, full = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = take(arena, 1000), *other = take(arena, 10);
    EXPECT(HEARTH_FOREIGN,
           hearth_handle_from_buf((struct hearth_buf *)(uintptr_t)&memory, &handle));
    check_empty(&handle);
    EXPECT(HEARTH_INVALID, hearth_handle_from_buf(buf, NULL));
    cr_assert_neq(hearth_handle_from_buf(NULL, &handle), HEARTH_OK);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &full));
    EXPECT(HEARTH_BUSY, hearth_handle_from_buf(other, &full));
    cr_assert_eq(hearth_handle_buf(&full), buf);
    EXPECT(HEARTH_OK, hearth_handle_reset(&full));
    EXPECT(HEARTH_STALE, hearth_handle_from_buf(buf, &handle));
    check_empty(&handle);
    give(arena, other);
}

Test(handle_api, move_passes_ownership_on)
{
    struct hearth_handle a = HEARTH_HANDLE_INIT, b = HEARTH_HANDLE_INIT;
    struct hearth_buf *first = take(arena, 100), *second = take(arena, 2000);
    void *data = hearth_buf_data(first);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(first, &a));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(second, &b));
    EXPECT(HEARTH_OK, hearth_handle_move(&b, &a)); /* returns `second` */
    check_empty(&a);
    cr_assert_eq(hearth_handle_buf(&b), first);
    cr_assert_eq(hearth_buf_data(hearth_handle_buf(&b)), data);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    EXPECT_SIZE(2048, hearth_exec_retained_bytes(arena));
    EXPECT(HEARTH_OK, hearth_handle_move(&b, &b));
    cr_assert_eq(hearth_handle_buf(&b), first);
    EXPECT(HEARTH_INVALID, hearth_handle_move(NULL, &b));
    EXPECT(HEARTH_INVALID, hearth_handle_move(&a, NULL));
    cr_assert_eq(hearth_handle_buf(&b), first);
    EXPECT(HEARTH_OK, hearth_handle_move(&b, &a)); /* from empty: a reset */
    check_empty(&b);
}

Test(handle_api, move_tells_what_the_reset_answered)
{
    struct hearth_handle a = HEARTH_HANDLE_INIT, b = HEARTH_HANDLE_INIT;
    struct hearth_buf *first = take(arena, 100), *second = take(arena, 2000);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(first, &a));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(second, &b));
    give(arena, second); /* behind b's back */
    EXPECT(HEARTH_STALE, hearth_handle_move(&b, &a));
    cr_assert_eq(hearth_handle_buf(&b), first);
    check_empty(&a);
    EXPECT(HEARTH_OK, hearth_handle_reset(&b));
}

Test(handle_api, release_gives_the_buffer_to_the_caller)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = take(arena, 100), *out = NULL;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    EXPECT(HEARTH_OK, hearth_handle_release(&handle, &out));
    cr_assert_eq(out, buf);
    check_empty(&handle);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    cr_expect_eq(hearth_handle_release(&handle, NULL), HEARTH_INVALID);
    cr_assert_eq(hearth_handle_buf(&handle), buf, "nothing changed");
    EXPECT(HEARTH_OK, hearth_handle_release(&handle, &out));
    give(arena, buf);
}

Test(handle_api, a_stale_handle_never_returns_a_later_buffer)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, twin;
    struct hearth_buf *buf = take(arena, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    twin = handle;
    give(arena, buf);
    struct hearth_buf *again = take(arena, 100);
    cr_assert_eq(hearth_buf_data(again), hearth_buf_data(buf));
    struct hearth_exec_stats before = stats_of(arena);
    EXPECT(HEARTH_STALE, hearth_handle_reset(&handle));
    check_empty(&handle);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_STALE, hearth_handle_reset(&twin));
    check_unchanged(&before, arena);
    cr_assert_eq(misuse.count, 2u);
    cr_assert_eq(misuse.status, HEARTH_STALE);
    give(arena, again);
}

Test(handle_api, a_handle_may_outlive_its_arena_when_the_buffer_was_returned)
{
    struct hearth_exec *other = arena_create(&memory, 0, 0, 0);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = take(other, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    give(other, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(other));
    struct hearth_buf *bufs[64];
    for (size_t i = 0; i < 64; i++)
        bufs[i] = take(arena, 100);
    EXPECT(HEARTH_STALE, hearth_handle_reset(&handle));
    EXPECT_SIZE(64, hearth_exec_live_count(arena));
    for (size_t i = 0; i < 64; i++)
        give(arena, bufs[i]);
}

Test(handle_api, resize_leaves_the_handle_valid)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(take(arena, 100), &handle));
    EXPECT(HEARTH_OK, hearth_buf_resize(hearth_handle_buf(&handle), 5000));
    EXPECT_SIZE(5120, hearth_handle_capacity(&handle));
    EXPECT_SIZE(100, hearth_handle_logical_size(&handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
}

static struct hearth_buf *leave_scope(bool release)
{
    HEARTH_HANDLE_SCOPED handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(take(arena, 100), &handle));
    if (release)
        EXPECT(HEARTH_OK, hearth_handle_release(&handle, &buf));
    return buf;
}

Test(handle_api, leaving_the_scope_returns_the_buffer)
{
    cr_assert_null(leave_scope(false));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    struct hearth_buf *buf = leave_scope(true);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    give(arena, buf);
}
