/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: slots and storage. Everything here may call the backing, and does so with the section left,
 * so that a slow backing keeps no visitor out and delays no grace period.
 */
#include "concurrent/io.h"

#include "concurrent/service.h"
#include "core/perturb.h"

#define RETURNING_BITS ((uint64_t)HEARTH__RETURNING << HEARTH__COUNT_BITS)

void hearth__io_slot_put(struct hearth_io *arena, struct hearth_buf *slot)
{
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&slot->state));
    hearth__store_relaxed(&slot->state, hearth__word(generation, HEARTH__UNUSED));
    /* One whose generations are used up is retired: it stays where it is. */
    if (generation != HEARTH__GENERATION_MAX)
        hearth__stack_push(&arena->unused, slot);
}

bool hearth__io_slots_add(struct hearth_io *arena, struct hearth__segment *segment)
{
    struct hearth_buf *first = NULL;
    struct hearth_buf *last = NULL;
    for (uint32_t n = segment->first_slot; n < HEARTH__SLOTS_PER_GRANULE; n++) {
        struct hearth_buf *slot = hearth__segment_slot(segment, n);
        uint64_t word = hearth__load_relaxed(&slot->state);
        if (word == 0) {
            slot->index = segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + n;
            hearth__store_relaxed(&slot->state, hearth__word(1, HEARTH__UNUSED));
        } else if (hearth__word_generation(word) == HEARTH__GENERATION_MAX) {
            continue;
        }
        hearth__store_relaxed(&slot->link, first == NULL ? 0 : first->index);
        last = last == NULL ? slot : last;
        first = slot;
    }
    hearth__store_release(&segment->arena, &arena->allocator);
    segment->next = hearth__load_relaxed(&arena->segments);
    /* EDGE io.segments, publish: for the one who ends the arena. */
    while (!hearth__cas_weak_release(&arena->segments, &segment->next, segment))
        ;
    if (first != NULL)
        hearth__stack_push_chain(&arena->unused, first, last);
    return first != NULL;
}

void hearth__io_slot_unuse(struct hearth_io *arena)
{
    (void)hearth__fetch_add_relaxed(&arena->slots_used, (uint64_t)-1);
}

enum hearth_status hearth__io_slot_take(struct hearth__io_access *access, struct hearth_buf **slot)
{
    struct hearth_io *arena = access->arena;
    uint64_t used = hearth__load_relaxed(&arena->slots_used);
    do {
        if (used >= arena->slots_limit)
            return HEARTH_NO_SLOT;
    } while (!hearth__cas_weak_relaxed(&arena->slots_used, &used, used + 1));
    while ((*slot = hearth__stack_pop(&arena->unused)) == NULL) {
        hearth__io_leave(access);
        struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_IO_SLOTS);
        hearth__io_enter_again(access);
        if (segment == NULL) {
            hearth__io_slot_unuse(arena);
            return HEARTH_NO_MEMORY;
        }
        (void)hearth__io_slots_add(arena, segment);
    }
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&(*slot)->state));
    hearth__store_relaxed(&(*slot)->state, hearth__word(generation, HEARTH__RETURNING));
    return HEARTH_OK;
}

enum hearth_status hearth__io_slot_force(struct hearth__io_access *access, struct hearth_buf **slot)
{
    enum hearth_status status = hearth__io_slot_take(access, slot);
    for (unsigned i = 0; i < 2 && status == HEARTH_NO_SLOT; i++) {
        if (access->cache != NULL)
            (void)hearth__io_cache_flush(access->arena, access->cache);
        if (hearth__io_drain_lists(access, 1, 0) == 0) {
            hearth__io_leave(access);
            (void)hearth__io_visit_all(access->arena);
            hearth__io_enter_again(access);
            (void)hearth__io_drain_lists(access, 1, 0);
        }
        status = hearth__io_slot_take(access, slot);
    }
    return status;
}

void hearth__io_empty(struct hearth__io_access *access, struct hearth_buf *buf, bool pool)
{
    struct hearth_io *arena = access->arena;
    struct hearth_segment segment;
    hearth__buf_detach(buf, &segment);
    if (pool) {
        hearth__io_slot_put(arena, buf);
        hearth__io_slot_unuse(arena);
    }
    hearth__io_leave(access);
    hearth__backing_release(arena->backing, &segment);
    hearth__io_enter_again(access);
    HEARTH__IO_COUNT(access, given_count, 1);
    HEARTH__IO_COUNT(access, given_bytes, segment.length);
}

