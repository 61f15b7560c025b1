/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store for large blocks: segments cut into spans, which merge with their neighbours as soon as they are
 * free. The essay is in spans.c, the decision in docs/adr/0020-spans.md.
 *
 * A store of this kind calls nobody. What it lacks it says (hearth__spans_ready, hearth__spans_ask) and is given
 * (_add_nodes, _add_segment); what it no longer needs is taken off it (_evict, _purge_begin) and given back to the
 * backing by the caller, who may leave its section for that. span_heap.h does all of it for one thread.
 *
 *               take  give  evict  purge_*  ...  'X': the caller excludes (the owner's section)
 *     take       X     X     X      X
 *     ...        X     X     X      X
 *
 * Between purge_begin and purge_end others may run: the span is nobody's meanwhile.
 */
#ifndef HEARTH_CORE_SPANS_H
#define HEARTH_CORE_SPANS_H

#include "core/meta.h"

#include <hearth/backing.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Spans begin and end at multiples of this: the alignment that every buffer has. */
#define HEARTH__SPAN_UNIT_LOG 6
#define HEARTH__SPAN_UNIT ((size_t)1 << HEARTH__SPAN_UNIT_LOG)

/* A remainder below this stays with the block: no large request would find it of use. */
#define HEARTH__SPAN_LEAST_BYTES ((size_t)4096)

/* Pages go back in multiples of this. */
#define HEARTH__SPAN_PAGE_BYTES ((size_t)4096)

/* Bins: a row for each power of two of units, cut in 2^4 columns; the first row is linear. Sizes are below
 * 2^44, which an arena can hold. */
#define HEARTH__SPAN_COLUMNS_LOG 4
#define HEARTH__SPAN_COLUMNS (1u << HEARTH__SPAN_COLUMNS_LOG)
#define HEARTH__SPAN_ROWS (44u - HEARTH__SPAN_UNIT_LOG - HEARTH__SPAN_COLUMNS_LOG + 1)

/* Members of a bin that a search looks at, and that an insertion passes on the way to its address. */
#define HEARTH__SPAN_LOOKS 8u

/* Nodes that one step takes at most: a segment, its span, and two cuts of that. */
#define HEARTH__SPAN_NODES_MOST 4u

enum hearth__span_state {
    HEARTH__SPAN_LENT = 0,
    HEARTH__SPAN_FREE = 1,
    HEARTH__SPAN_PURGING = 2, /* free, and in no bin: its pages are on their way out */
};

struct hearth__span_segment;

struct hearth__span {
    char *base;
    size_t length;
    /* While free: what lies behind was not written since it came from the kernel. */
    size_t touched;
    struct hearth__span *below, *above; /* neighbours by address; NULL at the segment's ends */
    /* While in a bin. `next` also links unused nodes. */
    struct hearth__span *next, *prev;
    /* While in the list of those that have pages to give back: neighbours by age. */
    struct hearth__span *older, *newer;
    uint64_t stamp; /* the caller's clock when the last part of it was freed */
    struct hearth__span_segment *segment;
    uint8_t state; /* HEARTH__SPAN_* */
    bool zero;     /* what lies behind `touched` reads as zero; for a lent span: all of it does */
    bool aged;     /* in the list by age */
    bool refused;  /* the backing does not take its pages back */
};

/* Memory lent by the backing. */
struct hearth__span_segment {
    struct hearth_segment lent;
    struct hearth__span *first;
    size_t used;                                          /* up to here it was ever lent */
    struct hearth__span_segment *next, *prev;             /* all segments */
    struct hearth__span_segment *idle_older, *idle_newer; /* while all of it is one free span */
};

union hearth__span_node {
    struct hearth__span span;
    struct hearth__span_segment segment;
    struct hearth_buf carrier; /* an arena's, for a segment on its way out */
};

/* Pages to be given back. Length 0: there is no whole one, and nothing to be asked for; what the span has of others is
 * its neighbours' as well, who are lent. */
struct hearth__purge {
    struct hearth__span *span;
    char *base;
    size_t length;
};

struct hearth__spans {
    uint64_t rows;                       /* bit: a column of the row is occupied */
    uint32_t columns[HEARTH__SPAN_ROWS]; /* bit: the bin is not empty */
    struct hearth__span *bins[HEARTH__SPAN_ROWS][HEARTH__SPAN_COLUMNS];
    struct hearth__span *oldest, *newest; /* free, with pages to give back */
    struct hearth__span_segment *segments;
    struct hearth__span_segment *idle_oldest, *idle_newest;
    struct hearth__span *unused; /* nodes, linked by next */
    size_t unused_nodes;
    struct hearth__segment *granules; /* where the nodes lie; the store's own is the last */
    size_t most_bytes; /* no segment larger than this, unless a request is; SIZE_MAX at first */

    /* Counts. Bytes of segments = lent + free. */
    size_t segment_count, segment_bytes;
    size_t lent_count, lent_bytes;
    size_t free_count, free_bytes; /* those being purged included */
    size_t warm_bytes;             /* of the free ones: touched, and not given back since */

    size_t peak_bytes; /* most bytes lent at a time since storage was last given back on purpose */
    size_t goal_bytes; /* what the segments shall have together at the next growth */
};

/* A store in a metadata segment of kind HEARTH__SEGMENT_SPANS. */
struct hearth__spans *hearth__spans_open(struct hearth__segment *segment);

/* Pool the metadata. No segment may be left. */
void hearth__spans_close(struct hearth__spans *spans);

/* Whether there are nodes for one operation. If not, add a metadata segment of kind HEARTH__SEGMENT_SPANS. */
static inline bool hearth__spans_ready(const struct hearth__spans *spans)
{
    return spans->unused_nodes >= HEARTH__SPAN_NODES_MOST;
}

void hearth__spans_add_nodes(struct hearth__spans *spans, struct hearth__segment *segment);

/* A span of at least `bytes` (not 0) aligned to 1 << alignment_log, or NULL. Finds one whenever some free span would
 * do for a request one column larger, and often else. Ready. O(1). */
struct hearth__span *hearth__spans_take(struct hearth__spans *spans, size_t bytes,
                                        unsigned alignment_log);

/* Take a lent span back. `stamp` does not go down from one call to the next. O(1). */
void hearth__spans_give(struct hearth__spans *spans, struct hearth__span *span, uint64_t stamp);

/* For a lent span that is not to be kept: its segment, off the store, if there is nothing else in it. O(1). */
bool hearth__spans_withdraw(struct hearth__spans *spans, struct hearth__span *span,
                            struct hearth_segment *lent);

/* Else: take it back with these pages of it (hearth__span_pages) given to the backing. O(1). */
void hearth__spans_give_purged(struct hearth__spans *spans, struct hearth__span *span,
                               uint64_t stamp, const struct hearth__purge *purge);

/* After a take without success: what to ask the backing for, so that it serves the request and those to come.
 * If it is refused, `bytes` alone will do. */
size_t hearth__spans_ask(const struct hearth__spans *spans, size_t bytes);

/* Add what the backing lent, and take a span of at least `bytes` from it: it is large enough and aligned as asked.
 * `stamp` as for give. Ready. O(1). */
struct hearth__span *hearth__spans_grow(struct hearth__spans *spans,
                                        const struct hearth_segment *lent, uint64_t stamp,
                                        size_t bytes, unsigned alignment_log);

/* Add what the backing lent, as one free span. Ready. O(1). */
struct hearth__span *hearth__spans_add_segment(struct hearth__spans *spans,
                                               const struct hearth_segment *lent, uint64_t stamp);

/* Take a segment off that is free as a whole: the one that became so first, if its stamp is below `before` and at
 * most `most` bytes of it are warm. O(1). */
bool hearth__spans_evict(struct hearth__spans *spans, uint64_t before, size_t most,
                         struct hearth_segment *lent);

/* The pages of the least recently freed span, at most `most` bytes (a page or more) from its upper end, if its stamp
 * is below `before`. Give them to the backing's discard (unless the length is 0), then end it. O(1). */
bool hearth__spans_purge_begin(struct hearth__spans *spans, uint64_t before, size_t most,
                               struct hearth__purge *purge);

/* `discarded`: what the backing answered, if it was asked; 0: it cannot, and is not asked again for these pages. */
void hearth__spans_purge_end(struct hearth__spans *spans, const struct hearth__purge *purge,
                             size_t discarded);

/* The least stamp of what evict or purge_begin would give, or UINT64_MAX. O(1). */
uint64_t hearth__spans_oldest(const struct hearth__spans *spans);

/* Whether nothing is lent and the memory is in several pieces: the next run would be laid out with less waste in one.
 * Evict them all then. From now on growth aims at what was needed. O(1), and O(segments) when it says so. */
bool hearth__spans_scattered(struct hearth__spans *spans);

/* At the end of a run of which something stays: whether several segments are free as a whole. Evict them all then;
 * the next growth aims at as much in one piece. O(1). */
bool hearth__spans_gather(struct hearth__spans *spans);

/* Storage was given back because nobody needs it any more: forget what was needed before. O(1). */
void hearth__spans_forget(struct hearth__spans *spans);

/* Bytes of the largest free span. O(members of one bin). */
size_t hearth__spans_largest(const struct hearth__spans *spans);

/* Walk everything; the first violated rule as text, or NULL. */
const char *hearth__spans_check(const struct hearth__spans *spans);

/* For spans*.c. */

struct hearth__span_bin {
    unsigned row, column;
};

/* The bin that a free span of this length is in. */
static inline struct hearth__span_bin hearth__span_bin_of(size_t bytes)
{
    size_t units = bytes >> HEARTH__SPAN_UNIT_LOG;
    if (units < HEARTH__SPAN_COLUMNS)
        return (struct hearth__span_bin){0, (unsigned)units};
    unsigned log = 63u - (unsigned)__builtin_clzl(units);
    unsigned shift = log - HEARTH__SPAN_COLUMNS_LOG;
    return (struct hearth__span_bin){shift + 1, (unsigned)(units >> shift) - HEARTH__SPAN_COLUMNS};
}

/* The pages at the upper end of what was touched, at most `most` bytes; false: nothing was. */
bool hearth__span_pages(const struct hearth__span *span, size_t most, struct hearth__purge *pages);

/* What is touched of it when they went. The part of a page at its lower end is not, for the same reason. */
size_t hearth__span_left(const struct hearth__span *span, const struct hearth__purge *purge);

/* A part of a free span that fits. Ready. */
struct hearth__span *hearth__spans_take_from(struct hearth__spans *spans, struct hearth__span *span,
                                             size_t bytes, unsigned alignment_log);

/* Put a span in order among the free ones, merged with its neighbours. */
void hearth__spans_insert(struct hearth__spans *spans, struct hearth__span *span);

/* Take a free span out of its bin, the list by age and that of the idle segments. Counts stay. */
void hearth__spans_remove(struct hearth__spans *spans, struct hearth__span *span);

union hearth__span_node *hearth__spans_node_take(struct hearth__spans *spans);
void hearth__spans_node_put(struct hearth__spans *spans, void *node);

#endif
