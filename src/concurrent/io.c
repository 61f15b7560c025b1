/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: handing out, export, and the way home.
 *
 * Problem. Buffers that leave the runtime are held by threads that nobody knows, for as long as they like,
 * and must come home exactly once, be reused without a lock, and outlive the arena. One arena serves all
 * threads.
 *
 * Picture.
 *
 *     thread's cache (io_cache.c)                 shared lists (io_list.c), a stack per class
 *       magazines, classes below 64 KiB  <--chains-->  [top] [below]        <-- 64 KiB and up: direct
 *       cells, credit, section                                |
 *                                                   evict, trim, miss
 *                                                             v
 *                                                   backing (io_storage.c)
 *
 * States of a slot's word {generation, state, count}:
 *
 *                         +--------- free ----------+
 *       unused --miss--> live --export--> leased(1) --retain/release--> leased(n)
 *                         ^                 |  last release
 *                         |                 v  (generation + 1)
 *                         |             returning --> cached (magazine) / free (list) --> evicted
 *                         +---- take --------------------/                                  |
 *       unused <---- popped and its storage taken off, whoever of the two comes second -----+
 *
 * Who may change the word. Whoever has the slot alone (a magazine's thread, a miss, an operation that took
 * it back) by plain stores; all others by CAS on the whole word, which names the generation. Export and
 * free are CASes: two threads that wrongly share one bare buffer must not both win.
 *
 * No ABA. Generations never restart, lists are tagged (stack.h).
 *
 * Order of things. The last release is one CAS. After it the slot is the returner's alone, but the arena
 * lives until the return is counted, so counting is the last thing it does to the arena, inside the section
 * in which it looked whether the arena was closed (io_life.c).
 *
 * Progress. All operations are lock-free outside the backing and a thread's first call on an arena.
 *
 * Ordering. word.release: every holder's use of the payload before its next user, or the backing.
 * Also stack.push, section.leave, section.visit, io.outstanding (docs/memory-model.md).
 *
 * Cost. Below 64 KiB one locked instruction for lease and release together; from 64 KiB up five: pop, claim,
 * release, stamp, push.
 */
#include "concurrent/io.h"

#include "core/misuse.h"
#include "core/perturb.h"

#define OUT_OF_LINE __attribute__((noinline))

#define GENERATION_ONE ((uint64_t)1 << HEARTH__GENERATION_SHIFT)
#define BELOW_GENERATION (GENERATION_ONE - 1)
#define BITS(state) ((uint64_t)(state) << HEARTH__COUNT_BITS)
#define LIVE_BITS BITS(HEARTH__LIVE)
#define LEASED_BITS (BITS(HEARTH__LEASED) | 1)

enum hearth_status hearth__io_misuse(struct hearth_io *arena, enum hearth_status status,
                                     const char *call, const void *slot)
{
    if (arena != NULL)
        (void)hearth__fetch_add_relaxed(&arena->misuses, 1);
    return hearth__misuse(status, call, arena == NULL ? NULL : &arena->allocator, slot);
}

/* The calling thread's cache of this arena if its plain path is open, entered; else NULL. */
static inline struct hearth__io_cache *enter_plain(const struct hearth_io *arena)
{
    struct hearth__io_cache *cache = hearth__io_thread.current;
    uint64_t token = hearth__thread_token_peek();
    if (hearth__unlikely(cache == NULL || !hearth__section_enter_plain(&cache->section, token)))
        return NULL;
    /* Only now: a signal handler may have given the cache to another arena before. */
    if (hearth__unlikely(cache->arena != arena)) {
        hearth__section_leave(&cache->section, token);
        return NULL;
    }
    return cache;
}

static inline void leave_plain(struct hearth__io_cache *cache)
{
    hearth__section_leave(&cache->section, hearth__thread_token_peek());
}

