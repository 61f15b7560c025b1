/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file io.h
 * The I/O arena: one for all threads, for buffers that leave the runtime.
 *
 * An I/O arena reuses storage like an execution arena, from any thread and without a lock. A buffer
 * that leaves is exported to a lease: a counted right to it, which can be retained, split into
 * views and released from anywhere, also after the arena was closed and after its last reference is
 * gone. The last release returns the buffer exactly once.
 *
 *                       live buffer   leased buffer   returned (stale)
 *     free                  OK            LEASED           STALE
 *     export                OK            LEASED           STALE
 *     resize                OK            LEASED           STALE
 *     lease retain/release   -            OK               STALE
 *
 * All calls may be made from any thread, attached or not, from thread-exit destructors, atexit
 * handlers and forked children. alloc, free, export, retain and release are lock-free outside the
 * backing and a thread's first call; with deadline waiters present a return takes their queue's
 * lock. create, destroy, trim, tick and the last unref may wait for a grace
 * period; they answer BUSY (unref defers the work) when called inside an RCU read section of the
 * caller's own. No other call waits for one.
 */
#ifndef HEARTH_IO_H
#define HEARTH_IO_H

#include <hearth/allocator.h>
#include <hearth/export.h>
#include <hearth/handle.h>
#include <hearth/status.h>
#include <hearth/trim.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_backing;
struct hearth_exec;
struct hearth_io;

/**
 * A counted right to a buffer: a small value, copied freely. Every copy stands for the same
 * references; what counts is how often retain and release are called. Zero-initialised means empty.
 */
struct hearth_lease {
    struct hearth_buf *buf;
    uint64_t generation;
};

#define HEARTH_LEASE_INIT                                                                          \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

/**
 * A part of a leased buffer, with a reference of its own in `lease`: release that when done. The
 * lease is one of the whole buffer, not of the part.
 */
struct hearth_view {
    struct hearth_lease lease;
    void *data;
    size_t size;
};

/**
 * Options of an I/O arena. Zero means default everywhere. An arena made with them grows or fails:
 * requests wait, and TIMEOUT is answered, only in the arena of a service whose policy is to wait
 * (HEARTH_EXHAUSTION_WAIT in service.h).
 */
struct hearth_io_options {
    size_t size; /**< Set by HEARTH_IO_OPTIONS_INIT. */
    /** Most buffers with storage at a time, adopted ones included; 0: 2^20. */
    size_t slots;
    /** Most bytes of capacity retained in free buffers; 0: HEARTH_UNBOUNDED. See
     *  HEARTH_RETAIN_NOTHING. */
    size_t retention_cap;
    /** Never exceeded by the capacity of live and leased buffers, adopted storage not counted; 0:
     *  HEARTH_UNBOUNDED. */
    size_t live_limit;
    /** As in struct hearth_exec_options. */
    uint32_t reuse_ratio;
    uint32_t reserved;
    /** Where storage comes from (referenced while in use); NULL: the process's default. */
    struct hearth_backing *backing;
};

#define HEARTH_IO_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct hearth_io_options), 0, 0, 0, 0, 0, NULL                                      \
    }

/**
 * Create an I/O arena. `options` may be NULL. The environment variable HEARTH_CONF overrides; see
 * hearth_conf_check().
 * Thread: any. Progress: may make system calls and wait for a grace period.
 * Ownership: the caller holds one reference, given up by hearth_io_unref() or hearth_io_destroy().
 * Returns INVALID (NULL arena, options->size is not one this library knows, a non-zero reserved
 * member, HEARTH_CONF cannot be parsed), OVERFLOW (more slots than can exist), NO_MEMORY, BUSY
 * (inside a read section of the caller's own).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_create(const struct hearth_io_options *options, struct hearth_io **io);

/** Take one more reference to the arena. Thread: any, while the caller holds one. Wait-free. NULL
 *  is fine. */
HEARTH_API void hearth_io_ref(struct hearth_io *io);

