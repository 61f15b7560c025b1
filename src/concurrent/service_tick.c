/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service: ageing, and the thread that sees to it when nobody calls.
 *
 * By time: each tick notes the arenas' clocks and gives back what idle ones have not used for age_ms; those at work
 * are asked. The thread ticks eight times per age_ms, so storage goes at most one and a half times that after its last use.
 * By runs: an arena's owner says where its runs end, and gives back what it has not used for age_runs of them.
 *
 * The thread is started by whoever obtains storage once maintenance_bytes were obtained, and ends when nothing is
 * retained any more, or with the service. It holds the core, not the service; it blocks all signals. A forked child
 * has none until storage is obtained there.
 */
#include "concurrent/exec_spans.h"
#include "concurrent/service.h"

#include "core/clock.h"
#include "core/memory_limit.h"
#include "core/misuse.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#define MS ((uint64_t)1000000)

/* A tick gives back for so long at most. */
#define SLICE_NS (MS / 2)

/* Ticks per age, and the bounds of what is between two. */
#define TICKS_PER_AGE 8u
#define PERIOD_LEAST_MS ((uint64_t)2)
#define PERIOD_MOST_MS ((uint64_t)1000)

/* Between two looks at the container's limit. */
#define CONTAINER_NS (1000 * MS)

/* Slots given back at the end of a run. */
#define RUN_SLICE 32u

void hearth__service_look_at_container(struct hearth_service *service, uint64_t now_ns)
{
    if (service->ceiling_percent == 0 ||
        (service->looked_ns != 0 && now_ns - service->looked_ns < CONTAINER_NS))
        return;
    service->looked_ns = now_ns;
    size_t limit = hearth__memory_limit("");
    size_t asked = hearth__load_relaxed(&service->asked_ceiling);
    size_t ceiling = asked;
    if (limit != SIZE_MAX) {
        size_t part = limit / 100 * service->ceiling_percent;
        ceiling = part < asked ? part : asked;
    }
    if (ceiling != hearth__budget_ceiling(&service->budget))
        hearth__service_apply_ceiling(service, ceiling);
}

/* With the pass lock held. True if there is more to be done at once. */
static bool age(struct hearth_service *service)
{
    uint64_t age_ms = hearth__load_relaxed(&service->age_ms);
    uint64_t now = hearth__now_ns();
    hearth__service_look_at_container(service, now);
    int64_t missing = hearth__budget_missing(&service->budget);
    if (missing > 0) {
        /* The ceiling came down, and somebody did not follow yet. */
        struct hearth__pass over = {
            .domains = HEARTH_DOMAIN_EXEC | HEARTH_DOMAIN_IO,
            .goal = hearth__weight_capacity((hearth__weight)missing) + 1,
            .deadline_ns = now + SLICE_NS,
        };
        hearth__service_pass_by_age(service, &over);
        (void)hearth__service_purge(service);
        if (over.released != 0)
            return over.more;
    }
    bool closed = hearth__service_is_closed(service);
    if (closed)
        age_ms = 0; /* nothing will be used again */
    if (age_ms == HEARTH_AGE_NEVER)
        return !hearth__service_run_releases(service, now + SLICE_NS);
    struct hearth__pass pass = {
        .domains = HEARTH_DOMAIN_EXEC | HEARTH_DOMAIN_IO,
        .goal = SIZE_MAX,
        .deadline_ns = now + SLICE_NS,
        .age_ms = age_ms,
    };
    hearth__service_pass(service, &pass);
    /* What arenas release themselves waits as long as what they retain: it may be wanted back. */
    if (pass.released != 0 || closed || now / 1000000 - service->purged_ms >= age_ms)
        (void)hearth__service_purge(service);
    return pass.more;
}

enum hearth_status hearth_service_tick(struct hearth_service *service)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_tick", NULL, NULL);
    enum hearth_status status = hearth_io_tick();
    if (!hearth__service_try_lock(service))
        return status;
    if (hearth__now_ns() - service->passed_ns >= MS || service->releases.count != 0)
        (void)age(service);
    hearth__service_unlock(service);
    return status;
}

/* Runs. */

static void end_run_exec(struct hearth_service *service, struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    uint32_t age_runs = hearth__load_relaxed(&service->age_runs);
    arena->runs++;
    hearth__ages_note(&arena->run_ages, arena->runs, hearth__load_relaxed(&arena->cells.gives),
                      age_runs);
    uint64_t before = hearth__ages_before(&arena->run_ages, arena->runs, age_runs);
    if ((before == 0 && !arena->with_spans) ||
        hearth__exec_begin(arena, "hearth_service_end_run") != HEARTH_OK)
        return;
    if (!arena->visited)
        (void)hearth__exec_evict_old(arena, before, RUN_SLICE, &after);
    hearth__exec_spans_end_run(arena, &after);
    hearth__exec_end(arena, &after);
}

/* The I/O arena's runs are those of all threads. */
static void end_run_io(struct hearth_service *service)
{
    struct hearth_io *io = service->io;
    uint32_t age_runs = hearth__load_relaxed(&service->age_runs);
    uint64_t runs = hearth__fetch_add_relaxed(&service->runs, 1) + 1;
    uint32_t step = age_runs / 4;
    if (age_runs == HEARTH_AGE_NEVER || (step > 1 && runs % step != 0) ||
        !hearth__service_try_lock(service))
        return;
    hearth__service_plan_books(service);
    hearth__service_age_books(service, runs, age_runs);
    hearth__ages_note(&io->run_ages, runs, hearth__load_relaxed(&io->clock) + 1, age_runs);
    struct hearth__io_sweep sweep = {
        .before = hearth__ages_before(&io->run_ages, runs, age_runs),
        .goal = SIZE_MAX,
        .deadline = hearth__now_ns() + SLICE_NS,
        .releases = &service->releases,
    };
    if (sweep.before != 0) {
        struct hearth__io_access access;
        hearth__io_enter(io, &access);
        if (!access.closed)
            (void)hearth__io_sweep(&access, &sweep);
        hearth__io_leave(&access);
        (void)hearth__service_run_releases(service, sweep.deadline);
    }
    hearth__service_unlock(service);
}

