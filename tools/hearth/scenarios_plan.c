/* SPDX-License-Identifier: Apache-2.0 */
/* The description as a plan of hearth's, and the kernel that its nodes share. */
#include "scenarios_bench.h"

#include "scenarios_kernels.h"

#include <stdio.h>
#include <sys/resource.h>

#define PAGE 4096u

static uint64_t thread_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_minflt;
}

static enum hearth_status get_input(struct hearth_context *context, uint32_t slot,
                                    const struct scenario_value *value, const float **data)
{
    const struct hearth_tensor *tensor = hearth_context_input(context, slot);
    if (hearth_tensor_size(tensor) != value->bytes) {
        return HEARTH_INVALID;
    }
    *data = hearth_tensor_data(tensor);
    return HEARTH_OK;
}

static enum hearth_status make_output(struct hearth_context *context,
                                      const struct scenario_node *node, uint32_t slot,
                                      const struct scenario_value *value, float **data)
{
    struct hearth_tensor *tensor = NULL;
    struct hearth_shape shape = HEARTH_SHAPE_INIT;
    shape.rank = 2;
    shape.dims[0] = value->rows;
    shape.dims[1] = value->columns;
    enum hearth_status status =
        slot == 0 && node->in_place && hearth_context_can_reuse(context, 0, 0)
            ? hearth_context_make_output_in_place(context, 0, 0, HEARTH_DTYPE_FLOAT, &shape,
                                                  &tensor)
            : hearth_context_make_output(context, slot, HEARTH_DTYPE_FLOAT, &shape, &tensor);
    if (status == HEARTH_OK) {
        *data = hearth_tensor_data(tensor);
    }
    return status;
}

static enum hearth_status gather(struct hearth_context *context, struct scenario_call *call)
{
    const struct scenario_node *node = call->node;
    enum hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; status == HEARTH_OK && i < node->input_count; i++) {
        status = get_input(context, i, &call->graph->values[node->inputs[i]], &call->inputs[i]);
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < node->output_count; i++) {
        status = make_output(context, node, i, &call->graph->values[node->outputs[i]],
                             &call->outputs[i]);
    }
    if (status == HEARTH_OK && node->workspace > 0) {
        struct hearth_buf *buf = NULL;
        status = hearth_context_make_temporary(context, node->workspace, &buf);
        call->workspace = status == HEARTH_OK ? hearth_buf_data(buf) : NULL;
    }
    return status;
}

/* An output whose storage is new has pages that nobody wrote yet; that is part of what it costs. */
static void touch_outputs(const struct scenario_call *call)
{
    for (uint32_t i = 0; i < call->node->output_count; i++) {
        const struct scenario_value *value = &call->graph->values[call->node->outputs[i]];
        volatile unsigned char *data = (volatile unsigned char *)call->outputs[i];
        for (size_t at = 0; value->declared && at < value->bytes; at += PAGE) {
            data[at] = 0;
        }
        if (value->declared) {
            data[value->bytes - 1] = 0;
        }
    }
}

static enum hearth_status run_node(struct hearth_context *context, void *user)
{
    struct scenario_op *op = user;
    struct scenario_bench *bench = op->bench;
    struct scenario_call call = {.graph = bench->graph, .node = &bench->graph->nodes[op->node]};
    enum hearth_status status = gather(context, &call);
    if (status != HEARTH_OK) {
        return status;
    }
    uint64_t start = thread_faults();
    uint64_t touched = start;
    if (bench->job->scenario == SCENARIO_KEPT) {
        touch_outputs(&call);
        touched = thread_faults();
    }
    scenario_compute(&call);
    op->faults = thread_faults() - touched;
    op->output_faults = touched - start;
    return HEARTH_OK;
}

static enum hearth_status add_node(struct scenario_bench *bench, uint32_t number,
                                   struct hearth_plan_builder *builder)
{
    const struct scenario_graph *graph = &bench->models[0].graph;
    const struct scenario_node *node = &graph->nodes[number];
    const char *inputs[SCENARIO_SLOTS_MAX];
    const char *outputs[2];
    struct hearth_node given = HEARTH_NODE_INIT;
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = graph->values[node->inputs[i]].name;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[i] = graph->values[node->outputs[i]].name;
    }
    bench->ops[number] = (struct scenario_op){.bench = bench, .node = number};
    given.name = node->name;
    given.inputs = inputs;
    given.input_count = node->input_count;
    given.outputs = outputs;
    given.output_count = node->output_count;
    given.kernel = run_node;
    given.user = &bench->ops[number];
    given.flags = HEARTH_NODE_SLOT_AWARE;
    return hearth_plan_builder_add_node(builder, &given, NULL);
}

static enum hearth_status describe(struct scenario_bench *bench,
                                   struct hearth_plan_builder *builder)
{
    const struct scenario_graph *graph = &bench->models[0].graph;
    enum hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; status == HEARTH_OK && i < graph->value_count; i++) {
        if (graph->values[i].initial) {
            status = hearth_plan_builder_add_input(builder, graph->values[i].name);
        }
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < graph->output_count; i++) {
        status = hearth_plan_builder_add_output(builder, graph->values[graph->outputs[i]].name);
    }
    for (uint32_t i = 0; status == HEARTH_OK && i < graph->node_count; i++) {
        status = add_node(bench, i, builder);
    }
    return status;
}

bool scenario_bench_make_plan(struct scenario_bench *bench)
{
    struct hearth_plan_builder *builder = NULL;
    char message[256] = "";
    enum hearth_status status = hearth_plan_builder_create(&builder);
    if (status == HEARTH_OK) {
        status = describe(bench, builder);
    }
    if (status == HEARTH_OK) {
        status = hearth_plan_builder_build(builder, &bench->plan, message, sizeof message);
    }
    hearth_plan_builder_destroy(builder);
    if (status != HEARTH_OK) {
        fprintf(stderr, "hearth scenarios: the plan: %s %s\n", hearth_status_name(status), message);
    }
    return status == HEARTH_OK;
}