/**
 * Give up a reference of hearth_io_create() or hearth_io_ref(); hearth_service_io() gives none. The
 * last one closes the arena and completes the close: retained storage is given back. Inside a read
 * section of the caller's own it does not wait: the next create, trim or destroy of any I/O arena,
 * or hearth_io_tick(), completes it.
 *
 * Outstanding buffers and leases stay valid, and the last return of a buffer gives back payload and
 * core. While the caller holds a live bare buffer of the arena, hearth_io_free() and
 * hearth_io_export() may still be called on both after the last unref, and no other call on the
 * arena.
 * Thread: any. Progress: wait-free except for the last reference, which may wait for a grace
 * period. NULL is fine.
 */
HEARTH_API void hearth_io_unref(struct hearth_io *io);

/**
 * Close the arena: returns at once. From then on alloc, lease, take and adopt answer CLOSED;
 * retain, view, release, free and export of live buffers go on working. The caller's reference
 * stays.
 * Thread: any. Progress: lock-free.
 * Returns CLOSED (already closed), INVALID (NULL, or the arena of a service).
 */
HEARTH_API enum hearth_status hearth_io_close(struct hearth_io *io);

/**
 * Close the arena and give up the caller's reference, only if nothing is outstanding: else BUSY,
 * and nothing changes (see leased_count and owned_count). NULL is OK.
 * Thread: any. Progress: may wait for a grace period.
 * Returns BUSY (buffers or leases are outstanding, or inside a read section of the caller's own),
 * INVALID (the arena of a service).
 */
HEARTH_API enum hearth_status hearth_io_destroy(struct hearth_io *io);

/**
 * Complete the closes of I/O arenas of this process that were left over: for event loops, and for
 * programs whose last unref runs inside a read section of their own. Cheap when there are none.
 * Thread: any. Progress: may make system calls and wait for a grace period.
 * Returns BUSY (inside a read section of the caller's own; nothing is lost).
 */
HEARTH_API enum hearth_status hearth_io_tick(void);

/**
 * Take a buffer. The storage comes from the shared free lists if a sufficient buffer within the
 * reuse ratio is there, else from the backing. It never waits for returns.
 * Thread: any. Progress: lock-free on a hit; a miss calls the backing.
 * Ownership: see hearth_alloc().
 * Returns OVERFLOW, NO_MEMORY (the backing refused, or live_limit), NO_SLOT, CLOSED, INVALID (a NULL
 * argument).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_io_alloc(struct hearth_io *io, size_t size,
                                                               struct hearth_buf **buf);

/**
 * As hearth_io_alloc() with a request; see hearth_alloc_ex(). In the arena of a service whose
 * policy is to wait it waits for returns up to request->deadline_ns, UINT64_MAX meaning without a
 * deadline, and answers TIMEOUT when that passed or the wait was cancelled. Everywhere else the
 * deadline has no effect.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_alloc_ex(struct hearth_io *io, const struct hearth_request *request,
                   struct hearth_buf **buf);

/**
 * Return a live buffer that is not leased.
 * Thread: any. Progress: lock-free outside the backing; with deadline waiters present it takes
 * their queue's lock.
 * Returns FOREIGN, STALE, LEASED, INVALID (no arena).
 */
HEARTH_API enum hearth_status hearth_io_free(struct hearth_io *io, struct hearth_buf *buf);

