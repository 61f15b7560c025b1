/* SPDX-License-Identifier: Apache-2.0 */
/* Exports: an output becomes a lease, which knows nothing of contexts, sessions and plans. */
#include "runtime/session.h"
#include "runtime/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Storage of the arena with a borrowed value's bytes: the caller's memory cannot leave with a lease. */
static enum hearth_status make_copy(struct hearth_io *arena, const struct hearth_tensor *tensor,
                                    struct hearth_tensor *made)
{
    size_t bytes = hearth_tensor_size(tensor);
    enum hearth_status status =
        hearth_tensor_make(hearth_io_allocator(arena), hearth_tensor_dtype(tensor),
                           hearth_tensor_shape(tensor), bytes, made);
    if (status == HEARTH_OK && bytes != 0)
        memcpy(hearth_tensor_data(made), hearth_tensor_data(tensor), bytes);
    return status;
}

static void tell_copy(struct hearth__holder *holder, const char *name, size_t bytes)
{
    holder->between.payload_copies++;
    holder->between.copied_bytes += bytes;
    hearth__event_between(holder, HEARTH_EVENT_COPIED, name, bytes);
}

/* The borrowed original is kept until the export is certain. */
static enum hearth_status export_tensor(struct hearth__holder *holder, struct hearth_io *arena,
                                        const char *name, struct hearth_tensor *tensor,
                                        struct hearth_lease *lease)
{
    if (hearth_tensor_owner(tensor) != HEARTH_OWNER_BORROWED)
        return hearth_tensor_export(tensor, arena, lease);
    struct hearth_tensor copied = HEARTH_TENSOR_INIT;
    enum hearth_status status = make_copy(arena, tensor, &copied);
    if (status != HEARTH_OK)
        return status;
    size_t bytes = hearth_tensor_size(&copied);
    status = hearth_tensor_export(&copied, arena, lease);
    if (status == HEARTH_OK)
        tell_copy(holder, name, bytes);
    (void)hearth_tensor_reset(status == HEARTH_OK ? tensor : &copied);
    return status;
}

/* From a value to a lease; an event handler that is told finds the context in use. */
static enum hearth_status export_value(struct hearth__holder *holder, const char *name,
                                       struct hearth_lease *lease, struct hearth_tensor *tensor)
{
    struct hearth__value *value = hearth__holder_find(holder, name);
    struct hearth_io *arena = hearth__holder_arena(holder);
    if (value == NULL || arena == NULL || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE)
        return HEARTH_INVALID;
    struct hearth_tensor view = HEARTH_TENSOR_INIT;
    view.shape = value->tensor.shape;
    view.dtype = value->tensor.dtype;
    view.size = hearth_tensor_size(&value->tensor);
    view.capacity = view.size;
    view.owner = HEARTH_OWNER_BORROWED;
    enum hearth_status status = export_tensor(holder, arena, name, &value->tensor, lease);
    if (status != HEARTH_OK)
        return status;
    value->bound = false; /* what left is not written again */
    view.data = hearth_lease_data(*lease);
    if (tensor != NULL)
        *tensor = view;
    hearth__event_between(holder, HEARTH_EVENT_EXPORTED, name, view.size);
    return HEARTH_OK;
}

static bool enter(struct hearth__holder *holder)
{
    uint32_t idle = 0;
    return hearth__cas_acq_rel(&holder->busy, &idle, 1);
}

static void leave(struct hearth__holder *holder)
{
    hearth__store_release(&holder->busy, 0);
}

