/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs and what must come out of them.
 *
 * Each value of a run has a stamp, which fills its buffer: that of an initial input is drawn from the run, that
 * of an output is made from the node, the slot and the stamps of the node's inputs. So the driver knows all
 * stamps before the run starts, and a buffer that somebody else wrote to shows wherever it is read.
 */
#ifndef HEARTH_STRESS_SESSION_GRAPH_H
#define HEARTH_STRESS_SESSION_GRAPH_H

#include <hearth/plan.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth_context;
struct hearth_session;

#define GRAPH_NODES_MOST 80u
#define GRAPH_INPUTS_MOST 5u /* of a node, the run's own included */
#define GRAPH_OUTPUTS_MOST 3u
#define GRAPH_INITIAL_MOST 6u
#define GRAPH_DECLARED_MOST 12u
#define GRAPH_VALUES_MOST (GRAPH_NODES_MOST * GRAPH_OUTPUTS_MOST + GRAPH_INITIAL_MOST)
#define GRAPH_BODIES_MOST 4u
#define GRAPH_IDS_MOST 200u /* nodes of a graph and of all its bodies */
#define GRAPH_TRIPS_MOST 5u
#define GRAPH_NONE UINT32_MAX
#define GRAPH_FAILURE 1000 /* plus the node's id: what a failing kernel answers */

enum graph_kind {
    GRAPH_SLOT,     /* make_output() */
    GRAPH_IN_PLACE, /* make_output_in_place() where that can be */
    GRAPH_PUT,      /* a tensor of some allocator, put_output() */
    GRAPH_OLD,      /* a tensor of the active allocator, put_output(); not slot-aware */
    GRAPH_BODY,     /* a loop over a body */
};

struct graph;

struct graph_node {
    struct graph *graph;
    const struct graph *body;
    enum graph_kind kind;
    uint32_t id;    /* among the graph's and its bodies' nodes */
    size_t planned; /* the plan's number */
    char name[16];
    uint32_t inputs[GRAPH_INPUTS_MOST]; /* values; GRAPH_NONE: not used */
    uint32_t input_count;               /* the last one is the run */
    uint32_t outputs[GRAPH_OUTPUTS_MOST];
    uint32_t output_count;
    uint32_t temporaries;
    bool aware;
};

struct graph_value {
    char name[16];
    bool initial;
    bool declared;
    bool bindable; /* made by a make_output() */
    bool loop;     /* a loop's last state, whose size is the body's affair */
};

/* Value 0 is the run: a borrowed tensor that holds its address. Of a body, value 1 is the state and value 2
 * what is lent; the one declared output is the next state. */
struct graph {
    struct graph_node nodes[GRAPH_NODES_MOST];
    struct graph_value values[GRAPH_VALUES_MOST];
    uint32_t declared[GRAPH_DECLARED_MOST]; /* in the order of the plan */
    uint32_t node_count, value_count, initial_count, declared_count;
    uint32_t depth;
    struct graph *bodies[GRAPH_BODIES_MOST];
    uint32_t body_count;
    uint32_t ids; /* of the outermost graph: nodes in all */
    struct hearth_plan *plan;
};

/* One run of a graph, as its kernels and its driver see it. */
struct run {
    const struct graph *graph;
    struct hearth_session *session;
    struct hearth_context *context;
    uint64_t seed;
    bool tight; /* requests may be refused */
    uint64_t stamps[GRAPH_VALUES_MOST];
    uint32_t times[GRAPH_IDS_MOST]; /* how often each node must run */
    uint64_t fails[GRAPH_IDS_MOST / 64 + 1];
    uint64_t done[GRAPH_IDS_MOST]; /* plain: written by the node, read after the run */
    _Atomic(uint32_t) ran[GRAPH_IDS_MOST];
    _Atomic(uint64_t) failed[GRAPH_IDS_MOST / 64 + 1];
};

/* Make a graph with bodies, and its plan. The nodes' kernel is stress_kernel(). */
struct graph *graph_make(uint64_t *random);

/* Give up the plans. Sessions and contexts may still use them, and so this memory. */
void graph_drop_plans(struct graph *graph);
void graph_free(struct graph *graph);

/* Mix three words; never 0. */
uint64_t graph_mix(uint64_t a, uint64_t b, uint64_t c);

/* The stamp of a node's output: `inputs` are the stamps of its inputs in use, the run left out. */
uint64_t graph_stamp(const struct graph_node *node, uint32_t slot, const uint64_t *inputs);

/* The first state of a loop, and how often it runs. */
uint64_t graph_state(const struct graph_node *node, const uint64_t *inputs);
uint32_t graph_trips(const struct run *run, const struct graph_node *node);

/* Bytes of a value in this run. */
size_t graph_bytes(const struct run *run, const struct graph *graph, uint32_t value);

/* Begin a run: fill in everything but session and context. */
void run_begin(struct run *run, const struct graph *graph, uint64_t seed);

void run_fail(struct run *run, uint32_t id);
bool run_fails(const struct run *run, uint32_t id);

#endif
