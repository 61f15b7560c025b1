/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include "crooked.h"
#include "inputs.h"

#include <hearth/context.h>
#include <hearth/session.h>
#include <hearth/status.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFILL_MOST_NS 3000000u

/* One call of run, perhaps on a thread of an executor. */
struct call {
    struct driver *driver;
    struct place *place;
    struct hearth_executor executor;
    struct hearth_run_stats stats;
    enum hearth_status status;
    bool serial;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool is_ended; /* guarded by `lock` */
};

static void run_call(void *argument)
{
    struct call *call = argument;
    struct driver *self = call->driver;
    if (call->serial)
        call->status = hearth_session_run(self->run.session, call->place->context, &call->stats);
    else
        call->status = hearth_session_run_on(self->run.session, call->place->context,
                                             &call->executor, &call->stats);
}

static void run_call_and_tell(void *argument)
{
    struct call *call = argument;
    run_call(call);
    (void)pthread_mutex_lock(&call->lock);
    call->is_ended = true;
    (void)pthread_cond_signal(&call->ended);
    (void)pthread_mutex_unlock(&call->lock);
}

/* The run starts on a thread of an executor, and this one waits. */
static void run_elsewhere(struct call *call, bool pool)
{
    const struct hearth_executor *executor = &call->driver->world->executor;
    (void)pthread_mutex_init(&call->lock, NULL);
    (void)pthread_cond_init(&call->ended, NULL);
    if (!pool || executor->submit(executor->pool, run_call_and_tell, call) != HEARTH_OK)
        crooked_call(run_call_and_tell, call);
    (void)pthread_mutex_lock(&call->lock);
    while (!call->is_ended)
        (void)pthread_cond_wait(&call->ended, &call->lock);
    (void)pthread_mutex_unlock(&call->lock);
    (void)pthread_cond_destroy(&call->ended);
    (void)pthread_mutex_destroy(&call->lock);
}

static void plan_failures(struct driver *self)
{
    uint64_t draw = stress_next(&self->random);
    if (draw % 10 != 0)
        return;
    for (uint64_t count = 1 + (draw >> 8) % 3; count > 0; count--) {
        uint32_t id = (uint32_t)(stress_next(&self->random) % self->run.graph->ids);
        if (self->run.times[id] > 0)
            run_fail(&self->run, id);
    }
}

static bool some_fail(const struct run *run)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < sizeof run->fails / sizeof *run->fails; i++)
        any |= run->fails[i];
    return any != 0;
}

static void check_counts(const struct run *run, bool whole)
{
    for (uint32_t id = 0; id < run->graph->ids; id++) {
        uint32_t ran = atomic_load_explicit(&run->ran[id], memory_order_relaxed);
        if (ran > run->times[id] || (whole && ran != run->times[id]))
            stress_violation("node n%u ran %u times, not %u", id, ran, run->times[id]);
    }
    for (uint32_t i = 0; i < run->graph->node_count; i++) {
        uint32_t id = run->graph->nodes[i].id;
        if (run->done[id] > 1 || (whole && run->done[id] != 1))
            stress_violation("node n%u was done %" PRIu64 " times", id, run->done[id]);
    }
}

static void check_stats(const struct call *call)
{
    const struct hearth_run_stats *stats = &call->stats;
    const struct run *run = &call->driver->run;
    uint64_t nodes = 0;
    for (uint32_t id = 0; id < run->graph->ids; id++)
        nodes += run->times[id];
    if (stats->nodes > nodes || (call->status == HEARTH_OK && stats->nodes != nodes))
        stress_violation("%" PRIu64 " nodes ran of %" PRIu64, stats->nodes, nodes);
    if (stats->threads > call->driver->world->options->threads + 1u ||
        (call->serial && stats->threads > 1))
        stress_violation("%" PRIu64 " threads ran nodes", stats->threads);
    if (stats->payload_copies < stats->staged_copies + stats->migration_copies)
        stress_violation("copies of some kind are more than all");
    if (call->serial && stats->remote_deaths != 0)
        stress_violation("a serial run has %" PRIu64 " remote deaths", stats->remote_deaths);
    uint64_t begins = atomic_load_explicit(&call->place->events.begins, memory_order_relaxed);
    uint64_t ends = atomic_load_explicit(&call->place->events.ends, memory_order_relaxed);
    bool told = call->place->kind == PLACE_EVENTS;
    if (begins != ends || (told && begins != stats->nodes))
        stress_violation("%" PRIu64 " nodes began and %" PRIu64 " ended", begins, ends);
}

