/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns by threads that do not own the arena. See the essay in inbox.c.
 *
 *             claim  push  take  close  settle      '-' may overlap, 'X' the caller excludes
 *     claim     -     -     -      -      -
 *     push      -     -     -      -      -
 *     take      -     -     X      X      X         (the owner)
 *     close     -     -     X      X      X         (the owner, once)
 *     settle    -     -     X      X      -         (different slots)
 */
#ifndef HEARTH_CONCURRENT_INBOX_H
#define HEARTH_CONCURRENT_INBOX_H

#include "core/atomic.h"
#include "core/buf.h"
#include "core/meta.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__inbox {
    /* {tag : 32, slot number : 32}: the slot on top, or HEARTH__INBOX_EMPTY or _CLOSED. The tag moves
     * each time the chain is taken. */
    _Atomic(uint64_t) head;
};

#define HEARTH__INBOX_EMPTY ((uint32_t)0)
#define HEARTH__INBOX_CLOSED UINT32_MAX /* no slot has this number */

static_assert(HEARTH__SLOTS_MAX < HEARTH__INBOX_CLOSED, "slot numbers end below");

/* What a chain adds up to. */
struct hearth__queued {
    size_t count;
    size_t size;
    size_t capacity;
};

/* What a claim found. */
enum hearth__claim {
    HEARTH__CLAIM_PUSH, /* the slot is the caller's to push */
    HEARTH__CLAIM_RIDES, /* the slot is queued already for an older, stale return; it carries this one */
    HEARTH__CLAIM_TWIN, /* this generation was returned before */
};

/* Open an inbox, also one that was in use and closed before: its tag goes on. */
void hearth__inbox_open(struct hearth__inbox *inbox);

/* Claim the right to return `generation` of a slot. Lock-free; of several callers exactly one wins. */
enum hearth__claim hearth__inbox_claim(struct hearth_buf *buf, uint64_t generation);

/* Whether the return of this generation of a slot is under way. Wait-free. */
static inline bool hearth__inbox_has_claim(const struct hearth_buf *buf, uint64_t generation)
{
    return hearth__load_acquire(&buf->returned) >> HEARTH__GENERATION_SHIFT == generation;
}

/* Queue a claimed slot. False when the inbox is closed: the caller settles the slot itself. Lock-free.
 * Once it is queued the slot is not the caller's any more. */
bool hearth__inbox_push(struct hearth__inbox *inbox, struct hearth_buf *buf);

/* Whether something is queued; false when closed. Wait-free. */
static inline bool hearth__inbox_waiting(const struct hearth__inbox *inbox)
{
    uint32_t top = (uint32_t)hearth__load_relaxed(&inbox->head);
    return top != HEARTH__INBOX_EMPTY && top != HEARTH__INBOX_CLOSED;
}

static inline bool hearth__inbox_closed(const struct hearth__inbox *inbox)
{
    return (uint32_t)hearth__load_acquire(&inbox->head) == HEARTH__INBOX_CLOSED;
}

/* Take the whole chain, linked by inbox_next. Wait-free. */
struct hearth_buf *hearth__inbox_take(struct hearth__inbox *inbox);

/* Take the whole chain and let later pushes fail. */
struct hearth_buf *hearth__inbox_close(struct hearth__inbox *inbox);

/* What came home with a slot: the generation that was returned (whether it still is the slot's is for
 * the caller to see), and how many stale returns it overtook. */
struct hearth__settled {
    uint64_t generation;
    size_t overtaken;
};

/* Claim again, for the generation that the caller settled: it found that the slot has to go to another
 * inbox. False when a later generation was claimed meanwhile: the settled one is stale. */
bool hearth__inbox_reclaim(struct hearth_buf *buf, uint64_t generation);

/* Take a slot out of the queued state, after its inbox_next was read. Wait-free. */
struct hearth__settled hearth__inbox_settle(struct hearth_buf *buf);

/* The totals of a chain from this slot on; NULL is an empty one. Any thread: slots are type-stable, so a
 * slot that was taken meanwhile is still readable, and then tells of a moment ago. */
struct hearth__queued hearth__queued_from(const struct hearth_buf *first);

/* The totals of the chain below this head. Any thread. */
struct hearth__queued hearth__queued_at(uint64_t head);

#endif
