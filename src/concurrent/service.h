/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a service. The essay is in service.c. */
#ifndef HEARTH_CONCURRENT_SERVICE_H
#define HEARTH_CONCURRENT_SERVICE_H

#include "concurrent/books.h"
#include "concurrent/budget.h"
#include "concurrent/exec.h"
#include "concurrent/io.h"
#include "concurrent/reclaim.h"
#include "core/release.h"

#include <hearth/service.h>

#include <pthread.h>
#include <stdbool.h>

/* The padding is the point. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth_service {
    /* Set at creation. */

    uint64_t id; /* never reused */
    struct hearth_io *io;
    struct hearth_backing *exec_backing, *io_backing;
    struct hearth_exec_options exec_options;
    uint32_t debug; /* HEARTH__DEBUG_* */
    uint32_t exhaustion, flags, ceiling_percent;
    size_t exec_floor, io_floor;
    size_t maintenance_bytes;
    struct hearth__retired retired;
    struct hearth__retired forked; /* in a child: see after_fork() */

    /* Changed seldom. */

    _Atomic(uint32_t) closed;
    _Atomic(uint32_t) raised; /* attention bits that arenas are born with */
    _Atomic(uint32_t) age_runs, age_ms;
    _Atomic(size_t) exec_cap;
    _Atomic(size_t) asked_ceiling;        /* what users set; the container's limit may be below */
    _Atomic(struct hearth_exec *) arenas; /* pushed only */

    alignas(64) _Atomic(uint64_t) references; /* users' */
    /* Whatever needs the core: all users together, each arena that a thread has, the I/O arena, the maintenance
     * thread. */
    _Atomic(uint64_t) holds;
    _Atomic(uint64_t) grown; /* bytes obtained, since the maintenance thread looked last */
    _Atomic(uint64_t) runs;  /* of all threads */
    struct hearth__budget budget;
    struct hearth__books books;
    struct hearth_backing *books_backing; /* the execution arenas', until the last book is gone */

    /* One pass over the arenas at a time. Rank: outermost. Through hearth__service_lock() and its like. */
    pthread_mutex_t pass;
    _Atomic(uint64_t) holder; /* the token of the thread that has it */
    /* Guarded by it. */
    struct hearth_service *outer; /* whose pass its thread had before */
    size_t untold;                /* stale returns that were met: told when the lock is given up */
    bool ended;                   /* the last reference is gone */
    uint64_t passed_ns;           /* when the last pass that looked at threads' activity began */
    uint64_t looked_ns;           /* when the container's limit was read */
    uint32_t lost_thread;         /* in a forked child: maintenance threads that are not there */
    uint64_t purged_exec,
        purged_io; /* what the backings had taken back when they were purged last */
    uint64_t purged_ms;
    uint64_t purge_rate; /* nanoseconds that a purge takes for each KiB */
    struct hearth__releases releases;
    struct hearth__books_age {
        uint64_t uses; /* when it was looked at last */
        uint64_t since_ms;
        uint64_t run_uses; /* the same, by runs */
        uint64_t since_run;
        uint64_t plan_uses;
    } books_age[HEARTH__BOOKS_MOST];

    /* The maintenance thread: service_tick.c. */
    pthread_mutex_t sleep; /* guards what it sleeps on */
    pthread_cond_t wake;
    _Atomic(uint32_t) thread; /* enum hearth__maintenance */
};

enum hearth__maintenance { HEARTH__THREAD_NONE, HEARTH__THREAD_RUNS };

static_assert(sizeof(struct hearth_service) <= HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET,
              "a service fits its segment");

static inline bool hearth__service_is_closed(const struct hearth_service *service)
{
    return hearth__load_acquire(&service->closed) != 0;
}

static inline struct hearth_exec *hearth__service_arenas(const struct hearth_service *service)
{
    /* EDGE service.arenas, observe: an arena that others may read and visit. */
    return hearth__load_acquire(&service->arenas);
}

/* Attention bits in all arenas, and in those of threads that come later. Makes a system call. */
void hearth__service_raise(struct hearth_service *service, uint32_t attention);

/* A hold on the core is given up: the last one ends it. */
void hearth__service_let_go(struct hearth_service *service);

/* Options as they hold for a service, and the debug flags: service_options.c. */
enum hearth_status hearth__service_options(const struct hearth_service_options *given,
                                           struct hearth_service_options *options, uint32_t *debug);

/* Threads: service_thread.c. */

/* Of the calling thread's arenas the one of the lowest level from `level` on, or NULL. Level 0 is there if any is.
 * Wait-free. */
struct hearth_exec *hearth__service_own(const struct hearth_service *service, unsigned level);

/* Whether the calling thread was interrupted inside a section of an execution arena of a service. */
bool hearth__service_thread_inside(void);

/* Take over an arena that an ended thread left, with a hold on the service; false if it is not to be had. And leave
 * it again. */
bool hearth__service_claim(struct hearth_exec *arena);
void hearth__service_unclaim(struct hearth_exec *arena);

/* Whether the calling thread has the arena on its list. */
bool hearth__service_has(const struct hearth_exec *arena);

/* In a forked child, service_fork.c: nothing is called that may take a lock, such as a backing, whose own fork handlers may not
 * have run yet. What is left to be done comes later. */
