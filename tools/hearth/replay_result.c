/* SPDX-License-Identifier: Apache-2.0 */
/* From samples to figures. */
#include "replay_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Failures explained per measurement. */
#define EXPLAINED 6u

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double median(uint64_t *values, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof *values, compare);
    size_t low = (count - 1) / 2;
    size_t high = count / 2;
    return ((double)values[low] + (double)values[high]) / 2;
}

static uint64_t pass_faults(const struct replay_engine *engine, uint32_t pass)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sum += engine->workers[i].samples[pass].faults;
    }
    return sum;
}

static uint64_t pass_backing_calls(const struct replay_engine *engine, uint32_t pass)
{
    uint64_t sum =
        engine->snapshots[pass + 1].backing_calls - engine->snapshots[pass].backing_calls;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sum += engine->workers[i].samples[pass].backing_calls;
    }
    return sum;
}

/* A clone's pass lasts from its first thread's start to its last thread's end. */
static uint64_t clone_ns(const struct replay_engine *engine, uint32_t clone, uint32_t pass)
{
    uint32_t threads = engine->job->trace->thread_count;
    uint64_t start = UINT64_MAX;
    uint64_t end = 0;
    for (uint32_t i = clone * threads; i < (clone + 1) * threads; i++) {
        const struct replay_sample *sample = &engine->workers[i].samples[pass];
        start = sample->start_ns < start ? sample->start_ns : start;
        end = sample->end_ns > end ? sample->end_ns : end;
    }
    return end - start;
}

static uint64_t slowest_ns(const struct replay_engine *engine, uint32_t pass)
{
    uint64_t slowest = 0;
    for (uint32_t clone = 0; clone < engine->job->clones; clone++) {
        uint64_t spent = clone_ns(engine, clone, pass);
        slowest = spent > slowest ? spent : slowest;
    }
    return slowest;
}

static double ms_per_run(const struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    for (uint32_t i = 0; i < job->runs; i++) {
        engine->op_times[i] = slowest_ns(engine, replay_first_measured(job) + i);
    }
    return median(engine->op_times, job->runs) / 1e6 / job->trace->run_count;
}

static double ns_per_op(const struct replay_engine *engine)
{
    const struct replay_job *job = engine->job;
    uint32_t threads = job->trace->thread_count;
    size_t count = 0;
    for (uint32_t pass = replay_first_timed(job); pass < replay_sampling(job); pass++) {
        for (uint32_t clone = 0; clone < job->clones; clone++) {
            uint64_t spent = 0;
            for (uint32_t i = clone * threads; i < (clone + 1) * threads; i++) {
                spent += engine->workers[i].samples[pass].op_ns;
            }
            engine->op_times[count++] = spent;
        }
    }
    return median(engine->op_times, count) / job->trace->event_count;
}

static int64_t warmup_passes_needed(const struct replay_engine *engine)
{
    uint32_t touched = replay_first_timed(engine->job);
    for (uint32_t pass = 0; pass < touched; pass++) {
        if (pass_faults(engine, pass) == 0 && pass_backing_calls(engine, pass) == 0) {
            return pass;
        }
    }
    return -1;
}

static uint64_t count_errors(const struct replay_engine *engine)
{
    uint64_t errors = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        for (int kind = 0; kind < REPLAY_FAILURE_KINDS; kind++) {
            errors += engine->workers[i].errors[kind];
        }
        errors += engine->workers[i].end_status != HEARTH_OK ? 1 : 0;
    }
    return errors;
}

void replay_evaluate(const struct replay_engine *engine, struct replay_result *result)
{
    const struct replay_job *job = engine->job;
    uint32_t first = replay_first_measured(job);
    uint32_t end = replay_first_timed(job);
    double engine_runs = (double)job->runs * job->trace->run_count * job->clones;
    uint64_t faults = 0;
    uint64_t calls = 0;
    for (uint32_t pass = first; pass < end; pass++) {
        faults += pass_faults(engine, pass);
        calls += pass_backing_calls(engine, pass);
    }
    uint64_t events = engine->snapshots[end].page_events - engine->snapshots[first].page_events;
    double live = (double)job->trace->peak_live_bytes * job->clones;
    uint64_t footprint = engine->footprint_peak - engine->footprint_base;
    *result = (struct replay_result){
        .errors = count_errors(engine),
        .faults_per_run = (double)faults / engine_runs,
        .backing_calls_per_run = (double)calls / engine_runs,
        .page_events_per_run = (double)events / engine_runs,
        .ops_per_run = (double)job->trace->event_count / job->trace->run_count,
        .ms_per_run = ms_per_run(engine),
        .ns_per_op = ns_per_op(engine),
        .footprint_bytes = footprint,
        .footprint_over_peak_live = live > 0 ? (double)footprint / live : 0,
        .warmup_passes_needed = warmup_passes_needed(engine),
    };
}

static void explain(const struct replay_engine *engine, const struct replay_worker *worker,
                    const struct replay_failure *failure)
{
    const struct trace_event *event = failure->event;
    fprintf(stderr, "hearth replay: %s:%" PRIu32 ": clone %" PRIu32 ", pass %" PRIu32 ": ",
            engine->job->trace->path, event->line, worker->clone, failure->pass + 1);
    if (failure->kind == REPLAY_FAILED_CHECK) {
        fprintf(stderr,
                "id %" PRIu64 " (%" PRIu64 " bytes) was overwritten at offset %zu: expected "
                "%016" PRIx64 ", found %016" PRIx64 "\n",
                event->id, event->bytes, failure->mismatch.offset, failure->mismatch.expected,
                failure->mismatch.found);
        return;
    }
    fprintf(stderr, "%s of id %" PRIu64 " (%" PRIu64 " bytes): %s: %s\n",
            failure->kind == REPLAY_FAILED_ALLOC ? "alloc" : "free", event->id, event->bytes,
            hearth_status_name(failure->status), hearth_status_text(failure->status));
}

/* Explains what a worker kept; returns how many are explained now. */
static uint32_t explain_worker(const struct replay_engine *engine,
                               const struct replay_worker *worker, uint32_t explained)
{
    for (int kind = 0; kind < REPLAY_FAILURE_KINDS; kind++) {
        uint64_t kept = worker->errors[kind];
        kept = kept < REPLAY_FAILURES_KEPT ? kept : REPLAY_FAILURES_KEPT;
        for (uint64_t i = 0; i < kept && explained < EXPLAINED; i++, explained++) {
            explain(engine, worker, &worker->failures[kind][i]);
        }
    }
    if (worker->end_status != HEARTH_OK && explained < EXPLAINED) {
        fprintf(stderr, "hearth replay: %s: clone %" PRIu32 ": ending its arenas: %s: %s\n",
                engine->job->trace->path, worker->clone, hearth_status_name(worker->end_status),
                hearth_status_text(worker->end_status));
        explained++;
    }
    return explained;
}

void replay_explain(const struct replay_engine *engine)
{
    uint32_t explained = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        explained = explain_worker(engine, &engine->workers[i], explained);
    }
    uint64_t errors = count_errors(engine);
    if (errors > explained) {
        fprintf(stderr, "hearth replay: %s: %" PRIu64 " errors in all\n", engine->job->trace->path,
                errors);
    }
}
