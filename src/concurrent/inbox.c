/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox: how a buffer comes home from a thread that does not own its arena.
 *
 * Problem. The owner allocates and frees with plain stores, so nobody else may write the state word or
 * the free lists. Any thread may return a buffer, several may wrongly return the same one, and the
 * owner may return it too while a wrong return is under way. Nothing may be corrupted by that; a
 * return that was one too many should be answered, and must at least be counted.
 *
 * Picture. Each slot has a second word, `returned` = {generation, overtaken, queued}, which only
 * returning threads and the drain write.
 *
 *     returning thread                          owner
 *     ----------------                          -----
 *     read state: LIVE, generation g
 *     CAS returned {<g, *} -> {g, queued}
 *     link, CAS inbox head -> slot              exchange head -> NULL (whole chain)
 *                                               for each slot: read its link,
 *                                                 fetch_and returned -> {g, -}
 *                                                 state LIVE and generation g? free it : misuse
 *
 * States of the second word. {h, -}: h was the last generation returned from afar. {h, queued}: the slot
 * is linked in an inbox, or its claimer is about to link it. `queued` is the right to write inbox_next:
 * who finds it set must not push. If it was set for an older generation (a stale return that the owner
 * overtook), the new return writes its generation into the word, counts one overtaken, and is done: the
 * drain will find the new generation there, and counts the overtaken ones as misuses. This is why the
 * drain settles a slot by a read-modify-write after it has read the link, and why a generation not
 * above the word's is a twin: generations only grow.
 *
 * No ABA. The stack is only pushed to and only taken whole, so no CAS expects a next pointer to be
 * current; but a push relies on the totals of the slot below, and that slot may have been taken, settled,
 * lent and returned again. The head therefore carries a tag that moves with each take, and a slot is
 * pushed at most once in between. 2^32 takes during one stalled push would be needed.
 *
 * Strays. A stale return may be for a slot whose segment has gone over to another arena, and a right
 * return there may ride along with it: the inbox of the wrong arena then holds a right return. Who finds
 * a slot that is not its own sends it on to the arena that the slot serves now (exec_remote.c).
 *
 * Progress. claim, push: lock-free. take, settle: wait-free. A thread frozen between claim and push
 * delays its own buffer, and nobody else's, unless that thread's return was a stale one.
 *
 * Ordering. The user's last accesses to the payload come before the push (release) or, for a return
 * that rides along, before its claim (release); the drain takes the chain (acquire) and settles
 * (acquire), then reuses the payload. EDGEs inbox.push and inbox.claim.
 *
 * Totals. Each node carries the sums of its chain as of its push, so that a reader knows what is
 * pending from the head alone and pushing costs no shared counter.
 *
 * Cost. Two uncontended CASes for the returning thread; one exchange per chain and one fetch_and per slot
 * for the owner.
 */
#include "concurrent/inbox.h"

#include "core/perturb.h"

static uint64_t head_of(uint64_t old, uint32_t top, uint64_t takes)
{
    return ((old >> 32) + takes) << 32 | top;
}

struct hearth__queued hearth__queued_from(const struct hearth_buf *first)
{
    if (first == NULL)
        return (struct hearth__queued){0, 0, 0};
    return (struct hearth__queued){
        .count = hearth__load_acquire(&first->queued_count),
        .size = hearth__load_acquire(&first->queued_size),
        .capacity = hearth__load_acquire(&first->queued_capacity),
    };
}

/* The slot on top, or NULL. */
static struct hearth_buf *top_of(uint64_t head)
{
    uint32_t top = (uint32_t)head;
    return top == HEARTH__INBOX_EMPTY || top == HEARTH__INBOX_CLOSED ? NULL : hearth__slot_at(top);
}

struct hearth__queued hearth__queued_at(uint64_t head)
{
    return hearth__queued_from(top_of(head));
}

void hearth__inbox_open(struct hearth__inbox *inbox)
{
    uint64_t old = hearth__load_relaxed(&inbox->head);
    hearth__store_relaxed(&inbox->head, head_of(old, HEARTH__INBOX_EMPTY, 1));
}

/* A million returns that overtook one stalled thread are enough to know of. */
static uint64_t one_more_overtaken(uint64_t overtaken)
{
    return overtaken == HEARTH__OVERTAKEN_MASK ? overtaken : overtaken + HEARTH__OVERTAKEN_ONE;
}

