/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes compute, on plain memory: hearth's kernels and the reference run the same code. */
#ifndef HEARTH_TOOL_SCENARIOS_KERNELS_H
#define HEARTH_TOOL_SCENARIOS_KERNELS_H

#include "scenarios_graph.h"

/* One node with its memory. An output may be the first input's memory where scenario_reuses(). */
struct scenario_call {
    const struct scenario_graph *graph;
    const struct scenario_node *node;
    const float *inputs[SCENARIO_SLOTS_MAX];
    float *outputs[2];
    void *workspace;
};

/** Allocates nothing; the same inputs give the same bits. */
void scenario_compute(const struct scenario_call *call);

/** Make the BLAS in use do without threads of its own. */
void scenario_blas_init(void);

/** What multiplies matrices: the library's folder and file, or "none (plain C loop)". */
void scenario_blas_name(char *name, size_t bytes);

#endif
