/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service: creation, references, close, and the end.
 *
 * Problem. One object owns the I/O arena and each thread's execution arenas. Threads come and go without saying
 * so, hold buffers and leases after everything else is gone, and may be in the middle of an operation when the
 * last user lets the service go.
 *
 * Picture.
 *
 *     users' references --last--> close, then, after a protected period, complete
 *                                           |  each execution arena ends (exec_end.c)
 *     holds on the core:  all users (1)     |  storage goes back
 *                         an arena that a thread has (1 each), the I/O arena (1), the maintenance thread (1)
 *                         --last--> the service's hold on each of its arenas is given up; core to the pool
 *
 * So an arena's registry link is valid while anybody can walk it, and a core whose thread never exits costs its
 * metadata and no storage.
 *
 * Close. A flag, the CLOSED bit in all arenas, waiters woken: returns at once. Operations that see the bit hand
 * nothing out and keep nothing.
 *
 * Locks, outermost first: pass, sleep, the waiters'. No alloc or free takes `pass`, except one that is about to
 * fail.
 */
#include "concurrent/service.h"

#include "concurrent/leak.h"
#include "concurrent/membarrier.h"
#include "core/clock.h"
#include "core/misuse.h"
#include "core/perturb.h"

#include <sched.h>
#include <string.h>

/* Nanoseconds for a KiB, before any purge was timed: an eighth of a microsecond for a page. */
#define PURGE_RATE 32u

/* A backing of the service's own, of the process's default kind. */
static enum hearth_status find_backing(struct hearth_backing *given, struct hearth_backing **found)
{
    if (given != NULL) {
        hearth_backing_ref(given);
        *found = given;
        return HEARTH_OK;
    }
    return hearth__backing_create_default(found);
}

static void wait_for_nothing(struct hearth__retired *retired);
static void settle(struct hearth__retired *retired);
static void wait_for_sections(struct hearth__retired *retired);
static void complete(struct hearth__retired *retired);

static void init_locks(struct hearth_service *service)
{
    pthread_condattr_t attributes;
    (void)pthread_mutex_init(&service->pass, NULL);
    (void)pthread_mutex_init(&service->sleep, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&service->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

static void init(struct hearth_service *service, const struct hearth_service_options *options,
                 uint32_t debug)
{
    static _Atomic(uint64_t) last_id;
    bool metered = options->live_limit != 0 || options->exhaustion == HEARTH_EXHAUSTION_WAIT;
    const struct hearth__budget_limits limits = {
        .ceiling = options->ceiling,
        .grant = options->grant,
        .live_limit = options->live_limit == 0 ? HEARTH_UNBOUNDED : options->live_limit,
        .reserve = options->reserve,
        .metered = metered,
    };
    service->id = hearth__fetch_add_relaxed(&last_id, 1) + 1;
    service->exec_options = (struct hearth_exec_options)HEARTH_EXEC_OPTIONS_INIT;
    service->exec_options.slots = options->exec_slots;
    service->exec_options.reuse_ratio = options->reuse_ratio;
    service->exec_options.backing = service->exec_backing;
    service->exec_options.store = options->exec_store;
    service->debug = debug;
    service->exhaustion = options->exhaustion;
    service->flags = options->flags;
    service->ceiling_percent = options->ceiling_percent;
    service->exec_floor = options->exec_floor;
    service->io_floor = options->io_floor;
    service->maintenance_bytes = options->maintenance_bytes;
    service->retired = (struct hearth__retired){.wait = wait_for_sections, .after = complete};
    service->forked = (struct hearth__retired){.wait = wait_for_nothing, .after = settle};
    service->lost_thread = 0;
    hearth__store_relaxed(&service->closed, 0);
    hearth__store_relaxed(&service->raised,
                          metered || debug != 0 || options->ceiling != HEARTH_UNBOUNDED
                              ? HEARTH__ATTENTION_METERED
                              : 0);
    hearth__store_relaxed(&service->age_runs, options->age_runs);
    hearth__store_relaxed(&service->age_ms, options->age_ms);
    hearth__store_relaxed(&service->exec_cap, options->exec_cap);
    hearth__store_relaxed(&service->asked_ceiling, options->ceiling);
    hearth__store_relaxed(&service->arenas, NULL);
    hearth__store_relaxed(&service->references, 1);
    hearth__store_relaxed(&service->holds, 2); /* the users', the I/O arena's */
    hearth__store_relaxed(&service->grown, 0);
    hearth__store_relaxed(&service->runs, 0);
    hearth__store_relaxed(&service->holder, 0);
    hearth__budget_init(&service->budget, &limits);
    service->outer = NULL;
    service->untold = 0;
    service->ended = false;
    service->passed_ns = 0;
    service->looked_ns = 0;
    service->purged_exec = 0;
    service->purged_io = 0;
    service->purged_ms = 0;
    service->purge_rate = PURGE_RATE;
    hearth__releases_init(&service->releases);
    hearth__books_init(&service->books);
    service->books_backing = service->exec_backing;
    hearth_backing_ref(service->books_backing);
    memset(service->books_age, 0, sizeof service->books_age);
    hearth__store_relaxed(&service->thread, HEARTH__THREAD_NONE);
    init_locks(service);
}

static void unref_backings(struct hearth_service *service)
{
    hearth_backing_unref(service->exec_backing);
    hearth_backing_unref(service->io_backing);
}

static enum hearth_status make_io(struct hearth_service *service,
                                  const struct hearth_service_options *options)
{
    struct hearth_io_options io = HEARTH_IO_OPTIONS_INIT;
    const struct hearth__io_host host = {service, &service->budget, options->exhaustion};
    io.slots = options->io_slots;
    io.retention_cap = options->io_cap;
    io.live_limit = HEARTH_UNBOUNDED;
    io.reuse_ratio = options->reuse_ratio;
    io.backing = service->io_backing;
    return hearth__io_make(&io, service->debug, &host, &service->io);
}

static enum hearth_status make(const struct hearth_service_options *options, uint32_t debug,
                               struct hearth_service **made)
{
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SERVICE);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    struct hearth_service *service = hearth__segment_core(segment);
    service->exec_backing = NULL;
    service->io_backing = NULL;
    service->books_backing = NULL;
    enum hearth_status status = find_backing(options->exec_backing, &service->exec_backing);
    if (status == HEARTH_OK)
        status = find_backing(options->io_backing, &service->io_backing);
    if (status == HEARTH_OK) {
        init(service, options, debug);
        status = make_io(service, options);
    }
    if (status != HEARTH_OK) {
        hearth_backing_unref(service->books_backing);
        unref_backings(service);
        hearth__segment_release(segment);
        return status;
    }
    /* Not an allocator; it says that the segment is in use. */
    hearth__store_release(&segment->arena, hearth_io_allocator(service->io));
    *made = service;
    return HEARTH_OK;
}

enum hearth_status hearth_service_create(const struct hearth_service_options *given,
                                         struct hearth_service **service)
{
    struct hearth_service_options options;
    uint32_t debug;
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_create", NULL, NULL);
    enum hearth_status status = hearth__service_options(given, &options, &debug);
    if (status == HEARTH_OK)
        status = make(&options, debug, service);
    if (status == HEARTH_OK)
        hearth__service_look_at_container(*service, hearth__now_ns());
    return status;
}

void hearth_service_ref(struct hearth_service *service)
{
    if (service != NULL)
        (void)hearth__fetch_add_relaxed(&service->references, 1);
}

struct hearth_io *hearth_service_io(const struct hearth_service *service)
{
    return service == NULL ? NULL : service->io;
}

void hearth__service_raise(struct hearth_service *service, uint32_t attention)
{
    (void)hearth__fetch_or_release(&service->raised, attention & ~HEARTH__ATTENTION_CREDIT);
    HEARTH__PERTURB("service.attach");
    /* An arena that was linked before is found by the walk; one linked later finds the bits. */
    (void)hearth__membarrier();
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service)
        (void)hearth__fetch_or_release(&arena->section.attention, attention);
}

