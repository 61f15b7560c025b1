/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quarantine: returned buffers wait, filled with a pattern, before their storage is used again, so that a late
 * write is found. First in first out, linked by next, bounded. One thread at a time.
 */
#ifndef HEARTH_CORE_QUARANTINE_H
#define HEARTH_CORE_QUARANTINE_H

#include "core/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Bounds of one arena's quarantine: long enough to outlive most late writes, small beside a working set. */
#define HEARTH__QUARANTINE_COUNT ((size_t)256)
#define HEARTH__QUARANTINE_BYTES ((size_t)64 << 20)

struct hearth__quarantine {
    struct hearth_buf *oldest, *newest;
    size_t count, bytes;
};

/* What is to be told of a buffer that was written while it waited. */
struct hearth__overwritten {
    const struct hearth_buf *buf; /* NULL: none */
    uint64_t generation;          /* in which it was out */
    size_t at;                    /* first changed byte */
    size_t more;                  /* others found since */
};

/* A buffer that hearth__debug_returned() was told of, in the generation after that in which it was out. */
void hearth__quarantine_push(struct hearth__quarantine *quarantine, struct hearth_buf *buf);

/* The oldest one, or NULL. A changed byte is noted in `overwritten`. */
struct hearth_buf *hearth__quarantine_pop(struct hearth__quarantine *quarantine,
                                          struct hearth__overwritten *overwritten);

/* Whether one has to leave. */
static inline bool hearth__quarantine_full(const struct hearth__quarantine *quarantine)
{
    return quarantine->count > HEARTH__QUARANTINE_COUNT ||
           quarantine->bytes > HEARTH__QUARANTINE_BYTES;
}

/* Outside of any section: tell what was noted, if anything was. Returns how many misuses that were. */
size_t hearth__quarantine_report(const struct hearth__overwritten *overwritten, const char *call,
                                 const struct hearth_allocator *arena);

#endif
