/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run should hold at its worst moment, computed from the description of the graph: nothing here asks
 * the runtime.
 */
#ifndef HEARTH_TOOL_SCENARIOS_MODEL_H
#define HEARTH_TOOL_SCENARIOS_MODEL_H

#include "scenarios_graph.h"

struct scenario_expected {
    size_t io_peak;    /* exact on any number of threads: outputs do not die in a run */
    size_t exec_peak;  /* exact for a serial run in the given order */
    size_t exec_least; /* no order of execution needs less ... */
    size_t exec_most;  /* ... or more, with so many threads */
    uint32_t reused;   /* outputs made in an input's storage */
};

/**
 * `order`: the nodes' numbers as a serial run starts them; on `threads` threads at the same time the bounds
 * hold. Serially, storage is taken when a node starts, its workspace with its outputs, and what it used last
 * is given back when it ends.
 */
void scenario_expect(const struct scenario_graph *graph, const uint32_t *order, uint32_t threads,
                     struct scenario_expected *expected);

#endif
