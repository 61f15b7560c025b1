/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an I/O arena. The essay is in io.c. */
#ifndef HEARTH_CONCURRENT_IO_H
#define HEARTH_CONCURRENT_IO_H

#include "concurrent/budget.h"
#include "concurrent/reclaim.h"
#include "concurrent/section.h"
#include "concurrent/stack.h"
#include "concurrent/thread.h"
#include "core/ages.h"
#include "core/atomic.h"
#include "core/backing.h"
#include "core/buf.h"
#include "core/debug.h"
#include "core/meta.h"
#include "core/quarantine.h"
#include "core/release.h"
#include "core/rounding.h"
#include "core/size_class.h"
#include "core/store.h"

#include <hearth/io.h>

#include <stdalign.h>
#include <stdbool.h>

/* Classes below 64 KiB, which threads keep magazines of. */
#define HEARTH__IO_SMALL_CLASSES 35u

/* Monotone cells (weights: modulo 2^64). In a cache: one writer, the owner or a visitor. The arena's own:
 * by read-modify-write. */
struct hearth__io_cells {
    /* Handed out bare or leased, and taken back: weight, logical bytes. An export takes back the one and
     * hands out the other. */
    hearth__cell bare_out_weight, bare_out_size, bare_in_weight, bare_in_size;
    hearth__cell lease_out_weight, lease_out_size, lease_in_weight, lease_in_size;
    /* Storage obtained and given back, also by a take and for one; adopted storage counts with 0 bytes. */
    hearth__cell obtained_count, obtained_bytes, given_count, given_bytes;
    hearth__cell adopted_bytes, released_bytes; /* storage from outside, and back there */
    hearth__cell misses, evictions, bypasses, exports, refills, flushes;
};

/* Free slots of one class that one thread keeps: two chains linked by next, newest first. */
struct hearth__magazine {
    struct hearth_buf *loaded;
    struct hearth_buf *spare;
    uint16_t loaded_count;
    uint16_t spare_count;
    uint16_t limit; /* of each; 0: none are kept */
};

/* One thread's part of an arena. Type-stable: pooled, never unmapped. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth__io_cache {
    struct hearth__section section;

    /* Guarded by the section, but for `arena`, which only changes while the cache is pooled. */

    struct hearth_io *arena;
    int64_t credit;      /* what may be retained before the arena is asked; see io_credit.c */
    int64_t credit_most; /* what of it is kept when buffers are reused */
    int64_t ahead;       /* live bytes that the arena was not told of */
    int64_t ahead_most;  /* where a new peak begins, or too much was not told */
    int64_t ahead_least; /* where too much was not told */
    uint64_t clock;      /* last stamp */
    uint64_t seen;       /* of the cells, at the last pass of a service; the pass's */
    alignas(64) struct hearth__io_cells cells;
    _Atomic(uint64_t) peak;  /* largest live bytes that the owner saw in this epoch */
    _Atomic(uint32_t) epoch; /* of the arena's peak */
    struct hearth__magazine magazines[HEARTH__IO_SMALL_CLASSES];

    /* Links. */

    struct hearth__io_cache
        *next_in_arena; /* writer: the thread that made it, before it is linked */
    struct hearth__io_cache *next_in_thread; /* the owner's alone */
    uint32_t number;                         /* of the cache among all; 0: none */
    _Atomic(uint32_t) next_free;             /* number; valid while pooled */
};

/* A class's free slots: poppers look into both, pushers use `top`. See hearth__io_compact(). */
struct hearth__io_list {
    struct hearth__stack top;
    struct hearth__stack below;
};

/* Normal lists lie a cache line apart. */
#define HEARTH__IO_LIST_STRIDE ((size_t)4)
#define HEARTH__IO_ALIGNED_SETS ((size_t)(HEARTH__ALIGNMENT_LOG_MAX - HEARTH__ALIGNMENT_LOG_MIN))

static_assert((HEARTH__CLASS_COUNT + 1) * HEARTH__IO_LIST_STRIDE * sizeof(struct hearth__io_list) <=
                  HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET,
              "the lists fit a segment");
static_assert(HEARTH__IO_ALIGNED_SETS * HEARTH__CLASS_COUNT * sizeof(struct hearth__io_list) <=
                  HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET,
              "the aligned lists fit a segment");

