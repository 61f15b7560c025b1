/* SPDX-License-Identifier: Apache-2.0 */
/* From samples to figures. */
#include "replay_engine.h"

#include <stdlib.h>

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
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        sum += engine->consumers[i].samples[pass].faults;
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
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        sum += engine->consumers[i].samples[pass].backing_calls;
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

static uint64_t count_events(const struct replay_engine *engine, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;
    for (uint32_t pass = first; pass < end; pass++) {
        sum += engine->event_counts[pass];
    }
    return sum;
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
    uint64_t events = count_events(engine, replay_first_timed(job), replay_sampling(job));
    return events > 0 ? median(engine->op_times, count) * job->runs / (double)events : 0;
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

static uint64_t exec_created(const struct replay_engine *engine, uint32_t pass)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sum += engine->workers[i].samples[pass].exec.created;
    }
    return sum;
}

static uint64_t io_reserved(const struct replay_engine *engine)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sum += engine->workers[i].reserved;
    }
    return sum;
}

/* At the end of the measured passes, and over them. */
static struct replay_arenas evaluate_arenas(const struct replay_engine *engine)
{
    uint32_t first = replay_first_measured(engine->job);
    uint32_t end = replay_first_timed(engine->job);
    const struct replay_snapshot *last = &engine->snapshots[end];
    struct replay_arenas arenas = {
        .io_created = last->io.created - engine->snapshots[first].io.created,
        .io_footprint_bytes = last->io.footprint,
        .io_peak_bytes = last->io.peak,
        .io_retained_bytes = last->io.retained,
        .io_leased = last->io.leased,
        .io_reserved = io_reserved(engine),
        .exec_footprint_bytes = last->exec_footprint,
        .exec_peak_footprint_bytes = engine->footprint.exec_peak,
    };
    double live = (double)engine->job->trace->exec_peak_bytes * engine->job->clones;
    arenas.exec_footprint_over_peak_live =
        live > 0 ? (double)arenas.exec_peak_footprint_bytes / live : 0;
    for (uint32_t pass = first; pass < end; pass++) {
        arenas.exec_created += exec_created(engine, pass);
    }
    return arenas;
}

static uint64_t count_log(const struct replay_log *log)
{
    uint64_t errors = 0;
    for (int kind = 0; kind < REPLAY_FAILURE_KINDS; kind++) {
        errors += log->errors[kind];
    }
    return errors;
}

uint64_t replay_count_errors(const struct replay_engine *engine)
{
    uint64_t errors = 0;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        const struct replay_worker *worker = &engine->workers[i];
        errors += count_log(&worker->log) + worker->reserve_errors;
        errors += worker->end_status != HEARTH_OK ? 1 : 0;
    }
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        errors += count_log(&engine->consumers[i].log);
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
    uint64_t footprint = engine->footprint.peak > engine->footprint.base
                             ? engine->footprint.peak - engine->footprint.base
                             : 0;
    *result = (struct replay_result){
        .errors = replay_count_errors(engine),
        .faults_per_run = (double)faults / engine_runs,
        .backing_calls_per_run = (double)calls / engine_runs,
        .page_events_per_run = (double)events / engine_runs,
        .faults_injected = engine->faults_injected,
        .ops_per_run = (double)count_events(engine, first, end) / job->runs / job->trace->run_count,
        .ms_per_run = ms_per_run(engine),
        .ns_per_op = ns_per_op(engine),
        .footprint_bytes = footprint,
        .footprint_over_peak_live = live > 0 ? (double)footprint / live : 0,
        .rss_bytes = engine->footprint.rss_peak,
        .warmup_passes_needed = warmup_passes_needed(engine),
        .arenas = evaluate_arenas(engine),
        .plans = replay_evaluate_plans(engine),
    };
}
