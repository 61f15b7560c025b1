/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing a finished tensor to where its output slot wants it: for kernels that make their outputs elsewhere.
 * Nothing to do where it is in place, take where execution storage has to leave, else one counted copy.
 */
#include "runtime/slots.h"

#include <string.h>

bool hearth__is_execution(const struct hearth__frame *frame,
                          const struct hearth_allocator *allocator)
{
    if (allocator == frame->execution)
        return true;
    if (frame->run->service == NULL)
        return false;
    uint32_t deepest = hearth__load_relaxed(&frame->run->gauge->deepest);
    for (uint32_t depth = 0; depth <= deepest; depth++) {
        struct hearth_exec *arena = NULL;
        if (hearth_service_child_exec(frame->run->service, depth, &arena) == HEARTH_OK &&
            allocator == hearth_exec_allocator(arena))
            return true;
    }
    return false;
}

static bool in_place(const struct hearth__frame *frame, uint32_t slot,
                     const struct hearth_tensor *tensor)
{
    switch (hearth_tensor_owner(tensor)) {
    case HEARTH_OWNER_NONE:
        return true;
    case HEARTH_OWNER_BORROWED:
        return false;
    case HEARTH_OWNER_INLINE: /* exported by adoption, and no arena's elsewhere: it may stay */
        return true;
    case HEARTH_OWNER_HANDLE:
        break;
    }
    struct hearth_allocator *allocator = hearth_tensor_allocator(tensor);
    struct hearth_allocator *wanted = hearth__slot_allocator(frame, slot);
    if (wanted == NULL || allocator == wanted || (frame->run->flags & HEARTH_CONTEXT_FOREIGN) != 0)
        return true;
    if (hearth__slot_domain(frame, slot) == HEARTH__DOMAIN_EXECUTION)
        return hearth__is_execution(frame, allocator);
    return hearth_handle_holds_lease(&tensor->handle); /* it left already, wherever it is from */
}

/* Into the run's I/O arena without a copy, where the arenas and the thread allow it. */
static bool take(struct hearth__frame *frame, struct hearth_tensor *tensor, uint32_t *moved)
{
    struct hearth_io *arena = frame->run->arena;
    struct hearth_exec *from = hearth_exec_of(hearth_tensor_allocator(tensor));
    if (arena == NULL || from == NULL || hearth_io_allocator(arena) != frame->run->io ||
        !hearth_io_can_take(arena, from) ||
        !hearth__is_execution(frame, hearth_tensor_allocator(tensor)))
        return false;
    struct hearth_buf *buf = NULL;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    if (hearth_io_take(arena, hearth_handle_buf(&tensor->handle), &buf) != HEARTH_OK)
        return false;
    /* The tensor's own handle is stale now, and is dropped; making one of a live buffer cannot fail. */
    if (hearth_handle_from_buf(buf, &handle) != HEARTH_OK)
        return false;
    tensor->handle = handle;
    void *data = hearth_buf_data(buf);
    if (data == tensor->data) {
        frame->tally.taken++;
        return true;
    }
    /* An arena with another store than lists gives a copy of what it cannot part with. */
    tensor->data = data;
    tensor->capacity = hearth_buf_capacity(buf);
    frame->tally.payload_copies++;
    frame->tally.copied_bytes += tensor->size;
    frame->tally.migration_copies++;
    *moved = HEARTH_EVENT_COPIED;
    return true;
}

static enum hearth_status copy(struct hearth__frame *frame, uint32_t slot,
                               struct hearth_tensor *tensor)
{
    struct hearth_tensor made = HEARTH_TENSOR_INIT;
    size_t bytes = hearth_tensor_size(tensor);
    enum hearth_status status =
        hearth_tensor_make(hearth__slot_allocator(frame, slot), hearth_tensor_dtype(tensor),
                           hearth_tensor_shape(tensor), bytes, &made);
    if (status != HEARTH_OK)
        return status;
    if (bytes != 0)
        memcpy(hearth_tensor_data(&made), hearth_tensor_data(tensor), bytes);
    frame->tally.payload_copies++;
    frame->tally.copied_bytes += bytes;
    frame->tally.migration_copies += hearth_tensor_owner(tensor) != HEARTH_OWNER_BORROWED;
    return hearth_tensor_move(tensor, &made);
}

enum hearth_status hearth__place(struct hearth__frame *frame, uint32_t slot,
                                 struct hearth_tensor *tensor, uint32_t *moved)
{
    *moved = 0;
    if (hearth__likely(in_place(frame, slot, tensor)))
        return HEARTH_OK;
    *moved = HEARTH_EVENT_TAKEN;
    if (hearth__slot_domain(frame, slot) == HEARTH__DOMAIN_IO && take(frame, tensor, moved))
        return HEARTH_OK;
    *moved = HEARTH_EVENT_COPIED;
    return copy(frame, slot, tensor);
}
