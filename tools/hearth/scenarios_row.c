/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a row in their order, and from their samples to figures. */
#include "scenarios_row.h"

#include "prefault.h"
#include "sanitized.h"
#include "scenarios_bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096u

/* Which model a run of the row is of. */
static uint32_t model_of(const struct scenario_bench *bench, uint32_t run)
{
    return bench->job->scenario == SCENARIO_ALTERNATING ? run % bench->model_count : 0;
}

/* The large run that does not come again, and the trim after it. */
static void run_once_and_trim(struct scenario_bench *bench, struct scenario_result *result)
{
    struct scenario_sample sample;
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    for (uint32_t i = 0; i < SCENARIO_WARMUP_MOST; i++) {
        scenario_bench_run(bench, 0, false, &sample);
    }
    scenario_bench_run(bench, 1, false, &sample);
    size_t before = hearth_service_footprint(bench->service);
    enum hearth_status status = hearth_service_trim(bench->service, HEARTH_UNBOUNDED, 0, &report);
    if (status != HEARTH_OK) {
        scenario_bench_error(bench, "the trim", hearth_status_name(status));
    }
    result->trimmed_bytes = before - hearth_service_footprint(bench->service);
    result->retained_after_trim = hearth_service_retained_bytes(bench->service);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(const struct scenario_sample *samples, uint32_t count)
{
    uint64_t *times = calloc(count, sizeof *times);
    if (times == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        times[i] = samples[i].run_ns;
    }
    qsort(times, count, sizeof *times, compare);
    uint32_t low = (count - 1) / 2;
    uint32_t high = count / 2;
    double median = ((double)times[low] + (double)times[high]) / 2;
    free(times);
    return median / 1e6;
}

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_sample(const struct scenario_sample *sample, struct scenario_sample *sum)
{
    sum->copies += sample->copies;
    sum->exec_calls += sample->exec_calls;
    sum->io_calls += sample->io_calls;
    sum->exec_created += sample->exec_created;
    sum->io_created += sample->io_created;
    sum->exec_events += sample->exec_events;
    sum->io_events += sample->io_events;
    sum->faults += sample->faults;
    sum->output_faults += sample->output_faults;
    sum->process_faults += sample->process_faults;
    sum->reused += sample->reused;
    sum->remote_deaths += sample->remote_deaths;
    sum->exec_peak = largest(sum->exec_peak, sample->exec_peak);
    sum->io_peak = largest(sum->io_peak, sample->io_peak);
    sum->threads = largest(sum->threads, sample->threads);
}

/* Whether the runs from `first` on cost nothing but what kept outputs may cost. */
static bool is_steady(const struct scenario_bench *bench, const struct scenario_sample *samples,
                      uint32_t first, uint32_t end)
{
    bool keeps = bench->held_room > 0;
    struct scenario_sample sum = {.run_ns = 0};
    for (uint32_t i = first; i < end; i++) {
        if (samples[i].io_calls > (keeps ? bench->models[0].graph.output_count : 0)) {
            return false;
        }
        add_sample(&samples[i], &sum);
    }
    return sum.copies == 0 && sum.exec_calls == 0 && sum.exec_events == 0 &&
           (keeps || sum.io_events == 0) &&
           (tool_is_sanitized() ||
            (double)sum.faults <= SCENARIO_STRAY_FAULTS_PER_RUN * (end - first));
}

static int64_t warmup_needed(const struct scenario_bench *bench,
                             const struct scenario_sample *samples)
{
    const struct scenario_job *job = bench->job;
    for (uint32_t first = 0; first <= job->warmup && first <= SCENARIO_WARMUP_MOST; first++) {
        if (is_steady(bench, samples, first, job->warmup + job->runs)) {
            return first;
        }
    }
    return -1;
}

/* Pages of the outputs of one run, wherever in a page they start. */
static double output_pages(const struct scenario_graph *graph)
{
    size_t pages = 0;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        pages += (graph->values[graph->outputs[i]].bytes + PAGE - 2) / PAGE + 1;
    }
    return (double)pages;
}

