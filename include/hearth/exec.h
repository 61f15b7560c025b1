/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file exec.h
 * Execution arenas: one per thread, for buffers that die inside a run.
 *
 * An execution arena retains the storage of returned buffers and hands it out again: the smallest
 * sufficient retained buffer first, but never one larger than reuse_ratio times the rounded
 * request. After a few identical runs it makes no backing call, no system call and no page fault.
 *
 * Who may do what:
 *
 *                            owner   other threads
 *     alloc, resize            x       NOT_OWNER
 *     trim, set_retention_cap  x       NOT_OWNER
 *     reset_peak               x       NOT_OWNER
 *     free                     x       x (queued for the owner, lock-free)
 *     getters, stats           x       x
 *     release_owner            x       NOT_OWNER
 *     destroy, detach          only while no other call on the arena is running, except free by
 *                              threads that do not own it
 *
 * The thread that creates an arena owns it; to hand it to a worker, call hearth_exec_release_owner().
 * After that the next thread that makes any of the owner's calls becomes the owner. An owner that ends
 * without it leaves an arena on which free, the getters, destroy and detach still work.
 */
#ifndef HEARTH_EXEC_H
#define HEARTH_EXEC_H

#include <hearth/allocator.h>
#include <hearth/export.h>
#include <hearth/status.h>

#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_exec;

/** Default of hearth_exec_options.reuse_ratio. */
#define HEARTH_REUSE_RATIO_DEFAULT 4u

/** Default of hearth_exec_options.slots. */
#define HEARTH_EXEC_SLOTS_DEFAULT ((size_t)1 << 20)

/**
 * How an execution arena keeps and finds storage. docs/stores.md tells which to take.
 *
 * LISTS    A list of free buffers for each size class: the fastest, and each buffer is reused whole, so that
 *          the arena holds up to about twice what was live at a time, and more where shapes change.
 * SPANS    Large blocks are cut from segments, and merge with their neighbours as soon as they are free:
 *          compact whatever the sizes. Small ones are in lists.
 * PLANS    What a run asks for is recorded. A run that repeats is laid out in one slab, which then holds little
 *          more than was live at a time, and a request is answered by a step to the next place. What does not
 *          follow the plan is served by lists.
 */
enum hearth_exec_store {
    HEARTH_EXEC_STORE_DEFAULT = 0, /**< LISTS. */
    HEARTH_EXEC_STORE_LISTS = 1,
    HEARTH_EXEC_STORE_SPANS = 2,
    HEARTH_EXEC_STORE_PLANS = 3
};

/** Options of an execution arena. Zero means default everywhere. */
struct hearth_exec_options {
    size_t size; /**< Set by HEARTH_EXEC_OPTIONS_INIT. */
    /** Most buffers with storage (live and retained) at a time; 0: HEARTH_EXEC_SLOTS_DEFAULT.
     *  Descriptors are taken as they are needed, about 128 bytes each. */
    size_t slots;
    /** Most bytes of capacity retained in free buffers; 0: HEARTH_UNBOUNDED. See
     *  HEARTH_RETAIN_NOTHING. */
    size_t retention_cap;
    /** A free buffer serves a request only if its capacity is at most this many times the rounded
     *  request; 0: HEARTH_REUSE_RATIO_DEFAULT, 1: same size class only. */
    uint32_t reuse_ratio;
    /** An enum hearth_exec_store. */
    uint32_t store;
    /** Where storage comes from (referenced while the arena lives); NULL: the process's default. */
    struct hearth_backing *backing;
};

#define HEARTH_EXEC_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(struct hearth_exec_options), 0, 0, 0, 0, NULL                                       \
    }

