/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file status.h
 * What a call answers, and the hook that hears about misuse.
 *
 * Every fallible call returns an enum hearth_status; results go through out-parameters, which are
 * written only when the answer is HEARTH_OK unless the call's comment says otherwise. A call that
 * does not answer HEARTH_OK has changed nothing, unless its comment says otherwise.
 */
#ifndef HEARTH_STATUS_H
#define HEARTH_STATUS_H

#include <hearth/export.h>

#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

/**
 * The one list of answers: X(NAME, value, text). Values are pinned; new answers are added at the
 * end. Callers must be prepared for values they do not know.
 */
#define HEARTH_STATUS_MAP(X)                                                                       \
    X(OK, 0, "success")                                                                            \
    X(NO_MEMORY, 1, "the backing refused storage, or a limit on live bytes was reached")           \
    X(NO_SLOT, 2, "every slot of the arena is in use")                                             \
    X(INVALID, 3, "an argument or option is impossible")                                           \
    X(OVERFLOW, 4, "a size or count is beyond what can be represented")                            \
    X(FOREIGN, 5, "the pointer is not a buffer of this arena")                                     \
    X(STALE, 6, "the buffer, lease or handle was already returned")                                \
    X(LEASED, 7, "the buffer is leased: release its leases instead")                               \
    X(BUSY, 8, "buffers are outstanding, or the object is in use at this moment")                  \
    X(CLOSED, 9, "the arena or service was closed")                                                \
    X(TIMEOUT, 10, "the deadline passed first")                                                    \
    X(NOT_OWNER, 11, "the calling thread does not own the arena")

enum hearth_status {
#define HEARTH_STATUS_ENUM(name, value, text) HEARTH_##name = value,
    HEARTH_STATUS_MAP(HEARTH_STATUS_ENUM)
#undef HEARTH_STATUS_ENUM
};

/**
 * The name of a status without its prefix, for example "NO_MEMORY"; "UNKNOWN" for a value this
 * library does not know. Static storage. Thread: any. Async-signal-safe.
 */
HEARTH_API HEARTH_CONST const char *hearth_status_name(enum hearth_status status);

/**
 * One line of text for people. Static storage; never NULL. Thread: any. Async-signal-safe.
 */
HEARTH_API HEARTH_CONST const char *hearth_status_text(enum hearth_status status);

struct hearth_allocator;

/** One wrong use of the library, as told to the misuse callback. Filled by the library. */
struct hearth_misuse {
    size_t size; /**< sizeof(struct hearth_misuse) of the running library. */
    /** What the call answers: FOREIGN, STALE, LEASED, BUSY, NOT_OWNER, CLOSED or INVALID. For misuse
     *  found after the wrong call had already returned (a stale return met in an inbox), STALE. */
    enum hearth_status status;
    /** The public call that was used wrongly, for example "hearth_exec_free". */
    const char *call;
    /** The arena the call was made on; NULL when there is none. */
    const struct hearth_allocator *arena;
    /** The offending argument as passed: a buffer, a payload or a lease's buffer. Not dereferenced.
     *  NULL when no one argument is to blame. */
    const void *slot;
    /** What is wrong and what to do about it; never NULL. Valid during the callback only. */
    const char *detail;
};

/** A misuse callback. The object must stay valid until another one was set and every call that may
 *  have seen it has returned; static storage is the easy way. */
struct hearth_misuse_handler {
    void (*fn)(void *context, const struct hearth_misuse *misuse);
    void *context;
};

/**
 * Set the process-wide misuse callback; NULL restores the default, which prints one line to standard
 * error for each of the first 16 misuses and one line that says so when it falls silent. Counters
 * move in either case.
 *
 * The callback runs on the thread that found the misuse: the one that made the wrong call, or the
 * arena's owner for a stale return that it met in its inbox. The library has left its protected
 * section, so the callback may call hearth; it must return (longjmp out of it is undefined). A call
 * answered BUSY because it came from a signal handler inside another call is counted and not told.
 *
 * Thread: any. Progress: wait-free.
 * Ownership: the handler stays the caller's. Returns the handler that was set before, or NULL.
 */
HEARTH_API const struct hearth_misuse_handler *
hearth_misuse_set_handler(const struct hearth_misuse_handler *handler);

/**
 * Misuses answered by the whole process since it started. Monotone. Thread: any. Wait-free.
 */
HEARTH_API uint64_t hearth_misuse_count(void);

HEARTH_END_DECLS

#endif
