/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file kernel.h
 * What a kernel may ask of its context: inputs, outputs by slot, workspaces, bodies.
 *
 * The kernel names the slot it is producing; the plan decides where the value lives.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_KERNEL_H
#define HEARTH_KERNEL_H

#include <hearth/allocator.h>
#include <hearth/export.h>
#include <hearth/plan.h>
#include <hearth/status.h>
#include <hearth/tensor.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_context;

/* For kernels: on the context that the kernel got. Slots count from 0. O(1), no metadata
 * allocation. On any other context they are INVALID (pointers: NULL, bool: false). A
 * kernel neither detaches its thread from the service nor forks with the child returning from it. */

/** An input's value; NULL for an optional slot that is not used. Ownership: the context's; valid
 *  until the kernel returns, or the input is reused in place. */
HEARTH_API const struct hearth_tensor *hearth_context_input(const struct hearth_context *context,
                                                            size_t slot);

/** An output's value made so far; NULL. Ownership: the context's. */
HEARTH_API struct hearth_tensor *hearth_context_output(const struct hearth_context *context,
                                                       size_t slot);

/**
 * Make the tensor of an output slot where its role wants it: bound storage, the I/O allocator or
 * the execution allocator. The content is unspecified. Making a slot twice releases the first
 * value.
 * Ownership: the context's. The kernel may write to it until it returns.
 * Returns INVALID (unused or unknown slot, impossible type or shape, does not fit bound storage),
 * OVERFLOW, and what hearth_alloc() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_output(struct hearth_context *context, size_t slot, enum hearth_dtype dtype,
                           const struct hearth_shape *shape, struct hearth_tensor **tensor);

/** As hearth_context_make_output() with the byte size given, as in hearth_tensor_make(); for STRING
 *  and for layouts of the kernel's own. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_output_sized(struct hearth_context *context, size_t slot,
                                 enum hearth_dtype dtype, const struct hearth_shape *shape,
                                 size_t bytes, struct hearth_tensor **tensor);

/** Whether make_output_in_place() of these slots would reuse the input now: the plan allows it, and
 *  the input's value is neither borrowed nor leased nor bound. Another byte size than the input's
 *  also needs the buffer to be of the running thread's arena. */
HEARTH_API bool hearth_context_can_reuse(const struct hearth_context *context, size_t input_slot,
                                         size_t output_slot);

/**
 * Make an output in its input's storage, content kept: the input's value is gone. Within the
 * input's capacity only. Ownership: as hearth_context_make_output().
 * Returns INVALID (see hearth_context_can_reuse(), or it does not fit), OVERFLOW,
 * NOT_OWNER (another byte size, another thread's buffer); the input is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_make_output_in_place(
    struct hearth_context *context, size_t input_slot, size_t output_slot, enum hearth_dtype dtype,
    const struct hearth_shape *shape, struct hearth_tensor **tensor);

/**
 * Give a finished tensor to an output slot: it is moved. For a declared output, execution storage
 * is taken by the I/O arena, or copied, counted, where it cannot be (hearth_io_can_take() is false,
 * or the buffer is another thread's). For an intermediate, storage of the I/O arena is copied,
 * counted: no take leads there. A borrowed tensor is copied, counted, in either role.
 * Returns INVALID, and what hearth_alloc() answers; the tensor is then unchanged.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_put_output(struct hearth_context *context, size_t slot,
                          struct hearth_tensor *tensor);

/**
 * Take a workspace from the execution allocator, whatever allocator is active and whatever roles
 * the node's outputs have. It is returned when the kernel returns, or before by
 * hearth_context_free_temporary(); do not return it in another way.
 * Returns what hearth_alloc() answers, INVALID.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_make_temporary(struct hearth_context *context, size_t bytes,
                              struct hearth_buf **buf);

/** Return a workspace early. Returns FOREIGN for what is not a workspace of this node. */
HEARTH_API enum hearth_status hearth_context_free_temporary(struct hearth_context *context,
                                                            struct hearth_buf *buf);

/** The allocator that hearth_context_make_output() would use for a slot; NULL when it would be
 *  inline, bound or the slot is not used. */
HEARTH_API struct hearth_allocator *
hearth_context_allocator_for_output(const struct hearth_context *context, size_t slot);

/** The execution allocator in force here: the option's, or the running thread's arena; NULL. */
HEARTH_API struct hearth_allocator *
hearth_context_execution_allocator(const struct hearth_context *context);

/** The I/O allocator in force here; NULL. */
HEARTH_API struct hearth_allocator *
hearth_context_io_allocator(const struct hearth_context *context);

/**
 * The active allocator, for old-style kernels that know no slots: before each node the runtime sets
 * it to the I/O allocator if every used output of the node is declared, else to the execution
 * allocator. The declared outputs of a mixed node are then taken by the I/O arena, or copied,
 * counted, where hearth_io_can_take() is false; its intermediates are where they belong. Works on
 * every context. NULL when there is none.
 */
HEARTH_API struct hearth_allocator *hearth_context_allocator(const struct hearth_context *context);

/** Switch the active allocator, in a kernel until it returns; NULL: the default again. The
 *  allocator outlives the values it makes. An intermediate made in the I/O arena this way is
 *  copied, counted, when the kernel returns. Returns INVALID outside of a kernel. */
HEARTH_API enum hearth_status hearth_context_set_allocator(struct hearth_context *context,
                                                           struct hearth_allocator *allocator);

/* Bodies: subgraphs, functions and loops. For kernels of nodes that have bodies.
 *
 *     hearth_context_body(ctx, 0, &body);
 *     for (...) {
 *         hearth_context_put(body, "state", &state);              // moved in
 *         hearth_context_lend(body, "x", hearth_context_input(ctx, 0));
 *         hearth_context_run_body(body);
 *         hearth_context_take(body, "next", &state);              // moved out
 *     }
 *     hearth_context_put_output(ctx, 0, &state);
 */

/**
 * The context of one of the node's bodies, empty. Its intermediates come from a child execution
 * arena of the running thread, which is kept for later runs: a body that runs again, in a loop or
 * in the next run, allocates nothing. Its declared outputs have the role of the parent's slot they
 * are routed to, and the execution role in the parent otherwise.
 * Ownership: the node's; valid until the kernel returns. Calling it again clears the same context.
 * Returns INVALID (no such body), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_body(struct hearth_context *context, size_t index, struct hearth_context **body);

/** Route a declared output of a body to an output slot of the node: the body writes it straight to
 *  the arena that the slot's role wants, and the kernel moves it there with hearth_context_take() and
 *  hearth_context_put_output(); a slot that is bound then gets a counted copy. Holds until the kernel
 *  returns. Returns INVALID, BUSY (the body runs). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_route_output(struct hearth_context *body, const char *name, size_t slot);

/** Lend a value to a body: it borrows the tensor, which must not change until the body's run is
 *  over and the value is replaced or cleared. Nothing is copied. Returns as
 *  hearth_context_put(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_context_lend(struct hearth_context *body, const char *name,
                    const struct hearth_tensor *tensor);

/** Run a body once, serially, on this thread. Its declared outputs are values of `body` afterwards;
 *  its inputs are gone unless lent. What was taken from a body before counts in the run's peaks until it
 *  is given to a body or an output, until the next run of a body, or until the kernel returns; what a
 *  kernel keeps in its own hands counts as well as that is known. Bodies
 *  nest at most HEARTH_CHILD_DEPTH_MAX deep. Returns as hearth_session_run(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_context_run_body(struct hearth_context *body);

HEARTH_END_DECLS

#endif