/**
 * Alloc and export in one step: the fast way to a buffer that leaves. It never waits for returns,
 * whatever the policy.
 * Thread, Progress: as hearth_io_alloc(). Ownership: the caller holds one reference.
 * Returns as hearth_io_alloc().
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_io_lease(struct hearth_io *io, size_t size,
                                                               struct hearth_lease *lease);

/**
 * As hearth_io_lease() with a request, which waits as in hearth_io_alloc_ex().
 * Thread, Progress, Returns: as hearth_io_alloc_ex(). Ownership: the caller holds one reference.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_lease_ex(struct hearth_io *io, const struct hearth_request *request,
                   struct hearth_lease *lease);

/**
 * Export a live buffer: ownership goes from the buffer's holder to the lease, with one reference.
 * Nothing is copied. The lease keeps the logical size of this moment.
 * Thread: any. Progress: lock-free. Ownership: the caller holds one reference.
 * Returns FOREIGN, STALE, LEASED (already exported), INVALID (no arena or a NULL lease).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_export(struct hearth_io *io, struct hearth_buf *buf, struct hearth_lease *lease);

/** Export a live buffer to an empty handle that owns the lease. As hearth_io_export(), and BUSY
 *  when the handle is not empty. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_export_handle(struct hearth_io *io, struct hearth_buf *buf, struct hearth_handle *handle);

/**
 * Turn a handle that owns a live buffer of this arena into one that owns its lease.
 * Thread: the handle's user. Progress: lock-free.
 * Returns FOREIGN, STALE, LEASED (exported behind the handle's back), INVALID (NULL, or the handle
 * is empty or already owns a lease); the handle is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_io_export_held(struct hearth_io *io,
                                                                     struct hearth_handle *handle);

/**
 * Move a live execution buffer's storage into this arena without a copy. *io_buf is a new live
 * buffer with the same data pointer, size and capacity; the old descriptor becomes STALE. There is
 * no way in the other direction. What is a part of something larger cannot move: a span, or a place in
 * the slab of a plan (HEARTH_EXEC_STORE_SPANS, _PLANS). Of such a buffer *io_buf is a copy, with another
 * data pointer and perhaps another capacity: ask hearth_buf_data() again. For the moment of the copy a
 * limit on live bytes counts both. A plan leaves out what is taken once the run is planned anew. The storage is charged to this arena (live_capacity, footprint,
 * its caps and limits), and goes back to the backing it came from.
 *
 * In return the buffer's arena gets the storage of a free buffer of this arena, if there is one of
 * the same size class and alignment within reach and that arena may retain it as things are: so
 * outputs that are taken in each run and come home cost no backing call, and neither arena grows.
 * What the calling thread keeps for itself comes first, then what all threads share. Nothing is
 * obtained, evicted or given back for it; slots that ran out do not matter then. Each arena's
 * backing_acquires and backing_releases count what it got and gave in this way as well; misses and
 * evictions do not.
 *
 * Thread: the owner of the buffer's arena. Progress: lock-free.
 * Ownership: the caller owns *io_buf.
 * Returns FOREIGN, STALE, LEASED, NOT_OWNER, CLOSED, NO_SLOT, NO_MEMORY (also: live_limit would be
 * passed), BUSY (re-entered from a signal handler), INVALID (hearth_io_can_take() is false: copy
 * instead; or a NULL); the buffer is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_take(struct hearth_io *io, struct hearth_buf *exec_buf, struct hearth_buf **io_buf);

/**
 * Whether the backings of the two arenas allow hearth_io_take() of `arena`'s buffers. The answer
 * never changes for a pair of arenas; it does not say that a take will find a slot or be within the
 * limits. Thread: any. Wait-free. false for NULL.
 */
HEARTH_API bool hearth_io_can_take(const struct hearth_io *io, const struct hearth_exec *arena);

/**
 * Lease storage from outside. `release` is called once with `data`, `size` and `context` when the
 * last reference goes, on whatever thread that is; the storage never enters a free list.
 *
 * The storage keeps its own alignment, HEARTH_ALIGNMENT does not hold for it. It is found neither
 * by hearth_buf_of() nor by hearth_lease_deleter(), and may be adopted more than once: each adopt
 * gives a lease of its own, with a release of its own. It counts in live_count, leased_count,
 * live_bytes and leased_bytes; not in live_capacity, against live_limit or in the footprint.
 *
 * `release` runs outside of the library's protected sections and may call hearth. It must return:
 * neither an exception nor longjmp may leave it. In a forked child the last release of the child's
 * copy of the lease calls it as well.
 * Thread: any. Progress: lock-free. Ownership: taken over only on OK; the caller holds one
 * reference.
 * Returns INVALID (NULL data with a size, NULL release, a NULL arena or lease), OVERFLOW (a size that
 * no process has), CLOSED, NO_SLOT, NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_io_adopt(struct hearth_io *io, void *data, size_t size,
                void (*release)(void *data, size_t size, void *context), void *context,
                struct hearth_lease *lease);

/**
 * Take one more reference. Thread: any. Progress: lock-free.
 * Returns STALE, FOREIGN (no buffer at all), OVERFLOW (count at its maximum).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_lease_retain(struct hearth_lease lease);

/**
 * Give up one reference; the last one returns the buffer. Of several concurrent last releases
 * exactly one is OK.
 *
 * References have no names, so one release too many takes another holder's: it is answered OK, the
 * holder who comes last is answered STALE, and may have read reused storage before. After the last
 * reference every further release is STALE, also after the arena is gone.
 * Thread: any. Progress: lock-free outside the backing; with deadline waiters present the last one
 * takes their queue's lock.
 * Returns STALE, FOREIGN (no buffer at all).
 */