static void expect(const struct scenario_bench *bench, struct scenario_result *result)
{
    const struct scenario_job *job = bench->job;
    for (uint32_t i = job->warmup; i < job->warmup + job->runs; i++) {
        const struct scenario_expected *expected = &bench->models[model_of(bench, i)].expected;
        result->expected_exec_peak = largest(result->expected_exec_peak, expected->exec_peak);
        result->expected_io_peak = largest(result->expected_io_peak, expected->io_peak);
        result->least_exec_peak = largest(result->least_exec_peak, expected->exec_least);
        result->most_exec_peak = largest(result->most_exec_peak, expected->exec_most);
        result->expected_reused += expected->reused;
    }
}

static void evaluate(const struct scenario_bench *bench, const struct scenario_sample *samples,
                     struct scenario_result *result)
{
    const struct scenario_job *job = bench->job;
    const struct scenario_graph *graph = &bench->models[0].graph;
    bool keeps = bench->held_room > 0;
    double runs = job->runs;
    struct scenario_sample sum = {.run_ns = 0};
    for (uint32_t i = 0; i < job->warmup + job->runs; i++) {
        result->wrong_peaks += samples[i].wrong_peak ? 1 : 0;
        if (i >= job->warmup) {
            add_sample(&samples[i], &sum);
        }
    }
    expect(bench, result);
    result->nodes = graph->node_count;
    result->outputs = graph->output_count;
    result->payload_copies = sum.copies;
    result->backing_calls_per_run = (double)(sum.exec_calls + sum.io_calls) / runs;
    result->allowed_backing_calls = keeps ? graph->output_count : 0;
    result->faults_per_run = (double)sum.faults / runs;
    result->new_output_faults = (double)sum.output_faults / runs;
    result->allowed_output_faults = keeps ? output_pages(graph) : 0;
    result->process_faults_per_run = (double)sum.process_faults / runs;
    result->page_events_per_run = (double)(sum.exec_events + (keeps ? 0 : sum.io_events)) / runs;
    result->new_output_page_events = keeps ? (double)sum.io_events / runs : 0;
    result->exec_created = sum.exec_created;
    result->io_created = sum.io_created;
    result->exec_peak = sum.exec_peak;
    result->io_peak = sum.io_peak;
    result->reused_in_place = sum.reused;
    result->remote_deaths = sum.remote_deaths;
    result->threads_used = sum.threads;
    result->footprint_bytes = hearth_service_footprint(bench->service);
    result->warmup_needed = warmup_needed(bench, samples);
    result->ms_per_run = median_ms(samples + job->warmup, job->runs);
}

/* Runs before the prefill; 0: none. */
static uint32_t prefill_after(const struct scenario_job *job)
{
    return job->warmup < SCENARIO_WARMUP_MOST ? job->warmup : SCENARIO_WARMUP_MOST;
}

static void run_all(struct scenario_bench *bench, struct scenario_sample *samples,
                    struct scenario_result *result)
{
    const struct scenario_job *job = bench->job;
    struct scenario_sample sample;
    uint32_t end = job->warmup + job->runs;
    if (job->scenario == SCENARIO_TRIM) {
        run_once_and_trim(bench, result);
    }
    for (uint32_t i = 0; i < end; i++) {
        scenario_bench_run(bench, model_of(bench, i), false, &samples[i]);
        if (job->threads > 1 && i + 1 == prefill_after(job)) {
            scenario_bench_prefill(bench);
        }
    }
    evaluate(bench, samples, result);
    for (uint32_t i = 0; i < SCENARIO_AUDITS; i++) {
        scenario_bench_run(bench, model_of(bench, end + i), true, &sample);
        result->wrong_peaks += sample.wrong_peak ? 1 : 0;
    }
    result->outputs_kept = bench->held_count;
    result->outputs_changed = scenario_bench_release_held(bench);
}

bool scenario_measure(struct scenario_row *row)
{
    struct scenario_bench bench;
    const struct scenario_job *job = &row->job;
    size_t count = (size_t)job->warmup + job->runs;
    struct scenario_sample *samples = prefault_alloc(count, sizeof *samples);
    bool ok = scenario_bench_create(&bench, job);
    if (ok && samples != NULL) {
        run_all(&bench, samples, &row->result);
    }
    scenario_bench_destroy(&bench);
    row->result.errors = bench.errors;
    prefault_free(samples, count, sizeof *samples);
    return ok && samples != NULL;
}
