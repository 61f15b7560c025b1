/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of an execution arena. The essay is in exec.c. */
#ifndef HEARTH_CONCURRENT_EXEC_H
#define HEARTH_CONCURRENT_EXEC_H

#include "concurrent/budget.h"
#include "concurrent/inbox.h"
#include "concurrent/section.h"
#include "concurrent/thread.h"
#include "core/ages.h"
#include "core/atomic.h"
#include "core/backing.h"
#include "core/bins.h"
#include "core/book.h"
#include "core/buf.h"
#include "core/debug.h"
#include "core/meta.h"
#include "core/quarantine.h"
#include "core/release.h"
#include "core/rounding.h"
#include "core/size_class.h"
#include "core/slots.h"
#include "core/spans.h"
#include "core/store.h"

#include <hearth/exec.h>

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

/* Monotone cells (weights: modulo 2^64). Writer: the owner, or whoever destroys. Readers: any. */
struct hearth__exec_cells {
    /* Handed out and taken back: weight (count and capacity), logical bytes. A resize counts as taking
     * back the difference, or handing it out. */
    hearth__cell out_weight, out_size;
    hearth__cell in_weight, in_size;
    /* Storage given to the store or past it: returns and moves. Also the clock that stamps slots. */
    hearth__cell gives;
    hearth__cell
        moves; /* gives that were no return: a resize's old storage, or for a taken buffer's */
    /* Storage obtained from the backing, or for a taken buffer's, and given back: segments, bytes. */
    hearth__cell obtained_count, obtained_bytes;
    hearth__cell given_count, given_bytes;
    /* Pieces that storage was cut into beyond one each, and that merged again. */
    hearth__cell cuts, merges;
    hearth__cell remote_frees, misses, evictions, bypasses, trims;
    /* Of obtained_count and given_count: what was no call of the backing. */
    hearth__cell pieces_in, pieces_out;
    hearth__cell passed_on; /* of given_bytes: what went to the service with a book; modulo 2^64 */
    hearth__cell runs, planned_runs, plan_hits, plan_misses, plan_blocked;
    hearth__cell purged_bytes, rearrangements;
    /* Not monotone: the most bytes handed out and not taken back since the reset. */
    hearth__cell peak;
    /* The owner's alone: in_size plus the peak, which is the out_size at which the next peak begins, so
     * that handing out needs one compare. */
    hearth__cell peak_at;
    /* Of the book used last; not monotone. */
    hearth__cell plans_made, plans, slab_bytes, plan_bytes, plan_bound;
};

/* What serves the requests of the present run, in an arena with plans. */
enum hearth__run_mode {
    HEARTH__RUN_NONE,   /* no run */
    HEARTH__RUN_LISTS,  /* the lists */
    HEARTH__RUN_RECORD, /* the lists, and what they do is recorded */
    HEARTH__RUN_PLAN,   /* a plan, and the lists where it does not hold */
};

/* The run of an arena with plans: exec_plan.c. */
struct hearth__exec_run {
    struct hearth__plan_run step; /* serves nothing but in HEARTH__RUN_PLAN */
    struct hearth__book *book;    /* NULL: none at present */
    struct hearth__plan *plan;    /* that is followed, or NULL */
    uintptr_t slots_at;           /* the book's last segment of slots, while a plan is followed */
    uintptr_t slot_count;         /* in it; else 0 */
    uint8_t mode;                 /* enum hearth__run_mode */
    bool lost_places;             /* in a forked child: of a book that is not there any more */
    bool to_end;                  /* it is to end as soon as nothing is live, whoever began it */
    bool changed;                 /* from one plan to another */
    bool stopped; /* the plan is not followed any more; what follows is as of then */
    uint32_t requests;
    uint64_t bytes;
    bool in_step;    /* all requests so far were as planned */
    bool asked;      /* begun by the user, who says when it ends */
    bool ending;     /* the owner is ending it, outside of the section */
    bool requesting; /* the operation is a request: nothing is planned in it */
    uint32_t home;   /* of the book used last */
    uint32_t number; /* of a run that is recorded */
    uint64_t key;
    hearth__weight out_weight; /* handed out when it began */
    uint64_t out_size;
    uint32_t clean;                      /* runs in a row without a request that the lists served */
    uint32_t unplanned, misses, blocked; /* served by the lists; of these: unlike the plan */
    uint64_t missed_bytes;
};