enum hearth_status hearth_context_export(struct hearth_context *context, const char *name,
                                         struct hearth_lease *lease, struct hearth_tensor *tensor)
{
    if (context == NULL || name == NULL || lease == NULL)
        return HEARTH_INVALID;
    if (context->kind != HEARTH__CONTEXT_USER)
        return HEARTH_BUSY;
    if (tensor != NULL && hearth_tensor_owner(tensor) != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    struct hearth__holder *holder = hearth__holder_of(context);
    if (!enter(holder))
        return HEARTH_BUSY;
    enum hearth_status status = export_value(holder, name, lease, tensor);
    leave(holder);
    return status;
}

/* The value stays where it is, owned through a lease from now on: handing that out cannot fail. */
static enum hearth_status lease_value(struct hearth__holder *holder, struct hearth_io *arena,
                                      const char *name, struct hearth__value *value)
{
    struct hearth_tensor *tensor = &value->tensor;
    if (hearth_handle_holds_lease(&tensor->handle))
        return HEARTH_OK;
    const struct hearth_shape shape = *hearth_tensor_shape(tensor);
    enum hearth_dtype dtype = hearth_tensor_dtype(tensor);
    struct hearth_lease lease;
    enum hearth_status status = export_tensor(holder, arena, name, tensor, &lease);
    if (status != HEARTH_OK)
        return status;
    value->bound = false;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    /* Neither can fail: the lease is held, and shape and size were a tensor's. */
    status = hearth_handle_from_lease(lease, &handle);
    return status == HEARTH_OK ? hearth_tensor_from_handle(&handle, dtype, &shape, tensor) : status;
}

static struct hearth__value *output_of(const struct hearth__holder *holder, size_t number)
{
    return &holder->values[holder->plan->declared[number]];
}

static const char *output_name(const struct hearth__holder *holder, size_t number)
{
    return hearth__plan_value_name(holder->plan, holder->plan->declared[number]);
}

static bool is_borrowed(const struct hearth__value *value)
{
    return hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_BORROWED;
}

/* Whether an export of the value cannot fail. */
static bool is_ready(const struct hearth__value *value, struct hearth_io *arena)
{
    return hearth_handle_holds_lease(&value->tensor.handle) ||
           hearth_tensor_allocator(&value->tensor) == hearth_io_allocator(arena);
}

/* Whether it can succeed at all. */
static bool is_possible(const struct hearth__value *value, struct hearth_io *arena)
{
    if (hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_HANDLE)
        return hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_NONE;
    if (!hearth__handle_is_current(&value->tensor.handle))
        return false;
    if (is_ready(value, arena))
        return true;
    struct hearth_allocator *owner = hearth_buf_owner(hearth_handle_buf(&value->tensor.handle));
    return owner == hearth_io_allocator(arena) || hearth_io_can_take(arena, hearth_exec_of(owner));
}

/* Copies of all borrowed outputs beside them, or of none. */
static enum hearth_status copy_borrowed(const struct hearth__holder *holder,
                                        struct hearth_io *arena, struct hearth_tensor *copies)
{
    enum hearth_status status = HEARTH_OK;
    size_t count = holder->plan->output_count;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        if (is_borrowed(output_of(holder, i)))
            status = make_copy(arena, &output_of(holder, i)->tensor, &copies[i]);
    return status;
}

/* Storage that changes arena: what was done stays done, as nothing leads back. */
static enum hearth_status lease_others(struct hearth__holder *holder, struct hearth_io *arena)
{
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < holder->plan->output_count && status == HEARTH_OK; i++) {
        struct hearth__value *value = output_of(holder, i);
        if (!is_borrowed(value) && !is_ready(value, arena))
            status = lease_value(holder, arena, output_name(holder, i), value);
    }
    return status;
}

/* The copies take the place of what they were made from. */
static void use_copies(struct hearth__holder *holder, struct hearth_tensor *copies)
{
    for (size_t i = 0; i < holder->plan->output_count; i++) {
        struct hearth__value *value = output_of(holder, i);
        if (!is_borrowed(value))
            continue;
        tell_copy(holder, output_name(holder, i), hearth_tensor_size(&copies[i]));
        value->bound = false;
        (void)hearth_tensor_move(&value->tensor, &copies[i]);
    }
}

/* Bring all outputs to where exporting them cannot fail. */
static enum hearth_status prepare_outputs(struct hearth__holder *holder)
{
    struct hearth_io *arena = hearth__holder_arena(holder);
    size_t count = holder->plan->output_count;
    if (arena == NULL && count != 0)
        return HEARTH_INVALID;
    bool borrowed = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_possible(output_of(holder, i), arena))
            return HEARTH_INVALID;
        borrowed |= is_borrowed(output_of(holder, i));
    }
    if (!borrowed)
        return lease_others(holder, arena);
    struct hearth_tensor *copies = calloc(count, sizeof(*copies));
    if (copies == NULL)
        return HEARTH_NO_MEMORY;
    enum hearth_status status = copy_borrowed(holder, arena, copies);
    if (status == HEARTH_OK)
        status = lease_others(holder, arena);
    if (status == HEARTH_OK)
        use_copies(holder, copies);
    for (size_t i = 0; i < count; i++)
        (void)hearth_tensor_reset(&copies[i]);
    free(copies);
    return status;
}

enum hearth_status hearth_session_export_outputs(struct hearth_session *session,
                                                 struct hearth_context *context,
                                                 struct hearth_lease *leases, size_t count)
{
    if (session == NULL || context == NULL || (leases == NULL && count != 0))
        return HEARTH_INVALID;
    if (context->kind != HEARTH__CONTEXT_USER)
        return HEARTH_BUSY;
    struct hearth__holder *holder = hearth__holder_of(context);
    if (holder->plan != session->plan || count != session->plan->output_count)
        return HEARTH_INVALID;
    if (!enter(holder))
        return HEARTH_BUSY;
    enum hearth_status status = prepare_outputs(holder);
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        status = export_value(holder, output_name(holder, i), &leases[i], NULL);
    leave(holder);
    return status;
}
