/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the arenas of one service share: credit to retain, room for live bytes, and who waits for it.
 *
 * Numbers only: nobody's storage is touched here. See the essay in budget.c.
 *
 *                  charge  room_take  room_give  set_*  wait  init/fini    '-' may overlap, 'X' excluded
 *     charge          -        -          -        -      -       X
 *     room_take       -        -          -        -      -       X
 *     room_give       -        -          -        -      -       X
 *     set_*           -        -          -        -      -       X
 *     wait            -        -          -        -      -       X
 */
#ifndef HEARTH_CONCURRENT_BUDGET_H
#define HEARTH_CONCURRENT_BUDGET_H

#include "concurrent/waiters.h"
#include "core/atomic.h"
#include "core/buf.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The padding is the point: lines of their own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth__budget {
    bool metered; /* const: whether live bytes are counted at all */
    size_t grant; /* const: bytes of credit taken at a time */
    alignas(
        64) _Atomic(int64_t) credit; /* weights that may still be retained; below 0 after a cut */
    _Atomic(size_t) ceiling;         /* writer: exchange by setters */
    /* {room : 62, limits : 1, somebody waits : 1}. The room is signed, in units of 64 bytes: what may
     * still become live. Writer: any, by read-modify-write; the flags only under the waiters' lock. */
    alignas(64) _Atomic(uint64_t) room;
    /* The limit that the room counts from: limits[word's bit]. Writer: setters, the other one. */
    struct {
        _Atomic(size_t) bytes;
        _Atomic(size_t) reserve;
    } limits[2];
    _Atomic(uint64_t) changes; /* of limits; writer: setters, before they write */
    alignas(64) struct hearth__waiters waiters;
};

struct hearth__budget_limits {
    size_t ceiling;    /* bytes retained; HEARTH_UNBOUNDED */
    size_t grant;      /* bytes */
    size_t live_limit; /* bytes live; HEARTH_UNBOUNDED */
    size_t reserve;    /* the last bytes of it, for HEARTH_PRIORITY_HIGH; 0: none */
    bool metered;      /* must be true for a live_limit, ever, and for waiting */
};

/* Also for memory that was in use before. Nobody else knows the budget yet. */
void hearth__budget_init(struct hearth__budget *budget, const struct hearth__budget_limits *limits);

/* Nobody waits, and nobody uses the budget any more. */
void hearth__budget_fini(struct hearth__budget *budget);

/* In a forked child: whoever waited is gone. The calling thread did not wait. `live`: capacity that
 * is handed out, as the arenas know it. */
void hearth__budget_after_fork_child(struct hearth__budget *budget, size_t live);

/* Credit, in weights (core/buf.h, hearth__units()). Any thread, lock-free. */

/* Take between `least` (>= 1) and `wish`; 0 when less than `least` is there. */
int64_t hearth__budget_charge(struct hearth__budget *budget, int64_t least, int64_t wish);

/* Give back what was charged. */
void hearth__budget_refund(struct hearth__budget *budget, int64_t amount);

/* Of several setters at once, the last one's value stays. What was charged before stays charged. */
void hearth__budget_set_ceiling(struct hearth__budget *budget, size_t bytes);

/* How far the credit is below zero: to be evicted and refunded. */
int64_t hearth__budget_missing(const struct hearth__budget *budget);

static inline size_t hearth__budget_ceiling(const struct hearth__budget *budget)
{
    return hearth__load_relaxed(&budget->ceiling);
}

/* Whether there is a ceiling. */
static inline bool hearth__budget_bounded(const struct hearth__budget *budget)
{
    return hearth__budget_ceiling(budget) != SIZE_MAX;
}

/* Room for live bytes. Any thread. Without `metered`, nothing is counted and all is granted. */

/* Joined to a priority in room_take(): the caller will wait when it is refused, so it stays behind a
 * waiter that was passed too often. Without it requests pass waiters as long as there is room. */
#define HEARTH__ROOM_MAY_WAIT ((uint32_t)1 << 31)

#define HEARTH__ROOM_WAITING ((uint64_t)1)
#define HEARTH__ROOM_LIMITS ((uint64_t)2)
#define HEARTH__ROOM_SHIFT 2

/* Units that `bytes` take. */
static inline uint64_t hearth__room_units(size_t bytes)
{
    return bytes / HEARTH__WEIGHT_UNIT + (bytes % HEARTH__WEIGHT_UNIT != 0);
}

/* Reserve room before a buffer of this capacity is handed out. False: the limit would be passed.
 * `priority`: an enum hearth_priority, perhaps with HEARTH__ROOM_MAY_WAIT. Lock-free. */
bool hearth__budget_room_take(struct hearth__budget *budget, size_t bytes, uint32_t priority);

/* The same for waiters: no manners. */
bool hearth__budget_room_reserve(struct hearth__budget *budget, uint64_t units, uint32_t priority);

/* Whether somebody waits: who could do without storage leaves it then. */
static inline bool hearth__budget_is_waited_for(const struct hearth__budget *budget)
{
    return budget->metered && (hearth__load_acquire(&budget->room) & HEARTH__ROOM_WAITING) != 0;
}

/* Add room; whether somebody waits. */
static inline bool hearth__budget_room_add(struct hearth__budget *budget, uint64_t units)
{
    /* EDGE budget.room, publish: whatever came back, for who is about to wait. */
    uint64_t word = hearth__fetch_add_acq_rel(&budget->room, units << HEARTH__ROOM_SHIFT);
    return (word & HEARTH__ROOM_WAITING) != 0;
}

/* Give room back, after the storage went where a waiter would find it; with 0 bytes: storage or a slot
 * came back that was not live. Inside a section or not. Takes the waiters' lock if there are any. */
static inline void hearth__budget_room_give(struct hearth__budget *budget, size_t bytes)
{
    if (budget->metered &&
        hearth__unlikely(hearth__budget_room_add(budget, hearth__room_units(bytes))))
        hearth__waiters_serve(budget, true, 1);
}

/* Give room back that was taken in vain: nothing came back that was not there before. */
static inline void hearth__budget_room_undo(struct hearth__budget *budget, size_t bytes)
{
    if (budget->metered &&
        hearth__unlikely(hearth__budget_room_add(budget, hearth__room_units(bytes))))
        hearth__waiters_serve(budget, false, 1);
}

/* Set the limit and the part of it that is reserved, and serve waiters. Of several setters at once, the
 * last one's stay. The budget must be metered. False: a signal handler interrupted somebody who holds the lock. */
bool hearth__budget_set_live_limit(struct hearth__budget *budget, size_t bytes, size_t reserve);

/* Capacity taken and not given back; 0 when not metered. */
size_t hearth__budget_live_capacity(const struct hearth__budget *budget);

size_t hearth__budget_live_limit(const struct hearth__budget *budget);
size_t hearth__budget_reserve(const struct hearth__budget *budget);

/* Whether a request could be granted if nothing else were live. */
bool hearth__budget_room_possible(const struct hearth__budget *budget, uint64_t units,
                                  uint32_t priority);

#endif
