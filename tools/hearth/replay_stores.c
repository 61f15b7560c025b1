/* SPDX-License-Identifier: Apache-2.0 */
/* The table of stores, with what they are compared with. */
#include "json_report.h"
#include "replay_report.h"

#include <inttypes.h>
#include <stdio.h>

#define MIB (1024.0 * 1024.0)
#define CELL_BYTES 32u

static void print_head(void)
{
    static const char form[] = "%-18s %-8s %-6s %7s %9s %9s %11s %11s %9s %9s %9s %7s %7s %7s\n";
    printf(form, "", "", "", "", "footprint", "execution", "faults", "backing", "", "", "RSS",
           "plan", "plan", "");
    printf(form, "trace", "allocator", "store", "threads", "/live", "/live", "per run", "calls/run",
           "ns/op", "ms/run", "MiB", "served", "/bound", "errors");
}

/* "-" where an allocator has no such figure. */
static const char *cell(bool known, const char *form, double value, char text[CELL_BYTES])
{
    snprintf(text, CELL_BYTES, "-");
    if (known) {
        snprintf(text, CELL_BYTES, form, value);
    }
    return text;
}

static void print_row(const struct replay_row *row)
{
    char name[32];
    char exec[CELL_BYTES];
    char rss[CELL_BYTES];
    char served[CELL_BYTES];
    char bound[CELL_BYTES];
    const struct replay_result *result = &row->result;
    bool plans = replay_has_plans(row);
    trace_name(row->job.trace, name, sizeof name);
    printf("%-18s %-9s %-6s %6" PRIu32 " %9.2f %9s %11.2f %11.2f %9.1f %9.3f %9s %7s %7s %7" PRIu64
           "\n",
           name, row->allocator, row->store[0] != '\0' ? row->store : "-", row->job.clones,
           result->footprint_over_peak_live,
           cell(row->has_arenas, "%.3f", result->arenas.exec_footprint_over_peak_live, exec),
           result->faults_per_run, result->backing_calls_per_run, result->ns_per_op,
           result->ms_per_run,
           cell(result->rss_bytes > 0, "%.1f", (double)result->rss_bytes / MIB, rss),
           cell(plans, "%.1f%%", 100 * replay_plan_share_of_all(&result->plans), served),
           cell(plans, "%.3f", result->plans.over_bound, bound), result->errors);
}

bool replay_report_stores(const struct replay_row *rows, size_t count)
{
    print_head();
    for (size_t i = 0; i < count; i++) {
        print_row(&rows[i]);
    }
    return json_report_finish("replay");
}
