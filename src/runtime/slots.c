/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output slots: the one place where a value's role becomes an allocator. A declared output of a body has the role
 * of the output slot of the node that it is routed to, and the execution role in the node's run otherwise.
 */
#include "runtime/run.h"

#include <string.h>

static const struct hearth__output_slot *slot_of(const struct hearth__frame *frame, uint32_t slot)
{
    return &frame->run->plan->outputs[frame->node->outputs.first + slot];
}

/* Used and known: the slot's value. */
static struct hearth__value *value_of(const struct hearth__frame *frame, size_t slot)
{
    if (frame == NULL || slot >= frame->node->outputs.count)
        return NULL;
    uint32_t number = slot_of(frame, (uint32_t)slot)->value;
    return number == HEARTH__NO_VALUE ? NULL : &frame->run->holder->values[number];
}

static uint32_t output_index(const struct hearth__frame *frame, uint32_t slot)
{
    return frame->run->plan->values[slot_of(frame, slot)->value].output_index;
}

/* A body's declared output: follow it to where it goes; *slot becomes that slot, NO_VALUE if there is none. */
static const struct hearth__frame *follow(const struct hearth__frame *frame, uint32_t *slot)
{
    while (*slot != HEARTH__NO_VALUE && slot_of(frame, *slot)->role == HEARTH_ROLE_IO &&
           frame->run->parent != NULL) {
        *slot = frame->run->holder->routes[output_index(frame, *slot)];
        frame = frame->run->parent;
    }
    return frame;
}

enum hearth__domain hearth__slot_domain(const struct hearth__frame *frame, uint32_t slot)
{
    if (slot_of(frame, slot)->role != HEARTH_ROLE_IO)
        return HEARTH__DOMAIN_EXECUTION;
    frame = follow(frame, &slot);
    return slot != HEARTH__NO_VALUE && slot_of(frame, slot)->role == HEARTH_ROLE_IO
               ? HEARTH__DOMAIN_IO
               : HEARTH__DOMAIN_EXECUTION;
}

struct hearth_allocator *hearth__slot_allocator(const struct hearth__frame *frame, uint32_t slot)
{
    if (hearth__likely(slot_of(frame, slot)->role != HEARTH_ROLE_IO))
        return frame->execution;
    frame = follow(frame, &slot);
    return slot != HEARTH__NO_VALUE && slot_of(frame, slot)->role == HEARTH_ROLE_IO
               ? frame->run->io
               : frame->execution;
}

/* The value in a slot is this node's from now on. */
static void count(struct hearth__frame *frame, uint32_t slot, bool bound)
{
    struct hearth__value *value = value_of(frame, slot);
    enum hearth__domain domain = hearth__slot_domain(frame, slot);
    size_t bytes = hearth_tensor_size(&value->tensor);
    value->thread = frame->thread;
    value->bound = bound;
    value->domain = (unsigned char)domain;
    value->counted = bytes;
    value->placed = hearth_tensor_data(&value->tensor);
    hearth__gauge_add(frame->run->gauge, domain, bytes);
    if (hearth__likely(frame->run->demand != NULL))
        hearth__demand_note(&frame->run->demand->values[slot_of(frame, slot)->value], bytes);
}

static void tell_moved(struct hearth__frame *frame, uint32_t slot, uint32_t moved)
{
    if (hearth__unlikely(moved != 0))
        hearth__event(frame->run, frame, (enum hearth_event_kind)moved,
                      hearth__value_name(frame->run, slot_of(frame, slot)->value),
                      value_of(frame, slot)->counted);
}

enum hearth_status hearth__slot_check(struct hearth__frame *frame, uint32_t slot)
{
    struct hearth__value *value = value_of(frame, slot);
    uint32_t moved;
    enum hearth_status status = hearth__place(frame, slot, &value->tensor, &moved);
    if (status != HEARTH_OK)
        return status;
    if (value->domain != HEARTH__DOMAIN_NONE)
        hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)value->domain, value->counted);
    count(frame, slot, false);
    tell_moved(frame, slot, moved);
    return HEARTH_OK;
}

