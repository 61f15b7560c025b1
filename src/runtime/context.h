/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts as the runtime sees them. A struct hearth_context is one of three: the user's (it holds values), a
 * body's (it does too, and belongs to a node while its kernel runs), or a node's: what a kernel gets, a frame on
 * the stack of the thread that runs it, which holds no values but knows slots.
 */
#ifndef HEARTH_RUNTIME_CONTEXT_H
#define HEARTH_RUNTIME_CONTEXT_H

#include "core/atomic.h"
#include "runtime/names.h"
#include "runtime/plan.h"

#include <hearth/context.h>
#include <hearth/session.h>

enum hearth__context_kind {
    HEARTH__CONTEXT_USER = 1,
    HEARTH__CONTEXT_BODY = 2,
    HEARTH__CONTEXT_NODE = 3,
};

/* First member of all three. */
struct hearth_context {
    enum hearth__context_kind kind;
};

/* Which of a run's gauges counts a value. */
enum hearth__domain {
    HEARTH__DOMAIN_NONE = 0, /* the caller's: borrowed and lent */
    HEARTH__DOMAIN_EXECUTION = 1,
    HEARTH__DOMAIN_IO = 2,
};

struct hearth__value {
    struct hearth_tensor tensor; /* empty: the name has no value */
    size_t counted;              /* bytes in the gauge of `domain` */
    _Atomic(uint32_t) uses;      /* in a parallel run: nodes that still need it; writer: those */
    uint32_t thread;             /* that made it */
    unsigned char domain;        /* enum hearth__domain */
    bool bound;                  /* its storage goes back to the binding */
    /* The storage that is where the slot wants it; another was not looked at. */
    const void *placed;
    uint64_t placed_generation;
    uint32_t placed_owner;
};

/* Figures that one thread collects while it runs nodes; names as in HEARTH_RUN_STATS_MAP. */
struct hearth__tally {
    uint64_t nodes, tensors, temporaries, released, reused_in_place, remote_deaths;
    uint64_t payload_copies, copied_bytes, staged_copies, migration_copies, taken, body_runs;
};

struct hearth__frame;
struct hearth__run;

/* The user's or a body's context. */
struct hearth__holder {
    struct hearth_context context;
    _Atomic(uint32_t) busy;         /* a run uses it; writer: whoever starts and ends the run */
    struct hearth_plan *plan;       /* referenced; NULL: names are learned */
    struct hearth__value *values;   /* of the plan's names, by number */
    struct hearth__names learned;   /* names that are not the plan's */
    struct hearth__value **more;    /* their values, by number; a value never moves */
    struct hearth_tensor *bindings; /* by number of declared output; empty: not bound */
    struct hearth_allocator *execution, *io; /* as the options gave them; NULL */
    struct hearth_io *arena;                 /* as the options gave it, referenced; NULL */
    struct hearth_service *service;          /* the options' or the last run's, referenced; NULL */
    bool service_given;                      /* by the options */
    struct hearth_event_handler events;      /* fn NULL: none */
    uint32_t flags;                          /* HEARTH_CONTEXT_* */
    struct hearth__tally between;            /* of calls outside of runs, for the next run */
    char error[240];
    enum hearth_status error_status; /* of the run that the text is about */
    /* A body's only. */
    struct hearth__frame *frame; /* of the node whose kernel uses it */
    struct hearth__holder *next; /* of that node, or of the idle ones */
    uint32_t index;              /* of the body in the node */
    uint32_t *routes; /* output slot of the node by number of declared output; HEARTH__NO_VALUE */
};

static inline bool hearth__is_holder(const struct hearth_context *context)
{
    return context != NULL && context->kind != HEARTH__CONTEXT_NODE;
}

/* The context holds values: nothing is checked. */
static inline struct hearth__holder *hearth__holder_of(struct hearth_context *context)
{
    return (struct hearth__holder *)context;
}

/* Make a context on a plan (may be NULL), which gets one more reference. */
enum hearth_status hearth__holder_create(enum hearth__context_kind kind, struct hearth_plan *plan,
                                         struct hearth__holder **holder);

/* Clears and frees it. */
void hearth__holder_destroy(struct hearth__holder *holder);

/* Every value and binding goes. */
void hearth__holder_clear(struct hearth__holder *holder);

/* A body's: where its outputs go. */
void hearth__holder_forget_routes(struct hearth__holder *holder);

/* The value of a name, which need not have one; NULL: an unknown name. */
struct hearth__value *hearth__holder_find(const struct hearth__holder *holder, const char *name);

/* All values, one after the other: *at starts at 0; NULL at the end. `name` may be NULL. */
struct hearth__value *hearth__holder_next(const struct hearth__holder *holder, size_t *at,
                                          const char **name);

/* Return the storage: to the binding, where it is bound. Its bytes leave the gauge of the holder's run, if there
 * is one. Returns as hearth_tensor_reset(). */
enum hearth_status hearth__value_drop(struct hearth__holder *holder, struct hearth__value *value);

/* The I/O arena of exports; NULL. */
struct hearth_io *hearth__holder_arena(const struct hearth__holder *holder);

/* The allocator of intermediates, as far as it is known outside of nodes; NULL. */
struct hearth_allocator *hearth__holder_execution(const struct hearth__holder *holder);

/* The allocator of staged inputs; NULL: inline. */
struct hearth_allocator *hearth__holder_io(const struct hearth__holder *holder);

#endif
