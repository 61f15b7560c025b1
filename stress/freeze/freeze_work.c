/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations. Each thread holds some leases, bare buffers and execution buffers, makes one random
 * call after the other, and leaves some of what it holds in boxes from which the others fetch it, so
 * that last releases and returns happen on other threads than the exports.
 *
 * Nothing here but the calls themselves could wait: no malloc, no stdio (unless a check fails), no lock.
 */
#include "../harness.h"
#include "freeze_parts.h"

#include <hearth/stats.h>

#define TRIM_GOAL_MOST ((size_t)64 << 10)
#define TRIM_BUDGET_NS 1000000u
#define REFERENCES_MOST 6u
#define RETAINED_MOST 500u
#define SPARE_BUFFERS 8u

/* What is in a box: the buffer's address, and this in its low bits. */
enum parcel { PARCEL_EXEC = 0, PARCEL_LEASE = 1, PARCEL_BARE = 2 /* plus the arena's number */ };
#define PARCEL_MASK ((uintptr_t)63)

static char foreign_storage[4096];

static struct hearth_io *some_io(struct freeze_thread *self)
{
    return freeze_world.io[freeze_pick(self, FREEZE_ARENAS)];
}

/* Make the call, which must be answered OK. */
#define CALL(self, kind, call)                                                                     \
    do {                                                                                           \
        freeze_enter(self, kind);                                                                  \
        freeze_leave(self, kind, call);                                                            \
    } while (0)

static void release_one(struct freeze_thread *self, unsigned i)
{
    struct freeze_lease *held = &self->leases[i];
    struct hearth_lease lease = held->lease;
    freeze_check_lease(held);
    if (held->tag != 0 && freeze_pick(self, 8) == 0) {
        void *data = hearth_lease_data(lease);
        freeze_enter(self, FREEZE_RELEASE);
        hearth_lease_deleter(data);
        freeze_leave(self, FREEZE_RELEASE, HEARTH_OK);
    } else {
        CALL(self, FREEZE_RELEASE, hearth_lease_release(lease));
    }
    if (--held->references == 0)
        *held = self->leases[--self->lease_count];
}

static void do_lease(struct freeze_thread *self);
static void do_alloc(struct freeze_thread *self);
static void do_exec_alloc(struct freeze_thread *self);

static void do_release(struct freeze_thread *self)
{
    if (self->lease_count == 0)
        do_lease(self);
    release_one(self, (unsigned)freeze_pick(self, self->lease_count));
}

static struct freeze_lease *lease_room(struct freeze_thread *self)
{
    while (self->lease_count == FREEZE_HELD)
        do_release(self);
    return &self->leases[self->lease_count];
}

static void hold_lease(struct freeze_thread *self, struct hearth_lease lease, uint64_t tag)
{
    self->leases[self->lease_count++] =
        (struct freeze_lease){.lease = lease, .tag = tag, .references = 1};
}

static void do_lease(struct freeze_thread *self)
{
    struct hearth_io *io = some_io(self);
    size_t size = freeze_size(self);
    struct hearth_lease lease;
    (void)lease_room(self);
    CALL(self, FREEZE_LEASE, hearth_io_lease(io, size, &lease));
    hold_lease(self, lease, freeze_mark(self, hearth_lease_data(lease), size));
}

/* A second reference, by retain or by view. */
static void do_second(struct freeze_thread *self, enum freeze_kind kind)
{
    struct hearth_view view;
    if (self->lease_count == 0)
        do_lease(self);
    unsigned i = (unsigned)freeze_pick(self, self->lease_count);
    if (self->leases[i].references == REFERENCES_MOST) {
        release_one(self, i);
        return;
    }
    if (kind == FREEZE_RETAIN)
        CALL(self, kind, hearth_lease_retain(self->leases[i].lease));
    else
        CALL(self, kind, hearth_lease_view(self->leases[i].lease, 8, 16, &view));
    self->leases[i].references++;
}

