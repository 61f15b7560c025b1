/* SPDX-License-Identifier: Apache-2.0 */
#include "run_support.h"

#include <stdio.h>
#include <string.h>

const uint32_t ramp[ELEMENTS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct hearth_shape shape_of(size_t count)
{
    return (struct hearth_shape){.dims = {(int64_t)count}, .rank = 1};
}

static void sum_into(uint32_t *out, size_t count, unsigned slot,
                     const struct hearth_tensor *const *inputs)
{
    for (size_t i = 0; i < count; i++)
        out[i] = 1 + slot;
    for (unsigned input = 0; input < OP_INPUTS; input++) {
        const uint32_t *data = hearth_tensor_data(inputs[input]);
        size_t length = hearth_tensor_size(inputs[input]) / sizeof *data;
        for (size_t i = 0; i < count && length; i++)
            out[i] += data[i % length];
    }
}

static enum hearth_status make_slot(struct hearth_context *context, struct op *op, unsigned slot,
                                    const struct hearth_tensor *const *inputs)
{
    size_t count = op->count[slot] ? op->count[slot] : hearth_tensor_size(inputs[0]) / 4;
    struct hearth_shape shape = shape_of(count);
    struct hearth_tensor *tensor = NULL;
    struct hearth_tensor own = HEARTH_TENSOR_INIT;
    op->predicted[slot] = hearth_context_allocator_for_output(context, slot);
    enum hearth_status status =
        op->old ? hearth_tensor_make(hearth_context_allocator(context), HEARTH_DTYPE_UINT32, &shape,
                                     0, &own)
                : hearth_context_make_output(context, slot, HEARTH_DTYPE_UINT32, &shape, &tensor);
    if (status != HEARTH_OK)
        return status;
    sum_into(hearth_tensor_data(op->old ? &own : tensor), count, slot, inputs);
    if (op->old) {
        op->made[slot] = hearth_tensor_data(&own);
        status = hearth_context_put_output(context, slot, &own);
        hearth_tensor_cleanup(&own);
    }
    const struct hearth_tensor *output = hearth_context_output(context, slot);
    op->out[slot] = hearth_tensor_allocator(output);
    op->out_kind[slot] = hearth_tensor_owner(output);
    op->out_data[slot] = hearth_tensor_data(output);
    return status;
}

enum hearth_status run_op(struct hearth_context *context, void *user)
{
    struct op plain = {0};
    struct op *op = user ? user : &plain;
    const struct hearth_tensor *inputs[OP_INPUTS];
    op->calls++;
    op->active = hearth_context_allocator(context);
    for (unsigned i = 0; i < OP_INPUTS; i++) {
        inputs[i] = hearth_context_input(context, i);
        op->in[i] = hearth_tensor_allocator(inputs[i]);
        op->in_kind[i] = hearth_tensor_owner(inputs[i]);
        op->in_data[i] = hearth_tensor_data(inputs[i]);
    }
    if (op->temporary) {
        struct hearth_buf *buf = NULL;
        enum hearth_status status = hearth_context_make_temporary(context, op->temporary, &buf);
        if (status != HEARTH_OK)
            return status;
        op->temporary_owner = hearth_buf_owner(buf);
        fill(buf, 0x5A);
    }
    for (unsigned slot = 0; slot < (op->outs ? op->outs : 1); slot++) {
        enum hearth_status status = make_slot(context, op, slot, inputs);
        if (status != HEARTH_OK)
            return status;
    }
    return op->fail;
}

enum hearth_status copy_op(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_tensor *input = hearth_context_input(context, 0);
    struct hearth_tensor *output = NULL;
    enum hearth_status status = hearth_context_make_output_sized(
        context, 0, hearth_tensor_dtype(input), hearth_tensor_shape(input),
        hearth_tensor_size(input), &output);
    if (status == HEARTH_OK && hearth_tensor_size(input))
        memcpy(hearth_tensor_data(output), hearth_tensor_data(input), hearth_tensor_size(input));
    return status;
}

/* Splits `text` in place at its spaces; "-" becomes "". */
static size_t split(char *text, const char **names, size_t room)
{
    size_t count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert_lt(count, room);
        names[count++] = strcmp(word, "-") == 0 ? "" : word;
    }
    return count;
}

