/* SPDX-License-Identifier: Apache-2.0 */
/* Service: many buffers at once. */
#include "concurrent/service.h"

#include <stdlib.h>
#include <string.h>

#include "core/misuse.h"
#include "core/request.h"

/* A bulk on its way: bare buffers or leases. */
struct bulk {
    const struct hearth_request *request;
    size_t count;
    const char *call;
    struct hearth_buf **bufs;
    struct hearth_lease *leases; /* NULL: bare */
};

/* Nothing of it is left behind in the caller's array. */
static void undo(struct hearth_io *io, const struct bulk *bulk, size_t taken)
{
    while (taken > 0) {
        taken--;
        if (bulk->leases != NULL) {
            (void)hearth_lease_release(bulk->leases[taken]);
            bulk->leases[taken] = (struct hearth_lease){0};
        } else {
            (void)hearth_io_free(io, bulk->bufs[taken]);
            bulk->bufs[taken] = NULL;
        }
    }
}

/* All or none. `taken`: how many there were before it failed; their room is given back. */
static enum hearth_status take_all(struct hearth_io *io, const struct bulk *bulk, bool prepaid,
                                   size_t *taken)
{
    struct hearth_request request = *bulk->request;
    uint32_t how = prepaid ? HEARTH__IO_PREPAID : 0;
    if (io->waits && request.deadline_ns != HEARTH_NO_WAIT)
        how |= HEARTH__IO_POLITE;
    request.deadline_ns = HEARTH_NO_WAIT;
    for (size_t i = 0; i < bulk->count; i++) {
        struct hearth_buf *buf;
        uint64_t generation;
        enum hearth_status status = hearth__io_alloc_paid(io, &request, bulk->leases != NULL, how,
                                                          bulk->call, &buf, &generation);
        if (status != HEARTH_OK) {
            undo(io, bulk, i);
            *taken = i;
            return status;
        }
        if (bulk->leases != NULL)
            bulk->leases[i] = (struct hearth_lease){buf, generation};
        else
            bulk->bufs[i] = buf;
    }
    return HEARTH_OK;
}

/* For all of them together; none is held meanwhile. */
static enum hearth_status wait_for_all(struct hearth_service *service, const struct bulk *bulk)
{
    struct hearth_io *io = service->io;
    struct hearth__want want;
    unsigned alignment_log;
    size_t bytes;
    if (!hearth__request_alignment(bulk->request, &alignment_log))
        return HEARTH_INVALID;
    if (!hearth__rounding_want(&io->rounding, bulk->request->size, alignment_log, &want) ||
        __builtin_mul_overflow(want.bytes, bulk->count, &bytes))
        return HEARTH_OVERFLOW;
    struct hearth__wait wait =
        HEARTH__WAIT_INIT(bytes, bulk->request->priority, bulk->request->deadline_ns);
    enum hearth_status status;
    while ((status = hearth__budget_wait(&service->budget, &wait)) == HEARTH_OK) {
        size_t taken = 0;
        if (take_all(io, bulk, true, &taken) == HEARTH_OK) {
            hearth__budget_wait_end(&service->budget, &wait);
            return HEARTH_OK;
        }
        /* Those that went home again gave back their part of the room. */
        wait.units -= taken * hearth__room_units(want.bytes);
    }
    hearth__service_refused(service, bytes, bulk->request->priority,
                            wait.cancelled ? HEARTH__REFUSED_CANCELLED : 0);
    return status;
}

static enum hearth_status bulk_io(struct hearth_service *service, const struct bulk *bulk)
{
    size_t taken;
    enum hearth_status status = take_all(service->io, bulk, false, &taken);
    if ((status == HEARTH_NO_MEMORY || status == HEARTH_NO_SLOT) && service->io->waits &&
        bulk->request->deadline_ns != HEARTH_NO_WAIT)
        status = wait_for_all(service, bulk);
    return status;
}

static enum hearth_status bulk_exec(struct hearth_service *service, const struct bulk *bulk)
{
    struct hearth_exec *arena;
    enum hearth_status status = hearth_service_exec(service, &arena);
    size_t taken = 0;
    while (status == HEARTH_OK && taken < bulk->count) {
        status = hearth_exec_alloc_ex(arena, bulk->request, &bulk->bufs[taken]);
        taken += status == HEARTH_OK;
    }
    while (status != HEARTH_OK && taken > 0) {
        (void)hearth_exec_free(arena, bulk->bufs[--taken]);
        bulk->bufs[taken] = NULL;
    }
    return status;
}

enum hearth_status hearth_service_alloc_bulk(struct hearth_service *service,
                                             enum hearth_domain domain,
                                             const struct hearth_request *request, size_t count,
                                             struct hearth_buf **bufs)
{
    static const char call[] = "hearth_service_alloc_bulk";
    const struct bulk bulk = {request, count, call, bufs, NULL};
    unsigned alignment_log;
    if (service == NULL || !hearth__request_alignment(request, &alignment_log) || bufs == NULL ||
        (domain != HEARTH_DOMAIN_EXEC && domain != HEARTH_DOMAIN_IO))
        return hearth__misuse(HEARTH_INVALID, call, NULL, request);
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    return domain == HEARTH_DOMAIN_IO ? bulk_io(service, &bulk) : bulk_exec(service, &bulk);
}