HEARTH_API enum hearth_status hearth_lease_release(struct hearth_lease lease);

/**
 * Release by data pointer: for interfaces that keep one pointer and a `void (*)(void *)`. It gives
 * up one reference of the lease whose buffer starts at `data`. Pass hearth_lease_data(), not a
 * view's data: an interior pointer is FOREIGN, which is counted as a misuse and releases nothing;
 * so is adopted storage. Without a generation a release too many is found only until the buffer is
 * handed out again; prefer hearth_lease_release(). NULL is fine.
 * Thread, Progress: as hearth_lease_release().
 */
HEARTH_API void hearth_lease_deleter(void *data);

/* Questions to a lease. Thread: any; only a holder can rely on the answer. Wait-free. */

/** The leased buffer; NULL when the lease is empty or stale. */
HEARTH_API struct hearth_buf *hearth_lease_buf(struct hearth_lease lease);
/** Start of the data; NULL when empty or stale. */
HEARTH_API void *hearth_lease_data(struct hearth_lease lease);
/** Logical size at the export; 0 when empty or stale. */
HEARTH_API size_t hearth_lease_size(struct hearth_lease lease);
/** Whether the lease is still held by anybody. */
HEARTH_API bool hearth_lease_valid(struct hearth_lease lease);

/**
 * A view of bytes [offset, offset + size) of a lease, with one more reference. A view of a view is
 * made from view.lease, and its offset is relative to the whole lease, not to the first view.
 * Thread: any. Progress: lock-free. Ownership: the caller holds the reference in view->lease.
 * Returns INVALID (a range outside of the lease's size, or NULL), STALE, FOREIGN, OVERFLOW.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_lease_view(struct hearth_lease lease, size_t offset, size_t size, struct hearth_view *view);

/**
 * Give a lease to an empty handle: the handle takes over the caller's reference.
 *
 * Thread: any. Wait-free. Ownership: the caller's reference becomes the handle's, only on OK.
 * Returns BUSY (the handle is not empty), STALE, FOREIGN (an empty lease), INVALID (NULL).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_handle_from_lease(struct hearth_lease lease, struct hearth_handle *handle);

/**
 * Take the lease out of a handle that owns one; the handle is empty afterwards.
 * Thread: the handle's user. Wait-free. Ownership: the handle's reference becomes the caller's.
 * Returns INVALID (NULL, or the handle does not own a lease); the handle is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_handle_release_lease(struct hearth_handle *handle, struct hearth_lease *lease);

/**
 * Give back all retained storage, in the shared lists and in other threads' idle caches. `released`
 * may be NULL. As hearth_io_trim_ex() without a goal and without a budget.
 */
HEARTH_API enum hearth_status hearth_io_trim(struct hearth_io *io, size_t *released);

/**
 * Give retained storage back, least recently freed first, until `goal_bytes` were released
 * (HEARTH_UNBOUNDED: all) or `budget_ns` nanoseconds have passed (0: no bound). With a budget other
 * than 0 it does not wait for a grace period: what needs one is left to the next call, and
 * report->more says so. See hearth_service_trim() for the rest.
 *
 * `report` may be NULL; report->size must be set (HEARTH_TRIM_REPORT_INIT), members beyond it are
 * not written. It is about this arena alone, so released_exec_bytes is 0. It is also written, as
 * far as the work went, when the answer is BUSY.
 * Thread: any. Progress: waits for nobody's operation; may wait for a grace period when budget_ns
 * is 0.
 * Returns OK whatever was released, BUSY (inside a read section of the caller's own: what needs no
 * grace period was done), INVALID.
 */
