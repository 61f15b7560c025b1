/* SPDX-License-Identifier: Apache-2.0 */
/* Service: many buffers at once, and storage ahead of need. */
#include "concurrent/service.h"

#include "core/misuse.h"
#include "core/request.h"

#define PAGE_BYTES ((size_t)4096)

static void touch(struct hearth_buf *buf)
{
    volatile unsigned char *data = hearth__load_relaxed(&buf->data);
    for (size_t at = 0; at < hearth__buf_capacity(buf); at += PAGE_BYTES)
        data[at] = 0;
}

/* Prefill of an execution arena: what is free and suitable is set aside, the rest obtained, and then all of it
 * given to the store. */

struct fill {
    struct hearth__want want;
    size_t count;
    bool touch;
    struct hearth_buf *chain;  /* obtained, linked by next */
    struct hearth_buf *reused; /* was there before */
};

static void set_aside(struct fill *fill, struct hearth_buf **chain, struct hearth_buf *buf)
{
    buf->next = *chain;
    *chain = buf;
    fill->count--;
}

static enum hearth_status collect_exec(struct hearth_exec *arena, struct fill *fill)
{
    struct hearth_buf *buf;
    while (fill->count > 0 && (buf = hearth__exec_store_take(arena, &fill->want)) != NULL)
        set_aside(fill, &fill->reused, buf);
    while (fill->count > 0) {
        enum hearth_status status = hearth__exec_obtain(arena, &fill->want, &buf);
        if (status != HEARTH_OK)
            return status;
        if (fill->touch) {
            hearth__exec_leave(arena);
            touch(buf);
            hearth__section_resume(&arena->section);
        }
        set_aside(fill, &fill->chain, buf);
    }
    return HEARTH_OK;
}

static void give_fresh(struct hearth_exec *arena, struct hearth_buf *buf)
{
    hearth__store_relaxed(&buf->stamp, hearth__load_relaxed(&arena->cells.gives));
    hearth__cell_add(&arena->cells.gives, 1);
    hearth__cell_add(&arena->cells.moves, 1);
    hearth__exec_store_give(arena, buf);
}

/* Whether all that is set aside may be kept; it is then in the store, else on its way to the backing. */
static enum hearth_status keep_exec(struct hearth_exec *arena, struct fill *fill,
                                    struct hearth__exec_after *after, enum hearth_status status)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    int64_t weight = 0;
    for (const struct hearth_buf *buf = fill->chain; buf != NULL; buf = buf->next)
        weight += (int64_t)hearth__load_relaxed(&buf->weight);
    for (const struct hearth_buf *buf = fill->reused; buf != NULL; buf = buf->next)
        weight += (int64_t)hearth__load_relaxed(&buf->weight);
    if (status == HEARTH_OK && (hearth__weight_capacity(hearth__exec_retained(arena)) > cap ||
                                !hearth__exec_charge_ahead(arena, weight)))
        status = HEARTH_NO_MEMORY;
    while (fill->chain != NULL) {
        struct hearth_buf *buf = fill->chain;
        fill->chain = buf->next;
        if (status != HEARTH_OK) {
            hearth__exec_chain_push(after, buf);
            continue;
        }
        give_fresh(arena, buf);
    }
    /* What was there before stays, whatever becomes of the rest. */
    while (fill->reused != NULL) {
        struct hearth_buf *buf = fill->reused;
        fill->reused = buf->next;
        hearth__exec_store_give(arena, buf);
    }
    return status;
}

static enum hearth_status prefill_exec(struct hearth_exec *arena, struct fill *fill)
{
    static const char call[] = "hearth_service_prefill";
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin_alone(arena, call);
    if (status != HEARTH_OK)
        return status;
    arena->filling = true;
    if (hearth__exec_closed(arena))
        status = HEARTH_CLOSED;
    else if (fill->want.alignment_log > HEARTH__ALIGNMENT_LOG_MIN)
        status = hearth__exec_prepare_aligned(arena);
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    if (status == HEARTH_OK)
        status = collect_exec(arena, fill);
    arena->filling = false;
    status = keep_exec(arena, fill, &after, status);
    hearth__exec_end(arena, &after);
    return status;
}

