/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of plans: random graphs against plans/plan_truth.c, sweeps of more than 64
 * questions, bodies, the time that large graphs take. */
#include "plans/plan_truth.h"
#include "runtime/plan.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

Test(plan_arrays, random_graphs)
{
    enum { GRAPHS = 2000 };
    unsigned fit = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        uint8_t bytes[GRAPH_BYTES];
        struct plan_graph graph;
        char why[256];
        bool sound;
        plan_graph_random(seed, bytes);
        plan_graph_of(&graph, bytes, sizeof bytes);
        cr_assert(plan_truth_check(&graph, &sound, why, sizeof why), "seed %lu: %s", seed, why);
        fit += sound;
    }
    cr_assert_gt(fit, GRAPHS / 2);
    cr_assert_lt(fit, GRAPHS - GRAPHS / 20);
}

static enum hearth_status idle(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

static struct hearth_plan_builder *builder;
static struct hearth_plan *plan;

static void start(void)
{
    assert_ok(hearth_plan_builder_create(&builder));
}

static void finish(void)
{
    hearth_plan_builder_destroy(builder);
    hearth_plan_unref(plan);
}

/* One output, named by `made`; inputs are values' numbers. */
static void add(unsigned made, const unsigned *used, size_t count)
{
    char texts[64][16];
    char text[16];
    const char *inputs[64];
    const char *output = text;
    struct hearth_node node = HEARTH_NODE_INIT;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "v%u", used[i]);
        inputs[i] = texts[i];
    }
    (void)snprintf(text, sizeof text, "v%u", made);
    node.inputs = inputs;
    node.input_count = count;
    node.outputs = &output;
    node.output_count = 1;
    node.kernel = idle;
    assert_ok(hearth_plan_builder_add_node(builder, &node, NULL));
}

static double build_ms(void)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    assert_ok(hearth_plan_builder_build(builder, &plan, NULL, 0));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) * 1e-6;
}

static bool last(size_t node, size_t slot)
{
    return plan->inputs[plan->nodes[node].inputs.first + slot].last;
}

TestSuite(plan_long, .init = start, .fini = finish);

/* Blocks of four nodes; the fourth adds the block's input to what the others made of it. */
Test(plan_long, chain_of_residual_blocks)
{
    enum { BLOCKS = 2500 };
    add(0, NULL, 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned at = 4 * i;
        for (unsigned j = 0; j < 3; j++)
            add(at + j + 1, (const unsigned[]){at + j}, 1);
        add(at + 4, (const unsigned[]){at, at + 3}, 2);
    }
    double ms = build_ms();
    cr_log_info("%d nodes: %.2f ms", 4 * BLOCKS + 1, ms);
    cr_assert_lt(ms, 2000.0);
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t node = 4 * i + 1;
        cr_assert_not(last(node, 0), "block %zu", i);
        cr_assert(last(node + 1, 0) && last(node + 2, 0), "block %zu", i);
        cr_assert(last(node + 3, 0) && last(node + 3, 1), "block %zu", i);
    }
}

/* The worst for a search per value: each of the nodes on the way down is used again on the way
 * up, so that windows span half the graph on average. */
Test(plan_long, every_connection_is_long)
{
    enum { DEPTH = 5000 };
    add(0, NULL, 0);
    for (unsigned i = 1; i < DEPTH; i++)
        add(i, (const unsigned[]){i - 1}, 1);
    for (unsigned i = 0; i < DEPTH; i++)
        add(DEPTH + i, (const unsigned[]){DEPTH + i - 1, DEPTH - 1 - i}, 2);
    double ms = build_ms();
    cr_log_info("%d nodes: %.2f ms", 2 * DEPTH, ms);
    cr_assert_lt(ms, 2000.0);
    cr_assert_not(last(DEPTH, 0), "twice the same value");
    for (size_t i = 1; i < DEPTH; i++)
        cr_assert(last(DEPTH + i, 0) && last(DEPTH + i, 1), "node %zu", DEPTH + i);
}

