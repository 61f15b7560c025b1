/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that become leases, from every owner, and what is refused. */
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

TestSuite(tensor_export, .init = setup, .fini = teardown);

/* An export that is refused changes nothing: not the tensor, the lease, nor any figure. */
static void refused(enum hearth_status expected, struct hearth_tensor *tensor,
                    struct hearth_io *where)
{
    struct hearth_tensor before = *tensor;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct io_figures figures = io_figures(where);
    size_t live = hearth_exec_live_bytes(arena);
    EXPECT(expected, hearth_tensor_export(tensor, where, &lease));
    tensor_unchanged(&before, tensor);
    cr_assert_null(lease.buf);
    io_unchanged(&figures, where);
    EXPECT_SIZE(live, hearth_exec_live_bytes(arena));
}

static struct hearth_lease exported(struct hearth_tensor *tensor)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    void *data = hearth_tensor_data(tensor);
    size_t size = hearth_tensor_size(tensor);
    memset(data, 0x42, size);
    uint64_t acquires = memory.acquires;
    EXPECT(HEARTH_OK, hearth_tensor_export(tensor, io, &lease));
    tensor_is_empty(tensor);
    cr_assert_eq(hearth_lease_data(lease), data);
    EXPECT_SIZE(size, hearth_lease_size(lease));
    EXPECT_SIZE(acquires, memory.acquires);
    EXPECT_SIZE(1, hearth_io_leased_count(io));
    EXPECT_SIZE(0, hearth_io_owned_count(io));
    EXPECT_SIZE(size, hearth_io_leased_bytes(io));
    if (size != 0)
        cr_assert_eq(((unsigned char *)data)[size - 1], 0x42);
    return lease;
}

static const size_t sizes[] = {0, 1, 1000, 100 * KIB};

Test(tensor_export, a_buffer_of_the_arena)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_tensor tensor = tensor_make(hearth_io_allocator(io), sizes[i]);
        struct hearth_lease lease = exported(&tensor);
        EXPECT(HEARTH_OK, hearth_lease_retain(lease));
        io_drop(lease);
        cr_assert(hearth_lease_valid(lease));
        io_drop(lease);
        io_is_stale(lease);
    }
}

Test(tensor_export, an_execution_buffer_is_taken)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_tensor tensor = tensor_make(hearth_exec_allocator(arena), sizes[i]);
        struct hearth_lease lease = exported(&tensor);
        EXPECT_SIZE(0, hearth_exec_live_count(arena));
        io_drop(lease);
        io_is_stale(lease);
    }
}

Test(tensor_export, inline_storage_is_adopted)
{
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_tensor tensor = tensor_make(NULL, sizes[i]);
        struct hearth_lease lease = exported(&tensor);
        EXPECT_SIZE(0, hearth_io_live_capacity(io));
        io_drop(lease); /* frees; a leak checker sees if not */
        io_is_stale(lease);
    }
}

Test(tensor_export, a_lease_is_handed_out_and_comes_back)
{
    struct hearth_tensor tensor = tensor_make(hearth_io_allocator(io), 100);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    const struct hearth_shape shape = shape_of(1, 100);
    struct hearth_lease lease = exported(&tensor), again;
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    again = exported(&tensor);
    cr_assert_eq(again.buf, lease.buf);
    EXPECT_SIZE((size_t)again.generation, (size_t)lease.generation);
    io_drop(again);
    /* Adopted storage, too. */
    tensor = tensor_make(NULL, 100);
    lease = exported(&tensor);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT_SIZE(100, hearth_tensor_size(&tensor));
    EXPECT_SIZE(100, hearth_tensor_capacity(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    io_is_stale(lease);
}

Test(tensor_export, a_lease_of_another_arena_stays_one)
{
    struct memory other;
    memory_init(&other);
    struct hearth_io *far = io_create(&other, 0, 0, 0);
    struct hearth_lease lease = io_lease(far, 100), out;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_export(&tensor, io, &out));
    cr_assert_eq(out.buf, lease.buf);
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_drop(out);
    io_finish(far, &other);
}

Test(tensor_export, the_size_is_the_shapes_of_now)
{
    struct hearth_tensor tensor = tensor_make(hearth_exec_allocator(arena), 1000);
    const struct hearth_shape less = shape_of(1, 10);
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &less));
    struct hearth_lease lease = exported(&tensor);
    EXPECT_SIZE(10, hearth_lease_size(lease));
    io_drop(lease);
}

Test(tensor_export, arguments_are_checked)
{
    struct hearth_tensor tensor = tensor_make(NULL, 100), before = tensor;
    struct hearth_tensor empty = HEARTH_TENSOR_INIT, borrowed = HEARTH_TENSOR_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    const struct hearth_shape shape = shape_of(1, 8);
    unsigned char lent[8];
    EXPECT(HEARTH_INVALID, hearth_tensor_export(NULL, io, &lease));
    EXPECT(HEARTH_INVALID, hearth_tensor_export(&tensor, NULL, &lease));
    EXPECT(HEARTH_INVALID, hearth_tensor_export(&tensor, io, NULL));
    tensor_unchanged(&before, &tensor);
    refused(HEARTH_INVALID, &empty, io);
    EXPECT(HEARTH_OK, hearth_tensor_borrow(lent, 8, HEARTH_DTYPE_UINT8, &shape, &borrowed));
    refused(HEARTH_INVALID, &borrowed, io);
    EXPECT_SIZE(0, misuse.count);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(tensor_export, what_left_behind_its_back)
{
    struct hearth_tensor tensor = tensor_make(hearth_io_allocator(io), 100);
    struct hearth_lease lease = io_export(io, tensor.handle.buf);
    refused(HEARTH_LEASED, &tensor, io);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
    io_drop(lease);
    tensor = tensor_make(hearth_io_allocator(io), 100);
    io_give(io, tensor.handle.buf);
    refused(HEARTH_STALE, &tensor, io);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
    tensor = tensor_make(hearth_exec_allocator(arena), 100);
    give(arena, tensor.handle.buf);
    refused(HEARTH_STALE, &tensor, io);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
    /* A lease whose last reference was given up. */
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    const struct hearth_shape shape = shape_of(1, 8);
    lease = io_lease(io, 100);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT8, &shape, &tensor));
    io_drop(lease);
    refused(HEARTH_STALE, &tensor, io);
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
}

