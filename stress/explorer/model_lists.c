/* SPDX-License-Identifier: Apache-2.0 */
/* A class's two stacks with tombstones, as in src/concurrent/io_list.c: eviction from the middle, and
 * compaction, during which a list must not look empty. */
#include "models.h"

#include <stddef.h>

enum location { TOP, BELOW, LINK, WORD = LINK + 4, STORAGE = WORD + 4 };

static const char *const locations[] = {"top",    "below",     "-",         "link 1",    "link 2",
                                        "link 3", "word 0",    "word 1",    "word 2",    "word 3",
                                        "-",      "storage 1", "storage 2", "storage 3", NULL};

enum variant_number { ARMED_WHILE_LINKED, READ_ONCE, POP_ACQUIRE_ONLY, NO_TOMBSTONE, WALK_RELAXED };

static const struct variant variants[] = {
    [ARMED_WHILE_LINKED] = {"armed_while_linked", "an evicted slot is used again while linked"},
    [READ_ONCE] = {"read_once", "a list is empty when each head was seen empty once"},
    [POP_ACQUIRE_ONLY] = {"pop_acquire_only", "a pop does not publish the push before it"},
    [NO_TOMBSTONE] = {"no_tombstone", "who pops a slot believes that it is free"},
    [WALK_RELAXED] = {"walk_relaxed", "the evictor's walk and claim observe nothing"},
    {NULL, NULL},
};

enum state { FREE = 1, HELD, EVICTED };

#define DETACHED 0x100u
#define UNLINKED 0x200u
#define INDEX_MASK 0xffu
#define SLOTS 3u

/* Slot numbers that are out of both lists and without storage. */
static unsigned pooled;
static unsigned taken[SLOTS + 1];
static bool missed;

static unsigned top_of(uint64_t head)
{
    return (unsigned)(head & INDEX_MASK);
}

static void push(unsigned list, unsigned slot)
{
    uint64_t head = load(list, RELAXED);
    do {
        store(LINK + slot, top_of(head), RELAXED);
    } while (!cas(list, &head, (head & ~(uint64_t)INDEX_MASK) | slot, RELEASE));
}

static unsigned pop(unsigned list)
{
    uint64_t head = load(list, ACQUIRE);
    for (;;) {
        unsigned top = top_of(head);
        if (top == 0)
            return 0;
        unsigned below = (unsigned)load(LINK + top, RELAXED);
        uint64_t next = (head & ~(uint64_t)INDEX_MASK) + INDEX_MASK + 1 + below;
        if (cas(list, &head, next, broken(POP_ACQUIRE_ONLY) ? ACQUIRE : ACQ_REL))
            return top;
    }
}

static void pool(unsigned slot)
{
    require(pooled == 0, "a slot was pooled twice");
    pooled = slot;
}

static void unlinked(unsigned slot)
{
    if (broken(ARMED_WHILE_LINKED))
        return;
    if ((fetch_or(WORD + slot, UNLINKED, ACQ_REL) & DETACHED) != 0)
        pool(slot);
}

static bool claim(unsigned slot)
{
    uint64_t word = load(WORD + slot, RELAXED);
    if (broken(NO_TOMBSTONE)) {
        store(WORD + slot, HELD, RELEASE);
    } else if (word != FREE || !cas(WORD + slot, &word, HELD, ACQUIRE)) {
        unlinked(slot);
        return false;
    }
    taken[slot]++;
    require(data_read(STORAGE + slot) == 1, "took a slot without storage");
    return true;
}

static unsigned take(void)
{
    for (unsigned list = TOP; list <= BELOW; list++)
        for (unsigned slot; (slot = pop(list)) != 0;)
            if (claim(slot))
                return slot;
    return 0;
}

static bool seems_empty(void)
{
    uint64_t top = load(TOP, ACQUIRE);
    uint64_t below = load(BELOW, ACQUIRE);
    if (top_of(top) != 0 || top_of(below) != 0)
        return false;
    return broken(READ_ONCE) || (load(TOP, ACQUIRE) == top && load(BELOW, ACQUIRE) == below);
}

static void reset(unsigned top, unsigned below)
{
    initial(TOP, top);
    initial(BELOW, below);
    for (unsigned i = 1; i <= SLOTS; i++) {
        initial(LINK + i, 0);
        initial(WORD + i, FREE);
        initial(STORAGE + i, 1);
        taken[i] = 0;
    }
    pooled = 0;
    missed = false;
}

