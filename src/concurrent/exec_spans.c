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

/* What waits in the store, as it is charged for. */
static void count_stored(struct hearth_exec *arena)
{
    const struct hearth__spans *spans = arena->spans;
    hearth__weight warm = hearth__weight_of(spans->free_count, spans->warm_bytes);
    arena->stored += (int64_t)(warm - arena->span_stored);
    arena->span_stored = warm;
    hearth__store_relaxed(&arena->cold_bytes, spans->free_bytes - spans->warm_bytes);
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
    count_stored(arena);
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

static void rearrange(struct hearth_exec *arena, struct hearth__exec_after *after);
static void release_now(struct hearth_exec *arena, struct hearth__exec_after *after);

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
    if (hearth__unlikely(hearth__spans_scattered(arena->spans))) {
        /* A run begins: what is in several pieces is obtained as one. */
        struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
        rearrange(arena, &after);
        release_now(arena, &after);
    }
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
    (void)hearth__span_pages(span, SIZE_MAX, &pages);
    if (purged) {
        hearth__exec_cell_add(&arena->cells.purged_bytes, pages.length, shared);
        hearth__spans_give_purged(arena->spans, span, stamp, &pages);
    } else {
        hearth__spans_give(arena->spans, span, stamp);
    }
    hearth__exec_count_pieces(arena, shared);
}

/* Outside. */
static size_t discard(struct hearth_exec *arena, const struct hearth__purge *pages)
{
    if (arena->debug != 0)
        hearth__debug_released(pages->base, pages->length);
    return hearth__backing_discard(arena->backing, pages->base, pages->length);
}

void hearth__exec_span_discard(struct hearth_exec *arena, struct hearth_buf *slot)
{
    struct hearth__span *span = span_of(slot);
    struct hearth__purge pages;
    span->touched = span->length;
    (void)hearth__span_pages(span, SIZE_MAX, &pages);
    if (pages.length == 0 || discard(arena, &pages) != 0)
        slot->flags |= HEARTH__BUF_PURGED;
}

bool hearth__exec_spans_first(struct hearth_exec *arena)
{
    uint64_t spans = hearth__spans_oldest(arena->spans);
    return spans != UINT64_MAX && spans <= arena->store->ops->oldest(arena->store);
}

/* The segment that is free as a whole for longest, in the form of a slot. */
static struct hearth_buf *evict_idle(struct hearth_exec *arena, uint64_t before, size_t most)
{
    struct hearth__spans *spans = arena->spans;
    struct hearth_segment segment;
    if (spans->idle_oldest == NULL)
        return NULL;
    uint64_t stamp = spans->idle_oldest->first->stamp;
    size_t warm = spans->idle_oldest->first->touched;
    if (!hearth__spans_evict(spans, before, most, &segment))
        return NULL;
    arena->span_pieces--;
    count_stored(arena);
    struct hearth_buf *carrier = &hearth__spans_node_take(spans)->carrier;
    *carrier = (struct hearth_buf){
        .storage = {segment.base, segment.length, segment.cookie},
        .alignment_log = HEARTH__MARK_SEGMENT,
    };
    hearth__store_relaxed(&carrier->weight, hearth__weight_of(1, segment.length));
    hearth__store_relaxed(&carrier->size, warm);
    hearth__store_relaxed(&carrier->stamp, stamp);
    return carrier;
}

struct hearth_buf *hearth__exec_spans_evict(struct hearth_exec *arena, uint64_t before, size_t most)
{
    const struct hearth__spans *spans = arena->spans;
    if (spans->idle_oldest == NULL ||
        spans->idle_oldest->first->stamp != hearth__spans_oldest(spans))
        return NULL;
    return evict_idle(arena, before, most);
}

/* All that is free as a whole. */
static void rearrange(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    struct hearth_buf *carrier;
    while ((carrier = evict_idle(arena, UINT64_MAX, SIZE_MAX)) != NULL) {
        hearth__cell_add(&arena->cells.rearrangements, 1);
        hearth__exec_chain_push(after, carrier);
    }
}

