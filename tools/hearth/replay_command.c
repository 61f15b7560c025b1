/* SPDX-License-Identifier: Apache-2.0 */
/* `hearth replay`: reads the traces, measures each with each thread count, reports. */
#include "command.h"
#include "replay_isolate.h"
#include "replay_options.h"
#include "replay_report.h"
#include "system.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void complain(const char *message)
{
    fprintf(stderr, "hearth replay: %s\n", message);
}

static void destroy_traces(struct trace *traces, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        trace_destroy(&traces[i]);
    }
    free(traces);
}

/* Reads all traces before anything is measured, and complains about each bad one. */
static struct trace *load_traces(const struct replay_options *options)
{
    struct trace *traces = calloc(options->trace_count, sizeof *traces);
    bool ok = traces != NULL;
    for (size_t i = 0; traces != NULL && i < options->trace_count; i++) {
        char message[TRACE_MESSAGE_BYTES];
        if (!trace_load(options->traces[i], &traces[i], message)) {
            complain(message);
            ok = false;
        }
    }
    if (traces == NULL) {
        complain("out of memory");
    }
    if (!ok && traces != NULL) {
        destroy_traces(traces, options->trace_count);
        traces = NULL;
    }
    return traces;
}

static bool threads_fit(const struct trace *trace, uint32_t clones, uint32_t consumers)
{
    uint32_t most = REPLAY_THREADS_MAX - consumers;
    if ((uint64_t)clones * trace->thread_count <= most) {
        return true;
    }
    fprintf(stderr,
            "hearth replay: --threads %" PRIu32 ": %s has %" PRIu32
            " threads itself, and %u with the consumers' are the "
            "most: use at most %" PRIu32 "\n",
            clones, trace->path, trace->thread_count, REPLAY_THREADS_MAX,
            most / trace->thread_count);
    return false;
}

/* A machine that runs out of memory kills the replay without a word, so the sum is done before. */
static bool memory_fits(const struct trace *trace, uint32_t clones, uint32_t hold, uint64_t budget)
{
    char peak_text[32];
    char budget_text[32];
    /* Twice the live bytes: no allocator here keeps much more than that. */
    uint64_t peak = trace_peak_below(trace, budget);
    if (trace->largest_bytes <= budget) { /* Else some of it is never written. */
        uint64_t held;
        if (__builtin_mul_overflow(trace->run_outputs_bytes, hold, &held) ||
            __builtin_add_overflow(peak, held, &peak)) {
            peak = UINT64_MAX;
        }
    }
    peak = peak > UINT64_MAX / 2 ? UINT64_MAX : peak * 2;
    if (peak == 0 || clones <= budget / peak) {
        return true;
    }
    fprintf(stderr,
            "hearth replay: --threads %" PRIu32
            ": each clone of %s needs %s (twice its live peak with what is held), and %s "
            "of memory are free: ",
            clones, trace->path, system_format_bytes(peak, peak_text, sizeof peak_text),
            system_format_bytes(budget, budget_text, sizeof budget_text));
    if (budget / peak == 0) {
        fprintf(stderr, "this trace needs a larger machine\n");
    } else {
        fprintf(stderr, "use at most %" PRIu64 "\n", budget / peak);
    }
    return false;
}

/* Which of its threads would the new one be? */
static bool can_be_fresh(const struct trace *trace)
{
    if (trace->thread_count == 1) {
        return true;
    }
    fprintf(stderr,
            "hearth replay: --fresh-threads: %s has %" PRIu32
            " threads itself: only traces of one thread can be run this way\n",
            trace->path, trace->thread_count);
    return false;
}

static bool all_fit(const struct replay_options *options, const struct trace *traces,
                    uint64_t budget)
{
    for (size_t i = 0; i < options->trace_count; i++) {
        if (options->fresh_threads && !can_be_fresh(&traces[i])) {
            return false;
        }
        for (size_t c = 0; c < options->clone_counts; c++) {
            if (!threads_fit(&traces[i], options->clones[c], options->consumers) ||
                !memory_fits(&traces[i], options->clones[c], options->hold, budget)) {
                return false;
            }
        }
    }
    return true;
}

/* A peer that nobody asked for pays in every run: one pass tells what it is like. */
static void shorten(const struct replay_options *options, struct replay_job *job)
{
    uint32_t least = options->hold > 0 ? job->warmup : 1;
    job->warmup = job->warmup < least ? job->warmup : least;
    job->runs = 1;
}

/* Each trace with each number of clones and each subject. */
static enum command_status measure_all(const struct replay_options *options,
                                       const struct trace *traces, uint64_t budget,
                                       struct replay_row *rows, size_t count)
{
    enum command_status status = COMMAND_OK;
    for (size_t row = 0; row < count && status == COMMAND_OK; row++) {
        size_t subject = row % options->subject_count;
        size_t measurement = row / options->subject_count;
        struct replay_job *job = &rows[row].job;
        *job = (struct replay_job){
            .trace = &traces[measurement / options->clone_counts],
            .clones = options->clones[measurement % options->clone_counts],
            .warmup = options->warmup,
            .runs = options->runs,
            .consumers = options->consumers,
            .hold = options->hold,
            .stride = options->stride,
            .touch_limit = budget,
            .faults = options->faults,
            .tell_runs = options->tell_runs,
            .fresh_threads = options->fresh_threads,
            .progress = isatty(STDERR_FILENO) == 1,
        };
        if (subject >= options->subject_count - options->peer_count) {
            shorten(options, job);
        }
        status = replay_measure(&rows[row], &options->subjects[subject]);
    }
    return status;
}

static bool print(const struct replay_options *options, const struct replay_row *rows, size_t count)
{
    if (options->row_fd >= 0) {
        return replay_row_send(&rows[0], options->row_fd);
    }
    if (options->json) {
        return replay_report_json(rows, count);
    }
    return options->stores_given ? replay_report_stores(rows, count)
                                 : replay_report_table(rows, count);
}

static enum command_status report(const struct replay_options *options,
                                  const struct replay_row *rows, size_t count)
{
    uint64_t errors = 0;
    for (size_t i = 0; i < count; i++) {
        errors += rows[i].result.errors;
    }
    if (!print(options, rows, count)) {
        return COMMAND_ERRORS;
    }
    /* Who receives the row counts its errors. */
    return errors == 0 || options->row_fd >= 0 ? COMMAND_OK : COMMAND_ERRORS;
}

static enum command_status replay(const struct replay_options *options, const struct trace *traces)
{
    uint64_t budget = system_memory_budget("");
    size_t count = options->trace_count * options->clone_counts * options->subject_count;
    if (!all_fit(options, traces, budget)) {
        return COMMAND_BAD_INPUT;
    }
    struct replay_row *rows = replay_rows_create(count);
    if (rows == NULL) {
        complain("out of memory");
        return COMMAND_BAD_INPUT;
    }
    enum command_status status = measure_all(options, traces, budget, rows, count);
    if (status == COMMAND_OK) {
        status = report(options, rows, count);
    }
    replay_rows_destroy(rows, count);
    return status;
}

int replay_command(int argc, char **argv)
{
    struct replay_options options;
    replay_options_parse(argc, argv, &options);
    struct trace *traces = load_traces(&options);
    if (traces == NULL) {
        return COMMAND_BAD_INPUT;
    }
    enum command_status status = replay(&options, traces);
    destroy_traces(traces, options.trace_count);
    return (int)status;
}