/* The padding is the point. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth_io {
    struct hearth_allocator allocator; /* first: an arena is an allocator */

    /* Set at creation. */

    struct hearth__io_list *lists; /* by class; the one behind the last class stays empty */
    bool plain;     /* nothing but lists and cells: no limit on live bytes, no debugging */
    uint32_t debug; /* HEARTH__DEBUG_* */
    struct hearth_backing *backing;
    size_t slots_limit;
    struct hearth__rounding rounding;
    struct hearth__budget *budget;  /* `own`, or its service's */
    struct hearth_service *service; /* NULL: of no service */
    bool fixed;                     /* never obtain storage for a request */
    bool waits;                     /* requests with a deadline wait */

    /* Changed seldom. */

    _Atomic(size_t) retention_cap;
    _Atomic(int64_t) quantum; /* credit that a cache borrows at a time */
    _Atomic(uint32_t) closed;
    _Atomic(uint32_t) epoch;                    /* of the peak */
    _Atomic(uint64_t) base;                     /* live bytes when the epoch began */
    _Atomic(struct hearth__io_list *) aligned;  /* sets of lists by alignment; NULL until needed */
    _Atomic(struct hearth__io_cache *) caches;  /* pushed only, until the end */
    _Atomic(struct hearth__segment *) segments; /* newest first; the core's own is the last */

    /* Changed by everybody now and then. */

    alignas(64) _Atomic(uint64_t) clock; /* last stamp given by any return to a shared list */
    alignas(64) _Atomic(int64_t) credit; /* not lent to caches and not retained */
    _Atomic(int64_t) net;                /* live bytes since the epoch began, as far as told */
    _Atomic(uint64_t) peak;              /* largest that threads without a cache saw */
    _Atomic(uint64_t) slots_used;        /* slots with storage */
    struct hearth__stack unused;         /* slots without */
    alignas(64) _Atomic(uint64_t) references;
    _Atomic(uint64_t) outstanding; /* see io_life.c */
    _Atomic(uint32_t) evicting;    /* somebody evicts */
    _Atomic(uint32_t) inside;      /* operations inside without a cache, for readers */
    _Atomic(uint64_t) trims;
    _Atomic(uint64_t) misuses;
    _Atomic(uint64_t) lost_bytes;               /* in caches abandoned at a fork */
    alignas(64) struct hearth__io_cells shared; /* of threads without a cache */
    struct hearth__io_cells after;              /* of everybody after the close */
    struct hearth__budget own;                  /* for an arena of no service */
    struct hearth__ages ages;                   /* by time and by runs; the pass's of its service */
    struct hearth__ages run_ages;
    uint64_t flushed_ms;          /* when threads at work were asked to empty their magazines */
    size_t sweep_at;              /* where the next sweep goes on: list, */
    uint32_t sweep_slot;          /* and slot; 0: at its top */
    uint64_t seen;                /* of the cells of threads without a cache */
    _Atomic(uint64_t) seen_clock; /* at the last look; whoever flushes reads it */
    uint64_t seen_tick;           /* at the look before */
    bool seen_at_work;            /* between the two */
    _Atomic(uint32_t) detaining;  /* somebody has the quarantine */
    struct hearth__quarantine quarantine; /* debugging only */
    struct hearth__retired retired;
};

static_assert(sizeof(struct hearth_io) <= HEARTH__CORE_BYTES - HEARTH__CORE_OFFSET,
              "a core fits the start of its segment");

/* Before the close is completed `outstanding` stands at this, minus what came home since it began. */
#ifdef HEARTH_BROKEN_IO_UNBIASED
#define HEARTH__IO_BIAS ((uint64_t)1)
#else
#define HEARTH__IO_BIAS ((uint64_t)1 << 62)
#endif

/* What an operation holds while it is inside: its thread's section, or an RCU read section. */
struct hearth__io_access {
    struct hearth_io *arena;
    struct hearth__io_cache *cache; /* NULL: without */
    struct hearth__io_cells *cells; /* without: the ones to count in */
    bool closed;                    /* the arena was closed when the section began */
    bool reuse_only;                /* no storage is obtained */
    bool filling;                   /* a prefill: storage is obtained whatever the policy */
    bool prepaid;                   /* room for the request was reserved before */
    bool backing_refused;           /* out: why there was NO_MEMORY */
    uint32_t priority;              /* of the request */
};

static inline struct hearth_io *hearth__io_of(const struct hearth_allocator *allocator)
{
    return (struct hearth_io *)(uintptr_t)allocator;
}

