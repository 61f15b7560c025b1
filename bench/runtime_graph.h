/* SPDX-License-Identifier: Apache-2.0 */
/* The graphs of bench_runtime, as all subjects see them. */
#ifndef BENCH_RUNTIME_GRAPH_H
#define BENCH_RUNTIME_GRAPH_H

#include <hearth/plan.h>
#include <hearth/status.h>
#include <hearth/tensor.h>

#include <stdbool.h>
#include <stddef.h>

struct hearth_context;

#define GRAPH_NODES_MAX ((size_t)600)
#define GRAPH_WIDTH ((size_t)6)
#define GRAPH_INPUTS_MAX ((size_t)3)
#define GRAPH_BYTES_MAX ((size_t)1 << 20)
#define GRAPH_NAME_MAX 16

/** What a node is to its kernel. */
struct graph_node {
    struct hearth_shape shape; /* of the output, in bytes */
    size_t bytes;
    char name[GRAPH_NAME_MAX]; /* of the node and of its output */
    bool declared;             /* the output leaves the graph */
};

struct graph {
    struct graph_node nodes[GRAPH_NODES_MAX];
    size_t count;
    size_t declared; /* outputs that leave the graph */
    struct hearth_plan *plan;
};

/** The initial input's name. */
extern const char graph_input[];

/**
 * Build "chain" (each node uses the one before; the last output is declared) or "layered" (layers of
 * GRAPH_WIDTH nodes with three inputs each, all of the layer before; the last layer is declared),
 * with one output per node of 1 KiB to 1 MiB. False for an unknown form.
 */
bool bench_graph_build(struct graph *graph, const char *form, size_t count,
                       enum hearth_status (*kernel)(struct hearth_context *context, void *user));

#endif
