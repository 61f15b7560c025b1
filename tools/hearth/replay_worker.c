/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replaying thread. Nothing here allocates, prints or makes a system call inside a pass but what
 * the allocator under test does, the hand-over between trace threads, and the readings at both
 * ends.
 */
#include "prefault.h"
#include "replay_engine.h"

#include "mix.h"
#include "replay_reserve.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

uint64_t replay_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t replay_thread_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)usage.ru_minflt;
}

/* To be explained when nothing is measured. */
static void fail(struct replay_worker *worker, struct replay_failure failure)
{
    failure.pass = worker->engine->pass;
    failure.clone = worker->clone;
    replay_log_add(&worker->log, &failure);
}

/* A buffer's marks depend on everything that tells it from another, so that neither another clone's
 * nor an earlier pass's content passes for its own. */
static uint64_t seed_of(const struct replay_worker *worker, const struct trace_event *event)
{
    return mix64(event->id ^ mix64(((uint64_t)worker->engine->pass << 32) | worker->clone));
}

static bool hands_over(const struct replay_worker *worker)
{
    return worker->engine->job->consumers > 0;
}

/* What the tool does between the clone and its consumers is not the allocator's time. */
static uint64_t hand_over_start(const struct replay_worker *worker)
{
    return worker->engine->mode == REPLAY_TIME ? replay_clock_ns() : 0;
}

static void hand_over_stop(struct replay_worker *worker, uint64_t start)
{
    if (worker->engine->mode == REPLAY_TIME) {
        worker->hand_over_ns += replay_clock_ns() - start + worker->engine->clock_cost_ns;
    }
}

static void settle(struct replay_worker *worker)
{
    uint64_t start = hand_over_start(worker);
    replay_outlet_settle(worker->engine, worker->clone);
    hand_over_stop(worker, start);
}

static void hand_over(struct replay_worker *worker, const struct trace_event *event,
                      const struct replay_block *block)
{
    const struct replay_engine *engine = worker->engine;
    uint64_t start = hand_over_start(worker);
    struct replay_output output = {
        .block = *block,
        .event = event,
        .seed = seed_of(worker, event),
        .clone = worker->clone,
        .pass = engine->pass,
        .written = engine->mode == REPLAY_TOUCH && event->bytes <= engine->job->touch_limit,
    };
    replay_outlet_send(worker->engine, &output);
    hand_over_stop(worker, start);
}

static void end_run(struct replay_worker *worker)
{
    uint64_t start = hand_over_start(worker);
    replay_outlet_end_run(worker->engine, worker->clone);
    hand_over_stop(worker, start);
}

static bool take(struct replay_worker *worker, const struct trace_event *event)
{
    struct replay_block *block = &worker->blocks[event->slot];
    const struct replay_allocator_ops *ops = worker->engine->job->allocator->ops;
    if (event->exported && hands_over(worker)) {
        settle(worker);
    }
    enum hearth_status status = ops->alloc(&worker->lane, event->bytes, event->exported, block);
    if (status != HEARTH_OK) {
        block->data = NULL;
        fail(worker, (struct replay_failure){
                         .event = *event, .kind = REPLAY_FAILED_ALLOC, .status = status});
        return false;
    }
    return true;
}

static void give(struct replay_worker *worker, const struct trace_event *event)
{
    struct replay_block *block = &worker->blocks[event->slot];
    const struct replay_allocator_ops *ops = worker->engine->job->allocator->ops;
    if (block->data == NULL) {
        return; /* Its alloc failed and was counted. */
    }
    if (event->exported && hands_over(worker)) {
        hand_over(worker, event, block);
        block->data = NULL;
        return;
    }
    enum hearth_status status = ops->free(&worker->lane, block);
    block->data = NULL;
    if (status != HEARTH_OK) {
        fail(worker, (struct replay_failure){
                         .event = *event, .kind = REPLAY_FAILED_FREE, .status = status});
    }
}