/* Count in the cells of the section. */
#define HEARTH__IO_COUNT(access, name, amount)                                                     \
    do {                                                                                           \
        if ((access)->cache != NULL)                                                               \
            hearth__cell_add(&(access)->cache->cells.name, (amount));                              \
        else                                                                                       \
            (void)hearth__fetch_add_release(&(access)->cells->name, (amount));                     \
    } while (0)

/* Enter by the general path, with the calling thread's cache if it can be had, made if needed. */
void hearth__io_enter(struct hearth_io *arena, struct hearth__io_access *access);
/* After the section was left in mid-operation. */
void hearth__io_enter_again(struct hearth__io_access *access);
void hearth__io_leave(struct hearth__io_access *access);

enum hearth_status hearth__io_misuse(struct hearth_io *arena, enum hearth_status status,
                                     const char *call, const void *slot);

/* A thread's caches: io_cache.c. */

struct hearth__io_thread {
    struct hearth__io_cache *current; /* the one used last; may be another thread's by now */
    struct hearth__io_cache *list;
    bool exiting;   /* or busy with its list: goes without a cache */
    bool giving_up; /* inside a section of a cache that is not on the list any more */
};

extern _Thread_local struct hearth__io_thread hearth__io_thread
    __attribute__((tls_model("initial-exec")));

/* The calling thread's cache of this arena, made if needed; NULL when it has to go without. */
struct hearth__io_cache *hearth__io_cache_find(struct hearth_io *arena);

/* A cache that nobody has and that serves no arena any more. */
void hearth__io_cache_pool(struct hearth__io_cache *cache);

/* Inside: a class's spare chain to the shared list. */
void hearth__io_magazine_flush(struct hearth_io *arena, struct hearth__io_cache *cache,
                               unsigned size_class);

/* Inside, or while visiting: all magazines of a cache. Returns the slots that moved. */
size_t hearth__io_cache_flush(struct hearth_io *arena, struct hearth__io_cache *cache);

/* What a pass over all caches found. */
struct hearth__io_pass {
    size_t visited;
    size_t busy;
};

/* Outside of any section: visit all idle caches, empty their magazines and take their credit back; ask the
 * others to do it themselves. */
struct hearth__io_pass hearth__io_visit_all(struct hearth_io *arena);

/* The same for caches that served no operation since the last call; the others count as busy and are left
 * alone. One caller at a time. */
struct hearth__io_pass hearth__io_visit_idle(struct hearth_io *arena);

/* Whether threads without a cache worked since the last call. One caller at a time. */
bool hearth__io_shared_moved(struct hearth_io *arena);

/* Raise reasons for attention in all caches. */
void hearth__io_alert(struct hearth_io *arena, uint32_t attention);

/* Whether the calling thread was interrupted inside a section by the signal handler that asks. */
bool hearth__io_thread_inside(void);

/* For the one who completes a close: what all caches hold goes to the lists. */
void hearth__io_caches_empty(struct hearth_io *arena);

/* Give up all caches of an arena that ends. */
void hearth__io_caches_end(struct hearth_io *arena);

/* Shared lists: io_list.c. */

static inline struct hearth__io_list *hearth__io_list_normal(const struct hearth_io *arena,
                                                             unsigned size_class)
{
    return &arena->lists[(size_t)size_class * HEARTH__IO_LIST_STRIDE];
}

/* NULL while there are no lists for larger alignments. */
struct hearth__io_list *hearth__io_list_of(struct hearth_io *arena, unsigned size_class,
                                           unsigned alignment_log);

static inline bool hearth__io_heads_empty(uint64_t top, uint64_t below)
{
    return hearth__stack_top(top) == 0 && hearth__stack_top(below) == 0;
}

/* At a glance: not to be relied on. */
static inline bool hearth__io_list_empty(const struct hearth__io_list *list)
{
    return hearth__io_heads_empty(hearth__load_relaxed(&list->top.head),
                                  hearth__load_relaxed(&list->below.head));
}

/* A slot was popped that somebody evicted: the second half of that. */
void hearth__io_unlinked(struct hearth_io *arena, struct hearth_buf *buf);

/* Inside: pop a slot and set its state, keeping its generation; NULL when the list is empty. */
struct hearth_buf *hearth__io_list_take(struct hearth_io *arena, struct hearth__io_list *list,
                                        uint64_t state_and_count);

