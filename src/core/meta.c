/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Process-wide metadata.
 *
 * Problem. Users hand us pointers: a buffer to return, a data pointer to look up. Any of them may be
 * garbage, of another arena, or of an arena that is gone, and the answer must be a status, in O(1), in
 * release builds. Asking the pointed-to memory is out of the question, for it may be unmapped.
 *
 * Picture. Addresses are cut into granules of 64 KiB. A two-level table on address bits says what a
 * granule is:
 *
 *      47 ......... 32 31 ......... 16 15 ....... 0
 *      directory index | table index  | in granule
 *            |               |
 *            v               v
 *      directory[65536] -> entries[65536] -> 0        nothing of ours
 *                                         -> S | 1    a metadata segment (S is the granule itself)
 *                                         -> L | 2    payloads start here: leaf L
 *
 *      segment:  | header | core (or nothing) | slot | slot | slot ...      stride 128 bytes
 *      leaf:     1024 slot numbers, one for each 64 bytes of the granule; 0 is none
 *
 * A slot number is {segment id, position}, so that a leaf needs 4 bytes per possible payload start, and
 * a 64-bit word elsewhere can hold a slot and a tag.
 *
 * States. A table entry becomes a leaf or a segment and stays one; only where a payload's range was given
 * back to the kernel and a segment mapped there later, a leaf gives way to it. A segment is pooled or serves one arena; its
 * kind never changes, so whoever holds a stale pointer into it reads memory of the expected type, and
 * the generations in its slots go on counting. Leaf words change with the storage of buffers.
 *
 * No ABA. Pools are stacks of segment ids with a tag in the upper half of the head, bumped on each pop;
 * a segment's next_free may be read after it was popped by somebody else, which is harmless as the
 * memory is stable and the CAS then fails. 2^32 pops during one stalled pop would be needed.
 *
 * Progress. Look-ups are wait-free. Inserting is lock-free but for the kernel (mmap).
 *
 * Cost. 512 KiB of address space for each 4 GiB range that is ever used (touched by the page), 4 KiB for
 * each 64 KiB granule in which a payload ever started. Nothing is given back: it is bounded by the
 * process's high-water mark.
 */
#include "core/meta.h"

#include "core/perturb.h"

#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define HEARTH__ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEARTH__ADDRESS_SANITIZER 1
#endif
#endif
#ifdef HEARTH__ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

_Atomic(struct hearth__table *) hearth__directory[HEARTH__TABLE_SIZE];

_Atomic(struct hearth__segment *) hearth__segments[HEARTH__SEGMENTS_MAX];
static _Atomic(uint32_t) last_id; /* ids start at 1: slot number 0 is none */

/* {tag : 32, id : 32} of the topmost pooled segment of each kind; id 0: empty. */
static _Atomic(uint64_t) pools[HEARTH__SEGMENT_KINDS];

struct leaf {
    _Atomic(uint32_t) slots[HEARTH__GRANULE_BYTES / 64];
};

/* Leaves are cut from chunks, so that each does not become a mapping of its own. */
#define CHUNK_BYTES ((size_t)256 << 10)
static_assert(CHUNK_BYTES % sizeof(struct leaf) == 0, "leaves fill a chunk");

/* Next leaf in the current chunk; a multiple of CHUNK_BYTES (0 included) means that it is used up. */
static _Atomic(uintptr_t) leaf_cursor;

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Map `bytes` aligned to `alignment` (a power of two, at least a page) by cutting a larger range. */
static void *map_aligned(size_t bytes, size_t alignment)
{
    char *at = map(bytes + alignment);
    if (at == NULL)
        return NULL;
    size_t before = (alignment - (uintptr_t)at % alignment) % alignment;
    if (before != 0)
        munmap(at, before);
    munmap(at + before + bytes, alignment - before);
    return at + before;
}

/* The word for a granule, with the table in between made if needed; NULL when out of memory or when
 * the address is beyond the table (no kernel hands those out unasked). */
