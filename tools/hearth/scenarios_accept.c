/* SPDX-License-Identifier: Apache-2.0 */
/* What each row must show. */
#include "sanitized.h"
#include "scenarios_row.h"

#include <inttypes.h>
#include <stdio.h>

/* One figure against its bound. */
static bool within(const char *figure, double value, double most, char *why, size_t bytes)
{
    if (value <= most) {
        return true;
    }
    snprintf(why, bytes, "%s is %g, and may be %g at most", figure, value, most);
    return false;
}

static bool accept_peaks(const struct scenario_result *result, char *why, size_t bytes)
{
    if (result->wrong_peaks == 0) {
        return true;
    }
    snprintf(why, bytes,
             "peak_live_bytes is %" PRIu64 " + %" PRIu64 ", expected are %" PRIu64 " + %" PRIu64
             " (in %" PRIu64 " runs it was not as computed)",
             result->exec_peak, result->io_peak, result->expected_exec_peak,
             result->expected_io_peak, result->wrong_peaks);
    return false;
}

static bool accept_rest(const struct scenario_row *row, char *why, size_t bytes)
{
    const struct scenario_result *result = &row->result;
    if (result->warmup_needed < 0) {
        snprintf(why, bytes, "warmup_runs_needed is more than %u", SCENARIO_WARMUP_MOST);
        return false;
    }
    if (result->reused_in_place != result->expected_reused) {
        snprintf(why, bytes, "reused_in_place is %" PRIu64 ", expected are %" PRIu64,
                 result->reused_in_place, result->expected_reused);
        return false;
    }
    if (row->job.scenario == SCENARIO_TRIM && result->trimmed_bytes == 0) {
        snprintf(why, bytes, "trimmed_bytes is 0");
        return false;
    }
    return true;
}

/* A sanitizer's shadow memory faults for reasons of its own. */
static bool accept_faults(const struct scenario_result *result, char *why, size_t bytes)
{
    return tool_is_sanitized() || (within("minor_faults_per_run", result->faults_per_run,
                                          SCENARIO_STRAY_FAULTS_PER_RUN, why, bytes) &&
                                   within("new_output_faults_per_run", result->new_output_faults,
                                          result->allowed_output_faults, why, bytes));
}

bool scenario_accept(const struct scenario_row *row, char *why, size_t bytes)
{
    const struct scenario_result *result = &row->result;
    double created = result->allowed_backing_calls * row->job.runs;
    return within("errors", (double)result->errors, 0, why, bytes) &&
           within("payload_copies", (double)result->payload_copies, 0, why, bytes) &&
           within("backing_calls_per_run", result->backing_calls_per_run,
                  result->allowed_backing_calls, why, bytes) &&
           within("execution_storages_created", (double)result->exec_created, 0, why, bytes) &&
           within("io_storages_created", (double)result->io_created, created, why, bytes) &&
           within("page_events_per_run", result->page_events_per_run, 0, why, bytes) &&
           within("outputs_changed", (double)result->outputs_changed, 0, why, bytes) &&
           within("retained_after_trim_bytes", (double)result->retained_after_trim, 0, why,
                  bytes) &&
           accept_faults(result, why, bytes) && accept_peaks(result, why, bytes) &&
           accept_rest(row, why, bytes);
}
