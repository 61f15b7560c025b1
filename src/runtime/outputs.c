/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel does with its slots: it looks at inputs, makes outputs, brings finished ones, and lets an output
 * take over an input's storage.
 */
#include "runtime/slots.h"
#include "runtime/tensor.h"

#include <string.h>

/* For the error's text: the output that was refused last, if the kernel did not get it after all. */
static void note_refusal(struct hearth__frame *frame, uint32_t slot, enum hearth_status status)
{
    uint32_t number = hearth__slot_of(frame, slot)->value;
    if (hearth__unlikely(status != HEARTH_OK))
        frame->refused = number;
    else if (hearth__unlikely(frame->refused == number))
        frame->refused = HEARTH__NO_VALUE;
}

static bool is_empty(const struct hearth_tensor *tensor)
{
    return hearth_tensor_owner(tensor) == HEARTH_OWNER_NONE;
}

/* Bound storage takes another shape and size: within its capacity, and where it lies. */
static enum hearth_status reshape_bound(struct hearth_tensor *bound, enum hearth_dtype dtype,
                                        const struct hearth_shape *shape, size_t bytes)
{
    enum hearth_status status = hearth__tensor_bytes(dtype, shape, bytes, &bytes);
    if (status != HEARTH_OK)
        return status;
    if (dtype != hearth_tensor_dtype(bound) || bytes > hearth_tensor_capacity(bound))
        return HEARTH_INVALID;
    status = hearth__tensor_resize(bound, bytes);
    if (status == HEARTH_OK)
        bound->shape = *shape;
    return status;
}

/* Bound storage, or a slot that is made twice: what it had goes only when the new value is there. */
static enum hearth_status make_again(struct hearth__frame *frame, uint32_t slot,
                                     enum hearth_dtype dtype, const struct hearth_shape *shape,
                                     size_t bytes)
{
    struct hearth__value *value = hearth__slot_value(frame, slot);
    struct hearth_tensor *binding = hearth__slot_binding(frame, slot);
    struct hearth_tensor made = HEARTH_TENSOR_INIT;
    enum hearth_status status;

    value->bound = value->bound && hearth__slot_placed(value);
    if (value->bound)
        status = reshape_bound(&value->tensor, dtype, shape, bytes);
    else if (binding != NULL)
        status = reshape_bound(binding, dtype, shape, bytes);
    else
        status =
            hearth_tensor_make(hearth__slot_allocator(frame, slot), dtype, shape, bytes, &made);
    if (status != HEARTH_OK)
        return status;
    hearth__slot_uncount(frame, value);
    if (value->bound)
        return HEARTH_OK;
    value->bound = binding != NULL;
    if (binding != NULL)
        (void)hearth_tensor_move(&value->tensor, binding);
    else
        (void)hearth_tensor_move(&value->tensor, &made);
    return HEARTH_OK;
}

static enum hearth_status make_sized(struct hearth__frame *frame, size_t slot,
                                     enum hearth_dtype dtype, const struct hearth_shape *shape,
                                     size_t bytes, struct hearth_tensor **tensor)
{
    struct hearth__value *value = hearth__slot_value(frame, slot);
    if (value == NULL || shape == NULL)
        return HEARTH_INVALID;
    enum hearth_status status;
    bool bound = false;
    if (hearth__unlikely(hearth__slot_binding(frame, (uint32_t)slot) != NULL ||
                         !is_empty(&value->tensor) || value->domain != HEARTH__DOMAIN_NONE)) {
        status = make_again(frame, (uint32_t)slot, dtype, shape, bytes);
        bound = value->bound;
    } else {
        status = hearth_tensor_make(hearth__slot_allocator(frame, (uint32_t)slot), dtype, shape,
                                    bytes, &value->tensor);
    }
    note_refusal(frame, (uint32_t)slot, status);
    if (hearth__unlikely(status != HEARTH_OK))
        return status;
    hearth__slot_count(frame, (uint32_t)slot, bound);
    frame->tally.tensors++;
    hearth__slot_tell(frame, (uint32_t)slot, HEARTH_EVENT_MADE);
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
    struct hearth__value *value = hearth__slot_value(hearth__frame_of(context), slot);
    return value == NULL || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE
               ? NULL
               : &value->tensor;
}

