/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies: contexts that a node's kernel runs on the same thread. They are kept by the session between uses, with
 * their room for values; their intermediates come from the thread's child arena of their depth.
 */
#include "runtime/session.h"

#include <string.h>

/* The body's context if `context` is one and the kernel may touch it. */
static struct hearth__holder *body_of(struct hearth_context *context)
{
    if (context == NULL || context->kind != HEARTH__CONTEXT_BODY)
        return NULL;
    struct hearth__holder *body = hearth__holder_of(context);
    return body->frame == NULL ? NULL : body; /* kept after the kernel returned */
}

enum hearth_status hearth_context_body(struct hearth_context *context, size_t index,
                                       struct hearth_context **body)
{
    struct hearth__frame *frame = hearth__frame_of(context);
    if (frame == NULL || body == NULL || index >= frame->node->bodies.count ||
        frame->run->service == NULL)
        return HEARTH_INVALID;
    struct hearth__holder *holder = frame->bodies;
    while (holder != NULL && holder->index != index)
        holder = holder->next;
    if (holder != NULL) {
        if (hearth__load_relaxed(&holder->busy) != 0)
            return HEARTH_BUSY;
        hearth__holder_clear(holder);
        *body = &holder->context;
        return HEARTH_OK;
    }
    struct hearth_plan *plan = frame->run->plan->bodies[frame->node->bodies.first + index];
    enum hearth_status status = hearth__session_body(frame->run->session, plan, &holder);
    if (status != HEARTH_OK)
        return status;
    holder->frame = frame;
    holder->index = (uint32_t)index;
    holder->next = frame->bodies;
    frame->bodies = holder;
    *body = &holder->context;
    return HEARTH_OK;
}

void hearth__bodies_return(struct hearth__frame *frame)
{
    while (frame->bodies != NULL) {
        struct hearth__holder *holder = frame->bodies;
        frame->bodies = holder->next;
        hearth__holder_clear(holder);
        hearth__tally_add(&frame->tally, &holder->between);
        memset(&holder->between, 0, sizeof(holder->between));
        hearth__holder_forget_routes(holder);
        holder->frame = NULL;
        holder->error[0] = '\0';
        hearth__session_return_body(frame->run->session, holder);
    }
}

enum hearth_status hearth_context_route_output(struct hearth_context *context, const char *name,
                                               size_t slot)
{
    struct hearth__holder *body = body_of(context);
    if (body == NULL || name == NULL)
        return HEARTH_INVALID;
    uint32_t number = hearth__names_find(&body->plan->names, name);
    const struct hearth__plan_node *node = body->frame->node;
    if (number == HEARTH__NO_NAME || !body->plan->values[number].is_output ||
        slot >= node->outputs.count ||
        body->frame->run->plan->outputs[node->outputs.first + slot].value == HEARTH__NO_VALUE)
        return HEARTH_INVALID;
    if (hearth__load_relaxed(&body->busy) != 0)
        return HEARTH_BUSY;

    body->routes[body->plan->values[number].output_index] = (uint32_t)slot;
    return HEARTH_OK;
}

static void note_depth(struct hearth__gauge *gauge, uint32_t depth)
{
    uint32_t deepest = hearth__load_relaxed(&gauge->deepest);
    while (depth > deepest && !hearth__cas_weak_relaxed(&gauge->deepest, &deepest, depth))
        ;
}

enum hearth_status hearth_context_run_body(struct hearth_context *context)
{
    struct hearth__holder *body = body_of(context);
    if (body == NULL)
        return HEARTH_INVALID;
    if (hearth__load_relaxed(&body->busy) != 0)
        return HEARTH_BUSY;
    struct hearth__frame *frame = body->frame;
    struct hearth__run run = {
        .holder = body,
        .plan = body->plan,
        .session = frame->run->session,
        .service = frame->run->service,
        .io = frame->run->io,
        .arena = frame->run->arena,
        .events = frame->run->events,
        .gauge = frame->run->gauge,
        .parent = frame,
        .depth = frame->run->depth + 1,
        .flags = frame->run->flags,
    };
    hearth__adrift_settle(frame);
    hearth__store_relaxed(&body->busy, 1);
    enum hearth_status status = hearth__run_serially(&run);
    hearth__store_relaxed(&body->busy, 0);
    if (run.depth <= HEARTH_CHILD_DEPTH_MAX)
        note_depth(run.gauge, run.depth);
    hearth__tally_add(&frame->tally, &run.tally);
    frame->tally.body_runs++;
    return status;
}
