/* SPDX-License-Identifier: Apache-2.0 */
/* A thread's new cache against close, as make() and close_once() in src/concurrent: the closer finds
 * the cache, or the thread finds the flag. */
#include "models.h"

#include <stddef.h>

enum location { CLOSED, CACHES, ATTENTION, FIELDS };

static const char *const locations[] = {"closed", "caches", "attention", "fields", NULL};

enum variant_number { NO_MEMBARRIER, LOOKS_FIRST, LINK_RELAXED };

static const struct variant variants[] = {
    [NO_MEMBARRIER] = {"no_membarrier", "close does without the membarrier"},
    [LOOKS_FIRST] = {"looks_first", "the thread looks at the flag before it links its cache"},
    [LINK_RELAXED] = {"link_relaxed", "linking the cache publishes nothing"},
    {NULL, NULL},
};

static void begin(void)
{
    initial(CLOSED, 0);
}

static void run(unsigned thread)
{
    if (thread == 1) {
        uint64_t open = 0;
        (void)cas(CLOSED, &open, 1, ACQ_REL);
        if (!broken(NO_MEMBARRIER))
            membarrier();
        if (load(CACHES, ACQUIRE) == 0)
            return;
        require(data_read(FIELDS) == 1, "a cache without fields");
        (void)fetch_or(ATTENTION, 1, RELEASE);
        return;
    }
    bool closed = broken(LOOKS_FIRST) && load(CLOSED, ACQUIRE) != 0;
    data_write(FIELDS, 1);
    store(ATTENTION, 0, RELAXED);
    uint64_t first = load(CACHES, RELAXED);
    (void)cas(CACHES, &first, 1, broken(LINK_RELAXED) ? RELAXED : RELEASE);
    if (!broken(LOOKS_FIRST))
        closed = load(CLOSED, ACQUIRE) != 0;
    if (closed)
        (void)fetch_or(ATTENTION, 1, RELEASE);
}

static void end(void)
{
    require(final(ATTENTION) == 1, "neither found the other");
}

static const struct scenario scenarios[] = {
    {"attach against close", 2, begin, run, end},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_attach = {
    .name = "attach",
    .what = "linking a cache against close",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
