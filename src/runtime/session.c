/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: a plan that runs on contexts. */
#include "runtime/session.h"

#include <hearth/backing.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENDED ((uint64_t)1 << 63)
#define CONCURRENT_MAX 4096u

enum hearth_status hearth_session_create(const struct hearth_session_options *options,
                                         struct hearth_session **made)
{
    if (options == NULL || made == NULL || options->size != sizeof(*options) ||
        options->plan == NULL || options->reserved != 0 ||
        options->concurrent_runs > CONCURRENT_MAX)
        return HEARTH_INVALID;
    struct hearth_session *session = calloc(1, sizeof(*session));
    if (session == NULL)
        return HEARTH_NO_MEMORY;
    if (hearth__demand_init(&session->demand, options->plan) != HEARTH_OK) {
        free(session);
        return HEARTH_NO_MEMORY;
    }
    if (pthread_mutex_init(&session->lock, NULL) != 0) {
        hearth__demand_fini(&session->demand);
        free(session);
        return HEARTH_NO_MEMORY;
    }
    session->plan = options->plan;
    hearth_plan_ref(session->plan);
    session->service = options->service;
    if (session->service != NULL)
        hearth_service_ref(session->service);
    if (!hearth__lanes_create(session, options->concurrent_runs)) {
        (void)hearth_session_destroy(session);
        return HEARTH_NO_MEMORY;
    }
    *made = session;
    return HEARTH_OK;
}

void hearth__session_enter(struct hearth_session *session)
{
    (void)hearth__fetch_add_acq_rel(&session->active, 1);
}

void hearth__session_leave(struct hearth_session *session)
{
    /* EDGE session.active, publish: that this run touches the session no more. */
    (void)hearth__fetch_sub_acq_rel(&session->active, 1);
}

enum hearth_status hearth_session_destroy(struct hearth_session *session)
{
    if (session == NULL)
        return HEARTH_OK;
    uint64_t none = 0;
    /* EDGE session.active, observe: that no run uses the session any more. */
    if (!hearth__cas_acq_rel(&session->active, &none, ENDED))
        return HEARTH_BUSY;
    hearth__lanes_end(session);
    while (session->bodies != NULL) {
        struct hearth__holder *body = session->bodies;
        session->bodies = body->next;
        hearth__holder_destroy(body);
    }
    (void)pthread_mutex_destroy(&session->lock);
    hearth__demand_fini(&session->demand);
    if (session->service != NULL)
        hearth_service_unref(session->service);
    hearth_plan_unref(session->plan);
    free(session);
    return HEARTH_OK;
}

enum hearth_status hearth__session_body(struct hearth_session *session, struct hearth_plan *plan,
                                        struct hearth__holder **body)
{
    (void)pthread_mutex_lock(&session->lock);
    struct hearth__holder **link = &session->bodies;
    while (*link != NULL && (*link)->plan != plan)
        link = &(*link)->next;
    struct hearth__holder *found = *link;
    if (found != NULL)
        *link = found->next;
    (void)pthread_mutex_unlock(&session->lock);
    if (found == NULL)
        return hearth__holder_create(HEARTH__CONTEXT_BODY, plan, body);
    *body = found;
    return HEARTH_OK;
}

void hearth__session_return_body(struct hearth_session *session, struct hearth__holder *body)
{
    (void)pthread_mutex_lock(&session->lock);
    body->next = session->bodies;
    session->bodies = body;
    (void)pthread_mutex_unlock(&session->lock);
}

/* Statistics of one run. */

struct backing_calls {
    uint64_t acquires, releases;
};

static void read_backing(const struct hearth_backing *backing, struct backing_calls *calls)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    if (hearth_backing_stats(backing, &stats) != HEARTH_OK)
        return;
    calls->acquires += stats.acquire_calls;
    calls->releases += stats.release_calls;
}