/* The value of an input that an output may take over now; NULL. */
static struct hearth__value *reusable(const struct hearth__frame *frame, size_t input_slot,
                                      size_t output_slot)
{
    if (hearth__slot_value(frame, output_slot) == NULL || input_slot >= frame->node->inputs.count ||
        hearth__slot_of(frame, (uint32_t)output_slot)->role != HEARTH_ROLE_EXECUTION)
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
    if (bytes != hearth_tensor_size(tensor) && allocator != NULL &&
        !hearth__is_execution(frame, allocator))
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
    note_refusal(frame, (uint32_t)output_slot, status);
    if (status != HEARTH_OK)
        return status;
    struct hearth__value *output = hearth__slot_value(frame, output_slot);
    hearth__slot_empty(frame, output);
    hearth__slot_uncount(frame, input);
    uint32_t maker = input->thread;
    (void)hearth_tensor_move(&output->tensor, &input->tensor);
    hearth__slot_count(frame, (uint32_t)output_slot, false);
    output->thread = maker; /* the storage is still that thread's */
    frame->tally.reused_in_place++;
    hearth__slot_tell(frame, (uint32_t)output_slot, HEARTH_EVENT_REUSED);
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
    enum hearth_status status = make_sized(frame, slot, hearth_tensor_dtype(tensor),
                                           hearth_tensor_shape(tensor), bytes, &made);
    if (status != HEARTH_OK)
        return status;
    if (bytes != 0)
        memmove(hearth_tensor_data(made), hearth_tensor_data(tensor), bytes);
    hearth__adrift_land(frame, hearth__slot_domain(frame, slot), bytes);
    frame->tally.payload_copies++;
    frame->tally.migration_copies += hearth_tensor_owner(tensor) != HEARTH_OWNER_BORROWED;
    frame->tally.copied_bytes += bytes;
    hearth__slot_tell(frame, slot, HEARTH_EVENT_COPIED);
    return hearth_tensor_reset(tensor);
}

enum hearth_status hearth_context_put_output(struct hearth_context *context, size_t slot,
                                             struct hearth_tensor *tensor)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    struct hearth__value *value = hearth__slot_value(frame, slot);
    if (value == NULL || is_empty(tensor))
        return HEARTH_INVALID;
    if (tensor == &value->tensor)
        return HEARTH_OK;
    if (value->bound || hearth__slot_binding(frame, (uint32_t)slot) != NULL)
        return fill_bound(frame, (uint32_t)slot, tensor);
    uint32_t moved = 0;
    enum hearth_status status = hearth__place(frame, (uint32_t)slot, tensor, &moved);
    note_refusal(frame, (uint32_t)slot, status);
    if (status != HEARTH_OK)
        return status;
    hearth__slot_empty(frame, value);
    hearth__adrift_land(frame, hearth__slot_domain(frame, (uint32_t)slot),
                        hearth_tensor_size(tensor));
    (void)hearth_tensor_move(&value->tensor, tensor);
    hearth__slot_count(frame, (uint32_t)slot, false);
    if (hearth__unlikely(moved != 0))
        hearth__slot_tell(frame, (uint32_t)slot, moved);
    frame->tally.tensors++;
    hearth__slot_tell(frame, (uint32_t)slot, HEARTH_EVENT_MADE);
    return HEARTH_OK;
}

struct hearth_allocator *hearth_context_allocator_for_output(const struct hearth_context *context,
                                                             size_t slot)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (hearth__slot_value(frame, slot) == NULL ||
        hearth__slot_binding(frame, (uint32_t)slot) != NULL)
        return NULL;
    return hearth__slot_allocator(frame, (uint32_t)slot);
}
