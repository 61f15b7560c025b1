/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: the owner's path.
 *
 * Problem. A large fresh allocation costs a page fault per 4 KiB when first written, and a runtime that
 * frees and allocates the same shapes each run pays it each run. Buffers that die inside a run can keep
 * their pages if whoever takes them back also hands them out again, which one thread can do for
 * itself without any synchronization.
 *
 * Picture. An arena is owned by one thread, named by a token. A slot is a descriptor; its storage stays
 * attached while it is free.
 *
 *       unused --(storage from the backing)--> live --(return)--> free, in the store
 *         ^                                     ^                       |
 *         |                                     +------(hit)------------+
 *         +----------------(evict, trim: storage to the backing)--------+
 *
 *       other threads:  claim the slot's second word, push to the inbox; the owner drains (inbox.c)
 *
 * States. {generation, state} in the slot's word, written by the owner alone while the arena has one.
 * The generation moves at each return, so a right to the old one is seen to be stale.
 *
 * Reuse. The smallest sufficient class first, newest first within it, never beyond reuse_ratio times the
 * rounded request; when slots ran out, the smallest sufficient of any size, else the largest, grown.
 *
 * Misuse. An argument is looked up by its address (meta.c) before it is read; then the state word
 * tells. All of it on every call, in every build.
 *
 * Accounting. Cells only grow and have one writer. live = out - in - pending; retained is what is held
 * and not live, so live + retained + pending = footprint by construction, and hearth__exec_check()
 * compares it with a walk over the store.
 *
 * Progress. A hit and a return below the cap are wait-free: no loop but the drain of at most HEARTH__EXEC_DRAIN_STEP
 * queued returns. A miss is as good as the backing.
 *
 * Ordering. Within one thread none is needed. When the arena changes hands, release_owner publishes and the
 * claim observes: EDGE exec.owner. Statistics: EDGE exec.cells.
 *
 * Cost. A pair of alloc and free of the same size touches the slot, the list head and six cells; about
 * 95 instructions, independent of the size.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "core/conf.h"
#include "core/misuse.h"

#include <string.h>

/* Keeps the plain path free of stack frames that only its exceptions need. */
#define OUT_OF_LINE __attribute__((noinline))

enum hearth_status hearth__exec_misuse(struct hearth_exec *arena, enum hearth_status status,
                                       const char *call, const void *slot)
{
    if (arena != NULL)
        (void)hearth__fetch_add_relaxed(&arena->misuses, 1);
    return hearth__misuse(status, call, arena == NULL ? NULL : &arena->allocator, slot);
}

enum hearth_status hearth__exec_busy(struct hearth_exec *arena)
{
    (void)hearth__fetch_add_relaxed(&arena->misuses, 1);
    return hearth__misuse_untold(HEARTH_BUSY);
}

/* Whether the calling thread owns the arena, now that it asked. */
static bool owned_by(struct hearth_exec *arena, uint64_t token)
{
    uint64_t owner = hearth__load_relaxed(&arena->owner);
    if (owner == token)
        return true;
    if (owner != HEARTH__OWNER_NONE)
        return false;
#ifdef HEARTH_BROKEN_CLAIM_RELAXED
    bool claimed = hearth__cas_weak_relaxed(&arena->owner, &owner, token);
#else
    /* EDGE exec.owner, observe: everything that the former owner did. */
    bool claimed = hearth__cas_acquire(&arena->owner, &owner, token);
#endif
    if (claimed)
        hearth__store_relaxed(&arena->section.gate, hearth__exec_gate(arena, token));
    /* A signal handler may have claimed it for this thread meanwhile. */
    return claimed || owner == token;
}

/* Of a service that has no users any more: somebody ends it, or did. */
static bool is_gone(const struct hearth_exec *arena)
{
    return (hearth__load_acquire(&arena->section.attention) & HEARTH__ATTENTION_GONE) != 0;
}

