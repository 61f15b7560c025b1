/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: eviction from the middle of the shared lists, and giving back what they hold.
 *
 * Problem. A stack gives back its newest; a cap has to evict the oldest, which lies at the bottom. Nobody
 * can be kept out of a lock-free list, so nothing can be unlinked from its middle.
 *
 * Picture. Evicting is two halves, which may happen in either order, by different threads:
 *
 *     claim      CAS {g, free} -> {g, evicted}; the storage is taken off the slot
 *                                              then fetch_or of DETACHED
 *     unlink     the slot is popped, at any time later, by whoever pops it
 *                                              then fetch_or of UNLINKED
 *
 * Whoever finds the other's bit makes the slot unused. In between it is a tombstone: linked, without
 * storage. Only who popped a slot may write its link or put it anywhere; a slot that is used again while
 * it is linked would splice two lists.
 *
 * The search for victims walks the links without any protection. Slots are type-stable, so a stale link leads
 * to some slot, of this arena or another; the claim is a CAS on a word that was seen free in a slot of
 * this arena, and generations never come back. The walk is bounded.
 *
 * Tombstones gather at the bottom, where pops seldom get. When a list has more than 32 of them and more than
 * half its length, the evictor moves its slots one at a time to the class's second stack, dropping
 * tombstones, and back again in the right order. Poppers look into both stacks, and never more than one slot is
 * in the evictor's hand: a miss may create one buffer too many for each evictor, not more.
 *
 * One evictor at a time, by a flag that nobody waits for: who finds it set gives its own buffer back instead,
 * or, after a change of the cap, leaves word that the evictor has to look once more.
 *
 * Progress. Lock-free. Ordering: stack.push; word.free, for the evictor, who pops nothing; io.evicting.
 *
 * Cost. Eviction walks all that is free; it frees an eighth of the cap at once where that is many buffers.
 */
#include "concurrent/io.h"

#include "core/clock.h"
#include "core/perturb.h"

/* Victims found in one walk. */
#define VICTIMS_MOST 128u

#define TOMBSTONES_LEAST 32u

/* Slots popped between two looks at the clock, and given back with the section left. */
#define DRAIN_STEP 32u

/* A slot was evicted and its storage is off: the first half. */
static void detached(struct hearth_io *arena, struct hearth_buf *buf)
{
    HEARTH__PERTURB("word.evicted");
#ifdef HEARTH_BROKEN_REARM_LINKED
    hearth__io_slot_put(arena, buf);
#else
    if ((hearth__fetch_or_acq_rel(&buf->state, HEARTH__EVICTED_DETACHED) &
         HEARTH__EVICTED_UNLINKED) != 0)
        hearth__io_slot_put(arena, buf);
#endif
}

/* A slot that was seen free. */
struct victim {
    struct hearth_buf *buf;
    uint64_t word;
    uint64_t stamp;
    size_t capacity;
};

/* The oldest slots found so far, the newest of them first (a heap), and what they amount to. */
struct victims {
    size_t wanted;
    uint64_t before; /* stamps of interest are below */
    size_t bytes;
    unsigned count;
    struct victim heap[VICTIMS_MOST];
};

static void sink(struct victims *victims, unsigned at)
{
    struct victim moved = victims->heap[at];
    for (;;) {
        unsigned child = 2 * at + 1;
        if (child >= victims->count)
            break;
        if (child + 1 < victims->count &&
            victims->heap[child + 1].stamp > victims->heap[child].stamp)
            child++;
        if (victims->heap[child].stamp <= moved.stamp)
            break;
        victims->heap[at] = victims->heap[child];
        at = child;
    }
    victims->heap[at] = moved;
}

static struct victim newest_out(struct victims *victims)
{
    struct victim newest = victims->heap[0];
    victims->bytes -= newest.capacity;
    victims->heap[0] = victims->heap[--victims->count];
    if (victims->count > 0)
        sink(victims, 0);
    return newest;
}

