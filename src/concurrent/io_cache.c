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
 * A cache whose arena has GONE stays with its thread, for the next arena: a signal handler may have
 * interrupted the thread where it is about to enter it.
 *
 * Progress. Finding: wait-free. Attaching: lock-free but for the kernel.
 */
#include "concurrent/io.h"

#include "concurrent/membarrier.h"
#include "concurrent/service.h"
#include "core/perturb.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

/* A magazine holds this many bytes, and at least and at most so many slots. */
#define MAGAZINE_BYTES ((size_t)64 << 10)
#define MAGAZINE_LEAST 2u
#define MAGAZINE_MOST 32u

/* Looks for the end of a visit when a cache is given up. */
#define VISIT_LOOKS 100u

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

void hearth__io_cache_pool(struct hearth__io_cache *cache)
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
            hearth__io_cache_pool(cache);
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
    cache->seen = 0;
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
    if (hearth__debug_flags(0) != 0)
        attention |= HEARTH__ATTENTION_METERED;
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
    for (unsigned i = 0; (attention & HEARTH__ATTENTION_VISITED) != 0 && i < VISIT_LOOKS; i++) {
        /* A visit is short, and a visitor that found this thread inside would leave all to the next one. */
        hearth__section_leave(section, hearth__thread_token());
        (void)sched_yield();
        hearth__section_resume(section);
        attention = hearth__load_acquire(&section->attention);
    }
    /* Visited or closed: what it holds is for the visitor, the next owner, or the one who completes. */
    if ((attention &
         (HEARTH__ATTENTION_VISITED | HEARTH__ATTENTION_CLOSED | HEARTH__ATTENTION_GONE)) == 0) {
        (void)hearth__io_cache_flush(arena, cache);
        catch_up(arena, cache);
        (void)hearth__fetch_add_relaxed(&arena->net, cache->ahead);
        cache->ahead = 0;
        hearth__io_credit_return(arena, cache->credit);
        cache->credit = 0;
    }
    hearth__section_leave(section, HEARTH__OWNER_NONE);
    HEARTH__PERTURB("io.owner");
    /* EDGE io.owner, publish: everything that this owner did. The last touch, unless the arena is gone. */
    if ((hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_DEAD) &
         HEARTH__ATTENTION_GONE) != 0)
        hearth__io_cache_pool(cache);
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
    hearth__io_enter_again(access);
}

void hearth__io_enter_again(struct hearth__io_access *access)
{
    struct hearth_io *arena = access->arena;
    struct hearth__io_cache *cache = hearth__io_cache_find(arena);
    access->cache = NULL;
    access->closed = false;
    if (cache != NULL && hearth__section_open(&cache->section, hearth__thread_token_peek())) {
        hearth__section_resume(&cache->section);
        uint32_t attention = hearth__load_acquire(&cache->section.attention);
        if ((attention & (HEARTH__ATTENTION_VISITED | HEARTH__ATTENTION_CLOSED |
                          HEARTH__ATTENTION_GONE)) == 0) {
            access->cache = cache;
            attention &= ~(HEARTH__ATTENTION_DEAD | HEARTH__ATTENTION_METERED);
            if (attention != 0) {
                (void)hearth__fetch_and_acquire(&cache->section.attention, ~attention);
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

bool hearth__io_thread_inside(void)
{
    if (hearth__io_thread.giving_up || hearth__service_thread_inside())
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
            hearth__io_cache_pool(cache);
    }
    hearth__store_relaxed(&arena->caches, NULL);
}
