/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store for large blocks: search, cut, merge.
 *
 * Problem. Lists by size keep a block whole, so what waits for one size is of no use to another: on recorded
 * inference runs they hold twice what a run needs. Large blocks are few, and worth the work of cutting and merging.
 *
 * Picture. A segment of the backing is cut into spans without gaps, linked by address. What describes a span is a
 * node in our own metadata, never in the memory itself, which is the user's and may be purged.
 *
 *      segment   | lent | free ........ | lent | free      |      no two free ones are neighbours
 *                           touched |              untouched
 *
 *      bins      row 3   [ ][ ][*][ ]...     a bit for each column, and one for each row
 *                            `-> lowest address first, as far as eight looks go
 *      by age    oldest <-> ... <-> newest   those that have pages to give back
 *      idle      oldest <-> ... <-> newest   segments that are one free span
 *
 * Search. Two-level segregated fit (Masmano, Ripoll, Crespo, Real: TLSF, 2004), with one look more: the request's
 * own bin may hold what fits, and mostly does when sizes repeat, so eight members of it are looked at before the
 * first bin whose members all fit. Without that look the store is a fifth larger on the traces; with it, it is
 * as good as best fit there. Low addresses go first, so that the upper ends stay free and untouched.
 *
 * Touched. A free span is lent from its lower end, so that one offset tells what was written from what still is as it
 * came from the kernel, or went back to it. Merging forgets what is untouched below something touched: the figure
 * errs towards warm, never the other way.
 *
 * Layout. Waste comes from segments as well as from spans: what lies in several pieces cannot merge across them.
 * When nothing is lent, the pieces are given back, and the next one is as large as the most that was lent at a time;
 * if that did not do, as large as all that was ever used of the pieces; if that did not either, as all of them.
 * Recorded runs need three runs at most, then nothing moves any more. A segment that one request needs for itself
 * is part of this like any other.
 *
 * Cost. Take and give are O(1): at most eight looks in a bin, two cuts, two merges. A node is 128 bytes; there are
 * at most two per block lent and one per segment.
 */
#include "core/spans.h"

static_assert(sizeof(struct hearth__spans) +
                      HEARTH__SPAN_NODES_MOST * sizeof(union hearth__span_node) <=
                  HEARTH__GRANULE_BYTES - HEARTH__CORE_OFFSET,
              "a store and its first nodes fit one metadata segment");

static struct hearth__span **head_of(struct hearth__spans *spans, struct hearth__span_bin bin)
{
    return &spans->bins[bin.row][bin.column];
}

static void bin_insert(struct hearth__spans *spans, struct hearth__span *span)
{
    struct hearth__span_bin bin = hearth__span_bin_of(span->length);
    struct hearth__span **head = head_of(spans, bin);
    struct hearth__span *before = NULL;
    struct hearth__span *next = *head;
    for (unsigned i = 0; i < HEARTH__SPAN_LOOKS && next != NULL && next->base < span->base; i++) {
        before = next;
        next = next->next;
    }
    span->prev = before;
    span->next = next;
    if (next != NULL)
        next->prev = span;
    if (before != NULL)
        before->next = span;
    else
        *head = span;
    spans->columns[bin.row] |= 1u << bin.column;
    spans->rows |= (uint64_t)1 << bin.row;
}

static void bin_remove(struct hearth__spans *spans, struct hearth__span *span)
{
    struct hearth__span_bin bin = hearth__span_bin_of(span->length);
    if (span->next != NULL)
        span->next->prev = span->prev;
    if (span->prev != NULL) {
        span->prev->next = span->next;
        return;
    }
    *head_of(spans, bin) = span->next;
    if (span->next != NULL)
        return;
    spans->columns[bin.row] &= ~(1u << bin.column);
    if (spans->columns[bin.row] == 0)
        spans->rows &= ~((uint64_t)1 << bin.row);
}

/* In the list by age, in front of `newer` (NULL: as the newest). */
static void age_link(struct hearth__spans *spans, struct hearth__span *span,
                     struct hearth__span *newer)
{
    struct hearth__span *older = newer == NULL ? spans->newest : newer->older;
    span->older = older;
    span->newer = newer;
    if (older != NULL)
        older->newer = span;
    else
        spans->oldest = span;
    if (newer != NULL)
        newer->older = span;
    else
        spans->newest = span;
    span->aged = true;
}

static void age_unlink(struct hearth__spans *spans, struct hearth__span *span)
{
    if (!span->aged)
        return;
    if (span->older != NULL)
        span->older->newer = span->newer;
    else
        spans->oldest = span->newer;
    if (span->newer != NULL)
        span->newer->older = span->older;
    else
        spans->newest = span->older;
    span->aged = false;
}

static bool has_pages(const struct hearth__span *span)
{
    struct hearth__purge pages;
    return !span->refused && hearth__span_pages(span, SIZE_MAX, &pages);
}

/* By stamp: a return is the newest, what comes from purging finds its place. */
static void age_insert(struct hearth__spans *spans, struct hearth__span *span)
{
    struct hearth__span *newer = NULL;
    if (!has_pages(span))
        return;
    for (struct hearth__span *at = spans->newest; at != NULL && at->stamp > span->stamp;
         at = at->older)
        newer = at;
    age_link(spans, span, newer);
}

static bool is_whole(const struct hearth__span *span)
{
    return span->length == span->segment->lent.length;
}

static void idle_insert(struct hearth__spans *spans, struct hearth__span_segment *segment)
{
    struct hearth__span_segment *newer = NULL;
    struct hearth__span_segment *older = spans->idle_newest;
    while (older != NULL && older->first->stamp > segment->first->stamp) {
        newer = older;
        older = older->idle_older;
    }
    segment->idle_older = older;
    segment->idle_newer = newer;
    if (older != NULL)
        older->idle_newer = segment;
    else
        spans->idle_oldest = segment;
    if (newer != NULL)
        newer->idle_older = segment;
    else
        spans->idle_newest = segment;
}

static void idle_remove(struct hearth__spans *spans, struct hearth__span_segment *segment)
{
    if (segment->idle_older != NULL)
        segment->idle_older->idle_newer = segment->idle_newer;
    else
        spans->idle_oldest = segment->idle_newer;
    if (segment->idle_newer != NULL)
        segment->idle_newer->idle_older = segment->idle_older;
    else
        spans->idle_newest = segment->idle_older;
}

void hearth__spans_remove(struct hearth__spans *spans, struct hearth__span *span)
{
    bin_remove(spans, span);
    age_unlink(spans, span);
    if (is_whole(span))
        idle_remove(spans, span->segment);
}

/* Two loose neighbours become one. */
static void absorb(struct hearth__spans *spans, struct hearth__span *low, struct hearth__span *high)
{
    if (high->touched != 0) {
        spans->warm_bytes += low->length - low->touched;
        low->touched = low->length + high->touched;
        low->zero = high->zero;
    } else {
        low->zero = (low->zero || low->touched == low->length) && high->zero;
    }
    low->length += high->length;
    low->refused = low->refused && high->refused;
    if (high->stamp > low->stamp)
        low->stamp = high->stamp;
    low->above = high->above;
    if (low->above != NULL)
        low->above->below = low;
    spans->free_count--;
    hearth__spans_node_put(spans, high);
}

void hearth__spans_insert(struct hearth__spans *spans, struct hearth__span *span)
{
    struct hearth__span *above = span->above;
    struct hearth__span *below = span->below;
    span->state = HEARTH__SPAN_FREE;
    if (above != NULL && above->state == HEARTH__SPAN_FREE) {
        hearth__spans_remove(spans, above);
        absorb(spans, span, above);
    }
    if (below != NULL && below->state == HEARTH__SPAN_FREE) {
        hearth__spans_remove(spans, below);
        absorb(spans, below, span);
        span = below;
    }
    bin_insert(spans, span);
    age_insert(spans, span);
    if (is_whole(span))
        idle_insert(spans, span->segment);
}

static bool fits(const struct hearth__span *span, size_t bytes, size_t alignment)
{
    size_t front = -(uintptr_t)span->base & (alignment - 1);
    return span->length >= bytes && span->length - bytes >= front;
}

/* The first bin of which every member has at least so many bytes. */
static struct hearth__span_bin bin_above(size_t bytes)
{
    size_t units = bytes >> HEARTH__SPAN_UNIT_LOG;
    if (units >= HEARTH__SPAN_COLUMNS) {
        unsigned log = 63u - (unsigned)__builtin_clzl(units);
        bytes += (((size_t)1 << (log - HEARTH__SPAN_COLUMNS_LOG)) - 1) << HEARTH__SPAN_UNIT_LOG;
    }
    return hearth__span_bin_of(bytes);
}

static struct hearth__span *find(struct hearth__spans *spans, size_t bytes, size_t alignment)
{
    struct hearth__span *span = *head_of(spans, hearth__span_bin_of(bytes));
    for (unsigned i = 0; i < HEARTH__SPAN_LOOKS && span != NULL; i++) {
        if (fits(span, bytes, alignment))
            return span;
        span = span->next;
    }
    struct hearth__span_bin bin = bin_above(bytes + alignment - HEARTH__SPAN_UNIT);
    if (bin.row >= HEARTH__SPAN_ROWS)
        return NULL;
    uint32_t columns = spans->columns[bin.row] & (uint32_t)(UINT32_MAX << bin.column);
    if (columns == 0) {
        uint64_t rows = spans->rows & (uint64_t)(UINT64_MAX - 1) << bin.row;
        if (rows == 0)
            return NULL;
        bin.row = (unsigned)__builtin_ctzl(rows);
        columns = spans->columns[bin.row];
    }
    bin.column = (unsigned)__builtin_ctz(columns);
    return *head_of(spans, bin);
}

/* The lower part of a loose span, as one of its own. */
static struct hearth__span *cut(struct hearth__spans *spans, struct hearth__span *span, size_t at)
{
    struct hearth__span *low = &hearth__spans_node_take(spans)->span;
    *low = (struct hearth__span){
        .base = span->base,
        .length = at,
        .touched = span->touched < at ? span->touched : at,
        .below = span->below,
        .above = span,
        .stamp = span->stamp,
        .segment = span->segment,
        .zero = span->zero,
        .refused = span->refused,
    };
    if (low->below != NULL)
        low->below->above = low;
    else
        low->segment->first = low;
    span->below = low;
    span->base += at;
    span->length -= at;
    span->touched -= low->touched;
    return low;
}

/* What is left of a free span stays free, and as old as it was. `place`: in the list by age, if that is. */
static void keep(struct hearth__spans *spans, struct hearth__span *span, struct hearth__span *place)
{
    span->state = HEARTH__SPAN_FREE;
    spans->free_count++;
    spans->free_bytes += span->length;
    spans->warm_bytes += span->touched;
    bin_insert(spans, span);
    if (!has_pages(span))
        age_unlink(spans, span);
    else if (!span->aged && place->aged)
        age_link(spans, span, place);
}

static void lend(struct hearth__spans *spans, struct hearth__span *span)
{
    age_unlink(spans, span);
    span->state = HEARTH__SPAN_LENT;
    span->zero = span->zero && span->touched == 0;
    span->refused = false;
    size_t used = (size_t)(span->base - (char *)span->segment->lent.base) + span->length;
    if (used > span->segment->used)
        span->segment->used = used;
    spans->lent_count++;
    spans->lent_bytes += span->length;
    if (spans->lent_bytes > spans->peak_bytes)
        spans->peak_bytes = spans->lent_bytes;
}

static size_t rounded(size_t bytes)
{
    return (bytes + HEARTH__SPAN_UNIT - 1) & ~(HEARTH__SPAN_UNIT - 1);
}

struct hearth__span *hearth__spans_take_from(struct hearth__spans *spans, struct hearth__span *span,
                                             size_t bytes, unsigned alignment_log)
{
    size_t alignment = (size_t)1 << alignment_log;
    bytes = rounded(bytes);
    assert(fits(span, bytes, alignment));
    bin_remove(spans, span);
    if (is_whole(span))
        idle_remove(spans, span->segment);
    spans->free_count--;
    spans->free_bytes -= span->length;
    spans->warm_bytes -= span->touched;
    size_t front = -(uintptr_t)span->base & (alignment - 1);
    struct hearth__span *low = front != 0 ? cut(spans, span, front) : NULL;
    struct hearth__span *lent = span;
    if (span->length - bytes >= HEARTH__SPAN_LEAST_BYTES)
        lent = cut(spans, span, bytes);
    if (low != NULL)
        keep(spans, low, span);
    if (lent != span)
        keep(spans, span, span);
    lend(spans, lent);
    return lent;
}

struct hearth__span *hearth__spans_take(struct hearth__spans *spans, size_t bytes,
                                        unsigned alignment_log)
{
    if (bytes > HEARTH__HELD_MAX)
        return NULL; /* there are no bins for it, and nothing that large is held */
    struct hearth__span *span = find(spans, rounded(bytes), (size_t)1 << alignment_log);
    return span == NULL ? NULL : hearth__spans_take_from(spans, span, bytes, alignment_log);
}

/* `touched`: from its lower end. */
static void take_back(struct hearth__spans *spans, struct hearth__span *span, uint64_t stamp,
                      size_t touched)
{
    spans->lent_count--;
    spans->lent_bytes -= span->length;
    spans->free_count++;
    spans->free_bytes += span->length;
    spans->warm_bytes += touched;
    span->touched = touched;
    span->zero = false;
    span->stamp = stamp;
    hearth__spans_insert(spans, span);
}

void hearth__spans_give(struct hearth__spans *spans, struct hearth__span *span, uint64_t stamp)
{
    take_back(spans, span, stamp, span->length);
}

void hearth__spans_give_purged(struct hearth__spans *spans, struct hearth__span *span,
                               uint64_t stamp, const struct hearth__purge *purge)
{
    take_back(spans, span, stamp, hearth__span_left(span, purge));
}
