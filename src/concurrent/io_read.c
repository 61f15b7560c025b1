/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: reading the figures from any thread, without a lock and without anybody noticing.
 *
 * Each thread counts in cells of its own. A reader sums all that was taken back over all threads, and only then
 * all that was handed out: a buffer whose return was seen has its hand-out seen, too, whichever threads it
 * passed through, so that no difference goes below zero. What was handed out between the two walks shows as
 * live; the reading is repeated if anything was taken back meanwhile, and held below what there is.
 */
#include "concurrent/io.h"

#include "core/perturb.h"

#include <string.h>

#define READ_ATTEMPTS 4

#define SUM(name) now->name += hearth__load_acquire(&cells->name)

static void add_in(const struct hearth__io_cells *cells, struct hearth__io_reading *now)
{
    /* EDGE io.cells, observe: an "out" is at least as new as the "in" read before it. */
    SUM(given_count);
    SUM(given_bytes);
    SUM(released_bytes);
    SUM(bare_in_weight);
    SUM(bare_in_size);
    SUM(lease_in_weight);
    SUM(lease_in_size);
}

static void add_out(const struct hearth__io_cells *cells, struct hearth__io_reading *now)
{
    SUM(bare_out_weight);
    SUM(bare_out_size);
    SUM(lease_out_weight);
    SUM(lease_out_size);
    SUM(obtained_count);
    SUM(obtained_bytes);
    SUM(adopted_bytes);
    SUM(misses);
    SUM(evictions);
    SUM(bypasses);
    SUM(exports);
    SUM(refills);
    SUM(flushes);
}

static void add_all(const struct hearth_io *arena, struct hearth__io_reading *now,
                    void (*add)(const struct hearth__io_cells *, struct hearth__io_reading *))
{
    /* EDGE io.caches, observe: a cache with its cells. */
    const struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena)
        add(&cache->cells, now);
    add(&arena->shared, now);
    add(&arena->after, now);
}

void hearth__io_read(const struct hearth_io *arena, struct hearth__io_reading *now)
{
    for (unsigned i = 0; i < READ_ATTEMPTS; i++) {
        struct hearth__io_reading again;
        memset(now, 0, sizeof *now);
        memset(&again, 0, sizeof again);
        add_all(arena, now, add_in);
        HEARTH__PERTURB("io.cells");
        add_all(arena, now, add_out);
        add_all(arena, &again, add_in);
        if (again.bare_in_weight == now->bare_in_weight &&
            again.lease_in_weight == now->lease_in_weight && again.given_bytes == now->given_bytes)
            break;
    }
}

bool hearth__io_reading_equal(const struct hearth__io_reading *a,
                              const struct hearth__io_reading *b)
{
    static_assert(sizeof *a == 20 * sizeof(uint64_t), "no padding");
    return memcmp(a, b, sizeof *a) == 0;
}

static uint64_t at_most(uint64_t value, uint64_t bound)
{
    return value < bound ? value : bound;
}

static uint64_t above_zero(uint64_t from, uint64_t minus)
{
    return from > minus ? from - minus : 0;
}

static hearth__weight bare(const struct hearth__io_reading *now)
{
    return now->bare_out_weight - now->bare_in_weight;
}

static hearth__weight leased(const struct hearth__io_reading *now)
{
    return now->lease_out_weight - now->lease_in_weight;
}

static uint64_t held_count(const struct hearth__io_reading *now)
{
    return above_zero(now->obtained_count, now->given_count);
}

static uint64_t held_size(const struct hearth__io_reading *now)
{
    return hearth__io_footprint(now) + above_zero(now->adopted_bytes, now->released_bytes);
}

/* Sizes are differences modulo 2^64; one that is out of step is negative for a moment. */
static uint64_t size_of(uint64_t out, uint64_t in)
{
    return (int64_t)(out - in) < 0 ? 0 : out - in;
}

/* A getter: a difference of one reading. */
#define GETTER(name, expression)                                                                   \
    size_t hearth_io_##name(const struct hearth_io *arena)                                         \
    {                                                                                              \
        if (arena == NULL)                                                                         \
            return 0;                                                                              \
        struct hearth__io_reading now;                                                             \
        hearth__io_read(arena, &now);                                                              \
        return (size_t)hearth__io_##name(&now);                                                    \
    }                                                                                              \
    uint64_t hearth__io_##name(const struct hearth__io_reading *now)                               \
    {                                                                                              \
        return expression;                                                                         \
    }

GETTER(footprint, above_zero(now->obtained_bytes, now->given_bytes))
GETTER(leased_count, at_most(hearth__weight_count(leased(now)), held_count(now)))
GETTER(owned_count, at_most(hearth__weight_count(bare(now)), held_count(now)))
GETTER(live_count, at_most(hearth__weight_count(leased(now) + bare(now)), held_count(now)))
GETTER(leased_bytes, at_most(size_of(now->lease_out_size, now->lease_in_size), held_size(now)))
GETTER(live_bytes, at_most(size_of(now->lease_out_size + now->bare_out_size,
                                   now->lease_in_size + now->bare_in_size),
                           held_size(now)))