/* The padding is the point: lines of their own. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct hearth_exec {
    struct hearth_allocator allocator; /* first: an arena is an allocator */
    struct hearth__section section;
    /* A thread's token or HEARTH__OWNER_*. Writer: the owner, a claimant by CAS. */
    _Atomic(uint64_t) owner;

    /* Guarded by the section. */

    struct hearth__bins bins;
    struct hearth__store *store; /* &bins.store; stores of other kinds come in front of it */
    struct hearth__slots slots;
    struct hearth__spans *spans; /* large blocks; NULL until needed, or for good */
    size_t span_pieces;          /* of them, as they are counted */
    hearth__weight span_stored;  /* the free ones, as they are in `stored`: with their warm bytes */
    struct hearth_buf *front; /* returned last, its span not in the store yet: exec_spans_plain.c */
    hearth__weight held;      /* storage obtained and not given back */
    /* Returns of slots with this alignment need no more than the plain path: default alignment, or
     * none while a cap or debugging asks for more. */
    uint8_t plain_alignment_log;
    /* Operations begun by the general path and not ended: more than one when a callback or a signal
     * handler calls in the middle of one. Not cleared while the section is left for a backing call, and
     * keeps visitors out. Writer: the owner. */
    _Atomic(uint32_t) running;
    /* The operation that is inside found a visitor at work: it leaves store, slots and held alone. */
    bool visited;
    /* For the owner while it is visited; see exec_visit.c. */
    struct hearth__slots spare;
    hearth__weight spare_held; /* modulo 2^64, to be added to held */
    size_t made_seen;          /* slots.made as of the last operation that was not visited */
    struct hearth__exec_cells cells;
    bool filling;   /* a prefill is inside: storage is obtained whatever `fixed` says */
    bool metering;  /* `stored` and `charge` are kept */
    int64_t stored; /* weight in the store; right while metering: plain paths do not count it */
    int64_t charge; /* weight charged to the budget: at least `stored` between operations */
    int64_t room_wanted;          /* weight that found no credit during this operation */
    struct hearth__exec_run run;  /* with plans */
    struct hearth__ages run_ages; /* by the owner's runs */
    uint64_t runs;

    /* Set at creation. */

    struct hearth_backing *backing;
    uint32_t debug; /* HEARTH__DEBUG_* */
    bool fixed;     /* never obtain storage for a request */
    bool with_plans;
    bool with_spans;    /* for large blocks */
    uint64_t gate_mark; /* HEARTH__GATE_OTHER if the store is not the lists alone, else 0 */
    struct hearth__rounding rounding;
    struct hearth__budget *budget;  /* of its service; NULL: of no service */
    struct hearth_service *service; /* NULL: of no service */

    /* Guarded by the section; debugging only. */

    struct hearth__quarantine quarantine;
    struct hearth__overwritten overwritten; /* not told yet */

    /* Read by any thread. */

    _Atomic(size_t) retention_cap; /* writer: the owner */
    /* Chain taken from the inbox and not settled. Writer: the owner. */
    _Atomic(struct hearth_buf *) backlog;

    /* In a service: see service_thread.c. */

    struct hearth_exec *next_in_service; /* writer: the thread that made it, before it is linked */
    struct hearth_exec *next_in_thread;  /* the owner's alone */
    uint32_t orphans;         /* in a forked child: owners that are not there, and their holds */
    bool orphaned_at_end;     /* and the service was gone */
    _Atomic(uint8_t) level;   /* depth of the work it serves, or served last. Writer: the owner */
    struct hearth__ages ages; /* by time; the pass's, as what follows */
    uint64_t seen_gives;      /* at the last look */
    uint64_t seen_out;
    uint64_t seen_tick;             /* gives at the look before */
    bool seen_at_work;              /* between the two */
    _Atomic(uint64_t) asked_before; /* what is stamped below is asked for. Writer: the pass */

    /* Written by other threads: a line of its own, so that returns do not disturb the owner's. */
    alignas(64) struct hearth__inbox inbox;
    /* Buffers still out after a detach, biased until the detacher has counted: see exec_life.c. */
    _Atomic(uint64_t) outstanding;
    /* Of a service: its storage is not all home, its owner has it on a list, its service in the registry. */
    _Atomic(uint32_t) holds;
    _Atomic(uint64_t) misuses;
    _Atomic(hearth__weight) lost; /* in a forked child: with threads that are not there */
    /* Of what is retained: not resident, in free spans. Writer: the owner, a visitor. */
    _Atomic(size_t) cold_bytes;
};

