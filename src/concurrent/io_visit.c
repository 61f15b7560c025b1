/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: what caches give back, by their owners or by visitors, and in a forked child.
 *
 * Visits. See section.h. An owner that finds itself visited works without a cache: on the shared lists and
 * the arena's own cells, inside an RCU section. So it never waits, and has nothing to merge afterwards.
 *
 * In a forked child all other threads are gone. Their caches become DEAD, to be taken over, but for those
 * that were in the middle of something: what these hold is lost, and counted as such.
 *
 * Progress. A visit waits for nobody.
 */
#include "concurrent/io.h"

#include "concurrent/membarrier.h"
#include "core/perturb.h"

/* Flushed or about to be looked at by others: stamps of this thread and of the others meet, so that what is
 * freed later, wherever, is later. */
static void meet_clocks(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    uint64_t clock = hearth__load_relaxed(&arena->clock);
    while (cache->clock > clock && !hearth__cas_weak_relaxed(&arena->clock, &clock, cache->clock))
        ;
    cache->clock = cache->clock > clock ? cache->clock : clock;
}

static size_t flush_chain(struct hearth_io *arena, struct hearth_buf *first, unsigned size_class)
{
    size_t count = 0;
    struct hearth_buf *last = NULL;
    /* The thread's own clock may be far behind the arena's, and what it stamps would look old. */
    uint64_t floor = hearth__load_relaxed(&arena->seen_clock);
    for (struct hearth_buf *buf = first; buf != NULL; buf = buf->next, count++) {
        hearth__store_relaxed(&buf->link, buf->next == NULL ? 0 : buf->next->index);
        if (hearth__load_relaxed(&buf->stamp) < floor)
            hearth__store_relaxed(&buf->stamp, floor);
        uint64_t generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
        last = buf;
        /* EDGE word.free, publish: the storage and the stamp, and the last use of the payload. */
        hearth__store_release(&buf->state, hearth__word(generation, HEARTH__FREE));
    }
    if (last != NULL)
        hearth__stack_push_chain(&hearth__io_list_normal(arena, size_class)->top, first, last);
    return count;
}

void hearth__io_magazine_flush(struct hearth_io *arena, struct hearth__io_cache *cache,
                               unsigned size_class)
{
    struct hearth__magazine *magazine = &cache->magazines[size_class];
    meet_clocks(arena, cache);
    (void)flush_chain(arena, magazine->spare, size_class);
    magazine->spare = NULL;
    magazine->spare_count = 0;
}

size_t hearth__io_cache_flush(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    size_t moved = 0;
    meet_clocks(arena, cache);
    for (unsigned i = 0; i < HEARTH__IO_SMALL_CLASSES; i++) {
        struct hearth__magazine *magazine = &cache->magazines[i];
        if (magazine->loaded_count + magazine->spare_count == 0)
            continue;
        /* The older one first, so that the newer one lies on top. */
        moved += flush_chain(arena, magazine->spare, i);
        moved += flush_chain(arena, magazine->loaded, i);
        uint16_t limit = magazine->limit;
        *magazine = (struct hearth__magazine){.limit = limit};
        hearth__cell_add(&cache->cells.flushes, 1);
    }
    return moved;
}

bool hearth__io_busy(const struct hearth_io *arena)
{
    /* EDGE io.inside, observe: what was counted by operations that have left. */
    if (hearth__load_acquire(&arena->inside) != 0)
        return true;
    const struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena)
        if (hearth__section_busy(&cache->section))
            return true;
    return false;
}

void hearth__io_alert(struct hearth_io *arena, uint32_t attention)
{
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena)
        (void)hearth__fetch_or_release(&cache->section.attention, attention);
}

/* The visitor has the cache. */
static void serve(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    (void)hearth__io_cache_flush(arena, cache);
    hearth__io_credit_return(arena, cache->credit);
    cache->credit = 0;
}

/* Caches raised at a time: as many as one membarrier serves. */
#define PASS_MOST 64

/* Moves with each operation: sums of weights that only grow. */
static uint64_t cells_moved(const struct hearth__io_cells *cells)
{
    return hearth__load_relaxed(&cells->bare_out_weight) +
           hearth__load_relaxed(&cells->lease_out_weight) +
           hearth__load_relaxed(&cells->bare_in_weight) +
           hearth__load_relaxed(&cells->lease_in_weight) +
           hearth__load_relaxed(&cells->obtained_count);
}

static bool stood_still(struct hearth__io_cache *cache)
{
    uint64_t moved = cells_moved(&cache->cells);
    bool still = moved == cache->seen;
    cache->seen = moved;
    return still;
}

bool hearth__io_shared_moved(struct hearth_io *arena)
{
    uint64_t moved = cells_moved(&arena->shared);
    bool still = moved == arena->seen;
    arena->seen = moved;
    return !still;
}

