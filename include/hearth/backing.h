/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file backing.h
 * Where storage comes from. A backing lends whole segments of memory; arenas hold storage as
 * {segment, offset, length}, and count what they hold by what the backing says it lent.
 *
 * Built in: jemalloc (a private, renamed copy by default, with a dedicated jemalloc arena whose
 * extent hooks count every page event), plain mmap, and one that fails on purpose for tests. Users
 * can write their own.
 */
#ifndef HEARTH_BACKING_H
#define HEARTH_BACKING_H

#include <hearth/export.h>
#include <hearth/status.h>

#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_backing;

/** One piece of memory lent by a backing. */
struct hearth_segment {
    void *base;      /**< Aligned as asked. */
    size_t length;   /**< Usable bytes: at least what was asked; this is what is charged. */
    uint64_t cookie; /**< The backing's own; handed back unchanged. */
    uint32_t flags;  /**< HEARTH_SEGMENT_* */
    uint32_t reserved;
};

/** The whole segment reads as zero. */
#define HEARTH_SEGMENT_ZERO 1u

/** Page events and volumes seen by a backing since it was created. All are monotone. */
struct hearth_backing_stats {
    size_t size;               /**< sizeof(struct hearth_backing_stats), set by the caller. */
    uint64_t acquire_calls;    /**< Calls to acquire, failed ones included. */
    uint64_t acquire_failures; /**< Calls to acquire that gave nothing. */
    uint64_t release_calls;
    uint64_t purge_calls;
    uint64_t acquired_bytes; /**< Sum of segment lengths lent. */
    uint64_t released_bytes; /**< Sum of segment lengths given back. */
    uint64_t page_events;  /**< mmap, munmap, commit, decommit, purge, split, merge: all of them. */
    uint64_t mapped_bytes; /**< Bytes obtained from the kernel. */
    uint64_t unmapped_bytes; /**< Bytes given back to the kernel by unmapping. */
    uint64_t purged_bytes; /**< Bytes whose pages were given back while the range stayed mapped. */
};

#define HEARTH_BACKING_STATS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct hearth_backing_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                          \
    }

/**
 * The operations of a backing written by a user. `size` is sizeof(struct hearth_backing_ops) of the
 * header it was compiled with. Every function may be called from any thread, also at the same time,
 * and must not call into the arena that is calling it. Members marked optional may be NULL.
 */
struct hearth_backing_ops {
    size_t size;
    const char *name; /**< Short, static, for reports. */
    /** Every segment's length is a multiple of this many bytes (a power of two; 0: 64). Arenas
     *  round requests up to it, so that a free buffer fits the next request of its kind. */
    size_t granule;
    /** Lend at least `bytes` (never 0, never above PTRDIFF_MAX) aligned to `alignment` (a power of
     *  two, 64 to 2 MiB). Returns OK or NO_MEMORY. */
    enum hearth_status (*acquire)(void *context, size_t bytes, size_t alignment,
                                  struct hearth_segment *segment);
    /** Take back a segment. Must not fail. */
    void (*release)(void *context, const struct hearth_segment *segment);
    /** Optional. Give back the pages of what was released and is still held. Returns the bytes. */
    size_t (*purge)(void *context);
    /** Optional. Give back to the kernel the pages of [base, base+length), part of a segment that is
     *  lent, whose content the borrower no longer needs. Returns the bytes given back. The range
     *  stays usable; what it reads as is not known, unless `flags` say. */
    size_t (*discard)(void *context, void *base, size_t length);
    /** Optional. Fill the page figures (page_events, mapped, unmapped, purged); the calls and the
     *  acquired and released bytes are counted by the library. */
    void (*stats)(void *context, struct hearth_backing_stats *stats);
    /** Optional. Called once, after the last reference and the last segment are gone. */
    void (*destroy)(void *context);
    /** HEARTH_BACKING_* joined. A table that ends before this member, by its size, has none. */
    uint64_t flags;
};

/** What `discard` gave back, whole pages of 4 KiB as far as its answer says, reads as zero afterwards.
 *  HEARTH_ZERO_LAZY needs it, and writes without it. */
