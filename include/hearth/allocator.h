/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file allocator.h
 * Buffers, and the interface that every arena implements.
 *
 * A buffer is a stable descriptor (struct hearth_buf) plus its storage. The descriptor's address
 * never changes while the buffer is live, and names it in every call; the storage is what
 * hearth_buf_data() points to. Descriptors live in memory that is never unmapped, so any pointer
 * whatever may be passed as a buffer: one that is not a live buffer of the arena is answered with a
 * status (FOREIGN, STALE or LEASED), counted, and changes nothing. The one exception is a second
 * return of a bare buffer after its descriptor was handed out again: nothing distinguishes it from
 * the new holder's return. Leases and handles carry a generation and do not have that gap.
 *
 * Every buffer's data is aligned to at least HEARTH_ALIGNMENT bytes.
 *
 * No call is async-signal-safe unless its comment says so.
 */
#ifndef HEARTH_ALLOCATOR_H
#define HEARTH_ALLOCATOR_H

#include <hearth/export.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_backing;
struct hearth_buf;
struct hearth_simple;

/** Alignment in bytes of every buffer in every mode. */
#define HEARTH_ALIGNMENT ((size_t)64)

/** The largest alignment that can be asked for: 2 MiB. */
#define HEARTH_ALIGNMENT_MAX ((size_t)2 << 20)

/** A byte count without a bound, for caps. */
#define HEARTH_UNBOUNDED SIZE_MAX

/** A retention cap that no buffer fits under, in options (where 0 means default) and setters. */
#define HEARTH_RETAIN_NOTHING ((size_t)1)

/** Deadline: do not wait at all; fail at once when nothing can be had without waiting. */
#define HEARTH_NO_WAIT ((uint64_t)0)

/** Priority of a request; see hearth_request.priority. */
enum hearth_priority {
    HEARTH_PRIORITY_NORMAL = 0,
    HEARTH_PRIORITY_HIGH = 1, /**< May use the reserve of an arena that keeps one. */
};

/** How the first bytes of a buffer come to read as zero; see hearth_request.zero. */
enum hearth_zero {
    /** Not at all: the content is unspecified. */
    HEARTH_ZERO_NONE = 0,
    /** By writing to them, unless the storage is known to be zero. The pages are warm afterwards. So is any
     *  value without a name here. */
    HEARTH_ZERO_WRITE = 1,
    /** By giving their pages back to the kernel, which costs a system call now and a page fault for each page
     *  that is touched later: for large buffers of which little may be used. Below 64 KiB, and where the
     *  backing cannot (HEARTH_BACKING_DISCARD_ZEROES), as HEARTH_ZERO_WRITE. */
    HEARTH_ZERO_LAZY = 2,
};

/**
 * One request for a buffer. Start from HEARTH_REQUEST_INIT (all zero) and set what you need; every
 * member's zero is its default.
 */
struct hearth_request {
    /** Bytes asked: the buffer's logical size. 0 gives a distinct, valid buffer. */
    size_t size;
    /** Power of two up to HEARTH_ALIGNMENT_MAX; 0 and anything smaller than HEARTH_ALIGNMENT mean
     *  HEARTH_ALIGNMENT. */
    size_t alignment;
    /** Absolute CLOCK_MONOTONIC time in nanoseconds up to which the caller is willing to wait when
     *  the arena's policy is to wait. HEARTH_NO_WAIT: never wait. Ignored by arenas that grow. */
    uint64_t deadline_ns;
    /** An enum hearth_priority. */
    uint32_t priority;
    /** An enum hearth_zero: whether the first `size` bytes read as zero. */
    uint32_t zero;
    /** Must be zero: room for later members. */
    uint64_t reserved[4];
};

