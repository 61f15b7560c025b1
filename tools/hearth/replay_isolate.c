/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_isolate.h"

#include "isolate.h"
#include "replay.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Arguments of this program started again; more than there are options. */
#define ARGUMENTS_MAX 32u
#define ARGUMENT_BYTES 64u

struct replay_row *replay_rows_create(size_t count)
{
    return isolate_alloc(count, sizeof(struct replay_row));
}

void replay_rows_destroy(struct replay_row *rows, size_t count)
{
    isolate_free(rows, count, sizeof *rows);
}

struct measurement {
    struct replay_row *row;
    const struct replay_subject *subject;
    int fd[2]; /* A pipe for the row, where the program starts again. */
};

/* Names are copied: what the allocator owns ends with the child. */
static void describe(struct replay_row *row, const struct replay_allocator *allocator)
{
    snprintf(row->allocator, sizeof row->allocator, "%s", allocator->name);
    snprintf(row->backing, sizeof row->backing, "%s",
             allocator->backing != NULL ? allocator->backing : "");
    snprintf(row->store, sizeof row->store, "%s", allocator->store != NULL ? allocator->store : "");
    row->knows_page_events = allocator->knows_page_events;
    row->has_arenas = allocator->has_arenas;
}

/* The child's part. */
static enum command_status measure_here(void *argument)
{
    const struct measurement *measurement = argument;
    struct replay_row *row = measurement->row;
    char message[REPLAY_MESSAGE_BYTES];
    struct replay_allocator *allocator = replay_allocator_create(measurement->subject, message);
    if (allocator == NULL) {
        fprintf(stderr, "hearth replay: %s\n", message);
        return COMMAND_BAD_INPUT;
    }
    describe(row, allocator);
    struct replay_job job = row->job;
    job.allocator = allocator;
    bool ok = replay_run(&job, &row->result, message);
    enum hearth_status status = allocator->ops->destroy(allocator);
    if (ok && status != HEARTH_OK) {
        fprintf(stderr, "hearth replay: %s: ending what all threads share: %s: %s\n",
                job.trace->path, hearth_status_name(status), hearth_status_text(status));
        row->result.errors++;
    }
    if (!ok) {
        fprintf(stderr, "hearth replay: %s: %s\n", job.trace->path, message);
    }
    return ok ? COMMAND_OK : COMMAND_BAD_INPUT;
}

struct command_line {
    char texts[ARGUMENTS_MAX][ARGUMENT_BYTES];
    char *argv[ARGUMENTS_MAX + 2];
    size_t count;
};

static void add(struct command_line *line, const char *text)
{
    char *copy = line->texts[line->count];
    snprintf(copy, ARGUMENT_BYTES, "%s", text);
    line->argv[line->count++] = copy;
}

static void add_number(struct command_line *line, const char *option, uint64_t number)
{
    char text[ARGUMENT_BYTES];
    snprintf(text, sizeof text, "%s=%llu", option, (unsigned long long)number);
    add(line, text);
}

static void describe_faults(struct command_line *line, const struct replay_faults *faults)
{
    char text[ARGUMENT_BYTES];
    char names[ARGUMENT_BYTES];
    uint32_t per_cent = REPLAY_RATE_WHOLE / 100;
    snprintf(text, sizeof text, "--inject=%u.%04u:%s", faults->rate / per_cent,
             faults->rate % per_cent, replay_fault_names(faults, names, sizeof names));
    add(line, text);
    add_number(line, "--seed", faults->seed);
}

static void describe_job(struct command_line *line, const struct replay_job *job)
{
    add_number(line, "--threads", job->clones);
    add_number(line, "--warmup", job->warmup);
    add_number(line, "--runs", job->runs);
    if (job->consumers > 0) {
        add_number(line, "--consumers", job->consumers);
        add_number(line, "--hold", job->hold);
    }
    if (job->faults.rate > 0) {
        describe_faults(line, &job->faults);
    }
    if (job->fresh_threads) {
        add(line, "--fresh-threads");
    }
    if (job->tell_runs) {
        add(line, "--tell-runs");
    }
    add(line, job->stride == REPLAY_STRIDE_LINES ? "--check=lines" : "--check=pages");
}

/* jemalloc's child: this program with another malloc, which measures and sends the row. */
static enum command_status measure_again(void *argument)
{
    const struct measurement *measurement = argument;
    const struct replay_job *job = &measurement->row->job;
    char message[REPLAY_MESSAGE_BYTES];
    char path[REPLAY_MESSAGE_BYTES];
    struct command_line line = {.count = 0};
    close(measurement->fd[0]);
    add(&line, "hearth");
    add(&line, "replay");
    add(&line, "--allocator=jemalloc");
    describe_job(&line, job);
    add_number(&line, "--row-fd", (uint64_t)measurement->fd[1]);
    add(&line, "--");
    if ((size_t)snprintf(path, sizeof path, "%s", job->trace->path) >= sizeof path) {
        snprintf(message, sizeof message, "--allocator jemalloc: the trace's path is too long");
    } else {
        line.argv[line.count] = path;
        replay_jemalloc_start(line.argv, message);
    }
    fprintf(stderr, "hearth replay: %s\n", message);
    return COMMAND_BAD_INPUT;
}

/* Of what it received, a row keeps what it does not know itself. */
static bool receive(struct replay_row *row, int fd)
{
    struct replay_row got;
    char *at = (char *)&got;
    size_t left = sizeof got;
    while (left > 0) {
        ssize_t length = read(fd, at, left);
        if (length < 0 && errno == EINTR) {
            continue;
        }
        if (length <= 0) {
            return false;
        }
        at += length;
        left -= (size_t)length;
    }
    got.job = row->job;
    *row = got;
    return true;
}

bool replay_row_send(const struct replay_row *row, int fd)
{
    /* Less than a pipe holds, so it does not wait for the reader. */
    ssize_t length = write(fd, row, sizeof *row);
    if (length != (ssize_t)sizeof *row) {
        fprintf(stderr, "hearth replay: --row-fd %d: %s\n", fd, strerror(errno));
        return false;
    }
    return true;
}

enum command_status replay_measure(struct replay_row *row, const struct replay_subject *subject)
{
    struct measurement measurement = {.row = row, .subject = subject};
    char what[REPLAY_MESSAGE_BYTES];
    snprintf(what, sizeof what, "hearth replay: %s", row->job.trace->path);
    if (strcmp(subject->allocator, "jemalloc") != 0 || replay_jemalloc_loaded()) {
        return isolate_call(what, measure_here, &measurement);
    }
    if (pipe(measurement.fd) != 0) {
        fprintf(stderr, "%s: pipe: %s\n", what, strerror(errno));
        return COMMAND_BAD_INPUT;
    }
    enum command_status status = isolate_call(what, measure_again, &measurement);
    close(measurement.fd[1]);
    if (status == COMMAND_OK && !receive(row, measurement.fd[0])) {
        status = COMMAND_ERRORS;
    }
    close(measurement.fd[0]);
    return status;
}
