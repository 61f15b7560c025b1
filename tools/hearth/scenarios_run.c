/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run: what it costs, and whether its outputs are right. The cost is that of the run itself, of exporting
 * the outputs and of releasing them; checking them in between is the tool's own work.
 */
#include "scenarios_bench.h"

#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

/* Readings at one moment. */
struct reading {
    struct hearth_backing_stats exec;
    struct hearth_backing_stats io;
    uint64_t faults;
};

static struct reading read_now(const struct scenario_bench *bench)
{
    struct reading reading = {HEARTH_BACKING_STATS_INIT, HEARTH_BACKING_STATS_INIT, 0};
    struct rusage usage;
    hearth_backing_stats(bench->exec_backing, &reading.exec);
    hearth_backing_stats(bench->io_backing, &reading.io);
    getrusage(RUSAGE_SELF, &usage);
    reading.faults = (uint64_t)usage.ru_minflt;
    return reading;
}

static uint64_t calls(const struct hearth_backing_stats *stats)
{
    return stats->acquire_calls + stats->release_calls + stats->purge_calls;
}

static void charge(const struct scenario_bench *bench, const struct reading *before,
                   struct scenario_sample *sample)
{
    struct reading after = read_now(bench);
    sample->exec_calls += calls(&after.exec) - calls(&before->exec);
    sample->io_calls += calls(&after.io) - calls(&before->io);
    sample->exec_created += after.exec.acquire_calls - before->exec.acquire_calls;
    sample->io_created += after.io.acquire_calls - before->io.acquire_calls;
    sample->exec_events += after.exec.page_events - before->exec.page_events;
    sample->io_events += after.io.page_events - before->io.page_events;
    sample->process_faults += after.faults - before->faults;
}

static void set_input(struct scenario_bench *bench, const float *data)
{
    const struct scenario_value *value = &bench->graph->values[0];
    struct hearth_shape shape = HEARTH_SHAPE_INIT;
    shape.rank = 2;
    shape.dims[0] = value->rows;
    shape.dims[1] = value->columns;
    enum hearth_status status = hearth_context_borrow(bench->context, value->name, data,
                                                      value->bytes, HEARTH_DTYPE_FLOAT, &shape);
    if (status != HEARTH_OK) {
        scenario_bench_error(bench, "lending the input", hearth_status_name(status));
    }
}

static enum hearth_status run_plan(struct scenario_bench *bench, struct hearth_session *session,
                                   struct hearth_run_stats *stats, struct hearth_lease *leases)
{
    enum hearth_status status =
        bench->pool != NULL
            ? hearth_session_run_on(session, bench->context, &bench->executor, stats)
            : hearth_session_run(session, bench->context, stats);
    if (status != HEARTH_OK) {
        char why[256];
        snprintf(why, sizeof why, "%s: %s", hearth_status_name(status),
                 hearth_session_error(bench->context));
        scenario_bench_error(bench, "the run", why);
        return status;
    }
    status =
        hearth_session_export_outputs(session, bench->context, leases, bench->graph->output_count);
    if (status != HEARTH_OK) {
        scenario_bench_error(bench, "exporting the outputs", hearth_status_name(status));
    }
    return status;
}

static void check_output(struct scenario_bench *bench, struct hearth_lease lease, uint32_t output,
                         const struct scenario_reference *reference)
{
    size_t bytes = bench->graph->values[bench->graph->outputs[output]].bytes;
    if (hearth_lease_size(lease) != bytes ||
        memcmp(hearth_lease_data(lease), reference->outputs[output], bytes) != 0) {
        scenario_bench_error(bench, bench->graph->values[bench->graph->outputs[output]].name,
                             "the output is not what the reference computed");
    }
}

static void keep(struct scenario_bench *bench, const struct hearth_lease *leases,
                 const struct scenario_reference *reference)
{
    for (uint32_t i = 0; i < bench->graph->output_count; i++) {
        size_t bytes = bench->graph->values[bench->graph->outputs[i]].bytes;
        bench->held[bench->held_count++] = (struct scenario_held){
            .lease = leases[i],
            .expected = reference->outputs[i],
            .bytes = bytes,
            .sum = scenario_sum(hearth_lease_data(leases[i]), bytes),
        };
    }
}

