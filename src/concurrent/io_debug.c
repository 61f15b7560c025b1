/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: quarantine.
 *
 * One for all threads, with a flag in front of it that is waited for: debugging may be slow. Who has no cache
 * may be a signal handler in the middle of somebody's turn, and goes without waiting. What is in quarantine
 * is nobody's (its word is RETURNING), counts as retained, and has its credit.
 */
#include "concurrent/io.h"

#include <sched.h>

static bool lock(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    for (;;) {
        uint32_t idle = 0;
        /* EDGE io.quarantine, observe: what the one before did, and the last use of the payloads. */
        if (hearth__cas_acquire(&arena->detaining, &idle, 1))
            return true;
        if (access->cache == NULL)
            return false;
        (void)sched_yield();
    }
}

static void unlock(struct hearth_io *arena)
{
    /* EDGE io.quarantine, publish: this turn. */
    hearth__store_release(&arena->detaining, 0);
}

/* The oldest ones, until the quarantine is no more than full or empty, linked by next. */
static struct hearth_buf *pop_some(struct hearth_io *arena, bool all,
                                   struct hearth__overwritten *overwritten)
{
    struct hearth_buf *first = NULL;
    struct hearth_buf **link = &first;
    while (all || hearth__quarantine_full(&arena->quarantine)) {
        struct hearth_buf *buf = hearth__quarantine_pop(&arena->quarantine, overwritten);
        if (buf == NULL)
            break;
        *link = buf;
        link = &buf->next;
    }
    *link = NULL;
    return first;
}

static void give_all(struct hearth__io_access *access, struct hearth_buf *chain,
                     const struct hearth__overwritten *overwritten)
{
    struct hearth_io *arena = access->arena;
    struct hearth_buf *next;
    for (struct hearth_buf *buf = chain; buf != NULL; buf = next) {
        next = buf->next;
        hearth__store_relaxed(&buf->stamp, hearth__io_stamp(arena, access->cache));
        hearth__io_list_give(arena, buf);
    }
    if (overwritten->buf == NULL)
        return;
    hearth__io_leave(access);
    size_t misuses = hearth__quarantine_report(overwritten, "hearth_io_free", &arena->allocator);
    (void)hearth__fetch_add_relaxed(&arena->misuses, misuses);
    hearth__io_enter(arena, access);
}

bool hearth__io_detain(struct hearth__io_access *access, struct hearth_buf *buf)
{
    struct hearth__overwritten overwritten = {0};
    if (!lock(access))
        return false;
    hearth__quarantine_push(&access->arena->quarantine, buf);
    struct hearth_buf *chain = pop_some(access->arena, false, &overwritten);
    unlock(access->arena);
    give_all(access, chain, &overwritten);
    return true;
}

void hearth__io_let_go(struct hearth__io_access *access)
{
    struct hearth__overwritten overwritten = {0};
    if ((access->arena->debug & HEARTH__DEBUG_QUARANTINE) == 0 || !lock(access))
        return;
    struct hearth_buf *chain = pop_some(access->arena, true, &overwritten);
    unlock(access->arena);
    give_all(access, chain, &overwritten);
}

void hearth__io_quarantine_after_fork(struct hearth_io *arena)
{
    if (hearth__load_relaxed(&arena->detaining) == 0)
        return;
    (void)hearth__fetch_add_relaxed(&arena->lost_bytes, arena->quarantine.bytes);
    arena->quarantine = (struct hearth__quarantine){0};
    hearth__store_relaxed(&arena->detaining, 0);
}
