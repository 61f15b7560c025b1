/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: misses, eviction, trim. Everything here may call the backing, and does so with the
 * section left, so that a slow backing holds up nobody who wants to visit.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"
#include "concurrent/service.h"

#include "core/misuse.h"

/* Slots whose storage is given back between two looks at the section. */
#define TRIM_STEP 64

/* A slot without storage. The section is left around the kernel's help. */
static enum hearth_status take_slot(struct hearth_exec *arena, struct hearth_buf **slot)
{
    bool grow;
    while ((*slot = hearth__slots_take(&arena->slots, &grow)) == NULL) {
        if (!grow)
            return HEARTH_NO_SLOT;
        hearth__exec_leave(arena);
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
        hearth__section_resume(&arena->section);
        if (segment == NULL)
            return HEARTH_NO_MEMORY;
        /* A signal handler may have added one meanwhile; its slots come first. */
        *slot = hearth__slots_take(&arena->slots, &grow);
        if (*slot != NULL || !grow) {
            hearth__segment_release(segment);
            return *slot != NULL ? HEARTH_OK : HEARTH_NO_SLOT;
        }
        hearth__slots_add(&arena->slots, segment, &arena->allocator);
    }
    return HEARTH_OK;
}

enum hearth_status hearth__exec_prepare_aligned(struct hearth_exec *arena)
{
    if (arena->bins.aligned != NULL)
        return HEARTH_OK;
    hearth__exec_leave(arena);
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_BINS);
    hearth__section_resume(&arena->section);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    if (arena->bins.aligned == NULL)
        hearth__bins_add_aligned(&arena->bins, segment);
    else
        hearth__segment_release(segment);
    return HEARTH_OK;
}

void hearth__exec_count_given(struct hearth_exec *arena, size_t bytes)
{
    if (arena->visited) {
        /* The visitor counts in these cells, too, then by the same kind of step. */
        arena->spare_held -= hearth__weight_of(1, bytes);
        (void)hearth__fetch_add_release(&arena->cells.given_count, 1);
        (void)hearth__fetch_add_release(&arena->cells.given_bytes, bytes);
        return;
    }
    arena->held -= hearth__weight_of(1, bytes);
    hearth__cell_add(&arena->cells.given_count, 1);
    hearth__cell_add(&arena->cells.given_bytes, bytes);
}

/* More than an arena can hold is refused without giving up what it retains. */
static bool plausible(const struct hearth_exec *arena, const struct hearth__want *want)
{
    return want->bytes <= HEARTH__HELD_MAX - hearth__weight_capacity(arena->held);
}

enum hearth_status hearth__exec_fill(struct hearth_exec *arena, const struct hearth__want *want,
                                     struct hearth_buf *slot)
{
    size_t alignment = (size_t)1 << want->alignment_log;
    struct hearth_segment segment;
    if (hearth__exec_spans_serve(arena, want))
        return hearth__exec_span_fill(arena, want, slot);
    if (!plausible(arena, want) || (arena->fixed && !arena->filling))
        return HEARTH_NO_MEMORY;
    hearth__exec_leave(arena);
    enum hearth_status status =
        hearth__backing_acquire(arena->backing, want->bytes, alignment, &segment);
    if (status != HEARTH_OK) {
        hearth__section_resume(&arena->section);
        size_t trimmed = hearth__exec_trim_all(arena);
        bool gained = trimmed != 0;
        hearth__exec_leave(arena);
        if (gained && arena->service != NULL)
            hearth__service_note_reclaimed(arena->service, trimmed);
        gained |= hearth__exec_reclaim_others(arena);
        if (gained) {
            (void)hearth_backing_purge(arena->backing);
            status = hearth__backing_acquire(arena->backing, want->bytes, alignment, &segment);
        }
    }
    if (status == HEARTH_OK) {
        status = hearth__buf_attach(slot, &segment, want->alignment_log);
        if (status != HEARTH_OK)
            hearth__backing_release(arena->backing, &segment);
        else
            hearth__exec_grew(arena, segment.length);
    }
    hearth__section_resume(&arena->section);
    if (status != HEARTH_OK)
        return status;
    if (segment.length > HEARTH__HELD_MAX - hearth__weight_capacity(arena->held)) {
        /* The backing lent more than was asked, or somebody else's miss came in between. */
        hearth__buf_detach(slot, &segment);
        hearth__exec_leave(arena);
        hearth__backing_release(arena->backing, &segment);
        hearth__section_resume(&arena->section);
        return HEARTH_NO_MEMORY;
    }
    hearth__cell_add(&arena->cells.obtained_count, 1);
    hearth__cell_add(&arena->cells.obtained_bytes, segment.length);
    hearth__cell_add(&arena->cells.misses, 1);
    arena->held += hearth__weight_of(1, segment.length);
    return HEARTH_OK;
}