/* Inside, left meanwhile: what is on the chain goes now. */
static void release_now(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    hearth__exec_leave(arena);
    hearth__exec_release_chain(arena, after);
    /* The backing would keep the pages, beside those of the one piece that is asked for next. */
    (void)hearth_backing_purge(arena->backing);
    hearth__section_resume(&arena->section);
}

void hearth__exec_spans_end_run(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    if (arena->spans != NULL && !arena->visited && hearth__spans_gather(arena->spans))
        rearrange(arena, after);
}

bool hearth__exec_spans_purge(struct hearth_exec *arena, uint64_t before, size_t most,
                              bool visiting, size_t *bytes)
{
    struct hearth__purge pages;
    size_t discarded = 0;
    if (arena->spans == NULL || !hearth__spans_purge_begin(arena->spans, before, most, &pages))
        return false;
    if (pages.length != 0) {
        if (!visiting)
            hearth__exec_leave(arena);
        discarded = discard(arena, &pages);
        if (!visiting)
            hearth__section_resume(&arena->section);
    }
    hearth__spans_purge_end(arena->spans, &pages, discarded);
    hearth__exec_cell_add(&arena->cells.purged_bytes, discarded, visiting);
    hearth__exec_count_pieces(arena, visiting);
    *bytes += discarded;
    return true;
}

/* Warm bytes above the cap, or above what is charged for, or what the ceiling lacks. */
static size_t above(const struct hearth_exec *arena, const struct hearth__exec_after *after)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    size_t warm = hearth__exec_warm(arena);
    for (const struct hearth_buf *buf = after->chain; buf != NULL; buf = buf->next)
        warm -= hearth__buf_capacity(buf); /* on its way out already */
    size_t most = warm > cap ? warm - cap : 0;
    if (!arena->metering)
        return most;
    int64_t need = arena->stored - arena->charge;
    int64_t missing = hearth__budget_missing(arena->budget);
    if (missing > 0)
        need += missing;
    size_t bytes = need > 0 && arena->span_stored != 0 ? hearth__exec_bytes_of(need) : 0;
    return bytes > most ? bytes : most;
}

/* One step: a segment or a slot, or pages. */
static bool give_up(struct hearth_exec *arena, size_t bytes, struct hearth__exec_after *after)
{
    size_t purged = 0;
    struct hearth_buf *victim = hearth__exec_store_evict(arena, UINT64_MAX, bytes);
    if (victim == NULL && hearth__exec_spans_purge(arena, UINT64_MAX, bytes, false, &purged))
        return true;
    if (victim == NULL) /* a backing that takes no pages back */
        victim = evict_idle(arena, UINT64_MAX, SIZE_MAX);
    if (victim == NULL)
        victim = hearth__exec_stored_out(arena, arena->store->ops->evict(arena->store, UINT64_MAX));
    if (victim == NULL)
        return false;
    hearth__cell_add(&arena->cells.evictions, 1);
    hearth__exec_chain_push(after, victim);
    return true;
}

void hearth__exec_spans_keep_cap(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    size_t bytes = above(arena, after);
    if (hearth__likely(bytes == 0))
        return;
    while (bytes != 0 && give_up(arena, bytes, after))
        bytes = above(arena, after);
    if (arena->service != NULL)
        hearth__exec_settle(arena, after);
}

size_t hearth__exec_spans_trim(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    struct hearth_buf *carrier;
    size_t released = 0;
    if (arena->spans == NULL)
        return 0;
    while ((carrier = evict_idle(arena, UINT64_MAX, SIZE_MAX)) != NULL) {
        released += hearth__buf_capacity(carrier);
        hearth__exec_chain_push(&after, carrier);
        release_now(arena, &after);
    }
    while (hearth__exec_spans_purge(arena, UINT64_MAX, SIZE_MAX, false, &released))
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
