/* SPDX-License-Identifier: Apache-2.0 */
/* Books: the slab, and the slots of its places. A place is an offset at which some plan has a buffer begin; all entries
 * that begin there share its slot, so that an address always means the same slot. */
#include "core/book.h"

/* Called for each slot of a book that has a place. */
typedef void visit_place(struct hearth_buf *place, void *context);

static void for_each_place(const struct hearth__book *book, visit_place *visit, void *context)
{
    const struct hearth__segment *newest = book->slots.segments;
    struct hearth__segment *segment = book->slots.segments;
    for (; segment != NULL; segment = segment->next) {
        uint32_t end = segment == newest ? book->slots.fresh : (uint32_t)HEARTH__SLOTS_PER_GRANULE;
        for (uint32_t n = segment->first_slot; n < end; n++) {
            struct hearth_buf *slot = hearth__segment_slot(segment, n);
            if (hearth__load_relaxed(&slot->data) != NULL)
                visit(slot, context);
        }
    }
}

struct census {
    size_t live;
    hearth__weight in_place;
};

static void add_live(struct hearth_buf *place, void *context)
{
    struct census *census = context;
    if (hearth__word_state(hearth__load_relaxed(&place->state)) != HEARTH__LIVE)
        return;
    census->live++;
    if ((place->flags & HEARTH__BUF_MOVED) == 0)
        census->in_place += hearth__load_relaxed(&place->weight);
}

size_t hearth__book_live(const struct hearth__book *book, hearth__weight *in_place)
{
    struct census census = {0, 0};
    for_each_place(book, add_live, &census);
    if (in_place != NULL)
        *in_place = census.in_place;
    return census.live;
}

struct following {
    struct hearth__plan *plan;
    char *base;
    size_t live;
};

/* A place's own offset, also while its slot has other storage; then all of what a plan may have put there is free. */
static void respect(struct hearth_buf *place, void *context)
{
    struct following *following = context;
    if (hearth__word_state(hearth__load_relaxed(&place->state)) != HEARTH__LIVE)
        return;
    following->live++;
    /* Its return says nothing of this run's entries. */
    hearth__store_relaxed(&place->stamp, 0);
#ifndef HEARTH_BROKEN_PLAN_CARRY_BLIND
    if ((place->flags & HEARTH__BUF_MOVED) == 0)
        hearth__plan_block(following->plan,
                           (size_t)((char *)hearth__load_relaxed(&place->data) - following->base),
                           hearth__buf_capacity(place));
#endif
}

void hearth__book_follow_idle(struct hearth__book *book, struct hearth__plan *plan, uint32_t at,
                              struct hearth__plan_run *run)
{
    plan->used = ++book->clock;
    for (uint32_t i = 0; i < at; i++)
        plan->entries[i].over = run->number;
    run->entries = plan->entries;
    run->edges = plan->edges;
    run->cursor = &plan->entries[at];
    run->kept = 0;
    run->strayed = 0;
    run->aligned = at;
}

size_t hearth__book_follow(struct hearth__book *book, struct hearth__plan *plan, uint32_t at,
                           struct hearth__plan_run *run)
{
    struct following following = {plan, book->slab.base, 0};
    for_each_place(book, respect, &following);
    hearth__book_follow_idle(book, plan, at, run);
    return following.live;
}

struct carried {
    struct following following;
    const struct hearth_buf *home;
};

/* What is live since before the plan was followed has no entry. */
static void still_respect(struct hearth_buf *place, void *context)
{
    struct carried *carried = context;
    if (place != carried->home && hearth__place_entry(place) == NULL)
        respect(place, &carried->following);
}

void hearth__book_carried_home(struct hearth__book *book, struct hearth__plan *plan,
                               const struct hearth_buf *place)
{
    struct carried carried = {{plan, book->slab.base, 0}, place};
    hearth__plan_unblock(plan);
    for_each_place(book, still_respect, &carried);
}

/* A slot without a place. Makes a system call when there is none. */
static struct hearth_buf *take_slot(struct hearth__book *book, struct hearth_allocator *arena)
{
    bool grow;
    struct hearth_buf *slot;
    while ((slot = hearth__slots_take(&book->slots, &grow)) == NULL) {
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
        if (segment == NULL)
            return NULL;
        hearth__slots_add(&book->slots, segment, arena);
    }
    return slot;
}

