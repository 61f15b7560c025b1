/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime_graph.h"

#include "measure.h"
#include "runtime_cases.h"

#include <stdio.h>
#include <string.h>

/* Sizes of neighbours differ; 7 and 11 have no common divisor, so all come. */
#define SIZE_STEP 7u
#define SIZE_COUNT 11u
#define SIZE_MIN ((size_t)1 << 10)

const char graph_input[] = "x";

static void add_node(struct hearth_plan_builder *builder, struct graph *graph, size_t number,
                     const char *const *inputs, size_t input_count,
                     enum hearth_status (*kernel)(struct hearth_context *context, void *user))
{
    struct graph_node *node = &graph->nodes[number];
    const char *output = node->name;
    struct hearth_node planned = HEARTH_NODE_INIT;
    planned.name = node->name;
    planned.inputs = inputs;
    planned.input_count = input_count;
    planned.outputs = &output;
    planned.output_count = 1;
    planned.kernel = kernel;
    planned.user = node;
    planned.flags = HEARTH_NODE_SLOT_AWARE;
    bench_must(hearth_plan_builder_add_node(builder, &planned, NULL), "node");
    if (node->declared) {
        bench_must(hearth_plan_builder_add_output(builder, node->name), "output");
    }
}

static size_t find_inputs(const struct graph *graph, bool layered, size_t number,
                          const char **inputs)
{
    size_t first = number / GRAPH_WIDTH * GRAPH_WIDTH;
    inputs[0] = graph_input;
    if (!layered) {
        inputs[0] = number == 0 ? graph_input : graph->nodes[number - 1].name;
        return 1;
    }
    if (first == 0) {
        return 1;
    }
    for (size_t i = 0; i < GRAPH_INPUTS_MAX; i++) {
        inputs[i] = graph->nodes[first - GRAPH_WIDTH + (number + i) % GRAPH_WIDTH].name;
    }
    return GRAPH_INPUTS_MAX;
}

bool bench_graph_build(struct graph *graph, const char *form, size_t count,
                       enum hearth_status (*kernel)(struct hearth_context *context, void *user))
{
    struct hearth_plan_builder *builder = NULL;
    char message[200];
    bool layered = strcmp(form, "layered") == 0;
    if ((!layered && strcmp(form, "chain") != 0) || count > GRAPH_NODES_MAX) {
        return false;
    }
    memset(graph, 0, sizeof *graph);
    graph->count = count;
    bench_must(hearth_plan_builder_create(&builder), "builder");
    bench_must(hearth_plan_builder_add_input(builder, graph_input), "input");
    for (size_t i = 0; i < count; i++) {
        struct graph_node *node = &graph->nodes[i];
        const char *inputs[GRAPH_INPUTS_MAX];
        (void)snprintf(node->name, sizeof node->name, "n%zu", i);
        node->bytes = SIZE_MIN << i * SIZE_STEP % SIZE_COUNT;
        node->shape.rank = 1;
        node->shape.dims[0] = (int64_t)node->bytes;
        node->declared = i + (layered ? GRAPH_WIDTH : 1) >= count;
        graph->declared += node->declared;
        add_node(builder, graph, i, inputs, find_inputs(graph, layered, i, inputs), kernel);
    }
    if (hearth_plan_builder_build(builder, &graph->plan, message, sizeof message) != HEARTH_OK) {
        bench_die("plan", message);
    }
    hearth_plan_builder_destroy(builder);
    return true;
}
