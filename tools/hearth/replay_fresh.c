/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A new thread for each run, as engines that are called from thread pools, or that start a thread for each
 * request, have it. What a thread costs itself (its stack, its first look at the allocator) is not counted: faults
 * are those between its first operation and its last.
 */
#include "prefault.h"
#include "replay_engine.h"

struct fresh_run {
    struct replay_worker *worker;
    struct replay_sample *sample;
    const struct trace_event *first;
    const struct trace_event *end;
};

static void measure(const struct fresh_run *run)
{
    struct replay_exec_figures start = replay_read_exec(run->worker);
    uint64_t faults = replay_thread_faults();
    replay_run_segment(run->worker, run->sample, run->first, run->end);
    run->sample->faults += replay_thread_faults() - faults;
    struct replay_exec_figures end = replay_read_exec(run->worker);
    replay_add_exec(&run->sample->exec, &start, &end);
}

static void *fresh_main(void *argument)
{
    const struct fresh_run *run = argument;
    struct replay_worker *worker = run->worker;
    struct replay_allocator *allocator = worker->engine->job->allocator;
    prefault_stack();
    enum hearth_status begin = allocator->ops->thread_begin(allocator, &worker->lane);
    if (begin == HEARTH_OK) {
        measure(run);
    }
    enum hearth_status end = allocator->ops->thread_end(allocator, &worker->lane);
    if (worker->end_status == HEARTH_OK) {
        worker->end_status = begin != HEARTH_OK ? begin : end;
    }
    run->sample->exec.footprint = 0; /* The arena is gone. */
    return NULL;
}

void replay_run_fresh(struct replay_worker *worker, struct replay_sample *sample,
                      const struct trace_event *first, const struct trace_event *end)
{
    struct fresh_run run = {.worker = worker, .sample = sample, .end = first};
    while (run.end < end) {
        pthread_t thread;
        run.first = run.end;
        while (run.end < end && run.end->run == run.first->run) {
            run.end++;
        }
        if (pthread_create(&thread, NULL, fresh_main, &run) != 0) {
            worker->end_status = HEARTH_NO_MEMORY;
            return;
        }
        pthread_join(thread, NULL);
    }
}
