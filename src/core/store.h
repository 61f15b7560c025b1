/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage policy of an execution arena: where the storage of returned buffers waits, and which of
 * it serves a request. The arena decides about slots, owners, caps and accounting; a store only
 * keeps and finds.
 *
 * A store is used by one thread at a time (inside the owner's section) and calls nobody: it neither
 * obtains storage nor gives any back.
 */
#ifndef HEARTH_CORE_STORE_H
#define HEARTH_CORE_STORE_H

#include "core/buf.h"

#include <stddef.h>
#include <stdint.h>

/* What is wanted: already rounded, so that classes can be compared. */
struct hearth__want {
    size_t bytes;           /* least capacity */
    size_t size;            /* what was asked for */
    unsigned size_class;    /* first class to look in: its members are at least that large */
    unsigned last_class;    /* last class that the reuse ratio allows */
    unsigned alignment_log; /* HEARTH__ALIGNMENT_LOG_MIN for default */
};

struct hearth__store;

struct hearth__store_ops {
    /* A slot with sufficient storage, taken off the store, or NULL: the smallest sufficient class
     * first, most recently given within it. O(classes). */
    struct hearth_buf *(*take)(struct hearth__store *store, const struct hearth__want *want);
    /* Take the slot with the largest storage off the store, or NULL. For when slots ran out. */
    struct hearth_buf *(*take_largest)(struct hearth__store *store);
    /* Keep a slot whose storage is free. Its stamp is set. O(1). */
    void (*give)(struct hearth__store *store, struct hearth_buf *buf);
    /* Keep a slot that evict() gave, where it was. O(1). */
    void (*give_back)(struct hearth__store *store, struct hearth_buf *buf);
    /* Take the least recently given slot off the store if its stamp is below `before` (UINT64_MAX:
     * whatever it is), or NULL. O(classes). */
    struct hearth_buf *(*evict)(struct hearth__store *store, uint64_t before);
    /* The stamp of the least recently given slot, or UINT64_MAX when there is none. O(classes). */
    uint64_t (*oldest)(struct hearth__store *store);
    /* Slots and bytes kept, by walking them: for invariant checks and tests. */
    void (*count)(const struct hearth__store *store, size_t *slots, size_t *bytes);
};

struct hearth__store {
    const struct hearth__store_ops *ops;
};

#endif
