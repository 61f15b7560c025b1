/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first store: a list of free slots for each size class, and a bitmap of the classes that are not
 * empty. Reuse is last in, first out; a list's tail is its oldest member.
 *
 * Larger alignments have lists of their own, keyed by (class, log2 alignment), in a metadata segment
 * that is taken with the first such request.
 *
 *               take  give  evict  count  ...  'X': the caller excludes (the owner's section)
 *     take       X     X     X      X
 *     ...        X     X     X      X
 */
#ifndef HEARTH_CORE_BINS_H
#define HEARTH_CORE_BINS_H

#include "core/buf.h"
#include "core/meta.h"
#include "core/size_class.h"
#include "core/store.h"

#include <stdbool.h>

#define HEARTH__BITMAP_WORDS 4
static_assert(HEARTH__CLASS_COUNT <= HEARTH__BITMAP_WORDS * 64, "a bit for each class");

struct hearth__bin {
    struct hearth_buf *newest;
    /* Valid while newest is not NULL. NULL only if the class's bit is clear. */
    struct hearth_buf *oldest;
};

struct hearth__bin_set {
    uint64_t occupied[HEARTH__BITMAP_WORDS];      /* a clear bit: the class is empty */
    struct hearth__bin bins[HEARTH__CLASS_LIMIT]; /* those beyond the last class stay empty */
};

#define HEARTH__ALIGNED_SETS (HEARTH__ALIGNMENT_LOG_MAX - HEARTH__ALIGNMENT_LOG_MIN)

struct hearth__bins {
    struct hearth__store store;
    struct hearth__bin_set normal;
    struct hearth__bin_set *aligned; /* HEARTH__ALIGNED_SETS of them; NULL until needed */
};

static_assert(HEARTH__ALIGNED_SETS * sizeof(struct hearth__bin_set) <=
                  HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET,
              "the aligned sets fit one segment");

extern const struct hearth__store_ops hearth__bins_ops;

/* Start empty. */
void hearth__bins_init(struct hearth__bins *bins);

/* Add the lists for larger alignments, in a segment of kind HEARTH__SEGMENT_BINS. */
void hearth__bins_add_aligned(struct hearth__bins *bins, struct hearth__segment *segment);

/* Give back the segment of the aligned lists. The store must be empty. */
void hearth__bins_fini(struct hearth__bins *bins);

/*
 * The fast part of take and give, for the owner's path. What can be left undone is:
 * - a popped list's `oldest`, and its bit in the bitmap, when it became empty: whoever looks for a class
 *   checks `newest` and clears both then;
 * - the new head's `prev`: a slot's prev is valid only while the slot is not the newest.
 */

static inline void hearth__bin_push(struct hearth__bin_set *set, struct hearth_buf *buf)
{
    struct hearth__bin *bin = &set->bins[buf->size_class];
    struct hearth_buf *second = bin->newest;
    buf->next = second;
    bin->newest = buf;
    if (second != NULL) {
        second->prev = buf;
        return;
    }
    /* The list was empty. Often its last member was this very slot. */
    struct hearth_buf *oldest = bin->oldest;
    if (oldest == buf)
        return;
    if (oldest == NULL)
        set->occupied[buf->size_class / 64] |= (uint64_t)1 << buf->size_class % 64;
    bin->oldest = buf;
}

/* Take the newest of a list that is not empty. */
static inline struct hearth_buf *hearth__bin_pop(struct hearth__bin *bin)
{
    struct hearth_buf *buf = bin->newest;
    bin->newest = buf->next;
    return buf;
}

#endif
