/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include "../harness.h"
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_LEAST 20u
#define RECENT 14u /* most inputs come from the last so many values */

uint64_t graph_mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t x = a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xbf58476d1ce4e5b9) ^
                 c * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 29;
    return x == 0 ? 1 : x;
}

static uint32_t below(uint64_t *random, uint32_t bound)
{
    return (uint32_t)(stress_next(random) % bound);
}

static uint32_t add_value(struct graph *graph, bool initial)
{
    uint32_t number = graph->value_count++;
    struct graph_value *value = &graph->values[number];
    (void)snprintf(value->name, sizeof value->name, "%s%u", initial ? "in" : "v", number);
    value->initial = initial;
    graph->initial_count += initial;
    return number;
}

static enum graph_kind some_kind(uint64_t *random)
{
    static const enum graph_kind kinds[] = {GRAPH_SLOT,     GRAPH_SLOT,     GRAPH_SLOT, GRAPH_SLOT,
                                            GRAPH_IN_PLACE, GRAPH_IN_PLACE, GRAPH_PUT,  GRAPH_OLD};
    return kinds[below(random, sizeof kinds / sizeof *kinds)];
}

/* Values exist before the nodes that use them; a value may come twice. */
static void draw_inputs(struct graph *graph, struct graph_node *node, uint64_t *random)
{
    uint32_t count = 1 + below(random, GRAPH_INPUTS_MOST - 1);
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t known = graph->value_count - 1;
        uint32_t reach = known < RECENT || below(random, 8) == 0 ? known : RECENT;
        bool left_out = used > 0 && below(random, 12) == 0;
        node->inputs[i] = left_out ? GRAPH_NONE : graph->value_count - 1 - below(random, reach);
        used += !left_out;
    }
    node->inputs[count] = 0;
    node->input_count = count + 1;
}

static void draw_outputs(struct graph *graph, struct graph_node *node, uint64_t *random)
{
    static const uint32_t counts[] = {1, 1, 1, 2, 2, 3};
    node->output_count = counts[below(random, sizeof counts / sizeof *counts)];
    for (uint32_t i = 0; i < node->output_count; i++) {
        bool left_out = i > 0 && below(random, 12) == 0;
        node->outputs[i] = left_out ? GRAPH_NONE : add_value(graph, false);
        if (!left_out)
            graph->values[node->outputs[i]].bindable =
                node->kind == GRAPH_SLOT || node->kind == GRAPH_IN_PLACE;
    }
}

static void draw_node(struct graph *graph, struct graph *outer, uint64_t *random)
{
    struct graph_node *node = &graph->nodes[graph->node_count++];
    node->graph = graph;
    node->id = outer->ids++;
    node->kind = some_kind(random);
    if (graph->body_count > 0 && below(random, 6) == 0) {
        node->kind = GRAPH_BODY;
        node->body = graph->bodies[below(random, graph->body_count)];
    }
    node->aware = node->kind < GRAPH_OLD && below(random, 2) == 0;
    node->temporaries = below(random, 3) == 0 ? 1 + below(random, 2) : 0;
    (void)snprintf(node->name, sizeof node->name, "n%u", node->id);
    draw_inputs(graph, node, random);
    draw_outputs(graph, node, random);
    graph->values[node->outputs[0]].loop = node->kind == GRAPH_BODY;
}

static void declare(struct graph *graph, uint32_t value)
{
    if (graph->declared_count == GRAPH_DECLARED_MOST || graph->values[value].declared)
        return;
    graph->values[value].declared = true;
    graph->declared[graph->declared_count++] = value;
}

static struct graph *new_graph(uint32_t depth)
{
    struct graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL)
        abort();
    graph->depth = depth;
    return graph;
}

static void build(struct graph *graph, uint64_t *random);

