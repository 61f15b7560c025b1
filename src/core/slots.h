/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An arena's supply of slots: those without storage, and the segments they lie in. One thread at a time.
 */
#ifndef HEARTH_CORE_SLOTS_H
#define HEARTH_CORE_SLOTS_H

#include "core/buf.h"
#include "core/meta.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__slots {
    struct hearth_buf *unused;        /* linked by next */
    struct hearth__segment *segments; /* newest first; the arena's core lies in the last */
    uint32_t fresh;                   /* next slot of the newest segment that was never taken */
    size_t made;                      /* taken and put back or not, retired ones excepted */
    size_t limit;                     /* of made */
};

/* Start with the segment that the arena's core lies in. */
void hearth__slots_init(struct hearth__slots *slots, struct hearth__segment *first, size_t limit);

/* A slot without storage. NULL with *grow set: add a segment and try again. NULL without: the limit is
 * reached. O(1), amortized over retired slots. */
struct hearth_buf *hearth__slots_take(struct hearth__slots *slots, bool *grow);

/* Add a segment of kind HEARTH__SEGMENT_SLOTS, serving `arena` from now on. */
void hearth__slots_add(struct hearth__slots *slots, struct hearth__segment *segment,
                       struct hearth_allocator *arena);

/* Put back a slot without storage; one whose generations are used up is retired. */
void hearth__slots_put(struct hearth__slots *slots, struct hearth_buf *slot);

/* Slots in the unused list, by walking it. */
size_t hearth__slots_unused(const struct hearth__slots *slots);

/* Pool all segments, the core's own last: `slots` may lie in it and is not touched afterwards. */
void hearth__slots_release(struct hearth__slots *slots);

#endif
