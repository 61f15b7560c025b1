/* SPDX-License-Identifier: Apache-2.0 */
/* An evicted slot, as in src/concurrent/io_list.c: its storage is taken off and it is popped, in any
 * order, by different threads; the second of the two may use it again. */
#include "models.h"

#include <stddef.h>

enum location { WORD, STORAGE, LINK };

static const char *const locations[] = {"word", "storage", "link", NULL};

enum variant_number { PLAIN_STORE, OR_RELAXED, EVICTOR_FIRST };

static const struct variant variants[] = {
    [PLAIN_STORE] = {"plain_store", "a half is noted by a load and a store"},
    [OR_RELAXED] = {"or_relaxed", "noting a half orders nothing"},
    [EVICTOR_FIRST] = {"evictor_first", "the evictor uses the slot again while it is linked"},
    {NULL, NULL},
};

#define DETACHED 1u
#define UNLINKED 2u

static unsigned reused;

static void begin(void)
{
    initial(STORAGE, 1);
    initial(LINK, 3);
    reused = 0;
}

static uint64_t half(uint64_t bit)
{
    if (broken(PLAIN_STORE)) {
        uint64_t word = load(WORD, ACQUIRE);
        store(WORD, word | bit, RELEASE);
        return word;
    }
    return fetch_or(WORD, bit, broken(OR_RELAXED) ? RELAXED : ACQ_REL);
}

static void run(unsigned thread)
{
    uint64_t other;
    if (thread == 0) {
        data_write(STORAGE, 0);
        other = half(DETACHED) & UNLINKED;
        other |= broken(EVICTOR_FIRST);
    } else {
        (void)data_read(LINK);
        other = half(UNLINKED) & DETACHED;
    }
    if (other == 0)
        return;
    reused++;
    data_write(STORAGE, 2);
    data_write(LINK, 0);
}

static void end(void)
{
    require(reused == 1, "not exactly one of two put the slot to use again");
}

static const struct scenario scenarios[] = {
    {"both halves", 2, begin, run, end},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_detach = {
    .name = "detach",
    .what = "the two halves of an eviction",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
