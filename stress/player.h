/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who plays the scripts of runs: a worker that goes from life to life, in threads of its own or not, and is more
 * or less careful in each.
 */
#ifndef HEARTH_STRESS_PLAYER_H
#define HEARTH_STRESS_PLAYER_H

#include "runs.h"

#include <hearth/exec.h>
#include <hearth/service.h>
#include <hearth/stats.h>

#include <pthread.h>
#include <stdint.h>

#define KEPT 6
#define LATE 16
#define EXEC_CAP ((size_t)12 << 20)
/* Of one arena: what a run, and what it left over, has live, with room for other sizes; and what is retained. */
#define ARENA_MOST (4 * STRESS_PEAK_MOST + (KEPT + LATE) * STRESS_SIZE_MOST + EXEC_CAP)

/* What happens beside runs. */
enum weather {
    CALM,   /* nothing */
    TRIMS,  /* trims */
    LIMITS, /* caps and the ceiling move as well */
    ALL,    /* a maintenance thread, a ceiling, ageing */
    WEATHERS
};

struct tally {
    uint64_t runs, takes, threads, hits, misses, blocked, made;
    uint64_t calm_takes, calm_hits;
};

struct player {
    struct stress_block held[STRESS_PLACES];
    struct stress_block kept[KEPT]; /* whatever becomes of runs and threads */
    struct stress_block late[LATE];
    const struct stress_options *options;
    const struct stress_script *scripts;
    struct hearth_service *service;
    struct hearth_exec *arena;
    pthread_mutex_t lock;      /* of `shown` */
    struct hearth_exec *shown; /* for the reader */
    struct hearth_exec_stats before;
    struct tally tally;
    uint64_t random, serial, taken;
    unsigned number, lives;
    unsigned noise; /* 0 to 2 */
    enum weather weather;
    struct stress_script varied; /* what is played, when it is a copy */
    _Atomic(bool) ended;         /* after this life */
    bool steady;                 /* in the next life: the same run again and again */
    bool child; /* forked: nobody else posts or takes, and boxes hold what is not its own */
};

void player_init(struct player *self, const struct stress_options *options,
                 const struct stress_script *scripts, unsigned number);

/* Play so many lives. A thread; `argument` is a struct player. What it keeps is left in kept and late. */
void *player_work(void *argument);

/* One life, on the calling thread. */
void player_live(struct player *self);

/* The parts of a life: attach to the service, some steps of a script, return what is late, and look at what the
 * arena counted. */
void player_attach(struct player *self);
void player_play(struct player *self, const struct stress_script *script, unsigned from,
                 unsigned until);
void player_clean_up(struct player *self);
void player_leave(struct player *self);

/* Check what is kept, and add up its capacity; and return it, from whatever thread. */
size_t player_kept(const struct player *self);
void player_return_all(struct player *self);

#endif