static void check(struct replay_worker *worker, const struct trace_event *event)
{
    const struct replay_job *job = worker->engine->job;
    const struct replay_block *block = &worker->blocks[event->slot];
    struct replay_failure failure = {.event = *event, .kind = REPLAY_FAILED_CHECK};
    if (block->data == NULL || event->bytes > job->touch_limit ||
        pattern_check(block->data, event->bytes, job->stride, block->seed, &failure.mismatch)) {
        return;
    }
    fail(worker, failure);
}

static void touch_event(struct replay_worker *worker, const struct trace_event *event)
{
    const struct replay_job *job = worker->engine->job;
    if (event->op == TRACE_FREE) {
        check(worker, event);
        give(worker, event);
    } else if (take(worker, event) && event->bytes <= job->touch_limit) {
        struct replay_block *block = &worker->blocks[event->slot];
        block->seed = seed_of(worker, event);
        pattern_write(block->data, event->bytes, job->stride, block->seed);
    }
    if (event->run_last && hands_over(worker)) {
        end_run(worker);
    }
}

static void plain_event(struct replay_worker *worker, const struct trace_event *event)
{
    if (event->op == TRACE_FREE) {
        give(worker, event);
    } else {
        (void)take(worker, event);
    }
    if (event->run_last && hands_over(worker)) {
        end_run(worker);
    }
}

/* All clones stand at the same run's peak, or end, at the same moment, so one reading sees them all
 * there. */
static void sample(struct replay_worker *worker)
{
    struct replay_engine *engine = worker->engine;
    pthread_barrier_wait(&engine->clone_gate);
    if (worker->clone == 0) {
        replay_footprint_sample(engine);
    }
    pthread_barrier_wait(&engine->clone_gate);
}

static void run_events(struct replay_worker *worker, const struct trace_event *event,
                       const struct trace_event *end)
{
    switch (worker->engine->mode) {
    case REPLAY_TOUCH:
        for (; event < end; event++) {
            touch_event(worker, event);
        }
        return;
    case REPLAY_TIME:
        for (; event < end; event++) {
            plain_event(worker, event);
        }
        return;
    case REPLAY_SAMPLE:
        for (; event < end; event++) {
            plain_event(worker, event);
            if (event->run_peak || event->run_last) {
                sample(worker);
            }
        }
        return;
    case REPLAY_RESERVE:
    case REPLAY_QUIT:
        return;
    }
}

/* Calls that some allocators do not have. */
static void tell(struct replay_worker *worker, const struct trace_event *event,
                 enum hearth_status (*call)(struct replay_lane *lane))
{
    enum hearth_status status = call != NULL ? call(&worker->lane) : HEARTH_OK;
    if (status != HEARTH_OK) {
        fail(worker, (struct replay_failure){
                         .event = *event, .kind = REPLAY_FAILED_TELL, .status = status});
    }
}

/* A thread that is not there for a run's end has it ended by the next run's begin. */
static void run_told(struct replay_worker *worker, const struct trace_event *event,
                     const struct trace_event *end)
{
    const struct replay_allocator_ops *ops = worker->engine->job->allocator->ops;
    while (event < end) {
        const struct trace_event *stop = event;
        while (stop < end && stop->run == event->run) {
            stop++;
        }
        uint64_t run = ((uint64_t)worker->engine->pass << 32) + event->run + 1;
        if (worker->run_told != run) {
            worker->run_told = run;
            tell(worker, event, ops->run_begin);
        }
        run_events(worker, event, stop);
        if (stop[-1].run_last) {
            tell(worker, stop - 1, ops->run_end);
        }
        event = stop;
    }
}

