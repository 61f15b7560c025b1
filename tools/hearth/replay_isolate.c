/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_isolate.h"

#include "replay.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct replay_row *replay_rows_create(size_t count)
{
    struct replay_row *rows =
        mmap(NULL, count * sizeof *rows, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return rows == MAP_FAILED ? NULL : rows;
}

void replay_rows_destroy(struct replay_row *rows, size_t count)
{
    if (rows != NULL) {
        munmap(rows, count * sizeof *rows);
    }
}

/* The child's part. Names are copied: what the allocator owns ends with the child. */
static enum command_status measure_here(struct replay_row *row, const char *allocator_name,
                                        const char *backing_name)
{
    char message[REPLAY_MESSAGE_BYTES];
    struct replay_allocator *allocator =
        replay_allocator_create(allocator_name, backing_name, message);
    if (allocator == NULL) {
        fprintf(stderr, "hearth replay: %s\n", message);
        return COMMAND_BAD_INPUT;
    }
    snprintf(row->allocator, sizeof row->allocator, "%s", allocator->name);
    snprintf(row->backing, sizeof row->backing, "%s",
             allocator->backing != NULL ? allocator->backing : "");
    row->knows_page_events = allocator->knows_page_events;
    row->has_arenas = allocator->has_arenas;
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

static enum command_status wait_for(pid_t child, const struct trace *trace)
{
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            perror("hearth replay: waitpid");
            return COMMAND_ERRORS;
        }
    }
    if (WIFSIGNALED(status)) {
        int number = WTERMSIG(status);
        fprintf(stderr, "hearth replay: %s: the measurement was ended by signal %d (%s)%s\n",
                trace->path, number, strsignal(number),
                number == SIGKILL ? "; if memory ran out, lower --threads" : "");
        return COMMAND_ERRORS;
    }
    switch (WEXITSTATUS(status)) {
    case COMMAND_OK:
        return COMMAND_OK;
    case COMMAND_BAD_INPUT:
        return COMMAND_BAD_INPUT;
    default: /* A sanitizer's report has exit statuses of its own. */
        return COMMAND_ERRORS;
    }
}

enum command_status replay_measure(struct replay_row *row, const char *allocator,
                                   const char *backing)
{
    pid_t parent = getpid();
    pid_t child = fork();
    if (child < 0) {
        perror("hearth replay: fork");
        return COMMAND_ERRORS;
    }
    if (child > 0) {
        return wait_for(child, row->job.trace);
    }
    /* Nobody else would stop it; the second look is for a parent that was gone before the call. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(COMMAND_ERRORS);
    }
    exit((int)measure_here(row, allocator, backing));
}
