/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executors written by hand, as a program has them without a runtime: the plan's order, one call of a kernel per
 * node, storage at the output, freed at the last use; declared outputs are freed when the next run begins. Once on
 * malloc, once on the arenas of a service, so that what the runtime adds is the difference.
 */
#include "measure.h"
#include "runtime_cases.h"
#include "runtime_graph.h"

#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/service.h>

#include <stdint.h>
#include <stdlib.h>

struct loop;

struct loop_node {
    enum hearth_status (*kernel)(struct loop *loop, const struct loop_node *node);
    void **output;
    size_t bytes;
    size_t first_death; /* of loop->deaths */
    size_t death_count;
};

struct loop {
    struct graph graph;
    struct loop_node nodes[GRAPH_NODES_MAX]; /* by step */
    void *values[GRAPH_NODES_MAX];           /* by node */
    void **deaths[GRAPH_NODES_MAX];
    void **declared[GRAPH_NODES_MAX];
    size_t declared_count;
    struct hearth_service *service;
    struct hearth_exec *exec;
    struct hearth_io *io;
};

static enum hearth_status no_kernel(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_INVALID;
}

static enum hearth_status malloc_kernel(struct loop *loop, const struct loop_node *node)
{
    (void)loop;
    *node->output = malloc(node->bytes);
    return *node->output == NULL ? HEARTH_NO_MEMORY : HEARTH_OK;
}

static enum hearth_status exec_kernel(struct loop *loop, const struct loop_node *node)
{
    return hearth_exec_alloc(loop->exec, node->bytes, (struct hearth_buf **)node->output);
}

static enum hearth_status io_kernel(struct loop *loop, const struct loop_node *node)
{
    return hearth_io_alloc(loop->io, node->bytes, (struct hearth_buf **)node->output);
}

static void find_deaths(struct loop *self, struct loop_node *node, size_t number, size_t *next)
{
    node->first_death = *next;
    for (size_t i = 0; i < self->graph.count; i++) {
        if (hearth_plan_last_use(self->graph.plan, self->graph.nodes[i].name) == number) {
            self->deaths[(*next)++] = &self->values[i];
        }
    }
    node->death_count = *next - node->first_death;
}

static struct loop *open_loop(const char *form, size_t nodes)
{
    size_t next = 0;
    struct loop *self = calloc(1, sizeof *self);
    if (self == NULL || !bench_graph_build(&self->graph, form, nodes, no_kernel)) {
        bench_die(form, "no such graph");
    }
    for (size_t step = 0; step < nodes; step++) {
        size_t number = hearth_plan_node_at(self->graph.plan, step);
        struct loop_node *node = &self->nodes[step];
        node->bytes = self->graph.nodes[number].bytes;
        node->output = &self->values[number];
        node->kernel = malloc_kernel;
        find_deaths(self, node, number, &next);
        if (self->graph.nodes[number].declared) {
            self->declared[self->declared_count++] = node->output;
        }
    }
    return self;
}

static void *open_malloc(const char *form, size_t nodes)
{
    return open_loop(form, nodes);
}

static void *open_arena(const char *form, size_t nodes)
{
    struct loop *self = open_loop(form, nodes);
    bench_must(hearth_service_create(NULL, &self->service), "service");
    bench_must(hearth_service_exec(self->service, &self->exec), "arena");
    self->io = hearth_service_io(self->service);
    for (size_t step = 0; step < nodes; step++) {
        size_t number = hearth_plan_node_at(self->graph.plan, step);
        self->nodes[step].kernel = self->graph.nodes[number].declared ? io_kernel : exec_kernel;
    }
    return self;
}

static void run_malloc_once(struct loop *self)
{
    for (size_t i = 0; i < self->declared_count; i++) {
        free(*self->declared[i]);
    }
    for (size_t step = 0; step < self->graph.count; step++) {
        const struct loop_node *node = &self->nodes[step];
        bench_must(node->kernel(self, node), "kernel");
        for (size_t i = 0; i < node->death_count; i++) {
            free(*self->deaths[node->first_death + i]);
        }
    }
}

static void run_arena_once(struct loop *self)
{
    for (size_t i = 0; i < self->declared_count; i++) {
        if (*self->declared[i] != NULL) {
            bench_must(hearth_io_free(self->io, *self->declared[i]), "free");
        }
    }
    for (size_t step = 0; step < self->graph.count; step++) {
        const struct loop_node *node = &self->nodes[step];
        bench_must(node->kernel(self, node), "kernel");
        for (size_t i = 0; i < node->death_count; i++) {
            bench_must(hearth_exec_free(self->exec, *self->deaths[node->first_death + i]), "free");
        }
    }
    bench_must(hearth_service_end_run(self->service), "end of a run");
}

static void run_malloc(void *opened, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        run_malloc_once(opened);
    }
}

static void run_arena(void *opened, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        run_arena_once(opened);
    }
}

const struct bench_runtime_subject bench_runtime_malloc_loop = {"malloc", open_malloc, run_malloc};
const struct bench_runtime_subject bench_runtime_arena_loop = {"loop", open_arena, run_arena};