static bool close_once(struct hearth_service *service)
{
    uint32_t open = 0;
    if (!hearth__cas_acq_rel(&service->closed, &open, 1))
        return false;
    hearth__service_raise(service, HEARTH__ATTENTION_CLOSED);
    (void)hearth__io_close(service->io);
    hearth__budget_close(&service->budget);
    hearth__service_wake(service);
    return true;
}

enum hearth_status hearth_service_close(struct hearth_service *service)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_close", NULL, NULL);
    return close_once(service) ? HEARTH_OK : HEARTH_CLOSED;
}

static struct hearth_service *of_retired(struct hearth__retired *retired)
{
    return (struct hearth_service *)(void *)((char *)retired -
                                             offsetof(struct hearth_service, retired));
}

/* Sections that may have begun before the last reference went. */
static void wait_for_sections(struct hearth__retired *retired)
{
    struct hearth_exec *arena = hearth__service_arenas(of_retired(retired));
    for (; arena != NULL; arena = arena->next_in_service)
        while (hearth__section_busy(&arena->section))
            (void)sched_yield();
}

/* Nobody attaches, trims or visits any more, but for the maintenance thread's last pass and owners at the
 * ceiling. */
static void complete(struct hearth__retired *retired)
{
    struct hearth_service *service = of_retired(retired);
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service)
        if (hearth__exec_close(arena))
            hearth__exec_drop(arena);
    bool locked = hearth__service_lock(service);
    struct hearth__pass slabs = {.goal = SIZE_MAX, .force = true};
    if (locked) {
        hearth__service_pass_books(service, &slabs, 0);
        /* Books that come back from now on have no slab. */
        hearth_backing_unref(service->books_backing);
        service->books_backing = NULL;
    }
    (void)hearth__service_run_releases(service, 0);
    (void)hearth__service_purge(service);
    /* The arenas keep theirs until the last buffer is home; nobody waits for a thread's exit. */
    unref_backings(service);
    service->exec_backing = NULL;
    service->io_backing = NULL;
    if (locked)
        hearth__service_unlock(service);
    hearth__service_let_go(service);
}

