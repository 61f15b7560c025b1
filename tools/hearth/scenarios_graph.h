/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The graph that the scenarios run: a small transformer encoder, described by numbers. The plan, the kernels,
 * the reference and the expected peaks are all made from this description, each in its own way.
 */
#ifndef HEARTH_TOOL_SCENARIOS_GRAPH_H
#define HEARTH_TOOL_SCENARIOS_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCENARIO_NODES_MAX 128u
#define SCENARIO_VALUES_MAX 192u
#define SCENARIO_OUTPUTS_MAX 4u
#define SCENARIO_SLOTS_MAX 4u
#define SCENARIO_HEADS 4u
#define SCENARIO_NAME_BYTES 24u

/* What a node computes. `out` is its first output; values are matrices of floats. */
enum scenario_kind {
    SCENARIO_MATMUL,        /* out = a b */
    SCENARIO_MATMUL_SCALED, /* out = a b^T / sqrt(columns of a) */
    SCENARIO_BIAS,          /* out = a + b, b one row */
    SCENARIO_BIAS_GELU,     /* out = gelu(a + b), b one row */
    SCENARIO_ADD,           /* out = a + b */
    SCENARIO_LAYER_NORM,    /* out = norm(a) b + c per row, b and c one row; workspace */
    SCENARIO_SOFTMAX,       /* out = softmax(a) per row */
    SCENARIO_CONCAT,        /* out = the inputs' columns side by side */
    SCENARIO_PAIR,          /* out[i, j, c] = a[i, c] - b[j, c]; workspace */
    SCENARIO_RELU,          /* out = max(a, 0) */
    SCENARIO_PAIR_MEAN,     /* out[i, c] = mean over j of a[i, j, c]; workspace */
    SCENARIO_MAX_SUM,       /* outputs: the rows' maxima, the rows' sums; workspace */
    SCENARIO_MEAN_VARIANCE, /* outputs: the rows' means, the rows' variances; workspace */
    SCENARIO_POOL,          /* out = sum over rows i of a[i] (b[i] + c[i]); one row */
};

/* The sizes of one model. Models that differ in `rows` alone share their weights. */
struct scenario_shape {
    uint32_t rows;     /* length of the sequence */
    uint32_t width;    /* of the encoder */
    uint32_t hidden;   /* of its feed-forward part */
    uint32_t channels; /* of the pair features, which are rows x rows x channels */
    bool hidden_out;   /* declare the last layer as an output */
};

struct scenario_value {
    char name[SCENARIO_NAME_BYTES];
    uint32_t rows;
    uint32_t columns;
    size_t bytes;
    uint32_t uses; /* nodes that read it */
    bool initial;  /* the input or a weight */
    bool declared; /* an output of the graph */
};

struct scenario_node {
    char name[SCENARIO_NAME_BYTES];
    enum scenario_kind kind;
    uint32_t inputs[SCENARIO_SLOTS_MAX];
    uint32_t input_count;
    uint32_t outputs[2];
    uint32_t output_count;
    size_t workspace; /* bytes; 0: none */
    bool in_place;    /* asks for its first input's storage for its first output */
};

struct scenario_graph {
    struct scenario_shape shape;
    struct scenario_node nodes[SCENARIO_NODES_MAX]; /* each after those that it depends on */
    uint32_t node_count;
    struct scenario_value values[SCENARIO_VALUES_MAX]; /* number 0 is the input */
    uint32_t value_count;
    uint32_t outputs[SCENARIO_OUTPUTS_MAX];
    uint32_t output_count;
};

void scenario_graph_init(struct scenario_graph *graph, const struct scenario_shape *shape);

/** Whether a node makes its first output in its first input's storage: it asks for it, it is the only user
 *  of an intermediate, and its output is one too. */
bool scenario_reuses(const struct scenario_graph *graph, const struct scenario_node *node);

/** Bytes of all declared outputs together. */
size_t scenario_output_bytes(const struct scenario_graph *graph);

#endif