/* What a slot had before is released, and stops counting. */
static void empty_slot(struct hearth__frame *frame, struct hearth__value *value)
{
    if (value->domain != HEARTH__DOMAIN_NONE)
        hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)value->domain, value->counted);
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
    (void)hearth__value_drop(frame->run->holder, value);
}

static struct hearth_tensor *binding_of(const struct hearth__frame *frame, uint32_t slot)
{
    if (slot_of(frame, slot)->role != HEARTH_ROLE_IO || frame->run->parent != NULL)
        return NULL;
    struct hearth_tensor *binding = &frame->run->holder->bindings[output_index(frame, slot)];
    return hearth_tensor_owner(binding) == HEARTH_OWNER_NONE ? NULL : binding;
}

/* Another byte size within the capacity, of a layout that no shape tells. */
static enum hearth_status set_bytes(struct hearth_tensor *tensor, size_t bytes)
{
    struct hearth_allocator *allocator = hearth_tensor_allocator(tensor);
    if (allocator != NULL) {
        enum hearth_status status =
            hearth_resize(allocator, hearth_handle_buf(&tensor->handle), bytes, false);
        if (status != HEARTH_OK)
            return status;
        tensor->handle.size = bytes;
    }
    tensor->size = bytes;
    return HEARTH_OK;
}

/* Bound storage takes another type and shape: within its capacity, and where it lies. */
static enum hearth_status reshape_bound(struct hearth_tensor *binding, enum hearth_dtype dtype,
                                        const struct hearth_shape *shape, size_t bytes)
{
    size_t size = 0;
    enum hearth_status status = hearth_shape_bytes(dtype, shape, &size);
    if (bytes == 0 && status != HEARTH_OK)
        return status;
    if (shape == NULL || shape->rank > HEARTH_RANK_MAX || (bytes != 0 && bytes < size))
        return HEARTH_INVALID;
    size = bytes != 0 ? bytes : size;
    if (dtype != hearth_tensor_dtype(binding) || size > hearth_tensor_capacity(binding))
        return HEARTH_INVALID;
    status = size == hearth_tensor_size(binding) ? HEARTH_OK : set_bytes(binding, size);
    if (status == HEARTH_OK)
        binding->shape = *shape;
    return status;
}

/* Bound storage, or a slot that is made twice: what it had goes only when the new value is there. */
static enum hearth_status make_again(struct hearth__frame *frame, uint32_t slot,
                                     struct hearth_tensor *binding, enum hearth_dtype dtype,
                                     const struct hearth_shape *shape, size_t bytes)
{
    struct hearth__value *value = value_of(frame, slot);
    struct hearth_tensor made = HEARTH_TENSOR_INIT;
    enum hearth_status status;
    if (value->bound)
        binding = &value->tensor;
    if (binding != NULL)
        status = reshape_bound(binding, dtype, shape, bytes);
    else
        status =
            hearth_tensor_make(hearth__slot_allocator(frame, slot), dtype, shape, bytes, &made);
    if (status != HEARTH_OK)
        return status;
    if (value->domain != HEARTH__DOMAIN_NONE)
        hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)value->domain, value->counted);
    value->domain = HEARTH__DOMAIN_NONE;
    if (binding == &value->tensor)
        return HEARTH_OK;
    return hearth_tensor_move(&value->tensor, binding != NULL ? binding : &made);
}

static enum hearth_status make_sized(struct hearth__frame *frame, size_t slot,
                                     enum hearth_dtype dtype, const struct hearth_shape *shape,
                                     size_t bytes, struct hearth_tensor **tensor)
{
    struct hearth__value *value = value_of(frame, slot);
    if (value == NULL || shape == NULL)
        return HEARTH_INVALID;
    struct hearth_tensor *binding = binding_of(frame, (uint32_t)slot);
    enum hearth_status status;
    if (hearth__unlikely(binding != NULL ||
                         hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_NONE))
        status = make_again(frame, (uint32_t)slot, binding, dtype, shape, bytes);
    else
        status = hearth_tensor_make(hearth__slot_allocator(frame, (uint32_t)slot), dtype, shape,
                                    bytes, &value->tensor);
    if (hearth__unlikely(status != HEARTH_OK)) {
        frame->refused = slot_of(frame, (uint32_t)slot)->value;
        return status;
    }
    count(frame, (uint32_t)slot, binding != NULL || value->bound);
    frame->tally.tensors++;
    hearth__event(frame->run, frame, HEARTH_EVENT_MADE,
                  hearth__value_name(frame->run, slot_of(frame, (uint32_t)slot)->value),
                  value->counted);
    if (tensor != NULL)
        *tensor = &value->tensor;
    return HEARTH_OK;
}