static void release(struct scenario_bench *bench, const struct hearth_lease *leases, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        enum hearth_status status = hearth_lease_release(leases[i]);
        if (status != HEARTH_OK) {
            scenario_bench_error(bench, "releasing an output", hearth_status_name(status));
        }
    }
}

static void check_figures(struct scenario_bench *bench, const struct scenario_expected *expected,
                          const struct hearth_run_stats *stats, struct scenario_sample *sample)
{
    bool serial = bench->pool == NULL;
    bool exec_right = serial ? stats->execution_peak_bytes == expected->exec_peak
                             : stats->execution_peak_bytes >= expected->exec_least &&
                                   stats->execution_peak_bytes <= expected->exec_most;
    sample->wrong_peak = !exec_right || stats->io_peak_bytes != expected->io_peak;
    if (stats->nodes != bench->graph->node_count) {
        scenario_bench_error(bench, "the run", "it did not run each node once");
    }
    sample->copies = stats->payload_copies;
    sample->exec_peak = stats->execution_peak_bytes;
    sample->io_peak = stats->io_peak_bytes;
    sample->reused = stats->reused_in_place;
    sample->remote_deaths = stats->remote_deaths;
    sample->threads = stats->threads;
    for (uint32_t i = 0; i < bench->graph->node_count; i++) {
        sample->faults += bench->ops[i].faults;
        sample->output_faults += bench->ops[i].output_faults;
    }
}

void scenario_bench_run(struct scenario_bench *bench, uint32_t number, bool audited,
                        struct scenario_sample *sample)
{
    const struct scenario_model *model = &bench->models[number];
    const struct scenario_reference *reference = &model->references[bench->run % SCENARIO_VARIANTS];
    struct hearth_lease leases[SCENARIO_OUTPUTS_MAX];
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    bool once = number > 0 && bench->once != NULL;
    *sample = (struct scenario_sample){.run_ns = 0};
    bench->graph = &model->graph;
    set_input(bench, reference->input);
    if (audited) {
        scenario_audit_begin(&bench->audit, bench->graph);
    }
    struct reading before = read_now(bench);
    uint64_t start = clock_ns();
    struct hearth_session *session = once ? bench->once : bench->session;
    enum hearth_status status = run_plan(bench, session, &stats, leases);
    sample->run_ns = clock_ns() - start;
    charge(bench, &before, sample);
    if (audited) {
        const char *wrong =
            scenario_audit_end(&bench->audit, stats.execution_peak_bytes, bench->pool == NULL);
        if (wrong != NULL) {
            scenario_bench_error(bench, "the run's events", wrong);
        }
    }
    if (status == HEARTH_OK) {
        check_figures(bench, &model->expected, &stats, sample);
        for (uint32_t i = 0; i < bench->graph->output_count; i++) {
            check_output(bench, leases[i], i, reference);
        }
        if (bench->held != NULL) {
            keep(bench, leases, reference);
        } else {
            before = read_now(bench);
            release(bench, leases, bench->graph->output_count);
            charge(bench, &before, sample);
        }
    }
    bench->run++;
}

uint64_t scenario_bench_release_held(struct scenario_bench *bench)
{
    uint64_t changed = 0;
    for (uint32_t i = 0; i < bench->held_count; i++) {
        const struct scenario_held *held = &bench->held[i];
        const void *data = hearth_lease_data(held->lease);
        if (hearth_lease_size(held->lease) != held->bytes ||
            memcmp(data, held->expected, held->bytes) != 0 ||
            scenario_sum(data, held->bytes) != held->sum) {
            changed++;
            scenario_bench_error(bench, "an output that was kept", "it is not what it was");
        }
        release(bench, &held->lease, 1);
    }
    bench->held_count = 0;
    return changed;
}
