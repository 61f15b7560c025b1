/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output slots: the one place where a value's role becomes an allocator. A declared output of a body has the role
 * of the output slot of the node that it is routed to, and the execution role in the node's run otherwise.
 */
#include "runtime/slots.h"

const struct hearth__output_slot *hearth__slot_of(const struct hearth__frame *frame, uint32_t slot)
{
    return &frame->run->plan->outputs[frame->node->outputs.first + slot];
}

struct hearth__value *hearth__slot_value(const struct hearth__frame *frame, size_t slot)
{
    if (frame == NULL || slot >= frame->node->outputs.count)
        return NULL;
    uint32_t number = hearth__slot_of(frame, (uint32_t)slot)->value;
    return number == HEARTH__NO_VALUE ? NULL : &frame->run->holder->values[number];
}

static uint32_t output_index(const struct hearth__frame *frame, uint32_t slot)
{
    return frame->run->plan->values[hearth__slot_of(frame, slot)->value].output_index;
}

/* A body's declared output: follow it to where it goes; *slot becomes that slot, NO_VALUE if there is none. */
static const struct hearth__frame *follow(const struct hearth__frame *frame, uint32_t *slot)
{
    while (*slot != HEARTH__NO_VALUE && hearth__slot_of(frame, *slot)->role == HEARTH_ROLE_IO &&
           frame->run->parent != NULL) {
        *slot = frame->run->holder->routes[output_index(frame, *slot)];
        frame = frame->run->parent;
    }
    return frame;
}

enum hearth__domain hearth__slot_domain(const struct hearth__frame *frame, uint32_t slot)
{
    if (hearth__slot_of(frame, slot)->role != HEARTH_ROLE_IO)
        return HEARTH__DOMAIN_EXECUTION;
    frame = follow(frame, &slot);
    return slot != HEARTH__NO_VALUE && hearth__slot_of(frame, slot)->role == HEARTH_ROLE_IO
               ? HEARTH__DOMAIN_IO
               : HEARTH__DOMAIN_EXECUTION;
}

struct hearth_allocator *hearth__slot_allocator(const struct hearth__frame *frame, uint32_t slot)
{
    if (hearth__likely(hearth__slot_of(frame, slot)->role != HEARTH_ROLE_IO))
        return frame->execution;
    frame = follow(frame, &slot);
    return slot != HEARTH__NO_VALUE && hearth__slot_of(frame, slot)->role == HEARTH_ROLE_IO
               ? frame->run->io
               : frame->execution;
}

struct hearth_tensor *hearth__slot_binding(const struct hearth__frame *frame, uint32_t slot)
{
    /* Not for a body: a loop makes its output many times, and what it made last is the state of the next turn. */
    if (hearth__likely(hearth__slot_of(frame, slot)->role != HEARTH_ROLE_IO) ||
        frame->run->parent != NULL)
        return NULL;
    struct hearth_tensor *binding = &frame->run->holder->bindings[output_index(frame, slot)];
    return hearth_tensor_owner(binding) == HEARTH_OWNER_NONE ? NULL : binding;
}

void hearth__slot_count(struct hearth__frame *frame, uint32_t slot, bool bound)
{
    struct hearth__value *value = hearth__slot_value(frame, slot);
    enum hearth__domain domain = hearth__slot_domain(frame, slot);
    size_t bytes = hearth_tensor_size(&value->tensor);
    value->thread = frame->thread;
    value->bound = bound;
    value->domain = (unsigned char)domain;
    value->counted = bytes;
    value->placed = hearth_tensor_data(&value->tensor);
    value->placed_owner = value->tensor.owner;
    value->placed_generation = value->tensor.handle.generation;
    hearth__gauge_add(frame->run->gauge, domain, bytes);
    if (hearth__likely(frame->run->demand != NULL && !bound))
        hearth__demand_note(&frame->run->demand->values[hearth__slot_of(frame, slot)->value],
                            bytes);
}

void hearth__slot_uncount(struct hearth__frame *frame, struct hearth__value *value)
{
    if (value->domain != HEARTH__DOMAIN_NONE)
        hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)value->domain, value->counted);
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
}

void hearth__slot_empty(struct hearth__frame *frame, struct hearth__value *value)
{
    hearth__slot_uncount(frame, value);
    (void)hearth__value_drop(frame->run->holder, value);
}

void hearth__slot_tell(const struct hearth__frame *frame, uint32_t slot, uint32_t kind)
{
    hearth__event(frame->run, frame, (enum hearth_event_kind)kind,
                  hearth__value_name(frame->run, hearth__slot_of(frame, slot)->value),
                  hearth__slot_value(frame, slot)->counted);
}

enum hearth_status hearth__slot_check(struct hearth__frame *frame, uint32_t slot)
{
    struct hearth__value *value = hearth__slot_value(frame, slot);
    if (hearth__likely(hearth__slot_placed(value))) {
        if (hearth__unlikely(hearth_tensor_size(&value->tensor) != value->counted)) {
            bool bound = value->bound; /* the kernel reshaped it */
            hearth__slot_uncount(frame, value);
            hearth__slot_count(frame, slot, bound);
        }
        return HEARTH_OK;
    }
    uint32_t moved = 0;
    enum hearth_status status = HEARTH_OK;
    if ((frame->node->flags & HEARTH_NODE_SLOT_AWARE) == 0)
        status = hearth__place(frame, slot, &value->tensor, &moved);
    if (status != HEARTH_OK)
        return status;
    hearth__slot_uncount(frame, value);
    hearth__slot_count(frame, slot, false);
    if (moved != 0)
        hearth__slot_tell(frame, slot, moved);
    return HEARTH_OK;
}
