/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about tensors share. */
#ifndef HEARTH_TESTS_API_TENSOR_SUPPORT_H
#define HEARTH_TESTS_API_TENSOR_SUPPORT_H

#include "io_support.h"

#include <hearth/tensor.h>

/* A shape from its rank and that many int64_t. */
struct hearth_shape shape_of_(uint32_t rank, const int64_t *dims);
#define shape_of(...)                                                                              \
    shape_of_((uint32_t)((int64_t[]){__VA_ARGS__})[0], (const int64_t[]){__VA_ARGS__} + 1)

bool shape_equals(const struct hearth_shape *a, const struct hearth_shape *b);

/* Every getter says so. */
void tensor_is_empty(const struct hearth_tensor *tensor);

/* Every member is what it was. */
void tensor_unchanged(const struct hearth_tensor *before, const struct hearth_tensor *tensor);

/* A tensor of UINT8, rank 1, from the allocator; NULL: inline. */
struct hearth_tensor tensor_make(struct hearth_allocator *allocator, size_t bytes);

#endif