/* As above, but nothing on the way up depends on the way down beyond its own connection. */
Test(plan_long, no_connection_may_be_taken_over)
{
    enum { DEPTH = 3000 };
    add(0, NULL, 0);
    for (unsigned i = 1; i < DEPTH; i++)
        add(i, (const unsigned[]){i - 1}, 1);
    for (unsigned i = 0; i < DEPTH; i++)
        add(DEPTH + i, (const unsigned[]){i}, 1);
    (void)build_ms();
    for (size_t i = 0; i + 1 < DEPTH; i++)
        cr_assert(!last(DEPTH + i, 0) && !last(i + 1, 0), "node %zu", i);
    cr_assert(last(2 * DEPTH - 1, 0), "the only user");
}

/* One value that everybody uses, in a graph that was added backwards. */
Test(plan_long, a_value_used_by_all_and_the_order_turned_round)
{
    enum { COUNT = 10000 };
    for (unsigned i = COUNT - 1; i >= 2; i--)
        add(i, (const unsigned[]){0, i - 1}, 2);
    add(1, (const unsigned[]){0}, 1);
    add(0, NULL, 0);
    double ms = build_ms();
    cr_log_info("%d nodes: %.2f ms", COUNT, ms);
    cr_assert_lt(ms, 2000.0);
    for (size_t i = 0; i < COUNT; i++) {
        assert_size(plan->order[i], COUNT - 1 - i);
        cr_assert_eq(i + 2 < COUNT && last(i, 0), i == 0, "node %zu", i);
    }
    assert_size(plan->nodes[COUNT - 1].next.count, COUNT - 1);
}

/* A diamond in every column, and around all of them a diamond in every row: the sweeps of the rows
 * come by the columns, whose questions were answered in sweeps before. */
Test(plan_long, sweeps_know_nothing_of_each_other)
{
    enum { WIDTH = 150 };
    for (unsigned i = 0; i < WIDTH; i++) {
        add(2 * i, NULL, 0);
        add(2 * i + 1, (const unsigned[]){2 * i}, 1);
    }
    for (unsigned i = 0; i < WIDTH; i++) {
        unsigned at = 2 * WIDTH + 3 * i;
        add(at, NULL, 0);
        add(at + 1, (const unsigned[]){at}, 1);
        add(at + 2, (const unsigned[]){at, at + 1}, 2);
    }
    for (unsigned i = 0; i < WIDTH; i++)
        add(5 * WIDTH + i, (const unsigned[]){2 * i, 2 * i + 1}, 2);
    (void)build_ms();
    for (size_t i = 0; i < WIDTH; i++) {
        cr_assert(last(2 * WIDTH + 3 * i + 2, 0), "column %zu", i);
        cr_assert(last(5 * WIDTH + i, 0), "row %zu", i);
    }
}

Test(plan_long, bodies)
{
    add(0, NULL, 0);
    (void)build_ms();
    struct hearth_plan *body = plan;
    struct hearth_plan *const bodies[] = {body, body, body};
    for (size_t i = 0; i <= 3; i++) {
        struct hearth_node node = HEARTH_NODE_INIT;
        node.kernel = idle;
        node.bodies = bodies;
        node.body_count = i;
        assert_ok(hearth_plan_builder_add_node(builder, &node, NULL));
    }
    (void)build_ms();
    assert_size(plan->body_count, 6);
    assert_size(plan->most_bodies, 3);
    assert_size(plan->nodes[4].bodies.first, 3);
    assert_size(plan->nodes[4].bodies.count, 3);
    cr_assert_eq(plan->bodies[5], body);
    assert_size(hearth__load_relaxed(&body->refs), 1 + 6 + 6);
    hearth_plan_builder_destroy(builder);
    builder = NULL;
    assert_size(hearth__load_relaxed(&body->refs), 1 + 6);
    hearth_plan_unref(plan);
    plan = body;
    assert_size(hearth__load_relaxed(&body->refs), 1);
}