static_assert(sizeof(struct hearth_exec) <= HEARTH__CORE_BYTES - HEARTH__CORE_OFFSET,
              "a core fits the start of its segment");

/* What an operation leaves to be done outside of the section. */
struct hearth__exec_after {
    struct hearth_buf *chain;  /* slots whose storage goes back to the backing, linked by next */
    struct hearth_buf *strays; /* claimed slots of other arenas, linked by inbox_next */
    size_t stale;              /* misuses to report */
    size_t room;    /* of the limit on live bytes, to be given once the storage is in its place */
    size_t *untold; /* where stale returns are counted, to be told later; NULL: told at once */
    bool visiting;  /* a visitor's: nothing is evicted to make room for what comes in */
};

#define HEARTH__EXEC_AFTER_INIT                                                                    \
    {                                                                                              \
        NULL, NULL, 0, 0, NULL, false                                                              \
    }

static inline void hearth__exec_chain_push(struct hearth__exec_after *after, struct hearth_buf *buf)
{
    buf->next = after->chain;
    after->chain = buf;
}

/* Whether the service was closed: what comes back is not kept, and nothing is handed out. */
static inline bool hearth__exec_closed(const struct hearth_exec *arena)
{
    return (hearth__load_relaxed(&arena->section.attention) & HEARTH__ATTENTION_CLOSED) != 0;
}

static inline struct hearth_exec *hearth__exec_of(struct hearth_allocator *allocator)
{
    return (struct hearth_exec *)(void *)allocator;
}

/* The owner: count `size` more logical bytes as handed out. */
static inline void hearth__exec_count_out(struct hearth__exec_cells *cells, size_t size)
{
    uint64_t out_size = hearth__load_relaxed(&cells->out_size) + size;
    hearth__store_release(&cells->out_size, out_size);
    uint64_t peak_at = hearth__load_relaxed(&cells->peak_at);
    if (hearth__unlikely(out_size > peak_at)) {
        hearth__cell_add(&cells->peak, out_size - peak_at);
        hearth__store_relaxed(&cells->peak_at, out_size);
    }
}

static inline void hearth__exec_count_out_buf(struct hearth__exec_cells *cells,
                                              const struct hearth_buf *buf, size_t size)
{
    hearth__cell_add(&cells->out_weight, hearth__load_relaxed(&buf->weight));
    hearth__exec_count_out(cells, size);
}

/* The owner: count `size` logical bytes as taken back. */
static inline void hearth__exec_count_in(struct hearth__exec_cells *cells, size_t size)
{
    hearth__cell_add(&cells->in_size, size);
    hearth__cell_add(&cells->peak_at, size);
}

/* The owner, beside a visitor who takes returns in: the same, by read-modify-write. The peak is found from what
 * is out at that moment. */
static inline void hearth__exec_count_in_shared(struct hearth__exec_cells *cells, size_t size)
{
    (void)hearth__fetch_add_release(&cells->in_size, size);
    (void)hearth__fetch_add_release(&cells->peak_at, size);
}

static inline void hearth__exec_count_out_shared(struct hearth__exec_cells *cells, size_t size)
{
    uint64_t in_size = hearth__load_acquire(&cells->in_size);
    uint64_t out_size = hearth__load_relaxed(&cells->out_size) + size;
    hearth__store_release(&cells->out_size, out_size);
    uint64_t peak = hearth__load_relaxed(&cells->peak);
    if (out_size - in_size > peak) {
        (void)hearth__fetch_add_release(&cells->peak_at, out_size - in_size - peak);
        hearth__store_release(&cells->peak, out_size - in_size);
    }
}

/* One writer, or, `shared`, two. */
static inline void hearth__exec_cell_add(hearth__cell *cell, uint64_t amount, bool shared)
{
    if (shared)
        (void)hearth__fetch_add_release(cell, amount);
    else
        hearth__cell_add(cell, amount);
}

/* Before a live slot is taken back, by whoever does: nothing of what it held is left, if that was asked for. */
static inline void hearth__exec_scrub(const struct hearth_exec *arena, const struct hearth_buf *buf)
{
    if (hearth__unlikely((arena->debug & HEARTH__DEBUG_SCRUB) != 0))
        memset(hearth__load_relaxed(&buf->data), 0, hearth__load_relaxed(&buf->size));
}

/* What the gate shows while this owner is outside. */
static inline uint64_t hearth__exec_gate(const struct hearth_exec *arena, uint64_t owner)
{
    return owner | arena->gate_mark;
}

