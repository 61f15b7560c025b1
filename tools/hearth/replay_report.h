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
    char store[16];   /* Likewise. */
    bool knows_page_events;
    bool has_arenas;
};

/** Whether it can have plans, and the share of requests that they served: of those in planned runs, and of all
 *  to execution arenas. */
bool replay_has_plans(const struct replay_row *row);
double replay_plan_share(const struct replay_plans *plans);
double replay_plan_share_of_all(const struct replay_plans *plans);

/** Print all rows to standard output. False: out of memory or standard output is broken. */
bool replay_report_json(const struct replay_row *rows, size_t count);
bool replay_report_table(const struct replay_row *rows, size_t count);

/** The table that compares stores. */
bool replay_report_stores(const struct replay_row *rows, size_t count);

#endif
