/* SPDX-License-Identifier: Apache-2.0 */
/* The store for large blocks: its nodes, and what comes from the backing and goes back. The essay is in spans.c. */
#include "core/spans.h"

#include <string.h>

/* The first segment of a store that knows nothing yet. */
#define FIRST_BYTES ((size_t)256 << 10)

/* Segments are multiples of a 32nd of their size, of these at least and at most: so a small store is not rounded up
 * to a huge page, and a large one is whole huge pages. */
#define STEP_LEAST_BYTES ((size_t)64 << 10)
#define STEP_MOST_BYTES ((size_t)2 << 20)
#define STEPS_LOG 5

/* A growth adds at least this part of what there is: the number of segments stays logarithmic. */
#define GROWTH 8

static void add_nodes(struct hearth__spans *spans, char *from, const char *to)
{
    size_t count = (size_t)(to - from) / sizeof(union hearth__span_node);
    for (size_t i = count; i-- > 0;)
        hearth__spans_node_put(spans, (union hearth__span_node *)(void *)from + i);
}

union hearth__span_node *hearth__spans_node_take(struct hearth__spans *spans)
{
    struct hearth__span *node = spans->unused;
    assert(node != NULL);
    spans->unused = node->next;
    spans->unused_nodes--;
    return (union hearth__span_node *)node;
}

void hearth__spans_node_put(struct hearth__spans *spans, void *node)
{
    struct hearth__span *unused = node;
    unused->next = spans->unused;
    spans->unused = unused;
    spans->unused_nodes++;
}

struct hearth__spans *hearth__spans_open(struct hearth__segment *segment)
{
    struct hearth__spans *spans = hearth__segment_core(segment);
    memset(spans, 0, sizeof *spans);
    segment->next = NULL;
    spans->granules = segment;
    spans->most_bytes = SIZE_MAX;
    add_nodes(spans, (char *)(spans + 1), (char *)segment + HEARTH__GRANULE_BYTES);
    return spans;
}

void hearth__spans_add_nodes(struct hearth__spans *spans, struct hearth__segment *segment)
{
    segment->next = spans->granules;
    spans->granules = segment;
    add_nodes(spans, hearth__segment_core(segment), (char *)segment + HEARTH__GRANULE_BYTES);
}

