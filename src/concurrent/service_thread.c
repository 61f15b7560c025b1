/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service: its threads' execution arenas.
 *
 * Picture.
 *
 *     thread:   current -> arena;  list -> arena -> arena (one per service and level)    next_in_thread
 *     service:  arenas -> arena -> arena (one per thread and level, dead or alive)       next_in_service, pushed only
 *
 * Levels. Work that is nested uses an arena for each depth. Whoever has an arena of a service has one of level 0,
 * which is attached first and given up last: it alone counts as the thread, and only it is ever `current`.
 *
 * States, in the attention word. (none): owned by the thread whose token the owner word shows. DEAD: the thread
 * exited or detached; the next thread that attaches takes the arena over, with its warm storage, by the CAS that
 * clears DEAD; so does, for a moment, whoever trims. GONE: the service has no users any more (exec_end.c); the
 * arena stays on the thread's list until the thread attaches somewhere, detaches or exits.
 *
 * The thread's exit is seen by a destructor of thread-specific data. It may run more than once, as other
 * destructors may come back; in the last round a thread gets no arena any more, since nobody would take it
 * from it.
 *
 * Progress. Finding: wait-free. Attaching: lock-free but for the kernel, and a walk over the service's arenas.
 */
#include "concurrent/service.h"

#include "core/misuse.h"
#include "core/perturb.h"

#include <limits.h>

struct service_thread {
    uint64_t current_id; /* of the service that was used last; 0: none */
    struct hearth_exec *current;
    struct hearth_exec *list;
    bool busy; /* the list is in use: a signal handler that comes meanwhile goes without */
    unsigned char rounds; /* of the destructor */
};

static _Thread_local struct service_thread self __attribute__((tls_model("initial-exec")));

static pthread_key_t exit_key;
static bool exit_key_made;

bool hearth__service_claim(struct hearth_exec *arena)
{
    uint32_t attention = hearth__load_relaxed(&arena->section.attention);
    while ((attention & (HEARTH__ATTENTION_DEAD | HEARTH__ATTENTION_GONE)) ==
           HEARTH__ATTENTION_DEAD) {
        HEARTH__PERTURB("service.owner");
#ifdef HEARTH_BROKEN_TAKE_OVER_RELAXED
        if (!hearth__cas_weak_relaxed(&arena->section.attention, &attention,
                                      attention & ~HEARTH__ATTENTION_DEAD))
            continue;
#else
        /* EDGE service.owner, observe: everything that the former owner did. */
        if (!hearth__cas_weak_acquire(&arena->section.attention, &attention,
                                      attention & ~HEARTH__ATTENTION_DEAD))
            continue;
#endif
        uint64_t token = hearth__thread_token();
        (void)hearth__fetch_add_relaxed(&arena->service->holds, 1);
        hearth__store_relaxed(&arena->owner, token);
        hearth__store_release(&arena->section.gate, hearth__exec_gate(arena, token));
        return true;
    }
    return false;
}

void hearth__service_unclaim(struct hearth_exec *arena)
{
    hearth__store_relaxed(&arena->owner, HEARTH__OWNER_POOLED);
    struct hearth_service *service = arena->service;
    hearth__section_leave(&arena->section, hearth__exec_gate(arena, HEARTH__OWNER_POOLED));
    HEARTH__PERTURB("service.owner");
    /* EDGE service.owner, publish: everything that this owner did. The last touch, unless the service is gone. */
    if ((hearth__fetch_or_acq_rel(&arena->section.attention, HEARTH__ATTENTION_DEAD) &
         HEARTH__ATTENTION_GONE) != 0) {
        hearth__exec_see_to_end(arena);
        hearth__exec_drop(arena);
    }
    hearth__service_let_go(service);
}

/* Take in what others returned, and keep no more credit than is filled. */
static void tidy_up(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    if (hearth__exec_begin(arena, "hearth_service_detach") != HEARTH_OK)
        return;
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    /* A run that was begun ends by itself from here on. */
    if (!arena->visited) {
        arena->run.asked = false;
        arena->run.key = 0;
        arena->run.to_end = arena->run.book != NULL;
    }
    hearth__exec_end(arena, &after);
    if (hearth__exec_begin(arena, "hearth_service_detach") != HEARTH_OK)
        return;
    if (!arena->visited)
        hearth__exec_discharge(arena);
    hearth__exec_end(arena, &after);
}