enum hearth_status hearth__exec_begin(struct hearth_exec *arena, const char *call)
{
    if (arena == NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, NULL);
    uint64_t token = hearth__thread_token();
    if (!owned_by(arena, token))
        return is_gone(arena) ? HEARTH_CLOSED
                              : hearth__exec_misuse(arena, HEARTH_NOT_OWNER, call, NULL);
    if (!hearth__section_open(&arena->section, hearth__exec_gate(arena, token)))
        return is_gone(arena) ? HEARTH_CLOSED : hearth__exec_busy(arena);
    hearth__section_resume(&arena->section);
    /* EDGE section.visit, observe: what visitors did who have left. */
    uint32_t attention = hearth__load_acquire(&arena->section.attention);
    if ((attention & HEARTH__ATTENTION_GONE) != 0) {
        /* Somebody ends the arena, or will: hands off. */
        hearth__section_leave(&arena->section, hearth__exec_gate(arena, token));
        return HEARTH_CLOSED;
    }
    arena->visited = (attention & HEARTH__ATTENTION_VISITED) != 0;
    hearth__store_relaxed(&arena->running, hearth__load_relaxed(&arena->running) + 1);
    if (!arena->visited) {
        hearth__exec_merge(arena);
        if (hearth__unlikely(arena->front != NULL))
            hearth__exec_front_settle(arena, false);
        if (hearth__unlikely((attention & HEARTH__ATTENTION_METERED) != 0 && !arena->metering))
            hearth__exec_meter(arena, hearth__load_relaxed(&arena->running) != 1);
    }
    return HEARTH_OK;
}

void hearth__exec_end(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    struct hearth__overwritten overwritten = {0};
    int64_t wanted = 0;
    bool over = false;
    if (!arena->visited) {
        arena->made_seen = arena->slots.made;
        if (arena->service != NULL)
            hearth__exec_serve(arena, after);
        if (hearth__unlikely(arena->spans != NULL))
            hearth__exec_spans_keep_cap(arena, after);
        wanted = arena->room_wanted;
        arena->room_wanted = 0;
        if (hearth__unlikely(arena->overwritten.buf != NULL))
            overwritten = hearth__exec_overwritten(arena);
        over = arena->with_plans && hearth__exec_run_is_over(arena);
    }
    hearth__exec_leave(arena);
    bool released = after->chain != NULL;
    hearth__exec_release_chain(arena, after);
    if (hearth__unlikely(over))
        hearth__exec_run_end(arena);
    arena->run.requesting = false;
    /* EDGE section.leave, publish: for a visitor, who comes when both gate and count say so. */
    hearth__store_release(&arena->running, hearth__load_relaxed(&arena->running) - 1);
    /* Only now: whoever waits for it looks into this arena, too. */
    if (after->room != 0 || released)
        hearth__exec_room_give(arena, after->room);
    if (arena->service != NULL)
        hearth__exec_after(arena, wanted);
    hearth__exec_report(arena, after);
    if (hearth__unlikely(overwritten.buf != NULL))
        hearth__exec_tell_overwritten(arena, &overwritten);
}

void hearth__exec_hand_out(struct hearth_exec *arena, struct hearth_buf *buf, size_t size)
{
    uint64_t word = hearth__load_relaxed(&buf->state);
    /* Relaxed: whoever else gets the buffer gets it from the caller, with the caller's ordering. */
    hearth__store_relaxed(&buf->state, (word & ~HEARTH__BELOW_GENERATION) | HEARTH__LIVE_BITS);
    hearth__store_relaxed(&buf->size, size);
    if (!arena->visited) {
        hearth__exec_count_out_buf(&arena->cells, buf, size);
        return;
    }
    hearth__cell_add(&arena->cells.out_weight, hearth__load_relaxed(&buf->weight));
    hearth__exec_count_out_shared(&arena->cells, size);
}

bool hearth__exec_take_back(struct hearth_exec *arena, struct hearth_buf *buf, bool shared)
{
    struct hearth__exec_cells *cells = &arena->cells;
    uint64_t word = hearth__load_relaxed(&buf->state);
    bool more = hearth__word_generation(word) != HEARTH__GENERATION_MAX;
    uint64_t next = more ? word + HEARTH__GENERATION_ONE : word;
    hearth__store_relaxed(&buf->state, (next & ~HEARTH__BELOW_GENERATION) | HEARTH__FREE_BITS);
    hearth__store_relaxed(&buf->stamp, hearth__load_relaxed(&cells->gives));
    /* EDGE exec.cells, publish: the "out" that came before these "in". */
    hearth__exec_cell_add(&cells->gives, 1, shared);
    if (shared)
        hearth__exec_count_in_shared(cells, hearth__load_relaxed(&buf->size));
    else
        hearth__exec_count_in(cells, hearth__load_relaxed(&buf->size));
    hearth__exec_cell_add(&cells->in_weight, hearth__load_relaxed(&buf->weight), shared);
    return more;
}

/* A return by the owner that is not the plain case: over the cap, an alignment of its own, debugging, a
 * slot to be retired, or returns by others waiting. After begin, which it ends. */
