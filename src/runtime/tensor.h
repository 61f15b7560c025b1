/* SPDX-License-Identifier: Apache-2.0 */
/* What the files about tensors share. */
#ifndef HEARTH_RUNTIME_TENSOR_H
#define HEARTH_RUNTIME_TENSOR_H

#include <hearth/tensor.h>

#include <stdbool.h>

/* The lease that a handle owns, which stays the handle's. */
static inline struct hearth_lease hearth__lease_of(const struct hearth_handle *handle)
{
    return (struct hearth_lease){handle->buf, handle->generation};
}

/* Whether what a handle owns is still there. If not, its allocator may be gone: read nothing of it. */
static inline bool hearth__handle_is_current(const struct hearth_handle *handle)
{
    return hearth_handle_holds_lease(handle)
               ? hearth_lease_valid(hearth__lease_of(handle))
               : hearth_buf_generation(handle->buf) == handle->generation;
}

/* Whether it is a value of enum hearth_dtype. */
bool hearth__dtype_is_known(enum hearth_dtype dtype);

/* The byte size of a tensor: `asked`, or what type and shape say where that is 0. INVALID (less than they say, or
 * not said for a type without a fixed size), OVERFLOW. */
enum hearth_status hearth__tensor_bytes(enum hearth_dtype dtype, const struct hearth_shape *shape,
                                        size_t asked, size_t *bytes);

/* Another byte size within the capacity. Returns as hearth_tensor_reshape(). */
enum hearth_status hearth__tensor_resize(struct hearth_tensor *tensor, size_t bytes);

#endif