/* The calling thread parts with an arena of its list. */
static void give_up(struct hearth_exec *arena)
{
    tidy_up(arena);
    hearth__service_unclaim(arena);
}

static void forget_current(void)
{
    self.current_id = 0;
    self.current = NULL;
}

static void thread_exits(void *unused)
{
    (void)unused;
    self.rounds++;
    self.busy = true;
    forget_current();
    while (self.list != NULL) {
        struct hearth_exec *arena = self.list;
        self.list = arena->next_in_thread;
        give_up(arena);
    }
    self.busy = false;
}

static __attribute__((constructor)) void make_exit_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
}

static bool is_gone(const struct hearth_exec *arena)
{
    return (hearth__load_acquire(&arena->section.attention) & HEARTH__ATTENTION_GONE) != 0;
}

static unsigned level_of(const struct hearth_exec *arena)
{
    return hearth__load_relaxed(&arena->level);
}

/* Part with the arenas of services that are gone, and find the one of this service and level. */
static struct hearth_exec *search(const struct hearth_service *service, unsigned level)
{
    struct hearth_exec *found = NULL;
    struct hearth_exec **link = &self.list;
    while (*link != NULL) {
        struct hearth_exec *arena = *link;
        if (is_gone(arena) && hearth__load_relaxed(&arena->running) == 0 &&
            !hearth__section_busy(&arena->section)) {
            *link = arena->next_in_thread;
            give_up(arena);
            continue;
        }
        if (arena->service == service && level_of(arena) == level)
            found = arena;
        link = &arena->next_in_thread;
    }
    return found;
}

/* What served the same level has the storage that is wanted. */
static struct hearth_exec *take_over(struct hearth_service *service, unsigned level)
{
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service)
        if (level_of(arena) == level && hearth__service_claim(arena))
            return arena;
    arena = hearth__service_arenas(service);
    while (arena != NULL && !hearth__service_claim(arena))
        arena = arena->next_in_service;
    if (arena != NULL)
        hearth__store_relaxed(&arena->level, (uint8_t)level);
    return arena;
}

/* Let readers, visitors and the closer find it. */
static void link_arena(struct hearth_service *service, struct hearth_exec *arena)
{
    arena->next_in_service = hearth__load_relaxed(&service->arenas);
    /* EDGE service.arenas, publish: an arena that others may read and visit. */
    while (!hearth__cas_weak_release(&service->arenas, &arena->next_in_service, arena))
        ;
    HEARTH__PERTURB("service.attach");
    hearth__section_barrier();
    /* Linked before the service is looked at again, and whoever raises anything puts a membarrier between that
     * and a walk over the arenas: so the walk finds the arena, or this finds what was raised. */
    uint32_t attention = hearth__load_acquire(&service->raised) | HEARTH__ATTENTION_CREDIT;
    (void)hearth__fetch_or_release(&arena->section.attention, attention);
}

static enum hearth_status make(struct hearth_service *service, unsigned level,
                               struct hearth_exec **made)
{
    struct hearth_exec_options options = service->exec_options;
    options.retention_cap = hearth__load_relaxed(&service->exec_cap);
    enum hearth_status status = hearth__exec_make(&options, service->debug, made);
    if (status != HEARTH_OK)
        return status;
    (*made)->service = service;
    hearth__store_relaxed(&(*made)->level, (uint8_t)level);
    (*made)->budget = &service->budget;
    (*made)->fixed = service->exhaustion == HEARTH_EXHAUSTION_FAIL;
    (void)hearth__fetch_add_relaxed(&service->holds, 1);
    link_arena(service, *made);
    return HEARTH_OK;
}

static enum hearth_status attach(struct hearth_service *service, unsigned level,
                                 struct hearth_exec **arena)
{
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    if (!exit_key_made || self.rounds >= PTHREAD_DESTRUCTOR_ITERATIONS)
        return HEARTH_BUSY;
    if (pthread_setspecific(exit_key, &self) != 0)
        return HEARTH_NO_MEMORY;
    struct hearth_exec *found = take_over(service, level);
    enum hearth_status status = found != NULL ? HEARTH_OK : make(service, level, &found);
    if (status != HEARTH_OK)
        return status;
    found->next_in_thread = self.list;
    self.list = found;
    *arena = found;
    return HEARTH_OK;
}

/* The calling thread's arena, attached if need be. The list is this call's. */
static enum hearth_status find(struct hearth_service *service, unsigned level,
                               struct hearth_exec **arena)
{
    *arena = search(service, level);
    return *arena != NULL ? HEARTH_OK : attach(service, level, arena);
}

