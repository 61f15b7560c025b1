/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: exactly-once return, moves, scope exit. Leases come with the I/O arena. */
#include "core/buf.h"
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

static struct hearth_handle handle_of(size_t size)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    assert_ok(hearth_handle_from_buf(exec_take(arena, size), &handle));
    return handle;
}

Test(handle, an_empty_handle_owns_nothing, .init = start)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 1);
    cr_assert_null(hearth_handle_buf(&handle));
    cr_assert_null(hearth_handle_owner(&handle));
    assert_size(hearth_handle_capacity(&handle), 0);
    assert_size(hearth_handle_logical_size(&handle), 0);
    cr_assert_not(hearth_handle_holds_lease(&handle));
    assert_ok(hearth_handle_reset(&handle));
    assert_ok(hearth_handle_release(&handle, &buf));
    cr_assert_null(buf);
    assert_size(misuse_seen.count, 0);
}

Test(handle, null_is_answered, .init = start)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    cr_assert_null(hearth_handle_buf(NULL));
    cr_assert_null(hearth_handle_owner(NULL));
    assert_size(hearth_handle_capacity(NULL), 0);
    assert_size(hearth_handle_logical_size(NULL), 0);
    cr_assert_not(hearth_handle_holds_lease(NULL));
    assert_ok(hearth_handle_reset(NULL));
    assert_status(hearth_handle_move(NULL, &handle), HEARTH_INVALID);
    assert_status(hearth_handle_move(&handle, NULL), HEARTH_INVALID);
    assert_status(hearth_handle_release(NULL, NULL), HEARTH_INVALID);
    assert_status(hearth_handle_from_buf(exec_take(arena, 1), NULL), HEARTH_INVALID);
}

Test(handle, knows_what_it_owns, .init = start)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 1000);
    assert_ok(hearth_handle_from_buf(buf, &handle));
    cr_assert_eq(hearth_handle_buf(&handle), buf);
    cr_assert_eq(hearth_handle_owner(&handle), hearth_exec_allocator(arena));
    assert_size(hearth_handle_capacity(&handle), 1024);
    assert_size(hearth_handle_logical_size(&handle), 1000);
    cr_assert_not(hearth_handle_holds_lease(&handle));
    assert_ok(hearth_buf_resize(buf, 10));
    assert_size(hearth_handle_logical_size(&handle), 1000);
}

Test(handle, reset_returns_once, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_handle copy = handle;
    assert_ok(hearth_handle_reset(&handle));
    assert_size(hearth_exec_live_count(arena), 0);
    cr_assert_null(hearth_handle_buf(&handle));
    assert_ok(hearth_handle_reset(&handle));
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_ok(hearth_handle_reset(&copy));
    assert_size(misuse_seen.count, 1);
    assert_size(hearth_exec_retained_count(arena), 1);
}

Test(handle, a_copy_does_not_return_the_next_holders_buffer, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_handle copy = handle;
    struct hearth_buf *first = hearth_handle_buf(&handle);
    assert_ok(hearth_handle_reset(&handle));
    cr_assert_eq(exec_take(arena, 100), first, "the slot was handed out again");
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_ok(hearth_exec_free(arena, first));
}

Test(handle, a_return_by_hand_leaves_it_stale, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    assert_ok(hearth_exec_free(arena, hearth_handle_buf(&handle)));
    assert_status(hearth_handle_reset(&handle), HEARTH_STALE);
    cr_assert_eq(handle.kind, HEARTH_HANDLE_EMPTY);
}

Test(handle, is_stale_after_its_arena_is_gone, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_handle copy = handle;
    assert_ok(hearth_exec_free(arena, hearth_handle_buf(&handle)));
    assert_ok(hearth_exec_destroy(arena));
    assert_status(hearth_handle_reset(&handle), HEARTH_STALE);
    arena = exec_open(backing, 0, 0);
    struct hearth_buf *buf = exec_take(arena, 100);
    cr_assert_eq(buf, copy.buf, "the slot serves a new arena");
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_size(hearth_exec_live_count(arena), 1);
}

Test(handle, only_live_buffers_of_ours, .init = start)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    int local = 0;
    struct hearth_buf *buf = exec_take(arena, 100);
    assert_status(hearth_handle_from_buf(NULL, &handle), HEARTH_FOREIGN);
    assert_status(hearth_handle_from_buf((struct hearth_buf *)(void *)&local, &handle),
                  HEARTH_FOREIGN);
    hearth__store_relaxed(&buf->state, hearth__word(hearth_buf_generation(buf), HEARTH__LEASED));
    assert_status(hearth_handle_from_buf(buf, &handle), HEARTH_LEASED);
    hearth__store_relaxed(&buf->state, hearth__word(hearth_buf_generation(buf), HEARTH__LIVE));
    assert_ok(hearth_exec_free(arena, buf));
    assert_status(hearth_handle_from_buf(buf, &handle), HEARTH_STALE);
    cr_assert_eq(handle.kind, HEARTH_HANDLE_EMPTY);
    cr_assert_null(handle.buf);
    assert_size(misuse_seen.count, 4);
}

Test(handle, a_full_handle_is_busy, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_buf *first = hearth_handle_buf(&handle);
    struct hearth_buf *second = exec_take(arena, 200);
    assert_status(hearth_handle_from_buf(second, &handle), HEARTH_BUSY);
    cr_assert_eq(hearth_handle_buf(&handle), first);
    assert_size(hearth_exec_live_count(arena), 2);
}