/* EDGE io.cells, publish: the "out" that came before an "in"; every cell is added to in this way. */
static inline void count_out(struct hearth__io_cache *cache, const struct hearth_buf *buf,
                             size_t size, bool lease)
{
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    cache->credit += (int64_t)weight;
    if (hearth__unlikely(cache->credit > cache->credit_most))
        hearth__io_credit_repay(cache);
    if (lease) {
        hearth__cell_add(&cache->cells.lease_out_weight, weight);
        hearth__cell_add(&cache->cells.lease_out_size, size);
    } else {
        hearth__cell_add(&cache->cells.bare_out_weight, weight);
        hearth__cell_add(&cache->cells.bare_out_size, size);
    }
    hearth__io_lead(cache, size);
}

/* A slot from the thread's magazine or, from 64 KiB up, the shared list; NULL: take the general path. */
static inline __attribute__((always_inline)) struct hearth_buf *
take_plain(struct hearth_io *arena, size_t size, bool lease, uint64_t *generation)
{
    struct hearth__io_cache *cache = enter_plain(arena);
    if (hearth__unlikely(cache == NULL))
        return NULL;
    unsigned size_class = arena->rounding.rounded[hearth__class_index(size)];
    uint64_t bits = lease ? LEASED_BITS : LIVE_BITS;
    struct hearth_buf *buf;
    if (hearth__likely(size_class < HEARTH__IO_SMALL_CLASSES)) {
        struct hearth__magazine *magazine = &cache->magazines[size_class];
        buf = magazine->loaded;
        if (hearth__likely(buf != NULL)) {
            magazine->loaded = buf->next;
            magazine->loaded_count--;
            uint64_t word = hearth__load_relaxed(&buf->state);
            /* Relaxed: whoever else gets the buffer gets it from the caller, with its ordering. */
            hearth__store_relaxed(&buf->state, (word & ~BELOW_GENERATION) | bits);
        }
    } else {
        buf = arena->plain
                  ? hearth__io_list_take(arena, hearth__io_list_normal(arena, size_class), bits)
                  : NULL;
    }
    if (hearth__likely(buf != NULL)) {
        *generation = hearth__word_generation(hearth__load_relaxed(&buf->state));
        hearth__store_relaxed(&buf->size, size);
        count_out(cache, buf, size, lease);
    }
    leave_plain(cache);
    return buf;
}

HEARTH__HOT enum hearth_status hearth_io_lease(struct hearth_io *arena, size_t size,
                                               struct hearth_lease *lease)
{
    uint64_t generation;
    if (hearth__likely(arena != NULL && lease != NULL)) {
        struct hearth_buf *buf = take_plain(arena, size, true, &generation);
        if (hearth__likely(buf != NULL)) {
            *lease = (struct hearth_lease){buf, generation};
            return HEARTH_OK;
        }
    }
    const struct hearth_request request = {.size = size};
    return hearth_io_lease_ex(arena, &request, lease);
}

HEARTH__HOT enum hearth_status hearth_io_alloc(struct hearth_io *arena, size_t size,
                                               struct hearth_buf **out)
{
    uint64_t generation;
    if (hearth__likely(arena != NULL && out != NULL)) {
        struct hearth_buf *buf = take_plain(arena, size, false, &generation);
        if (hearth__likely(buf != NULL)) {
            *out = buf;
            return HEARTH_OK;
        }
    }
    const struct hearth_request request = {.size = size};
    return hearth__io_alloc_general(arena, &request, false, "hearth_io_alloc", out, &generation);
}

/* The one step that ends a holder's right: to the last of the word's values that the holder saw. */
static inline bool take_back(struct hearth_buf *buf, uint64_t *word, uint64_t next)
{
    HEARTH__PERTURB("word.release");
#if defined(HEARTH_BROKEN_DECREMENT_RELAXED)
    return hearth__cas_weak_relaxed(&buf->state, word, next);
#elif defined(HEARTH_BROKEN_RELEASE_NO_CAS)
    (void)word;
    hearth__store_release(&buf->state, next);
    return true;
#else
    /* EDGE word.release, publish: this holder's use of the payload. */
    /* EDGE word.release, observe: for the last one, that of all who released before. */
    return hearth__cas_weak_acq_rel(&buf->state, word, next);
#endif
}

