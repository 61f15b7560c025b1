/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process-wide metadata: type-stable segments for slots and arena cores, and the address tables that
 * find a slot's arena and a payload's slot in O(1) without dereferencing the argument.
 *
 * Rules for callers: a segment's memory is never unmapped and never changes its kind; generations in
 * its slots survive recycling. See the essay in meta.c.
 */
#ifndef HEARTH_CORE_META_H
#define HEARTH_CORE_META_H

#include "core/atomic.h"
#include "core/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTH__GRANULE_SHIFT 16
#define HEARTH__GRANULE_BYTES ((size_t)1 << HEARTH__GRANULE_SHIFT)
#define HEARTH__GRANULE_MASK (HEARTH__GRANULE_BYTES - 1)

/* Bytes at the start of a core segment for the segment's header and the arena's core. Not a multiple of the
 * page: an arena's first slot would else agree in its low address bits with the start of page-aligned
 * payloads, and the processor takes a load from the one after a store to the other for a dependency
 * (3 % of a pair of 4 KiB). */
#define HEARTH__CORE_BYTES ((size_t)8192 + 128)

/* Bytes at the start of a slot segment for the segment's header. */
#define HEARTH__HEADER_BYTES ((size_t)128)

/* A core's place in its segment, on a cache line of its own. */
#define HEARTH__CORE_OFFSET ((size_t)128)

#define HEARTH__SLOTS_PER_GRANULE (HEARTH__GRANULE_BYTES / HEARTH__SLOT_BYTES)

/* Slots that can exist in a process: 2^16 segments of up to 511. */
#define HEARTH__SEGMENTS_MAX ((uint32_t)1 << 16)
#define HEARTH__SLOTS_MAX ((size_t)HEARTH__SEGMENTS_MAX * HEARTH__SLOTS_PER_GRANULE)

/* Kinds are pools of their own, so that recycled memory keeps its type. */
enum hearth__segment_kind {
    HEARTH__SEGMENT_SLOTS, /* slots only */
    HEARTH__SEGMENT_EXEC,  /* an execution arena's core, then slots */
    HEARTH__SEGMENT_SIMPLE,
    HEARTH__SEGMENT_BINS,  /* lists for aligned storage; no slots */
    HEARTH__SEGMENT_SPANS, /* a store of spans, or nodes for it; no slots */
    /* Slots of I/O arenas keep to themselves: a stale pop may read the link of any of them. */
    HEARTH__SEGMENT_IO,        /* an I/O arena's core, then slots */
    HEARTH__SEGMENT_IO_SLOTS,  /* slots only */
    HEARTH__SEGMENT_IO_LISTS,  /* shared lists; no slots */
    HEARTH__SEGMENT_IO_CACHES, /* threads' caches; no slots */
    HEARTH__SEGMENT_SERVICE,   /* a service; no slots */
    HEARTH__SEGMENT_KINDS,
};

struct hearth__segment {
    /* The arena the segment serves; NULL while pooled. Writer: the thread that acquires or releases
     * the segment. Readers: any, to tell arenas apart; what it points to is type-stable. */
    _Atomic(struct hearth_allocator *) arena;
    uint32_t id; /* index in the directory, from 1 */
    uint32_t kind;
    uint32_t first_slot;          /* slots start at this multiple of HEARTH__SLOT_BYTES */
    _Atomic(uint32_t) next_free;  /* id of the next pooled segment; valid while pooled */
    struct hearth__segment *next; /* the arena's list of its segments */
};

static_assert(sizeof(struct hearth__segment) <= HEARTH__HEADER_BYTES, "header fits");

/* A segment of this kind, pooled or new, now serving `arena` (may be NULL: set later). NULL when the
 * kernel refuses memory or ids have run out. */
struct hearth__segment *hearth__segment_acquire(enum hearth__segment_kind kind);

/* Pool a segment. All its slots must be unused. */
void hearth__segment_release(struct hearth__segment *segment);

/* Segments ever made, for tests of flat metadata. */
uint32_t hearth__segment_count(void);

static inline void *hearth__segment_core(struct hearth__segment *segment)
{
    return (char *)segment + HEARTH__CORE_OFFSET;
}

static inline struct hearth__segment *hearth__core_segment(const void *core)
{
    return (struct hearth__segment *)((uintptr_t)core - HEARTH__CORE_OFFSET);
}

