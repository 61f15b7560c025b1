/* SPDX-License-Identifier: Apache-2.0 */
/* I/O arena: the general paths of handing out and coming home, for whatever the plain ones in io.c do not
 * cover, and the arena as an allocator. */
#include "concurrent/io.h"
#include "concurrent/service.h"

#include "core/conf.h"
#include "core/misuse.h"
#include "core/request.h"
#include "core/zero.h"

#include <string.h>

#define LIVE_BITS ((uint64_t)HEARTH__LIVE << HEARTH__COUNT_BITS)
#define LEASED_BITS ((uint64_t)HEARTH__LEASED << HEARTH__COUNT_BITS | 1)

/* Inside: count a slot as handed out. */
static void count_out_general(struct hearth__io_access *access, const struct hearth_buf *buf,
                              size_t size, bool lease)
{
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    if (lease) {
        HEARTH__IO_COUNT(access, lease_out_weight, weight);
        HEARTH__IO_COUNT(access, lease_out_size, size);
    } else {
        HEARTH__IO_COUNT(access, bare_out_weight, weight);
        HEARTH__IO_COUNT(access, bare_out_size, size);
    }
    hearth__io_count_up(access, size);
}

/* One request on its way. */
struct order {
    struct hearth__want want;
    size_t size;
    uint32_t priority;
    bool lease;
    bool prepaid;         /* room for `want` was reserved */
    bool known_zero;      /* out */
    bool backing_refused; /* out */
};

static enum hearth_status obtain_and_count(struct hearth_io *arena, struct order *order,
                                           struct hearth_buf **out)
{
    struct hearth__io_access access;
    struct hearth_buf *buf = NULL;
    hearth__io_enter(arena, &access);
    access.priority = order->priority;
    access.prepaid = order->prepaid;
    enum hearth_status status =
        access.closed ? HEARTH_CLOSED
                      : hearth__io_obtain(&access, &order->want,
                                          order->lease ? LEASED_BITS : LIVE_BITS, &buf);
    order->backing_refused = access.backing_refused;
    if (status == HEARTH_OK) {
        /* Set by a fresh attachment only: what comes from a list was handed out before. */
        order->known_zero = (buf->flags & HEARTH__BUF_ZERO) != 0;
        buf->flags = 0;
        hearth__store_relaxed(&buf->size, order->size);
        count_out_general(&access, buf, order->size, order->lease);
        *out = buf;
    }
    hearth__io_leave(&access);
    return status;
}

static bool is_refusal(enum hearth_status status)
{
    return status == HEARTH_NO_MEMORY || status == HEARTH_NO_SLOT;
}

/* Until storage comes back, or the deadline. A turn without success keeps the place in the queue. */
static enum hearth_status wait_and_obtain(struct hearth_io *arena, struct order *order,
                                          uint64_t deadline_ns, bool *cancelled,
                                          struct hearth_buf **out)
{
    struct hearth__wait wait =
        HEARTH__WAIT_INIT(order->want.bytes, order->priority & HEARTH_PRIORITY_HIGH, deadline_ns);
    enum hearth_status status;
    order->prepaid = true;
    /* During a turn nobody goes first. */
    order->priority &= ~HEARTH__ROOM_MAY_WAIT;
    while ((status = hearth__budget_wait(arena->budget, &wait)) == HEARTH_OK) {
        if (obtain_and_count(arena, order, out) == HEARTH_OK) {
            hearth__budget_wait_end(arena->budget, &wait);
            return HEARTH_OK;
        }
    }
    *cancelled = wait.cancelled;
    return status;
}

static enum hearth_status obtain_or_wait(struct hearth_io *arena, struct order *order,
                                         uint64_t deadline_ns, struct hearth_buf **out)
{
    bool cancelled = false;
    if (arena->service != NULL)
        hearth__service_note_reclaimed(arena->service, 0);
    bool may_wait = arena->waits && deadline_ns != HEARTH_NO_WAIT && !order->prepaid;
    if (may_wait)
        order->priority |= HEARTH__ROOM_MAY_WAIT;
    enum hearth_status status = obtain_and_count(arena, order, out);
    if (may_wait && is_refusal(status))
        status = wait_and_obtain(arena, order, deadline_ns, &cancelled, out);
    if (arena->service != NULL && (is_refusal(status) || status == HEARTH_TIMEOUT))
        hearth__service_refused(arena->service, order->want.bytes,
                                order->priority & HEARTH_PRIORITY_HIGH,
                                (order->backing_refused ? HEARTH__REFUSED_BY_BACKING : 0) |
                                    (cancelled ? HEARTH__REFUSED_CANCELLED : 0));
    return status;
}

enum hearth_status hearth__io_alloc_general(struct hearth_io *arena,
                                            const struct hearth_request *request, bool lease,
                                            const char *call, struct hearth_buf **out,
                                            uint64_t *generation)
{
    return hearth__io_alloc_paid(arena, request, lease, 0, call, out, generation);
}

enum hearth_status hearth__io_alloc_paid(struct hearth_io *arena,
                                         const struct hearth_request *request, bool lease,
                                         uint32_t how, const char *call, struct hearth_buf **out,
                                         uint64_t *generation)
{
    unsigned alignment_log;
    struct order order = {.lease = lease, .prepaid = (how & HEARTH__IO_PREPAID) != 0};
    if (arena == NULL || out == NULL || !hearth__request_alignment(request, &alignment_log))
        return hearth__io_misuse(arena, HEARTH_INVALID, call, NULL);
    if (!hearth__rounding_want(&arena->rounding, request->size, alignment_log, &order.want))
        return HEARTH_OVERFLOW;
    if (order.want.bytes > HEARTH__HELD_MAX)
        return HEARTH_NO_MEMORY;
    order.size = request->size;
    order.priority = request->priority;
    if ((how & (HEARTH__IO_POLITE | HEARTH__IO_PREPAID)) == HEARTH__IO_POLITE)
        order.priority |= HEARTH__ROOM_MAY_WAIT;
    struct hearth_buf *buf = NULL;
    enum hearth_status status = obtain_or_wait(arena, &order, request->deadline_ns, &buf);
    if (status != HEARTH_OK)
        return status;
    *generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
    hearth__debug_taken(hearth__debug_flags(arena->debug), buf, request->size, request->zero != 0);
    hearth__zero(arena->backing, hearth__load_relaxed(&buf->data), request->size, request->zero,
                 order.known_zero);
    *out = buf;
    return HEARTH_OK;
}

