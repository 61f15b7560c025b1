/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: giving back what is old, in slices.
 *
 * A list's stamps fall from its top downwards, as what is freed later lies on top. If the top is old, all of the
 * list is, and pops take it off, one CAS each. If not, what is old lies in the middle, and is claimed there, as
 * eviction does (io_evict.c); a walk goes on from where the one before ended, as long as the sweep lasts, so a
 * long list is walked once. Links are followed without protection, as there.
 */
#include "concurrent/io.h"

#include "core/clock.h"

#define RETURNING_BITS ((uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS)

/* Slots looked at between two looks at the clock. */
#define LOOK_STEP 64u

static bool is_full(const struct hearth__releases *releases)
{
    return releases->count == HEARTH__RELEASES_MOST;
}

/* Whether the sweep goes on. */
static bool goes_on(struct hearth__io_sweep *sweep, size_t bytes)
{
    if (bytes >= sweep->goal)
        return false;
    if (is_full(sweep->releases) || (sweep->deadline != 0 && hearth__now_ns() >= sweep->deadline)) {
        sweep->more = true;
        return false;
    }
    return true;
}

static void count_given(struct hearth__io_access *access, struct hearth__io_sweep *sweep,
                        const struct hearth_segment *segment)
{
    (void)hearth__releases_add(sweep->releases, access->arena->backing, segment);
    HEARTH__IO_COUNT(access, given_count, 1);
    HEARTH__IO_COUNT(access, given_bytes, segment->length);
}

static bool top_is_old(struct hearth__io_list *list, uint64_t before)
{
    uint32_t top = hearth__stack_top(hearth__load_acquire(&list->top.head));
    if (top == 0)
        top = hearth__stack_top(hearth__load_acquire(&list->below.head));
    return top != 0 && hearth__load_relaxed(&hearth__slot_at(top)->stamp) < before;
}

/* Pop while the top is old. */
static size_t pop_old(struct hearth__io_access *access, struct hearth__io_list *list,
                      struct hearth__io_sweep *sweep, size_t before)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = before;
    for (unsigned i = 1; top_is_old(list, sweep->before); i++) {
        if ((i % LOOK_STEP == 0 || is_full(sweep->releases) || bytes >= sweep->goal) &&
            !goes_on(sweep, bytes))
            break;
        struct hearth_buf *buf = hearth__io_list_take(arena, list, RETURNING_BITS);
        if (buf == NULL)
            break;
        if (hearth__load_relaxed(&buf->stamp) >= sweep->before) {
            hearth__io_list_give(arena, buf); /* came in between */
            break;
        }
        struct hearth_segment segment;
        hearth__weight weight = hearth__load_relaxed(&buf->weight);
        hearth__buf_detach(buf, &segment);
        bytes += segment.length;
        hearth__io_credit_give(access, weight);
        hearth__io_slot_unuse(arena);
        hearth__io_slot_put(arena, buf);
        count_given(access, sweep, &segment);
    }
    return bytes - before;
}

/* What a walk saw. */
struct seen {
    size_t free;
    size_t tombstones;
};

/* Claim what is old below a young top. */
static size_t claim_old(struct hearth__io_access *access, struct hearth__stack *stack,
                        struct hearth__io_sweep *sweep, size_t before, struct seen *seen)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = before;
    uint32_t index = hearth__stack_top(hearth__load_acquire(&stack->head));
    /* Pushes may go on meanwhile, and a circle of stale links must end. */
    uint64_t most = 2 * hearth__load_relaxed(&arena->slots_used) + LOOK_STEP;
    for (; index != 0 && most > 0; most--) {
        if ((most % LOOK_STEP == 0 || is_full(sweep->releases) || bytes >= sweep->goal) &&
            !goes_on(sweep, bytes))
            break;
        struct hearth_buf *buf = hearth__slot_at(index);
        /* EDGE word.free, observe: the stamp and the storage. */
        uint64_t word = hearth__load_acquire(&buf->state);
        index = hearth__load_relaxed(&buf->link);
        struct hearth_segment segment;
        enum hearth__state state = hearth__word_state(word);
        seen->tombstones += state == HEARTH__EVICTED;
        if (state != HEARTH__FREE || !hearth__slot_in(buf, &arena->allocator))
            continue;
        seen->free++;
        if (hearth__load_relaxed(&buf->stamp) >= sweep->before ||
            !hearth__io_claim(access, buf, word, &segment))
            continue;
        seen->free--;
        seen->tombstones++;
        bytes += segment.length;
        count_given(access, sweep, &segment);
    }
    return bytes - before;
}

static size_t sweep_list(struct hearth__io_access *access, struct hearth__io_list *list,
                         struct hearth__io_sweep *sweep, size_t before)
{
    if (hearth__io_list_empty(list) || before >= sweep->goal || sweep->more)
        return 0;
    size_t bytes = pop_old(access, list, sweep, before);
    if (sweep->more || hearth__io_list_empty(list) || sweep->before == 0)
        return bytes;
    struct seen seen = {0, 0};
    bytes += claim_old(access, &list->top, sweep, before + bytes, &seen);
    if (!sweep->more)
        bytes += claim_old(access, &list->below, sweep, before + bytes, &seen);
    hearth__io_tidy(access, list, seen.free, seen.tombstones);
    return bytes;
}

size_t hearth__io_sweep(struct hearth__io_access *access, struct hearth__io_sweep *sweep)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = 0;
    sweep->more = false;
    if (sweep->before == UINT64_MAX)
        hearth__io_let_go(access);
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    for (size_t i = 0; aligned != NULL && i < HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT; i++)
        bytes += sweep_list(access, &aligned[i], sweep, bytes);
    for (unsigned i = HEARTH__CLASS_COUNT; i > 0; i--)
        bytes += sweep_list(access, hearth__io_list_normal(arena, i - 1), sweep, bytes);
    return bytes;
}
