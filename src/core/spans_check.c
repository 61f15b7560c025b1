/* SPDX-License-Identifier: Apache-2.0 */
/* The store for large blocks: its rules, checked by walking everything. */
#include "core/spans.h"

struct tally {
    size_t segments, segment_bytes, lent, lent_bytes, free, free_bytes, warm_bytes, in_bins, aged,
        idle;
};

static const char *check_span(const struct hearth__span *span, struct tally *tally)
{
    if (span->length == 0 || span->length % HEARTH__SPAN_UNIT != 0)
        return "a span's length is no multiple of the unit";
    if (span->state == HEARTH__SPAN_LENT) {
        tally->lent++;
        tally->lent_bytes += span->length;
        return span->aged ? "a lent span is in the list by age" : NULL;
    }
    if (span->touched > span->length)
        return "more is touched than there is";
    if (span->above != NULL && span->state == HEARTH__SPAN_FREE &&
        span->above->state == HEARTH__SPAN_FREE)
        return "two neighbours are free";
    tally->free++;
    tally->free_bytes += span->length;
    tally->warm_bytes += span->touched;
    if (span->state == HEARTH__SPAN_PURGING)
        return span->aged ? "a span being purged is in the list by age" : NULL;
    struct hearth__purge pages;
    if (span->aged != (!span->refused && hearth__span_pages(span, SIZE_MAX, &pages)))
        return "the list by age is not those with pages";
    tally->in_bins++;
    tally->aged += span->aged;
    tally->idle += span->length == span->segment->lent.length;
    return NULL;
}

static const char *check_segment(const struct hearth__span_segment *segment, struct tally *tally)
{
    const struct hearth__span *below = NULL;
    char *at = segment->lent.base;
    tally->segments++;
    tally->segment_bytes += segment->lent.length;
    for (const struct hearth__span *span = segment->first; span != NULL; span = span->above) {
        if (span->base != at || span->below != below || span->segment != segment)
            return "a segment's spans do not follow each other";
        const char *violated = check_span(span, tally);
        if (violated != NULL)
            return violated;
        at += span->length;
        below = span;
    }
    return at == (char *)segment->lent.base + segment->lent.length ? NULL
                                                                   : "spans do not fill a segment";
}

static const char *check_bins(const struct hearth__spans *spans, size_t expected)
{
    size_t members = 0;
    for (unsigned row = 0; row < HEARTH__SPAN_ROWS; row++) {
        if ((spans->rows >> row & 1) != (spans->columns[row] != 0))
            return "a row's bit is wrong";
        for (unsigned column = 0; column < HEARTH__SPAN_COLUMNS; column++) {
            const struct hearth__span *prev = NULL;
            const struct hearth__span *span = spans->bins[row][column];
            if ((spans->columns[row] >> column & 1) != (span != NULL))
                return "a column's bit is wrong";
            for (; span != NULL; span = span->next) {
                struct hearth__span_bin bin = hearth__span_bin_of(span->length);
                if (bin.row != row || bin.column != column || span->prev != prev ||
                    span->state != HEARTH__SPAN_FREE)
                    return "a span is in the wrong bin";
                prev = span;
                members++;
            }
        }
    }
    return members == expected ? NULL : "the bins do not hold what is free";
}

static const char *check_ages(const struct hearth__spans *spans, const struct tally *tally)
{
    size_t aged = 0;
    size_t idle = 0;
    uint64_t stamp = 0;
    for (const struct hearth__span *span = spans->oldest; span != NULL; span = span->newer) {
        if (span->stamp < stamp || !span->aged)
            return "the list by age is out of order";
        stamp = span->stamp;
        aged++;
    }
    stamp = 0;
    for (const struct hearth__span_segment *segment = spans->idle_oldest; segment != NULL;
         segment = segment->idle_newer) {
        if (segment->first->stamp < stamp || segment->first->state != HEARTH__SPAN_FREE)
            return "the idle segments are out of order";
        stamp = segment->first->stamp;
        idle++;
    }
    return aged == tally->aged && idle == tally->idle ? NULL : "a list by age lacks members";
}

const char *hearth__spans_check(const struct hearth__spans *spans)
{
    struct tally tally = {0};
    const char *violated = NULL;
    for (const struct hearth__span_segment *segment = spans->segments;
         segment != NULL && violated == NULL; segment = segment->next)
        violated = check_segment(segment, &tally);
    if (violated == NULL)
        violated = check_bins(spans, tally.in_bins);
    if (violated == NULL)
        violated = check_ages(spans, &tally);
    if (violated != NULL)
        return violated;
    if (tally.segments != spans->segment_count || tally.segment_bytes != spans->segment_bytes)
        return "the segments' counts are wrong";
    if (tally.lent != spans->lent_count || tally.lent_bytes != spans->lent_bytes)
        return "the lent counts are wrong";
    if (tally.free != spans->free_count || tally.free_bytes != spans->free_bytes)
        return "the free counts are wrong";
    return tally.warm_bytes == spans->warm_bytes ? NULL : "the warm bytes are wrong";
}
