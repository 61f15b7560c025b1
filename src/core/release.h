/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments on their way back to their backings. They were taken off their buffers while somebody was
 * excluded, and are given back afterwards, in slices that end at a deadline: what a slice does not
 * reach waits for the next one.
 *
 * To unmap a large segment takes as long as it has pages, so within a deadline its pages are discarded
 * a chunk at a time, and what is released at the end has none. A slice overruns its deadline by
 * one chunk or one small release at most.
 *
 *            add  run        'X': the caller excludes
 *     add     X    X
 *     run     X    X
 */
#ifndef HEARTH_CORE_RELEASE_H
#define HEARTH_CORE_RELEASE_H

#include "core/atomic.h"

#include <hearth/backing.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Segments that can wait at a time. */
#define HEARTH__RELEASES_MOST 128u

/* Discarded between two looks at the clock: about a tenth of a millisecond of the kernel's time. */
#define HEARTH__RELEASE_CHUNK_BYTES ((size_t)2 << 20)

struct hearth__release {
    struct hearth_backing *backing; /* kept alive by whoever lent the segment out */
    struct hearth_segment segment;
    size_t discarded; /* bytes from the base that need no discarding any more */
};

struct hearth__releases {
    struct hearth__release waiting[HEARTH__RELEASES_MOST]; /* a ring: first in, first out */
    uint32_t first;
    uint32_t count;
    _Atomic(size_t) held_bytes; /* of the segments that wait; anybody may read it */
    uint64_t released_bytes;    /* of all segments given back */
    uint64_t discarded_bytes;   /* of all pages that backings gave back before that */
};

/* Start empty. */
void hearth__releases_init(struct hearth__releases *releases);

/* Let a segment wait for its release. False when the list is full: run it, or release yourself. */
bool hearth__releases_add(struct hearth__releases *releases, struct hearth_backing *backing,
                          const struct hearth_segment *segment);

/* Give segments back, first in, first out, until none waits or hearth__now_ns() has reached
 * `deadline_ns` (0: no deadline, and nothing is split); one step is done in any case. Calls the
 * backings. True when none waits any more. */
bool hearth__releases_run(struct hearth__releases *releases, uint64_t deadline_ns);

#endif
