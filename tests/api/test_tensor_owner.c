/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: handles, moving, releasing, reshaping. Exports: test_tensor_export.c; allocators that wrap
 * another: test_tensor_wrapped.c. */
#include "tensor_support.h"

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    io = io_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_finish(io, &memory);
}

TestSuite(tensor_owner, .init = setup, .fini = teardown);

static struct hearth_tensor exec_tensor(size_t bytes)
{
    return tensor_make(hearth_exec_allocator(arena), bytes);
}

/* From a handle */

Test(tensor_owner, a_handle_becomes_a_tensor)
{
    struct hearth_buf *buf = take(arena, 1000);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 100), large = shape_of(1, 1001);
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(NULL, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &large, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, NULL, &tensor));
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, NULL));
    tensor_is_empty(&tensor);
    cr_assert_eq(hearth_handle_buf(&handle), buf);
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    cr_assert_null(hearth_handle_buf(&handle));
    cr_assert_eq(hearth_tensor_data(&tensor), hearth_buf_data(buf));
    EXPECT_SIZE(1000, hearth_tensor_size(&tensor)); /* the buffer's, not the shape's */
    EXPECT_SIZE(1024, hearth_tensor_capacity(&tensor));
    cr_assert_eq(hearth_tensor_allocator(&tensor), hearth_exec_allocator(arena));
    struct hearth_buf *other = take(arena, 1000);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(other, &handle));
    EXPECT(HEARTH_BUSY, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    cr_assert_eq(hearth_handle_buf(&handle), other);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(tensor_owner, the_size_of_a_handle_is_the_buffers_of_now)
{
    struct hearth_buf *buf = take(arena, 1000);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 500);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 400));
    EXPECT(HEARTH_INVALID, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 600));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT_SIZE(600, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_release(&tensor, &handle));
    EXPECT_SIZE(600, hearth_handle_logical_size(&handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
}

Test(tensor_owner, a_stale_handle_becomes_nothing)
{
    struct hearth_buf *buf = take(arena, 1000);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    give(arena, buf);
    EXPECT(HEARTH_STALE, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    tensor_is_empty(&tensor);
    struct hearth_buf *again = take(arena, 1000);
    cr_assert_eq(again, buf); /* the same slot: only the generation tells */
    EXPECT(HEARTH_STALE, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_STALE, hearth_handle_reset(&handle));
    give(arena, again);
    struct hearth_lease lease = io_lease(io, 1000);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    io_drop(lease);
    EXPECT(HEARTH_STALE, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_STALE, hearth_handle_reset(&handle));
}

/* Moving */

Test(tensor_owner, a_move_moves_no_bytes)
{
    const struct hearth_shape shape = shape_of(1, 64);
    unsigned char lent[64];
    struct hearth_tensor from[3] = {tensor_make(NULL, 64), exec_tensor(64), HEARTH_TENSOR_INIT};
    EXPECT(HEARTH_OK, hearth_tensor_borrow(lent, 64, HEARTH_DTYPE_UINT8, &shape, &from[2]));
    for (size_t i = 0; i < COUNT_OF(from); i++) {
        struct hearth_tensor to = HEARTH_TENSOR_INIT, before = from[i];
        memset(hearth_tensor_data(&from[i]), 0x11, 64);
        EXPECT(HEARTH_OK, hearth_tensor_move(&to, &from[i]));
        tensor_is_empty(&from[i]);
        tensor_unchanged(&before, &to);
        EXPECT(HEARTH_OK, hearth_tensor_move(&to, &to)); /* onto itself */
        tensor_unchanged(&before, &to);
        EXPECT(HEARTH_OK, hearth_tensor_reset(&to));
    }
}

Test(tensor_owner, a_move_resets_the_target_first)
{
    struct hearth_tensor a = exec_tensor(100), b = exec_tensor(200);
    void *data = hearth_tensor_data(&a);
    EXPECT(HEARTH_INVALID, hearth_tensor_move(NULL, &a));
    EXPECT(HEARTH_INVALID, hearth_tensor_move(&b, NULL));
    EXPECT_SIZE(2, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_tensor_move(&b, &a));
    EXPECT_SIZE(100, hearth_exec_live_bytes(arena));
    cr_assert_eq(hearth_tensor_data(&b), data);
    a = exec_tensor(300);
    give(arena, b.handle.buf); /* behind its back */
    data = hearth_tensor_data(&a);
    EXPECT(HEARTH_STALE, hearth_tensor_move(&b, &a)); /* and the move is done */
    cr_assert_eq(hearth_tensor_data(&b), data);
    tensor_is_empty(&a);
    EXPECT(HEARTH_OK, hearth_tensor_move(&b, &a)); /* from empty: a reset */
    tensor_is_empty(&b);
}

static void reset_it(void *tensor)
{
    EXPECT(HEARTH_OK, hearth_tensor_reset(tensor));
}

Test(tensor_owner, a_reset_runs_on_any_thread)
{
    struct hearth_tensor held = exec_tensor(100), own = tensor_make(NULL, 100);
    on_thread(reset_it, &held);
    on_thread(reset_it, &own);
    tensor_is_empty(&held);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
}

Test(tensor_owner, a_buffer_returned_behind_its_back_is_stale)
{
    struct hearth_tensor tensor = exec_tensor(100);
    give(arena, tensor.handle.buf);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
    tensor_is_empty(&tensor);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

/* Releasing */

Test(tensor_owner, the_allocation_is_released_as_a_handle)
{
    struct hearth_tensor tensor = exec_tensor(100), own = tensor_make(NULL, 100);
    struct hearth_handle handle = HEARTH_HANDLE_INIT, full = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = tensor.handle.buf;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(take(arena, 10), &full));
    struct hearth_tensor before = tensor;
    EXPECT(HEARTH_BUSY, hearth_tensor_release(&tensor, &full));
    EXPECT(HEARTH_INVALID, hearth_tensor_release(&tensor, NULL));
    EXPECT(HEARTH_INVALID, hearth_tensor_release(NULL, &handle));
    tensor_unchanged(&before, &tensor);
    EXPECT(HEARTH_OK, hearth_tensor_release(&tensor, &handle));
    tensor_is_empty(&tensor);
    cr_assert_eq(hearth_handle_buf(&handle), buf);
    EXPECT(HEARTH_INVALID, hearth_tensor_release(&tensor, &handle));
    before = own;
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT(HEARTH_INVALID, hearth_tensor_release(&own, &handle));
    tensor_unchanged(&before, &own);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&own));
    EXPECT(HEARTH_OK, hearth_handle_reset(&full));
}

