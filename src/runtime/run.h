/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a plan on a context, and the frame of the node that a thread runs.
 */
#ifndef HEARTH_RUNTIME_RUN_H
#define HEARTH_RUNTIME_RUN_H

#include "runtime/context.h"
#include "runtime/demand.h"

#include <hearth/events.h>
#include <hearth/kernel.h>

/* Live and peak bytes of a run and of the bodies in it. Plain stores in a serial run. */
struct hearth__gauge {
    _Atomic(uint64_t) live[3]; /* by enum hearth__domain; writer: the run's threads */
    _Atomic(uint64_t) peak[3];
    _Atomic(uint64_t) steps;   /* nodes started */
    _Atomic(uint32_t) deepest; /* of bodies that ran; writer: any, only grows */
    bool shared;               /* const: whether several threads run */
};

struct hearth__run {
    struct hearth__holder *holder;
    const struct hearth_plan *plan;
    struct hearth_session *session;
    struct hearth_service *service; /* NULL: none */
    struct hearth_allocator
        *execution;              /* of every thread; NULL: its own of the service, else inline */
    struct hearth_allocator *io; /* NULL: inline */
    struct hearth_io *arena;     /* NULL: no take */
    const struct hearth_event_handler *events; /* NULL: none */
    struct hearth__gauge *gauge;
    struct hearth__demand *demand; /* of the session, for its own plan; NULL in bodies */
    struct hearth__frame *parent;  /* of a body: the node that runs it; NULL */
    uint32_t depth;                /* of bodies; 0: the session's plan */
    uint32_t flags;                /* HEARTH_CONTEXT_* */
    bool begun;                    /* all inputs were there */
    _Atomic(uint32_t) status;      /* the first failure; writer: whoever fails first */
    struct hearth__tally
        tally; /* of all threads; guarded by the lane's lock if there are several */
};

/* One workspace of a node. */
struct hearth__workspace {
    struct hearth_buf *buf;
    size_t bytes; /* as the gauge counts it: the kernel may resize the buffer */
};

/* Workspaces that a frame knows without more memory. */
#define HEARTH__TEMPORARIES 16

struct hearth__frame {
    struct hearth_context context;
    struct hearth__run *run;
    const struct hearth__plan_node *node;
    uint32_t index;  /* of the node */
    uint32_t thread; /* 0: the caller */
    uint64_t step;   /* nodes started before this one */
    uint32_t
        refused; /* the output that could not be made, for the error's text; HEARTH__NO_VALUE */
    struct hearth_allocator *execution; /* this thread's; NULL: inline */

    struct hearth_allocator *active; /* the kernel's choice; NULL: the default */
    struct hearth__holder *bodies;   /* that the kernel uses */
    struct hearth__tally tally;
    size_t adrift[3]; /* by domain: counted bytes that the kernel took out of a body */
    uint32_t temporary_count;
    struct hearth_buf *more; /* holds the workspaces beyond the array; NULL */
    struct hearth__workspace temporaries[HEARTH__TEMPORARIES];
};

static inline struct hearth__frame *hearth__frame_of(const struct hearth_context *context)
{
    return context != NULL && context->kind == HEARTH__CONTEXT_NODE
               ? (struct hearth__frame *)(uintptr_t)context
               : NULL;
}

static inline const char *hearth__value_name(const struct hearth__run *run, uint32_t value)
{
    return hearth__plan_value_name(run->plan, value);
}

/* Gauges (gauge.c). */
void hearth__gauge_add(struct hearth__gauge *gauge, enum hearth__domain domain, size_t bytes);
void hearth__gauge_sub(struct hearth__gauge *gauge, enum hearth__domain domain, size_t bytes);
void hearth__tally_add(struct hearth__tally *sum, const struct hearth__tally *more);

/* An event of a node, or of what is outside of nodes (frame NULL). `value` may be NULL. */
void hearth__event(const struct hearth__run *run, const struct hearth__frame *frame,
                   enum hearth_event_kind kind, const char *value, size_t bytes);

/* As hearth__event(), between the runs of a context. */
void hearth__event_between(const struct hearth__holder *holder, enum hearth_event_kind kind,
                           const char *value, size_t bytes);

/* The run fails with the first status that comes, and a line for hearth_session_error(). */
__attribute__((format(printf, 3, 4))) void
hearth__run_fail(struct hearth__run *run, enum hearth_status status, const char *format, ...);

static inline bool hearth__run_failed(const struct hearth__run *run)
{
    return hearth__load_relaxed(&run->status) != HEARTH_OK;
}

/* Before nodes (run.c): inputs are there, outputs of the run before are gone. And after them. */
enum hearth_status hearth__run_begin(struct hearth__run *run);
void hearth__run_end(struct hearth__run *run);

/* A thread joins a run. The frame is its own. */
void hearth__frame_init(struct hearth__frame *frame, struct hearth__run *run, uint32_t thread);
/* Run one node, and end what its kernel left (frame.c). What dies with it is not returned yet. */
void hearth__frame_run(struct hearth__frame *frame, uint32_t node);

/* All nodes on this thread, in serial order. */
enum hearth_status hearth__run_serially(struct hearth__run *run);

/* A value dies at its last use. */
void hearth__value_dies(struct hearth__frame *frame, uint32_t number);

/* Bodies (body.c): give back those that a node used. */
void hearth__bodies_return(struct hearth__frame *frame);

/* Counted bytes came back from adrift, into a body or an output: those of `domain` if there are so many, else of
 * the other one. And none comes back any more. */
void hearth__adrift_land(struct hearth__frame *frame, enum hearth__domain domain, size_t bytes);
void hearth__adrift_settle(struct hearth__frame *frame);

#endif