static void consider(struct victims *victims, const struct victim *victim)
{
    if (victims->count == VICTIMS_MOST) {
        if (victim->stamp >= victims->heap[0].stamp)
            return;
        (void)newest_out(victims);
    }
    unsigned at = victims->count++;
    victims->bytes += victim->capacity;
    for (; at > 0 && victims->heap[(at - 1) / 2].stamp < victim->stamp; at = (at - 1) / 2)
        victims->heap[at] = victims->heap[(at - 1) / 2];
    victims->heap[at] = *victim;
    /* The newest are not needed while the others suffice. */
    while (victims->count > 1 && victims->bytes - victims->heap[0].capacity >= victims->wanted)
        (void)newest_out(victims);
}

/* What a walk over one list saw. */
struct census {
    size_t free;
    size_t tombstones;
};

static void walk(struct hearth_io *arena, struct hearth__stack *stack, struct victims *victims,
                 struct census *census)
{
    uint32_t index = hearth__stack_top(hearth__load_acquire(&stack->head));
    /* Twice the slots there are: pushes may go on meanwhile, and a circle of stale links must end. */
    uint64_t most = 2 * hearth__load_relaxed(&arena->slots_used) + (uint64_t)TOMBSTONES_LEAST * 4;
    for (; index != 0 && most > 0; most--) {
        struct hearth_buf *buf = hearth__slot_at(index);
        /* EDGE word.free, observe: the stamp and the storage. */
        struct victim victim = {.buf = buf, .word = hearth__load_acquire(&buf->state)};
        index = hearth__load_relaxed(&buf->link);
        enum hearth__state state = hearth__word_state(victim.word);
        if (state == HEARTH__EVICTED)
            census->tombstones++;
        if (state != HEARTH__FREE || !hearth__slot_in(buf, &arena->allocator))
            continue;
        victim.stamp = hearth__load_relaxed(&buf->stamp);
        if (victim.stamp >= victims->before)
            continue;
        victim.capacity = hearth__buf_capacity(buf);
        census->free++;
        consider(victims, &victim);
    }
}

/* Move what is free from one stack to the other, dropping tombstones; one slot in hand at a time. */
static void move_slots(struct hearth_io *arena, struct hearth__stack *from,
                       struct hearth__stack *to, size_t most)
{
    struct hearth_buf *buf;
    for (; most > 0 && (buf = hearth__stack_pop(from)) != NULL; most--) {
        /* It stays free while it is in hand: another evictor's walk may still claim it. */
        if (hearth__word_state(hearth__load_relaxed(&buf->state)) == HEARTH__FREE)
            hearth__stack_push(to, buf);
        else
            hearth__io_unlinked(arena, buf);
    }
}

static void compact(struct hearth_io *arena, struct hearth__io_list *list,
                    const struct census *census)
{
    size_t length = census->free + census->tombstones;
    move_slots(arena, &list->top, &list->below, length);
    move_slots(arena, &list->below, &list->top, length);
}

/* Walk all lists of one kind; at the same time, compact those that want it. */
static void walk_lists(struct hearth_io *arena, struct hearth__io_list *lists, size_t stride,
                       size_t count, struct victims *victims)
{
    for (size_t i = 0; i < count; i++) {
        struct hearth__io_list *list = &lists[i * stride];
        if (hearth__io_list_empty(list))
            continue;
        struct census census = {0, 0};
        walk(arena, &list->top, victims, &census);
        walk(arena, &list->below, victims, &census);
        if (census.tombstones > TOMBSTONES_LEAST && census.tombstones > census.free)
            compact(arena, list, &census);
    }
}

static void find_victims(struct hearth_io *arena, struct victims *victims)
{
    walk_lists(arena, arena->lists, HEARTH__IO_LIST_STRIDE, HEARTH__CLASS_COUNT, victims);
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    if (aligned != NULL)
        walk_lists(arena, aligned, 1, HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT, victims);
}

