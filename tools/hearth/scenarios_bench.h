/* SPDX-License-Identifier: Apache-2.0 */
/* What one row needs: the graph as a plan of hearth's, a service, a session, and what to compare with. */
#ifndef HEARTH_TOOL_SCENARIOS_BENCH_H
#define HEARTH_TOOL_SCENARIOS_BENCH_H

#include "scenarios.h"
#include "scenarios_audit.h"
#include "scenarios_graph.h"
#include "scenarios_model.h"
#include "scenarios_reference.h"

#include <hearth/backing.h>
#include <hearth/io.h>
#include <hearth/runtime.h>
#include <hearth/service.h>

#include <pthread.h>

#define SCENARIO_MODELS_MAX 3u

struct scenario_bench;

/* A node's kernel finds its work here. Figures: of the thread that runs the node, read between runs. */
struct scenario_op {
    struct scenario_bench *bench;
    uint32_t node;
    uint64_t faults;        /* while it computed */
    uint64_t output_faults; /* while it wrote to new outputs for the first time */
};

/* One size of the graph, with what its runs must give. */
struct scenario_model {
    struct scenario_graph graph;
    struct scenario_expected expected;
    struct scenario_reference references[SCENARIO_VARIANTS];
};

/* What one run cost. */
struct scenario_sample {
    uint64_t run_ns;
    uint64_t copies;
    uint64_t exec_calls; /* to the backings */
    uint64_t io_calls;
    uint64_t exec_created;
    uint64_t io_created;
    uint64_t exec_events; /* page events */
    uint64_t io_events;
    uint64_t faults;
    uint64_t output_faults;
    uint64_t process_faults;
    uint64_t exec_peak;
    uint64_t io_peak;
    uint64_t reused;
    uint64_t remote_deaths;
    uint64_t threads;
    bool wrong_peak;
};

/* An output that is kept. */
struct scenario_held {
    struct hearth_lease lease;
    const float *expected;
    size_t bytes;
    uint64_t sum; /* when it was new */
};

struct scenario_bench {
    const struct scenario_job *job;
    struct scenario_model *models;
    uint32_t model_count;
    const struct scenario_graph *graph; /* of the run that goes on */
    struct scenario_weights weights;
    struct hearth_backing *exec_backing;
    struct hearth_backing *io_backing;
    struct hearth_service *service;
    struct hearth_plan *plan;
    struct hearth_session *session;
    struct hearth_session *once; /* for the run that does not come again; NULL if there is none */
    struct hearth_context *context;
    struct hearth_pool *pool; /* NULL for a serial run */
    struct hearth_executor executor;
    pthread_barrier_t gate; /* where the pool's threads met; there as long as the pool */
    struct scenario_op ops[SCENARIO_NODES_MAX];
    struct scenario_audit audit;
    struct scenario_held *held;
    uint32_t held_count;
    uint32_t held_room;
    uint32_t run; /* of the row so far */
    uint64_t errors;
};

/** Returns false, with a message on stderr, when the row cannot be run here. Destroy it in either case. */
bool scenario_bench_create(struct scenario_bench *bench, const struct scenario_job *job);
void scenario_bench_destroy(struct scenario_bench *bench);

/** Make the bench's plan. The kernels' work is bench->ops. */
bool scenario_bench_make_plan(struct scenario_bench *bench);

/** Count an error, and say on stderr what it is, unless there were many. */
void scenario_bench_error(struct scenario_bench *bench, const char *what, const char *why);

/** Let all threads that may work on a run have what any order of execution needs. */
void scenario_bench_prefill(struct scenario_bench *bench);

/** Run the model of this number once, check its outputs, and release or keep them. `audited`: event by event. */
void scenario_bench_run(struct scenario_bench *bench, uint32_t number, bool audited,
                        struct scenario_sample *sample);

/** Check everything that is kept, and release it. Returns how many outputs are not what they were. */
uint64_t scenario_bench_release_held(struct scenario_bench *bench);

#endif
