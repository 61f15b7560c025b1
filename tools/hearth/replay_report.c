/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_report.h"
#include "json_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define KIB 1024.0

static json_int_t integer(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (json_int_t)value;
}

/* A figure of the arenas; null for allocators that have none. */
static json_t *figure(const struct replay_row *row, uint64_t value)
{
    return row->has_arenas ? json_integer(integer(value)) : json_null();
}

static json_t *real_figure(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

static json_t *make_arenas(const struct replay_row *row)
{
    const struct replay_arenas *arenas = &row->result.arenas;
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "consumers",
        integer(row->job.consumers), "hold", integer(row->job.hold), "io_storages_created",
        figure(row, arenas->io_created), "io_footprint_bytes",
        figure(row, arenas->io_footprint_bytes), "io_peak_bytes",
        figure(row, arenas->io_peak_bytes), "io_retained_bytes",
        figure(row, arenas->io_retained_bytes), "io_leased_buffers", figure(row, arenas->io_leased),
        "io_reserved_buffers", figure(row, arenas->io_reserved), "exec_storages_created",
        figure(row, arenas->exec_created), "exec_footprint_bytes",
        figure(row, arenas->exec_footprint_bytes), "exec_peak_footprint_bytes",
        figure(row, arenas->exec_peak_footprint_bytes), "exec_footprint_over_peak_live",
        real_figure(row->has_arenas, arenas->exec_footprint_over_peak_live));
}

bool replay_has_plans(const struct replay_row *row)
{
    return strcmp(row->store, "plans") == 0;
}

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0;
}

double replay_plan_share(const struct replay_plans *plans)
{
    return share(plans->hits, plans->hits + plans->misses);
}

double replay_plan_share_of_all(const struct replay_plans *plans)
{
    return share(plans->hits, plans->requests);
}

/* Null without faults. */
static json_t *make_faults(const struct replay_row *row)
{
    const struct replay_faults *faults = &row->job.faults;
    char names[64];
    if (faults->rate == 0) {
        return json_pack("{s:n, s:n, s:n, s:n}", "inject_percent", "inject_kinds", "seed",
                         "faults_injected");
    }
    return json_pack("{s:f, s:s, s:I, s:I}", "inject_percent",
                     100.0 * faults->rate / REPLAY_RATE_WHOLE, "inject_kinds",
                     replay_fault_names(faults, names, sizeof names), "seed", integer(faults->seed),
                     "faults_injected", integer(row->result.faults_injected));
}