enum hearth__claim hearth__inbox_claim(struct hearth_buf *buf, uint64_t generation)
{
    uint64_t claimed;
    uint64_t seen = hearth__load_relaxed(&buf->returned);
    do {
#ifndef HEARTH_BROKEN_TWINS_PUSH
        if (seen >> HEARTH__GENERATION_SHIFT >= generation)
            return HEARTH__CLAIM_TWIN;
#endif
        claimed = generation << HEARTH__GENERATION_SHIFT | HEARTH__QUEUED;
        if ((seen & HEARTH__QUEUED) != 0)
            claimed |= one_more_overtaken(seen & HEARTH__OVERTAKEN_MASK);
        HEARTH__PERTURB("inbox.claim");
        /* EDGE inbox.claim, publish: the user's last accesses to the payload. */
    } while (!hearth__cas_acq_rel(&buf->returned, &seen, claimed));
#ifdef HEARTH_BROKEN_TWINS_PUSH
    return HEARTH__CLAIM_PUSH;
#else
    return (seen & HEARTH__QUEUED) != 0 ? HEARTH__CLAIM_RIDES : HEARTH__CLAIM_PUSH;
#endif
}

bool hearth__inbox_push(struct hearth__inbox *inbox, struct hearth_buf *buf)
{
    /* EDGE inbox.push, observe: the totals of the slot below. */
    uint64_t head = hearth__load_acquire(&inbox->head);
    uint64_t next;
    do {
        if ((uint32_t)head == HEARTH__INBOX_CLOSED)
            return false;
        struct hearth_buf *below = top_of(head);
        struct hearth__queued total = hearth__queued_from(below);
        buf->inbox_next = below;
        hearth__store_relaxed(&buf->queued_count, (uint32_t)total.count + 1);
        hearth__store_relaxed(&buf->queued_size, total.size + hearth__load_relaxed(&buf->size));
        hearth__store_relaxed(&buf->queued_capacity, total.capacity + hearth__buf_capacity(buf));
        next = head_of(head, buf->index, 0);
        HEARTH__PERTURB("inbox.push");
        /* EDGE inbox.push, publish: the slot's link and totals, and the user's last accesses. */
#ifdef HEARTH_BROKEN_PUSH_RELAXED
    } while (!hearth__cas_weak_relaxed(&inbox->head, &head, next));
#else
    } while (!hearth__cas_weak_acq_rel(&inbox->head, &head, next));
#endif
    return true;
}

/* Take the chain and leave `top`. The owner alone moves the tag. */
static struct hearth_buf *take(struct hearth__inbox *inbox, uint32_t top)
{
    uint64_t tag = hearth__load_relaxed(&inbox->head);
    /* EDGE inbox.push, observe: the whole chain is readable from here. */
    return top_of(hearth__exchange_acq_rel(&inbox->head, head_of(tag, top, 1)));
}

struct hearth_buf *hearth__inbox_take(struct hearth__inbox *inbox)
{
    return take(inbox, HEARTH__INBOX_EMPTY);
}

struct hearth_buf *hearth__inbox_close(struct hearth__inbox *inbox)
{
    return take(inbox, HEARTH__INBOX_CLOSED);
}

bool hearth__inbox_reclaim(struct hearth_buf *buf, uint64_t generation)
{
    uint64_t settled = generation << HEARTH__GENERATION_SHIFT;
    return hearth__cas_acq_rel(&buf->returned, &settled, settled | HEARTH__QUEUED);
}

struct hearth__settled hearth__inbox_settle(struct hearth_buf *buf)
{
    HEARTH__PERTURB("inbox.claim");
    /* EDGE inbox.claim, observe: the accesses of a return that rode along. */
    uint64_t word =
        hearth__fetch_and_acq_rel(&buf->returned, ~(HEARTH__QUEUED | HEARTH__OVERTAKEN_MASK));
    return (struct hearth__settled){
        .generation = word >> HEARTH__GENERATION_SHIFT,
        .overtaken = (word & HEARTH__OVERTAKEN_MASK) >> HEARTH__OVERTAKEN_SHIFT,
    };
}
