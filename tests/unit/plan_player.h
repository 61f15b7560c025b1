/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that follow the plans of a book as an execution arena does, on a slab of which it is known who has what.
 * Whatever is asked for and whenever it is returned, two owners of a byte fail the test; so do an entry that is served twice in a run, one that is over and is not any more, and a place that is too small.
 */
#ifndef HEARTH_TESTS_UNIT_PLAN_PLAYER_H
#define HEARTH_TESTS_UNIT_PLAN_PLAYER_H

#include "core/book.h"

#define PLAYER_LIVE_MOST 4096u

struct player_live {
    struct hearth_buf *place;
    void *home; /* the place's own address */
    uint32_t unit, units;
    bool moved;
};

struct player {
    struct hearth__book *book;
    struct hearth_allocator arena;
    void *slab;
    struct hearth__plan *plan;
    struct hearth__plan_run run;
    uint32_t asked; /* requests of the run */
    uint8_t *was;   /* by entry of the plan: WAS_* bits in this run */
    uint32_t watch; /* look at all entries after each this many requests; 0: never */
    struct player_live live[PLAYER_LIVE_MOST]; /* by index; place NULL: unused */
    uint32_t unused[PLAYER_LIVE_MOST];
    uint32_t unused_count;
    uint32_t top; /* indices below were used */
    uint64_t served, sought, out, blocked, off, unknown, past, switched, carried;
    uint64_t bytes, served_bytes;
};

/* A book with these plans, whose memory it takes, in a slab with places. */
struct player *player_open(struct hearth__plan **plans, uint32_t count);
void player_close(struct player *player);

/* Begin a run that follows `plan`, NULL: none. False: there is no number for a run now. */
bool player_begin(struct player *player, struct hearth__plan *plan);
void player_end(struct player *player);

#define PLAYER_LISTS UINT32_MAX

/* Ask for memory. Answers the index of what is live, or PLAYER_LISTS. When what had the place is not back, `again`
 * says whether to try again after it was returned; that is up to `wait`, which may be NULL. */
uint32_t player_ask(struct player *player, size_t size, void (*wait)(struct player *, void *),
                    void *context);

void player_return(struct player *player, uint32_t index);

/* Give a live buffer other storage until it is returned; its entry is over. */
void player_move(struct player *player, uint32_t index);

uint32_t player_live_count(const struct player *player);

#endif
