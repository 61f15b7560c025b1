/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: visits by other threads, which give back what an idle owner retains.
 *
 * Problem. The owner's plain path has no lock and no fence, and what it keeps for itself must come back all the
 * same when somebody asks: after a spike, from a thread that does nothing any more. And so must what others
 * returned to its inbox since.
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
 * Cells. The visitor counts what it gives back and takes in in the owner's cells. The owner counts in the same
 * ones only while it is visited, and both do it by read-modify-write then.
 *
 * Progress. Bounded for the owner: what it wants may be what the visitor holds, so an allocation lets the visitor get
 * on a few dozen times before it takes fresh storage, and longer before it fails. The visitor waits for nobody. Ordering: section.visit,
 * section.leave.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "concurrent/membarrier.h"
#include "core/perturb.h"

#include <sched.h>
#include <time.h>

/* A visit lasts microseconds: so many looks see its end. */
#define TRIES_MOST 1000u
#define YIELDS 128u

/* Queued returns taken in during one visit. Each may send a slot to the backing, and all find a place. */
#define VISIT_DRAIN 16u

/* Bytes of pages given back during one visit: some tens of microseconds in the kernel. */
#define VISIT_PURGE_MOST ((size_t)2 << 20)

static_assert(VISIT_DRAIN < HEARTH__VISIT_MOST, "what was taken in finds a place");
static_assert(HEARTH__VISIT_MOST <= HEARTH__RELEASES_MOST, "one visit fits the releases");

enum hearth_status hearth__exec_begin_alone(struct hearth_exec *arena, const char *call)
{
    for (unsigned i = 0; i < TRIES_MOST; i++) {
        struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
        enum hearth_status status = hearth__exec_begin(arena, call);
        if (status != HEARTH_OK || !arena->visited)
            return status;
        hearth__exec_end(arena, &after);
        (void)sched_yield();
    }
    return HEARTH_BUSY;
}

bool hearth__exec_try_again(uint32_t met, enum hearth_status status, unsigned *tries)
{
    bool failed = status == HEARTH_NO_MEMORY || status == HEARTH_NO_SLOT;
    if (!failed || (met & HEARTH__MET_VISITOR) == 0 || ++*tries > TRIES_MOST)
        return false;
    if (*tries < YIELDS) {
        (void)sched_yield();
    } else {
        /* The visitor does not run at all. */
        const struct timespec moment = {0, 50000};
        (void)nanosleep(&moment, NULL);
    }
    return true;
}

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
    if (arena->fixed)
        return HEARTH_NO_MEMORY; /* and another try without the visitor */
    hearth__exec_leave(arena);
    enum hearth_status status = hearth__backing_acquire(arena->backing, want->bytes,
                                                        (size_t)1 << want->alignment_log, &segment);
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

/* The visitor has the store: a slot's storage goes to whoever gives it back, outside. */
static size_t unlink_one(struct hearth_exec *arena, struct hearth_buf *buf,
                         struct hearth__visit *visit)
{
    struct hearth_segment segment;
    if (hearth__is_span(buf)) {
        hearth__exec_store_give(arena, buf, true);
        return 0;
    }
    hearth__buf_detach(buf, &segment);
    arena->held -= hearth__weight_of(1, segment.length);
    (void)hearth__fetch_add_release(&arena->cells.given_count, 1);
    (void)hearth__fetch_add_release(&arena->cells.given_bytes, segment.length);
    hearth__exec_slot_put(arena, buf);
    hearth__releases_add(visit->releases, arena->backing, &segment);
    return segment.length;
}

/* Bytes above the cap, or what the store holds above the ceiling that came down. The owner may be lending beside the
 * visit, from storage that is not counted as held yet. */
static size_t above(const struct hearth_exec *arena)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    hearth__weight kept = arena->with_plans
                              ? hearth__weight_of(0, hearth__exec_kept(arena))
                              : hearth__exec_retained(arena) -
                                    hearth__weight_of(0, hearth__load_relaxed(&arena->cold_bytes));
    int64_t need = 0;
    if (cap != HEARTH_UNBOUNDED)
        need =
            (int64_t)(kept - hearth__weight_of(0, cap / HEARTH__WEIGHT_UNIT * HEARTH__WEIGHT_UNIT));
    if (arena->metering && arena->stored - arena->charge > need)
        need = arena->stored - arena->charge;
    return need > 0 ? hearth__exec_bytes_of(need) : 0;
}

/* The next one to go. What is above a cap or the ceiling goes whatever its age. NULL with more in *purged: pages of a
 * span went. */
