/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worlds and drivers. A world is a service with plans, sessions and a pool; a driver is a thread with contexts of
 * its own that it runs, checks and exports in that world, among other drivers on the same sessions.
 */
#ifndef HEARTH_STRESS_SESSION_DRIVER_H
#define HEARTH_STRESS_SESSION_DRIVER_H

#include "../harness.h"
#include "graph.h"

#include <hearth/events.h>
#include <hearth/executor.h>
#include <hearth/tensor.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct hearth_context;
struct hearth_exec;
struct hearth_service;
struct hearth_session;

#define WORLD_GRAPHS 2u
#define WORLD_SESSIONS 3u
#define WORLD_DRIVERS 3u
#define DRIVER_PLACES 2u

/* Where a context's intermediates come from, and what it allows. */
enum place_kind { PLACE_PLAIN, PLACE_EVENTS, PLACE_FOREIGN, PLACE_OWN, PLACE_KINDS };

/* Of one run: events come on several threads at once. */
struct place_events {
    _Atomic(uint64_t) begins, ends;
};

struct place {
    struct hearth_context *context;
    struct graph *graph;
    enum place_kind kind;
    struct hearth_exec *own; /* PLACE_OWN: its execution arena, the driver's */
    struct hearth_event_handler handler;
    struct place_events events;
    const void *bound[GRAPH_DECLARED_MOST]; /* data of bound outputs; NULL */
    uint64_t *memory[GRAPH_DECLARED_MOST];  /* what was bound borrowed */
    uint64_t stamps[GRAPH_DECLARED_MOST];   /* of outputs left in the context; 0: none */
};

struct driver {
    struct world *world;
    struct place places[DRIVER_PLACES];
    uint64_t *inputs[GRAPH_INITIAL_MOST]; /* memory that is lent to runs */
    struct run run;
    struct run *run_address; /* the value of the input that every node has */
    uint64_t random;
    uint64_t runs, failures, leases;
    uint64_t rounds;
};

struct world {
    struct hearth_service *service;
    struct stress_lender lender;
    struct graph *graphs[WORLD_GRAPHS];
    struct hearth_session *sessions[WORLD_SESSIONS];
    struct graph *session_graphs[WORLD_SESSIONS];
    struct hearth_pool *pool;
    struct hearth_executor executor; /* the pool's */
    struct driver *drivers;
    const struct stress_options *options;
    bool tight; /* a limit on live bytes that is felt */
    bool plans; /* its execution arenas have them */
    bool alone; /* no maintenance thread */
    struct world *next;
};

/* Make rounds of runs until they are over. The contexts stay. */
void driver_work(struct driver *self);

/* Make a context of some kind; end it and make another. */
void place_open(struct driver *self, struct place *place);
void place_renew(struct driver *self, struct place *place);

/* What may stay in it stays. On the driver's thread. */
void place_leave(struct driver *self, struct place *place);

/* Bytes and capacity of the service's storage in a context, while nobody uses it. */
void place_count(const struct place *place, size_t *bytes, size_t *capacity);

/* After the context has ended. */
void place_free(struct place *place);

#endif