#define HEARTH_REQUEST_INIT                                                                        \
    {                                                                                              \
        0, 0, 0, 0, 0,                                                                             \
        {                                                                                          \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/**
 * The operations of an allocator. Arenas provide one; users may write their own to wrap another, and
 * all calls made through the wrapper, handles included, then go to the wrapper's table. All but
 * free_exact must be set.
 * `size` is sizeof(struct hearth_allocator_ops) of the header the allocator was compiled with.
 */
struct hearth_allocator_ops {
    size_t size;
    /** Short static name of the kind, for reports: "exec", "io", "simple". */
    const char *kind;
    enum hearth_status (*alloc)(struct hearth_allocator *self, const struct hearth_request *request,
                                struct hearth_buf **buf);
    enum hearth_status (*free)(struct hearth_allocator *self, struct hearth_buf *buf);
    /** Return a buffer only if its generation still is `generation`, else STALE. Used by handles.
     *  NULL is allowed: handles then cannot be made from this allocator's buffers. */
    enum hearth_status (*free_exact)(struct hearth_allocator *self, struct hearth_buf *buf,
                                     uint64_t generation);
    enum hearth_status (*resize)(struct hearth_allocator *self, struct hearth_buf *buf, size_t size,
                                 bool keep);
    size_t (*live_bytes)(const struct hearth_allocator *self);
    size_t (*peak_bytes)(const struct hearth_allocator *self);
    enum hearth_status (*reset_peak)(struct hearth_allocator *self);
    /** Give up one reference of a lease of this allocator's, for handles that own one. NULL where
     *  there are no leases. */
    enum hearth_status (*release)(struct hearth_allocator *self, struct hearth_buf *buf,
                                  uint64_t generation);
};

/** An allocator: a table of operations, embedded as the first member of what implements it. */
struct hearth_allocator {
    const struct hearth_allocator_ops *ops;
};

/**
 * Take a buffer of at least `size` bytes with default alignment.
 *
 * Thread, Progress: the arena's (exec.h: the owner, wait-free on a hit; io.h: any).
 * Ownership: the caller owns *buf until it returns it with hearth_free() or gives it to a handle.
 * The content is unspecified.
 * Returns OVERFLOW for sizes that cannot be rounded up, NO_MEMORY, NO_SLOT, NOT_OWNER, CLOSED, BUSY
 * (re-entered from a signal handler), INVALID (a NULL argument).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_alloc(struct hearth_allocator *allocator,
                                                            size_t size, struct hearth_buf **buf);

/**
 * Take a buffer as described by a request. As hearth_alloc(), and INVALID for an alignment that is
 * no power of two or above HEARTH_ALIGNMENT_MAX, or for reserved words that are not zero; TIMEOUT
 * when the arena waits and the deadline passed.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_alloc_ex(struct hearth_allocator *allocator,
                                                               const struct hearth_request *request,
                                                               struct hearth_buf **buf);

/**
 * Return a buffer to the arena it came from. Its data must not be touched any more.
 *
 * Thread: any. Progress: lock-free outside the backing; wait-free for the owner of an execution
 * arena.
 * Returns FOREIGN (not a buffer of this allocator, including NULL and any garbage), STALE (already
 * returned), LEASED, INVALID (no allocator).
 */
HEARTH_API enum hearth_status hearth_free(struct hearth_allocator *allocator,
                                          struct hearth_buf *buf);

/** Logical bytes of live buffers. Thread: any. Wait-free. 0 for NULL. */
HEARTH_API size_t hearth_live_bytes(const struct hearth_allocator *allocator);

/** Largest hearth_live_bytes() since creation or the last reset. Thread: any. Wait-free. */
HEARTH_API size_t hearth_peak_bytes(const struct hearth_allocator *allocator);

/** Set the peak to the present live bytes. Thread: the owner, where the arena has one. Returns
 *  NOT_OWNER, BUSY (re-entered from a signal handler), INVALID. */
HEARTH_API enum hearth_status hearth_reset_peak(struct hearth_allocator *allocator);

/**
 * As hearth_buf_resize() (or hearth_buf_resize_keep() where `keep` is set), through the allocator that
 * the caller got the buffer from: the way to resize a buffer of an allocator that wraps another.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_resize(struct hearth_allocator *allocator, struct hearth_buf *buf, size_t size, bool keep);

/**
 * Start of a live buffer's storage; NULL for NULL. Unlike the calls that return or resize a buffer, this
 * one and the next two trust their argument: it must be a buffer that hearth handed out (returned ones
 * are readable, and tell nothing). hearth_buf_owner() and hearth_buf_of() tell garbage apart.
 * Thread: whoever may use the buffer. Wait-free.
 */
HEARTH_API void *hearth_buf_data(const struct hearth_buf *buf);

/** Logical bytes: what was asked for, or the last resize. 0 for NULL. */
HEARTH_API size_t hearth_buf_size(const struct hearth_buf *buf);

/** Usable bytes as the backing counts them, at least hearth_buf_size(). 0 for NULL. */
HEARTH_API size_t hearth_buf_capacity(const struct hearth_buf *buf);

/** The allocator the buffer belongs to; NULL for anything that is not a buffer, and when its arena is
 *  gone. Any pointer may be passed. Wait-free. */
HEARTH_API struct hearth_allocator *hearth_buf_owner(const struct hearth_buf *buf);

/** The buffer's present generation, which changes each time it is returned; 0 for anything that is not a
 *  buffer. Any pointer may be passed. Wait-free. */
HEARTH_API uint64_t hearth_buf_generation(const struct hearth_buf *buf);

/**
 * Find the live buffer whose data starts at `data`, in O(1), without dereferencing `data`.
 *
 * Thread: any; the answer is stable only while somebody keeps the buffer from being returned.
 * Progress: wait-free.
 * Returns FOREIGN for any other pointer (interior pointers included), STALE when a buffer's storage
 * starts there but the buffer was returned.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_buf_of(const void *data,
                                                             struct hearth_buf **buf);

/**
 * Change a live buffer's logical size. Within its capacity nothing moves, and shrinking keeps the
 * capacity. Beyond it the buffer gets other storage: hearth_buf_data() changes, and the content is
 * unspecified. The descriptor and its generation stay.
 *
 * Thread: the owner of an execution arena, else NOT_OWNER; any for an I/O arena. Progress: as
 * hearth_alloc().
 * Returns FOREIGN, STALE, LEASED, NOT_OWNER, BUSY (re-entered from a signal handler), OVERFLOW,
 * NO_MEMORY, CLOSED (it would have to move, and its I/O arena was closed); the buffer is then
 * unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_buf_resize(struct hearth_buf *buf,
                                                                 size_t size);

/** As hearth_buf_resize(), and the first min(old size, new size) bytes keep their content, at the
 *  price of a copy when the storage moves. */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_buf_resize_keep(struct hearth_buf *buf,
                                                                      size_t size);

/**
 * Create the simple allocator: a fixed number of reusable slots, and no retained storage; each
 * alloc and free goes to the backing. The baseline that arenas are compared with.
 *
 * `slots` is the number of simultaneously live buffers, at least 1.
 * Thread: the allocator may be used by one thread at a time; the caller excludes others.
 * Ownership: hearth_simple_destroy() ends it. The process's default backing serves it.
 * Returns INVALID for 0 slots or NULL, OVERFLOW for more slots than exist, NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_simple_create(size_t slots,
                                                                    struct hearth_simple **simple);

/** As hearth_simple_create(), on a backing of the caller's choice (referenced while in use). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_simple_create_on(struct hearth_backing *backing, size_t slots,
                        struct hearth_simple **simple);

/** End a simple allocator. BUSY, and nothing changes, while buffers are live. NULL is fine. */
HEARTH_API enum hearth_status hearth_simple_destroy(struct hearth_simple *simple);

/** The allocator interface of a simple allocator. Valid until it is destroyed. */
HEARTH_API struct hearth_allocator *hearth_simple_allocator(struct hearth_simple *simple);

/** Slots in all: the number given at creation. */
HEARTH_API size_t hearth_simple_slots(const struct hearth_simple *simple);

/** Slots in use: buffers live at present. */
HEARTH_API size_t hearth_simple_live_count(const struct hearth_simple *simple);

HEARTH_END_DECLS

#endif
