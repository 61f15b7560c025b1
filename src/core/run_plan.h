/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run plans: what a run asked for, and how a run that repeats is laid out in one slab. docs/stores.md has
 * the whole story; run_plan.c the essay of the guard.
 *
 * No threads: everything here belongs to whoever holds the book (book.h) that it is part of.
 */
#ifndef HEARTH_CORE_RUN_PLAN_H
#define HEARTH_CORE_RUN_PLAN_H

#include "core/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs with fewer requests are not worth a plan; with more they are not recorded to the end. */
#define HEARTH__RUN_LEAST 16u
#define HEARTH__RUN_MOST ((uint32_t)1 << 16)

/* Never returned, as far as the recording goes. */
#define HEARTH__RUN_NO_END UINT32_MAX

/* A request of a run. Time is counted in requests: what is returned before the next request has the next one's
 * number as its end. */
struct hearth__run_request {
    size_t size;  /* as asked for */
    size_t most;  /* largest size until it was returned */
    uint32_t end; /* requests that had been made when it was returned; or HEARTH__RUN_NO_END */
    bool taken;   /* its storage went to another arena */
    bool remote;  /* another thread returned it, which may come later the next time */
};

/* A run. */
struct hearth__run_record {
    uint64_t key; /* of run_begin(); 0: none */
    uint32_t count;
    bool overflow; /* there were more */
    struct hearth__run_request requests[];
};

size_t hearth__run_record_bytes(uint32_t count);

/* Whether two runs asked for the same sizes in the same order, under the same key. */
bool hearth__run_record_equal(const struct hearth__run_record *a,
                              const struct hearth__run_record *b);

/* Let each of `into`'s buffers live as long, and be as large, as in either. They are equal. */
void hearth__run_record_unite(struct hearth__run_record *into,
                              const struct hearth__run_record *from);

/*
 * One request as planned: where it is served, and which earlier ones must be over. 32 bytes, and read in order.
 *
 * `size` is what the request has to ask for to be served without another look. HEARTH__PLAN_OFF: it is not
 * served here at all, or not in this run; the place is then one that is never free.
 */
struct hearth__plan_entry {
    struct hearth_buf *place; /* the slot at its offset of the slab, which others share */
    size_t size;
    hearth__weight weight;
    uint32_t first; /* of its predecessors; they end where the next entry's begin */
    uint32_t over;  /* the last run in which it was returned, or given up */
};

#define HEARTH__PLAN_OFF SIZE_MAX

struct hearth__plan {
    uint64_t key;
    uint32_t count;
    uint32_t edge_count;
    uint32_t off_count;                 /* requests that are planned out */
    uint64_t used;                      /* when it was chosen last; the book's clock */
    bool poor;                          /* of the last run less than nine tenths were served */
    struct hearth__plan *next;          /* what was followed after it, the last time; or NULL */
    bool placed;                        /* the entries' places are set */
    uint32_t blocked;                   /* entries that are off for this run */
    size_t bytes;                       /* of the slab that it takes */
    size_t bound;                       /* most bytes alive at a time */
    size_t *sizes;                      /* as asked for, also of what is off */
    uint32_t *offsets;                  /* in units of 64 bytes; UINT32_MAX: planned out */
    uint32_t *units;                    /* room at the offset; 0: planned out */
    uint32_t *ends;                     /* requests that had been made when it was returned */
    uint32_t *edges;                    /* predecessors */
    struct hearth__plan_entry *entries; /* two more than `count`, which are off */
};

/* A slot that is never free: the place of what has none. */
extern struct hearth_buf hearth__no_place;

/* Two entries that serve nothing. */
extern struct hearth__plan_entry hearth__no_entries[2];

/* Laying a run out. NULL: nothing worth while, or no memory. */
struct hearth__planning;
struct hearth__planning *hearth__planning_begin(const struct hearth__run_record *record);

/* Requests of the run. */
uint32_t hearth__planning_count(const struct hearth__planning *planning);

/* Go on for about `work` units (core/pack.h). True when there is nothing left to do. */
bool hearth__planning_step(struct hearth__planning *planning, uint64_t work);

/* End it. The plan, or NULL. */
struct hearth__plan *hearth__planning_end(struct hearth__planning *planning);

void hearth__plan_free(struct hearth__plan *plan);

/* A run in progress. `cursor` and what follows are set while a plan is followed, else the cursor serves nothing. */
struct hearth__plan_run {
    struct hearth__plan_entry *cursor;
    struct hearth__plan_entry *entries;
    const uint32_t *edges;
    uint32_t number;  /* of the run; 0 while no plan is followed */
    uint32_t kept;    /* requests that are planned out as what they got outlived the recorded run */
    uint32_t strayed; /* requests in a row that were not expected */
    uint32_t aligned; /* where the cursor was set right last */
};

/* The tag of a live buffer that is recorded: {number of the run, ordinal of the request}. */
static inline uint64_t hearth__run_tag(uint32_t number, uint32_t ordinal)
{
    return (uint64_t)number << 32 | ordinal;
}

/* The tag of a live place: the entry that it serves, in the present run; 0: none. */
static inline struct hearth__plan_entry *hearth__place_entry(const struct hearth_buf *place)
{
    return (struct hearth__plan_entry *)(uintptr_t)hearth__load_relaxed(&place->stamp);
}

static inline void hearth__place_serve(struct hearth_buf *place, struct hearth__plan_entry *entry)
{
    hearth__store_relaxed(&place->weight, entry->weight);
    hearth__store_relaxed(&place->stamp, (uint64_t)(uintptr_t)entry);
}

/* The next entry's place, if that is what is asked for, and free for certain. Steps on. */
static inline struct hearth_buf *hearth__plan_step(struct hearth__plan_run *run, size_t size)
{
    struct hearth__plan_entry *entry = run->cursor;
    uint32_t number = run->number;
    if (hearth__unlikely(entry->size != size))
        return NULL;
#ifndef HEARTH_BROKEN_PLAN_NO_GUARD
    const uint32_t *edge = run->edges + entry[0].first;
    const uint32_t *end = run->edges + entry[1].first;
    for (; edge != end; edge++)
        if (hearth__unlikely(run->entries[*edge].over != number))
            return NULL;
#endif
    struct hearth_buf *place = entry->place;
    uint64_t word = hearth__load_relaxed(&place->state);
    if (hearth__unlikely((word & HEARTH__BELOW_GENERATION) != HEARTH__FREE_BITS ||
                         entry->over == number || size == HEARTH__PLAN_OFF))
        return NULL;
    hearth__place_serve(place, entry);
    run->cursor = entry + 1;
    return place;
}

/* How a request was met that is not the plain case. */
enum hearth__plan_answer {
    HEARTH__PLAN_SERVED,
    HEARTH__PLAN_OUT,     /* planned out */
    HEARTH__PLAN_BLOCKED, /* what had the place is not back yet */
    HEARTH__PLAN_CARRIED, /* a buffer of an earlier run has the place */
    HEARTH__PLAN_UNKNOWN, /* not expected here */
};

/* Serve a request out of order, if that is safe, or say why not. The cursor moves on, but where the answer is
 * BLOCKED and the caller says that it will ask `again`, once it did something about it. */
enum hearth__plan_answer hearth__plan_seek(struct hearth__plan *plan, struct hearth__plan_run *run,
                                           size_t size, bool again, struct hearth_buf **place);

/* Before a run: nothing is served where a buffer of an earlier run still lies. */
void hearth__plan_block(struct hearth__plan *plan, size_t offset, size_t bytes);

/* And again everything. */
void hearth__plan_unblock(struct hearth__plan *plan);

#endif
