/* SPDX-License-Identifier: Apache-2.0 */
/* Service: the lock of its passes, and what they leave for the backings. */
#include "concurrent/service.h"

#include "core/clock.h"

#include <time.h>

#define MS ((uint64_t)1000000)

/* A request that is about to fail waits so long for a pass that is going on. */
#define PATIENCE_MS 100

/* The service whose pass the calling thread has, or is about to get or to give away: a signal handler, a backing or a
 * misuse callback may ask for it again. */
static _Thread_local _Atomic(struct hearth_service *) passing
    __attribute__((tls_model("initial-exec")));

/* False: the calling thread has it. */
static bool note(struct hearth_service *service, struct hearth_service **outer)
{
    *outer = hearth__load_relaxed(&passing);
    if (*outer == service || hearth__load_relaxed(&service->holder) == hearth__thread_token())
        return false;
    hearth__store_relaxed(&passing, service);
    hearth__section_barrier();
    return true;
}

static bool locked(struct hearth_service *service, struct hearth_service *outer, int result)
{
    if (result == 0) {
        service->outer = outer;
        hearth__store_relaxed(&service->holder, hearth__thread_token());
    } else {
        hearth__store_relaxed(&passing, outer);
    }
    return result == 0;
}

bool hearth__service_lock(struct hearth_service *service)
{
    struct hearth_service *outer;
    return note(service, &outer) && locked(service, outer, pthread_mutex_lock(&service->pass));
}

bool hearth__service_try_lock(struct hearth_service *service)
{
    struct hearth_service *outer;
    return note(service, &outer) && locked(service, outer, pthread_mutex_trylock(&service->pass));
}

bool hearth__service_lock_patiently(struct hearth_service *service)
{
    struct hearth_service *outer;
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)(PATIENCE_MS * MS);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return note(service, &outer) &&
           locked(service, outer, pthread_mutex_timedlock(&service->pass, &until));
}

void hearth__service_unlock(struct hearth_service *service)
{
    struct hearth_service *outer = service->outer;
    size_t untold = service->untold;
    service->untold = 0;
    hearth__store_relaxed(&service->holder, 0);
    (void)pthread_mutex_unlock(&service->pass);
    hearth__section_barrier();
    hearth__store_relaxed(&passing, outer);
    for (; untold > 0; untold--)
        hearth__exec_tell_stale(NULL);
}

bool hearth__service_run_releases(struct hearth_service *service, uint64_t deadline_ns)
{
    uint64_t before = service->releases.released_bytes;
    bool done = hearth__releases_run(&service->releases, deadline_ns);
    /* Somebody may wait because the backing refused. */
    if (service->releases.released_bytes != before)
        hearth__budget_room_give(&service->budget, 0);
    return done;
}

/* Released since the last purge, by whomever: arenas also release themselves. */
static uint64_t unpurged_of(const struct hearth_backing *backing, uint64_t purged)
{
    return backing == NULL ? 0 : hearth__load_relaxed(&backing->released_bytes) - purged;
}

uint64_t hearth__service_unpurged(const struct hearth_service *service)
{
    uint64_t bytes = unpurged_of(service->exec_backing, service->purged_exec);
    if (service->io_backing != service->exec_backing)
        bytes += unpurged_of(service->io_backing, service->purged_io);
    return bytes;
}

static size_t purge(struct hearth_backing *backing, uint64_t *purged)
{
    if (unpurged_of(backing, *purged) == 0)
        return 0;
    *purged = hearth__load_relaxed(&backing->released_bytes);
    return hearth_backing_purge(backing);
}

size_t hearth__service_purge(struct hearth_service *service)
{
    uint64_t dirty = hearth__service_unpurged(service);
    if (dirty == 0)
        return 0;
    uint64_t began = hearth__now_ns();
    size_t bytes = purge(service->exec_backing, &service->purged_exec);
    if (service->io_backing != service->exec_backing)
        bytes += purge(service->io_backing, &service->purged_io);
    uint64_t ended = hearth__now_ns();
    service->purged_ms = ended / MS;
    /* What it took, for those who have little time; little of it says nothing. */
    uint64_t kib = dirty / 1024;
    if (kib >= 64)
        service->purge_rate = (3 * service->purge_rate + (ended - began) / kib) / 4;
    return bytes;
}