GETTER(live_capacity,
       at_most(hearth__weight_capacity(leased(now) + bare(now)), hearth__io_footprint(now)))
GETTER(retained_count, above_zero(held_count(now), hearth__weight_count(leased(now) + bare(now))))
GETTER(retained_bytes,
       above_zero(hearth__io_footprint(now), hearth__weight_capacity(leased(now) + bare(now))))

uint64_t hearth__io_leased_capacity(const struct hearth__io_reading *now)
{
    return at_most(hearth__weight_capacity(leased(now)), hearth__io_footprint(now));
}

size_t hearth_io_pending_count(const struct hearth_io *arena)
{
    (void)arena; /* a returned buffer can be reused at once */
    return 0;
}

size_t hearth_io_pending_bytes(const struct hearth_io *arena)
{
    (void)arena;
    return 0;
}

size_t hearth_io_slots(const struct hearth_io *arena)
{
    return arena == NULL ? 0 : arena->slots_limit;
}

size_t hearth_io_retention_cap(const struct hearth_io *arena)
{
    return arena == NULL ? 0 : hearth__load_relaxed(&arena->retention_cap);
}

size_t hearth_io_peak_bytes(const struct hearth_io *arena)
{
    if (arena == NULL)
        return 0;
    /* EDGE io.epoch, observe: the base that goes with the epoch. */
    uint32_t epoch = hearth__load_acquire(&arena->epoch);
    uint64_t peak = hearth__load_relaxed(&arena->base);
    uint64_t without = hearth__load_relaxed(&arena->peak);
    peak = without > peak ? without : peak;
    const struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena) {
        uint64_t seen = hearth__load_acquire(&cache->peak);
        if (hearth__load_acquire(&cache->epoch) == epoch && seen > peak)
            peak = seen;
    }
    /* What a thread counts while it goes without its cache may miss what the cache had not told yet. */
    size_t live = hearth_io_live_bytes(arena);
    return (size_t)peak > live ? (size_t)peak : live;
}

struct hearth_allocator *hearth_io_allocator(struct hearth_io *arena)
{
    return arena == NULL ? NULL : &arena->allocator;
}

/* Count one stack. */
static void count_stack(const struct hearth__stack *stack, size_t *slots, size_t *bytes)
{
    uint32_t index = hearth__stack_top(hearth__load_acquire(&stack->head));
    while (index != 0) {
        const struct hearth_buf *buf = hearth__slot_at(index);
        if (hearth__word_state(hearth__load_acquire(&buf->state)) == HEARTH__FREE) {
            *slots += 1;
            *bytes += hearth__buf_capacity(buf);
        }
        index = hearth__load_relaxed(&buf->link);
    }
}

static void count_lists(const struct hearth__io_list *lists, size_t stride, size_t count,
                        size_t *slots, size_t *bytes)
{
    for (size_t i = 0; lists != NULL && i < count; i++) {
        count_stack(&lists[i * stride].top, slots, bytes);
        count_stack(&lists[i * stride].below, slots, bytes);
    }
}

static void count_chain(const struct hearth_buf *buf, size_t *slots, size_t *bytes)
{
    for (; buf != NULL; buf = buf->next) {
        *slots += 1;
        *bytes += hearth__buf_capacity(buf);
    }
}

const char *hearth__io_check(struct hearth_io *arena)
{
    size_t slots = 0;
    size_t bytes = 0;
    struct hearth__io_reading now;
    hearth__io_read(arena, &now);
    count_lists(arena->lists, HEARTH__IO_LIST_STRIDE, HEARTH__CLASS_COUNT, &slots, &bytes);
    count_lists(hearth__load_acquire(&arena->aligned), 1,
                HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT, &slots, &bytes);
    int64_t credit = hearth__load_relaxed(&arena->credit);
    const struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena) {
        credit += cache->credit;
        for (unsigned i = 0; i < HEARTH__IO_SMALL_CLASSES; i++) {
            count_chain(cache->magazines[i].loaded, &slots, &bytes);
            count_chain(cache->magazines[i].spare, &slots, &bytes);
        }
    }
    slots += arena->quarantine.count;
    bytes += arena->quarantine.bytes;
    if (slots != hearth__io_retained_count(&now))
        return "what is free is not the retained count";
    if (bytes != hearth__io_retained_bytes(&now))
        return "what is free is not the retained bytes";
    if (hearth__io_live_capacity(&now) + bytes != hearth__io_footprint(&now))
        return "live and retained capacity do not add up to the footprint";
    if (held_count(&now) != hearth__load_relaxed(&arena->slots_used))
        return "slots with storage got lost";
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    if (credit + (int64_t)hearth__weight_of(slots, bytes) != hearth__units(cap))
        return "credit and what is retained do not add up to the cap";
    return NULL;
}
