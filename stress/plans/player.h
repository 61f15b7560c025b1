/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that plays scripts, in as many threads as it likes, one after the other. */
#ifndef HEARTH_STRESS_PLANS_PLAYER_H
#define HEARTH_STRESS_PLANS_PLAYER_H

#include "../runs.h"

#include <hearth/exec.h>
#include <hearth/service.h>
#include <hearth/stats.h>

#include <pthread.h>
#include <stdint.h>

#define SCRIPTS 6
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
    struct stress_script varied;
    const struct stress_options *options;
    const struct stress_script *scripts;
    struct hearth_service *service;
    struct hearth_exec *arena;
    pthread_mutex_t lock;      /* of `shown` */
    struct hearth_exec *shown; /* for the reader */
    struct hearth_exec_stats before;
    struct tally tally;
    uint64_t random, serial, taken;
    enum weather weather;
    unsigned number, lives;
    unsigned noise; /* 0 to 2 */
};

/* Play so many lives. A thread; `argument` is a struct player. What it keeps is left in kept and late. */
void *player_work(void *argument);

#endif
