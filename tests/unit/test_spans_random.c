/* SPDX-License-Identifier: Apache-2.0 */
/* The store for large blocks: a million random steps against a map that has a cell for each unit, the rules checked
 * after each. The memory is never touched, so the segments are made up. */
#include "core/spans.h"
#include "support.h"

#include <string.h>

#define UNIT HEARTH__SPAN_UNIT
#define FAR ((char *)((uintptr_t)1 << 40))

static struct hearth__spans *spans;
static uint64_t clock_now;

static void start(void)
{
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SPANS);
    cr_assert_not_null(segment);
    spans = hearth__spans_open(segment);
    clock_now = 1;
}

/* The map: what each unit of each possible segment is. */

#define SEGMENTS 12u
#define PLACE_BYTES MIB
#define PLACE_UNITS (PLACE_BYTES / UNIT)
#define LENT_MOST 64u

enum cell { GONE, UNTOUCHED, TOUCHED, PURGED, LENT };

static unsigned char cells[SEGMENTS][PLACE_UNITS];
static struct hearth__span *out[LENT_MOST];
static size_t out_count;
static struct hearth__purge purging;

static unsigned char *cell_of(const char *base)
{
    return &cells[0][0] + (size_t)(base - FAR) / UNIT;
}

static void set_cells(const char *base, size_t bytes, enum cell to)
{
    memset(cell_of(base), to, bytes / UNIT);
}

/* Free spans must not claim that something is untouched that is not. */
static void assert_touched(const struct hearth__span *span)
{
    const unsigned char *at = cell_of(span->base);
    for (size_t i = span->touched / UNIT; i < span->length / UNIT; i++) {
        cr_assert(at[i] == UNTOUCHED || at[i] == PURGED);
        cr_assert(!span->zero || at[i] == UNTOUCHED);
    }
}

static void assert_cells(void)
{
    size_t largest = 0;
    size_t lent = 0;
    for (const struct hearth__span_segment *segment = spans->segments; segment != NULL;
         segment = segment->next) {
        for (const struct hearth__span *span = segment->first; span != NULL; span = span->above) {
            if (span->state == HEARTH__SPAN_LENT)
                lent++;
            else
                assert_touched(span);
            if (span->state == HEARTH__SPAN_FREE && span->length > largest)
                largest = span->length;
        }
    }
    assert_size(lent, out_count);
    assert_size(hearth__spans_largest(spans), largest);
}

/* No span is there that the search promised to find. */
static void assert_not_found(size_t bytes, unsigned alignment_log)
{
    size_t need = bytes + ((size_t)1 << alignment_log) - UNIT;
    need = (need + UNIT - 1) / UNIT * UNIT;
    size_t column = (size_t)1 << (63 - __builtin_clzl(need)) >> HEARTH__SPAN_COLUMNS_LOG;
    if (column > UNIT)
        need = (need + column - 1) / column * column;
    cr_assert_lt(hearth__spans_largest(spans), need);
}

static void random_take(uint64_t *random)
{
    size_t most = (size_t)1 << (10 + random_next(random) % 10);
    size_t bytes = 1 + random_next(random) % most;
    unsigned log = random_next(random) % 8 == 0 ? 6 + (unsigned)(random_next(random) % 12) : 6;
    struct hearth__span *span = hearth__spans_take(spans, bytes, log);
    if (span == NULL) {
        assert_not_found(bytes, log);
        return;
    }
    cr_assert_geq(span->length, bytes);
    cr_assert_lt(span->length, bytes + UNIT + HEARTH__SPAN_LEAST_BYTES);
    cr_assert_eq((uintptr_t)span->base % ((size_t)1 << log), 0);
    const unsigned char *at = cell_of(span->base);
    for (size_t i = 0; i < span->length / UNIT; i++) {
        cr_assert(at[i] != LENT && at[i] != GONE, "two owners of one byte");
        cr_assert(!span->zero || at[i] == UNTOUCHED);
    }
    set_cells(span->base, span->length, LENT);
    out[out_count++] = span;
}

