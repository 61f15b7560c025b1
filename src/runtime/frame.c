/* SPDX-License-Identifier: Apache-2.0 */
/* Frames: what a node's kernel sees, and what is put in order when it returns. */
#include "runtime/slots.h"

#include <string.h>

void hearth__frame_init(struct hearth__frame *frame, struct hearth__run *run, uint32_t thread)
{
    /* Not the array of workspaces: it is written before it is read. */
    memset(frame, 0, offsetof(struct hearth__frame, temporaries));
    frame->context.kind = HEARTH__CONTEXT_NODE;
    frame->run = run;
    frame->thread = thread;
    frame->execution = run->execution;
}

/* The thread's arena: looked up for each node, since a kernel or an executor may detach the thread in between. */
static bool find_arena(struct hearth__frame *frame)
{
    struct hearth__run *run = frame->run;
    if (run->execution != NULL || run->service == NULL)
        return true;
    struct hearth_exec *arena = NULL;
    enum hearth_status status = run->depth == 0
                                    ? hearth_service_exec(run->service, &arena)
                                    : hearth_service_child_exec(run->service, run->depth, &arena);
    frame->execution = hearth_exec_allocator(arena);
    if (hearth__unlikely(status != HEARTH_OK))
        hearth__run_fail(run, status, "node \"%.60s\" (%u): its thread has no execution arena: %s",
                         frame->node->name, frame->index, hearth_status_name(status));
    return status == HEARTH_OK;
}

/* Workspaces. Those that the array has no room for are listed in an execution buffer, so that no kernel makes the
 * runtime allocate memory of another kind. */

#define MORE_BYTES ((size_t)4096)
#define MORE_ROOM (MORE_BYTES / sizeof(struct hearth__workspace))

static struct hearth__workspace *temporary_at(struct hearth__frame *frame, uint32_t index)
{
    if (index < HEARTH__TEMPORARIES)
        return &frame->temporaries[index];
    return (struct hearth__workspace *)hearth_buf_data(frame->more) + (index - HEARTH__TEMPORARIES);
}

enum hearth_status hearth_context_make_temporary(struct hearth_context *context, size_t bytes,
                                                 struct hearth_buf **buf)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL || buf == NULL || frame->execution == NULL)
        return HEARTH_INVALID;
    *buf = NULL;
    uint32_t count = frame->temporary_count;
    enum hearth_status status = HEARTH_OK;
    if (count == HEARTH__TEMPORARIES && frame->more == NULL)
        status = hearth_alloc(frame->execution, MORE_BYTES, &frame->more);
    else if (count == HEARTH__TEMPORARIES + MORE_ROOM)
        status = HEARTH_NO_SLOT;
    if (status == HEARTH_OK)
        status = hearth_alloc(frame->execution, bytes, buf);
    if (status != HEARTH_OK)
        return status;
    *temporary_at(frame, count) = (struct hearth__workspace){*buf, bytes};
    if (frame->run->demand != NULL && count < HEARTH__WORKSPACES_LEARNED)
        hearth__demand_note(
            &frame->run->demand
                 ->workspaces[frame->index * (size_t)HEARTH__WORKSPACES_LEARNED + count],
            bytes);
    frame->temporary_count++;
    frame->tally.temporaries++;
    hearth__gauge_add(frame->run->gauge, HEARTH__DOMAIN_EXECUTION, bytes);
    return HEARTH_OK;
}

static enum hearth_status free_temporary(struct hearth__frame *frame,
                                         struct hearth__workspace workspace)
{
    hearth__gauge_sub(frame->run->gauge, HEARTH__DOMAIN_EXECUTION, workspace.bytes);
    return hearth_free(frame->execution, workspace.buf);
}

enum hearth_status hearth_context_free_temporary(struct hearth_context *context,
                                                 struct hearth_buf *buf)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL)
        return HEARTH_INVALID;
    /* From the end: workspaces are mostly returned in the reverse order. */
    for (uint32_t i = frame->temporary_count; buf != NULL && i-- > 0;) {
        struct hearth__workspace workspace = *temporary_at(frame, i);
        if (workspace.buf != buf)
            continue;
        frame->temporary_count--;
        *temporary_at(frame, i) = *temporary_at(frame, frame->temporary_count);
        return free_temporary(frame, workspace);
    }
    return HEARTH_FOREIGN;
}

static void free_temporaries(struct hearth__frame *frame)
{
    while (frame->temporary_count > 0)
        (void)free_temporary(frame, *temporary_at(frame, --frame->temporary_count));
    if (hearth__unlikely(frame->more != NULL)) {
        (void)hearth_free(frame->execution, frame->more);
        frame->more = NULL;
    }
}

/* Allocators of the frame. */

struct hearth_allocator *hearth_context_execution_allocator(const struct hearth_context *context)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (frame != NULL)
        return frame->execution;
    return context == NULL ? NULL
                           : hearth__holder_execution(
                                 hearth__holder_of((struct hearth_context *)(uintptr_t)context));
}

struct hearth_allocator *hearth_context_io_allocator(const struct hearth_context *context)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (frame != NULL)
        return frame->run->io;
    return context == NULL
               ? NULL
               : hearth__holder_io(hearth__holder_of((struct hearth_context *)(uintptr_t)context));
}

struct hearth_allocator *hearth_context_allocator(const struct hearth_context *context)
{
    const struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL)
        return hearth_context_execution_allocator(context);
    if (frame->active != NULL)
        return frame->active;
    if (!frame->node->all_outputs_io)
        return frame->execution;
    /* All outputs have one role in this graph; in a body, they may be routed to several. */
    uint32_t slot = 0;
    while (frame->run->plan->outputs[frame->node->outputs.first + slot].value == HEARTH__NO_VALUE)
        slot++;
    return hearth__slot_allocator(frame, slot);
}