Test(handle, move_returns_what_was_there, .init = start)
{
    struct hearth_handle from = handle_of(100);
    struct hearth_handle to = handle_of(200);
    struct hearth_buf *moved = hearth_handle_buf(&from);
    void *data = hearth_buf_data(moved);
    assert_ok(hearth_handle_move(&to, &from));
    cr_assert_eq(hearth_handle_buf(&to), moved);
    cr_assert_eq(hearth_buf_data(moved), data);
    assert_size(hearth_handle_logical_size(&to), 100);
    cr_assert_eq(from.kind, HEARTH_HANDLE_EMPTY);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_ok(hearth_handle_move(&to, &to));
    cr_assert_eq(hearth_handle_buf(&to), moved);
    assert_ok(hearth_handle_move(&to, &from));
    assert_size(hearth_exec_live_count(arena), 0);
}

Test(handle, a_move_succeeds_over_a_stale_handle, .init = start)
{
    struct hearth_handle from = handle_of(100);
    struct hearth_handle to = handle_of(200);
    struct hearth_buf *moved = hearth_handle_buf(&from);
    assert_ok(hearth_exec_free(arena, hearth_handle_buf(&to)));
    assert_status(hearth_handle_move(&to, &from), HEARTH_STALE);
    cr_assert_eq(hearth_handle_buf(&to), moved);
    cr_assert_null(hearth_handle_buf(&from));
    assert_ok(hearth_handle_reset(&to));
}

Test(handle, release_gives_the_buffer_back_to_the_caller, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_buf *expected = hearth_handle_buf(&handle);
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_handle_release(&handle, &buf));
    cr_assert_eq(buf, expected);
    cr_assert_eq(handle.kind, HEARTH_HANDLE_EMPTY);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_ok(hearth_exec_free(arena, buf));
}

Test(handle, scope_exit_returns, .init = start)
{
    {
        HEARTH_HANDLE_SCOPED scoped = HEARTH_HANDLE_INIT;
        assert_ok(hearth_handle_from_buf(exec_take(arena, 100), &scoped));
        assert_size(hearth_exec_live_count(arena), 1);
    }
    assert_size(hearth_exec_live_count(arena), 0);
}

static void reset_there(void *argument)
{
    if (hearth_handle_reset(argument) != HEARTH_OK)
        hearth_exec_free(NULL, NULL); /* seen in the misuse count */
}

Test(handle, resets_on_any_thread, .init = start)
{
    struct hearth_handle handle = handle_of(100);
    struct hearth_handle copy = handle;
    on_thread(reset_there, &handle);
    assert_size(misuse_seen.count, 0);
    assert_size(hearth_exec_pending_count(arena), 1);
    assert_size(hearth_exec_live_count(arena), 0);
    /* The first return is queued: to handle.h a second one is "always STALE". */
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_size(hearth_exec_live_count(arena), 0);
}

Test(handle, works_on_the_simple_allocator)
{
    struct hearth_simple *simple = NULL;
    struct hearth_buf *buf = NULL;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    misuse_record();
    assert_ok(hearth_simple_create_on(lender_open(&lender), 1, &simple));
    assert_ok(hearth_alloc(hearth_simple_allocator(simple), 10, &buf));
    assert_ok(hearth_handle_from_buf(buf, &handle));
    struct hearth_handle copy = handle;
    assert_ok(hearth_handle_reset(&handle));
    assert_status(hearth_handle_reset(&copy), HEARTH_STALE);
    assert_size(hearth_simple_live_count(simple), 0);
}

Test(handle, refuses_allocators_without_exact_returns, .init = start)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 10);
    struct hearth_allocator_ops ops = *hearth_exec_allocator(arena)->ops;
    const struct hearth_allocator_ops *own = hearth_exec_allocator(arena)->ops;
    ops.free_exact = NULL;
    hearth_exec_allocator(arena)->ops = &ops;
    assert_status(hearth_handle_from_buf(buf, &handle), HEARTH_INVALID);
    hearth_exec_allocator(arena)->ops = own;
    cr_assert_eq(handle.kind, HEARTH_HANDLE_EMPTY);
}

/* An allocator that wraps the arena and counts what passes through. */
struct wrapper {
    struct hearth_allocator allocator;
    size_t returns;
};

static enum hearth_status wrapper_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                             uint64_t generation)
{
    struct hearth_allocator *inner = hearth_exec_allocator(arena);
    ((struct wrapper *)(void *)self)->returns++;
    return inner->ops->free_exact(inner, buf, generation);
}

Test(handle, returns_through_the_wrapper_it_was_made_from, .init = start)
{
    struct hearth_allocator_ops ops = *hearth_exec_allocator(arena)->ops;
    struct wrapper wrapper = {{&ops}, 0};
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 10);
    ops.free_exact = wrapper_free_exact;
    assert_status(hearth_handle_from(NULL, buf, &handle), HEARTH_INVALID);
    assert_ok(hearth_handle_from(&wrapper.allocator, buf, &handle));
    cr_assert_eq(hearth_handle_owner(&handle), &wrapper.allocator);
    assert_ok(hearth_handle_reset(&handle));
    assert_size(wrapper.returns, 1);
    assert_size(hearth_exec_live_count(arena), 0);
}

/* Once the buffer is gone its wrapper may be gone, too: nothing of it is read. */
Test(handle, a_stale_handle_does_not_touch_its_wrapper, .init = start)
{
    struct wrapper wrapper = {{hearth_exec_allocator(arena)->ops}, 0};
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = exec_take(arena, 10);
    assert_ok(hearth_handle_from(&wrapper.allocator, buf, &handle));
    assert_ok(hearth_exec_free(arena, buf));
    wrapper.allocator.ops = NULL;
    assert_status(hearth_handle_reset(&handle), HEARTH_STALE);
}
