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
                         .event = event, .kind = REPLAY_FAILED_ALLOC, .status = status});
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
        fail(worker,
             (struct replay_failure){.event = event, .kind = REPLAY_FAILED_FREE, .status = status});
    }
}

static void check(struct replay_worker *worker, const struct trace_event *event)
{
    const struct replay_job *job = worker->engine->job;
    const struct replay_block *block = &worker->blocks[event->slot];
    struct replay_failure failure = {.event = event, .kind = REPLAY_FAILED_CHECK};
    if (block->data == NULL || event->bytes > job->touch_limit ||
        pattern_check(block->data, event->bytes, job->stride, seed_of(worker, event),
                      &failure.mismatch)) {
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
        pattern_write(worker->blocks[event->slot].data, event->bytes, job->stride,
                      seed_of(worker, event));
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

static void run_segment(struct replay_worker *worker, const struct trace_event *event,
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
    const struct trace *trace = worker->engine->job->trace;
    bool timed = worker->engine->mode == REPLAY_TIME;
    for (uint32_t i = 0; i < trace->segment_count; i++) {
        const struct trace_segment *segment = &trace->segments[i];
        if (segment->thread != worker->trace_thread) {
            continue;
        }
        if (i > 0) {
            wait_for_turn(worker);
        }
        worker->hand_over_ns = 0;
        uint64_t start = timed ? replay_clock_ns() : 0;
        const struct trace_event *first = &trace->events[segment->first];
        run_segment(worker, first, first + segment->count);
        if (timed) {
            uint64_t spent = replay_clock_ns() - start;
            uint64_t cost = worker->engine->clock_cost_ns + worker->hand_over_ns;
            sample->op_ns += spent > cost ? spent - cost : 0;
        }
        if (i + 1 < trace->segment_count) {
            sem_post(&worker->turns[trace->segments[i + 1].thread]);
        } else if (hands_over(worker)) {
            replay_outlet_end_pass(worker->engine, worker->clone);
        }
    }
}

static struct replay_exec_figures read_exec(const struct replay_worker *worker)
{
    const struct replay_allocator *allocator = worker->engine->job->allocator;
    struct replay_exec_figures figures = {0};
    if (allocator->has_arenas) {
        allocator->ops->exec_figures(&worker->lane, &figures);
    }
    return figures;
}

/* What was counted between two readings is added; the rest is as it stands. */
static void add_exec(struct replay_exec_figures *sum, const struct replay_exec_figures *start,
                     const struct replay_exec_figures *end)
{
    struct replay_exec_figures before = *sum;
    *sum = *end;
    sum->created = before.created + end->created - start->created;
    sum->allocs = before.allocs + end->allocs - start->allocs;
    sum->plan_hits = before.plan_hits + end->plan_hits - start->plan_hits;
    sum->plan_misses = before.plan_misses + end->plan_misses - start->plan_misses;
    sum->plan_blocked = before.plan_blocked + end->plan_blocked - start->plan_blocked;
    sum->plans_made = before.plans_made + end->plans_made - start->plans_made;
}

static void measure_pass(struct replay_worker *worker)
{
    struct replay_sample *sample = &worker->samples[worker->engine->pass];
    uint64_t calls = worker->lane.backing_calls;
    struct replay_exec_figures start = read_exec(worker);
    uint64_t faults = replay_thread_faults();
    sample->start_ns = replay_clock_ns();
    run_pass(worker, sample);
    sample->end_ns = replay_clock_ns();
    sample->faults = replay_thread_faults() - faults;
    struct replay_exec_figures end = read_exec(worker);
    add_exec(&sample->exec, &start, &end);
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
    worker->begin_status = allocator->ops->thread_begin(allocator, &worker->lane);
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
    worker->end_status = allocator->ops->thread_end(allocator, &worker->lane);
    return NULL;
}
