/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: returns by threads that do not own it, and the owner's taking them in. The protocol is
 * in inbox.c; what is added here is where a claimed slot goes.
 *
 * A slot goes to the arena that it serves, which need not be the one the caller named: a stale return may
 * have claimed it before its segment went over to another arena. As long as no right return rides along,
 * nobody can say where the slot belongs, and nobody needs to: it is settled wherever it ends up, and
 * found stale. Once a right return rides along, the buffer is out until it is settled, so its arena
 * exists and keeps its segment, and looking it up after the settling gives the right answer.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "concurrent/reclaim.h"
#include "concurrent/service.h"
#include "core/misuse.h"
#include "core/perturb.h"

/* The execution arena that a slot serves at present, or NULL. */
static struct hearth_exec *serving(const struct hearth_buf *buf)
{
    struct hearth__segment *segment = hearth__segment_of(buf);
    struct hearth_allocator *arena = hearth__load_acquire(&segment->arena);
    /* A core's kind is its segment's, which never changes. */
    return arena != NULL && hearth__core_segment(arena)->kind == HEARTH__SEGMENT_EXEC
               ? hearth__exec_of(arena)
               : NULL;
}

/* A detached arena's buffer is home: there is no owner to queue for, the returning thread finishes it. */
static bool finish_detached(struct hearth_exec *arena, struct hearth_buf *buf, uint64_t generation)
{
    uint64_t live = hearth__word(generation, HEARTH__LIVE);
    uint64_t unused = hearth__word(
        generation == HEARTH__GENERATION_MAX ? generation : generation + 1, HEARTH__UNUSED);
    HEARTH__PERTURB("exec.outstanding");
    if (!hearth__cas_acq_rel(&buf->state, &live, unused))
        return false;
    /* The buffer was out, so the arena cannot end before it is counted home. */
    hearth__exec_scrub(arena, buf);
    struct hearth_segment segment;
    /* A place's goes back with the slab, at the end of all. */
    bool span = hearth__is_span(buf);
    bool own = !span && (!hearth__is_place(buf) || (buf->flags & HEARTH__BUF_MOVED) != 0);
    if (span)
        hearth__exec_span_discard(arena, buf);
    hearth__buf_detach(buf, &segment);
    if (own)
        hearth__backing_release(arena->backing, &segment);
    hearth__exec_came_home(arena);
    return true;
}

/* Settle a claimed slot that no inbox takes. False: it has to be delivered again. */
static bool settle_here(struct hearth_exec *closed, struct hearth_buf *buf, const char *call,
                        enum hearth_status *status)
{
    struct hearth__settled settled = hearth__inbox_settle(buf);
    for (size_t i = 0; i < settled.overtaken; i++)
        (void)hearth__misuse(HEARTH_STALE, call, NULL, buf);
    bool live = hearth__load_acquire(&buf->state) == hearth__word(settled.generation, HEARTH__LIVE);
    struct hearth_exec *arena = live ? serving(buf) : NULL;
    if (arena != NULL && (arena != closed || !hearth__inbox_closed(&arena->inbox))) {
        /* Overtaken meanwhile: the slot may be linked elsewhere, and this return is stale. */
        if (hearth__inbox_reclaim(buf, settled.generation))
            return false;
        arena = NULL;
    }
    bool home = arena != NULL && finish_detached(arena, buf, settled.generation);
    *status = home ? HEARTH_OK : hearth__misuse(HEARTH_STALE, call, NULL, buf);
    return true;
}

/* Send a claimed slot to the arena that it serves. */
static enum hearth_status deliver(struct hearth_buf *buf, const char *call)
{
    for (;;) {
        enum hearth_status status;
        struct hearth_exec *arena = serving(buf);
        if (arena == NULL || !hearth__inbox_push(&arena->inbox, buf)) {
            if (settle_here(arena, buf, call, &status))
                return status;
            continue;
        }
        /* The buffer is home, so the arena may be gone by now, and its core another arena's: that one
         * would look into an empty inbox once. The bit is only written when it is not seen set, which
         * keeps its line shared between two drains; on a weakly ordered machine the owner may have
         * lowered it just now and not see this push. An owner that does not see the bit hits without
         * draining until the next push; on a miss it drains in any case. */
        if ((hearth__load_relaxed(&arena->section.attention) & HEARTH__ATTENTION_INBOX) == 0)
            (void)hearth__fetch_or_release(&arena->section.attention, HEARTH__ATTENTION_INBOX);
        return HEARTH_OK;
    }
}

static enum hearth_status claim_and_deliver(struct hearth_exec *arena, struct hearth_buf *buf,
                                            uint64_t generation, const char *call)
{
    switch (hearth__inbox_claim(buf, generation)) {
    case HEARTH__CLAIM_TWIN:
        return hearth__exec_misuse(arena, HEARTH_STALE, call, buf);
    case HEARTH__CLAIM_RIDES:
        return HEARTH_OK;
    default:
        return deliver(buf, call);
    }
}

/* The arena's service if it counts what is live, with a hold on it: it may end as soon as the buffer is home. It
 * cannot within a section that saw it open. The caller has a right to a live buffer, so the arena is there. */
static struct hearth_service *hold_for_room(struct hearth_exec *arena)
{
    if (hearth__likely(arena->service == NULL))
        return NULL;
    struct hearth_service *service = NULL;
    hearth__reclaim_enter();
    /* In this order: a wrong return may come when the core is another service's by now. */
    if (!hearth__exec_closed(arena))
        service = arena->service;
    if (service != NULL && service->budget.metered)
        (void)hearth__fetch_add_relaxed(&service->holds, 1);
    else
        service = NULL;
    hearth__reclaim_leave();
    return service;
}

