/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a backing: a table of operations, a reference count, and the counters that every
 * backing has. Calls come from any thread; the counters are relaxed read-modify-writes because
 * nothing on a warm path gets here.
 */
#ifndef HEARTH_CORE_BACKING_H
#define HEARTH_CORE_BACKING_H

#include "core/atomic.h"

#include <hearth/backing.h>

#include <stdbool.h>

struct hearth_backing {
    struct hearth_backing_ops ops; /* a copy: optional members are set or NULL */
    void *context;
    /* References held by users and arenas. Segments do not count: their arenas do. */
    _Atomic(uint64_t) references;
    _Atomic(uint64_t) acquire_calls;
    _Atomic(uint64_t) acquire_failures;
    _Atomic(uint64_t) release_calls;
    _Atomic(uint64_t) purge_calls;
    _Atomic(uint64_t) acquired_bytes;
    _Atomic(uint64_t) released_bytes;
};

/* Segments of this size and more are aligned to it and may get huge pages. */
#define HEARTH__HUGE_PAGE_BYTES ((size_t)2 << 20)

/* Whether to align and to advise, resolved against the system's mode. */
struct hearth__huge_policy {
    bool align;
    bool advise;
};

struct hearth__huge_policy hearth__huge_policy(const struct hearth_backing_options *options);

/* INVALID unless options (may be NULL) are ones this library knows. */
enum hearth_status hearth__backing_options_check(const struct hearth_backing_options *options);

/* A new backing of the kind that is the process's default. */
enum hearth_status hearth__backing_create_default(struct hearth_backing **backing);
/* A backing whose segments end at an inaccessible page and begin behind one: backing_guard.c. The caller
 * holds a reference. NO_MEMORY. */
enum hearth_status hearth__backing_create_guard(struct hearth_backing **backing);

/* Borrow a segment and count it. The size is rounded up to the backing's granule; a segment that is
 * shorter, less aligned, or no multiple of the granule is refused. */
enum hearth_status hearth__backing_acquire(struct hearth_backing *backing, size_t bytes,
                                           size_t alignment, struct hearth_segment *segment);

void hearth__backing_release(struct hearth_backing *backing, const struct hearth_segment *segment);

/* Give back the pages within a part of a lent segment whose content nobody needs; it stays lent.
 * Returns the bytes given back; 0 when the backing cannot. */
size_t hearth__backing_discard(struct hearth_backing *backing, void *base, size_t length);

/* For built-in backings: take the whole pages inside of [base, base+length) off this process, which
 * then read as zero. Returns their bytes; 0 when there are none or the kernel refuses. */
size_t hearth__discard_pages(void *base, size_t length);

#endif