enum hearth_status hearth_io_alloc_ex(struct hearth_io *arena, const struct hearth_request *request,
                                      struct hearth_buf **buf)
{
    uint64_t generation;
    return hearth__io_alloc_general(arena, request, false, "hearth_io_alloc_ex", buf, &generation);
}

enum hearth_status hearth_io_lease_ex(struct hearth_io *arena, const struct hearth_request *request,
                                      struct hearth_lease *lease)
{
    static const char call[] = "hearth_io_lease";
    struct hearth_buf *buf;
    uint64_t generation;
    if (lease == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, call, NULL);
    enum hearth_status status =
        hearth__io_alloc_general(arena, request, true, call, &buf, &generation);
    if (status == HEARTH_OK)
        *lease = (struct hearth_lease){buf, generation};
    return status;
}

/* Inside: count a slot as taken back. */
static void count_in(struct hearth__io_access *access, hearth__weight weight, size_t size,
                     bool leased)
{
    if (leased) {
        HEARTH__IO_COUNT(access, lease_in_size, size);
        HEARTH__IO_COUNT(access, lease_in_weight, weight);
    } else {
        HEARTH__IO_COUNT(access, bare_in_size, size);
        HEARTH__IO_COUNT(access, bare_in_weight, weight);
    }
    hearth__io_count_down(access, size);
}

/* Storage from outside goes back where it came from, outside of the section: it is users' code. */
static void release_adopted(struct hearth_buf *buf)
{
    hearth__adopted_release *release = buf->release;
    void *data = hearth__load_relaxed(&buf->data);
    size_t length = buf->storage.length;
    void *context = (void *)(uintptr_t)buf->storage.cookie;
    hearth__store_relaxed(&buf->data, NULL);
    buf->storage = (struct hearth__storage){0};
    release(data, length, context);
}

void hearth__io_come_home(struct hearth_io *arena, struct hearth_buf *buf, bool leased)
{
    struct hearth__io_access access;
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    size_t size = hearth__load_relaxed(&buf->size);
    bool adopted = (buf->flags & HEARTH__BUF_ADOPTED) != 0;
    if (adopted)
        release_adopted(buf);
    else if ((arena->debug & HEARTH__DEBUG_SCRUB) != 0)
        memset(hearth__load_relaxed(&buf->data), 0, size);
    hearth__io_enter(arena, &access);
    if (adopted) {
        HEARTH__IO_COUNT(&access, given_count, 1);
        HEARTH__IO_COUNT(&access, released_bytes, size);
        buf->flags = 0;
        hearth__store_relaxed(&buf->weight, 0);
        hearth__store_relaxed(&buf->size, 0);
        hearth__io_slot_put(arena, buf);
        hearth__io_slot_unuse(arena);
    } else if (access.closed) {
        hearth__io_empty(&access, buf, true);
    } else {
        hearth__io_keep(&access, buf);
    }
    /* The section may have been left meanwhile, and the arena closed: what counts is the last look. */
    bool closed = access.closed;
    count_in(&access, weight, size, leased);
    hearth__io_room_give(arena, hearth__weight_capacity(weight));
    hearth__io_leave(&access);
    if (closed)
        hearth__io_came_home(arena);
}

static enum hearth_status ops_alloc(struct hearth_allocator *self,
                                    const struct hearth_request *request, struct hearth_buf **buf)
{
    uint64_t generation;
    return hearth__io_alloc_general(hearth__io_of(self), request, false, "hearth_alloc", buf,
                                    &generation);
}

static enum hearth_status ops_free(struct hearth_allocator *self, struct hearth_buf *buf)
{
    return hearth__io_free_general(hearth__io_of(self), buf, 0, "hearth_free");
}

static enum hearth_status ops_free_exact(struct hearth_allocator *self, struct hearth_buf *buf,
                                         uint64_t generation)
{
    return hearth__io_free_general(hearth__io_of(self), buf, generation, "hearth_handle_reset");
}

static enum hearth_status ops_release(struct hearth_allocator *self, struct hearth_buf *buf,
                                      uint64_t generation)
{
    (void)self;
    return hearth__io_release((struct hearth_lease){buf, generation}, "hearth_handle_reset");
}

static size_t ops_live_bytes(const struct hearth_allocator *self)
{
    return hearth_io_live_bytes(hearth__io_of(self));
}

static size_t ops_peak_bytes(const struct hearth_allocator *self)
{
    return hearth_io_peak_bytes(hearth__io_of(self));
}

static enum hearth_status ops_reset_peak(struct hearth_allocator *self)
{
    return hearth_io_reset_peak(hearth__io_of(self));
}

const struct hearth_allocator_ops hearth__io_ops = {
    .size = sizeof hearth__io_ops,
    .kind = "io",
    .alloc = ops_alloc,
    .free = ops_free,
    .free_exact = ops_free_exact,
    .resize = hearth__io_resize,
    .live_bytes = ops_live_bytes,
    .peak_bytes = ops_peak_bytes,
    .reset_peak = ops_reset_peak,
    .release = ops_release,
};
