/* SPDX-License-Identifier: Apache-2.0 */
/* What any order of execution may need.
 * Covered: random graphs, executed in random orders by up to four workers, never have more buffers of a class out
 * at the same time than was said; chains, layers and independent nodes are exact; workspaces; what threads keep of
 * outputs; sizes only grow. Not covered: the heap refusing. */
#include "runtime/demand.h"

#include "plans/plan_graph.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define EXPECT(expected, call)                                                                     \
    do {                                                                                           \
        enum hearth_status got_ = (call);                                                          \
        cr_assert_eq(got_, (expected), "%s answers %s", #call, hearth_status_name(got_));          \
    } while (0)
#define EXPECT_SIZE(expected, value)                                                               \
    do {                                                                                           \
        size_t got_ = (value), want_ = (expected);                                                 \
        cr_assert_eq(got_, want_, "%s is %zu instead of %zu", #value, got_, want_);                \
    } while (0)

TestSuite(demand, .timeout = 120);

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

/* 64, 128, 192, 256, then four for each doubling; by counting up. */
static size_t class_of(size_t bytes)
{
    size_t class = 0;
    for (size_t step = 64; class < bytes; class += step)
        step = class < 256 ? 64 : class == 2 * step * 4 ? 2 * step : step;
    return class;
}

static size_t needs_of(const struct hearth__needs *needs, size_t class)
{
    for (size_t i = 0; i < needs->count; i++)
        if (needs->list[i].bytes == class)
            return needs->list[i].count;
    return 0;
}

/* The largest first, each class once, none for nothing. */
static void expect_sorted(const struct hearth__needs *needs)
{
    for (size_t i = 0; i < needs->count; i++) {
        cr_assert_gt(needs->list[i].count, 0);
        EXPECT_SIZE(class_of(needs->list[i].bytes), needs->list[i].bytes);
        if (i > 0)
            cr_assert_gt(needs->list[i - 1].bytes, needs->list[i].bytes);
    }
}

/* An execution of a plan: nodes in the order in which workers happen to start and finish them. */
enum { WORKERS = 4 };

struct execution {
    const struct hearth_plan *plan;
    const struct hearth__demand *demand;
    uint32_t waits[GRAPH_NODES];
    uint32_t uses[GRAPH_VALUES];
    uint32_t ready[GRAPH_NODES], ready_count;
    uint32_t running[WORKERS], running_count;
    bool live[GRAPH_VALUES];
};

static void start_node(struct execution *run)
{
    uint32_t at = draw(run->ready_count);
    uint32_t node = run->ready[at];
    const struct hearth__range *outputs = &run->plan->nodes[node].outputs;
    run->ready[at] = run->ready[--run->ready_count];
    run->running[run->running_count++] = node;
    for (uint32_t i = 0; i < outputs->count; i++) {
        const struct hearth__output_slot *slot = &run->plan->outputs[outputs->first + i];
        if (slot->value != HEARTH__NO_VALUE && slot->role == HEARTH_ROLE_EXECUTION)
            run->live[slot->value] = true;
    }
}

static void end_node(struct execution *run)
{
    const struct hearth_plan *plan = run->plan;
    uint32_t at = draw(run->running_count);
    uint32_t number = run->running[at];
    const struct hearth__plan_node *node = &plan->nodes[number];
    run->running[at] = run->running[--run->running_count];
    for (uint32_t i = 0; i < node->uses.count; i++) {
        uint32_t value = plan->uses[node->uses.first + i];
        if (--run->uses[value] == 0)
            run->live[value] = false;
    }
    for (uint32_t i = 0; i < node->outputs.count; i++) {
        uint32_t value = plan->outputs[node->outputs.first + i].value;
        if (value != HEARTH__NO_VALUE && plan->values[value].uses == 0)
            run->live[value] = false;
    }
    for (uint32_t i = 0; i < node->next.count; i++) {
        uint32_t next = plan->next[node->next.first + i];
        if (--run->waits[next] == 0)
            run->ready[run->ready_count++] = next;
    }
}

static size_t size_of(hearth__largest *largest)
{
    size_t seen = hearth__load_relaxed(largest);
    return seen == 0 ? SIZE_MAX : class_of(seen - 1);
}

static size_t workspaces_of(const struct execution *run, uint32_t node, size_t class)
{
    size_t count = 0;
    for (uint32_t i = 0; i < HEARTH__WORKSPACES_LEARNED; i++)
        count += size_of(&run->demand->workspaces[node * HEARTH__WORKSPACES_LEARNED + i]) == class;
    return count;
}

/* All values could be one thread's, and the workspaces of one node. */
static void check_now(const struct execution *run, const struct hearth__needs *needs)
{
    for (size_t value = 0; value < run->plan->value_count; value++) {
        size_t class = run->live[value] ? size_of(&run->demand->values[value]) : SIZE_MAX;
        size_t out = 0, most = 0;
        if (class == SIZE_MAX)
            continue;
        for (size_t i = 0; i < run->plan->value_count; i++)
            out += run->live[i] && size_of(&run->demand->values[i]) == class;
        for (uint32_t i = 0; i < run->running_count; i++) {
            size_t workspaces = workspaces_of(run, run->running[i], class);
            most = workspaces > most ? workspaces : most;
        }
        cr_assert_leq(out + most, needs_of(needs, class),
                      "%zu values and %zu workspaces of %zu bytes, %zu were said", out, most, class,
                      needs_of(needs, class));
    }
}

static void execute(const struct hearth_plan *plan, const struct hearth__demand *demand,
                    const struct hearth__needs *needs)
{
    struct execution run = {.plan = plan, .demand = demand};
    uint32_t workers = 1 + draw(WORKERS), ended = 0;
    for (uint32_t i = 0; i < plan->value_count; i++)
        run.uses[i] = plan->values[i].uses;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        run.waits[i] = plan->nodes[i].waits;
        if (run.waits[i] == 0)
            run.ready[run.ready_count++] = i;
    }
    while (ended < plan->node_count) {
        bool may_start = run.ready_count != 0 && run.running_count < workers;
        if (may_start && (run.running_count == 0 || draw(2) == 0)) {
            start_node(&run);
            check_now(&run, needs);
        } else {
            end_node(&run);
            ended++;
        }
    }
    for (size_t i = 0; i < plan->value_count; i++)
        cr_assert(!run.live[i]);
}

/* Few classes, so that many values are of the same one; some were never made. */
static void note_random(struct hearth__demand *demand, const struct hearth_plan *plan)
{
    static const size_t sizes[] = {0, 1, 64, 65, 200, 300, 1000, 5000, 65536, 100000};
    uint32_t classes = 1 + draw(COUNT_OF(sizes));
    for (size_t i = 0; i < plan->value_count; i++)
        for (uint32_t times = draw(3); times-- > 0;)
            hearth__demand_note(&demand->values[i], sizes[draw(classes)]);
    for (size_t i = 0; i < plan->node_count * HEARTH__WORKSPACES_LEARNED; i++)
        if (draw(3) == 0)
            hearth__demand_note(&demand->workspaces[i], sizes[draw(classes)]);
}

Test(demand, no_order_needs_more_than_was_said)
{
    unsigned fit = 0;
    for (uint64_t seed = 0; seed < 1500; seed++) {
        uint8_t bytes[GRAPH_BYTES];
        struct plan_graph graph;
        struct hearth_plan *plan = NULL;
        struct hearth__demand demand;
        struct hearth__needs needs;
        char message[256];
        state = seed;
        plan_graph_random(seed, bytes);
        plan_graph_of(&graph, bytes, sizeof bytes);
        if (plan_graph_build(&graph, &plan, message, sizeof message) != HEARTH_OK)
            continue;
        fit++;
        EXPECT(HEARTH_OK, hearth__demand_init(&demand, plan));
        note_random(&demand, plan);
        EXPECT(HEARTH_OK, hearth__demand_needs(&demand, plan, &needs));
        expect_sorted(&needs);
        for (unsigned i = 0; i < 10; i++)
            execute(plan, &demand, &needs);
        free(needs.list);
        hearth__demand_fini(&demand);
        hearth_plan_unref(plan);
    }
    cr_assert_gt(fit, 500);
}

static enum hearth_status idle(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

/* Layers of `width` nodes, each reading all values of the layer before; no value is declared. */
static struct hearth_plan *layers(uint32_t count, uint32_t width)
{
    static char texts[256][16];
    const char *names[256];
    struct hearth_plan_builder *builder = NULL;
    struct hearth_plan *plan = NULL;
    char message[256];
    cr_assert_leq(count * width, COUNT_OF(names));
    EXPECT(HEARTH_OK, hearth_plan_builder_create(&builder));
    for (uint32_t i = 0; i < count * width; i++) {
        snprintf(texts[i], sizeof texts[i], "v%u", i);
        names[i] = texts[i];
    }
    for (uint32_t i = 0; i < count * width; i++) {
        struct hearth_node node = HEARTH_NODE_INIT;
        uint32_t layer = i / width;
        node.name = "node";
        node.inputs = layer == 0 ? NULL : &names[(size_t)(layer - 1) * width];
        node.input_count = layer == 0 ? 0 : width;
        node.outputs = &names[i];
        node.output_count = 1;
        node.kernel = idle;
        EXPECT(HEARTH_OK, hearth_plan_builder_add_node(builder, &node, NULL));
    }
    enum hearth_status status = hearth_plan_builder_build(builder, &plan, message, sizeof message);
    cr_assert_eq(status, HEARTH_OK, "%s", message);
    hearth_plan_builder_destroy(builder);
    return plan;
}

/* The needs of one class, for a plan whose values are all of it. */
static size_t uniform_need(struct hearth_plan *plan, size_t bytes)
{
    struct hearth__demand demand;
    struct hearth__needs needs;
    EXPECT(HEARTH_OK, hearth__demand_init(&demand, plan));
    for (size_t i = 0; i < plan->value_count; i++)
        hearth__demand_note(&demand.values[i], bytes);
    EXPECT(HEARTH_OK, hearth__demand_needs(&demand, plan, &needs));
    EXPECT_SIZE(1, needs.count);
    EXPECT_SIZE(class_of(bytes), needs.list[0].bytes);
    size_t count = needs.list[0].count;
    for (unsigned i = 0; i < 20 && plan->node_count <= GRAPH_NODES; i++)
        execute(plan, &demand, &needs);
    free(needs.list);
    hearth__demand_fini(&demand);
    hearth_plan_unref(plan);
    return count;
}

/* A node's output and its input are live together, whatever the length. */
Test(demand, chains_need_two)
{
    EXPECT_SIZE(1, uniform_need(layers(1, 1), 100));
    for (uint32_t length = 2; length <= 256; length += length / 4 + 1)
        EXPECT_SIZE(2, uniform_need(layers(length, 1), 0));
}

Test(demand, layers_need_two_of_them)
{
    for (uint32_t width = 1; width <= 16; width++) {
        EXPECT_SIZE(width, uniform_need(layers(1, width), 300)); /* independent of each other */
        for (uint32_t count = 2; count * width <= 256 && count <= 8; count++)
            EXPECT_SIZE(2 * (size_t)width, uniform_need(layers(count, width), 4097));
    }
}

/* Alternating classes of a chain: one of each is live at a time, and is dead when the next one is made. */
Test(demand, classes_do_not_share)
{
    struct hearth_plan *plan = layers(20, 1);
    struct hearth__demand demand;
    struct hearth__needs needs;
    EXPECT(HEARTH_OK, hearth__demand_init(&demand, plan));
    for (size_t step = 0; step < plan->node_count; step++) {
        const struct hearth__plan_node *node = &plan->nodes[plan->order[step]];
        hearth__demand_note(&demand.values[plan->outputs[node->outputs.first].value],
                            step % 2 ? 1000 : 100);
    }
    EXPECT(HEARTH_OK, hearth__demand_needs(&demand, plan, &needs));
    EXPECT_SIZE(2, needs.count);
    EXPECT_SIZE(1024, needs.list[0].bytes);
    EXPECT_SIZE(1, needs.list[0].count);
    EXPECT_SIZE(128, needs.list[1].bytes);
    EXPECT_SIZE(1, needs.list[1].count);
    free(needs.list);
    hearth__demand_fini(&demand);
    hearth_plan_unref(plan);
}

Test(demand, workspaces_are_those_of_one_node)
{
    static const size_t asked[3][HEARTH__WORKSPACES_LEARNED] = {
        {64, 64, 100, 0}, {60, 128, 120, 128}, {70000, 0, 0, 1}};
    struct hearth_plan *plan = layers(3, 1);
    struct hearth__demand demand;
    struct hearth__needs needs;
    EXPECT(HEARTH_OK, hearth__demand_init(&demand, plan));
    EXPECT(HEARTH_OK, hearth__demand_needs(&demand, plan, &needs));
    EXPECT_SIZE(0, needs.count); /* nothing was made yet */
    free(needs.list);
    for (size_t node = 0; node < 3; node++)
        for (size_t i = 0; i < HEARTH__WORKSPACES_LEARNED; i++)
            hearth__demand_note(&demand.workspaces[node * HEARTH__WORKSPACES_LEARNED + i],
                                asked[node][i]);
    EXPECT(HEARTH_OK, hearth__demand_needs(&demand, plan, &needs));
    expect_sorted(&needs);
    EXPECT_SIZE(4, needs.count);
    EXPECT_SIZE(1, needs_of(&needs, 81920));
    EXPECT_SIZE(3, needs_of(&needs, 128));
    EXPECT_SIZE(2, needs_of(&needs, 64));
    EXPECT_SIZE(2, needs_of(&needs, 0));
    free(needs.list);
    hearth__demand_fini(&demand);
    hearth_plan_unref(plan);
}

/* What a thread may keep: two chains of at most 32 buffers, of about 64 KiB, and of at least two. */
Test(demand, outputs_and_what_threads_keep_of_them)
{
    static const struct {
        size_t bytes, class, kept;
    } cases[] = {{0, 0, 64},        {1, 64, 64},       {2048, 2048, 64},  {2049, 2560, 50},
                 {4096, 4096, 32},  {20000, 20480, 6}, {32768, 32768, 4}, {40000, 40960, 4},
                 {57344, 57344, 4}, {65536, 65536, 0}, {57345, 65536, 0}, {1 << 20, 1 << 20, 0}};
    struct hearth_plan *plan = NULL;
    struct hearth_plan_builder *builder = NULL;
    struct hearth__demand demand;
    struct hearth__needs needs;
    char message[64];
    EXPECT(HEARTH_OK, hearth_plan_builder_create(&builder));
    for (unsigned i = 0; i < 3; i++) { /* initial inputs are made by nobody */
        const char *name = (const char *[]){"a", "b", "c"}[i];
        EXPECT(HEARTH_OK, hearth_plan_builder_add_input(builder, name));
        EXPECT(HEARTH_OK, hearth_plan_builder_add_output(builder, name));
    }
    EXPECT(HEARTH_OK, hearth_plan_builder_build(builder, &plan, message, sizeof message));
    hearth_plan_builder_destroy(builder);
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        for (uint32_t threads = 0; threads < 6; threads++) {
            EXPECT(HEARTH_OK, hearth__demand_init(&demand, plan));
            for (unsigned made = 0; made <= 2; made++) {
                EXPECT(HEARTH_OK, hearth__demand_outputs(&demand, plan, threads, &needs));
                EXPECT_SIZE(made != 0, needs.count);
                EXPECT_SIZE(made ? made + cases[i].kept * threads : 0,
                            needs_of(&needs, cases[i].class));
                free(needs.list);
                hearth__demand_note(&demand.values[plan->declared[made]], cases[i].bytes);
            }
            hearth__demand_fini(&demand);
        }
    }
    hearth_plan_unref(plan);
}

Test(demand, sizes_only_grow)
{
    hearth__largest largest = 0;
    static const size_t noted[] = {0, 10, 5, 0, 10, 11, 1};
    static const size_t known[] = {1, 11, 11, 11, 11, 12, 12};
    for (unsigned i = 0; i < COUNT_OF(noted); i++) {
        hearth__demand_note(&largest, noted[i]);
        EXPECT_SIZE(known[i], hearth__load_relaxed(&largest));
    }
}

Test(demand, plans_that_are_too_large)
{
    const struct hearth_plan large = {.node_count = HEARTH__DEMAND_NODES_MAX + 1};
    const struct hearth__demand demand = {NULL, NULL};
    struct hearth__needs needs;
    EXPECT(HEARTH_OVERFLOW, hearth__demand_needs(&demand, &large, &needs));
}