static OUT_OF_LINE enum hearth_status give_slow(struct hearth_exec *arena, struct hearth_buf *buf,
                                                uint64_t word, const char *call)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (hearth__unlikely(arena->visited)) {
        /* Comes home like a return from afar. */
        hearth__exec_end(arena, &after);
        return hearth__exec_free_remote(arena, buf, hearth__word_generation(word), call);
    }
    /* Looked at again: a signal handler may have taken in another thread's return of it. */
    bool twin = hearth__load_relaxed(&buf->state) != word || hearth__exec_is_queued(buf) ||
                (arena->with_plans && !hearth__slot_in(buf, &arena->allocator));
    if (!twin) {
        size_t capacity = hearth__buf_capacity(buf);
        if (arena->with_plans)
            hearth__exec_run_return(arena, buf, false);
        hearth__exec_scrub(arena, buf);
        if (hearth__exec_take_back(arena, buf, false))
            hearth__exec_keep(arena, buf, &after);
        else
            hearth__exec_retire(arena, buf, &after);
        after.room += capacity;
    }
    (void)hearth__exec_drain(arena, HEARTH__EXEC_DRAIN_STEP, &after);
    hearth__exec_end(arena, &after);
    return twin ? hearth__exec_misuse(arena, HEARTH_STALE, call, buf) : HEARTH_OK;
}

/* Why a return is refused. */
static enum hearth_status refuse(struct hearth_exec *arena, struct hearth_buf *buf, uint64_t word,
                                 const char *call)
{
    bool live = hearth__word_state(word) == HEARTH__LIVE;
    return hearth__exec_misuse(arena, live ? HEARTH_STALE : hearth__buf_not_live(word), call, buf);
}

enum hearth_status hearth__exec_free_general(struct hearth_exec *arena, struct hearth_buf *buf,
                                             uint64_t generation, const char *call)
{
    if (arena == NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, buf);
    if (!hearth__slot_in(buf, &arena->allocator))
        return hearth__exec_misuse(arena, HEARTH_FOREIGN, call, buf);
    if (arena->with_spans && hearth__exec_spans_free(arena, buf, generation))
        return HEARTH_OK;
    uint64_t token = hearth__thread_token();
    if (hearth__load_relaxed(&arena->owner) != token ||
        !hearth__section_open(&arena->section, hearth__exec_gate(arena, token)))
        return hearth__exec_free_remote(arena, buf, generation, call);
    uint64_t word = hearth__load_relaxed(&buf->state);
    if ((word & HEARTH__BELOW_GENERATION) != HEARTH__LIVE_BITS ||
        (generation != 0 && hearth__word_generation(word) != generation))
        return refuse(arena, buf, word, call);
    enum hearth_status status = hearth__exec_begin(arena, call);
    if (status == HEARTH_CLOSED)
        return hearth__exec_free_remote(arena, buf, generation, call);
    return status == HEARTH_OK ? give_slow(arena, buf, word, call) : status;
}

/* The plain path does not cover it: leave the section and take the general one. */
static OUT_OF_LINE enum hearth_status free_again(struct hearth_exec *arena, struct hearth_buf *buf,
                                                 uint64_t generation, const char *call)
{
    hearth__exec_leave(arena);
    return hearth__exec_free_general(arena, buf, generation, call);
}

/* Not by the lists' path. */
static OUT_OF_LINE enum hearth_status free_elsewhere(struct hearth_exec *arena,
                                                     struct hearth_buf *buf, uint64_t generation,
                                                     const char *call)
{
    return arena != NULL && arena->with_plans
               ? hearth__exec_free_other(arena, buf, generation, call)
               : hearth__exec_free_general(arena, buf, generation, call);
}

/* `generation` 0: whatever it is now. */
static inline __attribute__((always_inline)) enum hearth_status
free_buf(struct hearth_exec *arena, struct hearth_buf *buf, uint64_t generation, const char *call)
{
    uint64_t token = hearth__thread_token_peek();
    if (hearth__unlikely(arena == NULL || !hearth__section_enter_plain(&arena->section, token)))
        return free_elsewhere(arena, buf, generation, call);
    if (hearth__unlikely(!hearth__slot_in(buf, &arena->allocator)))
        return free_again(arena, buf, generation, call);
    uint64_t word = hearth__load_relaxed(&buf->state);
    uint64_t next;
    if (hearth__unlikely(
            (word & HEARTH__BELOW_GENERATION) != HEARTH__LIVE_BITS ||
            (generation != 0 && hearth__word_generation(word) != generation) ||
            buf->alignment_log != arena->plain_alignment_log ||
            __builtin_add_overflow(
                word, HEARTH__GENERATION_ONE + (HEARTH__FREE_BITS - HEARTH__LIVE_BITS), &next)))
        return free_again(arena, buf, generation, call);
    struct hearth__exec_cells *cells = &arena->cells;
    hearth__store_relaxed(&buf->state, next);
    hearth__bin_push(&arena->bins.normal, buf);
    uint64_t gives = hearth__load_relaxed(&cells->gives);
    hearth__store_relaxed(&buf->stamp, gives);
    /* EDGE exec.cells, publish: the "out" that came before these "in". */
    hearth__store_release(&cells->gives, gives + 1);
    hearth__cell_add(&cells->in_weight, hearth__load_relaxed(&buf->weight));
    hearth__exec_count_in(cells, hearth__load_relaxed(&buf->size));
    hearth__section_leave(&arena->section, token);
    return HEARTH_OK;
}

