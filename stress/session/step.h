/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a stress kernel: what its parts share. */
#ifndef HEARTH_STRESS_SESSION_STEP_H
#define HEARTH_STRESS_SESSION_STEP_H

#include "graph.h"

#include <hearth/status.h>

#include <stdint.h>

struct hearth_buf;
struct hearth_context;
struct hearth_tensor;

#define TEMPORARIES_MOST 2u

/* What to draw from run and node. */
enum draw { DRAW_FAIL = 10, DRAW_PAUSE, DRAW_PROBE, DRAW_WAY, DRAW_TEMPORARY, DRAW_ROUTE };

struct step {
    struct hearth_context *context;
    const struct graph_node *node;
    struct run *run;
    const struct hearth_tensor *in[GRAPH_INPUTS_MOST]; /* NULL: not used, or reused in place */
    uint64_t stamps[GRAPH_INPUTS_MOST];
    struct hearth_tensor *out[GRAPH_OUTPUTS_MOST];
    struct hearth_buf *temporaries[TEMPORARIES_MOST];
};

/* A number below `bound` that belongs to run and node. */
uint64_t step_draw(const struct step *self, enum draw what, uint64_t bound);

/* A refusal ends the run where that may be; anything else is a violation, and ends it as well. */
enum hearth_status step_judge(const struct step *self, enum hearth_status status, const char *what);

/* Run the body as often as it must, and put the last state to output 0. */
enum hearth_status step_loop(struct step *self);

#endif
