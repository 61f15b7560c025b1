/* SPDX-License-Identifier: Apache-2.0 */
/* Service: its figures, and why a thread's request was refused. */
#include "concurrent/service.h"

#include "core/misuse.h"

#include <string.h>

void hearth__service_read(const struct hearth_service *service, struct hearth__service_reading *now)
{
    struct hearth__io_reading io;
    *now = (struct hearth__service_reading){0};
    hearth__io_read(service->io, &io);
    now->live_bytes = hearth__io_live_bytes(&io);
    now->live_capacity = hearth__io_live_capacity(&io);
    now->leased_capacity = hearth__io_leased_capacity(&io);
    now->io_retained = hearth__io_retained_bytes(&io);
    now->footprint = hearth__io_footprint(&io);
    now->lost = hearth__load_relaxed(&service->io->lost_bytes);
    const struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service) {
        struct hearth__exec_reading exec = hearth__exec_read(arena);
        now->live_bytes += hearth__exec_live_bytes(&exec);
        now->live_capacity += hearth__exec_live_capacity(&exec);
        uint64_t retained = hearth__exec_retained_bytes(&exec);
        uint64_t cold = hearth__load_relaxed(&arena->cold_bytes);
        cold = cold < retained ? cold : retained;
        now->exec_retained += retained - cold;
        now->cold += cold;
        now->pending += hearth__exec_pending_bytes(&exec);
        now->footprint += hearth__exec_footprint(&exec);
        now->lost += hearth__weight_capacity(hearth__load_relaxed(&arena->lost));
    }
    size_t idle = hearth__books_idle_bytes(&service->books);
    now->exec_retained += idle;
    now->footprint += idle;
    /* The sums may count a buffer twice that moved meanwhile; the room never shows more than the limit. */
    size_t counted = hearth__budget_live_capacity(&service->budget);
    if (service->budget.metered && counted < now->live_capacity)
        now->live_capacity = counted;
}

#define GETTER(name, expression)                                                                   \
    size_t hearth_service_##name(const struct hearth_service *service)                             \
    {                                                                                              \
        struct hearth__service_reading now;                                                        \
        if (service == NULL)                                                                       \
            return 0;                                                                              \
        hearth__service_read(service, &now);                                                       \
        return (size_t)(expression);                                                               \
    }

GETTER(live_bytes, now.live_bytes)
GETTER(live_capacity, now.live_capacity)
GETTER(retained_bytes, now.exec_retained + now.io_retained)
GETTER(footprint, now.footprint + hearth__load_relaxed(&service->releases.held_bytes))

size_t hearth_service_thread_count(const struct hearth_service *service)
{
    size_t count = 0;
    if (service == NULL)
        return 0;
    const struct hearth_exec *arena = hearth__service_arenas(service);
    /* Whoever has an arena has one of level 0. */
    for (; arena != NULL; arena = arena->next_in_service)
        count += hearth__load_relaxed(&arena->level) == 0 &&
                 (hearth__load_relaxed(&arena->section.attention) &
                  (HEARTH__ATTENTION_DEAD | HEARTH__ATTENTION_GONE)) == 0;
    return count;
}

size_t hearth_service_waiter_count(const struct hearth_service *service)
{
    return service == NULL ? 0 : hearth__budget_waiter_count(&service->budget);
}

size_t hearth_service_stranded_bytes(const struct hearth_service *service)
{
    struct hearth__service_reading now;
    size_t ceiling = service == NULL ? HEARTH_UNBOUNDED : hearth__budget_ceiling(&service->budget);
    if (ceiling == HEARTH_UNBOUNDED) /* asked once: it may be lifted meanwhile */
        return 0;
    hearth__service_read(service, &now);
    int64_t left = hearth__load_relaxed(&service->budget.credit);
    size_t free_bytes = left <= 0 ? 0 : hearth__weight_capacity((hearth__weight)left);
    size_t retained = (size_t)(now.exec_retained + now.io_retained);
    size_t used = free_bytes + retained;
    return used < ceiling ? ceiling - used : 0;
}

size_t hearth_service_ceiling(const struct hearth_service *service)
{
    return service == NULL ? 0 : hearth__budget_ceiling(&service->budget);
}

/* Refusals. */

static _Thread_local struct {
    uint64_t service; /* its id */
    struct hearth_refusal refusal;
} last __attribute__((tls_model("initial-exec")));

/* By the thread's present request. */
static _Thread_local struct {
    uint64_t service;
    uint64_t bytes;
} reclaimed __attribute__((tls_model("initial-exec")));

static void sum_busy(const struct hearth_service *service, struct hearth_refusal *refusal)
{
    const struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service)
        if (hearth__section_busy(&arena->section) || hearth__load_relaxed(&arena->running) != 0)
            refusal->busy_bytes += hearth_exec_retained_bytes(arena);
}

void hearth__service_refused(struct hearth_service *service, size_t bytes, uint32_t priority,
                             uint32_t why)
{
    struct hearth__service_reading now;
    struct hearth_refusal made = HEARTH_REFUSAL_INIT;
    const struct hearth__budget *budget = &service->budget;
    hearth__service_read(service, &now);
    made.asked_bytes = bytes;
    made.live_limit = budget->metered ? hearth__budget_live_limit(budget) : UINT64_MAX;
    made.live_bytes = now.live_capacity;
    made.reclaimed_bytes = reclaimed.service == service->id ? reclaimed.bytes : 0;
    reclaimed.bytes = 0;
    made.pending_bytes = now.pending;
    made.reserved_bytes = priority == HEARTH_PRIORITY_HIGH ? 0 : hearth__budget_reserve(budget);
    made.backing_refused = (why & HEARTH__REFUSED_BY_BACKING) != 0;
    made.cancelled = (why & HEARTH__REFUSED_CANCELLED) != 0;
    sum_busy(service, &made);
    last.service = service->id;
    last.refusal = made;
}

void hearth__service_note_reclaimed(struct hearth_service *service, size_t bytes)
{
    reclaimed.bytes =
        bytes == 0 || reclaimed.service != service->id ? bytes : reclaimed.bytes + bytes;
    reclaimed.service = service->id;
}

enum hearth_status hearth_service_refusal(const struct hearth_service *service,
                                          struct hearth_refusal *refusal)
{
    if (service == NULL || refusal == NULL || refusal->size < sizeof refusal->size)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_refusal", NULL, refusal);
    struct hearth_refusal made = HEARTH_REFUSAL_INIT;
    if (last.service == service->id)
        made = last.refusal;
    size_t size = refusal->size;
    memcpy(refusal, &made, size < sizeof made ? size : sizeof made);
    refusal->size = size;
    return HEARTH_OK;
}

uint64_t hearth_service_waiter(struct hearth_service *service)
{
    (void)service;
    return hearth__thread_token();
}

enum hearth_status hearth_service_cancel(struct hearth_service *service, uint64_t waiter,
                                         size_t *cancelled)
{
    if (service == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_service_cancel", NULL, NULL);
    hearth__budget_cancel(&service->budget, waiter, cancelled);
    return HEARTH_OK;
}

struct hearth_backing *hearth_service_backing(const struct hearth_service *service,
                                              enum hearth_domain domain)
{
    if (service == NULL || (domain != HEARTH_DOMAIN_EXEC && domain != HEARTH_DOMAIN_IO))
        return NULL;
    return domain == HEARTH_DOMAIN_EXEC ? service->exec_backing : service->io_backing;
}