static void random_give(uint64_t *random)
{
    size_t which = random_next(random) % out_count;
    struct hearth__span *span = out[which];
    out[which] = out[--out_count];
    struct hearth_segment segment;
    struct hearth__purge pages;
    set_cells(span->base, span->length, TOUCHED);
    switch (random_next(random) % 16) {
    case 0:
        if (hearth__spans_withdraw(spans, span, &segment)) {
            set_cells(segment.base, segment.length, GONE);
            return;
        }
        break;
    case 1:
        span->touched = span->length;
        if (hearth__span_pages(span, SIZE_MAX, &pages)) {
            size_t left = hearth__span_left(span, &pages);
            set_cells(span->base + left, span->length - left, PURGED);
            hearth__spans_give_purged(spans, span, clock_now++, &pages);
            return;
        }
        break;
    default:
        break;
    }
    hearth__spans_give(spans, span, clock_now++);
}

static void random_add(uint64_t *random)
{
    for (size_t place = 0; place < SEGMENTS; place++) {
        if (cells[place][0] != GONE)
            continue;
        size_t bytes = (1 + random_next(random) % PLACE_UNITS) * UNIT;
        bool zero = random_next(random) % 2 == 0;
        const struct hearth_segment segment = {
            .base = FAR + place * PLACE_BYTES,
            .length = bytes,
            .flags = zero ? HEARTH_SEGMENT_ZERO : 0,
        };
        set_cells(segment.base, bytes, zero ? UNTOUCHED : TOUCHED);
        hearth__spans_add_segment(spans, &segment, clock_now);
        return;
    }
}

static void random_evict(uint64_t *random)
{
    struct hearth_segment segment;
    uint64_t before = random_next(random) % 2 == 0 ? UINT64_MAX : clock_now - clock_now / 4;
    if (hearth__spans_evict(spans, before, SIZE_MAX, &segment))
        set_cells(segment.base, segment.length, GONE);
}

static void random_purge(uint64_t *random)
{
    if (purging.span == NULL) {
        size_t most = random_next(random) % 2 == 0 ? SIZE_MAX : random_next(random) % (64 * KIB);
        if (!hearth__spans_purge_begin(spans, UINT64_MAX, most, &purging))
            purging.span = NULL;
        return;
    }
    bool given_back = random_next(random) % 8 != 0 || purging.length == 0;
    size_t left = hearth__span_left(purging.span, &purging);
    if (given_back)
        /* Up to the end of what was touched: the page beyond is the span's to the end, or another's as well. */
        set_cells(purging.span->base + left, purging.span->touched - left, PURGED);
    hearth__spans_purge_end(spans, &purging, given_back ? purging.length : 0);
    purging.span = NULL;
}

static void random_steps(uint64_t seed, size_t steps)
{
    uint64_t random = seed;
    memset(cells, GONE, sizeof cells);
    out_count = 0;
    purging.span = NULL;
    for (size_t step = 0; step < steps; step++) {
        unsigned what = (unsigned)(random_next(&random) % 32);
        /* It swings between almost all lent and almost nothing. */
        bool filling = step / 512 % 2 == 0;
        if (what < 24) {
            bool takes = random_next(&random) % 8 < (filling ? 6u : 2u);
            if (takes && out_count < LENT_MOST)
                random_take(&random);
            else if (out_count != 0)
                random_give(&random);
        } else if (what < 28) {
            random_purge(&random);
        } else if (what < 30) {
            random_add(&random);
        } else {
            random_evict(&random);
        }
        const char *violated = hearth__spans_check(spans);
        cr_assert_null(violated, "step %zu: %s", step, violated);
        if (step % 16 == 0)
            assert_cells();
    }
    if (purging.span != NULL)
        random_purge(&random);
    while (out_count != 0)
        random_give(&random);
}

ParameterizedTestParameters(spans_random, agrees_with_a_map)
{
    static uint64_t seeds[] = {1, 20, 300, 4000};
    return cr_make_param_array(uint64_t, seeds, COUNT_OF(seeds));
}

ParameterizedTest(uint64_t *seed, spans_random, agrees_with_a_map, .init = start)
{
    struct hearth_segment segment;
    random_steps(*seed, 250000);
    while (hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment))
        ;
    assert_size(spans->segment_count + spans->segment_bytes + spans->lent_bytes, 0);
    assert_size(spans->free_bytes + spans->warm_bytes + spans->free_count, 0);
    hearth__spans_close(spans);
}
