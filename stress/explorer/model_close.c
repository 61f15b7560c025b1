/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an I/O arena against returns, as in src/concurrent/io_life.c: two buffers are out, come home
 * before, during and after the close, and the arena ends once, when the last one is home. */
#include "models.h"

#include <stddef.h>

enum location { CLOSED, GATE, ATTENTION, CELL_IN, SHARED_IN, OUTSTANDING, ARENA };

static const char *const locations[] = {"closed",    "gate",        "attention", "cell in",
                                        "shared in", "outstanding", "arena",     NULL};

enum variant_number { NO_GRACE, NO_RCU, NO_MEMBARRIER, UNBIASED, EARLY, HOME_RELAXED };

static const struct variant variants[] = {
    [NO_GRACE] = {"no_grace", "the cells are summed without waiting for sections"},
    [NO_RCU] = {"no_rcu", "threads without a cache are not waited for"},
    [NO_MEMBARRIER] = {"no_membarrier", "the gate is read without the membarrier"},
    [UNBIASED] = {"unbiased", "outstanding starts at 1"},
    [EARLY] = {"early", "a return subtracts itself before its last touch of the arena"},
    [HOME_RELAXED] = {"home_relaxed", "coming home orders nothing"},
    {NULL, NULL},
};

#define BUSY 1u
#define TOKEN 2u
#define CLOSED_BIT 8u
#define OUT 2u

static unsigned ended;
static uint64_t bias;

static void begin(void)
{
    bias = broken(UNBIASED) ? 1 : (uint64_t)1 << 62;
    initial(GATE, TOKEN);
    initial(OUTSTANDING, bias);
    ended = 0;
}

static void finish(void)
{
    ended++;
    data_write(ARENA, 1);
}

static void came_home(void)
{
    if (fetch_sub(OUTSTANDING, 1, broken(HOME_RELAXED) ? RELAXED : ACQ_REL) == 1)
        finish();
}

/* A return by a thread without a cache, or whose cache says that the arena was closed. */
static void return_generally(void)
{
    rcu_enter();
    bool closed = load(CLOSED, ACQUIRE) != 0;
    if (closed && broken(EARLY))
        came_home();
    require(data_read(ARENA) == 0, "the arena is gone");
    if (!closed)
        (void)fetch_add(SHARED_IN, 1, RELEASE);
    rcu_leave();
    if (closed && !broken(EARLY))
        came_home();
}

static void return_by_cache(void)
{
    store(GATE, BUSY, RELAXED);
    if ((load(ATTENTION, ACQUIRE) & CLOSED_BIT) == 0) {
        require(data_read(ARENA) == 0, "the arena is gone");
        store(CELL_IN, load(CELL_IN, RELAXED) + 1, RELEASE);
        store(GATE, TOKEN, RELEASE);
        return;
    }
    store(GATE, TOKEN, RELEASE);
    return_generally();
}

static void close_and_complete(void)
{
    uint64_t open = 0;
    (void)cas(CLOSED, &open, 1, ACQ_REL);
    (void)fetch_or(ATTENTION, CLOSED_BIT, RELEASE);
    if (!broken(NO_GRACE)) {
        if (!broken(NO_MEMBARRIER))
            membarrier();
        await_not(GATE, BUSY, ACQUIRE);
        if (!broken(NO_RCU))
            rcu_synchronize();
    }
    require(data_read(ARENA) == 0, "the arena is gone");
    uint64_t live = OUT - load(CELL_IN, ACQUIRE) - load(SHARED_IN, ACQUIRE);
    uint64_t before = fetch_add(OUTSTANDING, live - bias, broken(HOME_RELAXED) ? RELAXED : ACQ_REL);
    if (before + live == bias)
        finish();
}

static void cached_run(unsigned thread)
{
    if (thread == 1) {
        close_and_complete();
        return;
    }
    return_by_cache();
    return_by_cache();
}

static void uncached_run(unsigned thread)
{
    if (thread == 1) {
        close_and_complete();
        return;
    }
    return_generally();
    return_generally();
}

static void both_run(unsigned thread)
{
    if (thread == 2)
        close_and_complete();
    else if (thread == 1)
        return_generally();
    else
        return_by_cache();
}

static void end(void)
{
    require(ended == 1, "the arena did not end exactly once");
}

static const struct scenario scenarios[] = {
    {"returns by a cache", 2, begin, cached_run, end},
    {"returns without a cache", 2, begin, uncached_run, end},
    {"one of each", 3, begin, both_run, end},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_close = {
    .name = "close",
    .what = "the end of an arena against returns",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
