/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: large blocks in spans.
 *
 * A slot gets a span when it is filled and loses it when it comes back; what waits is nodes of the store. Marks in
 * `alignment_log` tell such slots (HEARTH__MARK_SPAN), and segments on their way out (HEARTH__MARK_SEGMENT),
 * which take the form of a slot so that chain, charge, caps and visits need not know of them.
 *
 * Counts. held, obtained and given count pieces: list buffers and spans, lent or free. A cut obtains a piece of no
 * bytes, a merge gives one back. Cuts come before the hand-out and merges after the taking back, as readers assume.
 */
#include "concurrent/exec_spans.h"

#include "concurrent/service.h"

static hearth__weight free_weight(const struct hearth__spans *spans)
{
    return hearth__weight_of(spans->free_count, spans->free_bytes);
}

/* After the store changed: count pieces, and what waits in it. */
void hearth__exec_count_pieces(struct hearth_exec *arena, bool shared)
{
    const struct hearth__spans *spans = arena->spans;
    size_t pieces = spans->lent_count + spans->free_count;
    size_t seen = arena->span_pieces;
    if (pieces > seen)
        hearth__cell_add(&arena->cells.cuts, pieces - seen);
    else if (pieces < seen)
        hearth__exec_cell_add(&arena->cells.merges, seen - pieces, shared);
    arena->held += pieces - seen;
    arena->span_pieces = pieces;
    arena->stored += (int64_t)(free_weight(spans) - arena->span_stored);
    arena->span_stored = free_weight(spans);
}

/* Nodes, or the store itself. */
static enum hearth_status make_ready(struct hearth_exec *arena)
{
    while (arena->spans == NULL || !hearth__spans_ready(arena->spans)) {
        hearth__exec_leave(arena);
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SPANS);
        hearth__section_resume(&arena->section);
        if (segment == NULL)
            return HEARTH_NO_MEMORY;
        if (arena->spans == NULL)
            arena->spans = hearth__spans_open(segment);
        else
            hearth__spans_add_nodes(arena->spans, segment);
    }
    return HEARTH_OK;
}

static enum hearth_status acquire(struct hearth_exec *arena, const struct hearth__want *want,
                                  size_t ask, struct hearth_segment *segment)
{
    size_t alignment = (size_t)1 << want->alignment_log;
    enum hearth_status status = hearth__backing_acquire(arena->backing, ask, alignment, segment);
    if (status == HEARTH_OK || ask == want->bytes)
        return status;
    return hearth__backing_acquire(arena->backing, want->bytes, alignment, segment);
}

/* A segment more. As with lists, what is retained is given back before the request fails. */
static enum hearth_status grow(struct hearth_exec *arena, const struct hearth__want *want,
                               struct hearth__span **span)
{
    struct hearth_segment segment;
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    if (want->bytes > HEARTH__HELD_MAX - hearth__weight_capacity(arena->held))
        return HEARTH_NO_MEMORY;
    arena->spans->most_bytes = cap;
    size_t ask = hearth__spans_ask(arena->spans, want->bytes);
    hearth__exec_leave(arena);
    enum hearth_status status = acquire(arena, want, ask, &segment);
    if (status != HEARTH_OK) {
        hearth__section_resume(&arena->section);
        size_t trimmed = hearth__exec_trim_all(arena);
        hearth__exec_leave(arena);
        if (trimmed != 0 && arena->service != NULL)
            hearth__service_note_reclaimed(arena->service, trimmed);
        if (hearth__exec_reclaim_others(arena) || trimmed != 0) {
            (void)hearth_backing_purge(arena->backing);
            status = acquire(arena, want, want->bytes, &segment);
        }
    }
    if (status == HEARTH_OK)
        hearth__exec_grew(arena, segment.length);
    hearth__section_resume(&arena->section);
    if (status != HEARTH_OK)
        return status;
    if (segment.length > HEARTH__HELD_MAX - hearth__weight_capacity(arena->held) ||
        make_ready(arena) != HEARTH_OK) {
        hearth__exec_leave(arena);
        hearth__backing_release(arena->backing, &segment);
        hearth__section_resume(&arena->section);
        return HEARTH_NO_MEMORY;
    }
    hearth__cell_add(&arena->cells.obtained_count, 1);
    hearth__cell_add(&arena->cells.obtained_bytes, segment.length);
    hearth__cell_add(&arena->cells.misses, 1);
    arena->held += hearth__weight_of(1, segment.length);
    arena->span_pieces++;
    *span = hearth__spans_grow(arena->spans, &segment, hearth__load_relaxed(&arena->cells.gives),
                               want->bytes, want->alignment_log);
    hearth__exec_count_pieces(arena, false);
    return HEARTH_OK;
}