/* Null for whoever has none. */
static json_t *make_plans(const struct replay_row *row)
{
    const struct replay_plans *plans = &row->result.plans;
    bool has = replay_has_plans(row);
    json_t *object = json_pack(
        "{s:s?, s:b, s:b, s:o, s:o, s:o, s:o}", "store", row->store[0] != '\0' ? row->store : NULL,
        "fresh_threads", row->job.fresh_threads, "runs_told", row->job.tell_runs, "rss_bytes",
        row->result.rss_bytes > 0 ? json_integer(integer(row->result.rss_bytes)) : json_null(),
        "plan_share", real_figure(has, replay_plan_share(plans)), "plan_share_of_all",
        real_figure(has, replay_plan_share_of_all(plans)), "plan_over_bound",
        real_figure(has, plans->over_bound));
    const struct {
        const char *key;
        uint64_t value;
    } counts[] = {
        {"plan_blocked", plans->blocked},
        {"plans_made", plans->made},
        {"plans", plans->plans},
        {"slab_bytes", plans->slab_bytes},
        {"idle_exec_bytes", plans->idle_exec_bytes},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        json_t *value = has ? json_integer(integer(counts[i].value)) : json_null();
        if (json_object_set_new(object, counts[i].key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

static json_t *make_row(const void *of)
{
    const struct replay_row *row = of;
    const struct replay_job *job = &row->job;
    const struct replay_result *result = &row->result;
    char name[256];
    int64_t needed = result->warmup_passes_needed;
    trace_name(job->trace, name, sizeof name);
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:f, s:f, s:f, s:I, "
        "s:I, s:f, s:o}",
        "trace", job->trace->path, "name", name, "allocator", row->allocator, "backing",
        row->backing[0] != '\0' ? row->backing : NULL, "threads", integer(job->clones),
        "trace_threads", integer(job->trace->thread_count), "warmup", integer(job->warmup), "runs",
        integer(job->runs), "engine_runs_per_pass", integer(job->trace->run_count), "errors",
        integer(result->errors), "minor_faults_per_run", result->faults_per_run,
        "backing_calls_per_run", result->backing_calls_per_run, "page_events_per_run",
        row->knows_page_events ? json_real(result->page_events_per_run) : json_null(),
        "ops_per_run", result->ops_per_run, "ms_per_run", result->ms_per_run, "ns_per_op",
        result->ns_per_op, "peak_live_bytes", integer(job->trace->peak_live_bytes),
        "footprint_bytes", integer(result->footprint_bytes), "footprint_over_peak_live",
        result->footprint_over_peak_live, "warmup_passes_needed",
        needed < 0 ? json_null() : json_integer(needed));
    /* Takes NULL for an answer. */
    if (json_object_update_new(object, make_arenas(row)) != 0 ||
        json_object_update_new(object, make_plans(row)) != 0 ||
        json_object_update_new(object, make_faults(row)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

bool replay_report_json(const struct replay_row *rows, size_t count)
{
    return json_report("replay", make_row, rows, count, sizeof rows[0]);
}

static void print_row(const struct replay_row *row)
{
    char name[32];
    char events[32];
    char needed[32];
    const struct replay_result *result = &row->result;
    trace_name(row->job.trace, name, sizeof name);
    snprintf(events, sizeof events, "-");
    snprintf(needed, sizeof needed, "-");
    if (row->knows_page_events) {
        snprintf(events, sizeof events, "%.2f", result->page_events_per_run);
    }
    if (result->warmup_passes_needed >= 0) {
        snprintf(needed, sizeof needed, "%" PRId64, result->warmup_passes_needed);
    }
    printf("%-18s %-8s %7" PRIu32 " %11.2f %11.2f %9s %9.3f %9.1f %9.2f %7s %7" PRIu64 "\n", name,
           row->allocator, row->job.clones, result->faults_per_run, result->backing_calls_per_run,
           events, result->ms_per_run, result->ns_per_op, result->footprint_over_peak_live, needed,
           result->errors);
}

static void print_arenas_row(const struct replay_row *row)
{
    char name[32];
    const struct replay_arenas *arenas = &row->result.arenas;
    trace_name(row->job.trace, name, sizeof name);
    printf("%-18s %7" PRIu32 " %9" PRIu32 " %4" PRIu32 " %7" PRIu32 " %11" PRIu64 " %11.1f %9.1f"
           " %11.1f %7" PRIu64 " %9" PRIu64 " %11" PRIu64 " %11.1f\n",
           name, row->job.clones, row->job.consumers, row->job.hold, row->job.warmup,
           arenas->io_created, (double)arenas->io_footprint_bytes / KIB,
           (double)arenas->io_peak_bytes / KIB, (double)arenas->io_retained_bytes / KIB,
           arenas->io_leased, arenas->io_reserved, arenas->exec_created,
           (double)arenas->exec_footprint_bytes / KIB);
}

/* "Created" is over all measured passes; the rest is the state at their end. */
static void print_arenas(const struct replay_row *rows, size_t count)
{
    printf("\n%-18s %7s %9s %4s %7s %11s %11s %9s %11s %7s %9s %11s %11s\n", "", "", "", "",
           "warm-up", "I/O created", "I/O KiB", "I/O KiB", "I/O KiB", "leased", "reserved",
           "execution", "execution");
    printf("%-18s %7s %9s %4s %7s %11s %11s %9s %11s %7s %9s %11s %11s\n", "arenas", "threads",
           "consumers", "hold", "passes", "in all runs", "footprint", "peak", "retained", "buffers",
           "buffers", "created", "KiB");
    for (size_t i = 0; i < count; i++) {
        print_arenas_row(&rows[i]);
    }
}

bool replay_report_table(const struct replay_row *rows, size_t count)
{
    printf("%-18s %-8s %7s %11s %11s %9s %9s %9s %9s %7s %7s\n", "", "", "", "faults", "backing",
           "page ev.", "", "", "footprint", "warm-up", "");
    printf("%-18s %-8s %7s %11s %11s %9s %9s %9s %9s %7s %7s\n", "trace", "allocator", "threads",
           "per run", "calls/run", "per run", "ms/run", "ns/op", "/peak live", "passes", "errors");
    for (size_t i = 0; i < count; i++) {
        print_row(&rows[i]);
    }
    if (count > 0 && rows[0].has_arenas) {
        print_arenas(rows, count);
    }
    return json_report_finish("replay");
}