static struct hearth__io_pass visit_some(struct hearth_io *arena, bool idle_only,
                                         struct hearth__io_cache **from)
{
    struct hearth__io_cache *raised[PASS_MOST];
    struct hearth__io_pass pass = {0, 0};
    size_t count = 0;
    for (; *from != NULL && count < PASS_MOST; *from = (*from)->next_in_arena) {
        if ((!idle_only || stood_still(*from)) && hearth__section_raise(&(*from)->section))
            raised[count++] = *from;
        else
            pass.busy++;
    }
    if (count == 0)
        return pass;
    HEARTH__PERTURB("section.visit");
#ifdef HEARTH_BROKEN_VISIT_NO_MEMBARRIER
    bool apart = true;
#else
    bool apart = hearth__membarrier();
#endif
    for (size_t i = 0; i < count; i++) {
        struct hearth__io_cache *cache = raised[i];
        if (apart && hearth__section_visit(&cache->section)) {
            HEARTH__PERTURB("section.visit");
            serve(arena, cache);
            pass.visited++;
        } else {
            (void)hearth__fetch_or_release(&cache->section.attention,
                                           HEARTH__ATTENTION_FLUSH | HEARTH__ATTENTION_CREDIT);
            pass.busy++;
        }
        (void)hearth__section_lower(&cache->section);
    }
    return pass;
}

static struct hearth__io_pass visit(struct hearth_io *arena, bool idle_only)
{
    struct hearth__io_pass all = {0, 0};
    if (!hearth__membarrier_ready())
        return all;
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    while (cache != NULL) {
        struct hearth__io_pass pass = visit_some(arena, idle_only, &cache);
        all.visited += pass.visited;
        all.busy += pass.busy;
    }
    return all;
}

struct hearth__io_pass hearth__io_visit_all(struct hearth_io *arena)
{
    return visit(arena, false);
}

struct hearth__io_pass hearth__io_visit_idle(struct hearth_io *arena)
{
    return visit(arena, true);
}

/* In the child: what a cache holds is lost, because somebody who is not here was in the middle of it. */
static void lose(struct hearth__io_cache *cache)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < HEARTH__IO_SMALL_CLASSES; i++) {
        struct hearth__magazine *magazine = &cache->magazines[i];
        bytes += ((size_t)magazine->loaded_count + magazine->spare_count) * hearth__class_size(i);
        *magazine = (struct hearth__magazine){.limit = magazine->limit};
    }
    /* What the cache had not filled; what it had is lost, and stays charged. */
    hearth__io_credit_return(cache->arena, cache->credit);
    cache->credit = 0;
    (void)hearth__fetch_add_relaxed(&cache->arena->lost_bytes, bytes);
}

/* In the child: one cache of a thread that does not exist here. */
static void orphan(struct hearth__io_cache *cache)
{
    struct hearth__section *section = &cache->section;
    uint32_t attention = hearth__load_relaxed(&section->attention);
    if (hearth__section_busy(section) || (attention & HEARTH__ATTENTION_VISITED) != 0)
        lose(cache);
    hearth__store_relaxed(&section->gate, HEARTH__OWNER_NONE);
    attention = hearth__fetch_and_acq_rel(&section->attention, ~HEARTH__ATTENTION_VISITED);
    if ((attention & HEARTH__ATTENTION_DEAD) == 0)
        attention = hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_DEAD);
    if ((attention & (HEARTH__ATTENTION_GONE | HEARTH__ATTENTION_DEAD)) == HEARTH__ATTENTION_GONE)
        hearth__io_cache_pool(cache);
}

/* In the child: a cache of the thread that forked, which somebody else may have been visiting. */
static void keep_own(struct hearth__io_cache *cache)
{
    uint32_t attention =
        hearth__fetch_and_acq_rel(&cache->section.attention, ~HEARTH__ATTENTION_VISITED);
    /* A visitor that found the owner inside had no part in what the owner was doing. */
    if ((attention & HEARTH__ATTENTION_VISITED) != 0 && !hearth__section_busy(&cache->section))
        lose(cache);
}

/* By its gate, or, inside a section, by the list: a signal handler may fork anywhere. */
static bool is_own(const struct hearth__io_cache *cache)
{
    if (!hearth__section_busy(&cache->section))
        return hearth__load_relaxed(&cache->section.gate) == hearth__thread_token_peek();
    const struct hearth__io_cache *own = hearth__io_thread.list;
    for (; own != NULL; own = own->next_in_thread)
        if (own == cache)
            return true;
    return false;
}

static void after_fork(void)
{
    for (uint32_t id = 1; id <= hearth__segment_count(); id++) {
        struct hearth__segment *segment = hearth__segment_at(id);
        if (segment == NULL || segment->kind != HEARTH__SEGMENT_IO)
            continue;
        struct hearth_io *arena = hearth__segment_core(segment);
        if (hearth__load_relaxed(&segment->arena) == NULL)
            continue;
        hearth__store_relaxed(&arena->evicting, 0);
        hearth__store_relaxed(&arena->inside, 0);
        hearth__io_quarantine_after_fork(arena);
        struct hearth__io_cache *cache = hearth__load_relaxed(&arena->caches);
        for (; cache != NULL; cache = cache->next_in_arena) {
            if (is_own(cache))
                keep_own(cache);
            else
                orphan(cache);
        }
    }
}

static __attribute__((constructor)) void install_after_fork(void)
{
    static struct hearth__fork_hook hook = {.child = after_fork};
    hearth__reclaim_on_fork(&hook);
}