static void do_free(struct freeze_thread *self)
{
    if (self->bare_count == 0)
        do_alloc(self);
    struct freeze_buf held = freeze_remove(self, self->bares, &self->bare_count);
    freeze_check_buf(&held, "bare buffer");
    CALL(self, FREEZE_FREE, hearth_io_free(held.io, held.buf));
}

static void do_alloc(struct freeze_thread *self)
{
    struct hearth_io *io = some_io(self);
    size_t size = freeze_size(self);
    struct hearth_buf *buf;
    while (self->bare_count == FREEZE_HELD)
        do_free(self);
    CALL(self, FREEZE_ALLOC, hearth_io_alloc(io, size, &buf));
    freeze_mark_buf(self, freeze_add(self->bares, &self->bare_count, buf, io));
}

static void do_export(struct freeze_thread *self)
{
    struct hearth_lease lease;
    (void)lease_room(self);
    if (self->bare_count == 0)
        do_alloc(self);
    struct freeze_buf held = freeze_remove(self, self->bares, &self->bare_count);
    CALL(self, FREEZE_EXPORT, hearth_io_export(held.io, held.buf, &lease));
    hold_lease(self, lease, held.tag);
}

static void do_resize(struct freeze_thread *self)
{
    size_t size = freeze_size(self);
    if (self->bare_count == 0)
        do_alloc(self);
    struct freeze_buf *held = &self->bares[freeze_pick(self, self->bare_count)];
    CALL(self, FREEZE_RESIZE, hearth_buf_resize(held->buf, size));
    freeze_mark_buf(self, held);
}

static void do_exec_free(struct freeze_thread *self)
{
    if (self->exec_count == 0)
        do_exec_alloc(self);
    struct freeze_buf held = freeze_remove(self, self->execs, &self->exec_count);
    freeze_check_buf(&held, "execution buffer");
    CALL(self, FREEZE_EXEC_FREE, hearth_exec_free(self->exec, held.buf));
}

static void do_exec_alloc(struct freeze_thread *self)
{
    size_t size = freeze_size(self);
    struct hearth_buf *buf;
    while (self->exec_count == FREEZE_HELD)
        do_exec_free(self);
    CALL(self, FREEZE_EXEC_ALLOC, hearth_exec_alloc(self->exec, size, &buf));
    freeze_mark_buf(self, freeze_add(self->execs, &self->exec_count, buf, NULL));
}

static void do_take(struct freeze_thread *self)
{
    struct hearth_io *io = some_io(self);
    struct hearth_buf *buf;
    while (self->bare_count == FREEZE_HELD)
        do_free(self);
    if (self->exec_count == 0)
        do_exec_alloc(self);
    /* Storage goes this way only, and one of the arenas has no cap. */
    if (hearth_io_retained_count(io) > RETAINED_MOST)
        CALL(self, FREEZE_TRIM, hearth_io_trim_ex(io, HEARTH_UNBOUNDED, TRIM_BUDGET_NS, NULL));
    struct freeze_buf held = freeze_remove(self, self->execs, &self->exec_count);
    CALL(self, FREEZE_TAKE, hearth_io_take(io, held.buf, &buf));
    freeze_add(self->bares, &self->bare_count, buf, io)->tag = held.tag;
}

static void disown(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    (void)context;
    atomic_fetch_add_explicit(&freeze_world.disowned, 1, memory_order_relaxed);
}

static void do_adopt(struct freeze_thread *self)
{
    struct hearth_io *io = some_io(self);
    struct hearth_lease lease;
    (void)lease_room(self);
    CALL(self, FREEZE_ADOPT,
         hearth_io_adopt(io, foreign_storage, sizeof foreign_storage, disown, NULL, &lease));
    atomic_fetch_add_explicit(&freeze_world.adopted, 1, memory_order_relaxed);
    hold_lease(self, lease, 0);
}