/* Claim a victim and take its storage off. False when somebody was faster. */
bool hearth__io_claim(struct hearth__io_access *access, struct hearth_buf *buf, uint64_t word,
                      struct hearth_segment *segment)
{
    uint64_t claimed = hearth__word(hearth__word_generation(word), HEARTH__EVICTED);
#ifdef HEARTH_BROKEN_LATE_UNPUBLISH
    hearth__store_release(&buf->state, claimed);
#else
    /* EDGE word.free, observe: the last use of the payload, before it goes to the backing. */
    if (!hearth__cas_acquire(&buf->state, &word, claimed))
        return false;
#endif
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    hearth__buf_detach(buf, segment);
    hearth__io_credit_give(access, weight);
    hearth__io_slot_unuse(access->arena);
    detached(access->arena, buf);
    return true;
}

/* Give segments back with the section left. */
static void give_back(struct hearth__io_access *access, const struct hearth_segment *segments,
                      unsigned count)
{
    struct hearth_io *arena = access->arena;
    size_t bytes = 0;
    if (count == 0)
        return;
    hearth__io_leave(access);
    for (unsigned i = 0; i < count; i++) {
        bytes += segments[i].length;
        hearth__backing_release(arena->backing, &segments[i]);
    }
    hearth__io_enter_again(access);
    HEARTH__IO_COUNT(access, given_count, count);
    HEARTH__IO_COUNT(access, given_bytes, bytes);
}

static size_t evict_some(struct hearth__io_access *access, struct victims *victims, bool for_cap)
{
    struct hearth_segment segments[VICTIMS_MOST];
    unsigned count = 0;
    size_t bytes = 0;
    victims->count = 0;
    victims->bytes = 0;
    find_victims(access->arena, victims);
    for (unsigned i = 0; i < victims->count; i++) {
        if (!hearth__io_claim(access, victims->heap[i].buf, victims->heap[i].word,
                              &segments[count]))
            continue;
        bytes += segments[count++].length;
    }
    if (for_cap)
        HEARTH__IO_COUNT(access, evictions, count);
    give_back(access, segments, count);
    return bytes;
}

/* States of the evictor's flag. */
enum { IDLE, EVICTING, AGAIN };

static bool start_evicting(struct hearth_io *arena)
{
    uint32_t idle = IDLE;
    /* EDGE io.evicting, observe: the end of the evictor before. */
    return hearth__cas_acquire(&arena->evicting, &idle, EVICTING);
}

static size_t evict_bytes(struct hearth__io_access *access, size_t bytes, uint64_t before,
                          bool for_cap, uint64_t deadline)
{
    size_t released = 0;
    while (released < bytes && (deadline == 0 || released == 0 || hearth__now_ns() < deadline)) {
        struct victims victims;
        victims.wanted = bytes - released;
        victims.before = before;
        size_t step = evict_some(access, &victims, for_cap);
        if (step == 0)
            break;
        released += step;
    }
    return released;
}

/* What is retained beyond the cap, now that all credit within reach is the arena's. */
static void evict_over_cap(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    for (;;) {
        if (access->cache != NULL) {
            hearth__io_credit_return(arena, access->cache->credit);
            access->cache->credit = 0;
        }
        int64_t missing = -hearth__load_relaxed(&arena->credit);
        if (missing <= 0)
            return;
        size_t bytes = hearth__weight_capacity((hearth__weight)missing) + 1;
        if (evict_bytes(access, bytes, UINT64_MAX, true, 0) == 0)
            return;
    }
}

/* Lower the flag; what others asked for meanwhile is done first. */
static void stop_evicting(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    uint32_t state = EVICTING;
    /* EDGE io.evicting, publish: this evictor's end. */
    while (!hearth__cas_acq_rel(&arena->evicting, &state, IDLE)) {
        /* EDGE io.evicting, observe: the caps of those who asked. */
        (void)hearth__exchange_acq_rel(&arena->evicting, EVICTING);
        evict_over_cap(access);
        state = EVICTING;
    }
}

