/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel for all nodes. It reads its inputs to the last word, makes outputs and workspaces in one of the ways
 * there are, fills them, and reads everything once more: a buffer that has two users at a time has the wrong
 * stamp for one of them. Nothing here orders one node before another, so ThreadSanitizer sees whether the
 * runtime does.
 */
#include "kernel.h"

#include "../harness.h"
#include "graph.h"
#include "step.h"

#include <hearth/context.h>
#include <hearth/kernel.h>
#include <hearth/session.h>

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct hearth_shape stamp_shape(size_t bytes)
{
    struct hearth_shape shape = HEARTH_SHAPE_INIT;
    shape.rank = 1;
    shape.dims[0] = (int64_t)(bytes / sizeof(uint64_t));
    return shape;
}

void stamp_fill(void *data, size_t bytes, uint64_t stamp)
{
    uint64_t *words = data;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = stamp;
}

bool stamp_filled(const void *data, size_t bytes, uint64_t stamp)
{
    const uint64_t *words = data;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != stamp)
            return false;
    return true;
}

uint64_t step_draw(const struct step *self, enum draw what, uint64_t bound)
{
    return graph_mix(self->run->seed, self->node->id, what) % bound;
}

enum hearth_status step_judge(const struct step *self, enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK && (status != HEARTH_NO_MEMORY || !self->run->tight))
        stress_violation("%s of %s was answered %s", what, self->node->name,
                         hearth_status_name(status));
    return status;
}

static void pause_now(const struct step *self)
{
    static const struct timespec moment = {0, 30000};
    uint64_t draws = step_draw(self, DRAW_PAUSE, 64);
    if (draws == 0)
        (void)nanosleep(&moment, NULL);
    else if (draws < 8)
        (void)sched_yield();
}

static void check_input(struct step *self, uint32_t slot)
{
    uint32_t value = self->node->inputs[slot];
    const struct graph *graph = self->node->graph;
    const struct hearth_tensor *tensor = self->in[slot];
    const uint64_t *words = hearth_tensor_data(tensor);
    size_t bytes = hearth_tensor_size(tensor);
    if (words == NULL || bytes < sizeof *words) {
        stress_violation("input %u of %s is not there", slot, self->node->name);
        return;
    }
    self->stamps[slot] = words[0];
    if (graph->depth == 0 && words[0] != self->run->stamps[value])
        stress_violation("input %s of %s is another value's", graph->values[value].name,
                         self->node->name);
    else if (!stamp_filled(words, bytes, words[0]))
        stress_violation("input %s of %s was written to by somebody else",
                         graph->values[value].name, self->node->name);
    if (!graph->values[value].loop && (graph->depth == 0 || !graph->values[value].initial) &&
        bytes != graph_bytes(self->run, graph, value))
        stress_violation("input %s of %s has %zu bytes", graph->values[value].name,
                         self->node->name, bytes);
}

static void read_inputs(struct step *self)
{
    for (uint32_t slot = 0; slot + 1 < self->node->input_count; slot++) {
        self->in[slot] = hearth_context_input(self->context, slot);
        if (self->node->inputs[slot] != GRAPH_NONE)
            check_input(self, slot);
        else if (self->in[slot] != NULL)
            stress_violation("%s has an input that it does not use", self->node->name);
    }
}

static void check_inputs_again(const struct step *self)
{
    for (uint32_t slot = 0; slot + 1 < self->node->input_count; slot++)
        if (self->in[slot] != NULL &&
            !stamp_filled(hearth_tensor_data(self->in[slot]), hearth_tensor_size(self->in[slot]),
                          self->stamps[slot]))
            stress_violation("input %u of %s changed while it ran", slot, self->node->name);
}

static enum hearth_status make_output(struct step *self, uint32_t slot, size_t bytes)
{
    struct hearth_shape shape = stamp_shape(bytes);
    uint64_t way = step_draw(self, DRAW_WAY, 16);
    enum hearth_status status = HEARTH_OK;
    /* Twice: the first one goes. */
    for (unsigned times = way == 0 ? 2 : 1; times > 0 && status == HEARTH_OK; times--)
        status = way % 2 == 0
                     ? hearth_context_make_output(self->context, slot, HEARTH_DTYPE_UINT64, &shape,
                                                  &self->out[slot])
                     : hearth_context_make_output_sized(self->context, slot, HEARTH_DTYPE_UINT64,
                                                        &shape, bytes, &self->out[slot]);
    return step_judge(self, status, "an output");
}

