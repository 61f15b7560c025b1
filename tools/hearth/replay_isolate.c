/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_isolate.h"

#include "isolate.h"
#include "replay.h"

#include <stdio.h>

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
    const char *allocator;
    const char *backing;
};

/* The child's part. Names are copied: what the allocator owns ends with the child. */
static enum command_status measure_here(void *argument)
{
    const struct measurement *measurement = argument;
    struct replay_row *row = measurement->row;
    char message[REPLAY_MESSAGE_BYTES];
    struct replay_allocator *allocator =
        replay_allocator_create(measurement->allocator, measurement->backing, message);
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

enum command_status replay_measure(struct replay_row *row, const char *allocator,
                                   const char *backing)
{
    struct measurement measurement = {.row = row, .allocator = allocator, .backing = backing};
    char what[REPLAY_MESSAGE_BYTES];
    snprintf(what, sizeof what, "hearth replay: %s", row->job.trace->path);
    return isolate_call(what, measure_here, &measurement);
}
