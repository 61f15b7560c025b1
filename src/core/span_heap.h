/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of spans on a backing: everything that the store lacks is obtained, what it no longer needs is given
 * back. One thread at a time, and the backing is called in the middle; an arena, which leaves its section around
 * such calls, does these steps itself.
 */
#ifndef HEARTH_CORE_SPAN_HEAP_H
#define HEARTH_CORE_SPAN_HEAP_H

#include "core/spans.h"

#include <hearth/status.h>

struct hearth__span_heap {
    struct hearth__spans *spans;
    struct hearth_backing *backing;
    size_t cap;                /* most warm bytes that are kept while free */
    uint64_t clock;            /* returns so far: the stamps */
    uint64_t obtained_bytes;   /* of segments */
    uint64_t given_bytes;      /* of segments that went back */
    uint64_t purged_bytes;     /* of pages that went back while their segment stayed */
    uint64_t obtained_count;   /* segments */
    uint64_t evictions;        /* segments and ranges of pages given back to keep the cap */
    uint64_t rearranged_count; /* times that all was given back to get it in one piece */
};

/* The backing stays the caller's. Returns NO_MEMORY. */
enum hearth_status hearth__span_heap_init(struct hearth__span_heap *heap,
                                          struct hearth_backing *backing, size_t cap);

/* Give everything back. Nothing is lent. */
void hearth__span_heap_fini(struct hearth__span_heap *heap);

/* Returns NO_MEMORY; nothing changed then. */
enum hearth_status hearth__span_heap_take(struct hearth__span_heap *heap, size_t bytes,
                                          unsigned alignment_log, struct hearth__span **span);

void hearth__span_heap_give(struct hearth__span_heap *heap, struct hearth__span *span);

/* What is above goes. */
void hearth__span_heap_set_cap(struct hearth__span_heap *heap, size_t cap);

/* Give back what was freed before the clock stood at `before` (UINT64_MAX: whenever), least recently freed first, until
 * at least `goal` bytes went: segments that are free as a whole, and pages of the others. Returns bytes. */
size_t hearth__span_heap_trim(struct hearth__span_heap *heap, uint64_t before, size_t goal);

#endif