static enum hearth_status take(struct hearth_exec *arena, const struct hearth__want *want,
                               struct hearth__span **span)
{
    enum hearth_status status = make_ready(arena);
    if (status != HEARTH_OK)
        return status;
    *span = hearth__spans_take(arena->spans, want->bytes, want->alignment_log);
    if (*span == NULL)
        return grow(arena, want, span);
    hearth__exec_count_pieces(arena, false);
    return HEARTH_OK;
}

enum hearth_status hearth__exec_span_fill(struct hearth_exec *arena,
                                          const struct hearth__want *want, struct hearth_buf *slot)
{
    struct hearth__span *span;
    enum hearth_status status = take(arena, want, &span);
    if (status != HEARTH_OK)
        return status;
    const struct hearth_segment part = {
        .base = span->base,
        .length = span->length,
        .cookie = (uint64_t)(uintptr_t)span,
        .flags = span->zero ? HEARTH_SEGMENT_ZERO : 0,
    };
    hearth__exec_leave(arena);
    status = hearth__buf_attach(slot, &part, want->alignment_log);
    hearth__section_resume(&arena->section);
    if (status != HEARTH_OK) {
        hearth__spans_give(arena->spans, span, hearth__load_relaxed(&arena->cells.gives));
        hearth__exec_count_pieces(arena, false);
        return status;
    }
    slot->alignment_log |= HEARTH__MARK_SPAN;
    return HEARTH_OK;
}

static struct hearth__span *span_of(const struct hearth_buf *slot)
{
    return (struct hearth__span *)(uintptr_t)slot->storage.cookie;
}

void hearth__exec_span_give(struct hearth_exec *arena, struct hearth_buf *slot, bool shared)
{
    struct hearth__span *span = span_of(slot);
    struct hearth_segment part;
    bool purged = (slot->flags & HEARTH__BUF_PURGED) != 0;
    hearth__buf_detach(slot, &part);
    if (arena->spans == NULL) {
        /* In a forked child: the store was somebody else's, and stays where it is. */
        (void)hearth__fetch_add_relaxed(&arena->lost, hearth__weight_of(1, part.length));
        return;
    }
    /* The clock that stamped the slot may have gone on: returns come in order, stamps with them. */
    uint64_t stamp = hearth__load_relaxed(&arena->cells.gives);
    struct hearth__purge pages;
    span->touched = span->length;
    if (purged && hearth__span_pages(span, SIZE_MAX, &pages))
        hearth__spans_give_purged(arena->spans, span, stamp, &pages);
    else
        hearth__spans_give(arena->spans, span, stamp);
    hearth__exec_count_pieces(arena, shared);
}

void hearth__exec_span_discard(struct hearth_exec *arena, struct hearth_buf *slot)
{
    struct hearth__span *span = span_of(slot);
    struct hearth__purge pages;
    span->touched = span->length;
    if (hearth__span_pages(span, SIZE_MAX, &pages) &&
        hearth__backing_discard(arena->backing, pages.base, pages.length) != 0)
        slot->flags |= HEARTH__BUF_PURGED;
}