static struct backing_calls calls_of(const struct hearth_service *service)
{
    struct backing_calls calls = {0, 0};
    if (service == NULL)
        return calls;
    const struct hearth_backing *execution = hearth_service_backing(service, HEARTH_DOMAIN_EXEC);
    const struct hearth_backing *io = hearth_service_backing(service, HEARTH_DOMAIN_IO);
    read_backing(execution, &calls);
    if (io != execution)
        read_backing(io, &calls);
    return calls;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void write_stats(const struct hearth__run *run, uint32_t threads,
                        struct hearth_run_stats *stats)
{
    const struct hearth__tally *tally = &run->tally;
    stats->nodes = tally->nodes;
    stats->threads = threads;
    stats->tensors = tally->tensors;
    stats->temporaries = tally->temporaries;
    stats->released = tally->released;
    stats->reused_in_place = tally->reused_in_place;
    stats->remote_deaths = tally->remote_deaths;
    stats->payload_copies = tally->payload_copies;
    stats->copied_bytes = tally->copied_bytes;
    stats->staged_copies = tally->staged_copies;
    stats->migration_copies = tally->migration_copies;
    stats->taken = tally->taken;
    stats->body_runs = tally->body_runs;
    stats->execution_peak_bytes = hearth__load_relaxed(&run->gauge->peak[HEARTH__DOMAIN_EXECUTION]);
    stats->io_peak_bytes = hearth__load_relaxed(&run->gauge->peak[HEARTH__DOMAIN_IO]);
}

/* Runs. */

/* The context serves this run with its service, or the session's, which it keeps for exports. */
static void choose_service(struct hearth__holder *holder, struct hearth_session *session)
{
    if (holder->service_given || holder->service == session->service)
        return;
    if (session->service != NULL)
        hearth_service_ref(session->service);
    if (holder->service != NULL)
        hearth_service_unref(holder->service);
    holder->service = session->service;
}

static void set_up(struct hearth__run *run, struct hearth_session *session,
                   struct hearth__holder *holder)
{
    run->holder = holder;
    run->plan = session->plan;
    run->session = session;
    run->demand = &session->demand;
    run->service = holder->service;
    run->execution = holder->execution;
    run->io = hearth__holder_io(holder);
    run->arena = hearth__holder_arena(holder);
    run->events = holder->events.fn == NULL ? NULL : &holder->events;
    run->flags = holder->flags;
    run->tally = holder->between;
    memset(&holder->between, 0, sizeof(holder->between));
}

/* Whether several threads can serve the context's nodes. */
static bool may_run_on(struct hearth__holder *holder)
{
    const char *reason = NULL;
    if (holder->service == NULL)
        reason = "a run on an executor needs a service: give one to the session or to the context";
    else if (holder->execution != NULL)
        reason = "a run on an executor needs a context without an execution allocator of its own";
    else if (holder->io != NULL &&
             (hearth_exec_of(holder->io) != NULL || strcmp(holder->io->ops->kind, "simple") == 0))
        reason = "a run on an executor needs an I/O allocator that several threads may use";
    if (reason != NULL)
        (void)snprintf(holder->error, sizeof(holder->error), "%s", reason);
    return reason == NULL;
}

/* Sessions that the calling thread runs, one inside of the other. */
static _Thread_local unsigned running __attribute__((tls_model("initial-exec")));

/* The calling thread's arena learns where runs begin and end; a run inside of another is a part of it. */
static struct hearth_exec *begin_run(struct hearth_service *service)
{
    struct hearth_exec *arena = NULL;
    if (running++ != 0 || service == NULL || hearth_service_exec(service, &arena) != HEARTH_OK)
        return NULL;
    return hearth_exec_run_begin(arena, 0) == HEARTH_OK ? arena : NULL;
}

static void end_run(struct hearth_exec *arena)
{
    running--;
    if (arena != NULL)
        (void)hearth_exec_run_end(arena);
}

static enum hearth_status run_on(struct hearth_session *session, struct hearth__holder *holder,
                                 const struct hearth_executor *executor,
                                 struct hearth_run_stats *stats)
{
    struct hearth__gauge gauge = {.shared = executor != NULL};
    struct hearth__run run = {.gauge = &gauge};
    choose_service(holder, session);
    if (executor != NULL && !may_run_on(holder))
        return HEARTH_INVALID;
    set_up(&run, session, holder);
    struct hearth_run_stats figures = HEARTH_RUN_STATS_INIT;
    struct backing_calls before = {0, 0};
    uint64_t start = 0;
    if (stats != NULL) {
        before = calls_of(run.service);
        start = now_ns();
    }
    uint32_t threads = 1;
    struct hearth_exec *arena = begin_run(run.service);
    enum hearth_status status = executor == NULL ? hearth__run_serially(&run)
                                                 : hearth__run_parallel(&run, executor, &threads);
    end_run(arena);
    if (run.service != NULL)
        (void)hearth_service_end_run(run.service);
    if (run.begun)
        figures.runs = hearth__fetch_add_relaxed(&session->runs, 1) + 1;
    if (stats == NULL || !run.begun)
        return status;
    figures.elapsed_ns = now_ns() - start;
    struct backing_calls after = calls_of(run.service);
    figures.backing_acquires = after.acquires - before.acquires;
    figures.backing_releases = after.releases - before.releases;
    write_stats(&run, run.tally.nodes == 0 ? 0 : threads, &figures);
    figures.size = stats->size;
    memcpy(stats, &figures, stats->size < sizeof(figures) ? stats->size : sizeof(figures));
    return status;
}

static enum hearth_status enter_and_run(struct hearth_session *session,
                                        struct hearth_context *context,
                                        const struct hearth_executor *executor,
                                        struct hearth_run_stats *stats)
{
    if (session == NULL || context == NULL || (stats != NULL && stats->size < sizeof(size_t)))
        return HEARTH_INVALID;
    if (context->kind != HEARTH__CONTEXT_USER)
        return HEARTH_BUSY;
    struct hearth__holder *holder = hearth__holder_of(context);
    uint32_t idle = 0;
    /* EDGE context.busy, observe: what the run before did. */
    if (!hearth__cas_acq_rel(&holder->busy, &idle, 1))
        return HEARTH_BUSY;
    hearth__session_enter(session);
    enum hearth_status status;
    if (holder->plan == session->plan) {
        status = run_on(session, holder, executor, stats);
    } else {
        (void)snprintf(holder->error, sizeof(holder->error),
                       "the context was not created for the session's plan");
        status = HEARTH_INVALID;
    }
    hearth__session_leave(session);
    /* EDGE context.busy, publish: what the run did. */
    hearth__store_release(&holder->busy, 0);
    return status;
}

enum hearth_status hearth_session_run(struct hearth_session *session,
                                      struct hearth_context *context,
                                      struct hearth_run_stats *stats)
{
    return enter_and_run(session, context, NULL, stats);
}

enum hearth_status hearth_session_run_on(struct hearth_session *session,
                                         struct hearth_context *context,
                                         const struct hearth_executor *executor,
                                         struct hearth_run_stats *stats)
{
    if (executor == NULL || executor->size != sizeof(*executor) || executor->submit == NULL ||
        executor->reserved != 0)
        return HEARTH_INVALID;
    return enter_and_run(session, context, executor, stats);
}

const char *hearth_session_error(const struct hearth_context *context)
{
    if (!hearth__is_holder(context))
        return "";
    return hearth__holder_of((struct hearth_context *)(uintptr_t)context)->error;
}
