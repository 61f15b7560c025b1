/* SPDX-License-Identifier: Apache-2.0 */
/* Returns by threads that do not own the arena, as in src/concurrent/inbox.c. Thread 1 is the owner where
 * there is one. */
#include "models.h"

#include <stddef.h>

enum location { HEAD, RETURNED, NEXT = RETURNED + 4, COUNT = NEXT + 4, PAYLOAD = COUNT + 4 };

static const char *const locations[] = {
    "head",    "-",      "returned 1", "returned 2", "returned 3", "-",
    "next 1",  "next 2", "next 3",     "count 0",    "count 1",    "count 2",
    "count 3", "-",      "payload 1",  "payload 2",  "payload 3",  NULL};

enum variant_number {
    PUSH_RELAXED,
    TAKE_RELAXED,
    TWINS_PUSH,
    CLAIM_PLAIN,
    CLAIM_RELAXED,
    SETTLE_RELAXED,
    SETTLE_FIRST,
    UNTAGGED,
};

static const struct variant variants[] = {
    [PUSH_RELAXED] = {"push_relaxed", "a push publishes nothing"},
    [TAKE_RELAXED] = {"take_relaxed", "taking the chain observes nothing"},
    [TWINS_PUSH] = {"twins_push", "each of two returns pushes the slot"},
    [CLAIM_PLAIN] = {"claim_plain", "a claim is a load and a store"},
    [CLAIM_RELAXED] = {"claim_relaxed", "a claim publishes nothing"},
    [SETTLE_RELAXED] = {"settle_relaxed", "settling observes nothing"},
    [SETTLE_FIRST] = {"settle_first", "the drain settles a slot before it reads its link"},
    [UNTAGGED] = {"untagged", "taking the chain does not move the tag"},
    {NULL, NULL},
};

#define QUEUED 1u
#define SLOTS 3u
#define INDEX_MASK 0xffu

enum claim { TWIN, RIDES, PUSH };

static unsigned pushes, twins, misuses, freed[SLOTS + 1];
static unsigned live[SLOTS + 1];

static unsigned top_of(uint64_t head)
{
    return (unsigned)(head & INDEX_MASK);
}

static enum claim claim(unsigned slot, unsigned generation)
{
    uint64_t seen = load(RETURNED + slot, RELAXED);
    uint64_t claimed = generation << 8 | QUEUED;
    for (;;) {
        if (seen >> 8 >= generation && !broken(TWINS_PUSH))
            return TWIN;
        if (broken(CLAIM_PLAIN)) {
            store(RETURNED + slot, claimed, RELEASE);
            break;
        }
        if (cas(RETURNED + slot, &seen, claimed, broken(CLAIM_RELAXED) ? ACQUIRE : ACQ_REL))
            break;
    }
    return (seen & QUEUED) != 0 && !broken(TWINS_PUSH) ? RIDES : PUSH;
}

static void push(unsigned slot)
{
    pushes++;
    uint64_t head = load(HEAD, ACQUIRE);
    uint64_t next;
    do {
        unsigned below = top_of(head);
        uint64_t count = below == 0 ? 0 : load(COUNT + below, ACQUIRE);
        data_write(NEXT + slot, below);
        store(COUNT + slot, count + 1, RELAXED);
        next = (head & ~(uint64_t)INDEX_MASK) | slot;
    } while (!cas(HEAD, &head, next, broken(PUSH_RELAXED) ? RELAXED : ACQ_REL));
}

static void give_back(unsigned slot, unsigned generation)
{
    enum claim claimed = claim(slot, generation);
    if (claimed == PUSH)
        push(slot);
    twins += claimed == TWIN;
}