/* What became of a return by the plain path. */
enum kept {
    REFUSED,  /* nothing: the general path has to look */
    RETURNED, /* taken back, but to be kept by the general path */
    KEPT,
};

/* Take a slot back inside the plain section, and keep it if that is simple. Its fields are read after it was
 * taken back: before, a wrong call of another thread might still change them. */
static inline __attribute__((always_inline)) enum kept keep_plain(struct hearth_io *arena,
                                                                  struct hearth__io_cache *cache,
                                                                  struct hearth_buf *buf,
                                                                  uint64_t word, bool leased)
{
    uint64_t generation = hearth__word_generation(word);
    if (hearth__unlikely(generation == HEARTH__GENERATION_MAX ||
                         !take_back(buf, &word, hearth__word(generation + 1, HEARTH__RETURNING))))
        return REFUSED;
    hearth__weight weight = hearth__load_relaxed(&buf->weight);
    size_t size = hearth__load_relaxed(&buf->size);
    unsigned size_class = buf->size_class;
    if (hearth__unlikely(buf->alignment_log != HEARTH__ALIGNMENT_LOG_MIN || buf->flags != 0 ||
                         cache->credit < (int64_t)weight))
        return RETURNED;
    if (hearth__likely(size_class < HEARTH__IO_SMALL_CLASSES)) {
        struct hearth__magazine *magazine = &cache->magazines[size_class];
        if (hearth__unlikely(magazine->loaded_count >= magazine->limit))
            return RETURNED;
        hearth__store_relaxed(&buf->state, hearth__word(generation + 1, HEARTH__CACHED));
        buf->next = magazine->loaded;
        magazine->loaded = buf;
        magazine->loaded_count++;
        hearth__store_relaxed(&buf->stamp, ++cache->clock);
    } else {
        if (hearth__unlikely(!arena->plain))
            return RETURNED;
        hearth__store_relaxed(&buf->stamp, hearth__io_stamp(arena, cache));
        hearth__io_list_give(arena, buf);
    }
    cache->credit -= (int64_t)weight;
    if (leased) {
        hearth__cell_add(&cache->cells.lease_in_size, size);
        hearth__cell_add(&cache->cells.lease_in_weight, weight);
    } else {
        hearth__cell_add(&cache->cells.bare_in_size, size);
        hearth__cell_add(&cache->cells.bare_in_weight, weight);
    }
    hearth__io_lag(cache, size);
    return KEPT;
}

/* Out of line: what the general path makes of a return that the plain one began. */
static OUT_OF_LINE enum hearth_status come_home(struct hearth_io *arena, struct hearth_buf *buf,
                                                bool leased)
{
    hearth__io_come_home(arena, buf, leased);
    return HEARTH_OK;
}

/* The last reference, as far as one can see; by the plain path if that is open. */
static inline __attribute__((always_inline)) enum kept release_last(struct hearth_io *arena,
                                                                    struct hearth__io_cache *cache,
                                                                    struct hearth_lease lease,
                                                                    uint64_t word)
{
    enum kept kept = REFUSED;
    uint64_t token = hearth__thread_token_peek();
    if (hearth__unlikely(!hearth__section_enter_plain(&cache->section, token)))
        return REFUSED;
    if (hearth__likely(cache->arena == arena)) /* still; see enter_plain() */
        kept = keep_plain(arena, cache, lease.buf, word, true);
    hearth__section_leave(&cache->section, token);
    return kept;
}