static struct graph *make_body(struct graph *outer, uint32_t depth, uint64_t *random)
{
    struct graph *graph = new_graph(depth);
    for (unsigned i = 0; i < 3; i++)
        (void)add_value(graph, true);
    if (depth == 1 && below(random, 3) == 0)
        graph->bodies[graph->body_count++] = make_body(outer, 2, random);
    for (uint32_t nodes = 2 + below(random, 6); nodes > 0; nodes--)
        draw_node(graph, outer, random);
    declare(graph, graph->nodes[graph->node_count - 1].outputs[0]);
    build(graph, random);
    return graph;
}

struct graph *graph_make(uint64_t *random)
{
    struct graph *graph = new_graph(0);
    for (uint32_t initial = 3 + below(random, GRAPH_INITIAL_MOST - 2); initial > 0; initial--)
        (void)add_value(graph, true);
    for (uint32_t bodies = below(random, GRAPH_BODIES_MOST); bodies > 0; bodies--)
        graph->bodies[graph->body_count++] = make_body(graph, 1, random);
    uint32_t nodes = NODES_LEAST + below(random, GRAPH_NODES_MOST - NODES_LEAST + 1);
    for (uint32_t i = 0; i < nodes; i++)
        draw_node(graph, graph, random);
    declare(graph, graph->nodes[nodes - 1].outputs[0]);
    for (uint32_t value = 1; value < graph->value_count; value++)
        if (below(random, graph->values[value].initial ? 20 : 10) == 0)
            declare(graph, value);
    build(graph, random);
    return graph;
}

static const char *name_of(const struct graph *graph, uint32_t value)
{
    if (value == GRAPH_NONE)
        return graph->value_count % 2 == 0 ? "" : NULL;
    return graph->values[value].name;
}

static void add_node(struct hearth_plan_builder *builder, struct graph_node *node)
{
    struct hearth_node planned = HEARTH_NODE_INIT;
    const char *inputs[GRAPH_INPUTS_MOST];
    const char *outputs[GRAPH_OUTPUTS_MOST];
    for (uint32_t i = 0; i < node->input_count; i++)
        inputs[i] = name_of(node->graph, node->inputs[i]);
    for (uint32_t i = 0; i < node->output_count; i++)
        outputs[i] = name_of(node->graph, node->outputs[i]);
    planned.name = node->name;
    planned.inputs = inputs;
    planned.input_count = node->input_count;
    planned.outputs = outputs;
    planned.output_count = node->output_count;
    planned.kernel = stress_kernel;
    planned.user = node;
    planned.bodies = node->body == NULL ? NULL : &node->body->plan;
    planned.body_count = node->body != NULL;
    planned.flags = node->aware ? HEARTH_NODE_SLOT_AWARE : 0;
    stress_must(hearth_plan_builder_add_node(builder, &planned, &node->planned), "node");
}

/* The nodes are added in any order. */
static void add_nodes(struct hearth_plan_builder *builder, struct graph *graph, uint64_t *random)
{
    uint32_t order[GRAPH_NODES_MOST] = {0};
    for (uint32_t i = 0; i < graph->node_count; i++) {
        uint32_t place = below(random, i + 1);
        order[i] = order[place];
        order[place] = i;
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        add_node(builder, &graph->nodes[order[i]]);
}

static void build(struct graph *graph, uint64_t *random)
{
    struct hearth_plan_builder *builder = NULL;
    char message[200] = "";
    stress_must(hearth_plan_builder_create(&builder), "builder");
    for (uint32_t value = 0; value < graph->value_count; value++)
        if (graph->values[value].initial)
            stress_must(hearth_plan_builder_add_input(builder, graph->values[value].name), "input");
    for (uint32_t i = 0; i < graph->declared_count; i++)
        stress_must(hearth_plan_builder_add_output(builder, graph->values[graph->declared[i]].name),
                    "output");
    add_nodes(builder, graph, random);
    enum hearth_status status =
        hearth_plan_builder_build(builder, &graph->plan, message, sizeof message);
    stress_must(status, message[0] == '\0' ? "plan" : message);
    hearth_plan_builder_destroy(builder);
}

void graph_drop_plans(struct graph *graph)
{
    hearth_plan_unref(graph->plan);
    graph->plan = NULL;
    for (uint32_t i = 0; i < graph->body_count; i++)
        graph_drop_plans(graph->bodies[i]);
}

void graph_free(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->body_count; i++)
        graph_free(graph->bodies[i]);
    free(graph);
}

