/* SPDX-License-Identifier: Apache-2.0 */
/* One row of `hearth scenarios`: a scenario on a number of threads. */
#ifndef HEARTH_TOOL_SCENARIOS_H
#define HEARTH_TOOL_SCENARIOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCENARIO_THREADS_MAX 64u
#define SCENARIO_RUNS_MAX 10000u

/* Runs before the steady state, at most. */
#define SCENARIO_WARMUP_MOST 3u

/* Runs after the measured ones that are followed event by event. */
#define SCENARIO_AUDITS 3u

/* A stray fault in so many runs is the kernel's business. */
#define SCENARIO_STRAY_FAULTS_PER_RUN 0.1

enum scenario_number {
    SCENARIO_DESTROYED,
    SCENARIO_KEPT,
    SCENARIO_LARGE_INTERMEDIATES,
    SCENARIO_ALTERNATING,
    SCENARIO_TRIM,
    SCENARIO_COUNT,
};

/** The scenario's name, for example "kept". */
const char *scenario_name(enum scenario_number number);

struct scenario_job {
    enum scenario_number scenario;
    uint32_t threads; /* 1: a serial run; else an executor of so many */
    uint32_t warmup;
    uint32_t runs;
    uint64_t seed;
};

/* Figures of the measured runs, unless they say otherwise. */
struct scenario_result {
    uint32_t nodes;
    uint32_t outputs;
    uint64_t errors; /* in all runs: answers other than OK, wrong outputs, wrong events */
    uint64_t payload_copies;
    double backing_calls_per_run;
    double allowed_backing_calls;
    double faults_per_run;         /* while kernels touched buffers, new outputs left out */
    double new_output_faults;      /* per run: first touch of outputs whose storage is new */
    double allowed_output_faults;  /* per run: pages of these outputs */
    double process_faults_per_run; /* whatever the process did */
    double page_events_per_run;    /* those of allowed storage left out */
    double new_output_page_events; /* per run */
    uint64_t exec_created;
    uint64_t io_created;
    uint64_t exec_peak;
    uint64_t io_peak;
    uint64_t expected_exec_peak;
    uint64_t expected_io_peak;
    uint64_t least_exec_peak; /* between these in each run on several threads */
    uint64_t most_exec_peak;
    uint64_t wrong_peaks; /* runs */
    uint64_t reused_in_place;
    uint64_t expected_reused;
    uint64_t remote_deaths;
    uint64_t threads_used; /* most of any run */
    uint64_t outputs_kept;
    uint64_t outputs_changed; /* of those that were checked at the end */
    uint64_t trimmed_bytes;
    uint64_t retained_after_trim;
    uint64_t footprint_bytes;
    int64_t warmup_needed; /* -1: more than SCENARIO_WARMUP_MOST */
    double ms_per_run;
};

struct scenario_row {
    struct scenario_job job;
    struct scenario_result result;
};

#endif