void hearth__service_threads_after_fork(struct hearth_service *service);
void hearth__service_settle_orphans(struct hearth_service *service);

/* Passes: service_pass.c. */

/* What a pass is to give back, and what came of it. */
struct hearth__pass {
    uint32_t domains;     /* enum hearth_domain, joined */
    size_t goal;          /* bytes */
    size_t most;          /* bytes at most, whatever the size of the next one; 0: no bound */
    uint64_t deadline_ns; /* 0: none */
    uint64_t age_ms;      /* what is at least so old; 0: all of idle caches */
    bool force;           /* whatever the owners did lately; they must be outside, that is all */
    const struct hearth_service *service; /* set by the pass */
    bool looked;                          /* what the threads do was looked at: goes by that */
    bool looks;                           /* what the threads do is looked at */
    bool visits;                          /* threads' caches are visited */
    const struct hearth_exec *asking;     /* but not this one's: it makes room itself; NULL: none */
    size_t released;                      /* out: bytes, by domain in the next two */
    size_t released_exec, released_io;
    size_t released_directly;   /* out: the part that never was among the releases */
    uint64_t purged_spans;      /* pages that went while their segments stayed */
    size_t busy_bytes;          /* out: retained where the pass was not let in */
    size_t visited, busy;       /* out: caches */
    bool at_work;               /* out: the I/O arena was used since the last look */
    bool unknown;               /* out: a cache moved since a look that was long ago */
    bool more;                  /* out: the deadline ended it */
    bool caps;                  /* give back what is above the arenas' caps, and nothing else */
    uint64_t released_at_start; /* of the releases */
};

/* The pass lock. A thread that has it and is called back, by a backing or with a misuse, does not get it: false. */
bool hearth__service_lock(struct hearth_service *service);
bool hearth__service_try_lock(struct hearth_service *service);
/* For a request that is about to fail: for a tenth of a second at most. */
bool hearth__service_lock_patiently(struct hearth_service *service);
void hearth__service_unlock(struct hearth_service *service);

/* With the pass lock held. */
void hearth__service_pass(struct hearth_service *service, struct hearth__pass *pass);

/* With the pass lock held: slabs that nobody uses, service_books.c. */
void hearth__service_pass_books(struct hearth_service *service, struct hearth__pass *pass,
                                uint64_t now_ms);

/* With the pass lock held: go on planning what runs left, where nobody runs. */
void hearth__service_plan_books(struct hearth_service *service);

/* With the pass lock held: slabs that no run used for so many. */
void hearth__service_age_books(struct hearth_service *service, uint64_t runs, uint32_t age_runs);

/* With the pass lock held: what the ceiling does not cover. */
void hearth__service_charge_books(struct hearth_service *service);

/* The end of the service: nobody else is there. */
void hearth__service_free_books(struct hearth_service *service);

/* With the pass lock held: oldest first, until the goal is reached. */
void hearth__service_pass_by_age(struct hearth_service *service, struct hearth__pass *pass);

/* With the pass lock held: what waits to be given back. False if something is left at the deadline. */
bool hearth__service_run_releases(struct hearth_service *service, uint64_t deadline_ns);

/* With the pass lock held: purge the backings if anything was given back since. Returns bytes. */
size_t hearth__service_purge(struct hearth_service *service);

/* With the pass lock held: bytes given back to the backings since they were purged, by whomever. */
uint64_t hearth__service_unpurged(const struct hearth_service *service);

/* The calling thread's magazines to the shared lists. */
void hearth__service_flush_own(struct hearth_io *io);

/* Hooks for the arenas; called outside of sections. */

/* At the ceiling: evict elsewhere, so that `weight` may be retained in this execution arena of the calling thread, or
 * in the I/O arena (NULL). False: nothing was. */
bool hearth__service_make_room(struct hearth_service *service, const struct hearth_exec *exec,
                               int64_t weight);

/* Before a request fails: everything retained that is not inside an operation. Returns bytes. */
size_t hearth__service_reclaim(struct hearth_service *service);

/* Storage was obtained: the maintenance thread may be needed. */
void hearth__service_grew(struct hearth_service *service, size_t bytes);

/* So much more was reclaimed for the calling thread's request; 0 at its beginning. */
void hearth__service_note_reclaimed(struct hearth_service *service, size_t bytes);

/* Why a request was refused. */
#define HEARTH__REFUSED_BY_BACKING 1u
#define HEARTH__REFUSED_CANCELLED 2u

/* Remember for the calling thread that its request was refused. */
void hearth__service_refused(struct hearth_service *service, size_t bytes, uint32_t priority,
                             uint32_t why);

/* The container's limit: read it again if that was long ago. */
void hearth__service_look_at_container(struct hearth_service *service, uint64_t now_ns);

/* The ceiling changed. */
void hearth__service_apply_ceiling(struct hearth_service *service, size_t bytes);

void hearth__service_wake(struct hearth_service *service);

/* Readings: service_read.c. */

struct hearth__service_reading {
    uint64_t live_bytes, live_capacity, leased_capacity;
    uint64_t exec_retained, io_retained;
    uint64_t cold; /* retained in free spans, and not resident: in none of the two */
    uint64_t pending, lost, footprint;
};

void hearth__service_read(const struct hearth_service *service,
                          struct hearth__service_reading *now);

#endif
