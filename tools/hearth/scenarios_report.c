/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_report.h"
#include "json_report.h"

#include "scenarios_kernels.h"
#include "scenarios_row.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define KIB 1024.0

static json_int_t integer(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

static json_t *make_setting(const struct scenario_row *row)
{
    const struct scenario_job *job = &row->job;
    char blas[128];
    scenario_blas_name(blas, sizeof blas);
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "scenario",
                     scenario_name(job->scenario), "threads", integer(job->threads), "nodes",
                     integer(row->result.nodes), "outputs", integer(row->result.outputs), "warmup",
                     integer(job->warmup), "runs", integer(job->runs), "seed", integer(job->seed),
                     "blas", blas);
}

static json_t *make_costs(const struct scenario_result *result)
{
    return json_pack(
        "{s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:o, s:f}",
        "errors", integer(result->errors), "payload_copies", integer(result->payload_copies),
        "backing_calls_per_run", result->backing_calls_per_run, "allowed_backing_calls",
        result->allowed_backing_calls, "minor_faults_per_run", result->faults_per_run,
        "process_faults_per_run", result->process_faults_per_run, "page_events_per_run",
        result->page_events_per_run, "new_output_faults_per_run", result->new_output_faults,
        "allowed_output_faults", result->allowed_output_faults, "new_output_page_events_per_run",
        result->new_output_page_events, "execution_storages_created", integer(result->exec_created),
        "io_storages_created", integer(result->io_created), "footprint_bytes",
        integer(result->footprint_bytes), "threads_used", integer(result->threads_used),
        "warmup_runs_needed",
        result->warmup_needed < 0 ? json_null() : json_integer(result->warmup_needed), "ms_per_run",
        result->ms_per_run);
}

static json_t *make_values(const struct scenario_row *row)
{
    const struct scenario_result *result = &row->result;
    bool serial = row->job.threads == 1;
    bool trims = row->job.scenario == SCENARIO_TRIM;
    uint64_t io = result->expected_io_peak;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}",
                     "peak_live_bytes", integer(result->exec_peak + result->io_peak),
                     "expected_peak_bytes", integer(result->expected_exec_peak + io),
                     "least_peak_bytes",
                     integer((serial ? result->expected_exec_peak : result->least_exec_peak) + io),
                     "most_peak_bytes",
                     integer((serial ? result->expected_exec_peak : result->most_exec_peak) + io),
                     "execution_peak_bytes", integer(result->exec_peak), "io_peak_bytes",
                     integer(result->io_peak), "wrong_peaks", integer(result->wrong_peaks),
                     "reused_in_place", integer(result->reused_in_place), "remote_deaths",
                     integer(result->remote_deaths), "outputs_kept", integer(result->outputs_kept),
                     "outputs_changed", integer(result->outputs_changed), "outputs_bit_identical",
                     result->outputs_changed == 0 && result->errors == 0, "trimmed_bytes",
                     trims ? json_integer(integer(result->trimmed_bytes)) : json_null(),
                     "retained_after_trim_bytes",
                     trims ? json_integer(integer(result->retained_after_trim)) : json_null());
}

static json_t *make_row(const void *of)
{
    const struct scenario_row *row = of;
    char why[256] = "";
    json_t *object = make_setting(row);
    json_t *failed = scenario_accept(row, why, sizeof why) ? json_null() : json_string(why);
    /* Each takes NULL for an answer. */
    int bad = json_object_update_new(object, make_costs(&row->result));
    bad |= json_object_update_new(object, make_values(row));
    bad |= json_object_set_new(object, "failed", failed);
    if (bad != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

bool scenario_report_json(const struct scenario_row *rows, size_t count)
{
    return json_report("scenarios", make_row, rows, count, sizeof rows[0]);
}

static void print_row(const struct scenario_row *row)
{
    const struct scenario_result *result = &row->result;
    char needed[32];
    char calls[32];
    snprintf(needed, sizeof needed, "-");
    if (result->warmup_needed >= 0) {
        snprintf(needed, sizeof needed, "%" PRId64, result->warmup_needed);
    }
    snprintf(calls, sizeof calls, "%.2f/%.0f", result->backing_calls_per_run,
             result->allowed_backing_calls);
    printf("%-20s %7" PRIu32 " %5" PRIu32 " %6" PRIu64 " %12s %9.2f %9.2f %11.1f %11.1f %7s %9.2f "
           "%7" PRIu64 " %7" PRIu64 "\n",
           scenario_name(row->job.scenario), row->job.threads, result->nodes,
           result->payload_copies, calls, result->faults_per_run, result->page_events_per_run,
           (double)(result->exec_peak + result->io_peak) / KIB,
           (double)result->footprint_bytes / KIB, needed, result->ms_per_run, result->outputs_kept,
           result->errors);
}

bool scenario_report_table(const struct scenario_row *rows, size_t count)
{
    printf("%-20s %7s %5s %6s %12s %9s %9s %11s %11s %7s %9s %7s %7s\n", "", "", "", "", "backing",
           "faults", "page ev.", "peak live", "footprint", "warm-up", "", "outputs", "");
    printf("%-20s %7s %5s %6s %12s %9s %9s %11s %11s %7s %9s %7s %7s\n", "scenario", "threads",
           "nodes", "copies", "calls/may", "per run", "per run", "KiB", "KiB", "runs", "ms/run",
           "kept", "errors");
    for (size_t i = 0; i < count; i++) {
        print_row(&rows[i]);
    }
    return json_report_finish("scenarios");
}
