/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: the caches of its threads.
 *
 * Problem. A list that all threads share costs a locked instruction and a cache line on its way between
 * processors for each call. Below 64 KiB that is worth avoiding; and counters that everybody writes must be
 * avoided at every size. But what a thread keeps for itself must be reachable: by a trim, by a change of
 * the cap, and when the thread exits.
 *
 * Picture. Each thread has a cache in each arena it uses: a section (section.h), magazines, credit, cells.
 *
 *     thread:  current -> cache -> cache (one per arena)     next_in_thread, the thread's alone
 *     arena:   caches -> cache -> cache (one per thread)     next_in_arena, pushed only
 *     pool:    caches that serve no arena, a tagged stack of their numbers
 *
 * States, in the attention word. (none): owned by the thread whose token the gate shows. DEAD: the owner
 * exited; the next thread that comes to the arena takes it over, with cells and contents, by the CAS that
 * clears DEAD. GONE: the arena ended. Owner and arena each give the cache up with one fetch_or, of DEAD and of
 * GONE; whoever finds the other's bit set pools it. VISITED: a visitor has it, or is about to.
 *
 * Visits. See section.h. An owner that finds itself visited works without a cache: on the shared lists and
 * the arena's own cells, inside an RCU section. So it never waits, and has nothing to merge afterwards.
 *
 * In a forked child all other threads are gone. Their caches become DEAD, to be taken over, but for those
 * that were in the middle of something: what these hold is lost, and counted as such.
 *
 * Progress. Finding: wait-free. Attaching: lock-free but for the kernel. Visiting waits for nobody.
 */
#include "concurrent/io.h"

#include "concurrent/membarrier.h"
#include "core/perturb.h"

#include <pthread.h>
#include <string.h>

/* A magazine holds this many bytes, and at least and at most so many slots. */
#define MAGAZINE_BYTES ((size_t)64 << 10)
#define MAGAZINE_LEAST 2u
#define MAGAZINE_MOST 32u

_Thread_local struct hearth__io_thread hearth__io_thread;

/* The pool: {tag : 32, number : 32}; number 0 is none. Numbers are {segment id, place in it}. */
static _Atomic(uint64_t) pool;

#define CACHE_BYTES ((sizeof(struct hearth__io_cache) + 127) & ~(size_t)127)
#define CACHES_PER_SEGMENT ((HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET) / CACHE_BYTES)
#define PLACE_BITS 6

static_assert(CACHES_PER_SEGMENT >= 16 && CACHES_PER_SEGMENT < (1 << PLACE_BITS), "places fit");

static struct hearth__io_cache *cache_in(struct hearth__segment *segment, uint32_t place)
{
    return (struct hearth__io_cache *)((char *)hearth__segment_core(segment) +
                                       (size_t)place * CACHE_BYTES);
}

static struct hearth__io_cache *cache_at(uint32_t number)
{
    return cache_in(hearth__segment_at(number >> PLACE_BITS), number & ((1u << PLACE_BITS) - 1));
}

static void pool_push(struct hearth__io_cache *cache)
{
    uint64_t head = hearth__load_relaxed(&pool);
    do {
        hearth__store_relaxed(&cache->next_free, (uint32_t)head);
        /* EDGE io.cache_pool, publish: the end of the cache's former life. */
    } while (
        !hearth__cas_weak_release(&pool, &head, (head & ~(uint64_t)UINT32_MAX) | cache->number));
}

static struct hearth__io_cache *pool_pop(void)
{
    /* EDGE io.cache_pool, observe: its former life is over, and its link. */
    uint64_t head = hearth__load_acquire(&pool);
    for (;;) {
        if ((uint32_t)head == 0)
            return NULL;
        struct hearth__io_cache *cache = cache_at((uint32_t)head);
        uint64_t rest = ((head >> 32) + 1) << 32 | hearth__load_relaxed(&cache->next_free);
        if (hearth__cas_weak_acquire(&pool, &head, rest))
            return cache;
    }
}