static __attribute__((noinline)) enum hearth_status exec_slow(struct hearth_service *service,
                                                              struct hearth_exec **arena)
{
    if (service == NULL || arena == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_exec", NULL, NULL);
    if (self.busy)
        return hearth__misuse_untold(HEARTH_BUSY);
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    self.busy = true;
    hearth__section_barrier();
    struct hearth_exec *found;
    enum hearth_status status = find(service, 0, &found);
    if (status == HEARTH_OK) {
        self.current_id = 0; /* for a signal handler that comes in between */
        hearth__section_barrier();
        self.current = found;
        hearth__section_barrier();
        self.current_id = service->id;
        *arena = found;
    }
    hearth__section_barrier();
    self.busy = false;
    return status;
}

enum hearth_status hearth_service_exec(struct hearth_service *service, struct hearth_exec **arena)
{
    if (hearth__likely(service != NULL && arena != NULL && self.current_id == service->id &&
                       hearth__load_relaxed(&service->closed) == 0)) {
        *arena = self.current;
        return HEARTH_OK;
    }
    return exec_slow(service, arena);
}

/* Of the list, the lowest level from `level` on. */
static struct hearth_exec *lowest(const struct hearth_service *service, unsigned level)
{
    struct hearth_exec *found = NULL;
    struct hearth_exec *arena = self.list;
    for (; arena != NULL; arena = arena->next_in_thread)
        if (arena->service == service && level_of(arena) >= level &&
            (found == NULL || level_of(arena) < level_of(found)))
            found = arena;
    return found;
}

struct hearth_exec *hearth__service_own(const struct hearth_service *service, unsigned level)
{
    return self.busy ? NULL : lowest(service, level);
}

enum hearth_status hearth_service_child_exec(struct hearth_service *service, unsigned depth,
                                             struct hearth_exec **arena)
{
    if (depth == 0)
        return hearth_service_exec(service, arena);
    if (service == NULL || arena == NULL || depth > HEARTH_CHILD_DEPTH_MAX)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_child_exec", NULL, NULL);
    if (self.busy)
        return hearth__misuse_untold(HEARTH_BUSY);
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    /* Also for the walk: a signal handler that detached the thread would take the list away under it. */
    self.busy = true;
    hearth__section_barrier();
    enum hearth_status status = HEARTH_OK;
    struct hearth_exec *found = lowest(service, depth);
    if (found == NULL || level_of(found) != depth) {
        status = find(service, 0, &found);
        if (status == HEARTH_OK)
            status = attach(service, depth, &found);
    }
    if (status == HEARTH_OK)
        *arena = found;
    hearth__section_barrier();
    self.busy = false;
    return status;
}

bool hearth__service_thread_inside(void)
{
    if (self.busy)
        return true;
    const struct hearth_exec *arena = self.list;
    for (; arena != NULL; arena = arena->next_in_thread)
        if (hearth__section_busy(&arena->section))
            return true;
    return false;
}

/* With all of a service's arenas; level 0 comes last on the list. */
static void part(const struct hearth_service *service)
{
    struct hearth_exec **link = &self.list;
    while (*link != NULL) {
        struct hearth_exec *arena = *link;
        if (arena->service != service) {
            link = &arena->next_in_thread;
            continue;
        }
        *link = arena->next_in_thread;
        give_up(arena);
    }
}

enum hearth_status hearth_service_detach(struct hearth_service *service)
{
    static const char call[] = "hearth_service_detach";
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, call, NULL, NULL);
    if (self.busy)
        return hearth__misuse_untold(HEARTH_BUSY);
    struct hearth_exec *arena = lowest(service, 0);
    if (arena == NULL)
        return HEARTH_OK;
    for (; arena != NULL; arena = lowest(service, level_of(arena) + 1)) {
        if (hearth__section_busy(&arena->section))
            return hearth__exec_busy(arena);
        if (hearth__load_relaxed(&arena->running) != 0) /* from a callback, outside the section */
            return hearth__exec_misuse(arena, HEARTH_BUSY, call, NULL);
    }
    self.busy = true;
    hearth__section_barrier();
    forget_current();
    part(service);
    hearth__section_barrier();
    self.busy = false;
    return HEARTH_OK;
}

bool hearth__service_has(const struct hearth_exec *arena)
{
    const struct hearth_exec *own = self.list;
    while (own != NULL && own != arena)
        own = own->next_in_thread;
    return own != NULL;
}
