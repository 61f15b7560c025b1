/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread holds, and the record of where it is.
 *
 * Every buffer carries its holder's tag in its first and its last word; a wrong one means two holders.
 */
#include "../harness.h"
#include "freeze_parts.h"

#include <inttypes.h>
#include <stdio.h>

void freeze_enter(struct freeze_thread *self, enum freeze_kind kind)
{
    atomic_store_explicit(&self->current, (unsigned)kind, memory_order_relaxed);
}

void freeze_leave(struct freeze_thread *self, enum freeze_kind kind, enum hearth_status status)
{
    atomic_store_explicit(&self->current, FREEZE_OUTSIDE, memory_order_relaxed);
    uint64_t done = atomic_load_explicit(&self->done[kind], memory_order_relaxed);
    if (status != HEARTH_OK)
        printf("%" PRIu64 " blocks are lent; the I/O arenas retain %zu and %zu buffers\n",
               freeze_backing_lent(), hearth_io_retained_count(freeze_world.io[0]),
               hearth_io_retained_count(freeze_world.io[1]));
    stress_must(status, freeze_kind_name[kind]);
    atomic_store_explicit(&self->done[kind], done + 1, memory_order_relaxed);
}

uint64_t freeze_pick(struct freeze_thread *self, uint64_t bound)
{
    /* No division: what the victim does outside of the library should be short. */
    return (stress_next(&self->random) & UINT32_MAX) * bound >> 32;
}

size_t freeze_size(struct freeze_thread *self)
{
    static const size_t sizes[] = {64,   64,   200,  200,  512,   512,   1000,  1000,
                                   3000, 3000, 9000, 9000, 30000, 30000, 70000, 150000};
    return sizes[freeze_pick(self, sizeof sizes / sizeof sizes[0])];
}

uint64_t freeze_mark(struct freeze_thread *self, void *data, size_t size)
{
    uint64_t *words = data;
    uint64_t tag = (uint64_t)(self->number + 1) << 48 | ++self->tags;
    words[0] = tag;
    words[size / sizeof *words - 1] = ~tag;
    return tag;
}

static void check(const void *data, size_t size, uint64_t tag, const char *what)
{
    const uint64_t *words = data;
    if (words == NULL || words[0] != tag || words[size / sizeof *words - 1] != ~tag)
        stress_violation("%s: somebody else wrote into a held buffer", what);
}

void freeze_check_buf(const struct freeze_buf *held, const char *what)
{
    check(hearth_buf_data(held->buf), hearth_buf_size(held->buf), held->tag, what);
}

void freeze_check_lease(const struct freeze_lease *held)
{
    if (held->tag != 0)
        check(hearth_lease_data(held->lease), hearth_lease_size(held->lease), held->tag, "lease");
}

struct freeze_buf *freeze_add(struct freeze_buf *list, unsigned *count, struct hearth_buf *buf,
                              struct hearth_io *io)
{
    list[*count] = (struct freeze_buf){.buf = buf, .io = io};
    return &list[(*count)++];
}

void freeze_mark_buf(struct freeze_thread *self, struct freeze_buf *held)
{
    held->tag = freeze_mark(self, hearth_buf_data(held->buf), hearth_buf_size(held->buf));
}

struct freeze_buf freeze_remove(struct freeze_thread *self, struct freeze_buf *list,
                                unsigned *count)
{
    unsigned i = (unsigned)freeze_pick(self, *count);
    struct freeze_buf held = list[i];
    list[i] = list[--*count];
    return held;
}
