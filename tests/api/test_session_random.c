/* SPDX-License-Identifier: Apache-2.0 */
/* Random layered graphs: a serial run and runs on pools of 1, 2 and 8 threads give the same outputs as an
 * evaluation that knows no runtime.
 * Covered: several outputs per node, workspaces, skipped layers, unused values, outputs that are read. */
#include "run_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRAPHS = 200, MOST_NODES = 40, MOST_VALUES = 100, MOST_INPUTS = 4 };

static struct run run;

TestSuite(session_random, .timeout = 280);

struct graph {
    struct hearth_plan *plan;
    struct op ops[MOST_NODES];
    unsigned inputs[MOST_NODES][MOST_INPUTS];
    unsigned input_count[MOST_NODES];
    unsigned first_output[MOST_NODES];
    unsigned node_count;
    unsigned value_count; /* value 0 is the initial input */
    bool declared[MOST_VALUES];
    unsigned declared_count;
    uint32_t length[MOST_VALUES];
    uint32_t *expected[MOST_VALUES];
};

static uint64_t state;

static uint32_t below(uint32_t bound)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % bound;
}

static void evaluate(struct graph *graph, unsigned node, unsigned slot)
{
    unsigned value = graph->first_output[node] + slot;
    uint32_t length = graph->length[value];
    uint32_t *to = graph->expected[value] = calloc(length, sizeof *to);
    for (uint32_t i = 0; i < length; i++) {
        to[i] = 1 + slot;
        for (unsigned j = 0; j < graph->input_count[node]; j++) {
            unsigned from = graph->inputs[node][j];
            to[i] += graph->expected[from][i % graph->length[from]];
        }
    }
}

static void invent_node(struct graph *graph, unsigned node)
{
    struct op *op = &graph->ops[node];
    unsigned recent = graph->value_count < 12 ? graph->value_count : 12;
    *op = (struct op){.outs = 1 + below(OP_OUTPUTS - 1), .temporary = below(2) * below(20000)};
    op->old = below(5) == 0;
    graph->input_count[node] = 1 + below(MOST_INPUTS);
    for (unsigned i = 0; i < graph->input_count[node]; i++)
        graph->inputs[node][i] = graph->value_count - 1 - below(recent);
    graph->first_output[node] = graph->value_count;
    for (unsigned slot = 0; slot < op->outs; slot++) {
        op->count[slot] = 1 + below(below(4) ? 200 : 20000);
        graph->length[graph->value_count] = op->count[slot];
        if (below(5) == 0)
            graph->declared[graph->value_count] = true;
        graph->value_count++;
        evaluate(graph, node, slot);
    }
}

/* " v1 v7", of `count` values. */
static void list(char *text, size_t room, const unsigned *values, unsigned count)
{
    size_t length = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        length += (size_t)snprintf(text + length, room - length, " v%u", values[i]);
    cr_assert_lt(length, room);
}

static void build(struct graph *graph)
{
    static char names[MOST_NODES][16], in[MOST_NODES][64], out[MOST_NODES][64], outputs[512];
    struct row rows[MOST_NODES];
    unsigned values[MOST_VALUES], order[MOST_NODES];
    for (unsigned node = 0; node < graph->node_count; node++) {
        for (unsigned slot = 0; slot < graph->ops[node].outs; slot++)
            values[slot] = graph->first_output[node] + slot;
        list(out[node], sizeof out[node], values, graph->ops[node].outs);
        list(in[node], sizeof in[node], graph->inputs[node], graph->input_count[node]);
        snprintf(names[node], sizeof names[node], "node%u", node);
        order[node] = node;
    }
    for (unsigned i = graph->node_count; i > 1; i--) { /* nodes may be added in any order */
        unsigned j = below(i), kept = order[i - 1];
        order[i - 1] = order[j];
        order[j] = kept;
    }
    for (unsigned i = 0; i < graph->node_count; i++)
        rows[i] =
            (struct row)OP(names[order[i]], in[order[i]], out[order[i]], &graph->ops[order[i]]);
    graph->declared_count = 0;
    for (unsigned value = 0; value < graph->value_count; value++) {
        if (graph->declared[value])
            values[graph->declared_count++] = value;
    }
    list(outputs, sizeof outputs, values, graph->declared_count);
    graph->plan = plan_of("v0", outputs, rows, graph->node_count);
}

static void invent(struct graph *graph, uint64_t seed)
{
    memset(graph, 0, sizeof *graph);
    state = seed * 0x9E3779B97F4A7C15u + 1;
    graph->value_count = 1;
    graph->length[0] = ELEMENTS;
    graph->expected[0] = malloc(sizeof ramp);
    memcpy(graph->expected[0], ramp, sizeof ramp);
    graph->node_count = 2 + below(MOST_NODES - 2);
    for (unsigned node = 0; node < graph->node_count; node++)
        invent_node(graph, node);
    graph->declared[graph->value_count - 1] = true;
    build(graph);
}

static void expect_outputs(const struct graph *graph, uint64_t seed, const char *how)
{
    for (unsigned value = 1; value < graph->value_count; value++) {
        char name[16];
        snprintf(name, sizeof name, "v%u", value);
        if (!graph->declared[value])
            continue;
        const struct hearth_tensor *tensor = value_of(run.context, name);
        EXPECT_SIZE(graph->length[value] * 4, hearth_tensor_size(tensor));
        cr_assert_eq(
            memcmp(hearth_tensor_data(tensor), graph->expected[value], hearth_tensor_size(tensor)),
            0, "graph %llu, %s: %s differs", (unsigned long long)seed, how, name);
        cr_assert_eq(hearth_tensor_allocator(tensor), hearth_io_allocator(run.rig.io));
    }
    EXPECT_SIZE(graph->declared_count + 1, hearth_context_count(run.context));
    EXPECT_SIZE(hearth_io_live_bytes(run.rig.io), hearth_service_live_bytes(run.rig.service));
}

static void forget(struct graph *graph)
{
    for (unsigned value = 0; value < graph->value_count; value++)
        free(graph->expected[value]);
}

Test(session_random, parallel_runs_give_what_serial_ones_give)
{
    static struct graph graph;
    struct hearth_pool *pools[3] = {NULL};
    struct hearth_executor executors[3];
    const uint32_t threads[3] = {1, 2, 8};
    for (unsigned i = 0; i < 3; i++) {
        EXPECT(HEARTH_OK, hearth_pool_create(threads[i], &pools[i]));
        EXPECT(HEARTH_OK, hearth_pool_executor(pools[i], &executors[i]));
    }
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        invent(&graph, seed);
        run_open(&run, graph.plan);
        lend_ramp(run.context, "v0");
        uint64_t copies = run_once(&run).payload_copies;
        EXPECT_SIZE(0, copies);
        expect_outputs(&graph, seed, "serial");
        for (unsigned i = 0; i < 6; i++) {
            struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
            EXPECT(HEARTH_OK,
                   hearth_session_run_on(run.session, run.context, &executors[i % 3], &stats));
            EXPECT_SIZE(graph.node_count, stats.nodes);
            EXPECT_SIZE(0, stats.payload_copies);
            expect_outputs(&graph, seed, "parallel");
        }
        run_close(&run);
        forget(&graph);
    }
    for (unsigned i = 0; i < 3; i++)
        EXPECT(HEARTH_OK, hearth_pool_destroy(pools[i]));
}