/* A cache that serves no arena. NULL when the kernel refuses memory. */
static struct hearth__io_cache *cache_acquire(void)
{
    struct hearth__io_cache *cache = pool_pop();
    if (cache != NULL)
        return cache;
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_IO_CACHES);
    if (segment == NULL)
        return NULL;
    for (uint32_t place = 0; place < CACHES_PER_SEGMENT; place++) {
        cache = cache_in(segment, place);
        cache->number = segment->id << PLACE_BITS | place;
        if (place != 0)
            pool_push(cache);
    }
    return cache_in(segment, 0);
}

static void magazines_init(struct hearth__io_cache *cache, bool plain)
{
    memset(cache->magazines, 0, sizeof cache->magazines);
    for (unsigned i = 0; plain && i < HEARTH__IO_SMALL_CLASSES; i++) {
        size_t limit = MAGAZINE_BYTES / hearth__class_size(i);
        limit = limit < MAGAZINE_LEAST ? MAGAZINE_LEAST : limit;
        cache->magazines[i].limit = (uint16_t)(limit > MAGAZINE_MOST ? MAGAZINE_MOST : limit);
    }
}

/* Catch up with a change of the arena's cap or peak. Inside, or before the cache is anybody's. */
static void catch_up(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    hearth__io_credit_repay(cache);
    uint32_t epoch = hearth__load_acquire(&arena->epoch);
    if (hearth__load_relaxed(&cache->epoch) != epoch) {
        cache->ahead = 0;
        cache->ahead_most = 0;
        cache->ahead_least = 0;
        hearth__store_relaxed(&cache->peak, 0);
        hearth__store_release(&cache->epoch, epoch);
    }
}

static void cache_init(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    cache->arena = arena;
    cache->credit = 0;
    cache->ahead = 0;
    cache->ahead_most = 0;
    cache->ahead_least = 0;
    cache->clock = 0;
    memset(&cache->cells, 0, sizeof cache->cells);
    hearth__store_relaxed(&cache->peak, 0);
    hearth__store_relaxed(&cache->epoch, hearth__load_acquire(&arena->epoch));
    magazines_init(cache, arena->plain);
    hearth__io_credit_repay(cache);
    hearth__store_relaxed(&cache->section.attention, 0);
    hearth__section_leave(&cache->section, hearth__thread_token());
}

/* Let readers, visitors and the closer find a cache of the calling thread's. */
static void cache_link(struct hearth_io *arena, struct hearth__io_cache *cache)
{
    cache->next_in_arena = hearth__load_relaxed(&arena->caches);
    /* EDGE io.caches, publish: a cache that others may read and visit. */
    while (!hearth__cas_weak_release(&arena->caches, &cache->next_in_arena, cache))
        ;
    HEARTH__PERTURB("io.attach");
    hearth__section_barrier();
    /* Linked before the arena is looked at again, and whoever changes it puts a membarrier between that and
     * a walk over the caches: so the walk finds the cache, or this finds the change. */
    uint32_t attention = HEARTH__ATTENTION_PEAK | HEARTH__ATTENTION_CREDIT;
    if (hearth__load_acquire(&arena->closed) != 0)
        attention |= HEARTH__ATTENTION_CLOSED;
    (void)hearth__fetch_or_release(&cache->section.attention, attention);
}

/* A cache whose owner exited. */
static struct hearth__io_cache *take_over(struct hearth_io *arena)
{
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena) {
        uint32_t attention = hearth__load_relaxed(&cache->section.attention);
        while ((attention & HEARTH__ATTENTION_DEAD) != 0) {
            /* EDGE io.owner, observe: everything that the former owner did. */
            if (!hearth__cas_weak_acquire(&cache->section.attention, &attention,
                                          attention & ~HEARTH__ATTENTION_DEAD))
                continue;
            hearth__store_release(&cache->section.gate, hearth__thread_token());
            return cache;
        }
    }
    return NULL;
}

static pthread_key_t exit_key;
static bool exit_key_made;