static unsigned length(unsigned list)
{
    unsigned count = 0;
    for (unsigned slot = top_of(final(list)); slot != 0 && count <= SLOTS; count++)
        slot = (unsigned) final(LINK + slot);
    return count;
}

/* 1 on 2; thread 0 evicts 2 from the middle and uses the pooled slot for another list. */

static void evict_start(void)
{
    reset(1, 3);
    initial(LINK + 1, 2);
}

static void evict_run(unsigned thread)
{
    if (thread == 1) {
        for (unsigned slot; (slot = pop(TOP)) != 0;)
            (void)claim(slot);
        return;
    }
    uint64_t word = load(WORD + 2, ACQUIRE);
    if (word != FREE || !cas(WORD + 2, &word, EVICTED, ACQUIRE))
        return;
    data_write(STORAGE + 2, 0);
    if (broken(ARMED_WHILE_LINKED) || (fetch_or(WORD + 2, DETACHED, ACQ_REL) & UNLINKED) != 0)
        pool(2);
    if (pooled != 2)
        return;
    data_write(STORAGE + 2, 1);
    store(WORD + 2, FREE, RELEASE);
    push(BELOW, 2);
}

static void evict_finish(void)
{
    require(final(TOP) != 0 && top_of(final(TOP)) == 0, "a list did not end");
    require(taken[1] == 1, "a free slot was not taken once");
    require(taken[3] == 0, "a pop wandered into another list");
    require(length(BELOW) == (pooled == 2 && final(WORD + 2) == FREE ? 2u : 1u),
            "the other list is torn");
    require(taken[2] + (pooled != 0) == 1, "the slot was not either taken or evicted");
}

/* Two slots below, one thread moves them to the top and back: one at a time in hand. */

static void move(unsigned from, unsigned to)
{
    unsigned slot = pop(from);
    if (slot != 0)
        push(to, slot);
}

static void compact_start(void)
{
    reset(0, 1);
    initial(LINK + 1, 2);
}

static void compact_run(unsigned thread)
{
    if (thread == 0) {
        move(BELOW, TOP);
        move(BELOW, TOP);
        move(TOP, BELOW);
    } else {
        missed = seems_empty();
    }
}

static void compact_finish(void)
{
    require(!missed, "two slots were there and one in hand, and the lists looked empty");
}

/* One slot moves while it is taken and while another evictor's walk claims it. */

static void moved_start(void)
{
    reset(1, 0);
}

static void moved_run(unsigned thread)
{
    if (thread == 0) {
        move(TOP, BELOW);
        uint64_t word = load(WORD + 1, ACQUIRE);
        if (word == FREE && cas(WORD + 1, &word, EVICTED, ACQUIRE)) {
            data_write(STORAGE + 1, 0);
            if ((fetch_or(WORD + 1, DETACHED, ACQ_REL) & UNLINKED) != 0)
                pool(1);
        }
    } else if (take() == 1) {
        data_write(STORAGE + 1, 1);
        store(WORD + 1, FREE, RELEASE);
        push(TOP, 1);
    }
}

static void moved_finish(void)
{
    require(length(TOP) + length(BELOW) + (pooled != 0) == 1, "a slot was lost or doubled");
}

/* Thread 1 gives a slot, thread 0's walk finds it by a stale link and claims it before it is pushed. */

static void give_start(void)
{
    reset(0, 0);
    initial(WORD + 1, HELD);
}

static void give_run(unsigned thread)
{
    enum order order = broken(WALK_RELAXED) ? RELAXED : ACQUIRE;
    if (thread == 0) {
        uint64_t word = load(WORD + 1, order);
        if (word == FREE && cas(WORD + 1, &word, EVICTED, order)) {
            data_write(STORAGE + 1, 0);
            if ((fetch_or(WORD + 1, DETACHED, ACQ_REL) & UNLINKED) != 0)
                pool(1);
        }
        return;
    }
    data_write(STORAGE + 1, 1);
    store(WORD + 1, FREE, RELEASE);
    push(TOP, 1);
    (void)take();
}

static void give_finish(void)
{
    require(taken[1] + (pooled != 0) == 1, "the slot was not either taken or evicted");
}

static const struct scenario scenarios[] = {
    {"eviction from the middle", 2, evict_start, evict_run, evict_finish},
    {"compaction looks empty", 2, compact_start, compact_run, compact_finish},
    {"a slot moves", 2, moved_start, moved_run, moved_finish},
    {"claimed before pushed", 2, give_start, give_run, give_finish},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_lists = {
    .name = "lists",
    .what = "two stacks with tombstones: eviction, compaction, an honest miss",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