/* The owner takes what is there and frees what was rightly returned. */
static void drain(void)
{
    uint64_t tag = load(HEAD, RELAXED) & ~(uint64_t)INDEX_MASK;
    unsigned slot = top_of(exchange(HEAD, tag + (broken(UNTAGGED) ? 0 : INDEX_MASK + 1),
                                    broken(TAKE_RELAXED) ? RELAXED : ACQ_REL));
    uint64_t expected = slot == 0 ? 0 : load(COUNT + slot, RELAXED);
    unsigned count = 0;
    while (slot != 0) {
        count++;
        require(count <= SLOTS, "the chain does not end");
        enum order order = broken(SETTLE_RELAXED) ? RELAXED : ACQ_REL;
        uint64_t word = 0;
        if (broken(SETTLE_FIRST))
            word = fetch_and(RETURNED + slot, ~(uint64_t)QUEUED, order);
        unsigned next = (unsigned)data_read(NEXT + slot);
        if (!broken(SETTLE_FIRST))
            word = fetch_and(RETURNED + slot, ~(uint64_t)QUEUED, order);
        if (word >> 8 == live[slot]) {
            data_write(PAYLOAD + slot, 2);
            freed[slot]++;
            live[slot] = 0;
        } else {
            misuses++;
        }
        slot = next;
    }
    require(count == expected, "the totals are not those of the chain");
}

static void begin(void)
{
    pushes = twins = misuses = 0;
    for (unsigned i = 1; i <= SLOTS; i++) {
        freed[i] = 0;
        live[i] = 1;
        initial(PAYLOAD + i, 1);
    }
}

/* Two buffers come home while the owner drains. */
static void home_run(unsigned thread)
{
    if (thread == 1) {
        drain();
        drain();
        return;
    }
    (void)data_read(PAYLOAD + 1);
    give_back(1, 1);
    (void)data_read(PAYLOAD + 2);
    give_back(2, 1);
}

static void home_end(void)
{
    unsigned left = 0;
    for (unsigned slot = top_of(final(HEAD)); slot != 0 && left <= 2; left++) {
        require(final(RETURNED + slot) == (1 << 8 | QUEUED), "a queued slot does not say so");
        slot = (unsigned) final(NEXT + slot);
    }
    require(freed[1] + freed[2] + left == 2, "a buffer was lost or freed twice");
    require(misuses == 0, "a right return was a misuse");
}

/* Two threads return different buffers, and one of them twice. */
static void twins_run(unsigned thread)
{
    if (thread == 0) {
        give_back(1, 1);
        return;
    }
    give_back(2, 1);
    give_back(1, 1);
}

static void twins_end(void)
{
    require(pushes == 2, "not each buffer was pushed once");
    require(twins == 1, "not exactly one return was refused");
    require(final(COUNT + top_of(final(HEAD))) == 2, "the totals are not those of the chain");
}

/* Slot 1 is queued for a stale return of generation 1; generation 2 comes home meanwhile. */

static void ride_start(void)
{
    begin();
    initial(HEAD, 1);
    initial(COUNT + 1, 1);
    initial(RETURNED + 1, 1 << 8 | QUEUED);
    live[1] = 2;
    live[2] = 0;
}

static void ride_run(unsigned thread)
{
    if (thread == 1) {
        drain();
        drain();
        return;
    }
    (void)data_read(PAYLOAD + 1);
    give_back(1, 2);
}

static void ride_end(void)
{
    require(twins == 0, "a right return was refused");
    unsigned left = top_of(final(HEAD)) != 0;
    require(freed[1] + left == 1, "a buffer was lost or freed twice");
    require(((final(RETURNED + 1) & QUEUED) != 0) == (left == 1), "a slot is queued for ever");
}

/* A push of 2 on 1 on 3 is overtaken: 1 is taken, lent and returned again, now on nothing. */

static void overtaken_start(void)
{
    begin();
    initial(HEAD, 1);
    initial(NEXT + 1, 3);
    initial(COUNT + 1, 2);
    initial(COUNT + 3, 1);
    initial(RETURNED + 1, 1 << 8 | QUEUED);
    initial(RETURNED + 3, 1 << 8 | QUEUED);
}

static void overtaken_run(unsigned thread)
{
    if (thread == 0) {
        give_back(2, 1);
        return;
    }
    drain();
    live[1] = 2;
    give_back(1, 2);
    drain();
}

static void overtaken_end(void)
{
    require(freed[1] == 2 && freed[3] == 1 && misuses == 0, "a return was lost");
}

static const struct scenario scenarios[] = {
    {"coming home", 2, begin, home_run, home_end},
    {"twins", 2, begin, twins_run, twins_end},
    {"a ride", 2, ride_start, ride_run, ride_end},
    {"a push overtaken", 2, overtaken_start, overtaken_run, overtaken_end},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_inbox = {
    .name = "inbox",
    .what = "returns from afar: claim, push, take, settle",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
