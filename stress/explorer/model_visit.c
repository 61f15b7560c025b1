/* SPDX-License-Identifier: Apache-2.0 */
/* An owner's section against visitors, as in src/concurrent/section.h and io_cache.c. */
#include "models.h"

#include <stddef.h>

enum location { GATE, ATTENTION, MAGAZINE };

static const char *const locations[] = {"gate", "attention", "magazine", NULL};

enum variant_number {
    NO_MEMBARRIER,
    FLAG_PLAIN,
    OWNER_BLIND,
    LEAVE_RELAXED,
    LOWER_RELAXED,
    LOWER_PLAIN,
    LOOK_RELAXED,
};

static const struct variant variants[] = {
    [NO_MEMBARRIER] = {"no_membarrier", "the visitor does without the membarrier"},
    [FLAG_PLAIN] = {"flag_plain", "the flag is raised by a load and a store"},
    [OWNER_BLIND] = {"owner_blind", "the owner does not look at the flag"},
    [LEAVE_RELAXED] = {"leave_relaxed", "the owner's leaving publishes nothing"},
    [LOWER_RELAXED] = {"lower_relaxed", "lowering the flag publishes nothing"},
    [LOWER_PLAIN] = {"lower_plain", "the flag is lowered by a load and a store"},
    [LOOK_RELAXED] = {"look_relaxed", "the visitor's look at the gate observes nothing"},
    {NULL, NULL},
};

#define BUSY 1u
#define TOKEN 2u
#define VISITED 2u
#define CREDIT 32u

/* Who is inside. */
static unsigned inside;

static void begin(void)
{
    initial(GATE, TOKEN);
    initial(MAGAZINE, 1);
    inside = 0;
}

static void use(void)
{
    inside++;
    require(inside == 1, "two have the cache at once");
    data_write(MAGAZINE, 2);
}

static void owner(void)
{
    store(GATE, BUSY, RELAXED);
    uint64_t attention = load(ATTENTION, ACQUIRE);
    if ((attention & VISITED) == 0 || broken(OWNER_BLIND)) {
        use();
        /* Still inside while the others go on. */
        store(GATE, TOKEN, broken(LEAVE_RELAXED) ? RELAXED : RELEASE);
        inside--;
    } else {
        store(GATE, TOKEN, RELEASE);
    }
}

static void visitor(void)
{
    if (broken(FLAG_PLAIN)) {
        uint64_t attention = load(ATTENTION, ACQUIRE);
        if ((attention & VISITED) != 0)
            return;
        store(ATTENTION, attention | VISITED, RELEASE);
    } else if ((fetch_or(ATTENTION, VISITED, ACQ_REL) & VISITED) != 0) {
        return;
    }
    if (!broken(NO_MEMBARRIER))
        membarrier();
    bool in = load(GATE, broken(LOOK_RELAXED) ? RELAXED : ACQUIRE) != BUSY;
    if (in)
        use();
    if (broken(LOWER_PLAIN)) {
        uint64_t attention = load(ATTENTION, ACQUIRE);
        store(ATTENTION, attention & ~(uint64_t)VISITED, RELEASE);
    } else {
        (void)fetch_and(ATTENTION, ~(uint64_t)VISITED, broken(LOWER_RELAXED) ? RELAXED : ACQ_REL);
    }
    inside -= in;
}

static void owner_run(unsigned thread)
{
    if (thread == 1) {
        visitor();
        return;
    }
    owner();
    owner();
}

static void visitors_run(unsigned thread)
{
    if (thread == 0)
        owner();
    else
        visitor();
}

/* Without the owner, and somebody who asks for something else meanwhile. */
static void two_run(unsigned thread)
{
    visitor();
    if (thread == 0)
        (void)fetch_or(ATTENTION, CREDIT, RELEASE);
}

static void two_end(void)
{
    require(final(ATTENTION) == CREDIT, "a bit of the attention word was lost or left");
}

static void lowered(void)
{
    require(final(ATTENTION) == 0, "the flag was left up");
}

static const struct scenario scenarios[] = {
    {"owner and visitor", 2, begin, owner_run, lowered},
    {"two visitors", 2, begin, two_run, two_end},
    {"owner and two visitors", 3, begin, visitors_run, lowered},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_visit = {
    .name = "visit",
    .what = "a cache's owner against visitors",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
