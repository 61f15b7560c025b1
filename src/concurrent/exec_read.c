/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: reading the figures from any thread, without a lock and without the owner noticing.
 *
 * Order. Each "in" is read before the "out" it belongs to, and what is pending between the two: a return
 * leaves the pending figure before it is counted in, so a reader may miss it for a moment, never count
 * it twice. Differences can therefore not go below zero, but for wrong returns that are still queued:
 * there they are held at zero.
 */
#include "concurrent/exec_plan.h"

#include "core/perturb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Attempts at a reading during which nothing was taken back. */
#define READ_ATTEMPTS 4

/* Attempts to see the backlog and the inbox in one piece. */
#define PENDING_ATTEMPTS 4

/* What is pending. A slot may move from the one chain to the other, by way of a user, while both are
 * read; if either changed, read again. The tag in the inbox's head tells of every change. */
static struct hearth__queued read_pending(const struct hearth_exec *arena)
{
    struct hearth__queued pending;
    for (unsigned i = 0; i < PENDING_ATTEMPTS; i++) {
        struct hearth_buf *backlog = hearth__load_acquire(&arena->backlog);
        uint64_t head = hearth__load_acquire(&arena->inbox.head);
        struct hearth__queued old = hearth__queued_from(backlog);
        pending = hearth__queued_at(head);
        pending.count += old.count;
        pending.size += old.size;
        pending.capacity += old.capacity;
        if (hearth__load_acquire(&arena->backlog) == backlog &&
            hearth__load_acquire(&arena->inbox.head) == head)
            break;
    }
    return pending;
}

static struct hearth__exec_reading read_once(const struct hearth_exec *arena)
{
    const struct hearth__exec_cells *cells = &arena->cells;
    struct hearth__exec_reading now;
    /* EDGE exec.cells, observe: an "out" is at least as new as the "in" read before it. */
    /* What was no call of the backing comes after what was counted: too few at worst. */
    now.pieces_in = hearth__load_acquire(&cells->pieces_in);
    now.pieces_out = hearth__load_acquire(&cells->pieces_out);
    now.given_count = hearth__load_acquire(&cells->given_count);
    now.merges = hearth__load_acquire(&cells->merges);
    now.given_bytes = hearth__load_acquire(&cells->given_bytes);
    now.moves = hearth__load_acquire(&cells->moves);
    now.gives = hearth__load_acquire(&cells->gives);
    now.in_weight = hearth__load_acquire(&cells->in_weight);
    now.in_size = hearth__load_acquire(&cells->in_size);
    now.pending = read_pending(arena);
    HEARTH__PERTURB("exec.cells");
    now.out_weight = hearth__load_acquire(&cells->out_weight);
    now.out_size = hearth__load_acquire(&cells->out_size);
    now.obtained_count = hearth__load_acquire(&cells->obtained_count);
    now.cuts = hearth__load_acquire(&cells->cuts);
    now.obtained_bytes = hearth__load_acquire(&cells->obtained_bytes);
    now.peak = hearth__load_acquire(&cells->peak);
    now.misses = hearth__load_acquire(&cells->misses);
    now.remote_frees = hearth__load_acquire(&cells->remote_frees);
    return now;
}

/* What was lent between the reading of an "in" and of its "out" would show as live. If any was, read again;
 * the figures are held below what is held in any case. */
struct hearth__exec_reading hearth__exec_read(const struct hearth_exec *arena)
{
    struct hearth__exec_reading now = read_once(arena);
    for (unsigned i = 1; i < READ_ATTEMPTS; i++) {
        if (hearth__load_acquire(&arena->cells.gives) == now.gives)
            break;
        now = read_once(arena);
    }
    return now;
}

bool hearth__exec_reading_equal(const struct hearth__exec_reading *a,
                                const struct hearth__exec_reading *b)
{
    static_assert(sizeof *a == 17 * sizeof(uint64_t) + sizeof a->pending, "no padding");
    return memcmp(a, b, sizeof *a) == 0;
}

static uint64_t above_zero(uint64_t from, uint64_t minus)
{
    return from > minus ? from - minus : 0;
}

static uint64_t at_most(uint64_t value, uint64_t bound)
{
    return value < bound ? value : bound;
}

size_t hearth_exec_slots(const struct hearth_exec *arena)
{
    return arena == NULL ? 0 : arena->slots.limit;
}

size_t hearth_exec_retention_cap(const struct hearth_exec *arena)
{
    return arena == NULL ? 0 : hearth__load_relaxed(&arena->retention_cap);
}

size_t hearth_exec_peak_bytes(const struct hearth_exec *arena)
{
    return arena == NULL ? 0 : (size_t)hearth__load_relaxed(&arena->cells.peak);
}

struct hearth_allocator *hearth_exec_allocator(struct hearth_exec *arena)
{
    return arena == NULL ? NULL : &arena->allocator;
}

struct hearth_exec *hearth_exec_of(struct hearth_allocator *allocator)
{
    if (allocator == NULL || allocator->ops != &hearth__exec_ops)
        return NULL;
    return hearth__exec_of(allocator);
}

