/* SPDX-License-Identifier: Apache-2.0 */
#include "core/span_heap.h"

#include "core/backing.h"

/* A segment in one piece costs nothing more than its tail's address space, so long as this is not touched; one that
 * is refused is asked for as small as will do. */
static enum hearth_status grow(struct hearth__span_heap *heap, size_t bytes, unsigned alignment_log,
                               struct hearth__span **span)
{
    size_t alignment = (size_t)1 << alignment_log;
    struct hearth_segment segment;
    enum hearth_status status = hearth__backing_acquire(
        heap->backing, hearth__spans_ask(heap->spans, bytes), alignment, &segment);
    if (status != HEARTH_OK)
        status = hearth__backing_acquire(heap->backing, bytes, alignment, &segment);
    if (status != HEARTH_OK)
        return status;
    if (segment.length > HEARTH__HELD_MAX - heap->spans->segment_bytes) {
        hearth__backing_release(heap->backing, &segment);
        return HEARTH_NO_MEMORY;
    }
    *span = hearth__spans_grow(heap->spans, &segment, heap->clock, bytes, alignment_log);
    heap->obtained_bytes += segment.length;
    heap->obtained_count++;
    return HEARTH_OK;
}

static bool make_ready(struct hearth__spans *spans)
{
    if (hearth__spans_ready(spans))
        return true;
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SPANS);
    if (segment == NULL)
        return false;
    hearth__spans_add_nodes(spans, segment);
    return true;
}

enum hearth_status hearth__span_heap_init(struct hearth__span_heap *heap,
                                          struct hearth_backing *backing, size_t cap)
{
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SPANS);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    *heap = (struct hearth__span_heap){
        .spans = hearth__spans_open(segment),
        .backing = backing,
        .cap = cap,
    };
    heap->spans->most_bytes = cap;
    return HEARTH_OK;
}

static void give_segment(struct hearth__span_heap *heap, const struct hearth_segment *segment)
{
    hearth__backing_release(heap->backing, segment);
    heap->given_bytes += segment->length;
}

static size_t evict_one(struct hearth__span_heap *heap, uint64_t before, size_t most)
{
    struct hearth_segment segment;
    if (!hearth__spans_evict(heap->spans, before, most, &segment))
        return 0;
    give_segment(heap, &segment);
    return segment.length;
}

/* Returns bytes; 0 with *more: this one was refused, and another one may not be. */
static size_t purge_one(struct hearth__span_heap *heap, uint64_t before, size_t most, bool *more)
{
    struct hearth__purge purge;
    *more = hearth__spans_purge_begin(heap->spans, before, most, &purge);
    if (!*more)
        return 0;
    size_t discarded =
        purge.length == 0 ? 0 : hearth__backing_discard(heap->backing, purge.base, purge.length);
    hearth__spans_purge_end(heap->spans, &purge, discarded);
    heap->purged_bytes += discarded;
    return discarded;
}

void hearth__span_heap_fini(struct hearth__span_heap *heap)
{
    while (evict_one(heap, UINT64_MAX, SIZE_MAX) != 0)
        ;
    hearth__spans_close(heap->spans);
}

enum hearth_status hearth__span_heap_take(struct hearth__span_heap *heap, size_t bytes,
                                          unsigned alignment_log, struct hearth__span **span)
{
    if (bytes == 0 || bytes > HEARTH__HELD_MAX / 2 || !make_ready(heap->spans))
        return HEARTH_NO_MEMORY;
    *span = hearth__spans_take(heap->spans, bytes, alignment_log);
    if (*span != NULL)
        return HEARTH_OK;
    return grow(heap, bytes, alignment_log, span);
}

/* The least recently freed goes first. Of a segment that is free as a whole, too, only what is above the cap. */
static void keep_cap(struct hearth__span_heap *heap)
{
    struct hearth__spans *spans = heap->spans;
    bool more = true;
    while (spans->warm_bytes > heap->cap && more) {
        size_t above = spans->warm_bytes - heap->cap;
        uint64_t oldest = spans->oldest != NULL ? spans->oldest->stamp + 1 : UINT64_MAX;
        if (evict_one(heap, oldest, above) != 0 || purge_one(heap, UINT64_MAX, above, &more) != 0)
            heap->evictions++;
    }
    /* The backing takes no pages back. */
    while (spans->warm_bytes > heap->cap && evict_one(heap, UINT64_MAX, SIZE_MAX) != 0)
        heap->evictions++;
}

/* Larger than the cap: not kept, and nobody else has to go. */
static void bypass(struct hearth__span_heap *heap, struct hearth__span *span)
{
    struct hearth_segment segment;
    struct hearth__purge pages;
    if (hearth__spans_withdraw(heap->spans, span, &segment)) {
        give_segment(heap, &segment);
        return;
    }
    span->touched = span->length;
    size_t discarded = 0;
    (void)hearth__span_pages(span, SIZE_MAX, &pages);
    if (pages.length != 0)
        discarded = hearth__backing_discard(heap->backing, pages.base, pages.length);
    heap->purged_bytes += discarded;
    if (discarded != 0 || pages.length == 0)
        hearth__spans_give_purged(heap->spans, span, heap->clock++, &pages);
    else
        hearth__spans_give(heap->spans, span, heap->clock++);
}

void hearth__span_heap_give(struct hearth__span_heap *heap, struct hearth__span *span)
{
    if (span->length > heap->cap)
        bypass(heap, span);
    else
        hearth__spans_give(heap->spans, span, heap->clock++);
    if (hearth__spans_scattered(heap->spans)) {
        heap->rearranged_count++;
        while (evict_one(heap, UINT64_MAX, SIZE_MAX) != 0)
            ;
    }
    keep_cap(heap);
}

void hearth__span_heap_set_cap(struct hearth__span_heap *heap, size_t cap)
{
    heap->cap = cap;
    heap->spans->most_bytes = cap;
    keep_cap(heap);
}

size_t hearth__span_heap_trim(struct hearth__span_heap *heap, uint64_t before, size_t goal)
{
    size_t released = 0;
    size_t bytes = 1;
    bool more = true;
    while (released < goal && (bytes = evict_one(heap, before, SIZE_MAX)) != 0)
        released += bytes;
    while (released < goal && more)
        released += purge_one(heap, before, goal - released, &more);
    if (released != 0)
        hearth__spans_forget(heap->spans);
    return released;
}
