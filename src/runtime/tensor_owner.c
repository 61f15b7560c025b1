/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: who owns the bytes. Moving, returning, releasing, and the ways into an I/O arena. */
#include "runtime/tensor.h"

#include <hearth/exec.h>

#include <stdlib.h>

static void make_empty(struct hearth_tensor *tensor)
{
    *tensor = (struct hearth_tensor)HEARTH_TENSOR_INIT;
}

enum hearth_status hearth_tensor_reset(struct hearth_tensor *tensor)
{
    if (tensor == NULL)
        return HEARTH_OK;
    struct hearth_tensor old = *tensor;
    make_empty(tensor);
    if (old.owner == HEARTH_OWNER_INLINE)
        free(old.data);
    return old.owner == HEARTH_OWNER_HANDLE ? hearth_handle_reset(&old.handle) : HEARTH_OK;
}

void hearth_tensor_cleanup(struct hearth_tensor *tensor)
{
    (void)hearth_tensor_reset(tensor);
}

enum hearth_status hearth_tensor_move(struct hearth_tensor *to, struct hearth_tensor *from)
{
    if (to == NULL || from == NULL)
        return HEARTH_INVALID;
    if (to == from)
        return HEARTH_OK;
    enum hearth_status status = hearth_tensor_reset(to);
    *to = *from;
    make_empty(from);
    return status;
}

enum hearth_status hearth_tensor_release(struct hearth_tensor *tensor, struct hearth_handle *handle)
{
    if (tensor == NULL || handle == NULL || tensor->owner != HEARTH_OWNER_HANDLE)
        return HEARTH_INVALID;
    if (handle->kind != HEARTH_HANDLE_EMPTY)
        return HEARTH_BUSY;
    *handle = tensor->handle;
    make_empty(tensor);
    return HEARTH_OK;
}

/* Ways into an I/O arena. Each writes *lease only when it answers OK. */

static void free_inline(void *data, size_t size, void *context)
{
    (void)size;
    (void)context;
    free(data);
}

static enum hearth_status export_taken(struct hearth_tensor *tensor, struct hearth_io *io,
                                       struct hearth_lease *lease)
{
    struct hearth_buf *buf;
    enum hearth_status status = hearth_io_take(io, tensor->handle.buf, &buf);
    if (status != HEARTH_OK)
        return status;
    status = hearth_io_export(io, buf, lease);
    if (status == HEARTH_OK)
        return status;
    /* Only if somebody guessed the new buffer. If it is still there, the tensor keeps the bytes. */
    struct hearth_handle held = HEARTH_HANDLE_INIT;
    if (hearth_handle_from_buf(buf, &held) == HEARTH_OK) {
        tensor->handle = held;
        tensor->data = hearth_buf_data(buf);
        tensor->capacity = hearth_buf_capacity(buf);
    }
    return status;
}

static enum hearth_status export_held(struct hearth_tensor *tensor, struct hearth_io *io,
                                      struct hearth_lease *lease)
{
    struct hearth_handle *handle = &tensor->handle;
    if (!hearth__handle_is_current(handle))
        return HEARTH_STALE;
    if (hearth_handle_holds_lease(handle))
        return hearth_handle_release_lease(handle, lease);
    /* Of the buffer, not of the handle: that one may be of an allocator that wraps the arena. */
    struct hearth_allocator *owner = hearth_buf_owner(handle->buf);
    if (owner != hearth_io_allocator(io))
        return hearth_io_can_take(io, hearth_exec_of(owner)) ? export_taken(tensor, io, lease)
                                                             : HEARTH_INVALID;
    enum hearth_status status = hearth_io_export_held(io, handle);
    return status == HEARTH_OK ? hearth_handle_release_lease(handle, lease) : status;
}

enum hearth_status hearth_tensor_export(struct hearth_tensor *tensor, struct hearth_io *io,
                                        struct hearth_lease *lease)
{
    if (tensor == NULL || io == NULL || lease == NULL)
        return HEARTH_INVALID;
    enum hearth_status status = HEARTH_INVALID;
    if (tensor->owner == HEARTH_OWNER_INLINE)
        status = hearth_io_adopt(io, tensor->data, tensor->size, free_inline, NULL, lease);
    else if (tensor->owner == HEARTH_OWNER_HANDLE)
        status = export_held(tensor, io, lease);
    if (status == HEARTH_OK)
        make_empty(tensor);
    return status;
}