/* Reshaping */

Test(tensor_owner, a_shape_within_the_capacity)
{
    const struct hearth_shape wide = shape_of(2, 8, 128), less = shape_of(1, 10);
    const struct hearth_shape more = shape_of(1, 1025), negative = shape_of(1, -1);
    const struct hearth_shape huge = shape_of(2, INT64_MAX, INT64_MAX);
    unsigned char lent[1024];
    const struct hearth_shape all = shape_of(1, 1024);
    struct hearth_tensor tensors[] = {tensor_make(NULL, 1024), exec_tensor(1000),
                                      HEARTH_TENSOR_INIT};
    EXPECT(HEARTH_OK, hearth_tensor_borrow(lent, 1024, HEARTH_DTYPE_UINT8, &all, &tensors[2]));
    for (size_t i = 0; i < COUNT_OF(tensors); i++) {
        struct hearth_tensor *tensor = &tensors[i];
        void *data = hearth_tensor_data(tensor);
        EXPECT(HEARTH_OK, hearth_tensor_reshape(tensor, &wide));
        cr_assert(shape_equals(hearth_tensor_shape(tensor), &wide));
        EXPECT_SIZE(1024, hearth_tensor_size(tensor));
        memset(data, 0x33, 1024);
        struct hearth_tensor before = *tensor;
        EXPECT(HEARTH_INVALID, hearth_tensor_reshape(tensor, &more));
        EXPECT(HEARTH_INVALID, hearth_tensor_reshape(tensor, &negative));
        EXPECT(HEARTH_INVALID, hearth_tensor_reshape(tensor, NULL));
        EXPECT(HEARTH_OVERFLOW, hearth_tensor_reshape(tensor, &huge));
        tensor_unchanged(&before, tensor);
        EXPECT(HEARTH_OK, hearth_tensor_reshape(tensor, &less));
        EXPECT_SIZE(10, hearth_tensor_size(tensor));
        EXPECT_SIZE(1024, hearth_tensor_capacity(tensor));
        if (i == 1)
            EXPECT_SIZE(10, hearth_exec_live_bytes(arena));
        EXPECT(HEARTH_OK, hearth_tensor_reshape(tensor, &wide));
        cr_assert_eq(hearth_tensor_data(tensor), data);
        cr_assert_eq(*(unsigned char *)data, 0x33);
        EXPECT(HEARTH_OK, hearth_tensor_reset(tensor));
    }
    struct hearth_tensor empty = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_tensor_reshape(&empty, &less));
    EXPECT(HEARTH_INVALID, hearth_tensor_reshape(NULL, &less));
}