void hearth__exec_empty(struct hearth_exec *arena, struct hearth_buf *slot)
{
    struct hearth_segment segment;
    if (hearth__is_span(slot)) {
        hearth__exec_span_give(arena, slot, false);
        return;
    }
    hearth__buf_detach(slot, &segment);
    hearth__exec_leave(arena);
    hearth__backing_release(arena->backing, &segment);
    hearth__section_resume(&arena->section);
    hearth__exec_count_given(arena, segment.length);
}

/* Slots ran out: any sufficient free buffer serves, the smallest first; else the largest one gets larger
 * storage. */
static enum hearth_status reuse_any(struct hearth_exec *arena, const struct hearth__want *want,
                                    struct hearth_buf **buf)
{
    struct hearth__want any = *want;
    any.last_class = HEARTH__CLASS_COUNT - 1;
    while (hearth__exec_let_go(arena))
        ;
    *buf = hearth__exec_store_take(arena, &any);
    if (*buf != NULL)
        return HEARTH_OK;
    struct hearth_buf *largest = hearth__exec_store_take_largest(arena);
    if (largest == NULL)
        return HEARTH_NO_SLOT;
    uintptr_t address = (uintptr_t)hearth__load_relaxed(&largest->data);
    if (hearth__buf_capacity(largest) >= want->bytes &&
        address % ((size_t)1 << want->alignment_log) == 0) {
        /* Its address happens to do. From now on it has to: a resize asks for as much. */
        if (largest->alignment_log < want->alignment_log)
            largest->alignment_log = (uint8_t)want->alignment_log;
        *buf = largest;
        return HEARTH_OK;
    }
    /* A stand-in receives the new storage first, so that there is no need to part with the old one
     * before the new one is there. */
    struct hearth_buf stand_in = {.index = largest->index};
    enum hearth_status status = hearth__exec_fill(arena, want, &stand_in);
    if (status == HEARTH_OK) {
        hearth__buf_swap_storage(largest, &stand_in);
        hearth__exec_empty(arena, &stand_in);
    } else if (!plausible(arena, want)) {
        hearth__exec_store_give(arena, largest, false);
        return status;
    } else {
        /* The old storage is the last that can be given back. */
        hearth__exec_empty(arena, largest);
        status = hearth__exec_fill(arena, want, largest);
    }
    if (status != HEARTH_OK) {
        hearth__slots_put(&arena->slots, largest);
        return status;
    }
    *buf = largest;
    return HEARTH_OK;
}

enum hearth_status hearth__exec_obtain(struct hearth_exec *arena, const struct hearth__want *want,
                                       struct hearth_buf **buf)
{
    struct hearth_buf *slot;
    enum hearth_status status = take_slot(arena, &slot);
    if (status != HEARTH_OK)
        return status == HEARTH_NO_SLOT && !arena->filling ? reuse_any(arena, want, buf) : status;
    status = hearth__exec_fill(arena, want, slot);
    if (status != HEARTH_OK) {
        hearth__slots_put(&arena->slots, slot);
        return status;
    }
    /* As one from the store: whoever does not hand it out can give it to the store. */
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__FREE));
    *buf = slot;
    return HEARTH_OK;
}

void hearth__exec_evict_to(struct hearth_exec *arena, size_t limit,
                           struct hearth__exec_after *after)
{
    size_t retained = hearth__exec_kept(arena);
    /* Of what is retained some is on its way out already. */
    const struct hearth_buf *buf = arena->with_plans ? NULL : after->chain;
    for (; buf != NULL; buf = buf->next)
        retained -= hearth__buf_capacity(buf);
    while (retained > limit) {
        struct hearth_buf *victim = hearth__exec_store_evict(arena, UINT64_MAX, retained - limit);
        if (victim == NULL && hearth__exec_let_go(arena))
            continue;
        if (victim == NULL)
            return;
        retained -= hearth__weight_capacity(hearth__exec_stored_weight(victim));
        hearth__cell_add(&arena->cells.evictions, 1);
        hearth__exec_chain_push(after, victim);
    }
}

