/* SPDX-License-Identifier: Apache-2.0 */
/* Service: storage ahead of need. */
#include "concurrent/exec_plan.h"
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
    hearth__exec_store_give(arena, buf, false);
}

/* What would be kept with what is set aside: it is held, and in no store yet. */
static size_t kept_with(const struct hearth_exec *arena, int64_t weight)
{
    return arena->with_plans
               ? hearth__exec_kept(arena) + hearth__weight_capacity((hearth__weight)weight)
               : hearth__weight_capacity(hearth__exec_retained(arena));
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
    if (status == HEARTH_OK &&
        (kept_with(arena, weight) > cap || !hearth__exec_charge_ahead(arena, weight)))
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
        hearth__exec_store_give(arena, buf, false);
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