/* Inside: fill an empty magazine from the shared list. False when nothing was there. */
bool hearth__io_magazine_refill(struct hearth_io *arena, struct hearth__magazine *magazine,
                                unsigned size_class);

/* Inside: a slot that nobody else holds becomes free; its stamp is set. */
void hearth__io_list_give(struct hearth_io *arena, struct hearth_buf *buf);

/* Inside: the next stamp of the arena's clock, later than all stamps given before. */
uint64_t hearth__io_stamp(struct hearth_io *arena, struct hearth__io_cache *cache);

/* Inside: whether every list that may serve `want` was empty at one moment. */
bool hearth__io_lists_empty(struct hearth_io *arena, const struct hearth__want *want);

/* Eviction: io_evict.c. */

/* Inside, left meanwhile: evict the least recently freed of the shared lists until `bytes` were given back,
 * nothing is left, or the clock passes `deadline` (0: never). Returns bytes; 0 also when another thread is evicting. */
size_t hearth__io_evict(struct hearth__io_access *access, size_t bytes, bool for_cap,
                        uint64_t deadline);

/* The same for what is stamped below `before`. */
size_t hearth__io_evict_old(struct hearth__io_access *access, size_t bytes, uint64_t before,
                            uint64_t deadline);

/* Inside: claim a slot that was seen free with this word, and take its storage off. False when somebody was
 * faster. */
bool hearth__io_claim(struct hearth__io_access *access, struct hearth_buf *buf, uint64_t word,
                      struct hearth_segment *segment);

/* Inside, left meanwhile: drop tombstones where there are too many of them. */
void hearth__io_tidy(struct hearth__io_access *access, struct hearth__io_list *list, size_t free,
                     size_t tombstones);

/* What to give back by age; see io_age.c. */
struct hearth__io_sweep {
    uint64_t before; /* what is stamped below */
    size_t goal;     /* bytes; it stops when there are as many */
    size_t most;     /* bytes at most; 0: no bound */
    uint64_t deadline;
    struct hearth__releases *releases;
    bool more; /* out: the releases are full, or the deadline passed */
};

/* Inside: move old storage of the shared lists to the releases. Returns bytes. */
size_t hearth__io_sweep(struct hearth__io_access *access, struct hearth__io_sweep *sweep);

/* Inside, left meanwhile: evict until the cap is kept; if another thread is evicting, it will. */
void hearth__io_evict_excess(struct hearth__io_access *access);

/* Inside, left meanwhile: give back what the shared lists hold, at most `bytes`, until the clock passes
 * `deadline` (0: never). Largest first. */
size_t hearth__io_drain_lists(struct hearth__io_access *access, size_t bytes, uint64_t deadline);

/* Storage and slots: io_storage.c. */

/* Outside or inside: a slot without storage, for whoever comes. Its state is set. */
void hearth__io_slot_put(struct hearth_io *arena, struct hearth_buf *slot);

/* Inside, left meanwhile: a slot without storage, RETURNING; counted as used. */
enum hearth_status hearth__io_slot_take(struct hearth__io_access *access, struct hearth_buf **slot);

/* As above; a retained buffer gives up its slot when there is no other. */
enum hearth_status hearth__io_slot_force(struct hearth__io_access *access,
                                         struct hearth_buf **slot);

/* The count of used slots goes down by one. */
void hearth__io_slot_unuse(struct hearth_io *arena);

/* Make fresh slots of a segment findable. */
bool hearth__io_slots_add(struct hearth_io *arena, struct hearth__segment *segment);

/* Inside, left meanwhile: a slot of the caller's alone gives its storage back. `pool`: it becomes unused
 * for others, else it stays the caller's. */
void hearth__io_empty(struct hearth__io_access *access, struct hearth_buf *buf, bool pool);

/* Inside, left meanwhile: the lists for larger alignments. OK or NO_MEMORY. */
enum hearth_status hearth__io_prepare_aligned(struct hearth__io_access *access);

/* Inside, left meanwhile: storage for an empty slot. */
enum hearth_status hearth__io_fill(struct hearth__io_access *access,
                                   const struct hearth__want *want, struct hearth_buf *slot);

/* Inside: a free slot of one class, of the thread's magazine or the shared list, in the given state; NULL: there is
 * none. It still has its credit. */
struct hearth_buf *hearth__io_take_class(struct hearth__io_access *access, unsigned size_class,
                                         unsigned alignment_log, uint64_t state_and_count);