/* One after another, from the lists only or from the backing. */
static enum hearth_status collect_io(struct hearth__io_access *access, struct fill *fill,
                                     bool reuse)
{
    static const uint64_t returning = (uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS;
    access->reuse_only = reuse;
    while (fill->count > 0) {
        struct hearth_buf *buf = NULL;
        enum hearth_status status = access->closed
                                        ? HEARTH_CLOSED
                                        : hearth__io_obtain(access, &fill->want, returning, &buf);
        if (status != HEARTH_OK)
            return status;
        if (fill->touch && !reuse) {
            hearth__io_leave(access);
            touch(buf);
            hearth__io_enter_again(access);
        }
        set_aside(fill, reuse ? &fill->reused : &fill->chain, buf);
    }
    return HEARTH_OK;
}

/* Credit for a chain; what gets none is given back. False if any was. */
static bool charge_io(struct hearth__io_access *access, struct hearth_buf **chain, bool wanted)
{
    struct hearth_buf *charged = NULL;
    size_t cap = hearth__load_relaxed(&access->arena->retention_cap);
    bool all = true;
    while (*chain != NULL) {
        struct hearth_buf *buf = *chain;
        *chain = buf->next;
        if (!wanted || !all || access->closed || hearth__buf_capacity(buf) > cap ||
            !hearth__io_credit_take(access, hearth__io_credit_of(buf))) {
            all = false;
            hearth__io_empty(access, buf, true);
            continue;
        }
        buf->next = charged;
        charged = buf;
    }
    *chain = charged;
    return all;
}

/* Where all threads find it. */
static void list_io(struct hearth__io_access *access, struct hearth_buf *chain)
{
    struct hearth_io *io = access->arena;
    while (chain != NULL) {
        struct hearth_buf *buf = chain;
        chain = buf->next;
        buf->flags = 0;
        hearth__store_relaxed(&buf->stamp, hearth__io_stamp(io, access->cache));
        hearth__io_list_give(io, buf);
    }
}

static enum hearth_status prefill_io(struct hearth_io *io, struct fill *fill)
{
    struct hearth__io_access access;
    hearth__io_enter(io, &access);
    access.filling = true;
    access.prepaid = true; /* nothing becomes live */
    enum hearth_status status = collect_io(&access, fill, true);
    if (status == HEARTH_NO_MEMORY || status == HEARTH_NO_SLOT)
        status = collect_io(&access, fill, false);
    /* What was there before goes back, if it finds the credit again that it had. */
    bool kept = charge_io(&access, &fill->reused, true);
    if (!charge_io(&access, &fill->chain, status == HEARTH_OK && kept) && status == HEARTH_OK) {
        status = access.closed ? HEARTH_CLOSED : HEARTH_NO_MEMORY;
        while (fill->chain != NULL) {
            struct hearth_buf *buf = fill->chain;
            fill->chain = buf->next;
            hearth__io_credit_give(&access, hearth__io_credit_of(buf));
            hearth__io_empty(&access, buf, true);
        }
    }
    list_io(&access, fill->reused);
    list_io(&access, fill->chain);
    hearth__io_leave(&access);
    return status;
}

enum hearth_status hearth_service_prefill(struct hearth_service *service, enum hearth_domain domain,
                                          const struct hearth_request *request, size_t count,
                                          uint32_t flags)
{
    static const char call[] = "hearth_service_prefill";
    struct fill fill = {.count = count, .touch = (flags & HEARTH_PREFILL_TOUCH) != 0};
    struct hearth_exec *arena;
    unsigned alignment_log;
    size_t bytes;
    if (service == NULL || !hearth__request_alignment(request, &alignment_log) ||
        (domain != HEARTH_DOMAIN_EXEC && domain != HEARTH_DOMAIN_IO) ||
        (flags & ~HEARTH_PREFILL_TOUCH) != 0)
        return hearth__misuse(HEARTH_INVALID, call, NULL, request);
    if (hearth__service_is_closed(service))
        return HEARTH_CLOSED;
    /* Both arenas round by their backings. */
    if (domain == HEARTH_DOMAIN_IO) {
        if (!hearth__rounding_want(&service->io->rounding, request->size, alignment_log,
                                   &fill.want) ||
            __builtin_mul_overflow(fill.want.bytes, count, &bytes))
            return HEARTH_OVERFLOW;
        return bytes > HEARTH__HELD_MAX ? HEARTH_NO_MEMORY : prefill_io(service->io, &fill);
    }
    enum hearth_status status = hearth_service_exec(service, &arena);
    if (status != HEARTH_OK)
        return status;
    if (!hearth__rounding_want(&arena->rounding, request->size, alignment_log, &fill.want) ||
        __builtin_mul_overflow(fill.want.bytes, count, &bytes))
        return HEARTH_OVERFLOW;
    return bytes > HEARTH__HELD_MAX ? HEARTH_NO_MEMORY : prefill_exec(arena, &fill);
}

/* Many at once. */

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

enum hearth_status hearth_service_free_bulk(struct hearth_service *service,
                                            struct hearth_buf *const *bufs, size_t count,
                                            size_t *bad)
{
    static const char call[] = "hearth_service_free_bulk";
    static _Atomic(uint64_t) last_mark;
    if (service == NULL || (bufs == NULL && count != 0))
        return hearth__misuse(HEARTH_INVALID, call, NULL, bufs);
    /* A live buffer's stamp is not used, so it can say that the buffer was met before in this call. */
    uint64_t mark = UINT64_MAX - hearth__fetch_add_relaxed(&last_mark, 1);
    for (size_t i = 0; i < count; i++) {
        enum hearth_status status = look_at(service, bufs[i]);
        if (status == HEARTH_OK && hearth__load_relaxed(&bufs[i]->stamp) == mark)
            status = HEARTH_STALE;
        if (status != HEARTH_OK) {
            if (bad != NULL)
                *bad = i;
            return hearth__misuse(status, call, NULL, bufs[i]);
        }
        hearth__store_relaxed(&bufs[i]->stamp, mark);
    }
    enum hearth_status first = HEARTH_OK;
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
