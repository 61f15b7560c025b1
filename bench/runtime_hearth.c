/* SPDX-License-Identifier: Apache-2.0 */
/* hearth: a session that runs the plan on a context, with a service's arenas; serially or on a pool. */
#include "measure.h"
#include "runtime_cases.h"
#include "runtime_graph.h"

#include <hearth/context.h>
#include <hearth/executor.h>
#include <hearth/kernel.h>
#include <hearth/service.h>
#include <hearth/session.h>

#include <stdint.h>
#include <stdlib.h>

#define CALIBRATION_ROUNDS ((size_t)1 << 20)

struct opened {
    struct graph graph;
    struct hearth_session *session;
    struct hearth_context *context;
    struct hearth_executor executor;
    bool parallel;
};

static unsigned char input[64];
static size_t work_rounds; /* set before the runs start */

void bench_must(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK) {
        bench_die(what, hearth_status_name(status));
    }
}

/* A fixed number of instructions, not a time: a thread that waits for a core does not work. */
static void work(size_t rounds)
{
    uint64_t x = 1;
    for (size_t i = 0; i < rounds; i++) {
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
    }
    *(volatile uint64_t *)&x = x;
}

size_t bench_runtime_calibrate(double ns)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t start = bench_now_ns();
        work(CALIBRATION_ROUNDS);
        double taken = (double)(bench_now_ns() - start);
        best = i == 0 || taken < best ? taken : best;
    }
    return (size_t)(ns * (double)CALIBRATION_ROUNDS / best);
}

static enum hearth_status kernel(struct hearth_context *context, void *user)
{
    const struct graph_node *node = user;
    struct hearth_tensor *tensor;
    return hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT8, &node->shape, &tensor);
}

static enum hearth_status working_kernel(struct hearth_context *context, void *user)
{
    enum hearth_status status = kernel(context, user);
    work(work_rounds);
    return status;
}

void *bench_runtime_open_on(const char *form, size_t nodes, unsigned threads, size_t rounds)
{
    struct hearth_session_options with = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_context_options options = HEARTH_CONTEXT_OPTIONS_INIT;
    struct hearth_shape shape = HEARTH_SHAPE_INIT;
    struct hearth_pool *pool = NULL;
    struct opened *self = calloc(1, sizeof *self);
    if (self == NULL ||
        !bench_graph_build(&self->graph, form, nodes, rounds == 0 ? kernel : working_kernel)) {
        bench_die(form, "no such graph");
    }
    work_rounds = rounds;
    with.plan = self->graph.plan;
    bench_must(hearth_service_create(NULL, &with.service), "service");
    bench_must(hearth_session_create(&with, &self->session), "session");
    options.plan = self->graph.plan;
    bench_must(hearth_context_create(&options, &self->context), "context");
    shape.rank = 1;
    shape.dims[0] = sizeof input;
    bench_must(hearth_context_borrow(self->context, graph_input, input, sizeof input,
                                     HEARTH_DTYPE_UINT8, &shape),
               "input");
    if (threads != 0) {
        self->parallel = true;
        bench_must(hearth_pool_create(threads, &pool), "pool");
        bench_must(hearth_pool_executor(pool, &self->executor), "executor");
    }
    return self;
}

static void *open_serial(const char *form, size_t nodes)
{
    return bench_runtime_open_on(form, nodes, 0, 0);
}

void bench_runtime_run_on(void *opened, size_t count)
{
    struct opened *self = opened;
    for (size_t i = 0; i < count; i++) {
        bench_must(self->parallel
                       ? hearth_session_run_on(self->session, self->context, &self->executor, NULL)
                       : hearth_session_run(self->session, self->context, NULL),
                   "run");
    }
}

const struct bench_runtime_subject bench_runtime_hearth = {"hearth", open_serial,
                                                           bench_runtime_run_on};