/* Before a request fails: whatever anybody retains and is not inside an operation with. Left meanwhile. */
static bool reclaim_all(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    if (access->cache != NULL)
        (void)hearth__io_cache_flush(arena, access->cache);
    hearth__io_leave(access);
    (void)hearth__io_visit_all(arena);
    hearth__io_enter_again(access);
    size_t released = hearth__io_drain_lists(access, SIZE_MAX, 0);
    hearth__io_leave(access);
    if (arena->service != NULL)
        released += hearth__service_reclaim(arena->service);
    if (released != 0)
        (void)hearth_backing_purge(arena->backing);
    hearth__io_enter_again(access);
    return released != 0;
}

enum hearth_status hearth__io_fill(struct hearth__io_access *access,
                                   const struct hearth__want *want, struct hearth_buf *slot)
{
    struct hearth_io *arena = access->arena;
    size_t alignment = (size_t)1 << want->alignment_log;
    struct hearth_segment segment;
    if ((arena->fixed && !access->filling) || access->reuse_only)
        return HEARTH_NO_MEMORY;
    hearth__io_leave(access);
    enum hearth_status status =
        hearth__backing_acquire(arena->backing, want->bytes, alignment, &segment);
    hearth__io_enter_again(access);
    if (status != HEARTH_OK && reclaim_all(access)) {
        hearth__io_leave(access);
        status = hearth__backing_acquire(arena->backing, want->bytes, alignment, &segment);
        hearth__io_enter_again(access);
    }
    if (status != HEARTH_OK) {
        access->backing_refused = true;
        return status;
    }
    if (access->closed) /* meanwhile: what is not out yet does not get out any more */
        status = HEARTH_CLOSED;
    else if (segment.length > HEARTH__HELD_MAX)
        status = HEARTH_NO_MEMORY;
    else
        status = hearth__buf_attach(slot, &segment, want->alignment_log);
    if (status != HEARTH_OK) {
        hearth__io_leave(access);
        hearth__backing_release(arena->backing, &segment);
        hearth__io_enter_again(access);
        return status;
    }
    HEARTH__IO_COUNT(access, obtained_count, 1);
    HEARTH__IO_COUNT(access, obtained_bytes, segment.length);
    HEARTH__IO_COUNT(access, misses, 1);
    if (arena->service != NULL) {
        hearth__io_leave(access);
        hearth__service_grew(arena->service, segment.length);
        hearth__io_enter_again(access);
    }
    return HEARTH_OK;
}

enum hearth_status hearth__io_prepare_aligned(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    if (hearth__load_acquire(&arena->aligned) != NULL)
        return HEARTH_OK;
    hearth__io_leave(access);
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_IO_LISTS);
    hearth__io_enter_again(access);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    struct hearth__io_list *lists = hearth__segment_core(segment);
    for (size_t i = 0; i < HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT; i++) {
        hearth__stack_init(&lists[i].top);
        hearth__stack_init(&lists[i].below);
    }
    struct hearth__io_list *none = NULL;
    /* EDGE io.aligned, publish: initialised lists. */
    if (!hearth__cas_acq_rel(&arena->aligned, &none, lists))
        hearth__segment_release(segment);
    return HEARTH_OK;
}

/* Inside: from the thread's magazine of a small class, refilled from the shared list. */
static struct hearth_buf *take_small(struct hearth__io_access *access, unsigned size_class,
                                     uint64_t state_and_count)
{
    struct hearth__io_cache *cache = access->cache;
    struct hearth__magazine *magazine = &cache->magazines[size_class];
    if (magazine->loaded == NULL) {
        if (magazine->spare != NULL) {
            magazine->loaded = magazine->spare;
            magazine->loaded_count = magazine->spare_count;
            magazine->spare = NULL;
            magazine->spare_count = 0;
        } else if (hearth__io_magazine_refill(access->arena, magazine, size_class)) {
            hearth__cell_add(&cache->cells.refills, 1);
        } else {
            return NULL;
        }
    }
    struct hearth_buf *buf = magazine->loaded;
    magazine->loaded = buf->next;
    magazine->loaded_count--;
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
    hearth__store_relaxed(&buf->state, hearth__word(generation, 0) | state_and_count);
    return buf;
}

struct hearth_buf *hearth__io_take_class(struct hearth__io_access *access, unsigned size_class,
                                         unsigned alignment_log, uint64_t state_and_count)
{
    if (access->cache != NULL && size_class < HEARTH__IO_SMALL_CLASSES &&
        alignment_log == HEARTH__ALIGNMENT_LOG_MIN &&
        access->cache->magazines[size_class].limit != 0)
        return take_small(access, size_class, state_and_count);
    struct hearth__io_list *list = hearth__io_list_of(access->arena, size_class, alignment_log);
    return list == NULL ? NULL : hearth__io_list_take(access->arena, list, state_and_count);
}

/* Inside: a free slot of a suitable class, the smallest first. NULL only if there was a moment when there
 * was none in the lists and the thread's cache. */