Test(tensor_owner, the_buffer_and_the_handle_follow_a_shape)
{
    struct hearth_tensor tensor = exec_tensor(100);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    const struct hearth_shape shape = shape_of(2, 4, 16), none = shape_of(1, 0);
    uint64_t acquires = memory.acquires;
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &shape));
    EXPECT_SIZE(64, hearth_buf_size(tensor.handle.buf));
    EXPECT_SIZE(64, hearth_handle_logical_size(&tensor.handle));
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &none));
    EXPECT_SIZE(0, hearth_exec_live_bytes(arena));
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &shape));
    EXPECT_SIZE(acquires, memory.acquires);
    EXPECT(HEARTH_OK, hearth_tensor_release(&tensor, &handle));
    EXPECT_SIZE(64, hearth_handle_logical_size(&handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
}

static void reshape_elsewhere(void *tensor)
{
    const struct hearth_shape less = shape_of(1, 50), same = shape_of(2, 10, 10);
    EXPECT(HEARTH_NOT_OWNER, hearth_tensor_reshape(tensor, &less));
    EXPECT_SIZE(100, hearth_tensor_size(tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reshape(tensor, &same)); /* nothing to tell the arena */
}

Test(tensor_owner, another_byte_size_is_for_the_arenas_owner)
{
    struct hearth_tensor tensor = exec_tensor(100);
    const struct hearth_shape same = shape_of(2, 10, 10);
    on_thread(reshape_elsewhere, &tensor);
    cr_assert(shape_equals(hearth_tensor_shape(&tensor), &same));
    give(arena, tensor.handle.buf);
    struct hearth_tensor before = tensor;
    EXPECT(HEARTH_STALE, hearth_tensor_reshape(&tensor, &same));
    tensor_unchanged(&before, &tensor);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
}

Test(tensor_owner, a_leased_buffer_keeps_its_byte_size)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 100), same = shape_of(2, 10, 10);
    const struct hearth_shape less = shape_of(1, 99);
    struct hearth_lease lease = io_lease(io, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    cr_assert_eq(hearth_tensor_allocator(&tensor), hearth_io_allocator(io));
    EXPECT_SIZE(100, hearth_tensor_size(&tensor));
    struct hearth_tensor before = tensor;
    EXPECT(HEARTH_LEASED, hearth_tensor_reshape(&tensor, &less));
    tensor_unchanged(&before, &tensor);
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &same));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    io_is_stale(lease);
    /* Leased behind the tensor's back. */
    tensor = tensor_make(hearth_io_allocator(io), 100);
    before = tensor;
    lease = io_export(io, tensor.handle.buf);
    EXPECT(HEARTH_LEASED, hearth_tensor_reshape(&tensor, &less));
    tensor_unchanged(&before, &tensor);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
    io_drop(lease);
}

Test(tensor_owner, without_a_fixed_size_the_byte_size_stays)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 10), other = shape_of(2, 3, 7);
    EXPECT(HEARTH_OK, hearth_tensor_make(hearth_exec_allocator(arena), HEARTH_DTYPE_STRING, &shape,
                                         77, &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &other));
    EXPECT_SIZE(77, hearth_tensor_size(&tensor));
    cr_assert(shape_equals(hearth_tensor_shape(&tensor), &other));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}