bool hearth__book_has(const struct hearth__book *book, const struct hearth_buf *slot)
{
    const struct hearth__segment *of = hearth__segment_of(slot);
    const struct hearth__segment *segment = book->slots.segments;
    while (segment != NULL && segment != of)
        segment = segment->next;
    return segment != NULL;
}

static struct hearth_buf *place_at(struct hearth__book *book, uint32_t offset,
                                   struct hearth_allocator *arena)
{
    char *data = (char *)book->slab.base + (size_t)offset * HEARTH__WEIGHT_UNIT;
    struct hearth_buf *place = hearth__payload_find(data);
    if (place != NULL && hearth__book_has(book, place))
        return place;
    place = take_slot(book, arena);
    if (place == NULL)
        return NULL;
    if (hearth__payload_set(data, place->index) != HEARTH_OK) {
        hearth__slots_put(&book->slots, place);
        return NULL;
    }
    place->storage = (struct hearth__storage){.base = data};
    place->offset = 0;
    place->size_class = 0;
    place->alignment_log = HEARTH__ALIGNMENT_LOG_MIN | HEARTH__MARK_PLACE;
    place->flags = 0;
    hearth__store_relaxed(&place->weight, 0);
    hearth__store_relaxed(&place->data, data);
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&place->state));
    hearth__store_relaxed(&place->state, hearth__word(generation, HEARTH__FREE));
    book->place_count++;
    return place;
}

static bool place_plan(struct hearth__book *book, struct hearth__plan *plan,
                       struct hearth_allocator *arena)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (plan->units[i] == 0)
            continue;
        struct hearth_buf *place = place_at(book, plan->offsets[i], arena);
        if (place == NULL)
            return false;
        plan->entries[i].place = place;
    }
    plan->placed = true;
    return true;
}

enum hearth_status hearth__book_place(struct hearth__book *book, struct hearth_allocator *arena)
{
    enum hearth_status status = HEARTH_OK;
    for (uint32_t i = 0; i < book->plan_count; i++) {
        struct hearth__plan *plan = book->plans[i];
        if (!plan->placed && plan->bytes <= book->slab.length && !place_plan(book, plan, arena))
            status = HEARTH_NO_MEMORY;
    }
    return status;
}

static void displace(struct hearth_buf *place, void *context)
{
    struct hearth__book *book = context;
    hearth__payload_clear(hearth__load_relaxed(&place->data));
    hearth__store_relaxed(&place->data, NULL);
    hearth__store_relaxed(&place->weight, 0);
    hearth__store_relaxed(&place->size, 0);
    place->storage = (struct hearth__storage){0};
    place->alignment_log = HEARTH__ALIGNMENT_LOG_MIN;
    hearth__slots_put(&book->slots, place);
}

struct hearth_segment hearth__book_take_slab(struct hearth__book *book)
{
    struct hearth_segment slab = book->slab;
    for_each_place(book, displace, book);
    book->place_count = 0;
    for (uint32_t i = 0; i < book->plan_count; i++)
        book->plans[i]->placed = false;
    book->slab = (struct hearth_segment){0};
    hearth__store_relaxed(&book->slab_bytes, 0);
    return slab;
}

void hearth__book_serve(struct hearth__book *book, struct hearth_allocator *arena)
{
    struct hearth__segment *segment = book->slots.segments;
    for (; segment != NULL; segment = segment->next)
        if (hearth__load_relaxed(&segment->arena) != arena)
            hearth__store_release(&segment->arena, arena);
}

void hearth__book_restore(struct hearth_buf *place, void *data)
{
    place->storage = (struct hearth__storage){.base = data};
    place->offset = 0;
    place->size_class = 0;
    place->alignment_log = HEARTH__ALIGNMENT_LOG_MIN | HEARTH__MARK_PLACE;
    place->flags = 0;
    hearth__store_relaxed(&place->weight, 0);
    hearth__store_relaxed(&place->data, data);
    /* The word exists since the place does. */
    (void)hearth__payload_set(data, place->index);
}