/* Empty and give up a cache; the calling thread owns it. */
static void give_up(struct hearth__io_cache *cache)
{
    struct hearth__section *section = &cache->section;
    struct hearth_io *arena = cache->arena;
    hearth__section_resume(section);
    uint32_t attention = hearth__load_acquire(&section->attention);
    /* Visited or closed: what it holds is for the visitor, the next owner, or the one who completes. */
    if ((attention &
         (HEARTH__ATTENTION_VISITED | HEARTH__ATTENTION_CLOSED | HEARTH__ATTENTION_GONE)) == 0) {
        (void)hearth__io_cache_flush(arena, cache);
        catch_up(arena, cache);
        (void)hearth__fetch_add_relaxed(&arena->net, cache->ahead);
        cache->ahead = 0;
        (void)hearth__fetch_add_relaxed(&arena->credit, cache->credit);
        cache->credit = 0;
    }
    hearth__section_leave(section, HEARTH__OWNER_NONE);
    HEARTH__PERTURB("io.owner");
    /* EDGE io.owner, publish: everything that this owner did. The last touch, unless the arena is gone. */
    if ((hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_DEAD) &
         HEARTH__ATTENTION_GONE) != 0)
        pool_push(cache);
}

static void thread_exits(void *unused)
{
    (void)unused;
    struct hearth__io_thread *thread = &hearth__io_thread;
    thread->exiting = true;
    thread->giving_up = true;
    thread->current = NULL;
    while (thread->list != NULL) {
        struct hearth__io_cache *cache = thread->list;
        thread->list = cache->next_in_thread;
        give_up(cache);
    }
    thread->giving_up = false;
}

static __attribute__((constructor)) void make_exit_key(void)
{
    exit_key_made = pthread_key_create(&exit_key, thread_exits) == 0;
}

/* The thread's cache of this arena, or *gone: one of an arena that ended, to be used again. Such a cache
 * stays with its thread, which a signal handler may have interrupted where it is about to enter it. */
static struct hearth__io_cache *search(const struct hearth__io_thread *thread,
                                       const struct hearth_io *arena,
                                       struct hearth__io_cache **gone)
{
    struct hearth__io_cache *cache = thread->list;
    for (; cache != NULL; cache = cache->next_in_thread) {
        uint32_t attention = hearth__load_acquire(&cache->section.attention);
        bool ended = (attention & HEARTH__ATTENTION_GONE) != 0;
        if (!ended && cache->arena == arena)
            return cache;
        if (ended && !hearth__section_busy(&cache->section))
            *gone = cache;
    }
    return NULL;
}

/* A cache for a thread that has none in this arena. */
static struct hearth__io_cache *attach(struct hearth__io_thread *thread, struct hearth_io *arena,
                                       struct hearth__io_cache *gone)
{
    struct hearth__io_cache *cache = take_over(arena);
    if (cache == NULL && gone != NULL) {
        cache_init(arena, gone);
        cache_link(arena, gone);
        return gone;
    }
    bool fresh = cache == NULL;
    if (fresh)
        cache = cache_acquire();
    if (cache == NULL)
        return NULL;
    if (fresh)
        cache_init(arena, cache);
    cache->next_in_thread = thread->list;
    thread->list = cache;
    if (fresh)
        cache_link(arena, cache);
    return cache;
}

struct hearth__io_cache *hearth__io_cache_find(struct hearth_io *arena)
{
    struct hearth__io_thread *thread = &hearth__io_thread;
    struct hearth__io_cache *gone = NULL;
    if (thread->exiting || !exit_key_made || !hearth__membarrier_ready())
        return NULL;
    /* A signal handler that comes meanwhile goes without, and so leaves the list alone. */
    thread->exiting = true;
    hearth__section_barrier();
    struct hearth__io_cache *cache = search(thread, arena, &gone);
    if (cache == NULL && hearth__load_acquire(&arena->closed) == 0 &&
        pthread_setspecific(exit_key, thread) == 0)
        cache = attach(thread, arena, gone);
    if (cache != NULL)
        thread->current = cache;
    hearth__section_barrier();
    thread->exiting = false;
    return cache;
}