/* The segment that was free as a whole first, in the form of a slot. */
static struct hearth_buf *evict(struct hearth_exec *arena, uint64_t before)
{
    struct hearth__spans *spans = arena->spans;
    struct hearth_segment segment;
    if (spans->idle_oldest == NULL)
        return NULL;
    uint64_t stamp = spans->idle_oldest->first->stamp;
    if (!hearth__spans_evict(spans, before, SIZE_MAX, &segment))
        return NULL;
    arena->span_pieces--;
    arena->span_stored = free_weight(spans); /* `stored` is left to who takes it off */
    struct hearth_buf *carrier = &hearth__spans_node_take(spans)->carrier;
    *carrier = (struct hearth_buf){
        .storage = {segment.base, segment.length, segment.cookie},
        .alignment_log = HEARTH__MARK_SEGMENT,
    };
    hearth__store_relaxed(&carrier->weight, hearth__weight_of(1, segment.length));
    hearth__store_relaxed(&carrier->stamp, stamp);
    return carrier;
}

struct hearth_buf *hearth__exec_spans_evict(struct hearth_exec *arena, uint64_t before)
{
    const struct hearth__span_segment *idle = arena->spans->idle_oldest;
    if (idle == NULL || idle->first->stamp >= before ||
        idle->first->stamp > arena->store->ops->oldest(arena->store))
        return NULL;
    return evict(arena, before);
}

void hearth__exec_spans_give_back(struct hearth_exec *arena, struct hearth_buf *carrier)
{
    uint64_t stamp = hearth__load_relaxed(&carrier->stamp);
    const struct hearth_segment segment = {
        .base = carrier->storage.base,
        .length = carrier->storage.length,
        .cookie = carrier->storage.cookie,
    };
    hearth__spans_node_put(arena->spans, carrier);
    hearth__spans_add_segment(arena->spans, &segment, stamp);
    arena->span_pieces++;
    arena->span_stored = free_weight(arena->spans);
}

void hearth__exec_spans_rearrange(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    if (arena->spans == NULL || !hearth__spans_scattered(arena->spans))
        return;
    struct hearth_buf *carrier;
    while ((carrier = hearth__exec_stored_out(arena, evict(arena, UINT64_MAX))) != NULL)
        hearth__exec_chain_push(after, carrier);
}

/* False when no span has pages to give back. */
static bool purge(struct hearth_exec *arena, size_t most)
{
    struct hearth__purge pages;
    if (!hearth__spans_purge_begin(arena->spans, UINT64_MAX, most, &pages))
        return false;
    hearth__exec_leave(arena);
    size_t discarded = hearth__backing_discard(arena->backing, pages.base, pages.length);
    hearth__section_resume(&arena->section);
    hearth__cell_add(&arena->cells.purged_bytes, discarded);
    hearth__spans_purge_end(arena->spans, &pages, discarded);
    hearth__exec_count_pieces(arena, false);
    return true;
}

void hearth__exec_spans_keep_cap(struct hearth_exec *arena)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    bool more = true;
    while (more) {
        size_t warm = hearth__exec_warm(arena);
        more = warm > cap && purge(arena, warm - cap);
    }
}

size_t hearth__exec_spans_trim(struct hearth_exec *arena)
{
    size_t released = 0;
    if (arena->spans == NULL)
        return 0;
    for (;;) {
        struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
        struct hearth_buf *carrier = hearth__exec_stored_out(arena, evict(arena, UINT64_MAX));
        if (carrier == NULL)
            break;
        released += hearth__buf_capacity(carrier);
        hearth__exec_chain_push(&after, carrier);
        hearth__exec_leave(arena);
        hearth__exec_release_chain(arena, &after);
        hearth__section_resume(&arena->section);
    }
    while (purge(arena, SIZE_MAX))
        ;
    hearth__spans_forget(arena->spans);
    return released;
}

void hearth__exec_spans_end(struct hearth_exec *arena)
{
    if (arena->spans == NULL)
        return;
    for (struct hearth__span_segment *segment = arena->spans->segments; segment != NULL;
         segment = segment->next)
        hearth__backing_release(arena->backing, &segment->lent);
    hearth__spans_close(arena->spans);
    arena->spans = NULL;
}
