/* SPDX-License-Identifier: Apache-2.0 */
/* The room's word and the queue of waiters, as in src/concurrent/budget.c, waiters.c and
 * waiters_turns.c: a waiter that nobody wakes shows as a hang, room that got lost at the end. */
#include "models.h"

#include <stddef.h>

enum location {
    WORD,
    LOCK,
    SLOT,
    STATE,
    PHASE = STATE + 2,  /* what the state is, for who has the lock */
    QUEUED = PHASE + 2, /* the place in the order of arrival; 0: none */
    SEEN = QUEUED + 2,
    ARRIVALS = SEEN + 2,
    RETURNS,
    TURNS,
    TURNS_MOST
};

static const char *const locations[] = {
    "word",    "lock",   "slot",   "state 0",  "state 1", "phase 0", "phase 1",    "place 0",
    "place 1", "seen 0", "seen 1", "arrivals", "returns", "turns",   "turns most", NULL};

enum variant_number {
    FLAG_LATE,
    FLAG_RELAXED,
    GIVE_FIRST,
    GIVE_RELAXED,
    NO_CAS,
    CLEAR_UNLOCKED,
    DEADLINE_BLIND,
    TURN_KEPT,
};

static const struct variant variants[] = {
    [FLAG_LATE] = {"flag_late", "the flag goes up after the last look"},
    [FLAG_RELAXED] = {"flag_relaxed",
                      "neither putting up the flag nor taking room observes anything"},
    [GIVE_FIRST] = {"give_first", "room is given before the storage is where a waiter finds it"},
    [GIVE_RELAXED] = {"give_relaxed", "giving room publishes nothing"},
    [NO_CAS] = {"no_cas", "room is taken by a load and a store"},
    [CLEAR_UNLOCKED] = {"clear_unlocked", "the flag goes down after the lock was let go"},
    [DEADLINE_BLIND] = {"deadline_blind", "a waiter leaves without another look under the lock"},
    [TURN_KEPT] = {"turn_kept", "the end of a turn gives the next one none"},
    {NULL, NULL},
};

#define WAITING 1u
#define UNIT 2u

enum state { OUT, SLEEPS, TURN };

/* Units that threads have, and room at the start. */
static uint64_t held;
static uint64_t limit;
static bool needs_slot;
static bool has_deadline;

static void lock(void)
{
    for (;;) {
        uint64_t open = 0;
        if (cas(LOCK, &open, 1, ACQUIRE))
            return;
        await_not(LOCK, 1, RELAXED);
    }
}

static void unlock(void)
{
    store(LOCK, 0, RELEASE);
}

static void add(unsigned location, uint64_t difference)
{
    data_write(location, data_read(location) + difference);
}

static void set_state(unsigned waiter, enum state state)
{
    data_write(PHASE + waiter, state);
    store(STATE + waiter, state, RELAXED);
}

static bool take_room(void)
{
    uint64_t word = load(WORD, RELAXED);
    for (;;) {
        if (word < UNIT)
            return false;
        if (broken(NO_CAS)) {
            store(WORD, word - UNIT, RELEASE);
            return true;
        }
        if (cas(WORD, &word, word - UNIT, broken(FLAG_RELAXED) ? RELAXED : ACQUIRE))
            return true;
    }
}

static void serve(void)
{
    for (uint64_t place = 1; place <= data_read(ARRIVALS); place++) {
        unsigned waiter = data_read(QUEUED) == place ? 0 : 1;
        if (data_read(QUEUED + waiter) != place || data_read(PHASE + waiter) != SLEEPS ||
            data_read(SEEN + waiter) == data_read(RETURNS) ||
            data_read(TURNS) == data_read(TURNS_MOST) || !take_room())
            continue;
        data_write(SEEN + waiter, data_read(RETURNS));
        add(TURNS, 1);
        set_state(waiter, TURN);
    }
    data_write(TURNS_MOST, data_read(TURNS));
}

static void give(bool slot)
{
    if (slot && !broken(GIVE_FIRST))
        store(SLOT, 1, RELAXED);
    uint64_t word = fetch_add(WORD, slot ? 0 : UNIT, broken(GIVE_RELAXED) ? RELAXED : ACQ_REL);
    if (slot && broken(GIVE_FIRST))
        store(SLOT, 1, RELAXED);
    if ((word & WAITING) == 0)
        return;
    lock();
    add(RETURNS, 1);
    if (data_read(QUEUED) + data_read(QUEUED + 1) != 0)
        add(TURNS_MOST, 1);
    serve();
    unlock();
}

static void raise_flag(void)
{
    (void)fetch_or(WORD, WAITING, broken(FLAG_RELAXED) ? RELAXED : ACQ_REL);
}

