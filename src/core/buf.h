/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffer descriptor, its state word, and its storage.
 *
 * A slot is 128 bytes in a metadata segment (meta.h) that is never unmapped, so any thread may read
 * the words of any slot at any time; what they mean is decided by the state word.
 */
#ifndef HEARTH_CORE_BUF_H
#define HEARTH_CORE_BUF_H

#include "core/atomic.h"

#include <hearth/allocator.h>
#include <hearth/backing.h>

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The state word: {generation : 43, state : 3, count : 18}. The generation moves at each return and
 * never restarts: at its last value the slot is retired (43 bits last a day of one slot being
 * returned a hundred million times a second). The count is the references of a lease.
 */
enum hearth__state {
    HEARTH__UNUSED = 0, /* no storage */
    HEARTH__LIVE = 1,
    HEARTH__LEASED = 2,
    HEARTH__RETURNING = 3,
    HEARTH__CACHED = 4,
    HEARTH__FREE = 5,    /* storage retained */
    HEARTH__EVICTED = 6, /* claimed while linked in a shared list; count: HEARTH__EVICTED_* */
};

/* The two halves of an eviction, in any order; the second one makes the slot unused. */
#define HEARTH__EVICTED_DETACHED ((uint64_t)1) /* its storage was taken off */
#define HEARTH__EVICTED_UNLINKED ((uint64_t)2) /* it was popped */

#define HEARTH__COUNT_BITS 18
#define HEARTH__STATE_BITS 3
#define HEARTH__GENERATION_SHIFT (HEARTH__COUNT_BITS + HEARTH__STATE_BITS)
#define HEARTH__GENERATION_MAX (UINT64_MAX >> HEARTH__GENERATION_SHIFT)

static inline uint64_t hearth__word(uint64_t generation, enum hearth__state state)
{
    return generation << HEARTH__GENERATION_SHIFT | (uint64_t)state << HEARTH__COUNT_BITS;
}

#define HEARTH__GENERATION_ONE ((uint64_t)1 << HEARTH__GENERATION_SHIFT)
#define HEARTH__BELOW_GENERATION (HEARTH__GENERATION_ONE - 1)
#define HEARTH__LIVE_BITS ((uint64_t)HEARTH__LIVE << HEARTH__COUNT_BITS)
#define HEARTH__FREE_BITS ((uint64_t)HEARTH__FREE << HEARTH__COUNT_BITS)

static inline uint64_t hearth__word_generation(uint64_t word)
{
    return word >> HEARTH__GENERATION_SHIFT;
}

static inline enum hearth__state hearth__word_state(uint64_t word)
{
    return (enum hearth__state)(word >> HEARTH__COUNT_BITS & ((1u << HEARTH__STATE_BITS) - 1));
}

#define HEARTH__COUNT_MAX (((uint64_t)1 << HEARTH__COUNT_BITS) - 1)

static inline uint64_t hearth__word_count(uint64_t word)
{
    return word & HEARTH__COUNT_MAX;
}

/* The word of a lease with one reference. */
static inline uint64_t hearth__word_leased(uint64_t generation)
{
    return hearth__word(generation, HEARTH__LEASED) | 1;
}

/* The segment a buffer's storage lies in, as the backing described it. Storage is always {segment,
 * offset, length}, so that a store may split segments; the length is the buffer's capacity. */
struct hearth__storage {
    void *base;
    size_t length;
    uint64_t cookie;
};

/*
 * A weight counts buffers and their capacity in one word: {capacity / 64 : 38, count : 26}. Weights are
 * added and subtracted whole; a difference is right, modulo 2^64, as long as what it describes is
 * below 2^26 buffers and 2^44 bytes, which HEARTH__SLOTS_MAX and HEARTH__HELD_MAX see to for the owner.
 * Another thread's two readings may enclose more than that; see exec_read.c.
 */
typedef uint64_t hearth__weight;

#define HEARTH__WEIGHT_COUNT_BITS 26
#define HEARTH__WEIGHT_UNIT ((size_t)64)
#define HEARTH__HELD_MAX (((size_t)1 << 44) - 1)

/* capacity: a multiple of HEARTH__WEIGHT_UNIT. */
static inline hearth__weight hearth__weight_of(size_t count, size_t capacity)
{
    return (hearth__weight)(capacity / HEARTH__WEIGHT_UNIT) << HEARTH__WEIGHT_COUNT_BITS | count;
}

static inline size_t hearth__weight_count(hearth__weight weight)
{
    return (size_t)(weight & (((hearth__weight)1 << HEARTH__WEIGHT_COUNT_BITS) - 1));
}

static inline size_t hearth__weight_capacity(hearth__weight weight)
{
    return (size_t)(weight >> HEARTH__WEIGHT_COUNT_BITS) * HEARTH__WEIGHT_UNIT;
}

/* Stands for unbounded credit, in units: 4 TiB. */
#define HEARTH__UNITS_MOST ((int64_t)1 << 36)

/* Bytes as credit, in weights; with room for the counts of the buffers, which must not eat into the
 * bytes. */
static inline int64_t hearth__units(size_t bytes)
{
    size_t units = bytes / HEARTH__WEIGHT_UNIT;
    int64_t capped = units > (size_t)HEARTH__UNITS_MOST ? HEARTH__UNITS_MOST : (int64_t)units;
    return (capped << HEARTH__WEIGHT_COUNT_BITS) + ((int64_t)1 << HEARTH__WEIGHT_COUNT_BITS) - 1;
}

