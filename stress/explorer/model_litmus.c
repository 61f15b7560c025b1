/* SPDX-License-Identifier: Apache-2.0 */
/* The engine itself, by the well-known small tests: what C11 forbids must not be reached, and what it
 * allows must be (the variants, which forbid it). */
#include "models.h"

#include <stddef.h>

enum location { X, Y, DATA };

static const char *const locations[] = {"x", "y", "data", NULL};

enum variant_number { BUFFERED, STALE, INDEPENDENT, PLAIN_FLAG, BROKEN_SEQUENCE, NO_GRACE };

static const struct variant variants[] = {
    [BUFFERED] = {"buffered", "two loads pass the stores before them"},
    [STALE] = {"stale", "a relaxed flag is seen before the value"},
    [INDEPENDENT] = {"independent", "two readers see two stores in different orders"},
    [PLAIN_FLAG] = {"plain_flag", "a flag that is plain data is a race"},
    [BROKEN_SEQUENCE] = {"broken_sequence", "a store between ends a release sequence"},
    [NO_GRACE] = {"no_grace", "a section goes on after the writer"},
    {NULL, NULL},
};

static uint64_t seen[EXPLORER_THREADS][2];

static void begin(void)
{
    for (unsigned i = 0; i < EXPLORER_THREADS; i++)
        seen[i][0] = seen[i][1] = 1;
}

/* One side plain, one with a membarrier, as an owner and its visitor. */
static void store_load_run(unsigned thread)
{
    store(thread, 1, RELAXED);
    if (thread == 1 && !broken(BUFFERED))
        membarrier();
    seen[thread][0] = load(1 - thread, ACQUIRE);
}

static void store_load_end(void)
{
    require(seen[0][0] + seen[1][0] != 0, "both loads missed the other's store");
}

static void message_run(unsigned thread)
{
    enum order order = broken(STALE) ? RELAXED : RELEASE;
    if (thread == 0) {
        store(X, 1, RELAXED);
        store(Y, 1, order);
    } else if (load(Y, ACQUIRE) == 1) {
        require(load(X, RELAXED) == 1, "the flag was seen, the value was not");
    }
}

static void plain_run(unsigned thread)
{
    if (thread == 0) {
        data_write(DATA, 1);
        store(Y, 1, RELEASE);
    } else if (broken(PLAIN_FLAG) || load(Y, ACQUIRE) == 1) {
        require(data_read(DATA) == 1, "the flag was seen, the data were not");
    }
}

/* Others' read-modify-writes, relaxed as they are, carry on what the store released. */
static void sequence_run(unsigned thread)
{
    if (thread == 0) {
        data_write(DATA, 1);
        store(Y, 1, RELEASE);
    } else if (thread == 1) {
        if (broken(BROKEN_SEQUENCE))
            store(Y, load(Y, RELAXED) + 1, RELAXED);
        else
            (void)fetch_add(Y, 1, RELAXED);
    } else if (load(Y, ACQUIRE) == 2) {
        require(data_read(DATA) == 1, "a release sequence was lost");
    }
}

/* One location never goes back, for nobody. */
static void coherence_run(unsigned thread)
{
    if (thread == 0) {
        store(X, 1, RELAXED);
        store(X, 2, RELAXED);
        return;
    }
    uint64_t first = load(X, RELAXED);
    require(load(X, RELAXED) >= first, "a location went back");
}

static void independent_run(unsigned thread)
{
    if (thread < 2) {
        store(thread, 1, RELEASE);
        return;
    }
    seen[thread][0] = load(thread == 2 ? X : Y, ACQUIRE);
    seen[thread][1] = load(thread == 2 ? Y : X, ACQUIRE);
}

static void independent_end(void)
{
    bool differ = seen[2][0] == 1 && seen[2][1] == 0 && seen[3][0] == 1 && seen[3][1] == 0;
    require(!differ || !broken(INDEPENDENT), "two readers disagree about the order");
}

static void grace_run(unsigned thread)
{
    if (thread == 0) {
        rcu_enter();
        if (load(X, ACQUIRE) == 0)
            require(data_read(DATA) == 0, "what a section uses was written");
        rcu_leave();
    } else {
        store(X, 1, RELAXED);
        if (!broken(NO_GRACE))
            rcu_synchronize();
        data_write(DATA, 1);
    }
}

static const struct scenario scenarios[] = {
    {"store and load", 2, begin, store_load_run, store_load_end},
    {"message passing", 2, begin, message_run, NULL},
    {"plain data", 2, begin, plain_run, NULL},
    {"release sequence", 3, begin, sequence_run, NULL},
    {"coherence", 3, begin, coherence_run, NULL},
    {"independent reads", 4, begin, independent_run, independent_end},
    {"grace period", 2, begin, grace_run, NULL},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_litmus = {
    .name = "litmus",
    .what = "the engine: what the memory model allows and forbids",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