enum hearth_status hearth_service_lease_bulk(struct hearth_service *service,
                                             const struct hearth_request *request, size_t count,
                                             struct hearth_lease *leases)
{
    static const char call[] = "hearth_service_lease_bulk";
    const struct bulk bulk = {request, count, call, NULL, leases};
    unsigned alignment_log;
    if (service == NULL || !hearth__request_alignment(request, &alignment_log) || leases == NULL)
        return hearth__misuse(HEARTH_INVALID, call, NULL, request);
    return hearth__service_is_closed(service) ? HEARTH_CLOSED : bulk_io(service, &bulk);
}

/* Why an entry cannot be returned, or OK. */
static enum hearth_status look_at(const struct hearth_service *service,
                                  const struct hearth_buf *buf)
{
    const struct hearth_allocator *owner = hearth_buf_owner(buf);
    if (owner == NULL)
        return HEARTH_FOREIGN;
    bool ours = owner == hearth_io_allocator(service->io);
    if (owner->ops == &hearth__exec_ops)
        ours = ((const struct hearth_exec *)(const void *)owner)->service == service;
    if (!ours)
        return HEARTH_FOREIGN;
    uint64_t word = hearth__load_acquire(&buf->state);
    if (hearth__word_state(word) != HEARTH__LIVE)
        return hearth__buf_not_live(word);
    bool queued = owner->ops == &hearth__exec_ops && hearth__exec_is_queued(buf);
    return queued ? HEARTH_STALE : HEARTH_OK;
}

/* Buffers met so far, by number. Small calls need no memory for it; where there is none, it takes longer. */
#define MET_SMALL 512u

struct met {
    uint32_t *table;
    size_t mask;
    uint32_t small[MET_SMALL];
};

static void met_init(struct met *met, size_t count)
{
    size_t size = MET_SMALL;
    met->table = met->small;
    while (size / 2 < count && size < SIZE_MAX / 8)
        size *= 2;
    if (size > MET_SMALL)
        met->table = malloc(size * sizeof *met->table);
    met->mask = size - 1;
    if (met->table != NULL)
        memset(met->table, 0, size * sizeof *met->table);
}

static void met_end(struct met *met)
{
    if (met->table != met->small)
        free(met->table);
}

/* Whether bufs[i] is one of those before it. */
static bool was_met(struct met *met, struct hearth_buf *const *bufs, size_t i)
{
    uint32_t number = bufs[i]->index; /* never 0 */
    if (met->table == NULL) {
        size_t k = 0;
        while (bufs[k] != bufs[i])
            k++;
        return k != i;
    }
    size_t at = number * (size_t)2654435761u & met->mask;
    while (met->table[at] != 0 && met->table[at] != number)
        at = (at + 1) & met->mask;
    bool found = met->table[at] == number;
    met->table[at] = number;
    return found;
}

/* The first entry that cannot be returned, or `count`. */
static size_t first_bad(const struct hearth_service *service, struct hearth_buf *const *bufs,
                        size_t count, enum hearth_status *status)
{
    struct met met;
    size_t i = 0;
    met_init(&met, count);
    for (; i < count; i++) {
        *status = look_at(service, bufs[i]);
        if (*status == HEARTH_OK && was_met(&met, bufs, i))
            *status = HEARTH_STALE;
        if (*status != HEARTH_OK)
            break;
    }
    met_end(&met);
    return i;
}

enum hearth_status hearth_service_free_bulk(struct hearth_service *service,
                                            struct hearth_buf *const *bufs, size_t count,
                                            size_t *bad)
{
    static const char call[] = "hearth_service_free_bulk";
    if (service == NULL || (bufs == NULL && count != 0))
        return hearth__misuse(HEARTH_INVALID, call, NULL, bufs);
    enum hearth_status first = HEARTH_OK;
    size_t wrong = first_bad(service, bufs, count, &first);
    if (wrong != count) {
        if (bad != NULL)
            *bad = wrong;
        return hearth__misuse(first, call, NULL, bufs[wrong]);
    }
    for (size_t i = 0; i < count; i++) {
        enum hearth_status status = hearth_free(hearth_buf_owner(bufs[i]), bufs[i]);
        if (status != HEARTH_OK && first == HEARTH_OK) {
            /* Another thread returned it at this moment. */
            first = status;
            if (bad != NULL)
                *bad = i;
        }
    }
    return first;
}

enum hearth_status hearth_lease_release_bulk(const struct hearth_lease *leases, size_t count,
                                             size_t *released)
{
    if (leases == NULL && count != 0)
        return hearth__misuse(HEARTH_INVALID, "hearth_lease_release_bulk", NULL, leases);
    enum hearth_status first = HEARTH_OK;
    size_t done = 0;
    for (size_t i = 0; i < count; i++) {
        enum hearth_status status = hearth_lease_release(leases[i]);
        done += status == HEARTH_OK;
        if (first == HEARTH_OK)
            first = status;
    }
    if (released != NULL)
        *released = done;
    return first;
}
