/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: runs, and the plans that serve them. The arena's side of core/book.h; the essay is in
 * exec_plan.c.
 */
#ifndef HEARTH_CONCURRENT_EXEC_PLAN_H
#define HEARTH_CONCURRENT_EXEC_PLAN_H

#include "concurrent/exec.h"

/* Debugging that works with places. */
#define HEARTH__DEBUG_PLANNED (HEARTH__DEBUG_SHADOW | HEARTH__DEBUG_SCRUB)

/* No run, and nothing to follow. */
void hearth__exec_run_init(struct hearth__exec_run *run);

/* The owner's paths for arenas with another store than the lists alone: as plain as those of the lists. */
enum hearth_status hearth__exec_alloc_other(struct hearth_exec *arena, size_t size,
                                            struct hearth_buf **out);
enum hearth_status hearth__exec_free_other(struct hearth_exec *arena, struct hearth_buf *buf,
                                           uint64_t generation, const char *call);

/* Inside, left meanwhile when a run begins: a place for the request, or NULL: the lists serve it. */
struct hearth_buf *hearth__exec_run_take(struct hearth_exec *arena, const struct hearth__want *want,
                                         struct hearth__exec_after *after);

/* Inside: the request was served by this. */
void hearth__exec_run_note(struct hearth_exec *arena, struct hearth_buf *buf, size_t size);

/* Inside: the arena holds so much more, or less, by way of its book. */
void hearth__exec_hold_book(struct hearth_exec *arena, hearth__weight before, hearth__weight after,
                            bool shared);

/* Inside: live slots of places, as hearth__book_live(). O(1) when nothing is live. */
size_t hearth__exec_live_places(const struct hearth_exec *arena, hearth__weight *in_place);

/* Inside: the book, of which nothing is live, to the service. */
void hearth__exec_return_book(struct hearth_exec *arena);

/* Inside or visiting: a slab was obtained or given back. */
void hearth__exec_count_calls(struct hearth_exec *arena, bool acquired, bool shared);

/* Inside, left meanwhile: a slab for all plans of the book, and places in it; what the lists hold goes. `touch`: with
 * pages. False: as before. */
bool hearth__exec_slab(struct hearth_exec *arena, bool touch, struct hearth__exec_after *after);

/* Inside: the figures of a run, which is over. */
void hearth__exec_run_conclude(struct hearth_exec *arena);

/* A place's slot, whose other storage is gone, is a place again. Returns the slot that waited, without storage. */
struct hearth_buf *hearth__exec_place_restore(struct hearth_buf *place);

/* Inside or visiting: a live slot comes back; before anything of it changes. */
void hearth__exec_run_return(struct hearth_exec *arena, const struct hearth_buf *buf, bool remote);

/* Inside or visiting: a slot that is a place came back, and is not live. Storage that it had instead is kept. */
void hearth__exec_place_home(struct hearth_exec *arena, struct hearth_buf *place,
                             struct hearth__exec_after *after);

/* Inside: the live slot's size changes; its storage is taken away. */
void hearth__exec_run_resized(struct hearth_exec *arena, const struct hearth_buf *buf, size_t size);
void hearth__exec_run_taken(struct hearth_exec *arena, const struct hearth_buf *buf);

/* Inside: the place's slot gets the storage of another slot, which waits empty until it comes back. */
void hearth__exec_place_move(struct hearth_exec *arena, struct hearth_buf *place,
                             struct hearth_buf *from);

/* Inside: whether nothing of the run is live any more, and there is something to do about it. */
bool hearth__exec_run_is_over(const struct hearth_exec *arena);

/* Outside, in an operation: end the run. */
void hearth__exec_run_end(struct hearth_exec *arena);

/* Visiting: as far as it goes without calling anybody. */
void hearth__exec_run_abandon(struct hearth_exec *arena, const struct hearth__visit *visit);

/* Inside or visiting: credit for a slab, and back. */
bool hearth__exec_charge_book(struct hearth_exec *arena, struct hearth__book *book, size_t bytes);
void hearth__exec_refund_book(struct hearth_exec *arena, struct hearth__book *book);

/* Inside, left meanwhile: give an idle slab back. Returns bytes. */
size_t hearth__exec_run_trim(struct hearth_exec *arena);

/* Nobody else is there: the book with all that it has. */
void hearth__exec_run_finish(struct hearth_exec *arena);

/* What the retention cap bounds: a slab as a whole, whatever of it is live. Inside. */
static inline size_t hearth__exec_kept(const struct hearth_exec *arena)
{
    if (!arena->with_plans)
        return hearth__exec_warm(arena);
    size_t slab = arena->run.book == NULL ? 0 : arena->run.book->slab.length;
    return hearth__weight_capacity((hearth__weight)arena->stored) + slab;
}

#endif
