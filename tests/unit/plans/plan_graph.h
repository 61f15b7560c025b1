/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs made from bytes, most of them fit for a plan, for the property test and the
 * fuzzer. */
#ifndef HEARTH_TESTS_UNIT_PLANS_PLAN_GRAPH_H
#define HEARTH_TESTS_UNIT_PLANS_PLAN_GRAPH_H

#include <hearth/plan.h>

#include <stddef.h>
#include <stdint.h>

enum {
    GRAPH_NODES = 60,
    GRAPH_SLOTS = 5,
    GRAPH_INPUTS = 4,
    GRAPH_OUTPUTS = 5,
    /* One more than any graph produces, for a value that nothing does. */
    GRAPH_VALUES = GRAPH_INPUTS + GRAPH_NODES * GRAPH_SLOTS + 1,
    GRAPH_NAME = 16,
    GRAPH_BYTES = 16 + GRAPH_NODES * (2 + 4 * GRAPH_SLOTS), /* more are not looked at */
};

#define GRAPH_NO_VALUE UINT32_MAX

struct graph_node {
    uint32_t inputs[GRAPH_SLOTS]; /* values; GRAPH_NO_VALUE: the empty name */
    uint32_t outputs[GRAPH_SLOTS];
    uint32_t input_count;
    uint32_t output_count;
};

/* Nodes in the order in which they are added. */
struct plan_graph {
    struct graph_node nodes[GRAPH_NODES];
    uint32_t inputs[GRAPH_INPUTS];
    uint32_t outputs[GRAPH_OUTPUTS];
    uint32_t node_count;
    uint32_t input_count;
    uint32_t output_count;
};

/* Every string of bytes is a graph. One in four has something done to it that may make it unfit. */
void plan_graph_of(struct plan_graph *graph, const uint8_t *bytes, size_t size);

/* The random graph of a seed, as GRAPH_BYTES bytes. */
void plan_graph_random(uint64_t seed, uint8_t *bytes);

/* Value 3 is "v3". */
void plan_graph_value_name(uint32_t value, char name[GRAPH_NAME]);

/* Nodes have the name "n" and their number; one in seven has none. */
void plan_graph_node_name(uint32_t node, char name[GRAPH_NAME]);

/* What the builder answers. */
enum hearth_status plan_graph_build(const struct plan_graph *graph, struct hearth_plan **plan,
                                    char *message, size_t bytes);

#endif