void replay_run_segment(struct replay_worker *worker, struct replay_sample *sample,
                        const struct trace_event *first, const struct trace_event *end)
{
    bool timed = worker->engine->mode == REPLAY_TIME;
    worker->hand_over_ns = 0;
    uint64_t start = timed ? replay_clock_ns() : 0;
    if (worker->engine->job->tell_runs) {
        run_told(worker, first, end);
    } else {
        run_events(worker, first, end);
    }
    if (timed) {
        uint64_t spent = replay_clock_ns() - start;
        uint64_t cost = worker->engine->clock_cost_ns + worker->hand_over_ns;
        sample->op_ns += spent > cost ? spent - cost : 0;
    }
}

static void wait_for_turn(struct replay_worker *worker)
{
    while (sem_wait(&worker->turns[worker->trace_thread]) != 0 && errno == EINTR) {
    }
}

/* Replays this thread's segments of the trace, each when the one before it is done. Consecutive
 * segments are on different threads, so each ends in a hand-over, and a pass leaves no turn
 * behind. */
static void run_pass(struct replay_worker *worker, struct replay_sample *sample)
{
    const struct trace *trace = worker->engine->trace;
    bool fresh = worker->engine->job->fresh_threads;
    for (uint32_t i = 0; i < trace->segment_count; i++) {
        const struct trace_segment *segment = &trace->segments[i];
        if (segment->thread != worker->trace_thread) {
            continue;
        }
        if (i > 0) {
            wait_for_turn(worker);
        }
        const struct trace_event *first = &trace->events[segment->first];
        if (fresh) {
            replay_run_fresh(worker, sample, first, first + segment->count);
        } else {
            replay_run_segment(worker, sample, first, first + segment->count);
        }
        if (i + 1 < trace->segment_count) {
            sem_post(&worker->turns[trace->segments[i + 1].thread]);
        } else if (hands_over(worker)) {
            replay_outlet_end_pass(worker->engine, worker->clone);
        }
    }
}

static void measure_pass(struct replay_worker *worker)
{
    struct replay_sample *sample = &worker->samples[worker->engine->pass];
    uint64_t calls = worker->lane.backing_calls;
    bool fresh = worker->engine->job->fresh_threads; /* Then each tells of itself. */
    struct replay_exec_figures start = replay_read_exec(worker);
    uint64_t faults = replay_thread_faults();
    sample->start_ns = replay_clock_ns();
    run_pass(worker, sample);
    sample->end_ns = replay_clock_ns();
    if (!fresh) {
        sample->faults = replay_thread_faults() - faults;
        struct replay_exec_figures end = replay_read_exec(worker);
        replay_add_exec(&sample->exec, &start, &end);
    }
    sample->backing_calls = worker->lane.backing_calls - calls;
}

bool replay_wait_for_start(struct replay_engine *engine)
{
    pthread_mutex_lock(&engine->start_lock);
    while (engine->start == REPLAY_START_WAIT) {
        pthread_cond_wait(&engine->start_changed, &engine->start_lock);
    }
    bool go = engine->start == REPLAY_START_GO;
    pthread_mutex_unlock(&engine->start_lock);
    return go;
}

void *replay_worker_main(void *argument)
{
    struct replay_worker *worker = argument;
    struct replay_engine *engine = worker->engine;
    struct replay_allocator *allocator = engine->job->allocator;
    prefault_stack();
    if (!replay_wait_for_start(engine)) {
        return NULL;
    }
    bool fresh = engine->job->fresh_threads;
    if (!fresh) {
        worker->begin_status = allocator->ops->thread_begin(allocator, &worker->lane);
    }
    pthread_barrier_wait(&engine->pass_gate); /* The controller looks at begin_status. */
    for (;;) {
        pthread_barrier_wait(&engine->pass_gate);
        if (engine->mode == REPLAY_QUIT) {
            break;
        }
        if (engine->mode == REPLAY_RESERVE) {
            replay_reserve(worker);
        }
        measure_pass(worker);
        pthread_barrier_wait(&engine->pass_gate);
    }
    if (!fresh) {
        worker->end_status = allocator->ops->thread_end(allocator, &worker->lane);
    }
    return NULL;
}