enum hearth_status hearth_context_make_output(struct hearth_context *context, size_t slot,
                                              enum hearth_dtype dtype,
                                              const struct hearth_shape *shape,
                                              struct hearth_tensor **tensor)
{
    return make_sized(hearth__frame_of(context), slot, dtype, shape, 0, tensor);
}

enum hearth_status hearth_context_make_output_sized(struct hearth_context *context, size_t slot,
                                                    enum hearth_dtype dtype,
                                                    const struct hearth_shape *shape, size_t bytes,
                                                    struct hearth_tensor **tensor)
{
    return make_sized(hearth__frame_of(context), slot, dtype, shape, bytes, tensor);
}

const struct hearth_tensor *hearth_context_input(const struct hearth_context *context, size_t slot)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL || slot >= frame->node->inputs.count)
        return NULL;
    uint32_t number = frame->run->plan->inputs[frame->node->inputs.first + slot].value;
    if (number == HEARTH__NO_VALUE)
        return NULL;
    const struct hearth_tensor *tensor = &frame->run->holder->values[number].tensor;
    return hearth_tensor_owner(tensor) == HEARTH_OWNER_NONE ? NULL : tensor;
}

struct hearth_tensor *hearth_context_output(const struct hearth_context *context, size_t slot)
{
    struct hearth__value *value = value_of(hearth__frame_of(context), slot);
    return value == NULL || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE
               ? NULL
               : &value->tensor;
}

/* The value of an input that an output may take over now; NULL. */
static struct hearth__value *reusable(const struct hearth__frame *frame, size_t input_slot,
                                      size_t output_slot)
{
    if (value_of(frame, output_slot) == NULL || input_slot >= frame->node->inputs.count ||
        slot_of(frame, (uint32_t)output_slot)->role != HEARTH_ROLE_EXECUTION)
        return NULL;
    const struct hearth__input_slot *input =
        &frame->run->plan->inputs[frame->node->inputs.first + input_slot];
    if (!input->last)
        return NULL;
    struct hearth__value *value = &frame->run->holder->values[input->value];
    enum hearth_owner owner = hearth_tensor_owner(&value->tensor);
    bool owned =
        owner == HEARTH_OWNER_INLINE ||
        (owner == HEARTH_OWNER_HANDLE && !hearth_handle_holds_lease(&value->tensor.handle));
    return owned && !value->bound ? value : NULL;
}

bool hearth_context_can_reuse(const struct hearth_context *context, size_t input_slot,
                              size_t output_slot)
{
    return reusable(hearth__frame_of(context), input_slot, output_slot) != NULL;
}

/* The input's storage under another type and shape. A change of size is for the owner of the arena. */
static enum hearth_status retype(const struct hearth__frame *frame, struct hearth_tensor *tensor,
                                 enum hearth_dtype dtype, const struct hearth_shape *shape)
{
    size_t bytes;
    enum hearth_status status = hearth_shape_bytes(dtype, shape, &bytes);
    if (status != HEARTH_OK)
        return status;
    if (bytes > hearth_tensor_capacity(tensor))
        return HEARTH_INVALID;
    struct hearth_allocator *allocator = hearth_tensor_allocator(tensor);
    if (bytes != hearth_tensor_size(tensor) && allocator != NULL && allocator != frame->execution)
        return HEARTH_NOT_OWNER;
    uint32_t before = tensor->dtype;
    tensor->dtype = (uint32_t)dtype;
    status = hearth_tensor_reshape(tensor, shape);
    if (status != HEARTH_OK)
        tensor->dtype = before;
    return status;
}