enum hearth_status hearth__exec_free_remote(struct hearth_exec *arena, struct hearth_buf *buf,
                                            uint64_t generation, const char *call)
{
    uint64_t word = hearth__load_acquire(&buf->state);
    uint64_t present = hearth__word_generation(word);
    if (hearth__word_state(word) != HEARTH__LIVE)
        return hearth__exec_misuse(arena, hearth__buf_not_live(word), call, buf);
    if (generation != 0 && generation != present)
        return hearth__exec_misuse(arena, HEARTH_STALE, call, buf);
    struct hearth_service *service = hold_for_room(arena);
    size_t capacity = hearth__buf_capacity(buf);
    enum hearth_status status = claim_and_deliver(arena, buf, present, call);
    if (service != NULL) {
        /* What is pending is not live any more: its room is for others, whenever the owner takes it in. */
        if (status == HEARTH_OK)
            hearth__budget_room_give(&service->budget, capacity);
        hearth__service_let_go(service);
    }
    return status;
}

/* A wrong return had given it back. */
static void take_room(struct hearth_exec *arena, size_t capacity)
{
    if (arena->budget != NULL && arena->budget->metered)
        (void)hearth__fetch_sub_acq_rel(&arena->budget->room, hearth__room_units(capacity)
                                                                  << HEARTH__ROOM_SHIFT);
}

/* One slot of the backlog. False when it did not come home: stale, or astray. */
static bool take_in(struct hearth_exec *arena, struct hearth_buf *buf, bool shared,
                    struct hearth__exec_after *after)
{
    if (hearth__unlikely(!hearth__slot_in(buf, &arena->allocator))) {
        /* Still claimed, so its link is ours to write. */
        buf->inbox_next = after->strays;
        after->strays = buf;
        return false;
    }
    struct hearth__settled settled = hearth__inbox_settle(buf);
    after->stale += settled.overtaken;
    if (hearth__unlikely(settled.overtaken != 0))
        take_room(arena, settled.overtaken * hearth__buf_capacity(buf));
#ifndef HEARTH_BROKEN_DRAIN_TRUSTS
    if (hearth__load_acquire(&buf->state) != hearth__word(settled.generation, HEARTH__LIVE)) {
        after->stale += 1;
        take_room(arena, hearth__buf_capacity(buf));
        return false;
    }
#endif
    if (hearth__unlikely(arena->with_plans && !hearth__slot_in(buf, &arena->allocator))) {
        /* Its book went to another arena while a wrong return of it waited here, and a right one rides along. From now
         * on it stays where it is: the buffer is out. */
        if (hearth__inbox_reclaim(buf, settled.generation)) {
            buf->inbox_next = after->strays;
            after->strays = buf;
        } else {
            after->stale += 1;
        }
        return false;
    }
    hearth__cell_add(&arena->cells.remote_frees, 1);
    hearth__exec_scrub(arena, buf);
    if (arena->with_plans)
        hearth__exec_run_return(arena, buf, true);
    if (hearth__exec_take_back(arena, buf, shared))
        hearth__exec_keep(arena, buf, after);
    else
        hearth__exec_retire(arena, buf, after);
    return true;
}

static bool drain(struct hearth_exec *arena, size_t most, bool shared,
                  struct hearth__exec_after *after)
{
    bool any = false;
    struct hearth_buf *buf = hearth__load_relaxed(&arena->backlog);
    /* Lowered before the inbox is looked at: what comes later raises it again, and so does leaving
     * the section with something left. */
    if ((hearth__load_relaxed(&arena->section.attention) & HEARTH__ATTENTION_INBOX) != 0)
        (void)hearth__fetch_and_acquire(&arena->section.attention, ~HEARTH__ATTENTION_INBOX);
    for (; most > 0; most--) {
        if (buf == NULL) {
            if (!hearth__inbox_waiting(&arena->inbox))
                break;
            buf = hearth__inbox_take(&arena->inbox);
            hearth__store_release(&arena->backlog, buf);
        }
        /* Read before the slot is settled: from then on it may be pushed again. */
        struct hearth_buf *next = buf->inbox_next;
        /* The backlog's totals are those of its first slot: off the pending figure before it shows in
         * another, so that a reader may miss it for a moment but never counts it twice. */
        hearth__store_release(&arena->backlog, next);
        any |= take_in(arena, buf, shared, after);
        buf = next;
    }
    return any;
}

bool hearth__exec_drain(struct hearth_exec *arena, size_t most, struct hearth__exec_after *after)
{
    return !arena->visited && drain(arena, most, false, after);
}

bool hearth__exec_drain_visiting(struct hearth_exec *arena, size_t most,
                                 struct hearth__exec_after *after)
{
    return drain(arena, most, true, after);
}

void hearth__exec_tell_stale(const struct hearth_allocator *arena)
{
    (void)hearth__misuse_detail(HEARTH_STALE, "hearth_exec_free", arena, NULL,
                                "a return by another thread was for a buffer that its owner had "
                                "already freed; look for two threads returning one buffer");
}

void hearth__exec_report(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    (void)hearth__fetch_add_relaxed(&arena->misuses, after->stale);
    if (after->untold != NULL) {
        *after->untold += after->stale;
        after->stale = 0;
    }
    for (; after->stale > 0; after->stale--)
        hearth__exec_tell_stale(&arena->allocator);
    while (after->strays != NULL) {
        struct hearth_buf *buf = after->strays;
        after->strays = buf->inbox_next;
        (void)deliver(buf, "hearth_exec_free");
    }
}
