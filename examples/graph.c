/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A graph in the shape of a diamond. Lanes of elementwise steps start at one node and meet in another:
 *
 *              / step - step - step \
 *     x - spread   ... 6 lanes ...   join - y
 *              \ step - step - step /
 *
 * Nodes without an edge between them may run at the same time. All numbers are small and whole, so the sums
 * are exact, whatever the order.
 */
#include "graph.h"

#include <hearth/runtime.h>

#include <stdio.h>
#include <string.h>

enum { LANES = 6, STEPS = 3, ELEMENTS = 1 << 14, RUNS = 10, NAME_BYTES = 32 };

/* One elementwise step: out = in * factor + summand. */
struct step {
    float factor, summand;
};

static const struct step spread_step = {1.0F, 1.0F};
static const struct step steps[STEPS] = {{2.0F, 1.0F}, {1.0F, -3.0F}, {3.0F, 0.0F}};

static float apply(struct step step, float x)
{
    return x * step.factor + step.summand;
}

/* What the graph computes, without the graph. */
static float expected(float x)
{
    float value = apply(spread_step, x);
    for (int i = 0; i < STEPS; i++)
        value = apply(steps[i], value);
    return value * LANES;
}

/* Kernels. They name the slot they produce; where it lives is the plan's business. */

static enum hearth_status make_like_input(struct hearth_context *context, float **data,
                                          size_t *count)
{
    const struct hearth_tensor *in = hearth_context_input(context, 0);
    struct hearth_tensor *out = NULL;
    enum hearth_status status =
        hearth_context_make_output(context, 0, HEARTH_DTYPE_FLOAT, hearth_tensor_shape(in), &out);
    if (status != HEARTH_OK)
        return status;
    *data = hearth_tensor_data(out);
    *count = hearth_tensor_size(out) / sizeof **data;
    return HEARTH_OK;
}

static enum hearth_status run_step(struct hearth_context *context, void *user)
{
    const struct step *step = user;
    const float *in = hearth_tensor_data(hearth_context_input(context, 0));
    float *out;
    size_t count;
    enum hearth_status status = make_like_input(context, &out, &count);
    for (size_t i = 0; status == HEARTH_OK && i < count; i++)
        out[i] = apply(*step, in[i]);
    return status;
}

static enum hearth_status run_join(struct hearth_context *context, void *user)
{
    (void)user;
    float *out;
    size_t count;
    enum hearth_status status = make_like_input(context, &out, &count);
    if (status != HEARTH_OK)
        return status;
    memset(out, 0, count * sizeof *out);
    for (size_t lane = 0; lane < LANES; lane++) {
        const float *in = hearth_tensor_data(hearth_context_input(context, lane));
        for (size_t i = 0; i < count; i++)
            out[i] += in[i];
    }
    return HEARTH_OK;
}

/* The plan */

static enum hearth_status add_step(struct hearth_plan_builder *builder, const char *input,
                                   const char *output, const struct step *step)
{
    struct hearth_node node = HEARTH_NODE_INIT;
    node.name = output;
    node.inputs = &input;
    node.input_count = 1;
    node.outputs = &output;
    node.output_count = 1;
    node.kernel = run_step;
    node.user = (void *)step;
    node.flags = HEARTH_NODE_SLOT_AWARE;
    return hearth_plan_builder_add_node(builder, &node, NULL);
}

/* The steps of one lane; `last` receives the name of its last value. */
static enum hearth_status add_lane(struct hearth_plan_builder *builder, int lane,
                                   char last[NAME_BYTES])
{
    enum hearth_status status = HEARTH_OK;
    (void)snprintf(last, NAME_BYTES, "start");
    for (int i = 0; i < STEPS && status == HEARTH_OK; i++) {
        char name[NAME_BYTES];
        (void)snprintf(name, sizeof name, "lane%d.%d", lane, i);
        status = add_step(builder, last, name, &steps[i]);
        memcpy(last, name, sizeof name);
    }
    return status;
}

static enum hearth_status add_join(struct hearth_plan_builder *builder,
                                   char names[LANES][NAME_BYTES])
{
    const char *inputs[LANES];
    const char *output = "y";
    struct hearth_node node = HEARTH_NODE_INIT;
    for (int lane = 0; lane < LANES; lane++)
        inputs[lane] = names[lane];
    node.name = "join";
    node.inputs = inputs;
    node.input_count = LANES;
    node.outputs = &output;
    node.output_count = 1;
    node.kernel = run_join;
    node.flags = HEARTH_NODE_SLOT_AWARE;
    return hearth_plan_builder_add_node(builder, &node, NULL);
}