static unsigned level_of(const struct hearth_exec *arena)
{
    return hearth__load_relaxed(&arena->level);
}

enum hearth_status hearth_service_end_run(struct hearth_service *service)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_end_run", NULL, NULL);
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    struct hearth_exec *arena = hearth__service_own(service, 0);
    if (arena == NULL)
        return HEARTH_OK;
    struct hearth_exec *child = arena;
    for (; child != NULL; child = hearth__service_own(service, level_of(child) + 1))
        if (hearth__section_busy(&child->section) || hearth__load_relaxed(&child->running) != 0)
            return hearth__exec_busy(child);
    uint64_t runs = arena->runs + 1;
    /* By level: what is called back on the way may attach and detach. */
    unsigned level = 0;
    while ((child = hearth__service_own(service, level)) != NULL) {
        level = level_of(child) + 1;
        end_run_exec(service, child);
    }
    uint32_t step = hearth__load_relaxed(&service->age_runs) / 4;
    if (runs % (step == 0 ? 1 : step) == 0)
        hearth__service_flush_own(service->io); /* its magazines are not seen by the sweep */
    end_run_io(service);
    return HEARTH_OK;
}

/* The thread. */

static uint64_t period_ms(const struct hearth_service *service)
{
    uint64_t period = hearth__load_relaxed(&service->age_ms) / TICKS_PER_AGE;
    if (period < PERIOD_LEAST_MS)
        return PERIOD_LEAST_MS;
    return period > PERIOD_MOST_MS ? PERIOD_MOST_MS : period;
}

static void sleep_until(struct hearth_service *service, uint64_t ns)
{
    const struct timespec until = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    (void)pthread_mutex_lock(&service->sleep);
    if (!hearth__service_is_closed(service))
        (void)pthread_cond_timedwait(&service->wake, &service->sleep, &until);
    (void)pthread_mutex_unlock(&service->sleep);
}

void hearth__service_wake(struct hearth_service *service)
{
    (void)pthread_mutex_lock(&service->sleep);
    (void)pthread_cond_broadcast(&service->wake);
    (void)pthread_mutex_unlock(&service->sleep);
}

/* With the pass lock held: whether anything could age. */
static bool is_needed(const struct hearth_service *service)
{
    struct hearth__service_reading now;
    if (service->ended)
        return false;
    hearth__service_read(service, &now);
    return now.exec_retained + now.io_retained + now.pending != 0 ||
           now.footprint >= service->maintenance_bytes || hearth__service_unpurged(service) != 0;
}

static void start_thread(struct hearth_service *service);

static void *maintain(void *argument)
{
    struct hearth_service *service = argument;
    unsigned idle = 0;
    (void)hearth__exchange_acq_rel(&service->grown, 0);
    while (!hearth__service_is_closed(service) && idle < TICKS_PER_AGE) {
        bool more = false;
        (void)hearth_io_tick();
        if (hearth__service_try_lock(service)) {
            more = !service->ended && age(service);
            idle = more || is_needed(service) ? 0 : idle + 1;
            hearth__service_unlock(service);
        }
        /* Between slices others get their turn. */
        sleep_until(service, hearth__now_ns() + (more ? 1 : period_ms(service)) * MS);
    }
    hearth__store_release(&service->thread, HEARTH__THREAD_NONE);
    /* Whoever obtained storage just now may have seen a thread. Of the two read-modify-writes one is first: either
     * this one finds the growth, or the other one's thread finds none. */
    /* EDGE service.thread, publish: that there is no thread. */
    uint64_t grown = hearth__exchange_acq_rel(&service->grown, 0);
    bool needed = grown >= service->maintenance_bytes;
    if (hearth__service_lock(service)) {
        needed |= is_needed(service);
        hearth__service_unlock(service);
    }
    if (needed && !hearth__service_is_closed(service))
        start_thread(service);
    hearth__service_let_go(service);
    return NULL;
}

static void start_thread(struct hearth_service *service)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    uint32_t none = HEARTH__THREAD_NONE;
    if (!hearth__cas_acq_rel(&service->thread, &none, HEARTH__THREAD_RUNS))
        return;
    (void)hearth__fetch_add_relaxed(&service->holds, 1);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool started = pthread_create(&thread, &attributes, maintain, service) == 0;
    (void)pthread_attr_destroy(&attributes);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started) {
        hearth__store_release(&service->thread, HEARTH__THREAD_NONE);
        hearth__service_let_go(service);
    }
}

void hearth__service_grew(struct hearth_service *service, size_t bytes)
{
    /* EDGE service.thread, observe: whether there is one. */
    uint64_t grown = hearth__fetch_add_acq_rel(&service->grown, bytes) + bytes;
    if (hearth__likely(grown < service->maintenance_bytes ||
                       hearth__load_relaxed(&service->thread) != HEARTH__THREAD_NONE))
        return;
    if ((service->flags & HEARTH_SERVICE_NO_THREAD) == 0 &&
        (hearth__load_relaxed(&service->age_ms) != HEARTH_AGE_NEVER ||
         service->ceiling_percent != 0) &&
        !hearth__service_is_closed(service))
        start_thread(service);
}
