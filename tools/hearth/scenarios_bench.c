/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_bench.h"

#include "clock.h"
#include "command.h"
#include "mix.h"
#include "prefault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Errors that are explained; the others are counted. */
#define EXPLAINED_MOST 5u

/* Time for an executor to call on each of its threads: more than any machine needs. */
#define PREFILL_NS UINT64_C(30000000000)

static const char *const names[] = {
    [SCENARIO_DESTROYED] = "destroyed",
    [SCENARIO_KEPT] = "kept",
    [SCENARIO_LARGE_INTERMEDIATES] = "large-intermediates",
    [SCENARIO_ALTERNATING] = "alternating",
    [SCENARIO_TRIM] = "trim",
};

const char *scenario_name(enum scenario_number number)
{
    return names[number];
}

/* The models of each scenario. In one scenario they differ in their rows alone. */
static const struct {
    struct scenario_shape shapes[SCENARIO_MODELS_MAX];
    uint32_t count;
} models[] = {
    [SCENARIO_DESTROYED] = {{{64, 128, 384, 64, true}}, 1},
    [SCENARIO_KEPT] = {{{64, 128, 384, 64, true}}, 1},
    [SCENARIO_LARGE_INTERMEDIATES] = {{{128, 64, 128, 48, false}}, 1},
    [SCENARIO_ALTERNATING] =
        {{{64, 128, 384, 64, true}, {40, 128, 384, 64, true}, {52, 128, 384, 64, true}}, 3},
    [SCENARIO_TRIM] = {{{48, 128, 384, 64, true}, {128, 128, 384, 64, true}}, 2},
};

void scenario_bench_error(struct scenario_bench *bench, const char *what, const char *why)
{
    if (bench->errors++ < EXPLAINED_MOST) {
        fprintf(stderr, "hearth scenarios: %s, %" PRIu32 " threads, run %" PRIu32 ": %s: %s\n",
                scenario_name(bench->job->scenario), bench->job->threads, bench->run, what, why);
    }
}

static enum hearth_status make_backing(struct hearth_backing **backing)
{
    struct hearth_backing *standard;
    enum hearth_status status = hearth_backing_default(&standard);
    if (status != HEARTH_OK) {
        return status;
    }
    return strcmp(hearth_backing_name(standard), "mmap") == 0
               ? hearth_backing_create_mmap(NULL, backing)
               : hearth_backing_create_jemalloc(NULL, backing);
}

/* A backing for each lifetime, so that what they cost can be told apart. */
static enum hearth_status make_service(struct scenario_bench *bench)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    enum hearth_status status = make_backing(&bench->exec_backing);
    if (status == HEARTH_OK) {
        status = make_backing(&bench->io_backing);
    }
    options.exec_backing = bench->exec_backing;
    options.io_backing = bench->io_backing;
    return status == HEARTH_OK ? hearth_service_create(&options, &bench->service) : status;
}

static enum hearth_status make_session(struct scenario_bench *bench)
{
    struct hearth_session_options options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_context_options context = HEARTH_CONTEXT_OPTIONS_INIT;
    options.plan = bench->plan;
    options.service = bench->service;
    context.plan = bench->plan;
    context.arena = hearth_service_io(bench->service);
    context.events = &bench->audit.handler;
    enum hearth_status status = hearth_session_create(&options, &bench->session);
    if (status == HEARTH_OK && bench->job->scenario == SCENARIO_TRIM) {
        /* What a session has seen it prepares for; the others of this row shall not know. */
        status = hearth_session_create(&options, &bench->once);
    }
    return status == HEARTH_OK ? hearth_context_create(&context, &bench->context) : status;
}

/* Weights stay the caller's. */
static enum hearth_status lend_weights(struct scenario_bench *bench)
{
    const struct scenario_graph *graph = &bench->models[0].graph;
    enum hearth_status status = HEARTH_OK;
    for (uint32_t i = 1; status == HEARTH_OK && i < graph->value_count; i++) {
        const struct scenario_value *value = &graph->values[i];
        if (value->initial) {
            struct hearth_shape shape = HEARTH_SHAPE_INIT;
            shape.rank = 2;
            shape.dims[0] = value->rows;
            shape.dims[1] = value->columns;
            status = hearth_context_borrow(bench->context, value->name, bench->weights.data[i],
                                           value->bytes, HEARTH_DTYPE_FLOAT, &shape);
        }
    }
    return status;
}

static void meet(void *argument)
{
    prefault_stack();
    pthread_barrier_wait(argument);
}

/* Each of the pool's threads at once, so that all have their stacks before anything is measured. */
static enum hearth_status make_pool(struct scenario_bench *bench)
{
    pthread_barrier_init(&bench->gate, NULL, bench->job->threads + 1);
    bench->executor = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    enum hearth_status status = hearth_pool_create(bench->job->threads, &bench->pool);
    if (status == HEARTH_OK) {
        status = hearth_pool_executor(bench->pool, &bench->executor);
    }
    if (status != HEARTH_OK) {
        return status;
    }
    for (uint32_t i = 0; i < bench->job->threads; i++) {
        status = bench->executor.submit(bench->executor.pool, meet, &bench->gate);
        if (status != HEARTH_OK) { /* Those that came already wait for the others. */
            fprintf(stderr, "hearth scenarios: out of memory\n");
            exit(COMMAND_BAD_INPUT);
        }
    }
    pthread_barrier_wait(&bench->gate);
    return HEARTH_OK;
}