static uint64_t mix_inputs(const struct graph_node *node, uint64_t start, const uint64_t *inputs)
{
    uint64_t mixed = start;
    for (uint32_t i = 0; i + 1 < node->input_count; i++)
        if (node->inputs[i] != GRAPH_NONE)
            mixed = graph_mix(mixed, inputs[i], i);
    return mixed;
}

uint64_t graph_stamp(const struct graph_node *node, uint32_t slot, const uint64_t *inputs)
{
    return mix_inputs(node, graph_mix(node->id, slot, 1), inputs);
}

uint64_t graph_state(const struct graph_node *node, const uint64_t *inputs)
{
    return mix_inputs(node, graph_mix(node->id, 0, 2), inputs);
}

uint32_t graph_trips(const struct run *run, const struct graph_node *node)
{
    return (uint32_t)(graph_mix(run->seed, node->id, 3) % (GRAPH_TRIPS_MOST + 1));
}

size_t graph_bytes(const struct run *run, const struct graph *graph, uint32_t value)
{
    static const uint16_t words[] = {1, 8, 8, 30, 64, 64, 100, 512, 512, 512, 1000, 2048, 9000};
    /* Few different shapes, so that storage is reused from run to run. */
    uint64_t draw = graph_mix(run->seed % 3, value, graph->depth);
    return sizeof(uint64_t) * words[draw % (sizeof words / sizeof *words)];
}

/* Walk through a graph as a serial run does. `stamps` has the initial inputs' already. */
static void evaluate(struct run *run, const struct graph *graph, uint64_t *stamps)
{
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const struct graph_node *node = &graph->nodes[i];
        uint64_t inputs[GRAPH_INPUTS_MOST] = {0};
        run->times[node->id]++;
        for (uint32_t slot = 0; slot < node->input_count; slot++)
            if (node->inputs[slot] != GRAPH_NONE)
                inputs[slot] = stamps[node->inputs[slot]];
        for (uint32_t slot = 0; slot < node->output_count; slot++)
            if (node->outputs[slot] != GRAPH_NONE)
                stamps[node->outputs[slot]] = graph_stamp(node, slot, inputs);
        if (node->kind != GRAPH_BODY)
            continue;
        uint64_t inside[GRAPH_VALUES_MOST];
        uint64_t state = graph_state(node, inputs);
        for (uint32_t trip = graph_trips(run, node); trip > 0; trip--) {
            inside[1] = state;
            inside[2] = inputs[0];
            evaluate(run, node->body, inside);
            state = inside[node->body->declared[0]];
        }
        stamps[node->outputs[0]] = state;
    }
}

void run_begin(struct run *run, const struct graph *graph, uint64_t seed)
{
    run->graph = graph;
    run->seed = seed;
    memset(run->times, 0, sizeof run->times);
    memset(run->fails, 0, sizeof run->fails);
    memset(run->done, 0, sizeof run->done);
    for (uint32_t id = 0; id < GRAPH_IDS_MOST; id++)
        atomic_store_explicit(&run->ran[id], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < sizeof run->failed / sizeof *run->failed; i++)
        atomic_store_explicit(&run->failed[i], 0, memory_order_relaxed);
    for (uint32_t value = 1; value < graph->initial_count; value++)
        run->stamps[value] = graph_mix(seed, value, 4);
    evaluate(run, graph, run->stamps);
}

void run_fail(struct run *run, uint32_t id)
{
    run->fails[id / 64] |= UINT64_C(1) << id % 64;
}

bool run_fails(const struct run *run, uint32_t id)
{
    return (run->fails[id / 64] >> id % 64 & 1) != 0;
}
