/* SPDX-License-Identifier: Apache-2.0 */
#include "core/slots.h"

void hearth__slots_init(struct hearth__slots *slots, struct hearth__segment *first, size_t limit)
{
    first->next = NULL;
    *slots = (struct hearth__slots){
        .segments = first,
        .fresh = first->first_slot,
        .limit = limit,
    };
}

/* The nth slot of a segment, or NULL when it was retired in an earlier life of the segment. */
static struct hearth_buf *prepare(struct hearth__segment *segment, uint32_t n)
{
    struct hearth_buf *slot = hearth__segment_slot(segment, n);
    uint64_t word = hearth__load_relaxed(&slot->state);
    if (word == 0) {
        slot->index = segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + n;
        /* Generation 0 means none: a slot's `returned` word starts at it. */
        hearth__store_relaxed(&slot->state, hearth__word(1, HEARTH__UNUSED));
    }
    return hearth__word_generation(word) == HEARTH__GENERATION_MAX ? NULL : slot;
}

struct hearth_buf *hearth__slots_take(struct hearth__slots *slots, bool *grow)
{
    *grow = false;
    struct hearth_buf *slot = slots->unused;
    if (slot != NULL) {
        slots->unused = slot->next;
        return slot;
    }
    if (slots->made == slots->limit)
        return NULL;
    while (slots->fresh < HEARTH__SLOTS_PER_GRANULE) {
        slot = prepare(slots->segments, slots->fresh++);
        if (slot != NULL) {
            slots->made++;
            return slot;
        }
    }
    *grow = true;
    return NULL;
}

void hearth__slots_add(struct hearth__slots *slots, struct hearth__segment *segment,
                       struct hearth_allocator *arena)
{
    hearth__store_release(&segment->arena, arena);
    segment->next = slots->segments;
    slots->segments = segment;
    slots->fresh = segment->first_slot;
}

void hearth__slots_put(struct hearth__slots *slots, struct hearth_buf *slot)
{
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__UNUSED));
    if (generation == HEARTH__GENERATION_MAX) {
        slots->made--;
        return;
    }
    slot->next = slots->unused;
    slots->unused = slot;
}

size_t hearth__slots_unused(const struct hearth__slots *slots)
{
    size_t count = 0;
    for (const struct hearth_buf *slot = slots->unused; slot != NULL; slot = slot->next)
        count++;
    return count;
}

void hearth__slots_release(struct hearth__slots *slots)
{
    struct hearth__segment *next;
    for (struct hearth__segment *segment = slots->segments; segment != NULL; segment = next) {
        next = segment->next;
        hearth__segment_release(segment);
    }
}
