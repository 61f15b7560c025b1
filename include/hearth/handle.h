/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file handle.h
 * A movable, exactly-once owner of a buffer or of a lease.
 *
 * A handle is a plain struct that the caller stores where it likes. It is empty or it owns one thing,
 * which it returns on reset; it embeds the generation, so a second return of a buffer is always
 * STALE, even after the slot was handed out again (a second release of a lease is found at the last
 * reference). Copying the struct does not copy the ownership: move it.
 *
 *     struct hearth_handle tensor = HEARTH_HANDLE_INIT;
 *     if (hearth_handle_from_buf(buf, &tensor) == HEARTH_OK)
 *         hearth_handle_move(&capsule->owner, &tensor);   // O(1), nothing is copied
 *
 * Thread: one handle is used by one thread at a time; its reset may run on any thread.
 */
#ifndef HEARTH_HANDLE_H
#define HEARTH_HANDLE_H

#include <hearth/allocator.h>
#include <hearth/export.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

/** What a handle owns. */
enum hearth_handle_kind {
    HEARTH_HANDLE_EMPTY = 0,
    HEARTH_HANDLE_BUF = 1,
    HEARTH_HANDLE_LEASE = 2,
};

/** Treat the members as private; zero-initialised means empty. */
struct hearth_handle {
    struct hearth_allocator *allocator; /**< What the buffer is returned to; NULL for a lease. */
    struct hearth_buf *buf;
    uint64_t generation;
    size_t size;   /**< Logical size when the handle was made. */
    uint32_t kind; /**< enum hearth_handle_kind */
    uint32_t reserved;
};

#define HEARTH_HANDLE_INIT                                                                         \
    {                                                                                              \
        NULL, NULL, 0, 0, 0, 0                                                                     \
    }

/** A handle that is reset when its scope is left (GCC and Clang). */
#define HEARTH_HANDLE_SCOPED __attribute__((cleanup(hearth_handle_cleanup))) struct hearth_handle

/**
 * Give a live buffer to an empty handle, which returns it to the buffer's own arena. hearth_free() by
 * hand is still possible and leaves the handle stale.
 * Returns BUSY when *handle is not empty, FOREIGN, STALE, LEASED, INVALID (NULL, or the buffer's
 * allocator has no free_exact). Wait-free.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_handle_from_buf(struct hearth_buf *buf,
                                                                      struct hearth_handle *handle);

/**
 * As hearth_handle_from_buf(), and the buffer is returned through `allocator`, which must outlive the
 * handle: for allocators that wrap another.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_handle_from(struct hearth_allocator *allocator, struct hearth_buf *buf,
                   struct hearth_handle *handle);

/**
 * Reset `to`, then move what `from` owns into it; `from` is empty afterwards. Moving a handle onto
 * itself changes nothing. O(1). Returns what the reset of `to` answered, or INVALID for NULL; the
 * move itself cannot fail.
 */
HEARTH_API enum hearth_status hearth_handle_move(struct hearth_handle *to,
                                                 struct hearth_handle *from);

/**
 * Return what the handle owns, and make it empty. OK for an empty handle and for NULL; STALE when the
 * buffer was already returned behind the handle's back. The handle is empty in every case.
 * Progress: that of hearth_free().
 */
HEARTH_API enum hearth_status hearth_handle_reset(struct hearth_handle *handle);

/**
 * Give up ownership without returning anything: the buffer goes to *buf, the caller owns it, and the
 * handle is empty. OK and a NULL buffer for an empty handle; LEASED, and nothing changes, when the
 * handle owns a lease (hearth_handle_release_lease() in io.h); INVALID for a NULL.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_handle_release(struct hearth_handle *handle,
                                                                     struct hearth_buf **buf);

/** Whether the handle owns a lease. */
HEARTH_API bool hearth_handle_holds_lease(const struct hearth_handle *handle);

/** The allocator that what the handle owns goes back to; NULL when empty. */
HEARTH_API struct hearth_allocator *hearth_handle_owner(const struct hearth_handle *handle);

/** The buffer the handle owns or leases; NULL when empty. */
HEARTH_API struct hearth_buf *hearth_handle_buf(const struct hearth_handle *handle);

/** Usable bytes; 0 when empty. */
HEARTH_API size_t hearth_handle_capacity(const struct hearth_handle *handle);

/** Logical bytes when the handle was made; 0 when empty. */
HEARTH_API size_t hearth_handle_logical_size(const struct hearth_handle *handle);

/** For HEARTH_HANDLE_SCOPED: resets the handle and ignores the answer. */
HEARTH_API void hearth_handle_cleanup(struct hearth_handle *handle);

HEARTH_END_DECLS

#endif