static _Atomic(uintptr_t) *entry_slot(uintptr_t address)
{
    uintptr_t upper = address >> (HEARTH__GRANULE_SHIFT + HEARTH__TABLE_BITS);
    if (upper >= HEARTH__TABLE_SIZE)
        return NULL;
    _Atomic(struct hearth__table *) *link = &hearth__directory[upper];
    struct hearth__table *table = hearth__load_acquire(link);
    if (table == NULL) {
        struct hearth__table *fresh = map(sizeof *fresh);
        if (fresh == NULL)
            return NULL;
        /* EDGE meta.table, publish: a zeroed table. */
        if (hearth__cas_acq_rel(link, &table, fresh))
            table = fresh;
        else
            munmap(fresh, sizeof *fresh);
    }
    return &table->entries[address >> HEARTH__GRANULE_SHIFT & (HEARTH__TABLE_SIZE - 1)];
}

static uint32_t new_id(void)
{
    uint32_t id = hearth__load_relaxed(&last_id);
    do {
        if (id + 1 >= HEARTH__SEGMENTS_MAX)
            return 0;
    } while (!hearth__cas_weak_relaxed(&last_id, &id, id + 1));
    return id + 1;
}

static uint32_t first_slot_of(enum hearth__segment_kind kind)
{
    switch (kind) {
    case HEARTH__SEGMENT_SLOTS:
    case HEARTH__SEGMENT_IO_SLOTS:
        return HEARTH__HEADER_BYTES / HEARTH__SLOT_BYTES;
    case HEARTH__SEGMENT_BINS:
    case HEARTH__SEGMENT_SPANS:
    case HEARTH__SEGMENT_IO_LISTS:
    case HEARTH__SEGMENT_IO_CACHES:
    case HEARTH__SEGMENT_SERVICE:
        return HEARTH__SLOTS_PER_GRANULE; /* no slots */
    default:
        return HEARTH__CORE_BYTES / HEARTH__SLOT_BYTES;
    }
}

/* What a core points to, such as its backing, is not leaked; the sanitizer does not look into mappings by itself. */
static void show_to_leak_sanitizer(const struct hearth__segment *segment)
{
#ifdef HEARTH__ADDRESS_SANITIZER
    __lsan_register_root_region(segment, HEARTH__GRANULE_BYTES);
#else
    (void)segment;
#endif
}

static struct hearth__segment *segment_create(enum hearth__segment_kind kind)
{
    struct hearth__segment *segment = map_aligned(HEARTH__GRANULE_BYTES, HEARTH__GRANULE_BYTES);
    if (segment == NULL)
        return NULL;
    _Atomic(uintptr_t) *entry = entry_slot((uintptr_t)segment);
    segment->id = entry == NULL ? 0 : new_id();
    if (segment->id == 0) {
        munmap(segment, HEARTH__GRANULE_BYTES);
        return NULL;
    }
    segment->kind = kind;
    segment->first_slot = first_slot_of(kind);
    show_to_leak_sanitizer(segment);
    /* EDGE meta.segments, publish: the segment's header. */
    hearth__store_release(&hearth__segments[segment->id], segment);
    /* EDGE meta.table, publish: the segment's header. */
    hearth__store_release(entry, (uintptr_t)segment | HEARTH__ENTRY_SEGMENT);
    return segment;
}

static struct hearth__segment *pool_pop(enum hearth__segment_kind kind)
{
    uint64_t head = hearth__load_acquire(&pools[kind]);
    for (;;) {
        uint32_t id = (uint32_t)head;
        if (id == 0)
            return NULL;
        struct hearth__segment *top = hearth__segment_at(id);
        /* May be stale when somebody else popped `top`; the tag makes the CAS fail then. */
        uint64_t rest = ((head >> 32) + 1) << 32 | hearth__load_relaxed(&top->next_free);
#ifdef HEARTH_BROKEN_POOL_UNTAGGED
        rest = (uint32_t)rest;
#endif
        HEARTH__PERTURB("meta.pool");
        /* EDGE meta.pool, observe: all that the former arena wrote into the segment. */
        if (hearth__cas_weak_acquire(&pools[kind], &head, rest))
            return top;
    }
}