static enum hearth_status reuse(struct step *self, uint32_t slot, uint32_t input, size_t bytes)
{
    struct hearth_shape shape = stamp_shape(bytes);
    size_t before = hearth_tensor_size(self->in[input]);
    bool can = hearth_context_can_reuse(self->context, input, slot);
    enum hearth_status status = hearth_context_make_output_in_place(
        self->context, input, slot, HEARTH_DTYPE_UINT64, &shape, &self->out[slot]);
    if (status != HEARTH_OK) {
        self->out[slot] = NULL;
        if (status != HEARTH_INVALID && (status != HEARTH_NOT_OWNER || bytes == before))
            stress_violation("an output in place was answered %s", hearth_status_name(status));
        if (can && status == HEARTH_INVALID && bytes <= before)
            stress_violation("an input that can be reused is not");
        return status;
    }
    if (!can)
        stress_violation("an input that cannot be reused is");
    self->in[input] = NULL;
    if (!stamp_filled(hearth_tensor_data(self->out[slot]), bytes < before ? bytes : before,
                      self->stamps[input]))
        stress_violation("the content was not kept in place");
    return HEARTH_OK;
}

static enum hearth_status make_in_place(struct step *self, uint32_t slot, size_t bytes)
{
    for (uint32_t input = 0; input + 1 < self->node->input_count; input++)
        if (self->in[input] != NULL && reuse(self, slot, input, bytes) == HEARTH_OK)
            return HEARTH_OK;
    return make_output(self, slot, bytes);
}

static struct hearth_allocator *some_allocator(const struct step *self, uint32_t slot, uint64_t way)
{
    if (self->node->kind == GRAPH_OLD) {
        if (way == 0)
            (void)hearth_context_set_allocator(self->context,
                                               hearth_context_io_allocator(self->context));
        return hearth_context_allocator(self->context);
    }
    struct hearth_allocator *own = hearth_context_allocator_for_output(self->context, slot);
    if (way == 1 || own == NULL)
        return hearth_context_execution_allocator(self->context);
    return way == 2 ? hearth_context_io_allocator(self->context) : own;
}

/* A tensor of the kernel's own, from an allocator or (borrowed) from `memory`. */
static enum hearth_status put_output(struct step *self, uint32_t slot, size_t bytes)
{
    struct hearth_shape shape = stamp_shape(bytes);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    uint64_t way = step_draw(self, DRAW_WAY, 6);
    bool borrowed = self->node->kind == GRAPH_PUT && way == 3;
    uint64_t stamp = graph_stamp(self->node, slot, self->stamps);
    void *memory = borrowed ? malloc(bytes) : NULL;
    enum hearth_status status;
    if (borrowed)
        status = hearth_tensor_borrow(memory, bytes, HEARTH_DTYPE_UINT64, &shape, &tensor);
    else
        status = hearth_tensor_make(some_allocator(self, slot, way), HEARTH_DTYPE_UINT64, &shape, 0,
                                    &tensor);
    if (step_judge(self, status, "a tensor") == HEARTH_OK) {
        stamp_fill(hearth_tensor_data(&tensor), bytes, stamp);
        status = step_judge(self, hearth_context_put_output(self->context, slot, &tensor), "a put");
    }
    if (borrowed)
        stamp_fill(memory, bytes, 0);
    (void)hearth_tensor_reset(&tensor);
    free(memory);
    if (status != HEARTH_OK)
        return status;
    self->out[slot] = hearth_context_output(self->context, slot);
    if (hearth_tensor_size(self->out[slot]) != bytes ||
        !stamp_filled(hearth_tensor_data(self->out[slot]), bytes, stamp))
        stress_violation("an output that was put is not what was put");
    return HEARTH_OK;
}

static enum hearth_status make_outputs(struct step *self)
{
    enum hearth_status status = HEARTH_OK;
    bool loop = self->node->kind == GRAPH_BODY; /* makes output 0 itself */
    for (uint32_t slot = loop; slot < self->node->output_count && status == HEARTH_OK; slot++) {
        if (self->node->outputs[slot] == GRAPH_NONE)
            continue;
        size_t bytes = graph_bytes(self->run, self->node->graph, self->node->outputs[slot]);
        if (self->node->kind == GRAPH_IN_PLACE)
            status = make_in_place(self, slot, bytes);
        else if (self->node->kind == GRAPH_PUT || self->node->kind == GRAPH_OLD)
            status = put_output(self, slot, bytes);
        else
            status = make_output(self, slot, bytes);
    }
    return status;
}

static uint64_t temporary_stamp(const struct step *self, uint32_t i)
{
    return graph_mix(self->run->seed, self->node->id, DRAW_TEMPORARY + 100 + i);
}