void hearth_service_unref(struct hearth_service *service)
{
    if (service == NULL)
        return;
    /* EDGE service.references, publish: this thread's use of the service. */
    /* EDGE service.references, observe: everybody's, before the last one closes it. */
    if (hearth__fetch_sub_acq_rel(&service->references, 1) != 1)
        return;
    (void)close_once(service);
    struct hearth_io *io = service->io;
    /* Passes by threads that have a hold only leave the I/O arena alone from here on. */
    bool locked = hearth__service_lock(service);
    if (locked) {
        /* Also if somebody keeps a reference to the I/O arena. */
        struct hearth__pass all = {.domains = HEARTH_DOMAIN_IO, .goal = SIZE_MAX, .force = true};
        hearth__service_pass(service, &all);
        (void)hearth__service_run_releases(service, 0);
    }
    service->ended = true;
    if (locked)
        hearth__service_unlock(service);
    hearth__reclaim_retire(&service->retired);
    /* Retires the arena, too, and serves both if it may; unless somebody else has a reference to it. */
    hearth_io_unref(io);
    if (hearth__reclaim_pending() && !hearth__io_thread_inside())
        (void)hearth__reclaim_run();
}

static void finish(struct hearth_service *service)
{
    struct hearth_exec *next;
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = next) {
        next = arena->next_in_service;
        hearth__exec_drop(arena);
    }
    hearth__service_free_books(service);
    hearth_backing_unref(service->books_backing);
    hearth__budget_fini(&service->budget);
    unref_backings(service);
    (void)pthread_mutex_destroy(&service->pass);
    (void)pthread_mutex_destroy(&service->sleep);
    (void)pthread_cond_destroy(&service->wake);
    hearth__segment_release(hearth__core_segment(service));
}

void hearth__service_let_go(struct hearth_service *service)
{
    /* EDGE service.holds, publish: this thread's use of the core. */
    /* EDGE service.holds, observe: everybody's, before it ends. */
    if (hearth__fetch_sub_acq_rel(&service->holds, 1) == 1)
        finish(service);
}

static void wait_for_nothing(struct hearth__retired *retired)
{
    (void)retired;
}

/* In a forked child, later: holds of threads that are not there. */
static void settle(struct hearth__retired *retired)
{
    struct hearth_service *service =
        (struct hearth_service *)(void *)((char *)retired -
                                          offsetof(struct hearth_service, forked));
    for (; service->lost_thread > 0; service->lost_thread--)
        hearth__service_let_go(service);
    hearth__service_settle_orphans(service);
    hearth__service_let_go(service);
}

/* In a forked child, while there is one thread. */
static void after_fork(void)
{
    for (uint32_t id = 1; id <= hearth__segment_count(); id++) {
        struct hearth__segment *segment = hearth__segment_at(id);
        if (segment == NULL || segment->kind != HEARTH__SEGMENT_SERVICE ||
            hearth__load_relaxed(&segment->arena) == NULL)
            continue;
        struct hearth_service *service = hearth__segment_core(segment);
        if (hearth__load_relaxed(&service->holds) == 0)
            continue; /* somebody who is not here was about to pool it */
        /* In the middle of a pass: what was on its way to the backings is lost here. No arena counts it any more. */
        if (pthread_mutex_trylock(&service->pass) != 0) {
            hearth__releases_init(&service->releases);
        }
        init_locks(service);
        hearth__store_relaxed(&service->holder, 0);
        hearth__books_after_fork(&service->books);
        struct hearth__service_reading now = {0};
        if (!service->ended)
            hearth__service_read(service, &now);
        hearth__budget_after_fork_child(&service->budget, (size_t)now.live_capacity);
        if (hearth__load_relaxed(&service->thread) == HEARTH__THREAD_RUNS) {
            hearth__store_relaxed(&service->thread, HEARTH__THREAD_NONE);
            service->lost_thread++;
        }
        hearth__service_threads_after_fork(service);
        if (hearth__reclaim_is_waiting(&service->forked))
            continue;
        (void)hearth__fetch_add_relaxed(&service->holds, 1);
        hearth__reclaim_retire(&service->forked);
    }
}

/* Checks for leaks on one service. */

static enum hearth_status hold(struct hearth_service *service)
{
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    hearth_service_ref(service);
    return HEARTH_OK;
}

static bool belongs(const struct hearth_allocator *arena, const void *context)
{
    const struct hearth_service *service = context;
    if (arena == hearth_io_allocator(service->io))
        return true;
    const struct hearth_exec *own = hearth__service_arenas(service);
    while (own != NULL && &own->allocator != arena)
        own = own->next_in_service;
    return own != NULL;
}

static const struct hearth__leak_service leak_service = {
    .hold = hold,
    .drop = hearth_service_unref,
    .belongs = belongs,
};

static __attribute__((constructor)) void install_hooks(void)
{
    hearth__leak_service = &leak_service;
    static struct hearth__fork_hook hook = {.child = after_fork};
    hearth__reclaim_on_fork(&hook);
}