static struct hearth_buf *reuse(struct hearth__io_access *access, const struct hearth__want *want,
                                uint64_t state_and_count)
{
    do {
        for (unsigned i = want->size_class; i <= want->last_class; i++) {
            struct hearth_buf *buf =
                hearth__io_take_class(access, i, want->alignment_log, state_and_count);
            if (buf == NULL)
                continue;
            hearth__io_credit_give(access, hearth__io_credit_of(buf));
            return buf;
        }
    } while (!hearth__io_lists_empty(access->arena, want));
    return NULL;
}

/* Slots ran out: any sufficient free buffer serves, the smallest first; else the largest one gets larger
 * storage. */
static enum hearth_status reuse_any(struct hearth__io_access *access,
                                    const struct hearth__want *want, struct hearth_buf **buf)
{
    hearth__io_let_go(access);
    for (unsigned i = want->size_class; i < HEARTH__CLASS_COUNT; i++) {
        *buf = hearth__io_take_class(access, i, want->alignment_log, RETURNING_BITS);
        if (*buf != NULL) {
            hearth__io_credit_give(access, hearth__io_credit_of(*buf));
            return HEARTH_OK;
        }
    }
    for (unsigned i = HEARTH__CLASS_COUNT; i > 0 && *buf == NULL; i--)
        for (unsigned log = HEARTH__ALIGNMENT_LOG_MIN;
             log <= HEARTH__ALIGNMENT_LOG_MAX && *buf == NULL; log++)
            *buf = hearth__io_take_class(access, i - 1, log, RETURNING_BITS);
    if (*buf == NULL)
        return HEARTH_NO_SLOT;
    hearth__io_credit_give(access, hearth__io_credit_of(*buf));
    hearth__io_empty(access, *buf, false);
    enum hearth_status status = hearth__io_fill(access, want, *buf);
    if (status == HEARTH_OK)
        return HEARTH_OK;
    hearth__io_slot_put(access->arena, *buf);
    hearth__io_slot_unuse(access->arena);
    *buf = NULL;
    return status;
}

/* A miss: fresh storage, or, when slots ran out, somebody else's. The slot is RETURNING. */
static enum hearth_status obtain_fresh(struct hearth__io_access *access,
                                       const struct hearth__want *want, struct hearth_buf **buf)
{
    struct hearth_io *arena = access->arena;
    enum hearth_status status = hearth__io_slot_take(access, buf);
    if (status == HEARTH_NO_SLOT && access->filling)
        return status; /* whatever else is free serves as it is */
    if (status == HEARTH_NO_SLOT) {
        *buf = NULL;
        status = reuse_any(access, want, buf);
        if (status != HEARTH_NO_SLOT)
            return status;
        /* Other threads may keep some. */
        hearth__io_leave(access);
        (void)hearth__io_visit_all(arena);
        hearth__io_enter_again(access);
        return access->closed ? HEARTH_CLOSED : reuse_any(access, want, buf);
    }
    if (status != HEARTH_OK)
        return status;
    status = hearth__io_fill(access, want, *buf);
    if (status != HEARTH_OK) {
        hearth__io_slot_put(arena, *buf);
        hearth__io_slot_unuse(arena);
    }
    return status;
}

static void set_state(struct hearth_buf *buf, uint64_t state_and_count)
{
    uint64_t generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
    hearth__store_relaxed(&buf->state, hearth__word(generation, 0) | state_and_count);
}

/* The limit on live bytes counts capacity, and a reused buffer may have more than was reserved for it. One
 * with too much goes back where it was, with its stamp: nothing shall have changed. */
static bool fits_limit(struct hearth__io_access *access, const struct hearth__want *want,
                       struct hearth_buf *buf)
{
    size_t more = hearth__buf_capacity(buf) - want->bytes;
    if (access->filling || hearth__io_room_more(access, more))
        return true;
    set_state(buf, RETURNING_BITS);
    if (hearth__io_credit_take(access, hearth__io_credit_of(buf)))
        hearth__io_list_give(access->arena, buf);
    else
        hearth__io_empty(access, buf, true);
    return false;
}

/* A slot by reuse or from the backing. Its state is set. */
static enum hearth_status obtain_within(struct hearth__io_access *access,
                                        const struct hearth__want *want, uint64_t state_and_count,
                                        struct hearth_buf **buf)
{
    *buf = reuse(access, want, state_and_count);
    if (*buf != NULL && fits_limit(access, want, *buf))
        return HEARTH_OK;
    enum hearth_status status = obtain_fresh(access, want, buf);
    if (status != HEARTH_OK)
        return status;
    if (access->closed) {
        /* While the section was left. */
        hearth__io_empty(access, *buf, true);
        return HEARTH_CLOSED;
    }
    set_state(*buf, state_and_count);
    return fits_limit(access, want, *buf) ? HEARTH_OK : HEARTH_NO_MEMORY;
}