/* Leave the section, perhaps for the time of a backing call. What was not taken in keeps asking for
 * attention. */
static inline void hearth__exec_leave(struct hearth_exec *arena)
{
    if (hearth__load_relaxed(&arena->backlog) != NULL || hearth__inbox_waiting(&arena->inbox))
        (void)hearth__fetch_or_release(&arena->section.attention, HEARTH__ATTENTION_INBOX);
    hearth__section_leave(&arena->section,
                          hearth__exec_gate(arena, hearth__load_relaxed(&arena->owner)));
}

/* Count and report a misuse of this arena. Outside of the section. */
enum hearth_status hearth__exec_misuse(struct hearth_exec *arena, enum hearth_status status,
                                       const char *call, const void *slot);

/* Answer a call from a signal handler while the interrupted operation is inside: counted, but not told,
 * as it is not the place to run users' code. */
enum hearth_status hearth__exec_busy(struct hearth_exec *arena);

/* Begin an operation by the general path: as the owner, claiming an arena without one, and inside the
 * section. INVALID for NULL, NOT_OWNER or BUSY, reported. */
enum hearth_status hearth__exec_begin(struct hearth_exec *arena, const char *call);

/* Queued returns settled at a time: bounds the work that other threads can put on one allocation. */
#define HEARTH__EXEC_DRAIN_STEP 16u

/* An allocation by the general path. */
enum hearth_status hearth__exec_alloc_general(struct hearth_exec *arena, size_t size,
                                              unsigned alignment_log, uint32_t zero,
                                              const char *call, struct hearth_buf **out);
enum hearth_status hearth__exec_alloc_request(struct hearth_exec *arena,
                                              const struct hearth_request *request,
                                              const char *call, struct hearth_buf **buf);

/* As begin, but not beside a visitor: after a moment, for a visit is short. BUSY after far more than that. */
enum hearth_status hearth__exec_begin_alone(struct hearth_exec *arena, const char *call);

