/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the arenas of one service share: the ceiling on what is retained and the limit on what is live.
 *
 * Ceiling. What may still be retained is credit, in weights (core/buf.h). All of it is the budget's at
 * first; an arena charges a grant by CAS before it retains anything with it, and refunds what it does not
 * need. So
 *
 *     budget's credit + credit of all arenas + weight of what is retained = ceiling
 *
 * whoever moves what, and nothing is retained above the ceiling. Lowering it may make the credit negative:
 * what is missing is evicted and refunded. Setters exchange the ceiling and add the difference, so the
 * differences of several add up to the last one's value whatever the order of the additions.
 *
 * Limit. The room for live bytes is one signed number, and taken by CAS before a buffer is handed out: the
 * limit is never passed. An unbounded limit is more room than there is address space. In the room's word
 * are two flags:
 *
 *     {room / 64 : 62, which of two limits it counts from : 1, somebody waits : 1}
 *
 * What is live is limit - room, and a reader gets both from one moment: a setter writes the limit that is
 * not in use, then changes the room and the flag by one addition. If two setters were that fast, the
 * reader finds `changes` moved and reads again. A setter frozen half-way stops no reader.
 *
 * "Somebody waits" is the other half of waiters.c: whoever gives room back learns of waiters by the same
 * read-modify-write, so it costs nothing while nobody waits.
 *
 * Progress: lock-free; setters of the limit, and whoever gives something back while somebody waits, take
 * the waiters' lock.
 *
 * Ordering. Credit and room are numbers and order nothing by themselves. Who sees the flag sees the limit:
 * EDGE budget.limit. For EDGE budget.room see waiters.c.
 */
#include "concurrent/budget.h"

#include "core/perturb.h"

#include <hearth/allocator.h>

#include <assert.h>

static_assert(HEARTH__ROOM_WAITING == 1 && HEARTH__ROOM_LIMITS == 2 && HEARTH__ROOM_SHIFT == 2,
              "two flags below the room");
static_assert(SIZE_MAX / HEARTH__WEIGHT_UNIT <= (UINT64_MAX >> (HEARTH__ROOM_SHIFT + 2)),
              "an unbounded limit fits");

static int64_t room_of(uint64_t word)
{
    return (int64_t)word >> HEARTH__ROOM_SHIFT;
}

static unsigned limits_of(uint64_t word)
{
    return (word & HEARTH__ROOM_LIMITS) != 0;
}

static uint64_t limit_units(size_t bytes)
{
    return bytes / HEARTH__WEIGHT_UNIT;
}

void hearth__budget_init(struct hearth__budget *budget, const struct hearth__budget_limits *limits)
{
    budget->metered = limits->metered;
    budget->grant = limits->grant;
    hearth__store_relaxed(&budget->ceiling, limits->ceiling);
    hearth__store_relaxed(&budget->credit, hearth__units(limits->ceiling));
    hearth__store_relaxed(&budget->limits[0].bytes, limits->live_limit);
    hearth__store_relaxed(&budget->limits[0].reserve, limits->reserve);
    hearth__store_relaxed(&budget->room, limit_units(limits->live_limit) << HEARTH__ROOM_SHIFT);
    hearth__store_relaxed(&budget->changes, 0);
    hearth__waiters_init(&budget->waiters);
}

void hearth__budget_fini(struct hearth__budget *budget)
{
    hearth__waiters_fini(&budget->waiters);
}

void hearth__budget_after_fork_child(struct hearth__budget *budget, size_t live)
{
    (void)hearth__fetch_and_acq_rel(&budget->room, ~HEARTH__ROOM_WAITING);
    if (budget->metered) {
        /* What others had reserved and not handed out yet is nobody's here. */
        uint64_t word = hearth__load_relaxed(&budget->room);
        int64_t room = (int64_t)limit_units(hearth__budget_live_limit(budget)) -
                       (int64_t)hearth__room_units(live);
        hearth__store_relaxed(&budget->room,
                              (uint64_t)room << HEARTH__ROOM_SHIFT |
                                  (word & (((uint64_t)1 << HEARTH__ROOM_SHIFT) - 1)));
    }
    hearth__waiters_after_fork_child(&budget->waiters);
}

int64_t hearth__budget_charge(struct hearth__budget *budget, int64_t least, int64_t wish)
{
    int64_t most = wish > least ? wish : least;
    int64_t credit = hearth__load_relaxed(&budget->credit);
    int64_t amount;
    do {
        if (credit < least)
            return 0;
        amount = credit < most ? credit : most;
    } while (!hearth__cas_weak_relaxed(&budget->credit, &credit, credit - amount));
    return amount;
}

void hearth__budget_refund(struct hearth__budget *budget, int64_t amount)
{
    (void)hearth__fetch_add_relaxed(&budget->credit, amount);
}

void hearth__budget_set_ceiling(struct hearth__budget *budget, size_t bytes)
{
    size_t before = hearth__exchange_acq_rel(&budget->ceiling, bytes);
    int64_t difference = hearth__units(bytes) - hearth__units(before);
    (void)hearth__fetch_add_relaxed(&budget->credit, difference);
}

int64_t hearth__budget_missing(const struct hearth__budget *budget)
{
    int64_t credit = hearth__load_relaxed(&budget->credit);
    return credit < 0 ? -credit : 0;
}