enum hearth_status hearth_context_make_output_in_place(struct hearth_context *context,
                                                       size_t input_slot, size_t output_slot,
                                                       enum hearth_dtype dtype,
                                                       const struct hearth_shape *shape,
                                                       struct hearth_tensor **tensor)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    struct hearth__value *input = reusable(frame, input_slot, output_slot);
    if (input == NULL || shape == NULL)
        return HEARTH_INVALID;
    enum hearth_status status = retype(frame, &input->tensor, dtype, shape);
    if (status != HEARTH_OK)
        return status;
    struct hearth__value *output = value_of(frame, output_slot);
    empty_slot(frame, output);
    hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)input->domain, input->counted);
    input->domain = HEARTH__DOMAIN_NONE;
    input->counted = 0;
    uint32_t maker = input->thread;
    (void)hearth_tensor_move(&output->tensor, &input->tensor);
    count(frame, (uint32_t)output_slot, false);
    output->thread = maker; /* the storage is still that thread's */
    frame->tally.reused_in_place++;
    hearth__event(frame->run, frame, HEARTH_EVENT_REUSED,
                  hearth__value_name(frame->run, slot_of(frame, (uint32_t)output_slot)->value),
                  output->counted);
    if (tensor != NULL)
        *tensor = &output->tensor;
    return HEARTH_OK;
}

/* Give bytes that a kernel brings to bound storage: there is no way but a copy. */
static enum hearth_status fill_bound(struct hearth__frame *frame, uint32_t slot,
                                     struct hearth_tensor *tensor)
{
    struct hearth_tensor *made;
    size_t bytes = hearth_tensor_size(tensor);
    enum hearth_status status =
        make_sized(frame, slot, hearth_tensor_dtype(tensor), hearth_tensor_shape(tensor),
                   hearth_dtype_bits(hearth_tensor_dtype(tensor)) == 0 ? bytes : 0, &made);
    if (status != HEARTH_OK)
        return status;
    if (hearth_tensor_size(made) < bytes)
        bytes = hearth_tensor_size(made);
    memcpy(hearth_tensor_data(made), hearth_tensor_data(tensor), bytes);
    frame->tally.payload_copies++;
    frame->tally.migration_copies++;
    frame->tally.copied_bytes += bytes;
    hearth__event(frame->run, frame, HEARTH_EVENT_COPIED,
                  hearth__value_name(frame->run, slot_of(frame, slot)->value), bytes);
    return hearth_tensor_reset(tensor);
}

enum hearth_status hearth_context_put_output(struct hearth_context *context, size_t slot,
                                             struct hearth_tensor *tensor)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    struct hearth__value *value = value_of(frame, slot);
    if (value == NULL || hearth_tensor_owner(tensor) == HEARTH_OWNER_NONE)
        return HEARTH_INVALID;
    if (tensor == &value->tensor)
        return HEARTH_OK;
    if (value->bound)
        empty_slot(frame, value);
    if (binding_of(frame, (uint32_t)slot) != NULL)
        return fill_bound(frame, (uint32_t)slot, tensor);
    uint32_t moved;
    enum hearth_status status = hearth__place(frame, (uint32_t)slot, tensor, &moved);
    if (status != HEARTH_OK)
        return status;
    empty_slot(frame, value);
    hearth__adrift_land(frame, hearth__slot_domain(frame, (uint32_t)slot),
                        hearth_tensor_size(tensor));
    (void)hearth_tensor_move(&value->tensor, tensor);
    count(frame, (uint32_t)slot, false);
    tell_moved(frame, (uint32_t)slot, moved);
    frame->tally.tensors++;
    hearth__event(frame->run, frame, HEARTH_EVENT_MADE,
                  hearth__value_name(frame->run, slot_of(frame, (uint32_t)slot)->value),
                  value->counted);
    return HEARTH_OK;
}

struct hearth_allocator *hearth_context_allocator_for_output(const struct hearth_context *context,
                                                             size_t slot)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (value_of(frame, slot) == NULL || binding_of(frame, (uint32_t)slot) != NULL)
        return NULL;
    return hearth__slot_allocator(frame, (uint32_t)slot);
}
