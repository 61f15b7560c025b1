/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_graph.h"

#include <stdbool.h>
#include <stdio.h>

struct source {
    const uint8_t *bytes;
    size_t left;
};

static uint32_t draw(struct source *source, uint32_t below)
{
    if (source->left == 0)
        return 0;
    source->left--;
    return *source->bytes++ % below;
}

/* Near values twice as often as any: chains with a few long connections. */
static uint32_t draw_value(struct source *source, uint32_t values)
{
    uint32_t kind = draw(source, 8);
    if (values == 0 || kind == 7)
        return GRAPH_NO_VALUE;
    uint32_t near = values < 6 ? values : 6;
    return kind < 5 ? values - 1 - draw(source, near) : draw(source, 256) % values;
}

static uint32_t draw_node(struct source *source, struct graph_node *node, uint32_t values)
{
    node->input_count = draw(source, GRAPH_SLOTS + 1);
    node->output_count = draw(source, GRAPH_SLOTS);
    for (uint32_t i = 0; i < node->input_count; i++)
        node->inputs[i] = draw_value(source, values);
    for (uint32_t i = 0; i < node->output_count; i++)
        node->outputs[i] = draw(source, 6) == 5 ? GRAPH_NO_VALUE : values++;
    return values;
}

static bool has(const uint32_t *values, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] == value)
            return true;
    return false;
}

static void shuffle(struct source *source, struct plan_graph *graph)
{
    uint32_t how = draw(source, 4);
    for (uint32_t i = graph->node_count; how != 0 && i > 1; i--) {
        uint32_t other = how == 1 ? 0 : draw(source, i);
        struct graph_node moved = graph->nodes[i - 1];
        graph->nodes[i - 1] = graph->nodes[other];
        graph->nodes[other] = moved;
    }
}

/* An input, an output or a declared output becomes any value, or one that nothing produces. */
static void disturb(struct source *source, struct plan_graph *graph, uint32_t values)
{
    struct graph_node *node = &graph->nodes[draw(source, graph->node_count)];
    uint32_t value = draw(source, 4) == 3 ? values : draw(source, 256) % (values + 1);
    switch (draw(source, 6)) {
    case 0:
        if (graph->output_count > 0 && !has(graph->outputs, graph->output_count, value))
            graph->outputs[draw(source, graph->output_count)] = value;
        break;
    case 1:
        if (node->output_count > 0)
            node->outputs[draw(source, node->output_count)] = value;
        break;
    default:
        if (node->input_count > 0)
            node->inputs[draw(source, node->input_count)] = value;
        break;
    }
}

void plan_graph_of(struct plan_graph *graph, const uint8_t *bytes, size_t size)
{
    struct source source = {bytes, size};
    uint32_t values = 0;
    *graph = (struct plan_graph){.node_count = 1 + draw(&source, GRAPH_NODES)};
    bool disturbed = draw(&source, 4) == 3;
    uint32_t outputs = draw(&source, GRAPH_OUTPUTS + 1);
    graph->input_count = draw(&source, GRAPH_INPUTS + 1);
    for (uint32_t i = 0; i < graph->input_count; i++)
        graph->inputs[i] = values++;
    for (uint32_t i = 0; i < graph->node_count; i++)
        values = draw_node(&source, &graph->nodes[i], values);
    for (uint32_t i = 0; i < outputs && values > 0; i++) {
        uint32_t value = draw(&source, 256) % values;
        if (!has(graph->outputs, graph->output_count, value))
            graph->outputs[graph->output_count++] = value;
    }
    shuffle(&source, graph);
    if (disturbed)
        disturb(&source, graph, values);
}

/* splitmix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014). */
static uint64_t splitmix(uint64_t *state)
{
    uint64_t mixed = *state += UINT64_C(0x9E3779B97F4A7C15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94D049BB133111EB);
    return mixed ^ mixed >> 31;
}

void plan_graph_random(uint64_t seed, uint8_t *bytes)
{
    for (size_t i = 0; i < GRAPH_BYTES; i++)
        bytes[i] = (uint8_t)splitmix(&seed);
}

void plan_graph_value_name(uint32_t value, char name[GRAPH_NAME])
{
    (void)snprintf(name, GRAPH_NAME, "v%u", value);
}

void plan_graph_node_name(uint32_t node, char name[GRAPH_NAME])
{
    if (node % 7 == 3)
        name[0] = '\0';
    else
        (void)snprintf(name, GRAPH_NAME, "n%u", node);
}

static enum hearth_status idle(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

static void fill_names(const uint32_t *values, uint32_t count, char texts[][GRAPH_NAME],
                       const char **names)
{
    for (uint32_t i = 0; i < count; i++) {
        names[i] = values[i] % 2 == 0 ? "" : NULL;
        if (values[i] == GRAPH_NO_VALUE)
            continue;
        plan_graph_value_name(values[i], texts[i]);
        names[i] = texts[i];
    }
}

static enum hearth_status add_node(struct hearth_plan_builder *builder,
                                   const struct plan_graph *graph, uint32_t number)
{
    const struct graph_node *node = &graph->nodes[number];
    char name[GRAPH_NAME];
    char texts[2][GRAPH_SLOTS][GRAPH_NAME];
    const char *inputs[GRAPH_SLOTS];
    const char *outputs[GRAPH_SLOTS];
    plan_graph_node_name(number, name);
    fill_names(node->inputs, node->input_count, texts[0], inputs);
    fill_names(node->outputs, node->output_count, texts[1], outputs);
    struct hearth_node added = HEARTH_NODE_INIT;
    added.name = name;
    added.inputs = inputs;
    added.input_count = node->input_count;
    added.outputs = outputs;
    added.output_count = node->output_count;
    added.kernel = idle;
    added.user = (void *)graph;
    size_t index;
    enum hearth_status status = hearth_plan_builder_add_node(builder, &added, &index);
    return status == HEARTH_OK && index != number ? HEARTH_INVALID : status;
}

enum hearth_status plan_graph_build(const struct plan_graph *graph, struct hearth_plan **plan,
                                    char *message, size_t bytes)
{
    struct hearth_plan_builder *builder;
    enum hearth_status status = hearth_plan_builder_create(&builder);
    if (status != HEARTH_OK)
        return status;
    char name[GRAPH_NAME];
    for (uint32_t i = 0; i < graph->output_count && status == HEARTH_OK; i++) {
        plan_graph_value_name(graph->outputs[i], name);
        status = hearth_plan_builder_add_output(builder, name);
    }
    for (uint32_t i = 0; i < graph->node_count && status == HEARTH_OK; i++)
        status = add_node(builder, graph, i);
    for (uint32_t i = 0; i < graph->input_count && status == HEARTH_OK; i++) {
        plan_graph_value_name(graph->inputs[i], name);
        status = hearth_plan_builder_add_input(builder, name);
    }
    if (status == HEARTH_OK)
        status = hearth_plan_builder_build(builder, plan, message, bytes);
    hearth_plan_builder_destroy(builder);
    return status;
}
