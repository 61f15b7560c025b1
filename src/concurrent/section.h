/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's section: the mark that says "the owner is inside", and the look that tells the owner of
 * anything out of the ordinary, such as a thread that visits its cache.
 *
 * The owner marks itself busy with a plain store, keeps the compiler from moving the look above it, and
 * looks at the attention word. On the processor the store may still pass the load; a visitor makes up
 * for that with one membarrier between raising its flag and reading the mark, so that the owner pays
 * for no fence. Either the visitor sees the mark, or the owner sees the flag.
 *
 * The mark is one value of the gate. Its other values are owners: while the gate shows the token of the
 * calling thread, the thread owns the arena and nobody is inside, so one compare opens the plain path.
 *
 * The mark is cleared before anything that can block or run foreign code: backings, system calls, the
 * misuse callback. An operation that finds its own thread's mark set was called from a signal handler
 * in the middle of another one; it must not touch what the mark guards.
 */
#ifndef HEARTH_CONCURRENT_SECTION_H
#define HEARTH_CONCURRENT_SECTION_H

#include "concurrent/thread.h"
#include "core/atomic.h"

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

/* The value of a gate while somebody is inside. Else it is the owner word's: a token, or nobody's. */
#define HEARTH__GATE_BUSY ((uint64_t)1)

static_assert(HEARTH__GATE_BUSY < HEARTH__OWNER_NONE, "the mark is told from owners");

/* A bit of the gate that no token has: an arena whose gate carries it keeps its owner off the plain path of the
 * lists, and lets it into one of its own. Set when the arena is made, or never. */
#define HEARTH__GATE_OTHER ((uint64_t)1 << 63)

/* Reasons to look up. */
#define HEARTH__ATTENTION_INBOX 1u   /* other threads returned something that was not taken in */
#define HEARTH__ATTENTION_VISITED 2u /* a visitor has what the section guards, or is about to */
#define HEARTH__ATTENTION_DEAD 4u    /* the owner is exiting */
#define HEARTH__ATTENTION_CLOSED 8u  /* the arena was closed */
#define HEARTH__ATTENTION_GONE                                                                     \
    16u /* the arena ended: the section's place is the owner's to give up */
#define HEARTH__ATTENTION_CREDIT 32u   /* the arena's cap changed: give surplus credit back */
#define HEARTH__ATTENTION_PEAK 64u     /* the arena's peak was reset */
#define HEARTH__ATTENTION_FLUSH 128u   /* a trim could not get in: empty the magazines */
#define HEARTH__ATTENTION_METERED 256u /* plain paths are closed: debugging, a ceiling, a limit */
#define HEARTH__ATTENTION_ASKED 512u   /* a trim could not get in: give back what is old */
#define HEARTH__ATTENTION_ENDED 1024u  /* whoever has VISITED ends the arena: it stays raised */

/* The padding is the point: lines of their own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth__section {
    _Atomic(uint64_t) gate; /* writer: the owner */
    /* Writer: any, by read-modify-write. A line of its own: the owner reads it on each operation, and
     * whoever raises a bit must not take the line that the owner writes. */
    alignas(64) _Atomic(uint32_t) attention;
};

/* The only stand-alone fence of the library: for the compiler, against signal handlers and visitors. */
static inline void hearth__section_barrier(void)
{
    /* Sequentially consistent, for a store before a load; it emits no instruction. */
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void hearth__section_init(struct hearth__section *section, uint64_t gate)
{
    hearth__store_relaxed(&section->attention, 0);
    hearth__store_relaxed(&section->gate, gate);
}

/* Leave; `gate` opens the plain path to the thread whose token it is, or to nobody. */
static inline void hearth__section_leave(struct hearth__section *section, uint64_t gate)
{
    /* EDGE section.leave, publish: all that was done inside. */
    hearth__store_release(&section->gate, gate);
}

/* Enter by the plain path: true if the gate shows `token` and nothing asks for attention. Leave with
 * the same token. */
static inline bool hearth__section_enter_plain(struct hearth__section *section, uint64_t token)
{
    if (hearth__unlikely(hearth__load_relaxed(&section->gate) != token))
        return false;
    hearth__store_relaxed(&section->gate, HEARTH__GATE_BUSY);
    hearth__section_barrier();
    /* EDGE section.visit, observe: what visitors did who have left, and whatever asks for attention. */
    if (hearth__unlikely(hearth__load_acquire(&section->attention) != 0)) {
        hearth__section_leave(section, token);
        return false;
    }
    return true;
}

/* Whether somebody is inside; any thread. */
static inline bool hearth__section_busy(const struct hearth__section *section)
{
    return hearth__load_acquire(&section->gate) == HEARTH__GATE_BUSY;
}

/* For the owner: whether it may enter by the general path. Not while it is inside, and not while it is
 * about to give the arena away: a signal handler may ask at any moment. */
static inline bool hearth__section_open(const struct hearth__section *section, uint64_t token)
{
    return hearth__load_relaxed(&section->gate) == token;
}

/*
 * A visitor's side. `raise` for each section of a pass, then one membarrier, then `visit` for those that
 * were raised; in the end `lower`, whether the visitor got in or not. Only who raised a flag lowers it.
 */

/* True if the flag was down: it is the caller's to lower now. */
static inline bool hearth__section_raise(struct hearth__section *section)
{
#ifdef HEARTH_BROKEN_VISIT_FLAG_NO_CAS
    uint32_t attention = hearth__load_relaxed(&section->attention);
    hearth__store_relaxed(&section->attention, attention | HEARTH__ATTENTION_VISITED);
    return true;
#else
    /* EDGE section.visit, observe: what the visitor before did. One read-modify-write decides between
     * visitors; with plain stores both would believe to be alone. */
    return (hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_VISITED) &
            HEARTH__ATTENTION_VISITED) == 0;
#endif
}

/* After the membarrier: whether the owner is outside and stays out while the flag is up. */
static inline bool hearth__section_visit(const struct hearth__section *section)
{
    /* EDGE section.leave, observe: all that the owner did inside. */
    return hearth__load_acquire(&section->gate) != HEARTH__GATE_BUSY;
}

/* Lower the flag; the other reasons for attention at that moment are returned. */
static inline uint32_t hearth__section_lower(struct hearth__section *section)
{
    /* EDGE section.visit, publish: what the visitor did. */
    return hearth__fetch_and_acq_rel(&section->attention, ~HEARTH__ATTENTION_VISITED);
}

/* Enter by the general path, as the owner; or enter again after a backing call in mid-operation. */
static inline void hearth__section_resume(struct hearth__section *section)
{
    hearth__store_relaxed(&section->gate, HEARTH__GATE_BUSY);
    hearth__section_barrier();
}

#endif