static void add_row(struct hearth_plan_builder *builder, const struct row *row)
{
    char in[512], out[512];
    const char *inputs[64], *outputs[64];
    snprintf(in, sizeof in, "%s", row->inputs ? row->inputs : "");
    snprintf(out, sizeof out, "%s", row->outputs ? row->outputs : "");
    struct hearth_node node = HEARTH_NODE_INIT;
    node.name = row->name;
    node.inputs = inputs;
    node.input_count = split(in, inputs, COUNT_OF(inputs));
    node.outputs = outputs;
    node.output_count = split(out, outputs, COUNT_OF(outputs));
    node.kernel = row->kernel ? row->kernel : run_op;
    node.user = row->user;
    node.flags = row->flags;
    node.bodies = row->bodies;
    node.body_count = row->bodies[0] == NULL ? 0 : row->bodies[1] == NULL ? 1 : 2;
    EXPECT(HEARTH_OK, hearth_plan_builder_add_node(builder, &node, NULL));
}

struct hearth_plan *plan_of(const char *inputs, const char *outputs, const struct row *rows,
                            size_t count)
{
    char text[512], message[256] = "";
    const char *names[64];
    struct hearth_plan_builder *builder = NULL;
    struct hearth_plan *plan = NULL;
    EXPECT(HEARTH_OK, hearth_plan_builder_create(&builder));
    snprintf(text, sizeof text, "%s", inputs);
    size_t given = split(text, names, COUNT_OF(names));
    for (size_t i = 0; i < given; i++)
        EXPECT(HEARTH_OK, hearth_plan_builder_add_input(builder, names[i]));
    snprintf(text, sizeof text, "%s", outputs);
    given = split(text, names, COUNT_OF(names));
    for (size_t i = 0; i < given; i++)
        EXPECT(HEARTH_OK, hearth_plan_builder_add_output(builder, names[i]));
    for (size_t i = 0; i < count; i++)
        add_row(builder, &rows[i]);
    enum hearth_status status = hearth_plan_builder_build(builder, &plan, message, sizeof message);
    cr_assert_eq(status, HEARTH_OK, "%s: %s", hearth_status_name(status), message);
    hearth_plan_builder_destroy(builder);
    for (size_t i = 0; i < count; i++) {
        hearth_plan_unref(rows[i].bodies[0]);
        hearth_plan_unref(rows[i].bodies[1]);
    }
    return plan;
}

static void log_event(void *user, const struct hearth_event *event)
{
    struct event_log *log = user;
    pthread_mutex_lock(&log->lock);
    if (log->count < LOG_EVENTS) {
        struct logged *to = &log->events[log->count];
        *to = (struct logged){.kind = event->kind,
                              .thread = event->thread,
                              .step = event->step,
                              .node = event->node,
                              .bytes = event->bytes,
                              .execution_live = event->execution_live_bytes,
                              .execution_peak = event->execution_peak_bytes,
                              .io_live = event->io_live_bytes,
                              .io_peak = event->io_peak_bytes};
        snprintf(to->value, sizeof to->value, "%s", event->value ? event->value : "(null)");
    }
    log->count++;
    pthread_mutex_unlock(&log->lock);
}

void log_open(struct event_log *log)
{
    log->handler = (struct hearth_event_handler){log_event, log};
    pthread_mutex_init(&log->lock, NULL);
    log->count = 0;
}

void log_clear(struct event_log *log)
{
    pthread_mutex_lock(&log->lock);
    log->count = 0;
    pthread_mutex_unlock(&log->lock);
}

size_t log_about(struct event_log *log, enum hearth_event_kind kind, const char *value)
{
    size_t found = 0;
    pthread_mutex_lock(&log->lock);
    cr_assert_leq(log->count, LOG_EVENTS, "more events than the log holds");
    for (size_t i = 0; i < log->count; i++)
        found += log->events[i].kind == (uint32_t)kind &&
                 (value == NULL || strcmp(log->events[i].value, value) == 0);
    pthread_mutex_unlock(&log->lock);
    return found;
}

size_t log_count(struct event_log *log, enum hearth_event_kind kind)
{
    return log_about(log, kind, NULL);
}
