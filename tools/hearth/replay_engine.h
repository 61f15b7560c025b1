/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine behind replay_run(): shared by its control side (replay_engine.c), the replaying
 * threads (replay_worker.c), the consumers (replay_consumer.c) and the evaluation
 * (replay_result.c).
 *
 * One controlling thread, clones x trace threads workers and the consumers meet at a barrier before
 * and after each pass. Between passes only the controller runs; that is when it reads process-wide
 * figures. During a pass each worker writes only its own sample and its own clone's blocks, and
 * within a clone one worker runs at a time: segments hand over through semaphores.
 */
#ifndef HEARTH_TOOL_REPLAY_ENGINE_H
#define HEARTH_TOOL_REPLAY_ENGINE_H

#include "pattern.h"
#include "replay.h"
#include "replay_consumer.h"
#include "replay_footprint.h"
#include "replay_log.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdalign.h>

/* What a pass does with the buffers, and so what it can measure. */
enum replay_mode {
    REPLAY_RESERVE, /* Once, before the first pass: see replay_reserve.h. */
    REPLAY_TOUCH,   /* Write and check: faults, calls, time per run. */
    REPLAY_TIME,    /* Leave them alone: time inside alloc and free. */
    REPLAY_SAMPLE,  /* As TIME, and all clones wait for each other at each run's peak: footprint. */
    REPLAY_QUIT,
};

/* What one worker measured in one pass. */
struct replay_sample {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t faults;
    uint64_t backing_calls;
    uint64_t op_ns; /* TIME passes: time spent in segments, hand-overs to consumers left out. */
    struct replay_exec_figures exec; /* Counts are those of the pass. */
};

/* A cache line each, and two for the neighbour prefetcher: workers write their own only. */
struct replay_worker {
    alignas(128) struct replay_engine *engine;
    struct replay_block *blocks;   /* The clone's, by slot. */
    sem_t *turns;                  /* The clone's, by trace thread: its next segment may start. */
    struct replay_sample *samples; /* By pass. */
    struct replay_lane lane;
    struct replay_log log;
    size_t reserved; /* Buffers taken and returned before the first pass. */
    uint64_t reserve_errors;
    uint64_t hand_over_ns; /* Of the present segment. */
    uint64_t run_told;     /* Whose begin was told last; of all passes. */
    pthread_t thread;
    uint32_t clone;
    uint16_t trace_thread;
    bool started;
    enum hearth_status begin_status;
    enum hearth_status end_status;
};

struct replay_engine {
    const struct replay_job *job;
    struct replay_worker *workers; /* clones x trace threads, clone by clone. */
    struct replay_block *blocks;
    struct replay_sample *samples;
    sem_t *turns;
    struct replay_consumer *consumers; /* NULL without. */
    struct replay_outlet *outlets;     /* By clone; NULL without consumers. */
    struct replay_snapshot *snapshots; /* Before each pass, and one after the last. */
    struct replay_injector *injector;  /* NULL without faults. */
    uint32_t *event_counts;            /* By pass. */
    uint64_t *op_times;                /* Room for the evaluation's median. */
    uint64_t clock_cost_ns;            /* What two readings of the clock cost. */
    /* Writer: clone 0 between two waits at clone_gate; the controller. */
    struct replay_footprint footprint;
    uint32_t slot_count; /* Of one clone. */
    uint32_t worker_count;
    uint32_t pass_count;
    pthread_barrier_t pass_gate;  /* All workers, all consumers and the controller. */
    pthread_barrier_t clone_gate; /* One worker of each clone: at peaks, and in the reserve. */
    /* Lets the workers go to the first barrier only once all of them exist. */
    pthread_mutex_t start_lock;
    pthread_cond_t start_changed;
    enum { REPLAY_START_WAIT, REPLAY_START_GO, REPLAY_START_ABORT } start; /* Guard: start_lock. */
    /* Writer: the controller between passes. */
    const struct trace *trace; /* Of the pass. */
    enum replay_mode mode;
    uint32_t pass;
    uint64_t faults_injected;
};

/** Passes are numbered: warm-up, measured, timed, and the sampling pass at the end. */
static inline uint32_t replay_first_measured(const struct replay_job *job)
{
    return job->warmup;
}

static inline uint32_t replay_first_timed(const struct replay_job *job)
{
    return job->warmup + job->runs;
}

static inline uint32_t replay_sampling(const struct replay_job *job)
{
    return job->warmup + 2 * job->runs;
}

uint64_t replay_clock_ns(void);

/** Minor faults of the calling thread so far. */
uint64_t replay_thread_faults(void);

/** Wait until all threads exist. False: one could not be started, and all have to end. */
bool replay_wait_for_start(struct replay_engine *engine);

/** Body of a worker's thread; the argument is its struct replay_worker. */
void *replay_worker_main(void *argument);

/** Run a segment of the pass, or a part of it. */
void replay_run_segment(struct replay_worker *worker, struct replay_sample *sample,
                        const struct trace_event *first, const struct trace_event *end);

/** The same with a new thread for each run, which begins and ends as a thread of the allocator. */
void replay_run_fresh(struct replay_worker *worker, struct replay_sample *sample,
                      const struct trace_event *first, const struct trace_event *end);

/** What the worker's arena tells; 0 where it has none. Thread: any, while the arena is there. */
struct replay_exec_figures replay_read_exec(const struct replay_worker *worker);

/** Add what was counted between two readings; the rest is as it stands. */
void replay_add_exec(struct replay_exec_figures *sum, const struct replay_exec_figures *start,
                     const struct replay_exec_figures *end);

/** Turn the samples into figures, once all workers are gone. */
void replay_evaluate(const struct replay_engine *engine, struct replay_result *result);

/** The part of it that is about plans. */
struct replay_plans replay_evaluate_plans(const struct replay_engine *engine);

/** All errors that were found. */
uint64_t replay_count_errors(const struct replay_engine *engine);

/** Explain the first few failures on stderr. */
void replay_explain(const struct replay_engine *engine);

#endif
