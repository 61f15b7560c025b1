/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights, inputs, and what the outputs must be: the graph computed node after node on plain malloc.
 * Consecutive runs get different inputs, so that an output that a later run overwrote differs from what it
 * was.
 */
#ifndef HEARTH_TOOL_SCENARIOS_REFERENCE_H
#define HEARTH_TOOL_SCENARIOS_REFERENCE_H

#include "scenarios_graph.h"

/* Different inputs of each shape. */
#define SCENARIO_VARIANTS 5u

struct scenario_weights {
    float *data[SCENARIO_VALUES_MAX]; /* by value; NULL for what is no weight */
};

/* One input with its outputs. */
struct scenario_reference {
    float *input;
    float *outputs[SCENARIO_OUTPUTS_MAX];
};

/** Returns false, with nothing to free, when memory ran out. */
bool scenario_weights_create(const struct scenario_graph *graph, uint64_t seed,
                             struct scenario_weights *weights);
void scenario_weights_destroy(struct scenario_weights *weights);

/** Returns false, with nothing to free, when memory ran out. */
bool scenario_reference_create(const struct scenario_graph *graph,
                               const struct scenario_weights *weights, uint64_t seed,
                               struct scenario_reference *reference);
void scenario_reference_destroy(struct scenario_reference *reference);

/** A checksum of all bytes; `bytes` is a multiple of 4. */
uint64_t scenario_sum(const void *data, size_t bytes);

#endif
