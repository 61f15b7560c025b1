/* SPDX-License-Identifier: Apache-2.0 */
/* The controlling side of a measurement: makes the workers, leads them through the passes. */
#include "replay_engine.h"

#include "prefault.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool allocate(struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    size_t workers = engine->worker_count;
    size_t samples = workers * engine->pass_count;
    engine->workers = prefault_alloc(workers, sizeof *engine->workers);
    engine->turns = prefault_alloc(workers, sizeof *engine->turns);
    engine->samples = prefault_alloc(samples, sizeof *engine->samples);
    engine->blocks =
        prefault_alloc((size_t)job->clones * engine->slot_count, sizeof *engine->blocks);
    engine->event_counts = prefault_alloc(engine->pass_count, sizeof *engine->event_counts);
    if (job->faults.rate > 0) {
        engine->injector = replay_injector_create(job->trace, &job->faults);
    }
    engine->snapshots = prefault_alloc(engine->pass_count + 1, sizeof *engine->snapshots);
    engine->op_times = prefault_alloc((size_t)job->clones * job->runs, sizeof *engine->op_times);
    return replay_consumers_create(engine) && engine->workers != NULL && engine->turns != NULL &&
           engine->samples != NULL && engine->blocks != NULL && engine->snapshots != NULL &&
           engine->op_times != NULL && engine->event_counts != NULL &&
           (job->faults.rate == 0 || engine->injector != NULL);
}

static void deallocate(struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    size_t workers = engine->worker_count;
    replay_consumers_destroy(engine);
    prefault_free(engine->workers, workers, sizeof *engine->workers);
    prefault_free(engine->turns, workers, sizeof *engine->turns);
    prefault_free(engine->samples, workers * engine->pass_count, sizeof *engine->samples);
    prefault_free(engine->blocks, (size_t)job->clones * engine->slot_count, sizeof *engine->blocks);
    prefault_free(engine->event_counts, engine->pass_count, sizeof *engine->event_counts);
    replay_injector_destroy(engine->injector);
    prefault_free(engine->snapshots, engine->pass_count + 1, sizeof *engine->snapshots);
    prefault_free(engine->op_times, (size_t)job->clones * job->runs, sizeof *engine->op_times);
}

static void init_workers(struct replay_engine *engine)
{
    const struct trace *trace = engine->job->trace;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        struct replay_worker *worker = &engine->workers[i];
        uint32_t clone = i / trace->thread_count;
        worker->engine = engine;
        worker->lane.allocator = engine->job->allocator;
        worker->clone = clone;
        worker->trace_thread = (uint16_t)(i % trace->thread_count);
        worker->blocks = engine->blocks + (size_t)clone * engine->slot_count;
        worker->turns = engine->turns + (size_t)clone * trace->thread_count;
        worker->samples = engine->samples + (size_t)i * engine->pass_count;
        sem_init(&engine->turns[i], 0, 0);
    }
}

static void init_gates(struct replay_engine *engine)
{
    pthread_barrier_init(&engine->pass_gate, NULL,
                         engine->worker_count + engine->job->consumers + 1);
    pthread_barrier_init(&engine->clone_gate, NULL, engine->job->clones);
    pthread_mutex_init(&engine->start_lock, NULL);
    pthread_cond_init(&engine->start_changed, NULL);
}

static void destroy_gates(struct replay_engine *engine)
{
    pthread_barrier_destroy(&engine->pass_gate);
    pthread_barrier_destroy(&engine->clone_gate);
    pthread_mutex_destroy(&engine->start_lock);
    pthread_cond_destroy(&engine->start_changed);
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sem_destroy(&engine->turns[i]);
    }
}

/* The least of many readings: what the clock itself adds to a timed segment. */
static uint64_t clock_cost(void)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t start = replay_clock_ns();
        uint64_t spent = replay_clock_ns() - start;
        least = spent < least ? spent : least;
    }
    return least;
}

/* Starts all threads; when one cannot be started, none gets past the gate. Returns 0 or an
 * errno. */
static int start_threads(struct replay_engine *engine)
{
    int error = 0;
    for (uint32_t i = 0; i < engine->worker_count && error == 0; i++) {
        struct replay_worker *worker = &engine->workers[i];
        error = pthread_create(&worker->thread, NULL, replay_worker_main, worker);
        worker->started = error == 0;
    }
    for (uint32_t i = 0; i < engine->job->consumers && error == 0; i++) {
        struct replay_consumer *consumer = &engine->consumers[i];
        error = pthread_create(&consumer->thread, NULL, replay_consumer_main, consumer);
        consumer->started = error == 0;
    }
    pthread_mutex_lock(&engine->start_lock);
    engine->start = error == 0 ? REPLAY_START_GO : REPLAY_START_ABORT;
    pthread_cond_broadcast(&engine->start_changed);
    pthread_mutex_unlock(&engine->start_lock);
    return error;
}

static void join_threads(struct replay_engine *engine)
{
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        if (engine->consumers[i].started) {
            pthread_join(engine->consumers[i].thread, NULL);
        }
    }
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        if (engine->workers[i].started) {
            pthread_join(engine->workers[i].thread, NULL);
        }
    }
}

