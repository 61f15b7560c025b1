/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: visits by other threads, which give back what an idle owner retains.
 *
 * Problem. The owner's plain path has no lock and no fence, and what it keeps for itself must come back all the
 * same when somebody asks: after a spike, from a thread that does nothing any more.
 *
 * Picture.
 *
 *     visitor                                    owner
 *     raise VISITED (one read-modify-write)      gate = BUSY; compiler barrier; look at attention
 *     membarrier
 *     gate BUSY, or an operation running?        VISITED? the operation runs beside the visit:
 *       yes: lower, leave it alone                 alloc    fresh storage, into a slot of the spare supply
 *       no:  unlink storage from the store,        free     to its own inbox, like a return from afar
 *            count it, lower                       resize   within the capacity, or fresh storage
 *     give the storage to the backing              trim, cap: left to the visitor and the next operation
 *
 * The owner never waits. What it put aside (slots of the spare supply, the weight of their storage) is merged
 * by the next operation that finds no visitor. An operation that left its section for a backing call still
 * counts as running, so that it finds the store as it left it.
 *
 * Cells. The visitor counts what it gives back in the owner's cells. The owner counts in the same ones only while
 * it is visited, and both do it by read-modify-write then.
 *
 * Progress. Wait-free for the owner but for the backing. The visitor waits for nobody. Ordering: section.visit,
 * section.leave.
 */
#include "concurrent/exec.h"

#include "concurrent/membarrier.h"
#include "core/perturb.h"

/* Storage unlinked during one visit: bounds how long it takes. */
#define VISIT_STEP 32u

void hearth__exec_merge(struct hearth_exec *arena)
{
    arena->held += arena->spare_held;
    arena->spare_held = 0;
    arena->slots.made += arena->spare.made;
    arena->spare.made = 0;
    while (arena->spare.unused != NULL) {
        struct hearth_buf *slot = arena->spare.unused;
        arena->spare.unused = slot->next;
        slot->next = arena->slots.unused;
        arena->slots.unused = slot;
    }
    arena->made_seen = arena->slots.made;
}

enum hearth_status hearth__exec_fill_spare(struct hearth_exec *arena,
                                           const struct hearth__want *want, struct hearth_buf *slot)
{
    struct hearth_segment segment;
    hearth__exec_leave(arena);
    enum hearth_status status = hearth__backing_acquire(arena->backing, want->bytes,
                                                        (size_t)1 << want->alignment_log, &segment);
    if (status == HEARTH_OK) {
        status = hearth__buf_attach(slot, &segment, want->alignment_log);
        if (status != HEARTH_OK)
            hearth__backing_release(arena->backing, &segment);
    }
    hearth__section_resume(&arena->section);
    if (status != HEARTH_OK)
        return status;
    hearth__cell_add(&arena->cells.obtained_count, 1);
    hearth__cell_add(&arena->cells.obtained_bytes, segment.length);
    hearth__cell_add(&arena->cells.misses, 1);
    arena->spare_held += hearth__weight_of(1, segment.length);
    return HEARTH_OK;
}

/* A slot of the spare supply, within the arena's limit. */
static enum hearth_status take_spare(struct hearth_exec *arena, struct hearth_buf **slot)
{
    bool grow;
    if (arena->spare.unused == NULL && arena->made_seen + arena->spare.made >= arena->slots.limit)
        return HEARTH_NO_SLOT;
    while ((*slot = hearth__slots_take(&arena->spare, &grow)) == NULL) {
        hearth__exec_leave(arena);
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
        hearth__section_resume(&arena->section);
        if (segment == NULL)
            return HEARTH_NO_MEMORY;
        hearth__slots_add(&arena->spare, segment, &arena->allocator);
    }
    return HEARTH_OK;
}

enum hearth_status hearth__exec_obtain_spare(struct hearth_exec *arena,
                                             const struct hearth__want *want,
                                             struct hearth_buf **buf)
{
    struct hearth_buf *slot;
    if (want->bytes > HEARTH__HELD_MAX / 2)
        return HEARTH_NO_MEMORY;
    enum hearth_status status = take_spare(arena, &slot);
    if (status != HEARTH_OK)
        return status;
    status = hearth__exec_fill_spare(arena, want, slot);
    if (status != HEARTH_OK) {
        hearth__slots_put(&arena->spare, slot);
        return status;
    }
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__FREE));
    *buf = slot;
    return HEARTH_OK;
}

/* The visitor has the store. Returns the segments that were unlinked. */
static unsigned unlink_some(struct hearth_exec *arena, size_t goal, struct hearth_segment *segments)
{
    unsigned count = 0;
    for (size_t bytes = 0; count < VISIT_STEP && bytes < goal; count++) {
        struct hearth_buf *buf = arena->store->ops->take_largest(arena->store);
        if (buf == NULL)
            break;
        hearth__buf_detach(buf, &segments[count]);
        bytes += segments[count].length;
        arena->held -= hearth__weight_of(1, segments[count].length);
        (void)hearth__fetch_add_release(&arena->cells.given_count, 1);
        (void)hearth__fetch_add_release(&arena->cells.given_bytes, segments[count].length);
        hearth__slots_put(&arena->slots, buf);
    }
    return count;
}

size_t hearth__exec_visit(struct hearth_exec *arena, size_t goal, bool *busy)
{
    struct hearth_segment segments[VISIT_STEP];
    size_t released = 0;
    unsigned count;
    *busy = false;
    if (!hearth__membarrier_ready())
        return 0;
    do {
        count = 0;
        if (!hearth__section_raise(&arena->section)) {
            *busy = true;
            break;
        }
        HEARTH__PERTURB("section.visit");
#ifdef HEARTH_BROKEN_VISIT_NO_MEMBARRIER
        bool apart = true;
#else
        bool apart = hearth__membarrier();
#endif
        /* EDGE section.leave, observe: the operation that left its section has ended, too. */
        *busy = !apart || !hearth__section_visit(&arena->section) ||
                hearth__load_acquire(&arena->running) != 0;
        if (!*busy) {
            HEARTH__PERTURB("section.visit");
            count = unlink_some(arena, goal - released, segments);
        }
        (void)hearth__section_lower(&arena->section);
        for (unsigned i = 0; i < count; i++) {
            released += segments[i].length;
            hearth__backing_release(arena->backing, &segments[i]);
        }
    } while (count == VISIT_STEP && released < goal);
    return released;
}