/* A getter: a difference of one reading. */
#define GETTER(name, expression)                                                                   \
    size_t hearth_exec_##name(const struct hearth_exec *arena)                                     \
    {                                                                                              \
        if (arena == NULL)                                                                         \
            return 0;                                                                              \
        struct hearth__exec_reading now = hearth__exec_read(arena);                                \
        return (size_t)hearth__exec_##name(&now);                                                  \
    }                                                                                              \
    uint64_t hearth__exec_##name(const struct hearth__exec_reading *now)                           \
    {                                                                                              \
        return expression;                                                                         \
    }

/* Handed out and not taken in: live and pending together. */
static size_t out_count(const struct hearth__exec_reading *now)
{
    return hearth__weight_count(now->out_weight - now->in_weight);
}

static size_t out_capacity(const struct hearth__exec_reading *now)
{
    return hearth__weight_capacity(now->out_weight - now->in_weight);
}

/* Pieces of storage: what was obtained, cut or not. */
static uint64_t pieces(const struct hearth__exec_reading *now)
{
    return now->obtained_count - now->given_count + now->cuts - now->merges;
}

GETTER(live_count, at_most(above_zero(out_count(now), now->pending.count), pieces(now)))
GETTER(live_bytes, at_most(above_zero(now->out_size, now->in_size + now->pending.size),
                           now->obtained_bytes - now->given_bytes))
GETTER(live_capacity, at_most(above_zero(out_capacity(now), now->pending.capacity),
                              now->obtained_bytes - now->given_bytes))
GETTER(pending_count, now->pending.count)
GETTER(pending_bytes, now->pending.capacity)
GETTER(retained_count, above_zero(pieces(now), out_count(now)))
GETTER(retained_bytes, above_zero(now->obtained_bytes - now->given_bytes, out_capacity(now)))
GETTER(footprint, now->obtained_bytes - now->given_bytes)

uint64_t hearth__exec_allocs(const struct hearth__exec_reading *now)
{
    return now->gives - now->moves + out_count(now);
}

uint64_t hearth__exec_frees(const struct hearth__exec_reading *now)
{
    return hearth__exec_allocs(now) - hearth__exec_live_count(now);
}

const char *hearth__exec_check(const struct hearth_exec *arena)
{
    size_t slots;
    size_t bytes;
    struct hearth__exec_reading now = hearth__exec_read(arena);
    arena->store->ops->count(arena->store, &slots, &bytes);
    slots += arena->quarantine.count;
    bytes += arena->quarantine.bytes;
    size_t places = 0; /* live ones: their slots are the book's */
    size_t with_slots = slots;
    if (arena->run.book != NULL) {
        hearth__weight in_place;
        places = hearth__book_live(arena->run.book, &in_place);
        slots += arena->run.book->place_count - hearth__weight_count(in_place);
        bytes += arena->run.book->slab.length - hearth__weight_capacity(in_place);
        with_slots += places - hearth__weight_count(in_place); /* one waits for each moved one */
    }
    if (arena->spans != NULL) {
        const char *violated = hearth__spans_check(arena->spans);
        if (violated != NULL)
            return violated;
        slots += arena->spans->free_count;
        bytes += arena->spans->free_bytes;
    }
    if (arena->front != NULL) {
        with_slots++;
        slots++;
        bytes += hearth__buf_capacity(arena->front);
    }
    hearth__weight lost = hearth__load_relaxed(&arena->lost);
    if (slots + hearth__weight_count(lost) != hearth__exec_retained_count(&now))
        return "the store's slots are not the retained count";
    if (bytes + hearth__weight_capacity(lost) != hearth__exec_retained_bytes(&now))
        return "the store's bytes are not the retained bytes";
    if (hearth__weight_capacity(arena->held + arena->spare_held) != hearth__exec_footprint(&now))
        return "held is not the footprint";
    /* Queued returns that are wrong may exceed what is out; the live figure is then held at zero. */
    if (now.pending.capacity <= out_capacity(&now) && hearth__exec_live_capacity(&now) +
                                                              hearth__exec_retained_bytes(&now) +
                                                              hearth__exec_pending_bytes(&now) !=
                                                          hearth__exec_footprint(&now))
        return "live, retained and pending capacity do not add up to the footprint";
    if (lost == 0 && hearth__slots_unused(&arena->slots) + hearth__slots_unused(&arena->spare) +
                             with_slots + out_count(&now) - places !=
                         arena->slots.made + arena->spare.made)
        return "slots got lost";
    return NULL;
}

void hearth__exec_assert(struct hearth_exec *arena)
{
#if HEARTH_CHECK_LEVEL >= 2
    /* Not in the middle of another operation, and not while others' returns come in: those may be wrong
     * ones, which the figures show only as best they can. */
    if (hearth__load_relaxed(&arena->running) != 0 || hearth__section_busy(&arena->section) ||
        (hearth__load_acquire(&arena->section.attention) & HEARTH__ATTENTION_VISITED) != 0)
        return;
    hearth__section_resume(&arena->section);
    bool queued =
        hearth__inbox_waiting(&arena->inbox) || hearth__load_relaxed(&arena->backlog) != NULL;
    const char *violated = queued ? NULL : hearth__exec_check(arena);
    bool still = !hearth__inbox_waiting(&arena->inbox);
    hearth__exec_leave(arena);
    if (violated != NULL && still) {
        fprintf(stderr, "hearth: arena %p: %s\n", (const void *)arena, violated);
        abort();
    }
#else
    (void)arena;
#endif
}
