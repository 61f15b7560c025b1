/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file context.h
 * Contexts: the values of one run at a time, by name.
 *
 * Before a run a context receives inputs and bound outputs, afterwards it has the declared outputs. On a
 * context that a run or an export uses, and on the one that a kernel got, these calls answer BUSY (counts:
 * 0).
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_CONTEXT_H
#define HEARTH_CONTEXT_H

#include <hearth/allocator.h>
#include <hearth/events.h>
#include <hearth/export.h>
#include <hearth/io.h>
#include <hearth/plan.h>
#include <hearth/status.h>
#include <hearth/tensor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_context;

/** Allow values made by allocators other than the context's: they stay where they are. Otherwise
 *  execution storage of a declared output changes arena by take where hearth_io_can_take() allows
 *  it, and everything else with one counted copy. */
#define HEARTH_CONTEXT_FOREIGN 1u

/** Options of a context. Zero means default everywhere. */
struct hearth_context_options {
    size_t size; /**< Set by HEARTH_CONTEXT_OPTIONS_INIT. */
    /** The plan whose names get O(1) access and no allocation per value (referenced); NULL: names
     *  are learned as they come, each allocating once. */
    struct hearth_plan *plan;
    /** Serves intermediates and workspaces; it outlives the context's values. NULL: the session's
     *  service, with the running thread's arena; without one, tensors are inline and workspaces are
     *  INVALID. A run on an executor needs NULL. */
    struct hearth_allocator *execution;
    /** Serves declared outputs and staged inputs; a run on an executor calls it from several threads at
     *  once, and is INVALID with an execution arena or a simple allocator here. NULL: the allocator of
     *  `arena`; without one, as `execution`. */
    struct hearth_allocator *io;
    /** The arena that exports become leases of (referenced); NULL: the session's service's; without
     *  one, exports are INVALID. */
    struct hearth_io *arena;
    /** Serves what the members above leave open, in place of the session's service, and before the
     *  first run, when no session is known yet (referenced); NULL: the session's. */
    struct hearth_service *service;
    /** NULL: none. Copied. */
    const struct hearth_event_handler *events;
    /** HEARTH_CONTEXT_* joined. */
    uint32_t flags;
    uint32_t reserved;
};

#define HEARTH_CONTEXT_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_context_options), NULL, NULL, NULL, NULL, NULL, NULL, 0, 0            \
    }

/** Create a context. `options` may be NULL. Thread: any. Ownership: hearth_context_destroy() ends
 *  it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_create(const struct hearth_context_options *options,
                      struct hearth_context **context);

/** Clear and end a context. Exported outputs stay valid. BUSY, and nothing changes, while a run
 *  uses it or when it is a node's or a body's. NULL is OK. */
HEARTH_API enum hearth_status hearth_context_destroy(struct hearth_context *context);

/**
 * Give a value to a name that has none: `tensor` is moved, and empty afterwards.
 * Thread: the context's user. Progress: no allocation for names of the plan.
 * Returns BUSY (the name has a value, or a run uses the context), INVALID (empty name or tensor),
 * NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_set(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** As hearth_context_set(), and a value the name has is released first. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_put(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** Look at a value. Ownership: the context's; valid until the value is replaced, removed, taken or
 *  dies. Returns INVALID when the name has no value; *tensor is then NULL. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_get(const struct hearth_context *context, const char *name,
                   const struct hearth_tensor **tensor);

/** Move a value out to an empty tensor; the name has none afterwards. Returns BUSY (*tensor is not
 *  empty, or a run uses the context), INVALID. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_take(struct hearth_context *context, const char *name, struct hearth_tensor *tensor);

/** Release a value. Returns INVALID when the name has none, BUSY. */
HEARTH_API enum hearth_status hearth_context_remove(struct hearth_context *context,
                                                    const char *name);

/** Release every value and forget bound outputs. What was exported stays valid. Room for names is
 *  kept. Returns BUSY, INVALID. */
HEARTH_API enum hearth_status hearth_context_clear(struct hearth_context *context);

/** Names that have a value. */
HEARTH_API size_t hearth_context_count(const struct hearth_context *context);

/**
 * List the names that have a value, in no particular order. At most `room` pointers are written;
 * *count receives the number of names. Ownership: the context's; valid until it changes.
 * Returns OVERFLOW when there are more than `room`, INVALID.
 */
HEARTH_API enum hearth_status hearth_context_names(const struct hearth_context *context,
                                                   const char **names, size_t room, size_t *count);

/* Inputs and outputs of a run, before and after it. Thread: the context's user. BUSY in a run. */

/** Give an input that stays the caller's: nothing is allocated or copied, and the runtime does not
 *  write to it. It replaces a value. Returns as hearth_context_put(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_borrow(struct hearth_context *context, const char *name, const void *data,
                      size_t bytes, enum hearth_dtype dtype, const struct hearth_shape *shape);

/**
 * Make room for an input in the I/O arena, for the caller to convert or receive into; with `data`,
 * copy `bytes` bytes from there, counted. `bytes` as in hearth_tensor_make(). It replaces a value.
 * `tensor`, if not NULL, receives it. Ownership: the context's.
 * Returns as hearth_context_put(), and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_stage(struct hearth_context *context, const char *name, enum hearth_dtype dtype,
                     const struct hearth_shape *shape, const void *data, size_t bytes,
                     struct hearth_tensor **tensor);

/**
 * Bind a preallocated tensor to a declared output: it is moved, and each run writes the output
 * there when type and byte size fit its capacity, and fails with INVALID when they do not. The
 * binding holds until the output is exported, taken or cleared: a bound buffer that left is never
 * written again. A tensor that holds a lease cannot be bound: it left already. A borrowed
 * one can; its memory is the caller's and is written by every run.
 * Returns BUSY (bound before, or a run uses the context), INVALID (not a declared output of the
 * context's plan, empty tensor), LEASED.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_bind_output(struct hearth_context *context, const char *name,
                           struct hearth_tensor *tensor);

/**
 * Export a value as a lease; the name has no value afterwards. Nothing is copied, except a borrowed
 * value, counted. `tensor`, if not NULL, must be empty and receives type and shape, borrowing the
 * lease's data.
 * Ownership: the caller holds one reference, which outlives everything else.
 * Returns INVALID (no value, no arena), BUSY (a run uses the context), and what
 * hearth_tensor_export() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_export(struct hearth_context *context,
                                                                     const char *name,
                                                                     struct hearth_lease *lease,
                                                                     struct hearth_tensor *tensor);

HEARTH_END_DECLS

#endif