/* Room that requests of this priority must leave. */
static uint64_t floor_of(const struct hearth__budget *budget, uint64_t word, uint32_t priority)
{
    if ((priority & ~HEARTH__ROOM_MAY_WAIT) == HEARTH_PRIORITY_HIGH)
        return 0;
    return hearth__room_units(hearth__load_relaxed(&budget->limits[limits_of(word)].reserve));
}

static bool fits(const struct hearth__budget *budget, uint64_t word, uint64_t units,
                 uint32_t priority)
{
    return (int64_t)units <= room_of(word) - (int64_t)floor_of(budget, word, priority);
}

/* One try to take room from the word as it was read. */
static bool take(struct hearth__budget *budget, uint64_t *word, uint64_t units)
{
    uint64_t taken = *word - (units << HEARTH__ROOM_SHIFT);
    HEARTH__PERTURB("budget.room");
#ifdef HEARTH_BROKEN_ROOM_NO_CAS
    hearth__store_release(&budget->room, taken);
    return true;
#else
    /* Acquire: EDGE budget.limit, observe: the limits that the flag names now. */
    return hearth__cas_weak_acquire(&budget->room, word, taken);
#endif
}

bool hearth__budget_room_reserve(struct hearth__budget *budget, uint64_t units, uint32_t priority)
{
    /* EDGE budget.limit, observe: the reserve. */
    uint64_t word = hearth__load_acquire(&budget->room);
    do {
        if (!fits(budget, word, units, priority))
            return false;
    } while (!take(budget, &word, units));
    return true;
}

bool hearth__budget_room_take(struct hearth__budget *budget, size_t bytes, uint32_t priority)
{
    if (!budget->metered || bytes == 0)
        return true;
    uint64_t units = hearth__room_units(bytes);
    bool polite = (priority & HEARTH__ROOM_MAY_WAIT) != 0;
    bool passes = false;
    /* EDGE budget.limit, observe: the reserve. */
    uint64_t word = hearth__load_acquire(&budget->room);
    do {
        if (!fits(budget, word, units, priority)) {
            if (passes)
                hearth__waiters_pass_undo(&budget->waiters);
            return false;
        }
        if (polite && !passes && (word & HEARTH__ROOM_WAITING) != 0) {
            if (!hearth__waiters_pass(&budget->waiters))
                return false;
            passes = true;
        }
    } while (!take(budget, &word, units));
    return true;
}

bool hearth__budget_room_possible(const struct hearth__budget *budget, uint64_t units,
                                  uint32_t priority)
{
    /* EDGE budget.limit, observe: the limit and the reserve. */
    uint64_t word = hearth__load_acquire(&budget->room);
    uint64_t limit = limit_units(hearth__load_relaxed(&budget->limits[limits_of(word)].bytes));
    uint64_t least = floor_of(budget, word, priority);
    return least <= limit && units <= limit - least;
}

bool hearth__budget_set_live_limit(struct hearth__budget *budget, size_t bytes, size_t reserve)
{
    if (!hearth__waiters_lock(budget))
        return false;
    uint64_t word = hearth__load_relaxed(&budget->room);
    unsigned now = limits_of(word);
    size_t before = hearth__load_relaxed(&budget->limits[now].bytes);
    (void)hearth__fetch_add_release(&budget->changes, 1);
    /* Release, for a reader that is still at it: having read them it finds `changes` moved. */
    hearth__store_release(&budget->limits[1 - now].bytes, bytes);
    hearth__store_release(&budget->limits[1 - now].reserve, reserve);
    uint64_t step = (limit_units(bytes) - limit_units(before)) << HEARTH__ROOM_SHIFT;
    step += now == 0 ? HEARTH__ROOM_LIMITS : -HEARTH__ROOM_LIMITS;
    /* EDGE budget.limit, publish: the limit and its reserve. */
    (void)hearth__fetch_add_acq_rel(&budget->room, step);
    hearth__waiters_unlock_and_serve(budget);
    return true;
}

/* The limit in force and the room that counts from it. */
static size_t read_limit(const struct hearth__budget *budget, int64_t *room)
{
    for (;;) {
        uint64_t changes = hearth__load_acquire(&budget->changes);
        /* EDGE budget.limit, observe: the limit. */
        uint64_t word = hearth__load_acquire(&budget->room);
        size_t limit = hearth__load_acquire(&budget->limits[limits_of(word)].bytes);
        *room = room_of(word);
        if (hearth__load_relaxed(&budget->changes) == changes)
            return limit;
    }
}

size_t hearth__budget_live_capacity(const struct hearth__budget *budget)
{
    int64_t room;
    size_t limit = read_limit(budget, &room);
    return (size_t)((int64_t)limit_units(limit) - room) * HEARTH__WEIGHT_UNIT;
}

size_t hearth__budget_live_limit(const struct hearth__budget *budget)
{
    int64_t room;
    return read_limit(budget, &room);
}

size_t hearth__budget_reserve(const struct hearth__budget *budget)
{
    uint64_t word = hearth__load_acquire(&budget->room);
    return hearth__load_relaxed(&budget->limits[limits_of(word)].reserve);
}