static bool make_references(struct scenario_bench *bench)
{
    uint64_t seed = mix64(bench->job->seed);
    bool ok = scenario_weights_create(&bench->models[0].graph, seed, &bench->weights);
    for (uint32_t i = 0; ok && i < bench->model_count; i++) {
        struct scenario_model *model = &bench->models[i];
        for (uint32_t variant = 0; ok && variant < SCENARIO_VARIANTS; variant++) {
            ok = scenario_reference_create(
                &model->graph, &bench->weights,
                mix64(seed + (uint64_t)i * SCENARIO_VARIANTS + variant + 1),
                &model->references[variant]);
        }
    }
    return ok;
}

static bool make_memory(struct scenario_bench *bench)
{
    const struct scenario_job *job = bench->job;
    bench->model_count = models[job->scenario].count;
    bench->models = prefault_alloc(bench->model_count, sizeof *bench->models);
    if (bench->models == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < bench->model_count; i++) {
        scenario_graph_init(&bench->models[i].graph, &models[job->scenario].shapes[i]);
    }
    if (job->scenario == SCENARIO_KEPT) {
        bench->held_room =
            (job->warmup + job->runs + SCENARIO_AUDITS) * bench->models[0].graph.output_count;
        bench->held = prefault_alloc(bench->held_room, sizeof *bench->held);
    }
    return (bench->held != NULL || bench->held_room == 0) &&
           scenario_audit_init(&bench->audit, job->threads + 1) && make_references(bench);
}

/* The order is the plan's to choose; everything else is computed here. */
static void expect(struct scenario_bench *bench)
{
    uint32_t order[SCENARIO_NODES_MAX];
    for (uint32_t i = 0; i < bench->models[0].graph.node_count; i++) {
        order[i] = (uint32_t)hearth_plan_node_at(bench->plan, i);
    }
    for (uint32_t i = 0; i < bench->model_count; i++) {
        scenario_expect(&bench->models[i].graph, order, bench->job->threads + 1,
                        &bench->models[i].expected);
    }
}

bool scenario_bench_create(struct scenario_bench *bench, const struct scenario_job *job)
{
    *bench = (struct scenario_bench){.job = job};
    prefault_stack();
    if (!make_memory(bench)) {
        fprintf(stderr, "hearth scenarios: out of memory\n");
        return false;
    }
    if (!scenario_bench_make_plan(bench)) {
        return false;
    }
    expect(bench);
    enum hearth_status status = make_service(bench);
    if (status == HEARTH_OK) {
        status = make_session(bench);
    }
    if (status == HEARTH_OK) {
        status = lend_weights(bench);
    }
    if (status == HEARTH_OK && job->threads > 1) {
        status = make_pool(bench);
    }
    if (status != HEARTH_OK) {
        fprintf(stderr, "hearth scenarios: cannot set up %s with %" PRIu32 " threads: %s (%s)\n",
                scenario_name(job->scenario), job->threads, hearth_status_name(status),
                hearth_status_text(status));
    }
    return status == HEARTH_OK;
}

void scenario_bench_prefill(struct scenario_bench *bench)
{
    size_t threads = 0;
    uint64_t deadline = clock_ns() + PREFILL_NS;
    enum hearth_status status =
        hearth_session_prefill(bench->session, &bench->executor, deadline, &threads);
    if (status != HEARTH_OK) {
        scenario_bench_error(bench, "prefilling the threads", hearth_status_name(status));
    }
}

static void end(struct scenario_bench *bench, const char *what, enum hearth_status status)
{
    if (status != HEARTH_OK) {
        scenario_bench_error(bench, what, hearth_status_name(status));
    }
}

void scenario_bench_destroy(struct scenario_bench *bench)
{
    if (bench->pool != NULL) {
        end(bench, "ending the pool", hearth_pool_destroy(bench->pool));
        pthread_barrier_destroy(&bench->gate);
    }
    end(bench, "ending the context", hearth_context_destroy(bench->context));
    end(bench, "ending the session", hearth_session_destroy(bench->session));
    end(bench, "ending the other session", hearth_session_destroy(bench->once));
    hearth_plan_unref(bench->plan);
    if (bench->service != NULL && hearth_service_live_capacity(bench->service) != 0) {
        scenario_bench_error(bench, "ending the service", "buffers were not returned");
    }
    hearth_service_unref(bench->service);
    hearth_backing_unref(bench->exec_backing);
    hearth_backing_unref(bench->io_backing);
    scenario_audit_fini(&bench->audit);
    scenario_weights_destroy(&bench->weights);
    for (uint32_t i = 0; i < bench->model_count && bench->models != NULL; i++) {
        for (uint32_t variant = 0; variant < SCENARIO_VARIANTS; variant++) {
            scenario_reference_destroy(&bench->models[i].references[variant]);
        }
    }
    prefault_free(bench->models, bench->model_count, sizeof *bench->models);
    prefault_free(bench->held, bench->held_room, sizeof *bench->held);
}
