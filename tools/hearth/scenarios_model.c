/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_model.h"

static bool is_intermediate(const struct scenario_value *value)
{
    return !value->initial && !value->declared;
}

/* Storage that a node asks the execution arena for: outputs that are made anew, and the workspace. */
static size_t taken_by(const struct scenario_graph *graph, const struct scenario_node *node)
{
    size_t bytes = node->workspace;
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct scenario_value *value = &graph->values[node->outputs[i]];
        if (is_intermediate(value) && !(i == 0 && scenario_reuses(graph, node))) {
            bytes += value->bytes;
        }
    }
    return bytes;
}

/* What dies with a node: inputs that nobody needs any more, and outputs that nobody ever does. */
static size_t given_by(const struct scenario_graph *graph, const struct scenario_node *node,
                       uint32_t *left)
{
    size_t bytes = node->workspace;
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t value = node->inputs[i];
        bool moved = i == 0 && scenario_reuses(graph, node);
        if (--left[value] == 0 && is_intermediate(&graph->values[value]) && !moved) {
            bytes += graph->values[value].bytes;
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const struct scenario_value *value = &graph->values[node->outputs[i]];
        bytes += value->uses == 0 && is_intermediate(value) ? value->bytes : 0;
    }
    return bytes;
}

/* A node needs its inputs, its outputs and its workspace at the same time, whatever runs beside it. */
static size_t needed_by(const struct scenario_graph *graph, const struct scenario_node *node)
{
    size_t bytes = taken_by(graph, node);
    for (uint32_t i = 0; i < node->input_count; i++) {
        const struct scenario_value *value = &graph->values[node->inputs[i]];
        bytes += is_intermediate(value) ? value->bytes : 0;
    }
    return bytes;
}

void scenario_expect(const struct scenario_graph *graph, const uint32_t *order, uint32_t threads,
                     struct scenario_expected *expected)
{
    uint32_t left[SCENARIO_VALUES_MAX];
    size_t live = 0;
    size_t workspace = 0;
    *expected = (struct scenario_expected){.io_peak = scenario_output_bytes(graph)};
    for (uint32_t i = 0; i < graph->value_count; i++) {
        left[i] = graph->values[i].uses;
    }
    for (uint32_t step = 0; step < graph->node_count; step++) {
        const struct scenario_node *node = &graph->nodes[order[step]];
        size_t needed = needed_by(graph, node);
        live += taken_by(graph, node);
        expected->exec_peak = live > expected->exec_peak ? live : expected->exec_peak;
        live -= given_by(graph, node, left);
        expected->exec_least = needed > expected->exec_least ? needed : expected->exec_least;
        expected->exec_most += taken_by(graph, node) - node->workspace;
        workspace = node->workspace > workspace ? node->workspace : workspace;
        expected->reused += scenario_reuses(graph, node) ? 1 : 0;
    }
    expected->exec_most += threads * workspace;
}
