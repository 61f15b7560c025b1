/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that Python may see are owned by a lease: a kernel may keep an array as long as it likes, so the storage
 * goes home when the last array is gone, and not when the run is through with the value.
 */
#include "runtime.h"

/* Back into the tensor that it came from: neither can fail, the handle is current and the bytes were a tensor's. */
static enum hearth_status put_back(struct hearth_handle *handle, const struct hearth_tensor *old,
                                   struct hearth_tensor *tensor)
{
    return hearth_tensor_from_handle(handle, hearth_tensor_dtype(old), hearth_tensor_shape(old),
                                     tensor);
}

/* A buffer of whatever arena; the handle is unchanged when the answer is not OK. */
static enum hearth_status adopt(struct hearth_handle *handle)
{
    struct hearth_buf *buf = NULL;
    struct hearth_lease lease;
    enum hearth_status status = hearthpy_adopt_buf(hearth_handle_buf(handle), &lease);
    if (status != HEARTH_OK)
        return status;
    status = hearth_handle_release(handle, &buf); /* the lease's now */
    return status == HEARTH_OK ? hearth_handle_from_lease(lease, handle) : status;
}

static enum hearth_status lease_held(struct hearth_io *io, struct hearth_tensor *tensor)
{
    const struct hearth_tensor old = *tensor;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    enum hearth_status status = hearth_tensor_release(tensor, &handle);
    if (status != HEARTH_OK)
        return status;
    if (hearth_buf_owner(hearth_handle_buf(&handle)) == hearth_io_allocator(io))
        status = hearth_io_export_held(io, &handle);
    else
        status = adopt(&handle);
    enum hearth_status back = put_back(&handle, &old, tensor);
    return status != HEARTH_OK ? status : back;
}

/* Storage of the tensor's own. */
static enum hearth_status lease_inline(struct hearth_io *io, struct hearth_tensor *tensor)
{
    const struct hearth_tensor old = *tensor;
    struct hearth_lease lease;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    enum hearth_status status = hearth_tensor_export(tensor, io, &lease);
    if (status == HEARTH_OK)
        status = hearth_handle_from_lease(lease, &handle);
    return status == HEARTH_OK ? put_back(&handle, &old, tensor) : status;
}

enum hearth_status hearthpy_tensor_to_lease(struct hearth_io *io, struct hearth_tensor *tensor,
                                            struct hearth_lease *lease)
{
    enum hearth_status status = HEARTH_INVALID; /* borrowed, or empty */
    if (hearth_tensor_owner(tensor) == HEARTH_OWNER_INLINE)
        status = lease_inline(io, tensor);
    else if (hearth_tensor_owner(tensor) == HEARTH_OWNER_HANDLE)
        status = hearth_handle_holds_lease(&tensor->handle) ? HEARTH_OK : lease_held(io, tensor);
    if (status != HEARTH_OK || lease == NULL)
        return status;
    return hearthpy_tensor_share(tensor, lease);
}

enum hearth_status hearthpy_tensor_share(const struct hearth_tensor *tensor,
                                         struct hearth_lease *lease)
{
    /* A copy of the struct is read; it owns nothing, and the tensor may be another thread's to read as well. */
    struct hearth_tensor copy = *tensor;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    enum hearth_status status = hearth_tensor_release(&copy, &handle);
    if (status == HEARTH_OK)
        status = hearth_handle_release_lease(&handle, lease);
    return status == HEARTH_OK ? hearth_lease_retain(*lease) : status;
}

void hearthpy_shape_of(const struct hearthpy_layout *layout, struct hearth_shape *shape)
{
    *shape = (struct hearth_shape)HEARTH_SHAPE_INIT;
    shape->rank = (uint32_t)layout->ndim;
    for (int i = 0; i < layout->ndim; i++)
        shape->dims[i] = layout->shape[i];
}

PyObject *hearthpy_array_on(const struct hearthpy_state *state, struct hearth_lease lease,
                            const struct hearthpy_layout *layout)
{
    PyObject *object = hearthpy_lease_new(state, lease, layout);
    if (object != NULL && !layout->readonly) /* what can be written to is an output */
        (void)hearthpy_lease_give(object);
    return object == NULL ? NULL : hearthpy_array_of_lease(state, object);
}