/* Inside, left meanwhile: a slot with sufficient storage in the given state, by reuse or from the backing. */
enum hearth_status hearth__io_obtain(struct hearth__io_access *access,
                                     const struct hearth__want *want, uint64_t state_and_count,
                                     struct hearth_buf **buf);

/* Inside, left meanwhile: keep a slot, RETURNING and the caller's alone, or give its storage back. */
void hearth__io_keep(struct hearth__io_access *access, struct hearth_buf *buf);

/* Quarantine: io_debug.c. Both inside, left meanwhile to tell of buffers that were written. */

/* A slot, RETURNING and the caller's alone, whose credit was taken. False when the quarantine cannot be had. */
bool hearth__io_detain(struct hearth__io_access *access, struct hearth_buf *buf);

/* All that is in quarantine goes to the lists. */
void hearth__io_let_go(struct hearth__io_access *access);

/* In a forked child: give up a quarantine that somebody who is not here was at work on. */
void hearth__io_quarantine_after_fork(struct hearth_io *arena);

/* Credit, peak and limits: io_credit.c. */

void hearth__io_credit_init(struct hearth_io *arena, size_t cap);
void hearth__io_credit_change(struct hearth_io *arena, size_t from, size_t to);
/* The ceiling of the service changed. */
void hearth__io_credit_ceiling(struct hearth_io *arena);

/* Inside: the plain cases failed. */
bool hearth__io_credit_borrow(struct hearth__io_access *access, hearth__weight weight);
void hearth__io_credit_repay(struct hearth__io_cache *cache);
void hearth__io_lead_slow(struct hearth__io_cache *cache, size_t size);

/* Credit goes back to the arena, and to the budget of its service. */
static inline void hearth__io_credit_return(struct hearth_io *arena, int64_t amount)
{
    (void)hearth__fetch_add_relaxed(&arena->credit, amount);
    if (arena->service != NULL)
        hearth__budget_refund(arena->budget, amount);
}

static inline hearth__weight hearth__io_credit_of(const struct hearth_buf *buf)
{
    return hearth__load_relaxed(&buf->weight);
}

/* Inside: a slot stops being retained. */
static inline void hearth__io_credit_give(struct hearth__io_access *access, hearth__weight weight)
{
    if (access->cache == NULL) {
        hearth__io_credit_return(access->arena, (int64_t)weight);
        return;
    }
    access->cache->credit += (int64_t)weight;
    if (hearth__unlikely(access->cache->credit > access->cache->credit_most))
        hearth__io_credit_repay(access->cache);
}

/* Inside: a slot is to be retained. False when the cap does not allow it. */
static inline bool hearth__io_credit_take(struct hearth__io_access *access, hearth__weight weight)
{
    if (access->cache != NULL && access->cache->credit >= (int64_t)weight) {
        access->cache->credit -= (int64_t)weight;
        return true;
    }
    return hearth__io_credit_borrow(access, weight);
}

static inline void hearth__io_lead(struct hearth__io_cache *cache, size_t size)
{
    cache->ahead += (int64_t)size;
    if (hearth__unlikely(cache->ahead > cache->ahead_most))
        hearth__io_lead_slow(cache, size);
}

static inline void hearth__io_lag(struct hearth__io_cache *cache, size_t size)
{
    cache->ahead -= (int64_t)size;
    if (hearth__unlikely(cache->ahead < cache->ahead_least))
        hearth__io_lead_slow(cache, size);
}

/* Inside: count live bytes, with or without a cache. */
void hearth__io_count_up(struct hearth__io_access *access, size_t size);
void hearth__io_count_down(struct hearth__io_access *access, size_t size);

/* Reserve capacity of the limit on live bytes. False when it would be passed. */
static inline bool hearth__io_room_take(struct hearth__io_access *access, size_t capacity)
{
    return hearth__budget_room_take(access->arena->budget, capacity, access->priority);
}

/* Some more, for a request that has its room: it may not be passed any more. */
static inline bool hearth__io_room_more(struct hearth__io_access *access, size_t capacity)
{
    return capacity == 0 || hearth__budget_room_take(access->arena->budget, capacity,
                                                     access->priority & ~HEARTH__ROOM_MAY_WAIT);
}

/* Room that was taken for nothing. */
static inline void hearth__io_room_undo(struct hearth_io *arena, size_t capacity)
{
    hearth__budget_room_undo(arena->budget, capacity);
}

