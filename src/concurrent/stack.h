/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shared stack of slots: lock-free, last in, first out.
 *
 * Problem. Any thread takes and returns buffers of one arena, and a slot goes straight back to the stack
 * it came from. A classic lock-free stack then suffers from ABA: a pop that read `top` and the slot below
 * it is overtaken by others who pop both and push `top` again; its CAS succeeds and installs a slot that
 * somebody holds. A grace period between pop and push would cure it and cannot be had on a fast path;
 * RCU around the pop alone does not.
 *
 * Picture. The head is {tag : 39, slot number : 25}; a slot's `link` is the number of the one below, 0 ends.
 *
 *     push:  link = head.slot            CAS head {t, a} -> {t, new}
 *     pop:   below = link of head.slot   CAS head {t, a} -> {t + 1, below}
 *
 * No ABA. Each pop moves the tag, so a CAS that finds tag and slot unchanged knows that nothing was popped
 * since it looked; pushes that came and went would have needed a pop. The chain below the slot is then
 * what it was, and a batch is popped with one CAS, too. At ten million pops a second the tag comes round
 * after 15 hours, all of which one stalled pop would have to sleep through.
 *
 * Stale reads. A pop may read the link of a slot that was popped, lent and pushed elsewhere meanwhile. Slots
 * are type-stable and a link is atomic, so this reads some number, and the CAS fails.
 *
 * Progress. Lock-free: a CAS fails only because another one succeeded.
 *
 * Ordering. stack.push: a slot's fields and the last use of its payload before its next user.
 *
 * Cost. One uncontended CAS each, whatever the length of the batch.
 *
 *              push  pop       '-' may overlap
 *     push       -    -
 *     pop        -    -
 */
#ifndef HEARTH_CONCURRENT_STACK_H
#define HEARTH_CONCURRENT_STACK_H

#include "core/atomic.h"
#include "core/buf.h"
#include "core/meta.h"
#include "core/perturb.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__stack {
    _Atomic(uint64_t) head;
};

#define HEARTH__STACK_INDEX_BITS 25
#define HEARTH__STACK_INDEX_MASK (((uint64_t)1 << HEARTH__STACK_INDEX_BITS) - 1)

static_assert(HEARTH__SLOTS_MAX - 1 <= HEARTH__STACK_INDEX_MASK, "slot numbers fit");

/* Start empty, also where a stack was before: its tag goes on. */
static inline void hearth__stack_init(struct hearth__stack *stack)
{
    uint64_t tag = (hearth__load_relaxed(&stack->head) >> HEARTH__STACK_INDEX_BITS) + 1;
    hearth__store_relaxed(&stack->head, tag << HEARTH__STACK_INDEX_BITS);
}

static inline uint32_t hearth__stack_top(uint64_t head)
{
    return (uint32_t)(head & HEARTH__STACK_INDEX_MASK);
}

/* The head after `head`'s top was popped and `top` is left. */
static inline uint64_t hearth__stack_popped(uint64_t head, uint32_t top)
{
#ifdef HEARTH_BROKEN_STACK_UNTAGGED
    return (head & ~HEARTH__STACK_INDEX_MASK) | top;
#else
    return (((head >> HEARTH__STACK_INDEX_BITS) + 1) << HEARTH__STACK_INDEX_BITS) | top;
#endif
}

/* Push a private chain, linked from `first` down to `last`. */
static inline void hearth__stack_push_chain(struct hearth__stack *stack, struct hearth_buf *first,
                                            struct hearth_buf *last)
{
    uint64_t head = hearth__load_relaxed(&stack->head);
    for (;;) {
        hearth__store_relaxed(&last->link, hearth__stack_top(head));
        HEARTH__PERTURB("stack.push");
        uint64_t pushed = (head & ~HEARTH__STACK_INDEX_MASK) | first->index;
#ifdef HEARTH_BROKEN_IO_PUSH_RELAXED
        if (hearth__cas_weak_relaxed(&stack->head, &head, pushed))
            return;
#else
        /* EDGE stack.push, publish: the slots' fields, and what their last users did to the payload. */
        if (hearth__cas_weak_release(&stack->head, &head, pushed))
            return;
#endif
    }
}

static inline void hearth__stack_push(struct hearth__stack *stack, struct hearth_buf *slot)
{
    hearth__stack_push_chain(stack, slot, slot);
}

/* Pop at most `most` (at least 1) slots, linked by `link` as they were; *count says how many. NULL when
 * empty. The links are the caller's to write from then on. */
static inline struct hearth_buf *hearth__stack_pop_chain(struct hearth__stack *stack, size_t most,
                                                         size_t *count)
{
    /* EDGE stack.push, observe: of every slot above the one that a failed CAS would show, too: all
     * heads since a slot was pushed are in the release sequence of its push. */
    uint64_t head = hearth__load_acquire(&stack->head);
    for (;;) {
        uint32_t top = hearth__stack_top(head);
        if (top == 0)
            return NULL;
        struct hearth_buf *first = hearth__slot_at(top);
        uint32_t below = hearth__load_relaxed(&first->link);
        size_t taken = 1;
        while (taken < most && below != 0) {
            /* A stale link may lead anywhere, but only to slots. */
            below = hearth__load_relaxed(&hearth__slot_at(below)->link);
            taken++;
        }
        HEARTH__PERTURB("stack.pop");
        /* Released, too: who sees the stack empty sees where its slots went (hearth__io_lists_empty). */
        if (hearth__cas_weak_acq_rel(&stack->head, &head, hearth__stack_popped(head, below))) {
            *count = taken;
            return first;
        }
    }
}

static inline struct hearth_buf *hearth__stack_pop(struct hearth__stack *stack)
{
    size_t count;
    return hearth__stack_pop_chain(stack, 1, &count);
}

#endif