HEARTH__HOT enum hearth_status hearth_lease_release(struct hearth_lease lease)
{
    struct hearth__io_cache *cache = hearth__io_thread.current;
    if (hearth__likely(cache != NULL && hearth__slot_in(lease.buf, &cache->arena->allocator))) {
        struct hearth_io *arena = cache->arena;
        uint64_t word = hearth__load_relaxed(&lease.buf->state);
        if (hearth__likely((word & BELOW_GENERATION) == LEASED_BITS &&
                           hearth__word_generation(word) == lease.generation)) {
            enum kept kept = release_last(arena, cache, lease, word);
            if (hearth__likely(kept == KEPT))
                return HEARTH_OK;
            if (kept == RETURNED)
                return come_home(arena, lease.buf, true);
        } else if (hearth__word_state(word) == HEARTH__LEASED &&
                   hearth__word_generation(word) == lease.generation &&
                   hearth__word_count(word) > 1 && take_back(lease.buf, &word, word - 1)) {
            return HEARTH_OK;
        }
    }
    return hearth__io_release(lease, "hearth_lease_release");
}

enum hearth_status hearth__io_release(struct hearth_lease lease, const char *call)
{
    struct hearth__segment *segment = hearth__io_segment_of(lease.buf);
    if (segment == NULL)
        return hearth__misuse(HEARTH_FOREIGN, call, NULL, lease.buf);
    /* Valid if the lease is: read before the count goes down, for then it may be too late. */
    struct hearth_io *arena = hearth__io_of(hearth__load_relaxed(&segment->arena));
    struct hearth_buf *buf = lease.buf;
    uint64_t word = hearth__load_relaxed(&buf->state);
    for (;;) {
        if (hearth__word_generation(word) != lease.generation ||
            hearth__word_state(word) != HEARTH__LEASED)
            return hearth__misuse(HEARTH_STALE, call, NULL, buf);
        bool last = hearth__word_count(word) == 1;
        bool more = lease.generation != HEARTH__GENERATION_MAX;
        uint64_t next = last ? hearth__word(lease.generation + more, HEARTH__RETURNING) : word - 1;
        bool done = take_back(buf, &word, next);
        if (done && last)
            hearth__io_come_home(arena, buf, true);
        if (done)
            return HEARTH_OK;
    }
}

enum hearth_status hearth__io_free_general(struct hearth_io *arena, struct hearth_buf *buf,
                                           uint64_t generation, const char *call)
{
    if (arena == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, call, buf);
    if (!hearth__slot_in(buf, &arena->allocator))
        return hearth__io_misuse(arena, HEARTH_FOREIGN, call, buf);
    uint64_t word = hearth__load_relaxed(&buf->state);
    for (;;) {
        uint64_t present = hearth__word_generation(word);
        if ((word & BELOW_GENERATION) != LIVE_BITS || (generation != 0 && generation != present)) {
            bool live = hearth__word_state(word) == HEARTH__LIVE;
            return hearth__io_misuse(arena, live ? HEARTH_STALE : hearth__buf_not_live(word), call,
                                     buf);
        }
        bool more = present != HEARTH__GENERATION_MAX;
        if (take_back(buf, &word, hearth__word(present + more, HEARTH__RETURNING)))
            break;
    }
    hearth__io_come_home(arena, buf, false);
    return HEARTH_OK;
}

HEARTH__HOT enum hearth_status hearth_io_free(struct hearth_io *arena, struct hearth_buf *buf)
{
    struct hearth__io_cache *cache;
    if (hearth__likely(arena != NULL && hearth__slot_in(buf, &arena->allocator) &&
                       (cache = enter_plain(arena)) != NULL)) {
        enum kept kept = REFUSED;
        uint64_t word = hearth__load_relaxed(&buf->state);
        if (hearth__likely((word & BELOW_GENERATION) == LIVE_BITS))
            kept = keep_plain(arena, cache, buf, word, false);
        leave_plain(cache);
        if (hearth__likely(kept == KEPT))
            return HEARTH_OK;
        if (kept == RETURNED)
            return come_home(arena, buf, false);
    }
    return hearth__io_free_general(arena, buf, 0, "hearth_io_free");
}