static enum hearth_status make_temporaries(struct step *self)
{
    for (uint32_t i = 0; i < self->node->temporaries; i++) {
        size_t bytes = sizeof(uint64_t) << step_draw(self, DRAW_TEMPORARY, 11);
        enum hearth_status status =
            hearth_context_make_temporary(self->context, bytes, &self->temporaries[i]);
        if (step_judge(self, status, "a workspace") != HEARTH_OK)
            return status;
        stamp_fill(hearth_buf_data(self->temporaries[i]), bytes, temporary_stamp(self, i));
    }
    return HEARTH_OK;
}

static void check_temporaries(const struct step *self)
{
    for (uint32_t i = 0; i < self->node->temporaries; i++) {
        const struct hearth_buf *buf = self->temporaries[i];
        if (!stamp_filled(hearth_buf_data(buf), hearth_buf_size(buf), temporary_stamp(self, i)))
            stress_violation("a workspace of %s was written to", self->node->name);
        if (i == 0 && step_draw(self, DRAW_TEMPORARY, 2) == 0)
            (void)step_judge(self,
                             hearth_context_free_temporary(self->context, self->temporaries[i]),
                             "the return of a workspace");
    }
}

static void fill_outputs(const struct step *self)
{
    for (uint32_t slot = 0; slot < self->node->output_count; slot++)
        if (self->out[slot] != NULL)
            stamp_fill(hearth_tensor_data(self->out[slot]), hearth_tensor_size(self->out[slot]),
                       graph_stamp(self->node, slot, self->stamps));
}

static void check_outputs(const struct step *self)
{
    for (uint32_t slot = 0; slot < self->node->output_count; slot++)
        if (self->out[slot] != NULL &&
            !stamp_filled(hearth_tensor_data(self->out[slot]), hearth_tensor_size(self->out[slot]),
                          graph_stamp(self->node, slot, self->stamps)))
            stress_violation("output %u of %s was written to by somebody else", slot,
                             self->node->name);
}

/* Whatever a kernel may not do to the run that it is in. */
static void probe(const struct step *self)
{
    if (step_draw(self, DRAW_PROBE, 100) != 0)
        return;
    if (hearth_session_destroy(self->run->session) != HEARTH_BUSY)
        stress_violation("a session was ended inside its run");
    if (hearth_context_destroy(self->run->context) != HEARTH_BUSY ||
        hearth_context_destroy(self->context) != HEARTH_BUSY)
        stress_violation("a context was ended inside its run");
    if (hearth_session_run(self->run->session, self->run->context, NULL) != HEARTH_BUSY)
        stress_violation("a context was run inside its run");
}

static enum hearth_status fail(const struct step *self, uint64_t place)
{
    uint32_t id = self->node->id;
    if (!run_fails(self->run, id) || place != step_draw(self, DRAW_FAIL, 3))
        return HEARTH_OK;
    atomic_fetch_or_explicit(&self->run->failed[id / 64], UINT64_C(1) << id % 64,
                             memory_order_relaxed);
    return (enum hearth_status)(GRAPH_FAILURE + (int)id);
}

static struct run *run_of(struct hearth_context *context, const struct graph_node *node)
{
    const struct hearth_tensor *tensor = hearth_context_input(context, node->input_count - 1);
    struct run *const *place = hearth_tensor_data(tensor);
    return place == NULL ? NULL : *place;
}

enum hearth_status stress_kernel(struct hearth_context *context, void *user)
{
    struct step self = {.context = context, .node = user};
    self.run = run_of(context, self.node);
    if (self.run == NULL) {
        stress_violation("%s has no run", self.node->name);
        return HEARTH_INVALID;
    }
    (void)atomic_fetch_add_explicit(&self.run->ran[self.node->id], 1, memory_order_relaxed);
    enum hearth_status status = fail(&self, 0);
    read_inputs(&self);
    probe(&self);
    if (status == HEARTH_OK)
        status = make_outputs(&self);
    if (status == HEARTH_OK)
        status = make_temporaries(&self);
    if (status == HEARTH_OK)
        status = fail(&self, 1);
    if (status == HEARTH_OK && self.node->kind == GRAPH_BODY)
        status = step_loop(&self);
    if (status != HEARTH_OK)
        return status;
    fill_outputs(&self);
    pause_now(&self);
    check_temporaries(&self);
    check_outputs(&self);
    check_inputs_again(&self);
    if (self.node->graph->depth == 0)
        self.run->done[self.node->id]++;
    return fail(&self, 2);
}