HEARTH__HOT enum hearth_status hearth_exec_free(struct hearth_exec *arena, struct hearth_buf *buf)
{
    return free_buf(arena, buf, 0, "hearth_exec_free");
}

static OUT_OF_LINE enum hearth_status alloc_slow(struct hearth_exec *arena, size_t size,
                                                 struct hearth_buf **out)
{
    if (arena != NULL && out != NULL) {
        if (arena->with_plans)
            return hearth__exec_alloc_other(arena, size, out);
        if (arena->with_spans && hearth__exec_spans_alloc(arena, size, out))
            return HEARTH_OK;
    }
    return hearth__exec_alloc_general(arena, size, HEARTH__ALIGNMENT_LOG_MIN, HEARTH_ZERO_NONE,
                                      "hearth_exec_alloc", out);
}

HEARTH__HOT enum hearth_status hearth_exec_alloc(struct hearth_exec *arena, size_t size,
                                                 struct hearth_buf **out)
{
    uint64_t token = hearth__thread_token_peek();
    if (hearth__likely(arena != NULL && out != NULL &&
                       hearth__section_enter_plain(&arena->section, token))) {
        struct hearth__bin *bin = &arena->bins.normal.bins[hearth__class_index(size)];
        if (hearth__likely(bin->newest != NULL)) {
            struct hearth_buf *buf = hearth__bin_pop(bin);
            uint64_t word = hearth__load_relaxed(&buf->state);
            hearth__store_relaxed(&buf->state, word - HEARTH__FREE_BITS + HEARTH__LIVE_BITS);
            hearth__store_relaxed(&buf->size, size);
            hearth__exec_count_out_buf(&arena->cells, buf, size);
            hearth__section_leave(&arena->section, token);
            *out = buf;
            return HEARTH_OK;
        }
        hearth__exec_leave(arena);
    }
    return alloc_slow(arena, size, out);
}

static enum hearth_status ops_alloc(struct hearth_allocator *self,
                                    const struct hearth_request *request, struct hearth_buf **buf)
{
    /* What hearth_alloc() asks for: nothing but a size. */
    if (hearth__likely(request != NULL && request->alignment == 0 && request->zero == 0 &&
                       request->priority == HEARTH_PRIORITY_NORMAL &&
                       (request->reserved[0] | request->reserved[1] | request->reserved[2] |
                        request->reserved[3]) == 0))
        return hearth_exec_alloc(hearth__exec_of(self), request->size, buf);
    return hearth__exec_alloc_request(hearth__exec_of(self), request, "hearth_alloc", buf);
}

/* Out of line: less plain than hearth_exec_free() by a call. */
static OUT_OF_LINE enum hearth_status free_exact(struct hearth_exec *arena, struct hearth_buf *buf,
                                                 uint64_t generation, const char *call)
{
    return free_buf(arena, buf, generation, call);
}

static enum hearth_status ops_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    return free_exact(hearth__exec_of(self), buf, 0, "hearth_free");
}

static enum hearth_status ops_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                         uint64_t generation)
{
    return free_exact(hearth__exec_of(self), buf, generation, "hearth_handle_reset");
}

static size_t ops_live_bytes(const struct hearth_allocator *self)
{
    return hearth_exec_live_bytes((const struct hearth_exec *)(const void *)self);
}

static size_t ops_peak_bytes(const struct hearth_allocator *self)
{
    return hearth_exec_peak_bytes((const struct hearth_exec *)(const void *)self);
}

static enum hearth_status ops_reset_peak(struct hearth_allocator *self)
{
    return hearth_exec_reset_peak(hearth__exec_of(self));
}

const struct hearth_allocator_ops hearth__exec_ops = {
    .size = sizeof hearth__exec_ops,
    .kind = "exec",
    .alloc = ops_alloc,
    .free = ops_free,
    .free_exact = ops_free_exact,
    .resize = hearth__exec_resize,
    .live_bytes = ops_live_bytes,
    .peak_bytes = ops_peak_bytes,
    .reset_peak = ops_reset_peak,
};