static enum hearth_status make_plan(struct hearth_plan **plan)
{
    struct hearth_plan_builder *builder = NULL;
    char last[LANES][NAME_BYTES];
    char message[128] = "";
    enum hearth_status status = hearth_plan_builder_create(&builder);
    if (status == HEARTH_OK)
        status = hearth_plan_builder_add_input(builder, "x");
    if (status == HEARTH_OK)
        status = hearth_plan_builder_add_output(builder, "y");
    if (status == HEARTH_OK)
        status = add_step(builder, "x", "start", &spread_step);
    for (int lane = 0; lane < LANES && status == HEARTH_OK; lane++)
        status = add_lane(builder, lane, last[lane]);
    if (status == HEARTH_OK)
        status = add_join(builder, last);
    if (status == HEARTH_OK)
        status = hearth_plan_builder_build(builder, plan, message, sizeof message);
    if (message[0] != '\0')
        fprintf(stderr, "%s\n", message);
    hearth_plan_builder_destroy(builder);
    return status;
}

/* The runs */

struct program {
    struct hearth_service *service;
    struct hearth_plan *plan;
    struct hearth_session *session;
    struct hearth_context *context;
};

static enum hearth_status program_open(struct program *program)
{
    struct hearth_session_options session = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_context_options context = HEARTH_CONTEXT_OPTIONS_INIT;
    enum hearth_status status = hearth_service_create(NULL, &program->service);
    if (status == HEARTH_OK)
        status = make_plan(&program->plan);
    session.plan = context.plan = program->plan;
    session.service = program->service;
    if (status == HEARTH_OK)
        status = hearth_session_create(&session, &program->session);
    if (status == HEARTH_OK)
        status = hearth_context_create(&context, &program->context);
    return status;
}

/* In this order or any other. */
static void program_close(struct program *program)
{
    (void)hearth_context_destroy(program->context);
    (void)hearth_session_destroy(program->session);
    hearth_plan_unref(program->plan);
    hearth_service_unref(program->service);
}

/* One run on an input of its own; the output leaves as a lease. */
static enum hearth_status run_once(struct program *program, const struct hearth_executor *executor,
                                   const float *x, struct hearth_lease *y,
                                   struct hearth_run_stats *stats)
{
    const struct hearth_shape shape = {.dims = {ELEMENTS}, .rank = 1};
    enum hearth_status status = hearth_context_borrow(
        program->context, "x", x, ELEMENTS * sizeof *x, HEARTH_DTYPE_FLOAT, &shape);
    if (status == HEARTH_OK)
        status = hearth_session_run_on(program->session, program->context, executor, stats);
    if (status == HEARTH_OK)
        status = hearth_session_export_outputs(program->session, program->context, y, 1);
    if (status != HEARTH_OK)
        fprintf(stderr, "%s: %s\n", hearth_status_text(status),
                hearth_session_error(program->context));
    return status;
}

static void fill(float *x, int run)
{
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)(i % 1000 + run);
}

static bool check(struct hearth_lease lease, int run)
{
    const float *y = hearth_lease_data(lease);
    bool right = y != NULL && hearth_lease_size(lease) == ELEMENTS * sizeof *y;
    for (int i = 0; right && i < ELEMENTS; i++)
        right = y[i] == expected((float)(i % 1000 + run));
    return right;
}

bool graph_run(const char *name, const struct hearth_executor *executor)
{
    static float x[ELEMENTS];
    struct program program = {NULL, NULL, NULL, NULL};
    struct hearth_lease outputs[RUNS];
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    int runs = 0;
    uint64_t copies = 0, threads = 0;
    bool right = program_open(&program) == HEARTH_OK;
    size_t nodes = hearth_plan_node_count(program.plan);
    for (int run = 0; right && run < RUNS; run++) {
        fill(x, run);
        right = run_once(&program, executor, x, &outputs[run], &stats) == HEARTH_OK;
        runs += right;
        copies += stats.payload_copies;
        threads = stats.threads > threads ? stats.threads : threads;
    }
    /* The outputs outlive all that made them. */
    program_close(&program);
    for (int run = 0; run < runs; run++) {
        right &= check(outputs[run], run);
        right &= hearth_lease_release(outputs[run]) == HEARTH_OK;
    }
    right &= copies == 0;
    printf("%s: %zu nodes, %d runs, up to %llu threads, %llu copies: %s\n", name, nodes, runs,
           (unsigned long long)threads, (unsigned long long)copies, right ? "right" : "WRONG");
    return right;
}
