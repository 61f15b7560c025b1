/* SPDX-License-Identifier: Apache-2.0 */
/* Exports: an output becomes a lease, which knows nothing of contexts, sessions and plans. */
#include "runtime/session.h"

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
    hearth__event_between(holder, HEARTH_EVENT_EXPORTED, name, bytes);
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

/* Copies of all borrowed outputs, or of none. */
static enum hearth_status copy_all_borrowed(struct hearth__holder *holder, struct hearth_io *arena)
{
    size_t count = holder->plan->output_count;
    struct hearth_tensor *copies = calloc(count, sizeof(*copies));
    if (copies == NULL)
        return HEARTH_NO_MEMORY;
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        if (is_borrowed(output_of(holder, i)))
            status = make_copy(arena, &output_of(holder, i)->tensor, &copies[i]);
    for (size_t i = 0; i < count; i++) {
        if (status != HEARTH_OK) {
            (void)hearth_tensor_reset(&copies[i]);
        } else if (is_borrowed(output_of(holder, i))) {
            tell_copy(holder, output_name(holder, i), hearth_tensor_size(&copies[i]));
            output_of(holder, i)->bound = false;
            (void)hearth_tensor_move(&output_of(holder, i)->tensor, &copies[i]);
        }
    }
    free(copies);
    return status;
}

/* Whether an export of the value cannot fail. */
static bool is_ready(const struct hearth__value *value, struct hearth_io *arena)
{
    return hearth_handle_holds_lease(&value->tensor.handle) ||
           hearth_tensor_allocator(&value->tensor) == hearth_io_allocator(arena);
}

/* Bring all outputs to where exporting them cannot fail. */
static enum hearth_status prepare_outputs(struct hearth__holder *holder)
{
    struct hearth_io *arena = hearth__holder_arena(holder);
    size_t count = holder->plan->output_count;
    bool borrowed = false;
    for (size_t i = 0; i < count; i++) {
        if (hearth_tensor_owner(&output_of(holder, i)->tensor) == HEARTH_OWNER_NONE)
            return HEARTH_INVALID;
        borrowed |= is_borrowed(output_of(holder, i));
    }
    if (arena == NULL && count != 0)
        return HEARTH_INVALID;
    enum hearth_status status = borrowed ? copy_all_borrowed(holder, arena) : HEARTH_OK;
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        if (!is_ready(output_of(holder, i), arena))
            status = lease_value(holder, arena, output_name(holder, i), output_of(holder, i));
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
    enum hearth_status status = prepare_outputs(holder);
    for (size_t i = 0; i < count && status == HEARTH_OK; i++)
        status = hearth_context_export(context, output_name(holder, i), &leases[i], NULL);
    return status;
}
