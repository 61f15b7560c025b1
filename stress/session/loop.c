/* SPDX-License-Identifier: Apache-2.0 */
/* Loops over a body: the state goes in and comes out by moving, everything else is lent. */
#include "../harness.h"
#include "kernel.h"
#include "step.h"

#include <hearth/context.h>
#include <hearth/kernel.h>
#include <hearth/tensor.h>

static enum hearth_status trip(struct step *self, struct hearth_context *body,
                               struct hearth_tensor *state, bool lend)
{
    const struct graph *graph = self->node->body;
    const struct hearth_tensor *run =
        hearth_context_input(self->context, self->node->input_count - 1);
    const struct graph_value *next = &graph->values[graph->declared[0]];
    enum hearth_status status = hearth_context_put(body, graph->values[1].name, state);
    (void)step_judge(self, status, "the state's way in");
    if (status == HEARTH_OK && lend) {
        status = hearth_context_lend(body, graph->values[0].name, run);
        (void)step_judge(self, status, "lending the run");
        if (status == HEARTH_OK)
            status = step_judge(self, hearth_context_lend(body, graph->values[2].name, self->in[0]),
                                "lending an input");
    }
    if (status == HEARTH_OK)
        status = hearth_context_run_body(body);
    if (status == HEARTH_OK)
        status =
            step_judge(self, hearth_context_take(body, next->name, state), "the state's way out");
    return status;
}

static enum hearth_status make_state(struct step *self, struct hearth_tensor *state)
{
    size_t bytes = graph_bytes(self->run, self->node->graph, self->node->outputs[0]);
    struct hearth_shape shape = stamp_shape(bytes);
    struct hearth_allocator *allocator = step_draw(self, DRAW_WAY, 4) == 0
                                             ? hearth_context_io_allocator(self->context)
                                             : hearth_context_execution_allocator(self->context);
    enum hearth_status status =
        hearth_tensor_make(allocator, HEARTH_DTYPE_UINT64, &shape, 0, state);
    if (step_judge(self, status, "a state") == HEARTH_OK)
        stamp_fill(hearth_tensor_data(state), bytes, graph_state(self->node, self->stamps));
    return status;
}

static void check_state(const struct step *self, const struct hearth_tensor *state)
{
    const uint64_t *words = hearth_tensor_data(state);
    if (words == NULL || !stamp_filled(words, hearth_tensor_size(state), words[0]))
        stress_violation("a state was written to by somebody else");
    else if (self->node->graph->depth == 0 && words[0] != self->run->stamps[self->node->outputs[0]])
        stress_violation("the loop %s ends in another state", self->node->name);
}

enum hearth_status step_loop(struct step *self)
{
    struct hearth_tensor state = HEARTH_TENSOR_INIT;
    struct hearth_context *body = NULL;
    const struct graph *graph = self->node->body;
    enum hearth_status status =
        step_judge(self, hearth_context_body(self->context, 0, &body), "a body");
    if (status == HEARTH_OK && step_draw(self, DRAW_ROUTE, 2) == 0)
        status = step_judge(
            self, hearth_context_route_output(body, graph->values[graph->declared[0]].name, 0),
            "a route");
    if (status == HEARTH_OK)
        status = make_state(self, &state);
    uint32_t trips = graph_trips(self->run, self->node);
    bool again = step_draw(self, DRAW_ROUTE, 3) == 0;
    for (uint32_t i = 0; i < trips && status == HEARTH_OK; i++)
        status = trip(self, body, &state, i == 0 || again);
    if (status == HEARTH_OK) {
        check_state(self, &state);
        status =
            step_judge(self, hearth_context_put_output(self->context, 0, &state), "a last state");
    }
    (void)hearth_tensor_reset(&state);
    return status;
}