/* End it: leave the section and do what is left to be done. */
void hearth__exec_end(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside the section: find or make a slot with sufficient storage, off the store and not live. The
 * section is left around backing calls. */
enum hearth_status hearth__exec_obtain(struct hearth_exec *arena, const struct hearth__want *want,
                                       struct hearth_buf **buf);

/* Inside the section, left meanwhile: new storage into a slot that has none. Before NO_MEMORY, what the
 * arena retains is given back and the backing asked again. */
enum hearth_status hearth__exec_fill(struct hearth_exec *arena, const struct hearth__want *want,
                                     struct hearth_buf *slot);

/* Inside the section, left meanwhile: the lists for larger alignments. OK or NO_MEMORY. */
enum hearth_status hearth__exec_prepare_aligned(struct hearth_exec *arena);

/* Inside the section, left meanwhile: a slot's storage back to the backing. */
void hearth__exec_empty(struct hearth_exec *arena, struct hearth_buf *slot);

/* Inside the section: make an obtained slot live. */
void hearth__exec_hand_out(struct hearth_exec *arena, struct hearth_buf *buf, size_t size);

/* Inside the section or visiting: move a live slot to its next generation and take it off the live figures;
 * the slot is then off all lists. False when the slot's generations are used up: it must be retired.
 * `shared`: owner and visitor may both be counting. */
bool hearth__exec_take_back(struct hearth_exec *arena, struct hearth_buf *buf, bool shared);

/* Inside the section: keep the slot's storage, or put it and what it displaces on the chain. */
void hearth__exec_keep(struct hearth_exec *arena, struct hearth_buf *buf,
                       struct hearth__exec_after *after);

/* Inside the section: give back what was stamped below `before`, at most so many slots. Returns slots. */
size_t hearth__exec_evict_old(struct hearth_exec *arena, uint64_t before, size_t most,
                              struct hearth__exec_after *after);
/* Inside the section: into quarantine, and out of it what does not fit any more. Not while visited. */
void hearth__exec_detain(struct hearth_exec *arena, struct hearth_buf *buf);

/* Inside the section: the oldest in quarantine goes to the store. False when there is none. */
bool hearth__exec_let_go(struct hearth_exec *arena);

/* Outside the section: tell of a buffer that was written while it was in quarantine. */
void hearth__exec_tell_overwritten(struct hearth_exec *arena,
                                   const struct hearth__overwritten *overwritten);

/* Inside the section: what is left to be told of, once. */
struct hearth__overwritten hearth__exec_overwritten(struct hearth_exec *arena);

/* Inside the section: evict until at most `limit` bytes are retained. */
void hearth__exec_evict_to(struct hearth_exec *arena, size_t limit,
                           struct hearth__exec_after *after);

/* Outside the section: give a chain's storage back and make its slots unused. */
void hearth__exec_release_chain(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside the section: settle at most `most` queued returns. True if any slot came home. */
bool hearth__exec_drain(struct hearth_exec *arena, size_t most, struct hearth__exec_after *after);

/* The same for a visitor. */
bool hearth__exec_drain_visiting(struct hearth_exec *arena, size_t most,
                                 struct hearth__exec_after *after);

/* Outside the section: tell of a stale return. */
void hearth__exec_tell_stale(const struct hearth_allocator *arena);

/* Outside the section: report stale returns and send strays on. */
void hearth__exec_report(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside the section: give everything retained back. Leaves it around backing calls. Returns bytes. */
size_t hearth__exec_trim_all(struct hearth_exec *arena);

/* Return a slot from a thread that does not own the arena. Generation 0: whatever it is now. */
enum hearth_status hearth__exec_free_remote(struct hearth_exec *arena, struct hearth_buf *buf,
                                            uint64_t generation, const char *call);

/* hearth_exec_free() by the general path. */
enum hearth_status hearth__exec_free_general(struct hearth_exec *arena, struct hearth_buf *buf,
                                             uint64_t generation, const char *call);

/* Inside: a slot that came back, and whose generations are used up, is not handed out any more. */
void hearth__exec_retire(struct hearth_exec *arena, struct hearth_buf *buf,
                         struct hearth__exec_after *after);

/* hearth_buf_resize() for this kind of arena. */
enum hearth_status hearth__exec_resize(struct hearth_allocator *self, struct hearth_buf *buf,
                                       size_t size, bool keep);

/* The owner gives a live buffer's storage to another arena's empty slot; the buffer goes stale. Returns
 * NOT_OWNER, BUSY (reported), STALE (not reported). */
enum hearth_status hearth__exec_surrender(struct hearth_exec *arena, struct hearth_buf *buf,
                                          struct hearth_buf *slot, size_t *size);

/* Storage of another arena's, free, for that of a live buffer. */
struct hearth__exchange {
    struct hearth_buf *slot; /* the caller's alone, of the same class; gets the buffer's storage */
    bool same_budget;        /* of both arenas: credit for the storage can come along with it */
    int64_t credit;          /* out: how much did, as a weight */
    size_t size;             /* out: the buffer's */
};

/* Inside the section: whether the store may have this much more, and nothing has to give way for it. The ceiling is
 * not looked at. */
bool hearth__exec_has_place(const struct hearth_exec *arena, size_t capacity,
                            unsigned alignment_log);

/* The owner copies a live buffer of this size, and takes it back. Returns as surrender. */
enum hearth_status hearth__exec_copy_out(struct hearth_exec *arena, struct hearth_buf *buf,
                                         void *data, size_t size);

/* As surrender, but the arena keeps the slot's storage in return, and no backing is called for it. False: nothing
 * changed, and it says nothing of why. */
bool hearth__exec_exchange(struct hearth_exec *arena, struct hearth_buf *buf,
                           struct hearth__exchange *exchange);

/* What a visitor is to do. */
struct hearth__visit {
    uint64_t before;                   /* give back what was stamped below */
    size_t goal;                       /* bytes to give back: it stops when there are as many */
    size_t most;                       /* bytes to give back at most; 0: no bound */
    struct hearth__releases *releases; /* where the storage goes */
    size_t *untold;                    /* stale returns that were met; NULL: told at once */
    bool busy;                         /* out: the owner was inside, or somebody else visits */
    bool more;                         /* out: there was more than one visit gives back */
    size_t purged;                     /* out: of what it gave back: pages alone */
};

/* Slots that one visit gives back at most. */
#define HEARTH__VISIT_MOST 96u

/* Another thread takes queued returns in and gives back what the arena retains, least recently freed first.
 * One visit is bounded. The caller keeps the arena from ending. Returns bytes. */
size_t hearth__exec_visit(struct hearth_exec *arena, struct hearth__visit *visit);

/* For a pass over many arenas: raise the flag of each (section.h), one membarrier, then serve each that was
 * raised, which lowers it. `apart`: what the membarrier said. */
size_t hearth__exec_visit_serve(struct hearth_exec *arena, bool apart, struct hearth__visit *visit);

/* The store, counted. Inside, or visiting. */

static inline struct hearth_buf *hearth__exec_stored_out(struct hearth_exec *arena,
                                                         struct hearth_buf *buf)
{
    if (buf != NULL)
        arena->stored -= (int64_t)hearth__load_relaxed(&buf->weight);
    return buf;
}

static inline struct hearth_buf *hearth__exec_store_take(struct hearth_exec *arena,
                                                         const struct hearth__want *want)
{
    return hearth__exec_stored_out(arena, arena->store->ops->take(arena->store, want));
}

static inline struct hearth_buf *hearth__exec_store_take_largest(struct hearth_exec *arena)
{
    return hearth__exec_stored_out(arena, arena->store->ops->take_largest(arena->store));
}

/* Whether the least recently freed storage is in spans; and their oldest segment that is free as a whole, if it is so
 * since before `before`, nothing else in spans is older, and at most `most` bytes of it are warm. Those are its
 * carrier's size. exec_spans.c. */
bool hearth__exec_spans_first(struct hearth_exec *arena);
struct hearth_buf *hearth__exec_spans_evict(struct hearth_exec *arena, uint64_t before,
                                            size_t most);

/* A slot's span back to the store. `shared`: owner and visitor may both be counting. exec_spans.c. */
void hearth__exec_span_give(struct hearth_exec *arena, struct hearth_buf *slot, bool shared);

/* There is one in front: its span goes to the store. exec_spans_plain.c. */
void hearth__exec_front_settle(struct hearth_exec *arena, bool shared);

static inline bool hearth__is_span(const struct hearth_buf *buf)
{
    return (buf->alignment_log & HEARTH__MARK_SPAN) != 0;
}

/* A slot whose storage was taken off it; or what was a segment's carrier. */
static inline void hearth__exec_slot_put(struct hearth_exec *arena, struct hearth_buf *slot)
{
    if (hearth__unlikely((slot->alignment_log & HEARTH__MARK_SEGMENT) != 0))
        hearth__spans_node_put(arena->spans, slot);
    else
        hearth__slots_put(&arena->slots, slot);
}

/* The least recently given one, if its stamp is below. With spans also NULL while pages of theirs, or a segment of
 * which more than `most` bytes are warm, are older than what could be given: those are to be purged first. */
static inline struct hearth_buf *hearth__exec_store_evict(struct hearth_exec *arena,
                                                          uint64_t before, size_t most)
{
    if (hearth__unlikely(arena->spans != NULL) && hearth__exec_spans_first(arena))
        return hearth__exec_spans_evict(arena, before, most);
    return hearth__exec_stored_out(arena, arena->store->ops->evict(arena->store, before));
}

/* What an evicted one was in `stored`. */
static inline hearth__weight hearth__exec_stored_weight(const struct hearth_buf *victim)
{
    return (victim->alignment_log & HEARTH__MARK_SEGMENT) != 0
               ? hearth__weight_of(1, hearth__load_relaxed(&victim->size))
               : hearth__load_relaxed(&victim->weight);
}

static inline void hearth__exec_store_give(struct hearth_exec *arena, struct hearth_buf *buf,
                                           bool shared)
{
    if (hearth__is_span(buf)) {
        hearth__exec_span_give(arena, buf, shared);
        hearth__slots_put(&arena->slots, buf);
        return;
    }
    arena->stored += (int64_t)hearth__load_relaxed(&buf->weight);
    buf->flags = 0; /* plain paths do not look whether it is known to be zero */
    arena->store->ops->give(arena->store, buf);
}

/* Bytes that a need of credit is, rounded up. */
static inline size_t hearth__exec_bytes_of(int64_t need)
{
    return hearth__weight_capacity((hearth__weight)need) + HEARTH__WEIGHT_UNIT;
}

/* The budget of the arena's service: exec_meter.c. */

/* Inside, and no visitor is: keep `stored` and `charge` from now on. `walk`: by looking at the store, for a
 * visitor. */
void hearth__exec_meter(struct hearth_exec *arena, bool walk);

/* Inside, visiting or not: whether the slot's storage may be kept within the ceiling. It is not in the store,
 * and not on the chain. */
bool hearth__exec_charge(struct hearth_exec *arena, const struct hearth_buf *buf,
                         struct hearth__exec_after *after);

/* Inside: charge for storage of this weight that is about to go to the store; nothing is evicted for it. */
bool hearth__exec_charge_ahead(struct hearth_exec *arena, int64_t weight);

/* Inside, at the end of an operation, or visiting: surplus credit goes back. */
void hearth__exec_settle(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Inside: all credit that the store does not fill goes back. */
void hearth__exec_discharge(struct hearth_exec *arena);

/* Inside or visiting: the least recently given slot if it is old and, unless `most` is 0, not larger than that. A
 * segment of spans neither has more warm bytes than that, nor than `goal`. */
struct hearth_buf *hearth__exec_evict_within(struct hearth_exec *arena, uint64_t before,
                                             size_t most, size_t goal);

/* Inside or visiting: take over the service's retention cap if it changed. */
void hearth__exec_take_cap(struct hearth_exec *arena);

/* The owner, or a visitor. */
void hearth__exec_set_cap(struct hearth_exec *arena, size_t bytes);

/* Room for live bytes; true where nothing is limited. */
static inline bool hearth__exec_room_take(struct hearth_exec *arena, size_t bytes)
{
    return arena->budget == NULL || bytes == 0 ||
           hearth__budget_room_take(arena->budget, bytes, HEARTH_PRIORITY_NORMAL);
}

static inline void hearth__exec_room_give(struct hearth_exec *arena, size_t bytes)
{
    if (arena->budget != NULL)
        hearth__budget_room_give(arena->budget, bytes);
}

/* What was taken for nothing. */
static inline void hearth__exec_room_undo(struct hearth_exec *arena, size_t bytes)
{
    if (arena->budget != NULL)
        hearth__budget_room_undo(arena->budget, bytes);
}

/* Outside, before a request fails: whether somebody else gave retained storage back. */
bool hearth__exec_reclaim_others(struct hearth_exec *arena);

/* Outside: storage was obtained. */
void hearth__exec_grew(struct hearth_exec *arena, size_t bytes);

/* Inside, at the end of an operation: a slice of what others asked for. */
void hearth__exec_serve(struct hearth_exec *arena, struct hearth__exec_after *after);

/* Outside, after an operation on an arena of a service that found no credit for weight `wanted`. */
void hearth__exec_after(struct hearth_exec *arena, int64_t wanted);

/* Outside: remember why a request was refused: by the limit on live bytes, or by the backing. NO_MEMORY. */
enum hearth_status hearth__exec_refused(struct hearth_exec *arena, const struct hearth__want *want,
                                        bool by_limit);

/* For services: exec_life.c, exec_end.c. */

/* An arena of the calling thread. */
enum hearth_status hearth__exec_make(const struct hearth_exec_options *given, uint32_t debug,
                                     struct hearth_exec **arena);

/* The closer, when the service has no more users: end the arena, or let its owner do it who is inside. The owner's
 * and the service's holds stay. Returns whether the owner's is the closer's to give up. */
bool hearth__exec_close(struct hearth_exec *arena);

/* After a visit that met the end of the service: see that somebody ends the arena. */
void hearth__exec_see_to_end(struct hearth_exec *arena);

/* The owner, after an operation that met the end of the service: end the arena, unless somebody else does. */
void hearth__exec_end_own(struct hearth_exec *arena);

/* Give back all and let what is live come home by itself. Returns how many buffers that is. */
uint64_t hearth__exec_wind_up(struct hearth_exec *arena);

/* In a forked child: what an operation or a visit by a thread that is not there held is lost. */
void hearth__exec_lose(struct hearth_exec *arena, bool own, bool store_too);

/* What an operation met that makes another try worth while, if it failed: a visitor; storage or slots on their way
 * out. */
#define HEARTH__MET_VISITOR 1u
#define HEARTH__MET_MORE 2u

/* Inside, before its end. */
static inline uint32_t hearth__exec_met(const struct hearth_exec *arena,
                                        const struct hearth__exec_after *after)
{
    return (arena->visited ? HEARTH__MET_VISITOR : 0) |
           (after->chain != NULL ? HEARTH__MET_MORE : 0);
}

/* Outside: whether a request that failed and met a visitor is worth another try, after a moment. `tries` counts from
 * 0. */
bool hearth__exec_try_again(uint32_t met, enum hearth_status status, unsigned *tries);

/* Inside: what was put aside while a visitor was there. */
void hearth__exec_merge(struct hearth_exec *arena);

/* Inside and visited, left meanwhile: a slot with fresh storage, or storage for a stand-in. */
enum hearth_status hearth__exec_obtain_spare(struct hearth_exec *arena,
                                             const struct hearth__want *want,
                                             struct hearth_buf **buf);
enum hearth_status hearth__exec_fill_spare(struct hearth_exec *arena,
                                           const struct hearth__want *want,
                                           struct hearth_buf *slot);

/* Inside: count storage as given back. */
void hearth__exec_count_given(struct hearth_exec *arena, size_t bytes);

/* One buffer of a detached arena came home; the last one ends the arena. */
void hearth__exec_came_home(struct hearth_exec *arena);

/* A hold on the core of an arena of a service is given up; the last one pools it. */
void hearth__exec_drop(struct hearth_exec *arena);

/* Bytes that went to the backing so far. A book that is passed on did not. */
static inline uint64_t hearth__exec_given(const struct hearth_exec *arena)
{
    return hearth__load_relaxed(&arena->cells.given_bytes) -
           hearth__load_relaxed(&arena->cells.passed_on);
}

/* And pages to the kernel. */
static inline uint64_t hearth__exec_gone(const struct hearth_exec *arena)
{
    return hearth__exec_given(arena) + hearth__load_relaxed(&arena->cells.purged_bytes);
}

/* Inside the section. What is retained: held and not live. */
static inline hearth__weight hearth__exec_retained(const struct hearth_exec *arena)
{
    return arena->held - (hearth__load_relaxed(&arena->cells.out_weight) -
                          hearth__load_relaxed(&arena->cells.in_weight));
}

/* Inside the section: retained bytes that may be resident, as the cap counts them. */
static inline size_t hearth__exec_warm(const struct hearth_exec *arena)
{
    return hearth__weight_capacity(hearth__exec_retained(arena)) -
           hearth__load_relaxed(&arena->cold_bytes);
}

/* Inside the section: whether nothing is live. */
static inline bool hearth__exec_is_idle(const struct hearth_exec *arena)
{
    return hearth__load_relaxed(&arena->cells.out_weight) ==
           hearth__load_relaxed(&arena->cells.in_weight);
}

/* Inside the section, for a live slot: whether another thread's return of it waits in the inbox. */
static inline bool hearth__exec_is_queued(const struct hearth_buf *buf)
{
    return hearth__inbox_has_claim(buf, hearth__word_generation(hearth__load_relaxed(&buf->state)));
}

/* Any thread: a reading of the cells in an order that keeps every difference from going negative. */
struct hearth__exec_reading {
    hearth__weight out_weight, in_weight;
    uint64_t out_size, in_size, gives, moves;
    uint64_t peak, misses, remote_frees;
    uint64_t pieces_in, pieces_out;
    uint64_t obtained_count, obtained_bytes, given_count, given_bytes;
    uint64_t cuts, merges;
    struct hearth__queued pending;
};

struct hearth__exec_reading hearth__exec_read(const struct hearth_exec *arena);

bool hearth__exec_reading_equal(const struct hearth__exec_reading *a,
                                const struct hearth__exec_reading *b);

/* What the public getters of these names say, from a reading. */
uint64_t hearth__exec_live_count(const struct hearth__exec_reading *now);
uint64_t hearth__exec_live_bytes(const struct hearth__exec_reading *now);
uint64_t hearth__exec_live_capacity(const struct hearth__exec_reading *now);
uint64_t hearth__exec_pending_count(const struct hearth__exec_reading *now);
uint64_t hearth__exec_pending_bytes(const struct hearth__exec_reading *now);
uint64_t hearth__exec_retained_count(const struct hearth__exec_reading *now);
uint64_t hearth__exec_retained_bytes(const struct hearth__exec_reading *now);
uint64_t hearth__exec_footprint(const struct hearth__exec_reading *now);
uint64_t hearth__exec_allocs(const struct hearth__exec_reading *now);
uint64_t hearth__exec_frees(const struct hearth__exec_reading *now);

/* Walk everything and compare with the cells; the first violated rule as text, or NULL. The arena must
 * be quiescent. */
const char *hearth__exec_check(const struct hearth_exec *arena);

/* Builds with invariant checks (HEARTH_CHECK_LEVEL 2) stop where one is violated: after trims, changes of
 * the cap, and before the end, where a walk over everything costs nothing in comparison. By the owner or
 * whoever ends the arena, outside of the section. */
void hearth__exec_assert(struct hearth_exec *arena);

extern const struct hearth_allocator_ops hearth__exec_ops;

#endif