/* One of the kernels that failed, and after it no other in a serial run. */
static void check_failure(const struct call *call)
{
    const struct run *run = &call->driver->run;
    const char *error = hearth_session_error(call->place->context);
    uint32_t id = (uint32_t)call->status - GRAPH_FAILURE;
    char name[16];
    if (call->status == HEARTH_NO_MEMORY && run->tight)
        return;
    if ((uint32_t)call->status < GRAPH_FAILURE || id >= run->graph->ids ||
        (atomic_load_explicit(&run->failed[id / 64], memory_order_relaxed) >> id % 64 & 1) == 0) {
        stress_violation("the run was answered %d: %s", (int)call->status, error);
        return;
    }
    (void)snprintf(name, sizeof name, "n%u", id);
    for (uint32_t i = 0; i < run->graph->node_count; i++) {
        const struct graph_node *node = &run->graph->nodes[i];
        if (node->id == id && strstr(error, name) == NULL)
            stress_violation("%s failed, and the error is '%s'", name, error);
    }
    if (error[0] == '\0')
        stress_violation("a run failed without a text");
}

static void check_serial_order(const struct call *call)
{
    const struct run *run = &call->driver->run;
    size_t count = hearth_plan_node_count(run->graph->plan);
    uint32_t seen[GRAPH_NODES_MOST] = {0};
    for (uint32_t i = 0; i < run->graph->node_count; i++)
        seen[run->graph->nodes[i].planned] =
            atomic_load_explicit(&run->ran[run->graph->nodes[i].id], memory_order_relaxed);
    bool ended = false;
    for (size_t step = 0; step < count; step++) {
        bool ran = seen[hearth_plan_node_at(run->graph->plan, step)] > 0;
        if (ran && ended)
            stress_violation("a node ran after the failure of one before it");
        ended |= !ran;
    }
}

static void check_run(const struct call *call)
{
    struct driver *self = call->driver;
    const struct run *run = &self->run;
    bool ok = call->status == HEARTH_OK;
    size_t values = hearth_context_count(call->place->context);
    size_t expected = run->graph->initial_count;
    check_counts(run, ok);
    check_stats(call);
    for (uint32_t i = 0; i < run->graph->declared_count; i++)
        expected += ok && !run->graph->values[run->graph->declared[i]].initial;
    if (values != expected)
        stress_violation("after a run that was answered %d the context has %zu values, not %zu",
                         (int)call->status, values, expected);
    if (call->serial)
        check_serial_order(call);
    if (!ok) {
        self->failures++;
        check_failure(call);
        memset(call->place->stamps, 0, sizeof call->place->stamps);
        return;
    }
    if (some_fail(run))
        stress_violation("a kernel failed, and the run did not");
    if (hearth_session_error(call->place->context)[0] != '\0')
        stress_violation("a run was OK, and has a text");
    outputs_check(self, call->place);
}

static struct hearth_executor some_executor(const struct driver *self, uint64_t draw)
{
    if (draw % 2 == 0)
        return self->world->executor;
    return crooked_executor((enum crooked_mode)((draw >> 1) % CROOKED_MODES),
                            self->world->options->threads);
}

static void choose_way(struct driver *self, struct call *call)
{
    uint64_t draw = stress_next(&self->random);
    call->serial = call->place->kind == PLACE_OWN || draw % 4 == 0;
    call->executor = some_executor(self, draw >> 4);
    if (call->place->kind != PLACE_OWN && (draw >> 16) % 4 == 0)
        run_elsewhere(call, (draw >> 20) % 2 == 0);
    else
        run_call(call);
}