static void do_stats(struct freeze_thread *self)
{
    struct hearth_io_stats stats = HEARTH_IO_STATS_INIT;
    CALL(self, FREEZE_STATS, hearth_io_stats(some_io(self), &stats));
}

/* A budget other than 0: it then waits for no grace period, which a frozen reader would hold up. */
static void do_trim(struct freeze_thread *self)
{
    struct hearth_io *io = some_io(self);
    size_t goal =
        freeze_pick(self, 16) == 0 ? HEARTH_UNBOUNDED : 1 + freeze_pick(self, TRIM_GOAL_MOST);
    do_free(self); /* so that there is something to give back */
    CALL(self, FREEZE_TRIM,
         hearth_io_trim_ex(io, goal, 1 + freeze_pick(self, TRIM_BUDGET_NS), NULL));
}

static void do_exec_trim(struct freeze_thread *self)
{
    do_exec_free(self);
    CALL(self, FREEZE_EXEC_TRIM, hearth_exec_trim(self->exec, NULL));
}

/* Put something into one of the own boxes, for the others to fetch. */
static void post(struct freeze_thread *self)
{
    _Atomic(uintptr_t) *box = &self->boxes[freeze_pick(self, FREEZE_BOXES)];
    uintptr_t parcel;
    if (atomic_load_explicit(box, memory_order_relaxed) != 0)
        return; /* only the others empty it */
    uint64_t choice = freeze_pick(self, 4);
    if (choice == 0 && self->lease_count != 0) {
        struct freeze_lease *held = &self->leases[freeze_pick(self, self->lease_count)];
        if (held->tag == 0)
            return;
        /* One of the references goes; the thread may keep others of the same lease. */
        parcel = (uintptr_t)held->lease.buf | PARCEL_LEASE;
        if (--held->references == 0)
            *held = self->leases[--self->lease_count];
    } else if (choice == 1 && self->bare_count != 0) {
        struct freeze_buf held = freeze_remove(self, self->bares, &self->bare_count);
        parcel = (uintptr_t)held.buf |
                 (uintptr_t)(held.io == freeze_world.io[0] ? PARCEL_BARE : PARCEL_BARE + 1);
    } else if (self->exec_count != 0) {
        struct freeze_buf held = freeze_remove(self, self->execs, &self->exec_count);
        parcel = (uintptr_t)held.buf | PARCEL_EXEC;
    } else {
        return;
    }
    atomic_store_explicit(box, parcel, memory_order_release);
}

static void receive(struct freeze_thread *self, uintptr_t parcel)
{
    struct hearth_buf *buf = (struct hearth_buf *)(parcel & ~PARCEL_MASK);
    uintptr_t kind = parcel & PARCEL_MASK;
    struct freeze_buf held = {.buf = buf, .tag = *(const uint64_t *)hearth_buf_data(buf)};
    freeze_check_buf(&held, "buffer in a box");
    if (kind == PARCEL_EXEC) {
        CALL(self, FREEZE_EXEC_REMOTE, hearth_free(hearth_buf_owner(buf), buf));
    } else if (kind == PARCEL_LEASE) {
        (void)lease_room(self);
        hold_lease(self, (struct hearth_lease){buf, hearth_buf_generation(buf)}, held.tag);
    } else {
        while (self->bare_count == FREEZE_HELD)
            do_free(self);
        freeze_add(self->bares, &self->bare_count, buf, freeze_world.io[kind - PARCEL_BARE])->tag =
            held.tag;
    }
}

/* Look into `boxes` of them; false if there was nothing. */
static bool empty_boxes(struct freeze_thread *self, struct freeze_thread *from, unsigned boxes)
{
    unsigned first = (unsigned)freeze_pick(self, FREEZE_BOXES);
    bool found = false;
    for (unsigned i = 0; i < boxes; i++) {
        _Atomic(uintptr_t) *box = &from->boxes[(first + i) % FREEZE_BOXES];
        if (atomic_load_explicit(box, memory_order_relaxed) == 0)
            continue;
        uintptr_t parcel = atomic_exchange_explicit(box, 0, memory_order_acq_rel);
        if (parcel != 0)
            receive(self, parcel);
        found = found || parcel != 0;
    }
    return found;
}

