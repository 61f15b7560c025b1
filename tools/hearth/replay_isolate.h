/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements in processes of their own: each starts with cold memory and an allocator that nobody
 * used before, and one that crashes takes nothing with it.
 */
#ifndef HEARTH_TOOL_REPLAY_ISOLATE_H
#define HEARTH_TOOL_REPLAY_ISOLATE_H

#include "command.h"
#include "replay_report.h"

#include <stddef.h>

/** Zeroed rows that parent and children see alike; NULL when there is no memory. */
struct replay_row *replay_rows_create(size_t count);

void replay_rows_destroy(struct replay_row *rows, size_t count);

/**
 * Measure row->job in a child process and fill the rest of the row, which must come from
 * replay_rows_create(). Anything but COMMAND_OK was explained on stderr. Thread: there must be no other in
 * the process.
 */
enum command_status replay_measure(struct replay_row *row, const struct replay_subject *subject);

/** Give a row's result to the process that started this one with --row-fd. */
bool replay_row_send(const struct replay_row *row, int fd);

#endif