static struct hearth_buf *take_old(struct hearth_exec *arena, size_t bytes,
                                   const struct hearth__visit *visit, size_t *purged)
{
    uint64_t before = visit->before;
    size_t most = visit->goal - bytes;
    size_t more = above(arena);
    struct hearth_buf *buf;
    if (more != 0) {
        before = UINT64_MAX;
        most = more;
        buf = hearth__exec_store_evict(arena, before, most);
    } else {
        if (visit->most != 0 && bytes >= visit->most)
            return NULL;
        size_t left = visit->most == 0 ? 0 : visit->most - bytes;
        buf = hearth__exec_evict_within(arena, before, left, most);
        if (left != 0 && left < most)
            most = left;
    }
    if (buf == NULL)
        (void)hearth__exec_spans_purge(
            arena, before, most < HEARTH__PURGE_STEP ? most : HEARTH__PURGE_STEP, true, purged);
    return buf;
}

/* What is found changed is told by the owner's next operation. */
static struct hearth_buf *pop_quarantine(struct hearth_exec *arena)
{
    return hearth__exec_stored_out(arena,
                                   hearth__quarantine_pop(&arena->quarantine, &arena->overwritten));
}

/* The visitor has the store. Returns bytes. */
static size_t unlink_some(struct hearth_exec *arena, struct hearth__visit *visit,
                          struct hearth__exec_after *after)
{
    size_t bytes = 0;
    unsigned count = 0;
    if (arena->front != NULL)
        hearth__exec_front_settle(arena, true);
    if (!arena->metering &&
        (hearth__load_relaxed(&arena->section.attention) & HEARTH__ATTENTION_METERED) != 0)
        hearth__exec_meter(arena, true);
    if (arena->service != NULL)
        hearth__exec_take_cap(arena);
    size_t chained = 0;
    for (unsigned i = 0; i < VISIT_DRAIN && chained < visit->goal; i++) {
        const struct hearth_buf *before = after->chain;
        (void)hearth__exec_drain_visiting(arena, 1, after);
        for (const struct hearth_buf *buf = after->chain; buf != before; buf = buf->next)
            chained += hearth__buf_capacity(buf);
    }
    hearth__exec_settle(arena, after);
    size_t purged = 0;
    while (count < HEARTH__VISIT_MOST && purged < VISIT_PURGE_MOST) {
        struct hearth_buf *buf = after->chain;
        size_t before = purged;
        if (buf != NULL)
            after->chain = buf->next;
        else if (bytes < visit->goal)
            buf = take_old(arena, bytes, visit, &purged);
        bytes += purged - before;
        if (purged != before)
            continue;
        if (buf == NULL && bytes < visit->goal && visit->before == UINT64_MAX)
            buf = pop_quarantine(arena);
        if (buf == NULL)
            break;
        bytes += unlink_one(arena, buf, visit);
        count++;
    }
    hearth__exec_settle(arena, after);
    visit->purged = purged;
    if (arena->with_plans && count < HEARTH__VISIT_MOST)
        hearth__exec_run_abandon(arena, visit);
    visit->more = count == HEARTH__VISIT_MOST || purged >= VISIT_PURGE_MOST ||
                  hearth__load_relaxed(&arena->backlog) != NULL ||
                  hearth__inbox_waiting(&arena->inbox);
    return bytes;
}

size_t hearth__exec_visit_serve(struct hearth_exec *arena, bool apart, struct hearth__visit *visit)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    size_t released = 0;
    after.visiting = true;
    after.untold = visit->untold;
    visit->more = false;
    visit->purged = 0;
    /* EDGE section.leave, observe: the operation that left its section has ended, too. */
    visit->busy = !apart || !hearth__section_visit(&arena->section) ||
                  hearth__load_acquire(&arena->running) != 0;
    if (!visit->busy) {
        HEARTH__PERTURB("section.visit");
        released = unlink_some(arena, visit, &after);
    }
    if ((hearth__section_lower(&arena->section) & HEARTH__ATTENTION_GONE) != 0)
        hearth__exec_see_to_end(arena);
    hearth__exec_report(arena, &after);
    return released;
}

size_t hearth__exec_visit(struct hearth_exec *arena, struct hearth__visit *visit)
{
    visit->more = false;
    visit->busy = true;
    if (!hearth__membarrier_ready() || !hearth__section_raise(&arena->section))
        return 0;
    HEARTH__PERTURB("section.visit");
#ifdef HEARTH_BROKEN_VISIT_NO_MEMBARRIER
    bool apart = true;
#else
    bool apart = hearth__membarrier();
#endif
    return hearth__exec_visit_serve(arena, apart, visit);
}
