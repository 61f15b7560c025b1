/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan as the runtime reads it: arrays of numbers, so that routing at run time is an index. Immutable
 * once built; values are numbered as their names are, nodes in the order they were added.
 */
#ifndef HEARTH_RUNTIME_PLAN_H
#define HEARTH_RUNTIME_PLAN_H

#include "core/atomic.h"
#include "runtime/names.h"

#include <hearth/plan.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTH__NO_VALUE HEARTH__NO_NAME
#define HEARTH__NO_NODE UINT32_MAX

/* A part of one of the plan's arrays. */
struct hearth__range {
    uint32_t first;
    uint32_t count;
};

struct hearth__input_slot {
    uint32_t value; /* HEARTH__NO_VALUE: not used */
    /* Whether an output of the node may take over the storage, in every order of execution: an intermediate,
     * in no other slot of this node, whose other users all come before this node on every path. */
    bool last;
};

struct hearth__output_slot {
    uint32_t value; /* HEARTH__NO_VALUE: not used */
    enum hearth_role role;
};

struct hearth__plan_node {
    const char *name; /* never NULL */
    enum hearth_status (*kernel)(struct hearth_context *context, void *user);
    void *user;
    uint32_t flags;               /* HEARTH_NODE_* */
    uint32_t step;                /* place in the serial order */
    uint32_t waits;               /* distinct nodes that it comes after */
    bool all_outputs_io;          /* it has used outputs, and all are declared */
    struct hearth__range inputs;  /* of plan->inputs */
    struct hearth__range outputs; /* of plan->outputs */
    struct hearth__range next;    /* of plan->next: distinct nodes that wait for this one */
    struct hearth__range uses;    /* of plan->uses: distinct values among its inputs */
    struct hearth__range deaths;  /* of plan->deaths: values that die after it in serial order */
    struct hearth__range bodies;  /* of plan->bodies */
};

struct hearth__plan_value {
    uint32_t producer;      /* node; HEARTH__NO_NODE for initial inputs */
    uint32_t producer_slot; /* output slot of the producer */
    uint32_t uses;          /* distinct nodes that have it as an input */
    uint32_t last_node; /* the last of them in serial order, else the producer; HEARTH__NO_NODE */
    uint32_t output_index; /* as a declared output; HEARTH__NO_VALUE */
    bool is_input;         /* an initial input */
    bool is_output;        /* a declared output */
};

struct hearth_plan {
    _Atomic(uint64_t) refs;
    struct hearth__names names; /* of the values; number = value */
    size_t node_count;
    size_t value_count;
    size_t input_count;  /* initial inputs */
    size_t output_count; /* declared outputs */
    struct hearth__plan_node *nodes;
    struct hearth__plan_value *values;
    uint32_t *order;    /* node by step */
    uint32_t *initial;  /* value by number of initial input */
    uint32_t *declared; /* value by number of declared output */
    struct hearth__input_slot *inputs;
    struct hearth__output_slot *outputs;
    uint32_t *next;              /* nodes */
    uint32_t *uses;              /* values */
    uint32_t *deaths;            /* values; never an initial input or a declared output */
    struct hearth_plan **bodies; /* a reference held on each */
    size_t body_count;
    uint32_t most_bodies;           /* of any node */
    struct hearth_plan *next_ended; /* while it is being freed */
};

static inline const char *hearth__plan_value_name(const struct hearth_plan *plan, uint32_t value)
{
    return hearth__names_text(&plan->names, value);
}

#endif