struct hearth__segment *hearth__segment_acquire(enum hearth__segment_kind kind)
{
    struct hearth__segment *segment = pool_pop(kind);
    return segment != NULL ? segment : segment_create(kind);
}

void hearth__segment_release(struct hearth__segment *segment)
{
    hearth__store_relaxed(&segment->arena, NULL);
    segment->next = NULL;
    uint64_t head = hearth__load_relaxed(&pools[segment->kind]);
    do {
        hearth__store_relaxed(&segment->next_free, (uint32_t)head);
        /* EDGE meta.pool, publish: the unused slots with their generations. */
    } while (!hearth__cas_weak_release(&pools[segment->kind], &head,
                                       (head & ~(uint64_t)UINT32_MAX) | segment->id));
}

uint32_t hearth__segment_count(void)
{
    return hearth__load_relaxed(&last_id);
}

/* A zeroed leaf that nobody else has, or NULL. */
static struct leaf *leaf_create(void)
{
    uintptr_t at = hearth__load_relaxed(&leaf_cursor);
    for (;;) {
        if (at % CHUNK_BYTES != 0) {
            if (hearth__cas_weak_relaxed(&leaf_cursor, &at, at + sizeof(struct leaf)))
                return (struct leaf *)at;
            continue;
        }
        char *chunk = map_aligned(CHUNK_BYTES, CHUNK_BYTES);
        if (chunk == NULL)
            return NULL;
        if (hearth__cas_weak_relaxed(&leaf_cursor, &at, (uintptr_t)chunk + sizeof(struct leaf)))
            return (struct leaf *)chunk;
        munmap(chunk, CHUNK_BYTES);
    }
}

static struct leaf *leaf_of(uintptr_t entry)
{
    return (entry & HEARTH__ENTRY_TAG) == HEARTH__ENTRY_LEAF
               ? (struct leaf *)(entry - HEARTH__ENTRY_LEAF)
               : NULL;
}

static _Atomic(uint32_t) *leaf_word(struct leaf *leaf, uintptr_t address)
{
    return &leaf->slots[(address & HEARTH__GRANULE_MASK) / 64];
}

enum hearth_status hearth__payload_set(const void *data, uint32_t index)
{
    uintptr_t address = (uintptr_t)data;
    _Atomic(uintptr_t) *slot = entry_slot(address);
    if (slot == NULL)
        return HEARTH_NO_MEMORY;
    uintptr_t entry = hearth__load_acquire(slot);
    if (entry == 0) {
        struct leaf *fresh = leaf_create();
        if (fresh == NULL)
            return HEARTH_NO_MEMORY;
        /* The leaf of a lost race stays unused: it cannot be given back to the chunk, and the race is
         * lost at most once per granule and thread. */
        if (hearth__cas_acq_rel(slot, &entry, (uintptr_t)fresh | HEARTH__ENTRY_LEAF))
            entry = (uintptr_t)fresh | HEARTH__ENTRY_LEAF;
    }
    struct leaf *leaf = leaf_of(entry);
    if (leaf == NULL)
        return HEARTH_NO_MEMORY; /* a backing handed out our own metadata: refuse it */
    hearth__store_release(leaf_word(leaf, address), index);
    return HEARTH_OK;
}

void hearth__payload_clear(const void *data)
{
    struct leaf *leaf = leaf_of(hearth__entry_of((uintptr_t)data));
    if (leaf != NULL)
        hearth__store_relaxed(leaf_word(leaf, (uintptr_t)data), 0);
}

struct hearth_buf *hearth__payload_find(const void *data)
{
    uintptr_t address = (uintptr_t)data;
    struct leaf *leaf = leaf_of(hearth__entry_of(address));
    if (leaf == NULL || address % HEARTH_ALIGNMENT != 0)
        return NULL;
    uint32_t index = hearth__load_acquire(leaf_word(leaf, address));
    if (index == 0)
        return NULL;
    struct hearth_buf *buf = hearth__slot_at(index);
    /* The word may be older than the slot's storage: trust the slot. */
    return hearth__load_relaxed(&buf->data) == data ? buf : NULL;
}