size_t hearth__exec_evict_old(struct hearth_exec *arena, uint64_t before, size_t most,
                              struct hearth__exec_after *after)
{
    size_t count = 0;
    size_t purged = 0;
    for (; count < most; count++) {
        struct hearth_buf *victim = hearth__exec_store_evict(arena, before, SIZE_MAX);
        if (victim != NULL)
            hearth__exec_chain_push(after, victim);
        else if (!hearth__exec_spans_purge(arena, before, HEARTH__PURGE_STEP, false, &purged))
            break;
    }
    return count;
}

void hearth__exec_keep(struct hearth_exec *arena, struct hearth_buf *buf,
                       struct hearth__exec_after *after)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    size_t capacity = hearth__buf_capacity(buf);
    if (hearth__is_place(buf)) {
        hearth__exec_place_home(arena, buf, after);
        return;
    }
    if (!hearth__is_span(buf) && buf->alignment_log > HEARTH__ALIGNMENT_LOG_MIN &&
        arena->bins.aligned == NULL) {
        /* Lent while the lists for it could not be made. */
        hearth__exec_chain_push(after, buf);
        return;
    }
    if (arena->service != NULL &&
        (hearth__exec_closed(arena) || !hearth__exec_charge(arena, buf, after))) {
        hearth__exec_chain_push(after, buf);
        return;
    }
    if (after->visiting && hearth__exec_kept(arena) > cap) {
        hearth__exec_chain_push(after, buf);
        return;
    }
    if (capacity > cap) {
        hearth__cell_add(&arena->cells.bypasses, 1);
        hearth__exec_chain_push(after, buf);
        return;
    }
    if (arena->debug != 0)
        hearth__debug_returned(arena->debug, buf);
    if ((arena->debug & HEARTH__DEBUG_QUARANTINE) != 0)
        hearth__exec_detain(arena, buf);
    else
        hearth__exec_store_give(arena, buf, after->visiting);
    if (!after->visiting)
        hearth__exec_evict_to(arena, cap, after);
}

void hearth__exec_retire(struct hearth_exec *arena, struct hearth_buf *buf,
                         struct hearth__exec_after *after)
{
    if (!hearth__is_place(buf)) {
        hearth__exec_chain_push(after, buf);
        return;
    }
    hearth__exec_place_home(arena, buf, after);
    hearth__slot_use_up(buf);
}

/* Those on it now. Spans go back to their store, without their pages; what of it is not to be kept comes next. */
static void release_some(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    struct hearth_buf *chain = after->chain;
    bool spans = false;
    after->chain = NULL;
    for (struct hearth_buf *buf = chain; buf != NULL; buf = buf->next) {
        struct hearth_segment segment;
        if (hearth__is_span(buf)) {
            hearth__exec_span_discard(arena, buf);
            spans = true;
            continue;
        }
        hearth__buf_detach(buf, &segment);
        hearth__backing_release(arena->backing, &segment);
        /* For the count below: a slot without storage has no use for its logical size. */
        hearth__store_relaxed(&buf->size, segment.length);
    }
    hearth__section_resume(&arena->section);
    struct hearth_buf *next;
    for (struct hearth_buf *buf = chain; buf != NULL; buf = next) {
        next = buf->next;
        if (hearth__is_span(buf)) {
            hearth__exec_store_give(arena, buf, false);
            continue;
        }
        hearth__exec_count_given(arena, hearth__load_relaxed(&buf->size));
        hearth__store_relaxed(&buf->size, 0);
        hearth__exec_slot_put(arena, buf);
    }
    if (spans && hearth__exec_closed(arena))
        (void)hearth__exec_evict_old(arena, UINT64_MAX, SIZE_MAX, after);
    else if (spans)
        hearth__exec_spans_keep_cap(arena, after);
    hearth__exec_leave(arena);
}

void hearth__exec_release_chain(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    while (after->chain != NULL)
        release_some(arena, after);
}

size_t hearth__exec_trim_all(struct hearth_exec *arena)
{
    size_t released = 0;
    if (arena->visited)
        return 0; /* somebody is at it */
    while (hearth__exec_let_go(arena))
        ;
    for (;;) {
        struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
        struct hearth_buf *buf = NULL;
        for (unsigned i = 0; i < TRIM_STEP; i++) {
            buf = hearth__exec_store_take_largest(arena);
            if (buf == NULL)
                break;
            released += hearth__buf_capacity(buf);
            hearth__exec_chain_push(&after, buf);
        }
        hearth__exec_leave(arena);
        hearth__exec_release_chain(arena, &after);
        hearth__section_resume(&arena->section);
        if (buf == NULL)
            return released + hearth__exec_spans_trim(arena) +
                   (arena->with_plans ? hearth__exec_run_trim(arena) : 0);
    }
}
