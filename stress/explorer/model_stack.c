/* SPDX-License-Identifier: Apache-2.0 */
/* The tagged stack of src/concurrent/stack.h: three slots, pops of one and of two. */
#include "models.h"

#include <stddef.h>

enum location { HEAD, LINK, PAYLOAD = LINK + 4 };

static const char *const locations[] = {"head",      "-",         "link 1",    "link 2",
                                        "link 3",    "payload 0", "payload 1", "payload 2",
                                        "payload 3", NULL};

enum variant_number { UNTAGGED, PUSH_RELAXED, POP_RELAXED, ARMED_WHILE_LINKED, BATCH_UNTAGGED };

static const struct variant variants[] = {
    [UNTAGGED] = {"untagged", "a pop does not move the tag"},
    [PUSH_RELAXED] = {"push_relaxed", "a push publishes nothing"},
    [POP_RELAXED] = {"pop_relaxed", "a pop observes nothing"},
    [ARMED_WHILE_LINKED] = {"armed_while_linked", "a slot is pushed again before it was popped"},
    [BATCH_UNTAGGED] = {"batch_untagged", "a pop of two does not move the tag"},
    {NULL, NULL},
};

#define SLOTS 3u
#define INDEX_MASK 0xffu

/* Whether a thread has a slot. */
static bool held[SLOTS + 1];

static unsigned top_of(uint64_t head)
{
    return (unsigned)(head & INDEX_MASK);
}

static void take_hold(unsigned slot)
{
    require(slot >= 1 && slot <= SLOTS, "popped what is no slot");
    require(!held[slot], "popped a slot that somebody has");
    held[slot] = true;
    data_write(PAYLOAD + slot, 2);
}

static void push(unsigned first, unsigned last)
{
    held[first] = false;
    held[last] = false;
    uint64_t head = load(HEAD, RELAXED);
    do {
        store(LINK + last, top_of(head), RELAXED);
    } while (!cas(HEAD, &head, (head & ~(uint64_t)INDEX_MASK) | first,
                  broken(PUSH_RELAXED) ? RELAXED : RELEASE));
}

/* Pop up to `most`; how many. */
static unsigned pop(unsigned most, unsigned *slots)
{
    enum order order = broken(POP_RELAXED) ? RELAXED : ACQUIRE;
    bool tagged = !broken(UNTAGGED) && !(broken(BATCH_UNTAGGED) && most > 1);
    uint64_t head = load(HEAD, order);
    for (;;) {
        if (top_of(head) == 0)
            return 0;
        unsigned count = 1;
        slots[0] = top_of(head);
        unsigned below = (unsigned)load(LINK + slots[0], RELAXED);
        while (count < most && below != 0) {
            slots[count++] = below;
            below = (unsigned)load(LINK + below, RELAXED);
        }
        uint64_t tag = (head & ~(uint64_t)INDEX_MASK) + (tagged ? INDEX_MASK + 1 : 0);
        if (cas(HEAD, &head, tag | below, order == RELAXED ? RELAXED : ACQ_REL)) {
            for (unsigned i = 0; i < count; i++)
                take_hold(slots[i]);
            return count;
        }
    }
}

/* 1 on 2 on 3. */
static void start_full(void)
{
    initial(HEAD, 1);
    initial(LINK + 1, 2);
    initial(LINK + 2, 3);
    initial(LINK + 3, 0);
    for (unsigned i = 0; i <= SLOTS; i++)
        held[i] = false;
}

static void start_held(void)
{
    start_full();
    initial(HEAD, 0);
    for (unsigned i = 1; i <= SLOTS; i++)
        held[i] = true;
}

/* Each slot is held, or linked once. */
static void count_slots(void)
{
    unsigned count = 0;
    for (unsigned i = 1; i <= SLOTS; i++)
        count += held[i];
    unsigned slot = top_of(final(HEAD));
    for (; slot != 0 && count <= SLOTS; slot = (unsigned) final(LINK + slot)) {
        require(!held[slot], "a slot that somebody has is linked");
        count++;
    }
    require(count == SLOTS, "a slot was lost, or is linked twice");
}

static void aba_run(unsigned thread)
{
    unsigned slots[SLOTS];
    if (pop(1, slots) == 0 || thread == 0)
        return;
    unsigned second[SLOTS];
    (void)pop(1, second);
    push(slots[0], slots[0]);
}

static void batch_run(unsigned thread)
{
    unsigned slots[SLOTS];
    if (thread == 0) {
        (void)pop(2, slots);
        return;
    }
    if (broken(BATCH_UNTAGGED)) {
        /* The other one needs the tag, too. */
        if (pop(2, slots) == 2) {
            push(slots[0], slots[0]);
            push(slots[1], slots[1]);
        }
    } else if (pop(1, slots) == 1) {
        unsigned second[SLOTS];
        if (pop(1, second) == 1)
            push(second[0], second[0]);
        push(slots[0], slots[0]);
    }
}

/* Payloads go from hand to hand; thread 1 has slot 3, whose link was written long ago. */
static void pass_run(unsigned thread)
{
    unsigned slots[SLOTS];
    if (thread == 0) {
        data_write(PAYLOAD + 1, 1);
        push(1, 1);
        data_write(PAYLOAD + 2, 1);
        if (broken(ARMED_WHILE_LINKED))
            push(1, 1);
        push(2, 2);
        return;
    }
    (void)pop(1, slots);
    if (pop(1, slots) == 1)
        push(slots[0], slots[0]);
}

/* A chain linked in private goes over with one push. */
static void chain_run(unsigned thread)
{
    unsigned slots[SLOTS];
    if (thread == 0) {
        data_write(PAYLOAD + 1, 1);
        data_write(PAYLOAD + 2, 1);
        store(LINK + 1, 2, RELAXED);
        push(1, 2);
        return;
    }
    push(3, 3);
    (void)pop(2, slots);
}

static const struct scenario scenarios[] = {
    {"a pop overtaken", 2, start_full, aba_run, count_slots},
    {"a batch overtaken", 2, start_full, batch_run, count_slots},
    {"hand to hand", 2, start_held, pass_run, count_slots},
    {"chain", 2, start_held, chain_run, count_slots},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_stack = {
    .name = "stack",
    .what = "the tagged stack: pops of one and of several, pushes of chains",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
