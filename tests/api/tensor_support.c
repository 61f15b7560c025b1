/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor_support.h"

struct hearth_shape shape_of_(uint32_t rank, const int64_t *dims)
{
    struct hearth_shape shape = HEARTH_SHAPE_INIT;
    shape.rank = rank;
    for (uint32_t i = 0; i < rank; i++)
        shape.dims[i] = dims[i];
    return shape;
}

bool shape_equals(const struct hearth_shape *a, const struct hearth_shape *b)
{
    return a != NULL && b != NULL && memcmp(a, b, sizeof *a) == 0;
}

void tensor_is_empty(const struct hearth_tensor *tensor)
{
    cr_assert_null(hearth_tensor_data(tensor));
    cr_assert_null(hearth_tensor_shape(tensor));
    cr_assert_null(hearth_tensor_allocator(tensor));
    EXPECT_SIZE(0, hearth_tensor_size(tensor));
    EXPECT_SIZE(0, hearth_tensor_capacity(tensor));
    cr_assert_eq(hearth_tensor_dtype(tensor), HEARTH_DTYPE_UNDEFINED);
    cr_assert_eq(hearth_tensor_owner(tensor), HEARTH_OWNER_NONE);
}

void tensor_unchanged(const struct hearth_tensor *before, const struct hearth_tensor *tensor)
{
    cr_assert(shape_equals(&before->shape, &tensor->shape));
    cr_assert_eq(before->data, tensor->data);
    EXPECT_SIZE(before->size, tensor->size);
    EXPECT_SIZE(before->capacity, tensor->capacity);
    EXPECT_SIZE(before->dtype, tensor->dtype);
    EXPECT_SIZE(before->owner, tensor->owner);
    EXPECT_SIZE(before->handle.kind, tensor->handle.kind);
    EXPECT_SIZE(before->handle.size, tensor->handle.size);
    EXPECT_SIZE(before->handle.generation, tensor->handle.generation);
    cr_assert_eq(before->handle.buf, tensor->handle.buf);
    cr_assert_eq(before->handle.allocator, tensor->handle.allocator);
}

struct hearth_tensor tensor_make(struct hearth_allocator *allocator, size_t bytes)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(1, (int64_t)bytes);
    EXPECT(HEARTH_OK, hearth_tensor_make(allocator, HEARTH_DTYPE_UINT8, &shape, 0, &tensor));
    return tensor;
}