HEARTH_API enum hearth_status hearth_io_trim_ex(struct hearth_io *io, size_t goal_bytes,
                                                uint64_t budget_ns,
                                                struct hearth_trim_report *report);

/**
 * Bound the retained bytes; evicts at once, least recently freed first. HEARTH_UNBOUNDED lifts the
 * bound; 0 retains nothing.
 * Threads that are inside an operation at that moment may retain one more buffer each. Afterwards
 * the cap is not passed; up to 1/512 of it for each thread may be out of reach of the others.
 * Thread: any. Progress: waits for nobody; makes a system call.
 * Returns INVALID.
 */
HEARTH_API enum hearth_status hearth_io_set_retention_cap(struct hearth_io *io, size_t bytes);

/** Set the peak to the present live bytes. Thread: any. Progress: lock-free. Returns INVALID. */
HEARTH_API enum hearth_status hearth_io_reset_peak(struct hearth_io *io);

/** The arena as an allocator. Thread: any. Wait-free. Valid while the caller holds a reference.
 *  NULL for NULL. */
HEARTH_API struct hearth_allocator *hearth_io_allocator(struct hearth_io *io);

/* Getters. Thread: any, while the caller holds a reference. Progress: without a lock, proportional
 * to the threads that used the arena. 0 for NULL. Each is exact at quiescence, and within the
 * operations in flight otherwise; none is ever negative. */

/** Most buffers with storage at a time. */
HEARTH_API size_t hearth_io_slots(const struct hearth_io *io);
/** Buffers handed out and not returned: owned and leased, adopted ones included. */
HEARTH_API size_t hearth_io_live_count(const struct hearth_io *io);
/** Live and not leased. */
HEARTH_API size_t hearth_io_owned_count(const struct hearth_io *io);
/** Live through a lease, adopted ones included. */
HEARTH_API size_t hearth_io_leased_count(const struct hearth_io *io);
/** Logical bytes of live buffers, owned and leased, adopted ones included. */
HEARTH_API size_t hearth_io_live_bytes(const struct hearth_io *io);
/** Logical bytes of leased buffers, adopted ones included. */
HEARTH_API size_t hearth_io_leased_bytes(const struct hearth_io *io);
/** Capacity of live buffers: what live_limit bounds; adopted storage does not count. */
HEARTH_API size_t hearth_io_live_capacity(const struct hearth_io *io);
/** Largest live_bytes since creation or the last reset. Exact while one thread used the arena, else
 *  never too high by more than the operations in flight, and too low by at most 2 MiB, or 8 times its
 *  largest buffer, for each other thread. */
HEARTH_API size_t hearth_io_peak_bytes(const struct hearth_io *io);
/** Free buffers with storage. */
HEARTH_API size_t hearth_io_retained_count(const struct hearth_io *io);
/** Capacity of free buffers. */
HEARTH_API size_t hearth_io_retained_bytes(const struct hearth_io *io);
/** Buffers returned and not yet reusable. */
HEARTH_API size_t hearth_io_pending_count(const struct hearth_io *io);
/** Capacity of the pending buffers. */
HEARTH_API size_t hearth_io_pending_bytes(const struct hearth_io *io);
/** The bound on retained_bytes; HEARTH_UNBOUNDED if there is none. */
HEARTH_API size_t hearth_io_retention_cap(const struct hearth_io *io);
/** Storage obtained from a backing (taken storage included) and not given back; adopted storage
 *  does not count. At quiescence exactly live_capacity + retained_bytes + pending_bytes. */
HEARTH_API size_t hearth_io_footprint(const struct hearth_io *io);

HEARTH_END_DECLS

#endif
