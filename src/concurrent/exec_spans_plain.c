/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: the owner's plain path of an arena with spans.
 *
 * Problem. The general path does for a block of a segment what it does for any: begin, look, count, end, some
 * hundred nanoseconds a pair, of which the store needs a fifth.
 *
 * Picture. The gate of such an arena carries a mark, which keeps the owner off the lists' plain path and lets it into
 * this one, with the same single compare. Small sizes go to the lists as they do there. The block that was returned
 * last stays whole, with its slot, in front of the store:
 *
 *      free --> [ front ] --(the next return, or a request that it does not fit)--> store, where it merges
 *                   |
 *                   `--(a request that it fits, if there is nothing that it would merge with)--> live again
 *
 * A block is thus late by one operation, no more, and what is asked for over and over costs what it does with lists.
 * One that would merge is not reused as it is: det640 would then need 1.26 times its peak instead of 1.08. When it
 * goes to the store for another span, that one gets its slot. For the store it is lent, for everybody else it is
 * retained. Whatever takes the general path, or visits, settles it first, so that caps, trims, ages and rearranging
 * find it where it belongs.
 *
 * Whatever is not plain is left to the general path: a cap or a ceiling, a larger alignment, debugging, growth, a slot
 * that nobody had before, the start of a run in several segments.
 *
 * Cost. A pair that hits the front 9 ns, one that does not 23 to 36.
 */
#include "concurrent/exec_spans.h"

static struct hearth__span *span_of(const struct hearth_buf *slot)
{
    return (struct hearth__span *)(uintptr_t)slot->storage.cookie;
}

/* The span that a slot had in front; its address still leads to the slot. */
static void store_front(struct hearth_exec *arena, struct hearth_buf *slot)
{
    struct hearth__span *span = span_of(slot);
    span->touched = span->length;
    hearth__spans_give(arena->spans, span, hearth__load_relaxed(&slot->stamp));
}

void hearth__exec_front_settle(struct hearth_exec *arena, bool shared)
{
    struct hearth_buf *front = arena->front;
    struct hearth_segment part;
    arena->front = NULL;
    store_front(arena, front);
    hearth__buf_detach(front, &part);
    hearth__slots_put(&arena->slots, front);
    hearth__exec_count_pieces(arena, shared);
}

/* Put a span in a slot that has the address `old`, or none. */
static bool attach(struct hearth_buf *slot, const struct hearth__span *span, const void *old)
{
    if (span->base != old) {
        if (hearth__payload_set(span->base, slot->index) != HEARTH_OK)
            return false;
        if (old != NULL)
            hearth__payload_clear(old);
        hearth__store_relaxed(&slot->data, span->base);
    }
    slot->storage = (struct hearth__storage){span->base, span->length, (uint64_t)(uintptr_t)span};
    slot->offset = 0;
    slot->size_class = (uint16_t)hearth__class_floor(span->length);
    slot->alignment_log = HEARTH__ALIGNMENT_LOG_MIN | HEARTH__MARK_SPAN;
    slot->flags = 0;
    hearth__store_relaxed(&slot->weight, hearth__weight_of(1, span->length));
    return true;
}

/* A slot with a span from the store, or NULL: the general path will see. */
static struct hearth_buf *take_span(struct hearth_exec *arena, size_t bytes)
{
    struct hearth__spans *spans = arena->spans;
    if (!hearth__spans_ready(spans))
        return NULL;
    struct hearth_buf *slot = arena->front;
    const void *old = NULL;
    if (slot != NULL) {
        arena->front = NULL;
        old = hearth__load_relaxed(&slot->data);
        store_front(arena, slot);
    } else if ((slot = arena->slots.unused) != NULL) {
        arena->slots.unused = slot->next;
    } else {
        return NULL;
    }
    struct hearth__span *span = hearth__spans_take(spans, bytes, HEARTH__ALIGNMENT_LOG_MIN);
    bool found = span != NULL && attach(slot, span, old);
    if (hearth__unlikely(!found)) {
        struct hearth_segment part;
        if (span != NULL)
            hearth__spans_give(spans, span, hearth__load_relaxed(&arena->cells.gives));
        if (old != NULL)
            hearth__buf_detach(slot, &part);
        hearth__slots_put(&arena->slots, slot);
    }
    hearth__exec_count_pieces(arena, false);
    return found ? slot : NULL;
}

/* Free space that others use up to both ends. */
static bool is_alone(const struct hearth__span *span)
{
    return (span->above == NULL || span->above->state != HEARTH__SPAN_FREE) &&
           (span->below == NULL || span->below->state != HEARTH__SPAN_FREE);
}

/* From the lists; large blocks, too, if they were prefilled. */
static struct hearth_buf *take(struct hearth_exec *arena, size_t size)
{
    struct hearth__bin *bin = &arena->bins.normal.bins[hearth__class_index(size)];
    if (bin->newest != NULL)
        return hearth__bin_pop(bin);
    if (size < HEARTH__SPANS_FROM_BYTES || !arena->with_spans || size > HEARTH__HELD_MAX / 2 ||
        arena->fixed)
        return NULL;
    size_t bytes = (size + HEARTH__SPAN_UNIT - 1) & ~(HEARTH__SPAN_UNIT - 1);
    struct hearth_buf *front = arena->front;
    const struct hearth__spans *spans = arena->spans;
    /* A run begins, and what is in several pieces may have to be one. */
    if (spans == NULL || (spans->segment_count > 1 && spans->lent_count == (front != NULL)))
        return NULL;
    /* It has what the store would cut, to the remainder that would stay with it. */
    if (front != NULL && hearth__buf_capacity(front) - bytes < HEARTH__SPAN_LEAST_BYTES &&
        is_alone(span_of(front))) {
        arena->front = NULL;
        return front;
    }
    return take_span(arena, bytes);
}

bool hearth__exec_spans_alloc(struct hearth_exec *arena, size_t size, struct hearth_buf **out)
{
    uint64_t gate = hearth__exec_gate(arena, hearth__thread_token_peek());
    if (!hearth__section_enter_plain(&arena->section, gate))
        return false;
    struct hearth_buf *buf = take(arena, size);
    if (hearth__unlikely(buf == NULL)) {
        hearth__exec_leave(arena);
        return false;
    }
    uint64_t word = hearth__load_relaxed(&buf->state);
    hearth__store_relaxed(&buf->state, (word & ~HEARTH__BELOW_GENERATION) | HEARTH__LIVE_BITS);
    hearth__store_relaxed(&buf->size, size);
    hearth__exec_count_out_buf(&arena->cells, buf, size);
    hearth__section_leave(&arena->section, gate);
    *out = buf;
    return true;
}

bool hearth__exec_spans_free(struct hearth_exec *arena, struct hearth_buf *buf, uint64_t generation)
{
    uint64_t gate = hearth__exec_gate(arena, hearth__thread_token_peek());
    if (!hearth__section_enter_plain(&arena->section, gate))
        return false;
    uint64_t word = hearth__load_relaxed(&buf->state);
    uint64_t next;
    bool span = buf->alignment_log == (HEARTH__ALIGNMENT_LOG_MIN | HEARTH__MARK_SPAN);
    if (hearth__unlikely(
            (word & HEARTH__BELOW_GENERATION) != HEARTH__LIVE_BITS ||
            (generation != 0 && hearth__word_generation(word) != generation) ||
            arena->plain_alignment_log != HEARTH__ALIGNMENT_LOG_MIN ||
            (span ? arena->spans == NULL : buf->alignment_log != HEARTH__ALIGNMENT_LOG_MIN) ||
            __builtin_add_overflow(
                word, HEARTH__GENERATION_ONE + (HEARTH__FREE_BITS - HEARTH__LIVE_BITS), &next))) {
        hearth__exec_leave(arena);
        return false;
    }
    struct hearth__exec_cells *cells = &arena->cells;
    if (!span)
        hearth__bin_push(&arena->bins.normal, buf);
    else if (arena->front != NULL)
        hearth__exec_front_settle(arena, false);
    hearth__store_relaxed(&buf->state, next);
    uint64_t gives = hearth__load_relaxed(&cells->gives);
    hearth__store_relaxed(&buf->stamp, gives);
    /* EDGE exec.cells, publish: the "out" that came before these "in". */
    hearth__store_release(&cells->gives, gives + 1);
    hearth__cell_add(&cells->in_weight, hearth__load_relaxed(&buf->weight));
    hearth__exec_count_in(cells, hearth__load_relaxed(&buf->size));
    if (span)
        arena->front = buf;
    hearth__section_leave(&arena->section, gate);
    return true;
}
