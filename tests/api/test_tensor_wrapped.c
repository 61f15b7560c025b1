/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of an allocator that wraps an arena: what goes through the wrapper, and what does not. */
#include "tensor_support.h"

/* Counts what goes through it; may refuse. */
struct wrapper {
    struct hearth_allocator allocator;
    struct hearth_allocator *inner;
    unsigned allocs, frees, exact, resizes;
    enum hearth_status resize_answer;
};

static struct wrapper *of(const struct hearth_allocator *self)
{
    return (struct wrapper *)(uintptr_t)self;
}

static enum hearth_status wrapper_alloc(struct hearth_allocator *self,
                                        const struct hearth_request *request,
                                        struct hearth_buf **buf)
{
    of(self)->allocs++;
    return hearth_alloc_ex(of(self)->inner, request, buf);
}

static enum hearth_status wrapper_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    of(self)->frees++;
    return hearth_free(of(self)->inner, buf);
}

static enum hearth_status wrapper_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                             uint64_t generation)
{
    struct hearth_allocator *inner = of(self)->inner;
    of(self)->exact++;
    return inner->ops->free_exact(inner, buf, generation);
}

static enum hearth_status wrapper_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                         size_t size, bool keep)
{
    of(self)->resizes++;
    return of(self)->resize_answer != HEARTH_OK ? of(self)->resize_answer
                                                : hearth_resize(of(self)->inner, buf, size, keep);
}

static size_t wrapper_live(const struct hearth_allocator *self)
{
    return hearth_live_bytes(of(self)->inner);
}

static enum hearth_status wrapper_reset_peak(struct hearth_allocator *self)
{
    return hearth_reset_peak(of(self)->inner);
}

static const struct hearth_allocator_ops wrapper_ops = {
    .size = sizeof(struct hearth_allocator_ops),
    .kind = "wrapper",
    .alloc = wrapper_alloc,
    .free = wrapper_free,
    .free_exact = wrapper_free_exact,
    .resize = wrapper_resize,
    .live_bytes = wrapper_live,
    .peak_bytes = wrapper_live,
    .reset_peak = wrapper_reset_peak,
};

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_io *io;
static struct wrapper wrapper;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    io = io_create(&memory, 0, 0, 0);
    wrapper = (struct wrapper){.allocator = {&wrapper_ops}, .inner = hearth_exec_allocator(arena)};
    misuse_record();
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_finish(io, &memory);
}

TestSuite(tensor_wrapped, .init = setup, .fini = teardown);

Test(tensor_wrapped, everything_goes_through_the_wrapper)
{
    struct hearth_tensor tensor = tensor_make(&wrapper.allocator, 100);
    const struct hearth_shape same = shape_of(2, 10, 10), less = shape_of(1, 50);
    EXPECT_SIZE(1, wrapper.allocs);
    cr_assert_eq(hearth_tensor_allocator(&tensor), &wrapper.allocator);
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &same));
    EXPECT_SIZE(0, wrapper.resizes);
    EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &less));
    EXPECT_SIZE(1, wrapper.resizes);
    EXPECT_SIZE(50, hearth_exec_live_bytes(arena));
    wrapper.resize_answer = HEARTH_NO_MEMORY;
    struct hearth_tensor before = tensor;
    EXPECT(HEARTH_NO_MEMORY, hearth_tensor_reshape(&tensor, &same));
    tensor_unchanged(&before, &tensor);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    EXPECT_SIZE(1, wrapper.exact);
    EXPECT_SIZE(0, wrapper.frees);
}

Test(tensor_wrapped, a_stale_tensor_leaves_the_wrapper_alone)
{
    struct hearth_tensor tensor = tensor_make(&wrapper.allocator, 100);
    const struct hearth_shape less = shape_of(1, 50);
    struct hearth_lease lease;
    give(arena, tensor.handle.buf);
    /* The wrapper may be gone as well: nothing may be read of it. */
    memset(&wrapper, 0xFF, sizeof wrapper);
    EXPECT(HEARTH_STALE, hearth_tensor_reshape(&tensor, &less));
    EXPECT(HEARTH_STALE, hearth_tensor_export(&tensor, io, &lease));
    EXPECT(HEARTH_STALE, hearth_tensor_reset(&tensor));
}

Test(tensor_wrapped, an_export_is_of_the_buffers_own_arena)
{
    struct hearth_tensor tensor = tensor_make(&wrapper.allocator, 100);
    struct hearth_lease lease;
    void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_tensor_export(&tensor, io, &lease));
    cr_assert_eq(hearth_lease_data(lease), data);
    io_drop(lease);
    wrapper.inner = hearth_io_allocator(io);
    tensor = tensor_make(&wrapper.allocator, 100);
    EXPECT(HEARTH_OK, hearth_tensor_export(&tensor, io, &lease));
    io_drop(lease);
    EXPECT_SIZE(0, wrapper.exact + wrapper.frees);
}

Test(tensor_wrapped, buffers_that_no_handle_can_own)
{
    struct hearth_allocator_ops ops = wrapper_ops;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, 100);
    ops.free_exact = NULL;
    wrapper.allocator.ops = &ops;
    EXPECT(HEARTH_INVALID,
           hearth_tensor_make(&wrapper.allocator, HEARTH_DTYPE_UINT8, &shape, 0, &tensor));
    tensor_is_empty(&tensor);
    EXPECT_SIZE(wrapper.allocs, wrapper.frees);
}
