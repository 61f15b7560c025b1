/* SPDX-License-Identifier: Apache-2.0 */
/* A thread exits: its cache against a visitor, against the thread that takes it over, and against the
 * end of the arena; as give_up(), take_over() and hearth__io_caches_end() in src/concurrent/io_cache.c. */
#include "models.h"

#include <stddef.h>

enum location { GATE, ATTENTION, MAGAZINE };

static const char *const locations[] = {"gate", "attention", "magazine", NULL};

enum variant_number { EXIT_BLIND, DEAD_FIRST, DEAD_RELAXED, OVER_RELAXED, OVER_PLAIN, GIVE_PLAIN };

static const struct variant variants[] = {
    [EXIT_BLIND] = {"exit_blind", "the exiting thread empties its cache without a look"},
    [DEAD_FIRST] = {"dead_first", "DEAD is raised before the cache is emptied"},
    [DEAD_RELAXED] = {"dead_relaxed", "raising DEAD publishes nothing"},
    [OVER_RELAXED] = {"over_relaxed", "taking over observes nothing"},
    [OVER_PLAIN] = {"over_plain", "taking over is a load and a store"},
    [GIVE_PLAIN] = {"give_plain", "giving up is a load and a store"},
    {NULL, NULL},
};

#define BUSY 1u
#define NONE 2u
#define TOKEN 3u
#define VISITED 2u
#define DEAD 4u
#define CLOSED 8u
#define GONE 16u

static unsigned inside, pooled;

static void begin(void)
{
    initial(GATE, TOKEN);
    initial(MAGAZINE, 1);
    inside = pooled = 0;
}

static void use(void)
{
    inside++;
    require(inside == 1, "two have the cache at once");
    data_write(MAGAZINE, 2);
}

/* One of the two who give the cache up. */
static uint64_t give(uint64_t bit)
{
    if (broken(GIVE_PLAIN)) {
        uint64_t attention = load(ATTENTION, ACQUIRE);
        store(ATTENTION, attention | bit, RELEASE);
        return attention;
    }
    return fetch_or(ATTENTION, bit, broken(DEAD_RELAXED) && bit == DEAD ? RELAXED : ACQ_REL);
}

static void give_up(void)
{
    uint64_t before = 0;
    store(GATE, BUSY, RELAXED);
    uint64_t attention = load(ATTENTION, ACQUIRE);
    if (broken(DEAD_FIRST))
        before = give(DEAD);
    bool in = (attention & (VISITED | CLOSED | GONE)) == 0 || broken(EXIT_BLIND);
    if (in)
        use();
    store(GATE, NONE, RELEASE);
    inside -= in;
    if (!broken(DEAD_FIRST))
        before = give(DEAD);
    if ((before & GONE) != 0) {
        pooled++;
        data_write(MAGAZINE, 0);
    }
}

static void work(void)
{
    store(GATE, BUSY, RELAXED);
    bool in = (load(ATTENTION, ACQUIRE) & (VISITED | CLOSED | GONE)) == 0;
    if (in)
        use();
    store(GATE, TOKEN, RELEASE);
    inside -= in;
}

static void take_over(void)
{
    uint64_t attention = load(ATTENTION, RELAXED);
    while ((attention & DEAD) != 0) {
        if (broken(OVER_PLAIN)) {
            store(ATTENTION, attention & ~(uint64_t)DEAD, RELAXED);
        } else if (!cas(ATTENTION, &attention, attention & ~(uint64_t)DEAD,
                        broken(OVER_RELAXED) ? RELAXED : ACQUIRE)) {
            continue;
        }
        store(GATE, TOKEN, RELEASE);
        work();
        return;
    }
}

static void visit(void)
{
    if ((fetch_or(ATTENTION, VISITED, ACQ_REL) & VISITED) != 0)
        return;
    membarrier();
    bool in = load(GATE, ACQUIRE) != BUSY;
    if (in)
        use();
    (void)fetch_and(ATTENTION, ~(uint64_t)VISITED, ACQ_REL);
    inside -= in;
}

static void visited_run(unsigned thread)
{
    if (thread == 0) {
        give_up();
    } else {
        visit();
        take_over();
    }
}

/* The arena ends: nobody visits or takes over any more. */
static void end_run(unsigned thread)
{
    if (thread == 0) {
        give_up();
        return;
    }
    (void)fetch_or(ATTENTION, CLOSED, RELEASE);
    membarrier();
    await_not(GATE, BUSY, ACQUIRE);
    use();
    inside--;
    if ((give(GONE) & DEAD) != 0) {
        pooled++;
        data_write(MAGAZINE, 0);
    }
}

static void end_finish(void)
{
    require(pooled == 1, "the cache was not pooled once");
}

static void three_run(unsigned thread)
{
    if (thread == 0)
        give_up();
    else if (thread == 1)
        visit();
    else
        take_over();
}

static void heirs_start(void)
{
    begin();
    initial(GATE, NONE);
    initial(ATTENTION, DEAD);
}

static void heirs_run(unsigned thread)
{
    (void)thread;
    take_over();
}

static const struct scenario scenarios[] = {
    {"exit against visit", 2, begin, visited_run, NULL},
    {"exit against the end", 2, begin, end_run, end_finish},
    {"two heirs", 2, heirs_start, heirs_run, NULL},
    {"exit, visitor and heir", 3, begin, three_run, NULL},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_exit = {
    .name = "exit",
    .what = "a thread exits: its cache against visitor, heir and the end of the arena",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