static inline struct hearth_buf *hearth__segment_slot(struct hearth__segment *segment, uint32_t n)
{
    return (struct hearth_buf *)((char *)segment + (size_t)n * HEARTH__SLOT_BYTES);
}

/* Granule table entries. A granule belongs to one segment, or holds payload starts of a leaf. */
#define HEARTH__ENTRY_SEGMENT ((uintptr_t)1)
#define HEARTH__ENTRY_LEAF ((uintptr_t)2)
#define HEARTH__ENTRY_TAG ((uintptr_t)3)

#define HEARTH__TABLE_BITS 16
#define HEARTH__TABLE_SIZE ((size_t)1 << HEARTH__TABLE_BITS)

struct hearth__table {
    _Atomic(uintptr_t) entries[HEARTH__TABLE_SIZE];
};

extern _Atomic(struct hearth__table *) hearth__directory[HEARTH__TABLE_SIZE];

/* The entry of an address, 0 if there is none. Any value whatever is a fine argument. */
static inline uintptr_t hearth__entry_of(uintptr_t address)
{
    if (address >> (HEARTH__GRANULE_SHIFT + 2 * HEARTH__TABLE_BITS) != 0)
        return 0;
    /* EDGE meta.table, observe: the table's zeroes and the segment's header are readable. */
    struct hearth__table *table = hearth__load_acquire(
        &hearth__directory[address >> (HEARTH__GRANULE_SHIFT + HEARTH__TABLE_BITS)]);
    if (table == NULL)
        return 0;
    return hearth__load_acquire(
        &table->entries[address >> HEARTH__GRANULE_SHIFT & (HEARTH__TABLE_SIZE - 1)]);
}

/* The segment that holds the slot at this address; NULL when there is no slot. O(1), wait-free, and
 * `buf` is not dereferenced. */
static inline struct hearth__segment *hearth__segment_of(const struct hearth_buf *buf)
{
    uintptr_t address = (uintptr_t)buf;
    uintptr_t entry = hearth__entry_of(address);
    if ((entry & HEARTH__ENTRY_TAG) != HEARTH__ENTRY_SEGMENT || address % HEARTH__SLOT_BYTES != 0)
        return NULL;
    struct hearth__segment *segment = (struct hearth__segment *)(entry - HEARTH__ENTRY_SEGMENT);
    if ((address & HEARTH__GRANULE_MASK) < (uintptr_t)segment->first_slot * HEARTH__SLOT_BYTES)
        return NULL;
    return segment;
}

/* Whether `buf` is a slot of the arena whose core is given. The common case, a slot in the core's own
 * segment, needs no table. */
static inline bool hearth__slot_in(const struct hearth_buf *buf,
                                   const struct hearth_allocator *arena)
{
    /* Slot number in the core's segment: a remainder would end up in the top bits. */
    uintptr_t offset =
        (uintptr_t)buf - (uintptr_t)arena - (HEARTH__CORE_BYTES - HEARTH__CORE_OFFSET);
    uintptr_t number = offset >> HEARTH__SLOT_SHIFT | offset << (64 - HEARTH__SLOT_SHIFT);
    if (hearth__likely(number < (HEARTH__GRANULE_BYTES - HEARTH__CORE_BYTES) / HEARTH__SLOT_BYTES))
        return true;
    struct hearth__segment *segment = hearth__segment_of(buf);
    return segment != NULL && hearth__load_relaxed(&segment->arena) == arena;
}

extern _Atomic(struct hearth__segment *) hearth__segments[HEARTH__SEGMENTS_MAX];

/* The segment of this id, or NULL when none was made yet. Wait-free. */
static inline struct hearth__segment *hearth__segment_at(uint32_t id)
{
    /* EDGE meta.segments, observe: the segment's header. */
    return hearth__load_acquire(&hearth__segments[id]);
}

/* The slot of this number, which was made before. Wait-free. */
static inline struct hearth_buf *hearth__slot_at(uint32_t index)
{
    struct hearth__segment *segment = hearth__segment_at(index / HEARTH__SLOTS_PER_GRANULE);
    return hearth__segment_slot(segment, index % HEARTH__SLOTS_PER_GRANULE);
}

/* Payload table. `data` is aligned to HEARTH_ALIGNMENT. */
enum hearth_status hearth__payload_set(const void *data, uint32_t index);
void hearth__payload_clear(const void *data);

/* The slot whose storage starts at `data`, live or not; NULL when there is none. */
struct hearth_buf *hearth__payload_find(const void *data);

#endif
