/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file plan.h
 * Plans: what runs in which order, where each output lives, and when each value dies.
 *
 * A plan is built once from nodes with named inputs and output slots and from the graph's declared
 * outputs, and never changes. Names are NUL-terminated UTF-8, copied; the empty name is an optional
 * slot that is not used.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_PLAN_H
#define HEARTH_PLAN_H

#include <hearth/export.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_context;
struct hearth_plan;
struct hearth_plan_builder;

/** Where an output slot's value lives. */
enum hearth_role {
    HEARTH_ROLE_NONE = 0,      /**< An optional slot that is not used. */
    HEARTH_ROLE_EXECUTION = 1, /**< An intermediate. */
    HEARTH_ROLE_IO = 2,        /**< A declared output. */
};

/** No node: the answer where there is none. */
#define HEARTH_NODE_NONE SIZE_MAX

/** The kernel follows the slots: it uses only hearth_context_make_output() and its siblings,
 *  hearth_context_put_output() and hearth_context_make_temporary(), and moves nothing into an
 *  output's tensor by itself. Its outputs are not checked for their arena afterwards. */
#define HEARTH_NODE_SLOT_AWARE 1u

/** One node, as given to a builder. Everything is copied, except `user`. */
struct hearth_node {
    size_t size;               /**< Set by HEARTH_NODE_INIT. */
    const char *name;          /**< For error texts; need not be unique. */
    const char *const *inputs; /**< NULL or "": an optional input that is not used. */
    size_t input_count;
    const char *const *outputs; /**< NULL or "": an optional output that is not used. */
    size_t output_count;
    /**
     * What the node does; required. `context` is the run's context as this node sees it, valid
     * until the kernel returns, on this thread only; slots are the node's own. The kernel must
     * leave a value in every output slot that is used. Any answer but OK ends the run with that
     * answer.
     */
    enum hearth_status (*kernel)(struct hearth_context *context, void *user);
    void *user; /**< Passed to the kernel; outlives the plan. */
    /** Subgraphs that the kernel runs; referenced. A value of this graph that a body uses must be
     *  an input of the node, so that it lives as long as the node runs. */
    struct hearth_plan *const *bodies;
    size_t body_count;
    uint32_t flags; /**< HEARTH_NODE_* joined. */
    uint32_t reserved;
};

#define HEARTH_NODE_INIT                                                                           \
    {                                                                                              \
        sizeof(struct hearth_node), NULL, NULL, 0, NULL, 0, NULL, NULL, NULL, 0, 0, 0              \
    }

/** Create an empty builder. Thread: one at a time. Ownership: hearth_plan_builder_destroy() ends
 *  it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_create(struct hearth_plan_builder **builder);

/** End a builder; plans made from it stay. NULL is fine. */
HEARTH_API void hearth_plan_builder_destroy(struct hearth_plan_builder *builder);

/** Declare an initial input, in the order of the graph. Returns INVALID (empty name, declared
 *  before), NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_input(struct hearth_plan_builder *builder, const char *name);

/** Declare an output of the graph, in its order. Returns INVALID (empty name, declared before),
 *  NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_output(struct hearth_plan_builder *builder, const char *name);

/**
 * Add a node, in any order. `index`, if not NULL, receives its number: nodes count from 0 in the
 * order they were added, and keep that number in the plan.
 * Returns INVALID (no kernel, wrong size, unknown flags, a NULL array with a count), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_add_node(struct hearth_plan_builder *builder, const struct hearth_node *node,
                             size_t *index);

/**
 * Build the plan: order the nodes, give each output slot its role, find each value's last use.
 *
 * Refused are a cycle, a value with two producers (an initial input counts as one), an input that
 * nothing produces, and a declared output that nothing produces. `message`, if not NULL, then
 * receives one line of at most `bytes` bytes with its NUL that names the node and the value; it is
 * written in every case, empty on OK.
 * Thread: the builder's. The builder is unchanged and can be built from again.
 * Ownership: the caller holds one reference to *plan, given up by hearth_plan_unref().
 * Returns INVALID (as above, or NULL), OVERFLOW (more than 2^32 - 1 nodes or values), NO_MEMORY.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_plan_builder_build(const struct hearth_plan_builder *builder, struct hearth_plan **plan,
                          char *message, size_t bytes);

/** Take one more reference. Wait-free. NULL is fine. */
HEARTH_API void hearth_plan_ref(struct hearth_plan *plan);

/** Give up a reference. Contexts, sessions and plans that use it hold their own. NULL is fine. */
HEARTH_API void hearth_plan_unref(struct hearth_plan *plan);

/* Questions to a plan. Thread: any. Wait-free, O(1) but for looking up a name (a hash). Numbers out
 * of range, names that are no value of the plan and NULL get the answer for "none". */

/** Nodes in the plan. */
HEARTH_API size_t hearth_plan_node_count(const struct hearth_plan *plan);
/** A node's name; "" if it has none. Valid as long as the plan. */
HEARTH_API const char *hearth_plan_node_name(const struct hearth_plan *plan, size_t node);
/** The node that a serial run starts as number `step`, from 0; HEARTH_NODE_NONE. */
HEARTH_API size_t hearth_plan_node_at(const struct hearth_plan *plan, size_t step);
/** Declared outputs. */
HEARTH_API size_t hearth_plan_output_count(const struct hearth_plan *plan);
/** The name of a declared output, in the order they were declared; NULL. */
HEARTH_API const char *hearth_plan_output_name(const struct hearth_plan *plan, size_t index);
/** The role of one output slot of a node. */
HEARTH_API enum hearth_role hearth_plan_role(const struct hearth_plan *plan, size_t node,
                                             size_t slot);
/** The node that produces a value; HEARTH_NODE_NONE for initial inputs. */
HEARTH_API size_t hearth_plan_producer(const struct hearth_plan *plan, const char *value);
/** The last node in serial order that uses a value: its producer when nobody does, and
 *  HEARTH_NODE_NONE for declared outputs, which do not die in the run. */
HEARTH_API size_t hearth_plan_last_use(const struct hearth_plan *plan, const char *value);
/** How many nodes use a value: a parallel run releases it after that many. */
HEARTH_API size_t hearth_plan_use_count(const struct hearth_plan *plan, const char *value);
/** Whether an output slot may take over an input slot's storage in every order of execution: the
 *  input's only remaining use is this node, in this slot alone, and the roles agree. */
HEARTH_API bool hearth_plan_may_reuse(const struct hearth_plan *plan, size_t node,
                                      size_t input_slot, size_t output_slot);

HEARTH_END_DECLS

#endif