static struct hearth_session *some_session(struct driver *self, const struct graph *graph)
{
    uint32_t number;
    do
        number = (uint32_t)(stress_next(&self->random) % WORLD_SESSIONS);
    while (self->world->session_graphs[number] != graph);
    return self->world->sessions[number];
}

/* With calls that come in time, late, or after the session. */
static void prefill(struct driver *self, struct hearth_session *session, uint64_t draw)
{
    const struct hearth_executor executor = some_executor(self, draw);
    uint64_t deadline_ns = stress_now_ns() + (draw >> 8) % PREFILL_MOST_NS;
    size_t threads = 0;
    enum hearth_status status = hearth_session_prefill(
        session, (draw >> 32) % 4 == 0 ? NULL : &executor, deadline_ns, &threads);
    if (status != HEARTH_OK && status != HEARTH_TIMEOUT &&
        (status != HEARTH_NO_MEMORY || !self->world->tight))
        stress_violation("a prefill was answered %s", hearth_status_name(status));
    if (threads > self->world->options->threads + 1u || (status == HEARTH_OK && threads == 0))
        stress_violation("%zu threads were filled", threads);
}

/* A session for one run, which ends with calls of the executor still to come, while others go on. */
static struct hearth_session *short_session(struct driver *self, const struct graph *graph)
{
    struct hearth_session_options options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_session *session = NULL;
    options.plan = graph->plan;
    options.service = self->world->service;
    stress_must(hearth_session_create(&options, &session), "session");
    self->run.session = session;
    return session;
}

static void end_session(struct hearth_session *session)
{
    enum hearth_status status = hearth_session_destroy(session);
    if (status != HEARTH_OK)
        stress_violation("the end of a session was answered %s", hearth_status_name(status));
}

static void one_run(struct driver *self, struct place *place)
{
    struct call call = {.driver = self, .place = place, .stats = HEARTH_RUN_STATS_INIT};
    outputs_check_left(place);
    run_begin(&self->run, place->graph, stress_next(&self->random));
    self->run.session = some_session(self, place->graph);
    self->run.context = place->context;
    self->run.tight = self->world->tight;
    atomic_store_explicit(&place->events.begins, 0, memory_order_relaxed);
    atomic_store_explicit(&place->events.ends, 0, memory_order_relaxed);
    uint64_t draw = stress_next(&self->random);
    if (draw % 16 == 0)
        prefill(self, self->run.session, draw >> 4);
    plan_failures(self);
    if (!inputs_give(self, place)) {
        outputs_clear(place);
        return;
    }
    struct hearth_session *own = draw % 8 == 1 ? short_session(self, place->graph) : NULL;
    choose_way(self, &call);
    self->runs++;
    check_run(&call);
    self->run.session = some_session(self, place->graph);
    end_session(own);
    if (call.status == HEARTH_OK)
        outputs_use(self, place);
    if (call.status != HEARTH_OK || stress_next(&self->random) % 8 == 0)
        outputs_clear(place);
}

void driver_work(struct driver *self)
{
    for (uint32_t i = 0; i < DRIVER_PLACES; i++)
        place_open(self, &self->places[i]);
    for (uint32_t i = 0; i < GRAPH_INITIAL_MOST; i++) {
        self->inputs[i] = malloc(VALUE_BYTES_MOST);
        if (self->inputs[i] == NULL)
            abort();
    }
    for (uint64_t i = 0; i < self->rounds && stress_goes_on(self->world->options, 0, 1); i++) {
        uint64_t draw = stress_next(&self->random);
        struct place *place = &self->places[draw % DRIVER_PLACES];
        if ((draw >> 8) % 16 == 0)
            place_renew(self, place);
        one_run(self, place);
    }
    for (uint32_t i = 0; i < DRIVER_PLACES; i++)
        place_leave(self, &self->places[i]);
}
