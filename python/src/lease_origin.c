/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where leases come from: the arenas' names, and leases on execution buffers.
 *
 * A lease is of an I/O arena, so an execution buffer that leaves as what it is needs one: a private arena, made once,
 * that never obtains storage and is never destroyed. It adopts the buffer's bytes; the release callback returns the
 * buffer through a handle, which finds its arena from any thread, also after that was detached or destroyed.
 *
 * No lock: another thread may be anywhere in here when the process forks.
 */
#include "lease.h"

#include <stdlib.h>
#include <string.h>

/* Made by whoever is first; a loser takes its own back. */
static _Atomic(struct hearth_io *) private_arena;

static enum hearth_status find_arena(struct hearth_io **arena)
{
    struct hearth_io *made = NULL, *seen = NULL;
    /* EDGE python.private_arena, observe: the arena's members. */
    *arena = atomic_load_explicit(&private_arena, memory_order_acquire);
    if (*arena != NULL)
        return HEARTH_OK;
    enum hearth_status status = hearth_io_create(NULL, &made);
    if (status != HEARTH_OK)
        return status;
    /* EDGE python.private_arena, publish: the arena, made. */
    if (atomic_compare_exchange_strong_explicit(&private_arena, &seen, made, memory_order_acq_rel,
                                                memory_order_acquire)) {
        *arena = made;
    } else {
        hearth_io_unref(made);
        *arena = seen;
    }
    return HEARTH_OK;
}

static void give_back(void *data, size_t size, void *context)
{
    struct hearth_handle *handle = context;
    (void)data;
    (void)size;
    (void)hearth_handle_reset(handle);
    free(handle);
}

enum hearth_status hearthpy_adopt_buf(struct hearth_buf *buf, struct hearth_lease *lease)
{
    struct hearth_io *arena;
    enum hearth_status status = find_arena(&arena);
    if (status != HEARTH_OK)
        return status;
    struct hearth_handle *handle = calloc(1, sizeof *handle);
    if (handle == NULL)
        return HEARTH_NO_MEMORY;
    status = hearth_handle_from_buf(buf, handle);
    if (status == HEARTH_OK)
        status = hearth_io_adopt(arena, hearth_buf_data(buf), hearth_buf_size(buf), give_back,
                                 handle, lease);
    if (status != HEARTH_OK)
        free(handle); /* without a reset: the buffer stays the caller's */
    return status;
}

PyObject *hearthpy_lease_of_buf(const struct hearthpy_state *state, struct hearth_buf *buf,
                                const struct hearthpy_layout *layout)
{
    struct hearth_lease lease;
    enum hearth_status status = hearthpy_adopt_buf(buf, &lease);
    if (status != HEARTH_OK) {
        (void)hearth_free(hearth_buf_owner(buf), buf);
        return hearthpy_raise(state, status, "a lease of an execution buffer");
    }
    return hearthpy_lease_new(state, lease, layout);
}

/* The numbers: one entry for each address that an arena had, never taken away. */
struct numbered {
    const struct hearth_allocator *arena;
    _Atomic(unsigned long) number;
    struct numbered *next;
};

static _Atomic(struct numbered *) numbers;
static _Atomic(unsigned long) last_number;

static unsigned long next_number(void)
{
    return atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
}

/* Among the entries from `from` to `end`. */
static struct numbered *find_number(struct numbered *from, const struct numbered *end,
                                    const struct hearth_allocator *arena)
{
    while (from != end && from->arena != arena)
        from = from->next;
    return from == end ? NULL : from;
}

unsigned long hearthpy_arena_number(const struct hearth_allocator *arena, bool fresh)
{
    /* EDGE python.numbers, observe: the entries' arenas and links, which never change. */
    struct numbered *head = atomic_load_explicit(&numbers, memory_order_acquire);
    struct numbered *entry = find_number(head, NULL, arena);
    if (entry == NULL) {
        struct numbered *made = malloc(sizeof *made);
        if (made == NULL)
            return 0;
        made->arena = arena;
        atomic_init(&made->number, next_number());
        const struct numbered *looked_at = head;
        do {
            /* Somebody else's entry of the same arena? Only what is new has to be looked at. */
            entry = find_number(head, looked_at, arena);
            looked_at = head;
            made->next = head;
            /* EDGE python.numbers, publish: the entry. */
        } while (entry == NULL &&
                 !atomic_compare_exchange_weak_explicit(&numbers, &head, made, memory_order_acq_rel,
                                                        memory_order_acquire));
        if (entry == NULL)
            return atomic_load_explicit(&made->number, memory_order_relaxed);
        free(made);
    } else if (fresh) {
        atomic_store_explicit(&entry->number, next_number(), memory_order_relaxed);
    }
    return atomic_load_explicit(&entry->number, memory_order_relaxed);
}

static PyObject *name_of(const char *kind, const struct hearth_allocator *arena)
{
    unsigned long number = arena == NULL ? 0 : hearthpy_arena_number(arena, false);
    return number == 0 ? PyUnicode_FromString(kind) : PyUnicode_FromFormat("%s-%lu", kind, number);
}

PyObject *hearthpy_lease_arena(PyObject *object, void *unused)
{
    const struct hearthpy_lease *self = hearthpy_lease_of(object);
    const struct hearth_allocator *owner = hearth_buf_owner(self->lease.buf);
    /* EDGE python.private_arena, observe: the arena's members. */
    struct hearth_io *hidden = atomic_load_explicit(&private_arena, memory_order_acquire);
    (void)unused;
    if (hidden == NULL || owner != hearth_io_allocator(hidden))
        return name_of("io", owner);
    /* Live as long as the lease is: the arena behind it can be read. */
    struct hearth_buf *buf = NULL;
    if (hearth_buf_of(hearth_lease_data(self->lease), &buf) != HEARTH_OK)
        return name_of("execution", NULL);
    return name_of("execution", hearth_buf_owner(buf));
}
