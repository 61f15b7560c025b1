/* SPDX-License-Identifier: Apache-2.0 */
/* Results as a JSON array or as a table. */
#ifndef HEARTH_TOOL_REPLAY_REPORT_H
#define HEARTH_TOOL_REPLAY_REPORT_H

#include "replay.h"

#include <stdbool.h>
#include <stddef.h>

/* One measurement: what was asked and what came out. */
struct replay_row {
    struct replay_job job; /* Its allocator lives in the process that measures only. */
    struct replay_result result;
    char allocator[32];
    char backing[32]; /* Empty: it has none that can be chosen. */
    bool knows_page_events;
    bool has_arenas;
};

/** Print all rows to standard output. False: out of memory or standard output is broken. */
bool replay_report_json(const struct replay_row *rows, size_t count);
bool replay_report_table(const struct replay_row *rows, size_t count);

#endif