void hearth__io_enter(struct hearth_io *arena, struct hearth__io_access *access)
{
    *access = (struct hearth__io_access){.arena = arena};
    struct hearth__io_cache *cache = hearth__io_cache_find(arena);
    if (cache != NULL && hearth__section_open(&cache->section, hearth__thread_token_peek())) {
        hearth__section_resume(&cache->section);
        uint32_t attention = hearth__load_acquire(&cache->section.attention);
        if ((attention & (HEARTH__ATTENTION_VISITED | HEARTH__ATTENTION_CLOSED |
                          HEARTH__ATTENTION_GONE)) == 0) {
            access->cache = cache;
            if (attention != 0) {
                (void)hearth__fetch_and_acquire(&cache->section.attention,
                                                ~(attention & ~HEARTH__ATTENTION_DEAD));
                if ((attention & HEARTH__ATTENTION_FLUSH) != 0)
                    (void)hearth__io_cache_flush(arena, cache);
                catch_up(arena, cache);
            }
            return;
        }
        hearth__section_leave(&cache->section, hearth__thread_token_peek());
    }
    hearth__reclaim_enter();
    (void)hearth__fetch_add_relaxed(&arena->inside, 1);
    access->closed = hearth__load_acquire(&arena->closed) != 0;
    access->cells = access->closed ? &arena->after : &arena->shared;
}

void hearth__io_leave(struct hearth__io_access *access)
{
    if (access->cache != NULL) {
        hearth__section_leave(&access->cache->section, hearth__thread_token_peek());
    } else {
        /* EDGE io.inside, publish: what the operation counted. */
        (void)hearth__fetch_add_release(&access->arena->inside, (uint32_t)-1);
        hearth__reclaim_leave();
    }
}

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
    for (struct hearth_buf *buf = first; buf != NULL; buf = buf->next, count++) {
        hearth__store_relaxed(&buf->link, buf->next == NULL ? 0 : buf->next->index);
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
    (void)hearth__fetch_add_relaxed(&arena->credit, cache->credit);
    cache->credit = 0;
}

/* Caches raised at a time: as many as one membarrier serves. */
#define PASS_MOST 64

static struct hearth__io_pass visit_some(struct hearth_io *arena, struct hearth__io_cache **from)
{
    struct hearth__io_cache *raised[PASS_MOST];
    struct hearth__io_pass pass = {0, 0};
    size_t count = 0;
    for (; *from != NULL && count < PASS_MOST; *from = (*from)->next_in_arena) {
        if (hearth__section_raise(&(*from)->section))
            raised[count++] = *from;
        else
            pass.busy++;
    }
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

struct hearth__io_pass hearth__io_visit_all(struct hearth_io *arena)
{
    struct hearth__io_pass all = {0, 0};
    if (!hearth__membarrier_ready())
        return all;
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    while (cache != NULL) {
        struct hearth__io_pass pass = visit_some(arena, &cache);
        all.visited += pass.visited;
        all.busy += pass.busy;
    }
    return all;
}

bool hearth__io_thread_inside(void)
{
    if (hearth__io_thread.giving_up)
        return true;
    const struct hearth__io_cache *cache = hearth__io_thread.list;
    for (; cache != NULL; cache = cache->next_in_thread)
        if (hearth__section_busy(&cache->section))
            return true;
    return false;
}

void hearth__io_caches_empty(struct hearth_io *arena)
{
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena)
        (void)hearth__io_cache_flush(arena, cache);
}

void hearth__io_caches_end(struct hearth_io *arena)
{
    struct hearth__io_cache *next;
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = next) {
        next = cache->next_in_arena;
        /* EDGE io.owner, observe: whoever gives the cache up second pools it, after the other. */
        if ((hearth__fetch_or_acq_rel(&cache->section.attention, HEARTH__ATTENTION_GONE) &
             HEARTH__ATTENTION_DEAD) != 0)
            pool_push(cache);
    }
    hearth__store_relaxed(&arena->caches, NULL);
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
        pool_push(cache);
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
    hearth__reclaim_after_fork = after_fork;
}