/**
 * Create an execution arena owned by the calling thread.
 *
 * `options` may be NULL. The environment variable HEARTH_CONF overrides: exec_cap, exec_store,
 * reuse_ratio, slots, backing, debug.
 * Ownership: hearth_exec_destroy() or hearth_exec_detach() ends it.
 * Thread: any. Progress: may make system calls.
 * Returns INVALID (NULL arena, options->size is not one this library knows, options->store is no enum
 * hearth_exec_store, HEARTH_CONF cannot be parsed: the misuse callback is told which key), OVERFLOW (more
 * slots than can exist), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_exec_create(const struct hearth_exec_options *options, struct hearth_exec **arena);

/**
 * End an arena and give its retained storage back to the backing.
 *
 * Queued returns are taken in first. With buffers outstanding it answers BUSY, the arena stays
 * usable, and hearth_exec_live_count() says how many there are. The owning thread need not be the
 * caller, so that a main thread can end the arenas of workers that are gone.
 * Thread: any, while no other call on the arena runs, except free by a thread that does not own it and
 * holds a live buffer (the answer is then BUSY).
 * Returns OK, BUSY. NULL is OK.
 */
HEARTH_API enum hearth_status hearth_exec_destroy(struct hearth_exec *arena);

/**
 * End an arena whose buffers may still be outstanding. Retained storage is given back now, each
 * outstanding buffer's when it is returned, and the arena's own memory with the last of them. The
 * outstanding buffers stay valid and are returned as before, from any thread, through
 * hearth_exec_free(), hearth_free() or their handles; nothing else may be called on the arena.
 *
 * `outstanding`, if not NULL, receives the number of buffers that were still out.
 * Thread: as hearth_exec_destroy(). Returns OK. NULL is OK, with 0 outstanding.
 */
HEARTH_API enum hearth_status hearth_exec_detach(struct hearth_exec *arena, size_t *outstanding);

/**
 * Take a buffer of at least `size` bytes: the smallest sufficient retained buffer within the reuse
 * ratio, else a fresh one in an unused slot; when slots ran out, the smallest sufficient free buffer
 * of any size, else the largest free one, grown.
 *
 * Thread: the owner. Progress: wait-free on a hit; a miss calls the backing. Before NO_MEMORY is
 * answered, what this arena retains is given back to the backing and the request is tried again.
 * Ownership, Returns: see hearth_alloc().
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_exec_alloc(struct hearth_exec *arena, size_t size, struct hearth_buf **buf);

/** As hearth_exec_alloc() with a request; see hearth_alloc_ex(). `deadline_ns` and `priority` have no
 *  effect here: an execution arena grows or fails. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_exec_alloc_ex(struct hearth_exec *arena, const struct hearth_request *request,
                     struct hearth_buf **buf);

/**
 * Return a buffer. The owner's return makes it reusable at once, keeping its storage unless the
 * retention cap says otherwise: a buffer larger than the cap goes straight back to the backing,
 * anything else evicts the least recently freed first. A return by another thread is queued and
 * taken in by the owner's next operations; until then it counts as pending.
 *
 * Thread: any. Progress: wait-free for the owner below the cap; lock-free for others.
 * Returns FOREIGN, STALE, LEASED, INVALID (no arena).
 */
HEARTH_API enum hearth_status hearth_exec_free(struct hearth_exec *arena, struct hearth_buf *buf);

/**
 * Give the storage of every retained buffer back to the backing and ask the backing to give the
 * pages back. Live buffers are untouched. `released`, if not NULL, receives the retained bytes
 * given back.
 * Thread: the owner. Returns NOT_OWNER, BUSY (re-entered), INVALID.
 */
HEARTH_API enum hearth_status hearth_exec_trim(struct hearth_exec *arena, size_t *released);

/**
 * Bound the bytes of capacity retained in free buffers. When more is retained now, the least
 * recently freed buffers are given back at once. HEARTH_UNBOUNDED lifts the bound; 0 retains nothing.
 * Thread: the owner. Returns NOT_OWNER, BUSY (re-entered), INVALID.
 */
HEARTH_API enum hearth_status hearth_exec_set_retention_cap(struct hearth_exec *arena,
                                                            size_t bytes);

/** Set the peak to the present live bytes. Thread: the owner. Returns NOT_OWNER, BUSY (re-entered),
 *  INVALID. */
HEARTH_API enum hearth_status hearth_exec_reset_peak(struct hearth_exec *arena);

