/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: making, looking, reshaping. Who owns the bytes and how they leave: tensor_owner.c. */
#include "runtime/tensor.h"

#include <stdlib.h>

/* The fewest bytes that a tensor of this type and shape has: 0 for types without a fixed size. */
static enum hearth_status least_bytes(enum hearth_dtype dtype, const struct hearth_shape *shape,
                                      size_t *bytes)
{
    if (shape == NULL || shape->reserved != 0 || !hearth__dtype_is_known(dtype))
        return HEARTH_INVALID;
    if (hearth_dtype_bits(dtype) != 0)
        return hearth_shape_bytes(dtype, shape, bytes);
    size_t elements; /* only whether the shape is possible is of interest */
    enum hearth_status status = hearth_shape_bytes(HEARTH_DTYPE_UINT8, shape, &elements);
    if (status == HEARTH_OK)
        *bytes = 0;
    return status;
}

static bool has_elements(const struct hearth_shape *shape)
{
    for (uint32_t i = 0; i < shape->rank; i++)
        if (shape->dims[i] == 0)
            return false;
    return true;
}

enum hearth_status hearth__tensor_bytes(enum hearth_dtype dtype, const struct hearth_shape *shape,
                                        size_t asked, size_t *bytes)
{
    size_t least = 0;
    enum hearth_status status = least_bytes(dtype, shape, &least);
    if (status != HEARTH_OK)
        return status;
    if (asked == 0 && hearth_dtype_bits(dtype) == 0 && has_elements(shape))
        return HEARTH_INVALID;
    if (asked != 0 && asked < least)
        return HEARTH_INVALID;
    *bytes = asked == 0 ? least : asked;
    return HEARTH_OK;
}