enum hearth_status hearth__io_obtain(struct hearth__io_access *access,
                                     const struct hearth__want *want, uint64_t state_and_count,
                                     struct hearth_buf **buf)
{
    struct hearth_io *arena = access->arena;
    enum hearth_status status = HEARTH_OK;
    if (want->alignment_log > HEARTH__ALIGNMENT_LOG_MIN)
        status = hearth__io_prepare_aligned(access);
    if (status != HEARTH_OK)
        return status;
    if (access->closed)
        return HEARTH_CLOSED;
    if (!access->prepaid && !hearth__io_room_take(access, want->bytes))
        return HEARTH_NO_MEMORY;
    status = obtain_within(access, want, state_and_count, buf);
    if (status != HEARTH_OK && !access->prepaid)
        hearth__io_room_undo(arena, want->bytes);
    return status;
}

/* Inside: into the thread's magazine. */
static void keep_small(struct hearth__io_access *access, struct hearth_buf *buf)
{
    struct hearth__io_cache *cache = access->cache;
    struct hearth__magazine *magazine = &cache->magazines[buf->size_class];
    if (magazine->loaded_count >= magazine->limit) {
        if (magazine->spare != NULL) {
            hearth__io_magazine_flush(access->arena, cache, buf->size_class);
            hearth__cell_add(&cache->cells.flushes, 1);
        }
        magazine->spare = magazine->loaded;
        magazine->spare_count = magazine->loaded_count;
        magazine->loaded = NULL;
        magazine->loaded_count = 0;
    }
    set_state(buf, (uint64_t)HEARTH__CACHED << HEARTH__COUNT_BITS);
    hearth__store_relaxed(&buf->stamp, ++cache->clock);
    buf->next = magazine->loaded;
    magazine->loaded = buf;
    magazine->loaded_count++;
}

/* Make room under the cap. True if the buffer may be retained now. */
static bool make_room(struct hearth__io_access *access, size_t capacity, hearth__weight weight)
{
    struct hearth_io *arena = access->arena;
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    if (capacity > cap ||
        (arena->service != NULL && capacity > hearth__budget_ceiling(arena->budget))) {
        HEARTH__IO_COUNT(access, bypasses, 1);
        return false;
    }
    /* Many buffers: a whole batch, so that the walk over them is worth it. */
    size_t batch = cap != HEARTH_UNBOUNDED && cap / 8 >= 8 * capacity ? cap / 8 : 0;
    if (access->cache != NULL)
        (void)hearth__io_cache_flush(arena, access->cache);
    for (size_t more = 0; more <= 1; more++) {
        int64_t credit = hearth__load_relaxed(&arena->credit) +
                         (access->cache == NULL ? 0 : access->cache->credit);
        int64_t missing = (int64_t)weight - credit;
        size_t bytes = missing <= 0 ? 1 : hearth__weight_capacity((hearth__weight)missing) + 1;
        if (arena->service != NULL && bytes < capacity)
            bytes = capacity; /* what lacks is the ceiling's */
        if (hearth__io_evict(access, bytes + batch, true, 0) == 0 || access->closed)
            break;
        if (hearth__io_credit_take(access, weight))
            return true;
    }
    if (!access->closed && hearth__io_credit_take(access, weight))
        return true;
    if (arena->service == NULL || access->closed)
        return false;
    hearth__io_leave(access);
    bool room = hearth__service_make_room(arena->service, NULL, (int64_t)weight);
    hearth__io_enter_again(access);
    return room && !access->closed && hearth__io_credit_take(access, weight);
}

void hearth__io_keep(struct hearth__io_access *access, struct hearth_buf *buf)
{
    struct hearth_io *arena = access->arena;
    size_t capacity = hearth__buf_capacity(buf);
    hearth__weight weight = hearth__io_credit_of(buf);
    bool retired =
        hearth__word_generation(hearth__load_relaxed(&buf->state)) == HEARTH__GENERATION_MAX;
    if (retired ||
        (!hearth__io_credit_take(access, weight) && !make_room(access, capacity, weight))) {
        hearth__io_empty(access, buf, true);
        return;
    }
    buf->flags = 0;
    if (arena->debug != 0)
        hearth__debug_returned(arena->debug, buf);
    if ((arena->debug & HEARTH__DEBUG_QUARANTINE) != 0 && hearth__io_detain(access, buf))
        return;
    if (access->cache != NULL && buf->size_class < HEARTH__IO_SMALL_CLASSES &&
        buf->alignment_log == HEARTH__ALIGNMENT_LOG_MIN &&
        access->cache->magazines[buf->size_class].limit != 0) {
        keep_small(access, buf);
        return;
    }
    hearth__store_relaxed(&buf->stamp, hearth__io_stamp(arena, access->cache));
    hearth__io_list_give(arena, buf);
}
