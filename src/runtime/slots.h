/* SPDX-License-Identifier: Apache-2.0 */
/* Output slots of a node: where a value of theirs is made, and how it counts. */
#ifndef HEARTH_RUNTIME_SLOTS_H
#define HEARTH_RUNTIME_SLOTS_H

#include "runtime/run.h"

const struct hearth__output_slot *hearth__slot_of(const struct hearth__frame *frame, uint32_t slot);

/* The slot's value; NULL for a slot that is unknown or not used, and for no frame. */
struct hearth__value *hearth__slot_value(const struct hearth__frame *frame, size_t slot);

/* Where a value of this role is made; NULL: inline. */
struct hearth_allocator *hearth__slot_allocator(const struct hearth__frame *frame, uint32_t slot);

/* Which gauge counts a value that has this role. */
enum hearth__domain hearth__slot_domain(const struct hearth__frame *frame, uint32_t slot);

/* Bound storage that waits for the slot's value; NULL. */
struct hearth_tensor *hearth__slot_binding(const struct hearth__frame *frame, uint32_t slot);

/* The value in a slot is this node's from now on. */
void hearth__slot_count(struct hearth__frame *frame, uint32_t slot, bool bound);

/* Whether the storage is the one that was counted. */
static inline bool hearth__slot_placed(const struct hearth__value *value)
{
    return value->tensor.data == value->placed && value->tensor.owner == value->placed_owner &&
           value->tensor.handle.generation == value->placed_generation;
}

/* It stops counting; and is released. */
void hearth__slot_uncount(struct hearth__frame *frame, struct hearth__value *value);
void hearth__slot_empty(struct hearth__frame *frame, struct hearth__value *value);

/* The slot's value, when the kernel has returned: what it did to the tensor by itself is brought to its place, and
 * counted. */
enum hearth_status hearth__slot_check(struct hearth__frame *frame, uint32_t slot);

/* An event about the slot's value. */
void hearth__slot_tell(const struct hearth__frame *frame, uint32_t slot, uint32_t kind);

/* Whether an allocator's storage is an intermediate's on this thread: its arena, or one of its bodies' (place.c). */
bool hearth__is_execution(const struct hearth__frame *frame,
                          const struct hearth_allocator *allocator);

/* Bring a tensor to where an output slot wants it (place.c): as it is, by take, or by one counted copy. The
 * tensor is unchanged on failure. *moved: HEARTH_EVENT_TAKEN or _COPIED, for the caller to tell; 0. */
enum hearth_status hearth__place(struct hearth__frame *frame, uint32_t slot,
                                 struct hearth_tensor *tensor, uint32_t *moved);

#endif