static enum replay_mode mode_of(const struct replay_job *job, uint32_t pass)
{
    if (pass < replay_first_timed(job)) {
        return REPLAY_TOUCH;
    }
    return pass < replay_sampling(job) ? REPLAY_TIME : REPLAY_SAMPLE;
}

static void show_progress(const struct replay_engine *engine, uint32_t pass)
{
    char name[64];
    if (!engine->job->progress) {
        return;
    }
    if (pass == engine->pass_count) {
        fprintf(stderr, "\r\033[K");
        return;
    }
    trace_name(engine->job->trace, name, sizeof name);
    fprintf(stderr, "\r\033[K%s, %s, %" PRIu32 " side by side: pass %" PRIu32 " of %" PRIu32, name,
            engine->job->allocator->name, engine->job->clones, pass + 1, engine->pass_count);
}

static void run_pass(struct replay_engine *engine, enum replay_mode mode, uint32_t pass)
{
    engine->pass = pass;
    engine->mode = mode;
    pthread_barrier_wait(&engine->pass_gate);
    pthread_barrier_wait(&engine->pass_gate);
}

static void begin_measuring(struct replay_engine *engine)
{
    struct replay_allocator *allocator = engine->job->allocator;
    if (allocator->has_arenas) {
        allocator->ops->forget_peak(allocator);
    }
    replay_footprint_restart(engine);
}

/* What the clones replay in this pass. False: no memory. */
static bool choose_trace(struct replay_engine *engine, uint32_t pass)
{
    const struct replay_job *job = engine->job;
    uint64_t made = 0;
    if (engine->injector != NULL && pass >= replay_first_measured(job)) {
        engine->trace = replay_inject(engine->injector, pass + 1 == engine->pass_count, &made);
        engine->faults_injected += pass < replay_first_timed(job) ? made : 0;
    }
    if (engine->trace == NULL) {
        return false;
    }
    engine->event_counts[pass] = engine->trace->event_count;
    return true;
}

static bool run_passes(struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    for (uint32_t pass = 0; pass < engine->pass_count; pass++) {
        show_progress(engine, pass);
        if (!choose_trace(engine, pass)) {
            return false;
        }
        if (pass == replay_first_measured(job)) {
            begin_measuring(engine);
        }
        run_pass(engine, mode_of(job, pass), pass);
        replay_footprint_snapshot(engine, pass + 1);
        if (pass + 1 == replay_first_timed(job)) {
            replay_footprint_touched(engine);
        }
    }
    show_progress(engine, engine->pass_count);
    return true;
}

/* Whether every worker has its arenas. */
static bool all_began(const struct replay_engine *engine, char message[REPLAY_MESSAGE_BYTES])
{
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        enum hearth_status status = engine->workers[i].begin_status;
        if (status != HEARTH_OK) {
            snprintf(message, REPLAY_MESSAGE_BYTES, "cannot create an arena: %s (%s)",
                     hearth_status_name(status), hearth_status_text(status));
            return false;
        }
    }
    return true;
}

static bool control(struct replay_engine *engine, char message[REPLAY_MESSAGE_BYTES])
{
    replay_footprint_begin(engine);
    engine->clock_cost_ns = clock_cost();
    int error = start_threads(engine);
    if (error != 0) {
        join_threads(engine);
        snprintf(message, REPLAY_MESSAGE_BYTES, "--threads: cannot start %" PRIu32 " threads: %s",
                 engine->worker_count + engine->job->consumers, strerror(error));
        return false;
    }
    pthread_barrier_wait(&engine->pass_gate);
    bool ok = all_began(engine, message);
    if (ok) {
        run_pass(engine, REPLAY_RESERVE, 0);
        replay_footprint_snapshot(engine, 0); /* Creating arenas is no part of the first pass. */
        ok = run_passes(engine);
        if (!ok) {
            snprintf(message, REPLAY_MESSAGE_BYTES, "no memory for a trace with faults");
        }
    }
    engine->mode = REPLAY_QUIT;
    pthread_barrier_wait(&engine->pass_gate);
    join_threads(engine);
    return ok;
}

bool replay_run(const struct replay_job *job, struct replay_result *result,
                char message[REPLAY_MESSAGE_BYTES])
{
    struct replay_engine engine = {
        .job = job,
        .trace = job->trace,
        .slot_count =
            job->faults.rate > 0 ? replay_injected_slots(job->trace) : job->trace->slot_count,
        .worker_count = job->clones * job->trace->thread_count,
        .pass_count = replay_sampling(job) + 1,
    };
    if (!allocate(&engine)) {
        deallocate(&engine);
        snprintf(message, REPLAY_MESSAGE_BYTES,
                 "no memory for the samples of %" PRIu32 " passes: lower --runs, --warmup, "
                 "--threads or --hold",
                 engine.pass_count);
        return false;
    }
    init_workers(&engine);
    init_gates(&engine);
    bool ok = control(&engine, message);
    if (ok) {
        replay_evaluate(&engine, result);
        replay_explain(&engine);
    }
    destroy_gates(&engine);
    deallocate(&engine);
    return ok;
}