size_t hearth__io_evict(struct hearth__io_access *access, size_t bytes, bool for_cap,
                        uint64_t deadline)
{
    hearth__io_let_go(access);
    if (!start_evicting(access->arena))
        return 0;
    size_t released = evict_bytes(access, bytes, UINT64_MAX, for_cap, deadline);
    stop_evicting(access);
    return released;
}

size_t hearth__io_evict_old(struct hearth__io_access *access, size_t bytes, uint64_t before,
                            uint64_t deadline)
{
    if (!start_evicting(access->arena))
        return 0;
    hearth__io_let_go(access);
    size_t released = evict_bytes(access, bytes, before, false, deadline);
    stop_evicting(access);
    return released;
}

void hearth__io_tidy(struct hearth__io_access *access, struct hearth__io_list *list, size_t free,
                     size_t tombstones)
{
    struct census census = {free, tombstones};
    if (tombstones <= TOMBSTONES_LEAST || tombstones <= free || !start_evicting(access->arena))
        return;
    compact(access->arena, list, &census);
    stop_evicting(access);
}

void hearth__io_evict_excess(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    hearth__io_let_go(access);
    while (!start_evicting(arena)) {
        /* Whoever evicts does it in the end. A step even if somebody else asked before: it is what shows
         * this thread's change of the cap to the evictor. EDGE io.evicting, publish: the cap. */
        uint32_t state = hearth__load_relaxed(&arena->evicting);
        while (state != IDLE)
            if (hearth__cas_acq_rel(&arena->evicting, &state, AGAIN))
                return;
    }
    evict_over_cap(access);
    stop_evicting(access);
}

static size_t drain_list(struct hearth__io_access *access, struct hearth__io_list *list,
                         size_t bytes, uint64_t deadline)
{
    size_t released = 0;
    unsigned count;
    do {
        struct hearth_segment segments[DRAIN_STEP];
        for (count = 0; count < DRAIN_STEP && released < bytes; count++) {
            struct hearth_buf *buf = hearth__io_list_take(
                access->arena, list, (uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS);
            if (buf == NULL)
                break;
            hearth__weight weight = hearth__load_relaxed(&buf->weight);
            hearth__buf_detach(buf, &segments[count]);
            released += segments[count].length;
            hearth__io_credit_give(access, weight);
            hearth__io_slot_unuse(access->arena);
            hearth__io_slot_put(access->arena, buf);
        }
        give_back(access, segments, count);
    } while (count == DRAIN_STEP && released < bytes &&
             (deadline == 0 || hearth__now_ns() < deadline));
    return released;
}

/* Whether a drain goes on with this list. The first step is made whatever the time. */
static bool worth(struct hearth__io_list *list, size_t left, size_t any, uint64_t deadline)
{
    return left > 0 && !hearth__io_list_empty(list) &&
           (deadline == 0 || any == 0 || hearth__now_ns() < deadline);
}

size_t hearth__io_drain_lists(struct hearth__io_access *access, size_t bytes, uint64_t deadline)
{
    struct hearth_io *arena = access->arena;
    size_t left = bytes;
    hearth__io_let_go(access);
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    if (aligned != NULL)
        for (size_t i = HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT; i > 0; i--)
            if (worth(&aligned[i - 1], left, bytes - left, deadline)) {
                size_t step = drain_list(access, &aligned[i - 1], left, deadline);
                left -= step < left ? step : left;
            }
    for (unsigned i = HEARTH__CLASS_COUNT; i > 0; i--) {
        struct hearth__io_list *list = hearth__io_list_normal(arena, i - 1);
        if (worth(list, left, bytes - left, deadline)) {
            size_t step = drain_list(access, list, left, deadline);
            left -= step < left ? step : left;
        }
    }
    return bytes - left;
}