static void join(unsigned waiter)
{
    add(ARRIVALS, 1);
    data_write(QUEUED + waiter, data_read(ARRIVALS));
    data_write(SEEN + waiter, data_read(RETURNS) - 1);
    set_state(waiter, SLEEPS);
    if (data_read(TURNS_MOST) == 0)
        data_write(TURNS_MOST, 1);
    if (!broken(FLAG_LATE))
        raise_flag();
    serve();
}

/* Lets the lock go. */
static void leave(unsigned waiter)
{
    if (data_read(PHASE + waiter) == TURN)
        add(TURNS, UINT64_MAX);
    data_write(QUEUED + waiter, 0);
    set_state(waiter, OUT);
    bool last = data_read(QUEUED) + data_read(QUEUED + 1) == 0;
    if (last && !broken(CLEAR_UNLOCKED))
        (void)fetch_and(WORD, ~(uint64_t)WAITING, ACQ_REL);
    if (!broken(TURN_KEPT))
        serve();
    unlock();
    if (last && broken(CLEAR_UNLOCKED))
        (void)fetch_and(WORD, ~(uint64_t)WAITING, ACQ_REL);
}

static bool take_slot(void)
{
    uint64_t slot = load(SLOT, RELAXED);
    return slot != 0 && cas(SLOT, &slot, slot - 1, ACQUIRE);
}

/* With the lock, which is let go. False: the deadline ended it. */
static bool await_turn(unsigned waiter)
{
    while (data_read(PHASE + waiter) == SLEEPS) {
        if (broken(FLAG_LATE))
            raise_flag();
        unlock();
        if (!has_deadline) {
            await_not(STATE + waiter, SLEEPS, RELAXED);
            lock();
            continue;
        }
        bool seen = load(STATE + waiter, RELAXED) == TURN;
        lock();
        if (broken(DEADLINE_BLIND) ? seen : data_read(PHASE + waiter) == TURN)
            break;
        leave(waiter);
        return false;
    }
    unlock();
    return true;
}

/* Wait for a unit of room and, where they are short, a slot. */
static void wait_for_all(unsigned waiter)
{
    lock();
    join(waiter);
    while (await_turn(waiter)) {
        bool done = !needs_slot || take_slot();
        lock();
        if (done) {
            held++;
            leave(waiter);
            return;
        }
        (void)fetch_add(WORD, UNIT, ACQ_REL);
        add(TURNS, UINT64_MAX);
        set_state(waiter, SLEEPS);
        if (!broken(TURN_KEPT))
            serve();
    }
}

static void begin(uint64_t room, uint64_t slots, bool with_slots, bool with_deadline)
{
    limit = room;
    held = 0;
    needs_slot = with_slots;
    has_deadline = with_deadline;
    initial(WORD, room * UNIT);
    initial(SLOT, slots);
    initial(RETURNS, 1);
}

static void end(void)
{
    require(final(WORD) / UNIT + held == limit, "room got lost");
    require((final(WORD) & WAITING) == 0, "the flag is up, and nobody waits");
}

static void begin_slot(void)
{
    begin(2, 0, true, false);
}

static void slot_run(unsigned thread)
{
    if (thread == 0)
        wait_for_all(0);
    else
        give(true);
}

/* All room is out; one unit comes back. */
static void begin_room(void)
{
    begin(0, 0, false, false);
    limit = 1;
}

static void room_run(unsigned thread)
{
    if (thread == 0)
        wait_for_all(0);
    else
        give(false);
}

static void begin_deadline(void)
{
    begin(0, 0, false, true);
    limit = 1;
}

/* A unit for each of two waiters, which the first hands on. */
static void pass_run(unsigned thread)
{
    if (thread == 2) {
        give(false);
        return;
    }
    wait_for_all(thread);
    held--;
    give(false);
}

/* A single return of two units, or one for somebody who does not wait. */
static void begin_two(void)
{
    begin(0, 0, false, false);
    limit = 2;
}

static void two_run(unsigned thread)
{
    if (thread == 2) {
        (void)fetch_add(WORD, UNIT, RELAXED);
        give(false);
    } else {
        wait_for_all(thread);
    }
}

static void begin_taker(void)
{
    begin(1, 0, false, false);
}

/* Takes and gives back what a waiter needs. */
static void taker_run(unsigned thread)
{
    if (thread == 0)
        wait_for_all(0);
    else if (take_room())
        give(false);
}

static const struct scenario scenarios[] = {
    {"a slot", 2, begin_slot, slot_run, end},
    {"room", 2, begin_room, room_run, end},
    {"a deadline", 2, begin_deadline, room_run, end},
    {"against a taker", 2, begin_taker, taker_run, end},
    {"two units for two", 3, begin_two, two_run, end},
    {"one unit for two", 3, begin_room, pass_run, end},
    {NULL, 0, NULL, NULL, NULL},
};

const struct model model_waiters = {
    .name = "waiters",
    .what = "who waits for room, and who gives it back",
    .locations = locations,
    .scenarios = scenarios,
    .variants = variants,
};