static void export_elsewhere(void *tensor)
{
    refused(HEARTH_NOT_OWNER, tensor, io);
}

static void export_own(void *tensor)
{
    struct hearth_lease lease;
    EXPECT(HEARTH_OK, hearth_tensor_export(tensor, io, &lease));
    io_drop(lease);
}

Test(tensor_export, only_the_owner_exports_an_execution_buffer)
{
    struct hearth_tensor tensor = tensor_make(hearth_exec_allocator(arena), 100);
    on_thread(export_elsewhere, &tensor);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    tensor = tensor_make(hearth_io_allocator(io), 100);
    on_thread(export_own, &tensor);
    tensor = tensor_make(NULL, 100);
    on_thread(export_own, &tensor);
}

Test(tensor_export, storage_that_cannot_be_taken)
{
    struct memory other;
    struct hearth_simple *simple;
    memory_init(&other);
    struct hearth_exec *far = arena_create(&other, 0, 0, 0);
    struct hearth_io *far_io = io_create(&other, 0, 0, 0);
    EXPECT(HEARTH_OK, hearth_simple_create(4, &simple));
    struct hearth_tensor tensors[] = {
        tensor_make(hearth_exec_allocator(far), 100),
        tensor_make(hearth_io_allocator(far_io), 100),
        tensor_make(hearth_simple_allocator(simple), 100),
    };
    for (size_t i = 0; i < COUNT_OF(tensors); i++) {
        refused(HEARTH_INVALID, &tensors[i], io);
        EXPECT_SIZE(0, misuse.count); /* to ask is no misuse: the caller copies then */
        EXPECT(HEARTH_OK, hearth_tensor_reset(&tensors[i]));
    }
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    EXPECT(HEARTH_OK, hearth_exec_destroy(far));
    io_finish(far_io, &other);
}

Test(tensor_export, a_closed_arena_exports_what_it_has)
{
    struct memory other;
    memory_init(&other);
    struct hearth_exec *exec = arena_create(&other, 0, 0, 0);
    struct hearth_io *closed = io_create(&other, 0, 0, 0);
    struct hearth_tensor own = tensor_make(hearth_io_allocator(closed), 100);
    struct hearth_tensor inside = tensor_make(NULL, 100);
    struct hearth_tensor moved = tensor_make(hearth_exec_allocator(exec), 100);
    EXPECT(HEARTH_OK, hearth_io_close(closed));
    refused(HEARTH_CLOSED, &inside, closed);
    refused(HEARTH_CLOSED, &moved, closed);
    struct hearth_lease lease;
    EXPECT(HEARTH_OK, hearth_tensor_export(&own, closed, &lease));
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&inside));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&moved));
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    io_finish(closed, &other);
}

Test(tensor_export, a_full_arena)
{
    struct memory other;
    memory_init(&other);
    struct hearth_exec *exec = arena_create(&other, 0, 0, 0);
    struct hearth_io *one = io_create(&other, 1, 0, 0);
    struct hearth_lease lease = io_lease(one, 64);
    struct hearth_tensor inside = tensor_make(NULL, 100);
    struct hearth_tensor moved = tensor_make(hearth_exec_allocator(exec), 100);
    refused(HEARTH_NO_SLOT, &inside, one);
    refused(HEARTH_NO_SLOT, &moved, one);
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_tensor_export(&moved, one, &lease));
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&inside));
    EXPECT(HEARTH_OK, hearth_io_destroy(one));
    struct hearth_io *small = io_create_limited(&other, 64);
    moved = tensor_make(hearth_exec_allocator(exec), 100);
    refused(HEARTH_NO_MEMORY, &moved, small);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&moved));
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    io_finish(small, &other);
}

Test(tensor_export, leases_outlive_every_arena)
{
    struct memory other;
    memory_init(&other);
    struct hearth_exec *exec = arena_create(&other, 0, 0, 0);
    struct hearth_io *gone = io_create(&other, 0, 0, 0);
    struct hearth_tensor tensors[] = {tensor_make(hearth_exec_allocator(exec), 100),
                                      tensor_make(hearth_io_allocator(gone), 100),
                                      tensor_make(NULL, 100)};
    struct hearth_lease leases[COUNT_OF(tensors)];
    for (size_t i = 0; i < COUNT_OF(tensors); i++) {
        memset(hearth_tensor_data(&tensors[i]), (int)i + 1, 100);
        EXPECT(HEARTH_OK, hearth_tensor_export(&tensors[i], gone, &leases[i]));
    }
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    hearth_io_unref(gone);
    for (size_t i = 0; i < COUNT_OF(leases); i++) {
        cr_assert_eq(((unsigned char *)hearth_lease_data(leases[i]))[99], i + 1);
        io_drop(leases[i]);
    }
    memory_fini(&other);
}