/**
 * Tell that a run begins or ends: for arenas with HEARTH_EXEC_STORE_PLANS; for others nothing happens.
 *
 * Without these calls a run ends whenever the last live buffer comes home, which is what a runtime's run looks
 * like from here. Call them where buffers outlive a run, or where a run has moments without any. `key`
 * tells runs apart that begin alike, such as a hash of the inputs' shapes; 0: none. A run that is begun
 * while another one goes on ends that one first; to end a run that was not begun ends the one that
 * began by itself. The end of a run may take time for planning: once for each kind of run, a millisecond or
 * so for some hundred requests, in slices where there are many, and as long as the page faults of the slab that is
 * obtained then. docs/stores.md has figures.
 *
 * hearth_session_run() calls them for the thread that it is called by.
 * Thread: the owner. Progress: of run_end, as the backing's when a slab is made or given back.
 * Returns NOT_OWNER, BUSY (re-entered, or a visitor did not get on), CLOSED, INVALID.
 */
HEARTH_API enum hearth_status hearth_exec_run_begin(struct hearth_exec *arena, uint64_t key);
HEARTH_API enum hearth_status hearth_exec_run_end(struct hearth_exec *arena);

/**
 * Give up ownership, so that another thread can claim the arena with its next call of the owner's.
 * Everything the owner did is visible to the claimant. Not for signal handlers. Thread: the owner.
 * Wait-free.
 * Returns NOT_OWNER, BUSY (called from inside one of the arena's operations), INVALID.
 */
HEARTH_API enum hearth_status hearth_exec_release_owner(struct hearth_exec *arena);

/** The arena as an allocator. Valid as long as the arena. */
HEARTH_API struct hearth_allocator *hearth_exec_allocator(struct hearth_exec *arena);

/** The arena behind an allocator, as hearth_buf_owner() gives it; NULL for an allocator of another
 *  kind, and for NULL. Thread: any. Wait-free. */
HEARTH_API struct hearth_exec *hearth_exec_of(struct hearth_allocator *allocator);

/* Getters. Thread: any, while the arena exists. Wait-free. 0 for NULL. Each is exact while the
 * arena is quiescent, and within the operations in flight otherwise; none is ever negative (it would
 * show as a huge number). hearth_exec_stats() in stats.h reads them together. */

/** Most buffers with storage at a time. */
HEARTH_API size_t hearth_exec_slots(const struct hearth_exec *arena);
/** Buffers handed out and not returned. */
HEARTH_API size_t hearth_exec_live_count(const struct hearth_exec *arena);
/** Logical bytes of live buffers. */
HEARTH_API size_t hearth_exec_live_bytes(const struct hearth_exec *arena);
/** Capacity in bytes of live buffers. Minus live_bytes: the slack. */
HEARTH_API size_t hearth_exec_live_capacity(const struct hearth_exec *arena);
/** Largest live_bytes since creation or the last reset. A return by another thread lowers live_bytes
 *  when it is queued, but the peak forgets it only when the owner takes it in: the peak may exceed
 *  the true one by what was pending. */
HEARTH_API size_t hearth_exec_peak_bytes(const struct hearth_exec *arena);
/** Free buffers that kept their storage. */
HEARTH_API size_t hearth_exec_retained_count(const struct hearth_exec *arena);
/** Capacity in bytes of the retained buffers. */
HEARTH_API size_t hearth_exec_retained_bytes(const struct hearth_exec *arena);
/** Buffers returned by other threads and not yet taken in by the owner. */
HEARTH_API size_t hearth_exec_pending_count(const struct hearth_exec *arena);
/** Capacity in bytes of the pending buffers. */
HEARTH_API size_t hearth_exec_pending_bytes(const struct hearth_exec *arena);
/** The bound on retained_bytes; HEARTH_UNBOUNDED if there is none. */
HEARTH_API size_t hearth_exec_retention_cap(const struct hearth_exec *arena);
/** Storage in bytes obtained from the backing and not given back. At quiescence exactly
 *  live_capacity + retained_bytes + pending_bytes. */
HEARTH_API size_t hearth_exec_footprint(const struct hearth_exec *arena);

HEARTH_END_DECLS

#endif