/* Fetch from somebody else: what comes out is a remote return more often than not. If others posted
 * nothing, return to an arena that has just lost its owner: a return by another thread, too. */
static void do_fetch(struct freeze_thread *self)
{
    unsigned step = 1 + (unsigned)freeze_pick(self, freeze_world.threads - 1);
    struct hearth_buf *bufs[SPARE_BUFFERS];
    if (empty_boxes(self, &freeze_world.thread[(self->number + step) % freeze_world.threads],
                    FREEZE_BOXES / 4))
        return;
    for (unsigned i = 0; i < SPARE_BUFFERS; i++)
        CALL(self, FREEZE_EXEC_ALLOC, hearth_exec_alloc(self->spare, 64, &bufs[i]));
    stress_must(hearth_exec_release_owner(self->spare), "release_owner");
    for (unsigned i = 0; i < SPARE_BUFFERS; i++)
        CALL(self, FREEZE_EXEC_REMOTE, hearth_exec_free(self->spare, bufs[i]));
}

static void do_retain(struct freeze_thread *self)
{
    do_second(self, FREEZE_RETAIN);
}

static void do_view(struct freeze_thread *self)
{
    do_second(self, FREEZE_VIEW);
}

static void (*const actions[FREEZE_KINDS])(struct freeze_thread *self) = {
    [FREEZE_LEASE] = do_lease,
    [FREEZE_RELEASE] = do_release,
    [FREEZE_RETAIN] = do_retain,
    [FREEZE_VIEW] = do_view,
    [FREEZE_ALLOC] = do_alloc,
    [FREEZE_EXPORT] = do_export,
    [FREEZE_FREE] = do_free,
    [FREEZE_RESIZE] = do_resize,
    [FREEZE_TAKE] = do_take,
    [FREEZE_ADOPT] = do_adopt,
    [FREEZE_STATS] = do_stats,
    [FREEZE_TRIM] = do_trim,
    [FREEZE_EXEC_ALLOC] = do_exec_alloc,
    [FREEZE_EXEC_FREE] = do_exec_free,
    [FREEZE_EXEC_REMOTE] = do_fetch,
    [FREEZE_EXEC_TRIM] = do_exec_trim,
};

static unsigned any_kind(struct freeze_thread *self)
{
    static const unsigned weights[FREEZE_KINDS] = {
#define FREEZE_WEIGHT(name, text, weight) [FREEZE_##name] = (weight),
        FREEZE_KIND_MAP(FREEZE_WEIGHT)
#undef FREEZE_WEIGHT
    };
    unsigned kind = 0;
    for (unsigned roll = (unsigned)freeze_pick(self, 64); roll >= weights[kind]; kind++)
        roll -= weights[kind];
    return kind;
}

void freeze_step(struct freeze_thread *self)
{
    /* With a focus, others come in by what it needs and what it leaves behind. */
    unsigned focus = atomic_load_explicit(&self->focus, memory_order_relaxed);
    actions[focus == FREEZE_KINDS ? any_kind(self) : focus](self);
    if (freeze_pick(self, 4) == 0)
        post(self);
    uint64_t steps = atomic_load_explicit(&self->steps, memory_order_relaxed);
    atomic_store_explicit(&self->steps, steps + 1, memory_order_relaxed);
}

void freeze_give_back(struct freeze_thread *self)
{
    (void)empty_boxes(self, self, FREEZE_BOXES);
    while (self->lease_count != 0)
        do_release(self);
    while (self->bare_count != 0)
        do_free(self);
    while (self->exec_count != 0)
        do_exec_free(self);
}