/* A return by a thread that does not own the arena, packed: {generation : 43, overtaken : 20,
 * queued : 1}. See concurrent/inbox.c. */
#define HEARTH__QUEUED ((uint64_t)1)
#define HEARTH__OVERTAKEN_SHIFT 1
#define HEARTH__OVERTAKEN_ONE ((uint64_t)1 << HEARTH__OVERTAKEN_SHIFT)
#define HEARTH__OVERTAKEN_MASK ((((uint64_t)1 << HEARTH__GENERATION_SHIFT) - 1) & ~HEARTH__QUEUED)

/* Gives storage from outside back to where it came from. */
typedef void hearth__adopted_release(void *data, size_t size, void *context);

struct hearth_buf {
    /* Writer: the holder by plain stores; CAS where several may race (leases, detached arenas). */
    _Atomic(uint64_t) state;
    /* Writer: whoever attaches or detaches storage. Read by hearth_buf_of() at any time. */
    _Atomic(void *) data;
    /* Logical bytes, and the weight of the usable ones. Writer: the holder, the owner. Atomic because a
     * stale return may read them while the rightful holder writes; what it reads then only feeds a
     * statistic. */
    _Atomic(size_t) size;
    _Atomic(hearth__weight) weight; /* of the capacity; 0 without storage */
    /* Whoever holds the slot or the private list it is on, such as an execution arena's owner. */
    struct hearth_buf *next; /* towards less recently freed; also links chains and unused slots */
    union {
        struct hearth_buf *prev; /* exec: towards more recently freed */
        /* I/O: the slot below in a shared stack. Writer: whoever pushes it, until it is popped; anybody
         * may read it at any time. See concurrent/stack.h. */
        _Atomic(uint32_t) link;
    };
    /* The arena's clock when it was freed. Writer: as next; evictors of an I/O arena may read it. */
    _Atomic(uint64_t) stamp;
    uint32_t index;        /* process-wide slot number, never 0 */
    uint16_t size_class;   /* of the capacity, rounded down */
    uint8_t alignment_log; /* of the request the storage was made for; 6 for default */
    uint8_t flags;         /* HEARTH__BUF_* */

    /* Second line: cold, or touched by other threads. */

    /* Writer: CAS by returning threads, exchange by the owner's drain. See concurrent/inbox.c. */
    _Atomic(uint64_t) returned;
    union {
        struct hearth_buf *inbox_next;    /* exec. Writer: the thread that queued the slot */
        hearth__adopted_release *release; /* I/O: for storage from outside */
    };
    /* Totals of the slot and all below it in the inbox chain. Writer: the thread that queues it. */
    _Atomic(size_t) queued_size;
    _Atomic(size_t) queued_capacity;
    _Atomic(uint32_t) queued_count;
    uint32_t offset; /* of the data in its segment, in units of 64 bytes */
    struct hearth__storage storage;
};

static inline size_t hearth__buf_capacity(const struct hearth_buf *buf)
{
    return hearth__weight_capacity(hearth__load_relaxed(&buf->weight));
}

/* The storage reads as zero: fresh from a backing that says so, and not handed out since. */
#define HEARTH__BUF_ZERO 1u
/* The storage is from outside: not charged, and given back by the slot's release. */
#define HEARTH__BUF_ADOPTED 2u
/* Most pages of its span went back already. */
#define HEARTH__BUF_PURGED 4u

/* Marks beside the logarithm in `alignment_log`, of an execution arena with spans: exec_spans.c. */
#define HEARTH__MARK_SPAN                                                                          \
    0x40u /* the storage is a span of the arena's store, named by the cookie */
#define HEARTH__MARK_SEGMENT 0x80u /* no slot: a segment on its way to the backing */

/* The slot of a place in a slab had to take other storage, until it is returned: exec_plan.c. */
#define HEARTH__BUF_MOVED 8u

/* A mark beside the logarithm in `alignment_log`: the slot is a place in the slab of a book. */
#define HEARTH__MARK_PLACE 0x20u
#define HEARTH__ALIGNMENT_LOG_MASK 0x1fu

#define HEARTH__SLOT_SHIFT 7
#define HEARTH__SLOT_BYTES (1 << HEARTH__SLOT_SHIFT)
#define HEARTH__ALIGNMENT_LOG_MIN 6
#define HEARTH__ALIGNMENT_LOG_MAX 21

static_assert(sizeof(struct hearth_buf) == HEARTH__SLOT_BYTES, "slots are two cache lines");
static_assert(offsetof(struct hearth_buf, returned) == 64, "remote words have a line of their own");

/* Attach storage to an unused slot that the caller owns, and make its data findable. Returns NO_MEMORY
 * when the address table cannot grow; nothing is attached then. */
enum hearth_status hearth__buf_attach(struct hearth_buf *buf, const struct hearth_segment *segment,
                                      unsigned alignment_log);

/* Take a slot's storage off it; the slot keeps its generation and has no data afterwards. */
void hearth__buf_detach(struct hearth_buf *buf, struct hearth_segment *segment);

/* Exchange the storage of two slots that the caller owns. */
void hearth__buf_swap_storage(struct hearth_buf *a, struct hearth_buf *b);

/* Give a slot's storage to an empty one; the caller owns both. */
void hearth__buf_move_storage(struct hearth_buf *from, struct hearth_buf *to);

/* The status for a return, resize or export of a slot whose word is not LIVE. */
enum hearth_status hearth__buf_not_live(uint64_t word);

#endif