static inline void hearth__io_room_give(struct hearth_io *arena, size_t capacity)
{
    hearth__budget_room_give(arena->budget, capacity);
}

/* The service: io_life.c. */

struct hearth__io_host {
    struct hearth_service *service;
    struct hearth__budget *budget;
    uint32_t exhaustion; /* enum hearth_exhaustion */
};

/* `host` NULL: an arena of no service. */
enum hearth_status hearth__io_make(const struct hearth_io_options *options, uint32_t debug,
                                   const struct hearth__io_host *host, struct hearth_io **arena);

/* False if it was closed before. */
bool hearth__io_close(struct hearth_io *arena);

/* Returns: io.c. */

/* Outside: a slot that was taken back: its word is RETURNING and of its next generation. */
void hearth__io_come_home(struct hearth_io *arena, struct hearth_buf *buf, bool leased);

/* The last touch of a returner after the close. */
void hearth__io_came_home(struct hearth_io *arena);

enum hearth_status hearth__io_release(struct hearth_lease lease, const char *call);

/* `generation` 0: whatever it is now. */
enum hearth_status hearth__io_free_general(struct hearth_io *arena, struct hearth_buf *buf,
                                           uint64_t generation, const char *call);

enum hearth_status hearth__io_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                     size_t size, bool keep);

/* Outside: an allocation by the general path. */
enum hearth_status hearth__io_alloc_general(struct hearth_io *arena,
                                            const struct hearth_request *request, bool lease,
                                            const char *call, struct hearth_buf **out,
                                            uint64_t *generation);

/* PREPAID: the caller has reserved room for the request, as rounded, and keeps it on failure. POLITE: it will wait
 * when it is refused, and so stays behind those who wait longest. */
#define HEARTH__IO_PREPAID 1u
#define HEARTH__IO_POLITE 2u
enum hearth_status hearth__io_alloc_paid(struct hearth_io *arena,
                                         const struct hearth_request *request, bool lease,
                                         uint32_t how, const char *call, struct hearth_buf **out,
                                         uint64_t *generation);

/* The segment of a slot of any I/O arena, or NULL. */
static inline struct hearth__segment *hearth__io_segment_of(const struct hearth_buf *buf)
{
    struct hearth__segment *segment = hearth__segment_of(buf);
    return segment != NULL && (segment->kind == HEARTH__SEGMENT_IO ||
                               segment->kind == HEARTH__SEGMENT_IO_SLOTS)
               ? segment
               : NULL;
}

/* Readings: io_read.c. */

/* Sums over all threads: each "in" was read before the "out" that it belongs to. */
struct hearth__io_reading {
    uint64_t bare_out_weight, bare_out_size, bare_in_weight, bare_in_size;
    uint64_t lease_out_weight, lease_out_size, lease_in_weight, lease_in_size;
    uint64_t obtained_count, obtained_bytes, given_count, given_bytes;
    uint64_t adopted_bytes, released_bytes;
    uint64_t misses, evictions, bypasses, exports, refills, flushes;
};

void hearth__io_read(const struct hearth_io *arena, struct hearth__io_reading *now);
bool hearth__io_reading_equal(const struct hearth__io_reading *a,
                              const struct hearth__io_reading *b);
uint64_t hearth__io_live_count(const struct hearth__io_reading *now);
uint64_t hearth__io_owned_count(const struct hearth__io_reading *now);
uint64_t hearth__io_leased_count(const struct hearth__io_reading *now);
uint64_t hearth__io_live_bytes(const struct hearth__io_reading *now);
uint64_t hearth__io_leased_bytes(const struct hearth__io_reading *now);
uint64_t hearth__io_live_capacity(const struct hearth__io_reading *now);
uint64_t hearth__io_leased_capacity(const struct hearth__io_reading *now);
uint64_t hearth__io_retained_count(const struct hearth__io_reading *now);
uint64_t hearth__io_retained_bytes(const struct hearth__io_reading *now);
uint64_t hearth__io_footprint(const struct hearth__io_reading *now);

/* Walk all that is free and compare with the cells; the first violated rule as text, or NULL. Nobody may
 * use the arena meanwhile. */
const char *hearth__io_check(struct hearth_io *arena);

/* Whether anybody is inside a section of this arena right now. */
bool hearth__io_busy(const struct hearth_io *arena);

extern const struct hearth_allocator_ops hearth__io_ops;

#endif
