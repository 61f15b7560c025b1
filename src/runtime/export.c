/* SPDX-License-Identifier: Apache-2.0 */
/* Exports: an output becomes a lease, which knows nothing of contexts, sessions and plans. */
#include "runtime/session.h"

#include <string.h>

/* An event between runs. */
static void tell(const struct hearth__holder *holder, enum hearth_event_kind kind, const char *name,
                 size_t bytes)
{
    struct hearth__gauge gauge = {.shared = false};
    const struct hearth__run run = {
        .events = holder->events.fn == NULL ? NULL : &holder->events,
        .gauge = &gauge,
    };
    hearth__event(&run, NULL, kind, name, bytes);
}

/* Storage of the arena with a borrowed value's bytes: the caller's memory cannot leave with a lease. */
static enum hearth_status copy_borrowed(struct hearth__holder *holder, struct hearth_io *arena,
                                        const char *name, struct hearth_tensor *tensor)
{
    struct hearth_tensor made = HEARTH_TENSOR_INIT;
    size_t bytes = hearth_tensor_size(tensor);
    enum hearth_status status =
        hearth_tensor_make(hearth_io_allocator(arena), hearth_tensor_dtype(tensor),
                           hearth_tensor_shape(tensor), bytes, &made);
    if (status != HEARTH_OK)
        return status;
    if (bytes != 0)
        memcpy(hearth_tensor_data(&made), hearth_tensor_data(tensor), bytes);
    holder->between.payload_copies++;
    holder->between.copied_bytes += bytes;
    tell(holder, HEARTH_EVENT_COPIED, name, bytes);
    return hearth_tensor_move(tensor, &made);
}

/* The borrowed original is kept until the export is certain. */
static enum hearth_status export_tensor(struct hearth__holder *holder, struct hearth_io *arena,
                                        const char *name, struct hearth_tensor *tensor,
                                        struct hearth_lease *lease)
{
    if (hearth_tensor_owner(tensor) != HEARTH_OWNER_BORROWED)
        return hearth_tensor_export(tensor, arena, lease);
    struct hearth_tensor copied = *tensor;
    enum hearth_status status = copy_borrowed(holder, arena, name, &copied);
    if (status != HEARTH_OK)
        return status;
    status = hearth_tensor_export(&copied, arena, lease);
    (void)hearth_tensor_reset(status == HEARTH_OK ? tensor : &copied);
    return status;
}

enum hearth_status hearth_context_export(struct hearth_context *context, const char *name,
                                         struct hearth_lease *lease, struct hearth_tensor *tensor)
{
    if (context == NULL || name == NULL || lease == NULL)
        return HEARTH_INVALID;
    if (context->kind != HEARTH__CONTEXT_USER)
        return HEARTH_BUSY;
    struct hearth__holder *holder = hearth__holder_of(context);
    if (hearth__load_relaxed(&holder->busy) != 0)
        return HEARTH_BUSY;
    struct hearth__value *value = hearth__holder_find(holder, name);
    struct hearth_io *arena = hearth__holder_arena(holder);
    if (value == NULL || arena == NULL || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE)
        return HEARTH_INVALID;
    if (tensor != NULL && hearth_tensor_owner(tensor) != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    const struct hearth_shape shape = *hearth_tensor_shape(&value->tensor);
    enum hearth_dtype dtype = hearth_tensor_dtype(&value->tensor);
    size_t bytes = hearth_tensor_size(&value->tensor);
    enum hearth_status status = export_tensor(holder, arena, name, &value->tensor, lease);
    if (status != HEARTH_OK)
        return status;
    value->bound = false; /* what left is not written again */
    tell(holder, HEARTH_EVENT_EXPORTED, name, bytes);
    if (tensor != NULL)
        status = hearth_tensor_borrow(hearth_lease_data(*lease), bytes, dtype, &shape, tensor);
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
    status = hearth_handle_from_lease(lease, &handle);
    return status == HEARTH_OK ? hearth_tensor_from_handle(&handle, dtype, &shape, tensor) : status;
}

/* Each output by number, leased; the first failure. */
static enum hearth_status lease_outputs(struct hearth__holder *holder)
{
    struct hearth_io *arena = hearth__holder_arena(holder);
    const struct hearth_plan *plan = holder->plan;
    if (arena == NULL)
        return HEARTH_INVALID;
    for (size_t i = 0; i < plan->output_count; i++)
        if (hearth_tensor_owner(&holder->values[plan->declared[i]].tensor) == HEARTH_OWNER_NONE)
            return HEARTH_INVALID;
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < plan->output_count && status == HEARTH_OK; i++)
        status = lease_value(holder, arena, hearth__plan_value_name(plan, plan->declared[i]),
                             &holder->values[plan->declared[i]]);
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
    if (hearth__load_relaxed(&holder->busy) != 0)
        return HEARTH_BUSY;
    enum hearth_status status = lease_outputs(holder);
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        status = hearth_context_export(
            context, hearth__plan_value_name(holder->plan, holder->plan->declared[i]), &leases[i],
            NULL);
    return status;
}
