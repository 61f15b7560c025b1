/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: the shared lists of free slots.
 *
 * Each class has two stacks (stack.h). Pushes go to `top`; pops look into `top` and then `below`, which is not
 * empty only while an evictor compacts the list (io_evict.c).
 *
 * A popped slot is its popper's after a CAS {g, free} -> {g, live or leased}. If that fails the slot was evicted
 * while it was linked: the popper has only unlinked a tombstone, and goes on.
 *
 * Empty. Before storage is created the heads of all suitable stacks are read twice. A pop moves a head's
 * tag, so equal readings mean that no head changed, and all were empty at the moment in between.
 *
 * Progress. Lock-free. Ordering: stack.push, word.free.
 *
 * Cost. A pop is two locked instructions, of the head and of the word; a push is one.
 */
#include "concurrent/io.h"

#include "core/perturb.h"

/* As many classes as a reuse ratio may span. */
#define CLASSES_MOST HEARTH__CLASS_COUNT

struct hearth__io_list *hearth__io_list_of(struct hearth_io *arena, unsigned size_class,
                                           unsigned alignment_log)
{
    if (alignment_log <= HEARTH__ALIGNMENT_LOG_MIN)
        return hearth__io_list_normal(arena, size_class);
    /* EDGE io.aligned, observe: initialised lists. */
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    size_t set = alignment_log - HEARTH__ALIGNMENT_LOG_MIN - 1;
    return aligned == NULL ? NULL : &aligned[set * HEARTH__CLASS_COUNT + size_class];
}

void hearth__io_unlinked(struct hearth_io *arena, struct hearth_buf *buf)
{
#ifdef HEARTH_BROKEN_REARM_LINKED
    (void)arena;
    (void)buf; /* the evictor did not wait for this */
#else
    /* EDGE word.evicted, publish: the link is nobody's any more. */
    /* EDGE word.evicted, observe: the storage was taken off. */
    if ((hearth__fetch_or_acq_rel(&buf->state, HEARTH__EVICTED_UNLINKED) &
         HEARTH__EVICTED_DETACHED) != 0)
        hearth__io_slot_put(arena, buf);
#endif
}

/* Make a popped slot the caller's. False for a tombstone, which is dealt with. */
static inline bool claim(struct hearth_io *arena, struct hearth_buf *buf, uint64_t state_and_count)
{
    uint64_t word = hearth__load_relaxed(&buf->state);
    HEARTH__PERTURB("word.free");
    if (hearth__likely(hearth__word_state(word) == HEARTH__FREE)) {
        uint64_t claimed = hearth__word(hearth__word_generation(word), 0) | state_and_count;
        if (hearth__likely(hearth__cas_acquire(&buf->state, &word, claimed)))
            return true;
    }
    hearth__io_unlinked(arena, buf);
    return false;
}

static inline struct hearth_buf *take_from(struct hearth_io *arena, struct hearth__stack *stack,
                                           uint64_t state_and_count)
{
    struct hearth_buf *buf;
    while ((buf = hearth__stack_pop(stack)) != NULL)
        if (hearth__likely(claim(arena, buf, state_and_count)))
            return buf;
    return NULL;
}

struct hearth_buf *hearth__io_list_take(struct hearth_io *arena, struct hearth__io_list *list,
                                        uint64_t state_and_count)
{
    struct hearth_buf *buf = take_from(arena, &list->top, state_and_count);
    return hearth__likely(buf != NULL) ? buf : take_from(arena, &list->below, state_and_count);
}

static size_t refill_from(struct hearth_io *arena, struct hearth__stack *stack,
                          struct hearth__magazine *magazine)
{
    size_t count;
    struct hearth_buf *buf = hearth__stack_pop_chain(stack, magazine->limit, &count);
    struct hearth_buf **link = &magazine->loaded;
    size_t kept = 0;
    for (; buf != NULL && count > 0; count--) {
        uint32_t below = hearth__load_relaxed(&buf->link);
        if (claim(arena, buf, (uint64_t)HEARTH__CACHED << HEARTH__COUNT_BITS)) {
            *link = buf;
            link = &buf->next;
            kept++;
        }
        buf = count > 1 ? hearth__slot_at(below) : NULL;
    }
    *link = NULL;
    magazine->loaded_count = (uint16_t)kept;
    return kept;
}

bool hearth__io_magazine_refill(struct hearth_io *arena, struct hearth__magazine *magazine,
                                unsigned size_class)
{
    struct hearth__io_list *list = hearth__io_list_normal(arena, size_class);
    return refill_from(arena, &list->top, magazine) != 0 ||
           refill_from(arena, &list->below, magazine) != 0;
}

void hearth__io_list_give(struct hearth_io *arena, struct hearth_buf *buf)
{
    struct hearth__io_list *list = hearth__io_list_of(arena, buf->size_class, buf->alignment_log);
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
    /* EDGE word.free, publish: the storage and the stamp, and the last use of the payload. */
    hearth__store_release(&buf->state, hearth__word(generation, HEARTH__FREE));
    hearth__stack_push(&list->top, buf);
}

uint64_t hearth__io_stamp(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    uint64_t own = cache == NULL ? 0 : cache->clock;
    uint64_t clock = hearth__load_relaxed(&arena->clock);
    uint64_t stamp = (own > clock ? own : clock) + 1;
    if (hearth__load_relaxed(&arena->retention_cap) == HEARTH_UNBOUNDED) {
        /* No cap asks for the exact order: a step that two threads take at once may be lost, and saves
         * a locked instruction. */
        hearth__store_relaxed(&arena->clock, stamp);
        if (cache != NULL)
            cache->clock = stamp;
        return stamp;
    }
    do {
        stamp = (own > clock ? own : clock) + 1;
    } while (!hearth__cas_weak_relaxed(&arena->clock, &clock, stamp));
    if (cache != NULL)
        cache->clock = stamp;
    return stamp;
}

bool hearth__io_lists_empty(struct hearth_io *arena, const struct hearth__want *want)
{
    uint64_t heads[2 * CLASSES_MOST];
    unsigned count = want->last_class - want->size_class + 1;
    for (size_t i = 0; i < count; i++) {
        struct hearth__io_list *list =
            hearth__io_list_of(arena, want->size_class + (unsigned)i, want->alignment_log);
        heads[2 * i] = hearth__load_acquire(&list->top.head);
        heads[2 * i + 1] = hearth__load_acquire(&list->below.head);
        if (!hearth__io_heads_empty(heads[2 * i], heads[2 * i + 1]))
            return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct hearth__io_list *list =
            hearth__io_list_of(arena, want->size_class + (unsigned)i, want->alignment_log);
        if (hearth__load_acquire(&list->top.head) != heads[2 * i] ||
            hearth__load_acquire(&list->below.head) != heads[2 * i + 1])
            return false;
    }
    return true;
}