#define HEARTH_BACKING_DISCARD_ZEROES 1u

/** Options of the built-in backings. */
struct hearth_backing_options {
    size_t size; /**< Set by HEARTH_BACKING_OPTIONS_INIT. */
    /** An enum hearth_huge_pages. */
    uint32_t huge_pages;
    uint32_t reserved;
};

/** What to do with segments of 2 MiB and more. */
enum hearth_huge_pages {
    /** Align to 2 MiB and advise huge pages where the system's mode is "madvise". */
    HEARTH_HUGE_PAGES_DEFAULT = 0,
    /** Neither align nor advise. */
    HEARTH_HUGE_PAGES_OFF = 1,
    /** Align to 2 MiB, and advise whatever the system's mode is. */
    HEARTH_HUGE_PAGES_ON = 2,
};

#define HEARTH_BACKING_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_backing_options), 0, 0                                                \
    }

/**
 * Create a backing from a table of operations.
 *
 * Thread: any. Ownership: the caller holds one reference to *backing; `ops` and `context` must stay
 * valid until ops->destroy was called. Arenas take references of their own.
 * Returns INVALID for a NULL, a wrong size, a missing acquire or release, a granule that is no power of two,
 * an unknown flag, or HEARTH_BACKING_DISCARD_ZEROES without discard; NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_backing_create(const struct hearth_backing_ops *ops, void *context,
                      struct hearth_backing **backing);

/**
 * Create a backing on plain mmap: page granular, gives everything back at once. `options` may be
 * NULL. Thread: any. Returns INVALID, NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_backing_create_mmap(const struct hearth_backing_options *options,
                           struct hearth_backing **backing);

/**
 * Create a backing on a jemalloc arena of its own. `options` may be NULL. Thread: any.
 * Returns INVALID when the library was built without jemalloc, NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_backing_create_jemalloc(const struct hearth_backing_options *options,
                               struct hearth_backing **backing);

/**
 * Create a backing for tests that passes everything to `inner` (referenced) until it is told to
 * fail. Thread: any. Returns INVALID, NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_backing_create_failing(struct hearth_backing *inner, struct hearth_backing **backing);

/**
 * Let the `nth` next acquire (1: the very next) and the `count - 1` after it fail with NO_MEMORY;
 * nth 0 stops failing. Returns INVALID when `backing` was not made by
 * hearth_backing_create_failing(). Thread: any.
 */
HEARTH_API enum hearth_status hearth_backing_fail(struct hearth_backing *backing, uint64_t nth,
                                                  uint64_t count);

/**
 * The process's default backing, created at first use and never destroyed: jemalloc where built in,
 * else mmap; HEARTH_CONF's `backing` key chooses. The reference stays the library's: do not unref.
 * Thread: any. Returns INVALID (HEARTH_CONF names a backing that is not built in), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_backing_default(struct hearth_backing **backing);

/** Take one more reference. Thread: any. Wait-free. NULL is fine. */
HEARTH_API void hearth_backing_ref(struct hearth_backing *backing);

/** Give up one reference; the backing ends with the last of its references. NULL is fine. */
HEARTH_API void hearth_backing_unref(struct hearth_backing *backing);

/** The backing's short name: "jemalloc", "mmap", "failing" or the user's. */
HEARTH_API const char *hearth_backing_name(const struct hearth_backing *backing);

/** Bytes lent and not given back, at this moment. Thread: any. Wait-free. */
HEARTH_API size_t hearth_backing_footprint(const struct hearth_backing *backing);

/**
 * Give back to the kernel the pages of released storage that the backing still holds. Returns the
 * bytes it gave back. Thread: any. Makes system calls.
 */
HEARTH_API size_t hearth_backing_purge(struct hearth_backing *backing);

/**
 * Read the counters. stats->size must be set (HEARTH_BACKING_STATS_INIT); members beyond it are not
 * written. Thread: any. Lock-free. Returns INVALID for NULL or a size of 0.
 */
HEARTH_API enum hearth_status hearth_backing_stats(const struct hearth_backing *backing,
                                                   struct hearth_backing_stats *stats);

HEARTH_END_DECLS

#endif