/* What every way to a tensor asks first: an empty one, a possible shape. */
static enum hearth_status check_new(const struct hearth_tensor *tensor, enum hearth_dtype dtype,
                                    const struct hearth_shape *shape, size_t *least)
{
    if (tensor == NULL)
        return HEARTH_INVALID;
    if (tensor->owner != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    return least_bytes(dtype, shape, least);
}

static enum hearth_status make_inline(size_t bytes, struct hearth_tensor *made)
{
    if (bytes > PTRDIFF_MAX - HEARTH_ALIGNMENT)
        return HEARTH_OVERFLOW;
    /* Never 0, so that every tensor but an empty one has an address of its own. */
    size_t capacity =
        bytes == 0 ? HEARTH_ALIGNMENT : (bytes + HEARTH_ALIGNMENT - 1) & ~(HEARTH_ALIGNMENT - 1);
    made->data = aligned_alloc(HEARTH_ALIGNMENT, capacity);
    made->capacity = capacity;
    made->owner = HEARTH_OWNER_INLINE;
    return made->data == NULL ? HEARTH_NO_MEMORY : HEARTH_OK;
}

static enum hearth_status make_held(struct hearth_allocator *allocator, size_t bytes,
                                    struct hearth_tensor *made)
{
    struct hearth_buf *buf;
    if (allocator->ops->free_exact == NULL)
        return HEARTH_INVALID; /* no handle can own its buffers */
    enum hearth_status status = hearth_alloc(allocator, bytes, &buf);
    if (status != HEARTH_OK)
        return status;
    status = hearth_handle_from(allocator, buf, &made->handle);
    if (status != HEARTH_OK) {
        (void)hearth_free(allocator, buf);
        return status;
    }
    made->data = hearth_buf_data(buf);
    made->capacity = hearth_buf_capacity(buf);
    made->owner = HEARTH_OWNER_HANDLE;
    return HEARTH_OK;
}

enum hearth_status hearth_tensor_make(struct hearth_allocator *allocator, enum hearth_dtype dtype,
                                      const struct hearth_shape *shape, size_t bytes,
                                      struct hearth_tensor *tensor)
{
    if (tensor == NULL)
        return HEARTH_INVALID;
    if (tensor->owner != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    enum hearth_status status = hearth__tensor_bytes(dtype, shape, bytes, &bytes);
    if (status != HEARTH_OK)
        return status;
    struct hearth_tensor made = {.shape = *shape, .size = bytes, .dtype = (uint32_t)dtype};
    status = allocator == NULL ? make_inline(bytes, &made) : make_held(allocator, bytes, &made);
    if (status == HEARTH_OK)
        *tensor = made;
    return status;
}

enum hearth_status hearth_tensor_borrow(void *data, size_t bytes, enum hearth_dtype dtype,
                                        const struct hearth_shape *shape,
                                        struct hearth_tensor *tensor)
{
    size_t least = 0;
    enum hearth_status status = check_new(tensor, dtype, shape, &least);
    if (status != HEARTH_OK)
        return status;
    if (bytes < least || (data == NULL && bytes != 0))
        return HEARTH_INVALID;
    *tensor = (struct hearth_tensor){
        .shape = *shape,
        .data = data,
        .size = bytes,
        .capacity = bytes,
        .dtype = (uint32_t)dtype,
        .owner = HEARTH_OWNER_BORROWED,
    };
    return HEARTH_OK;
}

enum hearth_status hearth_tensor_from_handle(struct hearth_handle *handle, enum hearth_dtype dtype,
                                             const struct hearth_shape *shape,
                                             struct hearth_tensor *tensor)
{
    size_t least = 0;
    enum hearth_status status = check_new(tensor, dtype, shape, &least);
    if (status != HEARTH_OK)
        return status;
    if (handle == NULL || handle->kind == HEARTH_HANDLE_EMPTY)
        return HEARTH_INVALID;
    if (!hearth__handle_is_current(handle))
        return HEARTH_STALE;
    /* The size of now: the buffer may have been resized since the handle was made. */
    size_t bytes = hearth_handle_holds_lease(handle) ? hearth_lease_size(hearth__lease_of(handle))
                                                     : hearth_buf_size(handle->buf);
    size_t capacity = hearth_buf_capacity(handle->buf);
    if (bytes < least)
        return HEARTH_INVALID;
    *tensor = (struct hearth_tensor){
        .shape = *shape,
        .data = hearth_buf_data(handle->buf),
        .size = bytes,
        .capacity = capacity < bytes ? bytes : capacity, /* adopted storage has no capacity */
        .handle = *handle,
        .dtype = (uint32_t)dtype,
        .owner = HEARTH_OWNER_HANDLE,
    };
    tensor->handle.size = bytes;
    *handle = (struct hearth_handle)HEARTH_HANDLE_INIT;
    return HEARTH_OK;
}

/* Give a handle's buffer another logical size within its capacity. */
static enum hearth_status resize_held(struct hearth_tensor *tensor, size_t bytes)
{
    struct hearth_handle *handle = &tensor->handle;
    if (hearth_handle_holds_lease(handle))
        return HEARTH_LEASED;
    enum hearth_status status = hearth_resize(handle->allocator, handle->buf, bytes, true);
    if (status != HEARTH_OK)
        return status;
    handle->size = bytes;
    /* Arenas leave it where it is; what wraps one may do as it likes. */
    tensor->data = hearth_buf_data(handle->buf);
    tensor->capacity = hearth_buf_capacity(handle->buf);
    return HEARTH_OK;
}

enum hearth_status hearth__tensor_resize(struct hearth_tensor *tensor, size_t bytes)
{
    bool held = tensor->owner == HEARTH_OWNER_HANDLE;
    if (held && !hearth__handle_is_current(&tensor->handle))
        return HEARTH_STALE;
    if (bytes > tensor->capacity)
        return HEARTH_INVALID;
    enum hearth_status status = HEARTH_OK;
    if (held && bytes != tensor->size)
        status = resize_held(tensor, bytes);
    if (status == HEARTH_OK)
        tensor->size = bytes;
    return status;
}

enum hearth_status hearth_tensor_reshape(struct hearth_tensor *tensor,
                                         const struct hearth_shape *shape)
{
    if (tensor == NULL || tensor->owner == HEARTH_OWNER_NONE)
        return HEARTH_INVALID;
    size_t bytes;
    enum hearth_status status = least_bytes((enum hearth_dtype)tensor->dtype, shape, &bytes);
    if (status != HEARTH_OK)
        return status;
    if (hearth_dtype_bits((enum hearth_dtype)tensor->dtype) == 0)
        bytes = tensor->size;
    status = hearth__tensor_resize(tensor, bytes);
    if (status == HEARTH_OK)
        tensor->shape = *shape;
    return status;
}

/* Getters */

void *hearth_tensor_data(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? NULL : tensor->data;
}

size_t hearth_tensor_size(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? 0 : tensor->size;
}

size_t hearth_tensor_capacity(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? 0 : tensor->capacity;
}

enum hearth_dtype hearth_tensor_dtype(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? HEARTH_DTYPE_UNDEFINED : (enum hearth_dtype)tensor->dtype;
}

const struct hearth_shape *hearth_tensor_shape(const struct hearth_tensor *tensor)
{
    return tensor == NULL || tensor->owner == HEARTH_OWNER_NONE ? NULL : &tensor->shape;
}

enum hearth_owner hearth_tensor_owner(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? HEARTH_OWNER_NONE : (enum hearth_owner)tensor->owner;
}

struct hearth_allocator *hearth_tensor_allocator(const struct hearth_tensor *tensor)
{
    return tensor == NULL ? NULL : hearth_handle_owner(&tensor->handle);
}