void hearth__spans_close(struct hearth__spans *spans)
{
    struct hearth__segment *next;
    for (struct hearth__segment *segment = spans->granules; segment != NULL; segment = next) {
        next = segment->next;
        hearth__segment_release(segment);
    }
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t hearth__spans_ask(const struct hearth__spans *spans, size_t bytes)
{
    size_t want = larger(spans->segment_bytes / GROWTH, FIRST_BYTES);
    if (spans->goal_bytes > spans->segment_bytes)
        want = larger(want, spans->goal_bytes - spans->segment_bytes);
    if (want > spans->most_bytes)
        want = spans->most_bytes;
    want = larger(want, bytes);
    size_t step = (size_t)1 << (63 - __builtin_clzl(want)) >> STEPS_LOG;
    if (step < STEP_LEAST_BYTES)
        step = STEP_LEAST_BYTES;
    if (step > STEP_MOST_BYTES)
        step = STEP_MOST_BYTES;
    return (want + step - 1) & ~(step - 1);
}

struct hearth__span *hearth__spans_add_segment(struct hearth__spans *spans,
                                               const struct hearth_segment *lent, uint64_t stamp)
{
    struct hearth__span_segment *segment = &hearth__spans_node_take(spans)->segment;
    struct hearth__span *span = &hearth__spans_node_take(spans)->span;
    *segment = (struct hearth__span_segment){
        .lent = *lent,
        .first = span,
        .next = spans->segments,
    };
    if (segment->next != NULL)
        segment->next->prev = segment;
    spans->segments = segment;
    *span = (struct hearth__span){
        .base = lent->base,
        .length = lent->length,
        /* What a backing does not say is zero may have been used before, and be resident. */
        .touched = (lent->flags & HEARTH_SEGMENT_ZERO) != 0 ? 0 : lent->length,
        .stamp = stamp,
        .segment = segment,
        .zero = (lent->flags & HEARTH_SEGMENT_ZERO) != 0,
    };
    spans->segment_count++;
    spans->segment_bytes += lent->length;
    spans->free_count++;
    spans->free_bytes += span->length;
    spans->warm_bytes += span->touched;
    hearth__spans_insert(spans, span);
    return span;
}

struct hearth__span *hearth__spans_grow(struct hearth__spans *spans,
                                        const struct hearth_segment *lent, uint64_t stamp,
                                        size_t bytes, unsigned alignment_log)
{
    struct hearth__span *span = hearth__spans_add_segment(spans, lent, stamp);
    return hearth__spans_take_from(spans, span, bytes, alignment_log);
}

/* A segment with one span, which is in no list, and not counted any more. */
static void remove_segment(struct hearth__spans *spans, struct hearth__span *span,
                           struct hearth_segment *lent)
{
    struct hearth__span_segment *segment = span->segment;
    spans->segment_count--;
    spans->segment_bytes -= span->length;
    if (segment->next != NULL)
        segment->next->prev = segment->prev;
    if (segment->prev != NULL)
        segment->prev->next = segment->next;
    else
        spans->segments = segment->next;
    *lent = segment->lent;
    hearth__spans_node_put(spans, span);
    hearth__spans_node_put(spans, segment);
}

bool hearth__spans_evict(struct hearth__spans *spans, uint64_t before, size_t most,
                         struct hearth_segment *lent)
{
    if (spans->idle_oldest == NULL)
        return false;
    struct hearth__span *span = spans->idle_oldest->first;
    if (span->stamp >= before || span->touched > most)
        return false;
    hearth__spans_remove(spans, span);
    spans->free_count--;
    spans->free_bytes -= span->length;
    spans->warm_bytes -= span->touched;
    remove_segment(spans, span, lent);
    return true;
}

bool hearth__spans_withdraw(struct hearth__spans *spans, struct hearth__span *span,
                            struct hearth_segment *lent)
{
    if (span->below != NULL || span->above != NULL)
        return false;
    spans->lent_count--;
    spans->lent_bytes -= span->length;
    remove_segment(spans, span, lent);
    return true;
}

bool hearth__span_pages(const struct hearth__span *span, size_t most, struct hearth__purge *pages)
{
    const uintptr_t mask = HEARTH__SPAN_PAGE_BYTES - 1;
    uintptr_t base = (uintptr_t)span->base;
    uintptr_t from = (base + mask) & ~mask;
    uintptr_t to = (base + span->touched + mask) & ~mask;
    pages->base = span->base;
    pages->length = 0;
    if (span->touched == 0)
        return false;
    /* The last page may be the next span's as well. */
    if (to > base + span->length)
        to = (base + span->length) & ~mask;
    if (to <= from)
        return true;
    most = most < HEARTH__SPAN_PAGE_BYTES ? HEARTH__SPAN_PAGE_BYTES : most & ~(size_t)mask;
    if (to - from > most)
        from = to - most;
    pages->base = span->base + (from - base);
    pages->length = to - from;
    return true;
}

size_t hearth__span_left(const struct hearth__span *span, const struct hearth__purge *purge)
{
    size_t left = (size_t)(purge->base - span->base);
    return left < HEARTH__SPAN_PAGE_BYTES ? 0 : left;
}

bool hearth__spans_purge_begin(struct hearth__spans *spans, uint64_t before, size_t most,
                               struct hearth__purge *purge)
{
    struct hearth__span *span = spans->oldest;
    if (span == NULL || span->stamp >= before || !hearth__span_pages(span, most, purge))
        return false;
    hearth__spans_remove(spans, span);
    span->state = HEARTH__SPAN_PURGING;
    purge->span = span;
    return true;
}

void hearth__spans_purge_end(struct hearth__spans *spans, const struct hearth__purge *purge,
                             size_t discarded)
{
    struct hearth__span *span = purge->span;
    if (discarded != 0 || purge->length == 0) {
        size_t touched = hearth__span_left(span, purge);
        spans->warm_bytes -= span->touched - touched;
        span->touched = touched;
        span->zero = false; /* a backing need not say what it reads as */
    } else {
        span->refused = true;
    }
    hearth__spans_insert(spans, span);
}

uint64_t hearth__spans_oldest(const struct hearth__spans *spans)
{
    uint64_t stamp = UINT64_MAX;
    if (spans->oldest != NULL)
        stamp = spans->oldest->stamp;
    if (spans->idle_oldest != NULL && spans->idle_oldest->first->stamp < stamp)
        stamp = spans->idle_oldest->first->stamp;
    return stamp;
}

bool hearth__spans_scattered(struct hearth__spans *spans)
{
    if (spans->lent_count != 0 || spans->segment_count < 2 ||
        spans->segment_bytes > spans->most_bytes)
        return false;
    size_t used = 0;
    for (const struct hearth__span_segment *segment = spans->segments; segment != NULL;
         segment = segment->next)
        used += segment->used;
    /* By an eighth at least, so that a need that grows slowly does not lead here each time. */
    if (spans->goal_bytes < spans->peak_bytes)
        spans->goal_bytes =
            larger(spans->peak_bytes, spans->goal_bytes + spans->goal_bytes / GROWTH);
    else
        spans->goal_bytes =
            used > spans->goal_bytes + spans->goal_bytes / GROWTH / 2 ? used : spans->segment_bytes;
    return true;
}

bool hearth__spans_gather(struct hearth__spans *spans)
{
    if (spans->lent_count == 0 || spans->idle_oldest == spans->idle_newest ||
        spans->segment_bytes > spans->most_bytes)
        return false;
    spans->goal_bytes = larger(spans->goal_bytes, spans->segment_bytes);
    return true;
}

void hearth__spans_forget(struct hearth__spans *spans)
{
    spans->peak_bytes = spans->lent_bytes;
    spans->goal_bytes = 0;
}

size_t hearth__spans_largest(const struct hearth__spans *spans)
{
    if (spans->rows == 0)
        return 0;
    unsigned row = 63u - (unsigned)__builtin_clzl(spans->rows);
    unsigned column = 31u - (unsigned)__builtin_clz(spans->columns[row]);
    size_t largest = 0;
    for (const struct hearth__span *span = spans->bins[row][column]; span != NULL;
         span = span->next)
        largest = larger(largest, span->length);
    return largest;
}
