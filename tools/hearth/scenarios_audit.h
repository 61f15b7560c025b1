/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run followed event by event: every value is made once with the bytes that the description says, lives as
 * long as somebody needs it, and dies once; and the peak is what the events add up to.
 */
#ifndef HEARTH_TOOL_SCENARIOS_AUDIT_H
#define HEARTH_TOOL_SCENARIOS_AUDIT_H

#include "scenarios_graph.h"

#include <hearth/events.h>

struct scenario_record;

struct scenario_audit {
    struct hearth_event_handler handler; /* for the context */
    const struct scenario_graph *graph;  /* of the run that is recorded; NULL: none is */
    uint32_t threads;
    struct scenario_record *records; /* a part for each thread */
    uint32_t *counts;                /* by thread */
};

/** `threads`: most that run nodes at the same time. Returns false when memory ran out. */
bool scenario_audit_init(struct scenario_audit *audit, uint32_t threads);
void scenario_audit_fini(struct scenario_audit *audit);

/** Record the next run. Thread: nobody runs. */
void scenario_audit_begin(struct scenario_audit *audit, const struct scenario_graph *graph);

/**
 * Stop, and judge what was recorded. `peak` is the run's own figure for execution arenas, `serial` whether one
 * thread ran all nodes, so that it must be exact. Returns what was wrong in one static line, or NULL.
 */
const char *scenario_audit_end(struct scenario_audit *audit, uint64_t peak, bool serial);

#endif
