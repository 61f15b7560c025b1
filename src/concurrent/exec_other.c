/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: the plain path of arenas with plans. As in exec.c, but what is asked for is compared with the plan
 * first, and lists serve when the run has none. Their gates carry HEARTH__GATE_OTHER, so that the path of the
 * lists, tried first, is left at its first compare.
 */
#include "concurrent/exec_plan.h"

/* A run is over; the end of an operation by the general path sees to it. */
static __attribute__((noinline)) enum hearth_status end_run(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (hearth__exec_begin(arena, "hearth_exec_free") == HEARTH_OK)
        hearth__exec_end(arena, &after);
    return HEARTH_OK;
}

HEARTH__HOT enum hearth_status hearth__exec_alloc_other(struct hearth_exec *arena, size_t size,
                                                        struct hearth_buf **out)
{
    uint64_t gate = hearth__thread_token_peek() | HEARTH__GATE_OTHER;
    if (hearth__likely(hearth__section_enter_plain(&arena->section, gate))) {
        /* With its guard, or in one variant HEARTH_BROKEN_PLAN_NO_GUARD. */
        struct hearth_buf *buf = hearth__plan_step(&arena->run.step, size);
        if (buf == NULL && arena->run.mode == HEARTH__RUN_LISTS) {
            struct hearth__bin *bin = &arena->bins.normal.bins[hearth__class_index(size)];
            if (bin->newest != NULL) {
                buf = hearth__bin_pop(bin);
                arena->stored -= (int64_t)hearth__load_relaxed(&buf->weight);
            }
        }
        if (hearth__likely(buf != NULL)) {
            uint64_t word = hearth__load_relaxed(&buf->state);
            hearth__store_relaxed(&buf->state, word - HEARTH__FREE_BITS + HEARTH__LIVE_BITS);
            hearth__store_relaxed(&buf->size, size);
            hearth__exec_count_out_buf(&arena->cells, buf, size);
            hearth__section_leave(&arena->section, gate);
            *out = buf;
            return HEARTH_OK;
        }
        hearth__exec_leave(arena);
    }
    return hearth__exec_alloc_general(arena, size, HEARTH__ALIGNMENT_LOG_MIN, HEARTH_ZERO_NONE,
                                      "hearth_exec_alloc", out);
}

/* The plain path does not cover it. */
static __attribute__((noinline)) enum hearth_status leave_and_free(struct hearth_exec *arena,
                                                                   struct hearth_buf *buf,
                                                                   uint64_t generation,
                                                                   const char *call)
{
    hearth__exec_leave(arena);
    return hearth__exec_free_general(arena, buf, generation, call);
}

/* As hearth__slot_in(); most of what is returned lies in the book's last segment. Inside: the book may go. */
static inline bool is_slot(const struct hearth_exec *arena, const struct hearth_buf *buf)
{
    uintptr_t offset = (uintptr_t)buf - arena->run.slots_at - HEARTH__HEADER_BYTES;
    uintptr_t number = offset >> HEARTH__SLOT_SHIFT | offset << (64 - HEARTH__SLOT_SHIFT);
    return hearth__likely(number < arena->run.slot_count) ||
           hearth__slot_in(buf, &arena->allocator);
}

/* For a place that was seen live: whether it is one of the present book. Its slots may have been another arena's
 * when they were looked up; what is live stays. */
static inline bool is_own(const struct hearth_exec *arena, const struct hearth_buf *buf)
{
    uintptr_t offset = (uintptr_t)buf - arena->run.slots_at;
    return hearth__likely(offset < HEARTH__GRANULE_BYTES && arena->run.slot_count != 0) ||
           hearth__slot_in(buf, &arena->allocator);
}

/* Inside: a return of a buffer that is live, to where it belongs, if that is plain. */
static inline bool put_back(struct hearth_exec *arena, struct hearth_buf *buf)
{
    struct hearth__exec_run *run = &arena->run;
    if (hearth__likely(hearth__is_place(buf))) {
        struct hearth__plan_entry *entry = hearth__place_entry(buf);
        if (hearth__unlikely(run->step.number == 0 || entry == NULL || !is_own(arena, buf)))
            return false;
        entry->over = run->step.number;
        return true;
    }
    if (run->mode == HEARTH__RUN_RECORD || buf->alignment_log != arena->plain_alignment_log)
        return false;
    hearth__bin_push(&arena->bins.normal, buf);
    hearth__store_relaxed(&buf->stamp, hearth__load_relaxed(&arena->cells.gives));
    arena->stored += (int64_t)hearth__load_relaxed(&buf->weight);
    return true;
}

HEARTH__HOT enum hearth_status hearth__exec_free_other(struct hearth_exec *arena,
                                                       struct hearth_buf *buf, uint64_t generation,
                                                       const char *call)
{
    uint64_t gate = hearth__thread_token_peek() | HEARTH__GATE_OTHER;
    if (hearth__unlikely(!hearth__section_enter_plain(&arena->section, gate)))
        return hearth__exec_free_general(arena, buf, generation, call);
    if (hearth__unlikely(!is_slot(arena, buf)))
        return leave_and_free(arena, buf, generation, call);
    uint64_t word = hearth__load_relaxed(&buf->state);
    uint64_t next;
    if (hearth__unlikely(
            (word & HEARTH__BELOW_GENERATION) != HEARTH__LIVE_BITS ||
            (generation != 0 && hearth__word_generation(word) != generation) ||
            __builtin_add_overflow(
                word, HEARTH__GENERATION_ONE + (HEARTH__FREE_BITS - HEARTH__LIVE_BITS), &next) ||
            !put_back(arena, buf)))
        return leave_and_free(arena, buf, generation, call);
    struct hearth__exec_cells *cells = &arena->cells;
    hearth__store_relaxed(&buf->state, next);
    /* EDGE exec.cells, publish: the "out" that came before these "in". */
    hearth__cell_add(&cells->gives, 1);
    uint64_t in_weight =
        hearth__load_relaxed(&cells->in_weight) + hearth__load_relaxed(&buf->weight);
    hearth__store_release(&cells->in_weight, in_weight);
    hearth__exec_count_in(cells, hearth__load_relaxed(&buf->size));
    /* Looked at inside: once the last buffer is home, a visitor may end the run, or the service. */
    bool over = hearth__unlikely(in_weight == hearth__load_relaxed(&cells->out_weight)) &&
                hearth__exec_run_is_over(arena);
    hearth__section_leave(&arena->section, gate);
    return hearth__unlikely(over) ? end_run(arena) : HEARTH_OK;
}