enum hearth_status hearth_context_set_allocator(struct hearth_context *context,
                                                struct hearth_allocator *allocator)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL)
        return HEARTH_INVALID;
    frame->active = allocator;
    return HEARTH_OK;
}

void hearth__adrift_land(struct hearth__frame *frame, enum hearth__domain domain, size_t bytes)
{
    if (frame->adrift[domain] < bytes)
        domain = domain == HEARTH__DOMAIN_IO ? HEARTH__DOMAIN_EXECUTION : HEARTH__DOMAIN_IO;
    if (frame->adrift[domain] < bytes)
        return;
    frame->adrift[domain] -= bytes;
    hearth__gauge_sub(frame->run->gauge, domain, bytes);
}

void hearth__adrift_settle(struct hearth__frame *frame)
{
    for (int domain = HEARTH__DOMAIN_EXECUTION; domain <= HEARTH__DOMAIN_IO; domain++) {
        hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)domain, frame->adrift[domain]);
        frame->adrift[domain] = 0;
    }
}

/* After the kernel. */

/* Every used slot must have a value, and what a kernel put there behind the slots' back is brought to its place. */
static void check_outputs(struct hearth__frame *frame)
{
    struct hearth__run *run = frame->run;
    for (uint32_t slot = 0; slot < frame->node->outputs.count; slot++) {
        const struct hearth__output_slot *output =
            &run->plan->outputs[frame->node->outputs.first + slot];
        if (output->value == HEARTH__NO_VALUE)
            continue;
        struct hearth__value *value = &run->holder->values[output->value];
        if (hearth__unlikely(hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE)) {
            hearth__run_fail(run, HEARTH_INVALID,
                             "node \"%.60s\" (%u) left its output \"%.60s\" without a value",
                             frame->node->name, frame->index,
                             hearth__value_name(run, output->value));
            return;
        }
        enum hearth_status status = hearth__slot_check(frame, slot);
        if (hearth__unlikely(status != HEARTH_OK)) {
            hearth__run_fail(
                run, status,
                "output \"%.60s\" of node \"%.60s\" (%u) could not be moved to its arena: %s",
                hearth__value_name(run, output->value), frame->node->name, frame->index,
                hearth_status_name(status));
            return;
        }
    }
}

/* What a body of the kernel failed with last, if the kernel passed it on; "". */
static const char *body_error(const struct hearth__frame *frame, enum hearth_status status)
{
    const struct hearth__holder *body = frame->bodies;
    while (body != NULL && (body->error[0] == '\0' || body->error_status != status))
        body = body->next;
    return body == NULL ? "" : body->error;
}

static void kernel_failed(const struct hearth__frame *frame, enum hearth_status status)
{
    const char *refused =
        frame->refused == HEARTH__NO_VALUE ? "" : hearth__value_name(frame->run, frame->refused);
    const char *body = body_error(frame, status);
    if (*body != '\0') { /* the cause comes first: what is cut off is who called whom */
        hearth__run_fail(frame->run, status, "%s; in a body of node \"%.60s\" (%u)", body,
                         frame->node->name, frame->index);
        return;
    }
    hearth__run_fail(frame->run, status, "node \"%.60s\" (%u): its kernel answered %s%s%.60s%s",
                     frame->node->name, frame->index, hearth_status_name(status),
                     *refused == '\0' ? "" : "; it was refused its output \"", refused,
                     *refused == '\0' ? "" : "\"");
}

static uint64_t count_step(struct hearth__gauge *gauge)
{
    if (gauge->shared)
        return hearth__fetch_add_relaxed(&gauge->steps, 1);
    uint64_t step = hearth__load_relaxed(&gauge->steps);
    hearth__store_relaxed(&gauge->steps, step + 1);
    return step;
}

void hearth__frame_run(struct hearth__frame *frame, uint32_t node)
{
    struct hearth__run *run = frame->run;
    frame->node = &run->plan->nodes[node];
    frame->index = node;
    frame->active = NULL;
    frame->refused = HEARTH__NO_VALUE;
    frame->step = count_step(run->gauge);
    frame->tally.nodes++;
    hearth__event(run, frame, HEARTH_EVENT_NODE_BEGIN, NULL, 0);
    if (hearth__unlikely(!find_arena(frame)))
        return;
    enum hearth_status status = frame->node->kernel(&frame->context, frame->node->user);
    if (hearth__unlikely(status != HEARTH_OK))
        kernel_failed(frame, status);
    if (hearth__unlikely(frame->bodies != NULL)) {
        hearth__bodies_return(frame);
        hearth__adrift_settle(frame);
    }
    free_temporaries(frame);
    if (hearth__likely(status == HEARTH_OK))
        check_outputs(frame);
}

void hearth__value_dies(struct hearth__frame *frame, uint32_t number)
{
    struct hearth__value *value = &frame->run->holder->values[number];
    size_t bytes = value->counted;
    if (hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE)
        return; /* reused in place */
    hearth__gauge_sub(frame->run->gauge, (enum hearth__domain)value->domain, bytes);
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
    frame->tally.released++;
    frame->tally.remote_deaths += value->thread != frame->thread;
    (void)hearth_tensor_reset(&value->tensor);
    hearth__event(frame->run, frame, HEARTH_EVENT_RELEASED, hearth__value_name(frame->run, number),
                  bytes);
}
