/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A book: what is known of the runs of one arena after the other, the slab that they are laid out in, and the slots
 * of its places. Whoever runs has one for the time of the run; where arenas share books, each run finds plans
 * and warm pages, whatever thread it is on.
 *
 * No threads: a book belongs to one caller at a time, but for its atomic words, which anybody may read as long as the
 * book exists.
 */
#ifndef HEARTH_CORE_BOOK_H
#define HEARTH_CORE_BOOK_H

#include "core/run_plan.h"
#include "core/slots.h"

#include <hearth/backing.h>

/* Plans that share a slab, and recorded runs that the next one is compared with. */
#define HEARTH__BOOK_PLANS 8u
#define HEARTH__BOOK_PAST 8u

struct hearth__book {
    uint32_t home;   /* its index among its service's books */
    uint32_t number; /* of the last run */
    uint64_t clock;  /* counts the choices of plans */
    struct hearth__plan *plans[HEARTH__BOOK_PLANS];
    uint32_t plan_count;
    struct hearth__plan *last;         /* the one that the last run followed, or NULL */
    struct hearth__planning *planning; /* under way, or NULL */
    struct hearth__run_record *past[HEARTH__BOOK_PAST]; /* the most recent first */
    uint32_t past_count;
    struct hearth__run_record *record; /* of the present run; room for HEARTH__RUN_MOST */
    bool recorded;                     /* it is over, and was not compared yet */
    uint32_t tiny;                     /* runs in a row that were too short */
    uint32_t fruitless;                /* recorded runs in a row that were like none before */
    uint32_t rest;                     /* runs that are not recorded */
    uint32_t doubt;                    /* runs that did not go as planned */
    uint32_t doubting;                 /* runs to be recorded although there is a plan */
    uint32_t doubts;                   /* times that this was in vain */
    uint32_t trust;                    /* runs until it is tried again */
    uint64_t credit;                   /* work that runs paid for */
    uint32_t refusals;                 /* of slabs, in a row */
    uint32_t refused;                  /* runs until it is tried again */
    uint64_t plans_made;

    struct hearth_segment slab; /* length 0: none */
    struct hearth__slots slots; /* of places */
    size_t place_count;

    int64_t charge; /* to the budget, for the slab */
    _Atomic(uint64_t) uses;
    _Atomic(size_t) slab_bytes;
    _Atomic(uint32_t) pending; /* there is something to compare or to plan */
};

/* NULL: no memory. */
struct hearth__book *hearth__book_create(void);

/* The slab was taken off, and no place is live. */
void hearth__book_free(struct hearth__book *book);

/* Before a run: whether it is to be recorded, although a plan may fit. */
bool hearth__book_doubts(struct hearth__book *book);

/* The plan for a run that begins like this, or NULL. */
struct hearth__plan *hearth__book_choose(struct hearth__book *book, uint64_t key, size_t size);

/* Another plan whose run went on like this after `at` requests that were as `plan` says, or NULL. */
struct hearth__plan *hearth__book_other(struct hearth__book *book, const struct hearth__plan *plan,
                                        uint32_t at, size_t size);

/* Whether there is a plan for a run that begins like this, usable or not. */
bool hearth__book_knows(const struct hearth__book *book, uint64_t key, size_t size);

/* Begin to follow a plan whose first `at` requests are past: nothing is served where something lies. Returns how many
 * places are live. */
size_t hearth__book_follow(struct hearth__book *book, struct hearth__plan *plan, uint32_t at,
                           struct hearth__plan_run *run);

/* The same where nothing is live: without looking at each place. */
void hearth__book_follow_idle(struct hearth__book *book, struct hearth__plan *plan, uint32_t at,
                              struct hearth__plan_run *run);

/* A place that was live when the plan began to be followed is being returned: what only it stood in the way of may be
 * served again. */
void hearth__book_carried_home(struct hearth__book *book, struct hearth__plan *plan,
                               const struct hearth_buf *place);

/* The next run's number, or 0 when they are used up for as long as places are live. */
uint32_t hearth__book_next_number(struct hearth__book *book, bool any_live);

/* Requests of runs that are planned at once; larger ones are planned in slices. */
#define HEARTH__BOOK_AT_ONCE 800u

/* Units of the packer's work in one slice: below half a millisecond. */
#define HEARTH__BOOK_SLICE ((uint64_t)100000)

/* Compare what was recorded, and plan: a small run at once, a slice of a large one, if the runs that wait for it were
 * long enough for it to be no burden. True if a plan came of it. */
bool hearth__book_work(struct hearth__book *book);

/* Recording. begin() answers whether the run is to be recorded. */
bool hearth__book_record_begin(struct hearth__book *book, uint64_t key);
uint32_t hearth__book_record_request(struct hearth__book *book, size_t size);

static inline struct hearth__run_request *hearth__book_request(struct hearth__book *book,
                                                               uint32_t ordinal)
{
    struct hearth__run_record *record = book->record;
    return record != NULL && ordinal < record->count ? &record->requests[ordinal] : NULL;
}

/* A recorded run is over: compare it with those before, and begin to plan if it is like one of them. */
void hearth__book_record_end(struct hearth__book *book);

/* A run that followed a plan is over: `served` bytes of `bytes` asked for. Calls nobody. */
void hearth__book_run_end(struct hearth__book *book, struct hearth__plan *plan, uint64_t served,
                          uint64_t bytes);

/* Go on planning for about `work` units. True if a plan came of it. */
bool hearth__book_plan_some(struct hearth__book *book, uint64_t work);

/* Bytes of the slab that all plans need. */
size_t hearth__book_need(const struct hearth__book *book);

/* Places for all plans that have none yet, in the slab, for the arena. NO_MEMORY: some plans have none. */
enum hearth_status hearth__book_place(struct hearth__book *book, struct hearth_allocator *arena);

/* Take the slab off. No place is live. */
struct hearth_segment hearth__book_take_slab(struct hearth__book *book);

/* Whether the slot is one of the book's. */
bool hearth__book_has(const struct hearth__book *book, const struct hearth_buf *slot);

/* Let the places serve another arena. No place is live. */
void hearth__book_serve(struct hearth__book *book, struct hearth_allocator *arena);

/* Live slots of places, by walking; and the weight of those that are in their place. */
size_t hearth__book_live(const struct hearth__book *book, hearth__weight *in_place);

/* Whether some plan waits for a slab that is large enough, or has no places yet. */
bool hearth__book_is_waiting(const struct hearth__book *book);

/* Weight of all places and the slab. */
static inline hearth__weight hearth__book_weight(const struct hearth__book *book)
{
    return hearth__weight_of(book->place_count, book->slab.length);
}

/* A place whose slot had other storage for a while is one again, and not live. */
void hearth__book_restore(struct hearth_buf *place, void *data);

static inline bool hearth__is_place(const struct hearth_buf *buf)
{
    return (buf->alignment_log & HEARTH__MARK_PLACE) != 0;
}

/* A place's slot at its last generation: its entries find it never free from now on. */
static inline void hearth__slot_use_up(struct hearth_buf *place)
{
    hearth__store_relaxed(&place->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__UNUSED));
}

/* And its storage is the place's, too. */
static inline bool hearth__is_in_place(const struct hearth_buf *buf)
{
    return hearth__is_place(buf) && (buf->flags & HEARTH__BUF_MOVED) == 0;
}

#endif
