/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: giving back what is old, in slices.
 *
 * A list's stamps fall from its top downwards, as what is freed later lies on top. If the top is old, all of the
 * list is, and pops take it off, one CAS each. If not, what is old lies in the middle, and is claimed there, as
 * eviction does (io_evict.c). A sweep that is stopped leaves a cursor, list and slot, from which the next one goes
 * on, so a long list is walked once, in however many slices. Links are followed without protection, as there; a
 * cursor whose slot went elsewhere starts at the top again.
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

static bool fits(const struct hearth_buf *buf, const struct hearth__io_sweep *sweep, size_t bytes)
{
    return sweep->most == 0 || bytes + hearth__buf_capacity(buf) <= sweep->most;
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
        if (hearth__load_relaxed(&buf->stamp) >= sweep->before || !fits(buf, sweep, bytes)) {
            hearth__io_list_give(arena, buf); /* came in between, or is too much */
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

/* Where to go on: the cursor's slot while it still is in a list, else the top. */
static uint32_t start_of(struct hearth_io *arena, struct hearth__stack *stack)
{
    uint32_t cursor = arena->sweep_slot;
    arena->sweep_slot = 0;
    if (cursor != 0) {
        struct hearth_buf *buf = hearth__slot_at(cursor);
        enum hearth__state state = hearth__word_state(hearth__load_acquire(&buf->state));
        if ((state == HEARTH__FREE || state == HEARTH__EVICTED) &&
            hearth__slot_in(buf, &arena->allocator))
            return cursor;
    }
    return hearth__stack_top(hearth__load_acquire(&stack->head));
}

/* Claim what is old below a young top. */
static size_t claim_old(struct hearth__io_access *access, struct hearth__stack *stack,
                        struct hearth__io_sweep *sweep, size_t before, struct seen *seen)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = before;
    uint32_t index = start_of(arena, stack);
    /* Pushes may go on meanwhile, and a circle of stale links must end. */
    uint64_t most = 2 * hearth__load_relaxed(&arena->slots_used) + LOOK_STEP;
    for (uint64_t i = 1; index != 0 && i < most; i++) {
        if ((i % LOOK_STEP == 0 || is_full(sweep->releases) || bytes >= sweep->goal) &&
            !goes_on(sweep, bytes)) {
            arena->sweep_slot = index;
            break;
        }
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
        if (hearth__load_relaxed(&buf->stamp) >= sweep->before || !fits(buf, sweep, bytes) ||
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
    if (hearth__io_list_empty(list))
        return 0;
    size_t bytes = access->arena->sweep_slot != 0 ? 0 : pop_old(access, list, sweep, before);
    if (sweep->more || before + bytes >= sweep->goal || hearth__io_list_empty(list) ||
        sweep->before == 0)
        return bytes;
    struct seen seen = {0, 0};
    bytes += claim_old(access, &list->top, sweep, before + bytes, &seen);
    if (!sweep->more && before + bytes < sweep->goal)
        bytes += claim_old(access, &list->below, sweep, before + bytes, &seen);
    hearth__io_tidy(access, list, seen.free, seen.tombstones);
    return bytes;
}

/* The lists of normal alignment, largest first, then the others. */
static struct hearth__io_list *list_at(struct hearth_io *arena, struct hearth__io_list *aligned,
                                       size_t at)
{
    return at < HEARTH__CLASS_COUNT
               ? hearth__io_list_normal(arena, (unsigned)(HEARTH__CLASS_COUNT - 1 - at))
               : &aligned[at - HEARTH__CLASS_COUNT];
}

size_t hearth__io_sweep(struct hearth__io_access *access, struct hearth__io_sweep *sweep)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = 0;
    sweep->more = false;
    if (sweep->before == UINT64_MAX)
        hearth__io_let_go(access);
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    size_t lists = HEARTH__CLASS_COUNT;
    if (aligned != NULL)
        lists += HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT;
    /* One more than there are: the first one may have been entered in the middle. */
    for (size_t i = 0; i <= lists; i++) {
        arena->sweep_at %= lists;
        bytes += sweep_list(access, list_at(arena, aligned, arena->sweep_at), sweep, bytes);
        if (sweep->more || bytes >= sweep->goal)
            return bytes;
        arena->sweep_slot = 0;
        arena->sweep_at++;
    }
    arena->sweep_at = 0;
    return bytes;
}
