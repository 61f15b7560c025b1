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

#endif
