/* SPDX-License-Identifier: Apache-2.0 */
/* The store for large blocks: cutting, merging, search, ages, purging. The memory is never touched, so the
 * segments are made up. */
#include "core/spans.h"
#include "support.h"

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

static void assert_rules(void)
{
    const char *violated = hearth__spans_check(spans);
    cr_assert_null(violated, "%s", violated);
}

static void add(size_t place, size_t bytes, bool zero)
{
    const struct hearth_segment segment = {
        .base = FAR + place,
        .length = bytes,
        .cookie = place,
        .flags = zero ? HEARTH_SEGMENT_ZERO : 0,
    };
    cr_assert(hearth__spans_ready(spans));
    hearth__spans_add_segment(spans, &segment, clock_now);
    assert_rules();
}

static struct hearth__span *take_aligned(size_t bytes, unsigned alignment_log)
{
    struct hearth__span *span = hearth__spans_take(spans, bytes, alignment_log);
    assert_rules();
    if (span != NULL) {
        cr_assert_geq(span->length, bytes);
        cr_assert_eq((uintptr_t)span->base % ((size_t)1 << alignment_log), 0);
    }
    return span;
}

static struct hearth__span *take(size_t bytes)
{
    return take_aligned(bytes, 6);
}

static void give(struct hearth__span *span)
{
    hearth__spans_give(spans, span, clock_now++);
    assert_rules();
}

/* Everything off again. */
static void finish(void)
{
    struct hearth_segment segment;
    assert_size(spans->lent_count, 0);
    while (hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment))
        assert_rules();
    assert_size(spans->segment_count, 0);
    assert_size(spans->segment_bytes + spans->free_bytes + spans->warm_bytes + spans->free_count,
                0);
    hearth__spans_close(spans);
}

Test(spans, empty_has_nothing, .init = start)
{
    struct hearth_segment segment;
    struct hearth__purge purge;
    assert_rules();
    cr_assert_null(take(64));
    cr_assert_not(hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment));
    cr_assert_not(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    cr_assert_eq(hearth__spans_oldest(spans), UINT64_MAX);
    assert_size(hearth__spans_largest(spans), 0);
    cr_assert_not(hearth__spans_scattered(spans));
    finish();
}

Test(spans, what_nobody_can_have_is_not_looked_for, .init = start)
{
    add(0, MIB, false);
    for (unsigned shift = 44; shift < 64; shift++)
        for (unsigned alignment_log = 6; alignment_log <= 21; alignment_log += 15) {
            cr_assert_null(hearth__spans_take(spans, (size_t)1 << shift, alignment_log));
            cr_assert_null(
                hearth__spans_take(spans, SIZE_MAX - ((size_t)1 << shift) + 1, alignment_log));
        }
    assert_rules();
}

Test(spans, cuts_from_the_lower_end_and_merges_again, .init = start)
{
    add(0, MIB, true);
    struct hearth__span *a = take(100 * KIB);
    struct hearth__span *b = take(200 * KIB);
    struct hearth__span *c = take(300 * KIB);
    cr_assert_eq(a->base, FAR);
    cr_assert_eq(b->base, FAR + 100 * KIB);
    cr_assert_eq(c->base, FAR + 300 * KIB);
    assert_size(spans->lent_bytes, 600 * KIB);
    assert_size(spans->free_bytes, MIB - 600 * KIB);
    assert_size(spans->warm_bytes, 0);
    give(a);
    assert_size(spans->free_count, 2);
    assert_size(spans->warm_bytes, 100 * KIB);
    give(c);
    assert_size(spans->free_count, 2);
    assert_size(hearth__spans_largest(spans), MIB - 300 * KIB);
    give(b);
    assert_size(spans->free_count, 1);
    assert_size(hearth__spans_largest(spans), MIB);
    assert_size(spans->warm_bytes, 600 * KIB);
    finish();
}

Test(spans, a_small_remainder_stays_with_the_block, .init = start)
{
    add(0, 64 * KIB, true);
    struct hearth__span *a = take(64 * KIB - HEARTH__SPAN_LEAST_BYTES + UNIT);
    assert_size(a->length, 64 * KIB);
    give(a);
    a = take(64 * KIB - HEARTH__SPAN_LEAST_BYTES);
    assert_size(a->length, 64 * KIB - HEARTH__SPAN_LEAST_BYTES);
    give(a);
    finish();
}

Test(spans, an_odd_size_is_rounded_to_the_unit, .init = start)
{
    add(0, 64 * KIB, true);
    struct hearth__span *a = take(10001);
    assert_size(a->length, 10048);
    give(a);
    finish();
}

Test(spans, what_was_freed_serves_the_same_size, .init = start)
{
    add(0, 4 * MIB, true);
    struct hearth__span *kept[8];
    struct hearth__span *freed[8];
    for (unsigned i = 0; i < 8; i++) {
        freed[i] = take(100 * KIB + 64 * i);
        kept[i] = take(8 * KIB);
    }
    char *bases[8];
    for (unsigned i = 0; i < 8; i++) {
        bases[i] = freed[i]->base;
        give(freed[i]);
    }
    /* The last one fits nowhere else, and then the one before: none is cut. */
    for (unsigned i = 8; i-- > 0;) {
        freed[i] = take(100 * KIB + 64 * i);
        cr_assert_eq(freed[i]->base, bases[i], "the bin that a size is in is looked at first");
    }
    for (unsigned i = 0; i < 8; i++) {
        give(freed[i]);
        give(kept[i]);
    }
    finish();
}

Test(spans, low_addresses_first, .init = start)
{
    add(0, 4 * MIB, true);
    struct hearth__span *kept[4];
    struct hearth__span *freed[4];
    for (unsigned i = 0; i < 4; i++) {
        freed[i] = take(100 * KIB);
        kept[i] = take(8 * KIB);
    }
    char *low = freed[0]->base;
    give(freed[2]);
    give(freed[0]);
    give(freed[3]);
    give(freed[1]);
    struct hearth__span *again = take(100 * KIB);
    cr_assert_eq(again->base, low);
    give(again);
    for (unsigned i = 0; i < 4; i++)
        give(kept[i]);
    finish();
}

Test(spans, alignment_is_cut_out_of_what_is_there, .init = start)
{
    add(64, 8 * MIB, true);
    for (unsigned log = 6; log <= 21; log++) {
        struct hearth__span *before = take(64);
        struct hearth__span *span = take_aligned(100 * KIB, log);
        cr_assert_not_null(span);
        char *base = span->base;
        give(span);
        span = take_aligned(100 * KIB, log);
        cr_assert_eq(span->base, base);
        give(span);
        give(before);
        assert_size(spans->free_count, 1);
    }
    finish();
}

Test(spans, untouched_memory_is_known_to_be_zero, .init = start)
{
    add(0, MIB, true);
    struct hearth__span *a = take(256 * KIB);
    cr_assert(a->zero);
    give(a);
    a = take(512 * KIB);
    cr_assert_not(a->zero, "a part of it was used");
    struct hearth__span *b = take(256 * KIB);
    cr_assert(b->zero);
    give(a);
    give(b);
    finish();
}

Test(spans, memory_of_unknown_content_counts_as_touched, .init = start)
{
    add(0, MIB, false);
    assert_size(spans->warm_bytes, MIB);
    struct hearth__span *a = take(256 * KIB);
    cr_assert_not(a->zero);
    give(a);
    finish();
}

Test(spans, segments_go_in_the_order_in_which_they_became_free, .init = start)
{
    struct hearth_segment segment;
    struct hearth__span *lent[3];
    for (unsigned i = 0; i < 3; i++) {
        add(i * 2 * MIB, MIB, true);
        lent[i] = take(MIB);
    }
    cr_assert_not(hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment));
    give(lent[1]); /* 1 */
    give(lent[2]); /* 2 */
    give(lent[0]); /* 3 */
    cr_assert_eq(hearth__spans_oldest(spans), 1);
    cr_assert_not(hearth__spans_evict(spans, 1, SIZE_MAX, &segment), "below, not at");
    cr_assert_not(hearth__spans_evict(spans, 2, MIB - 1, &segment), "more of it is warm");
    cr_assert(hearth__spans_evict(spans, 2, MIB, &segment));
    cr_assert_eq(segment.base, (void *)(FAR + 2 * MIB));
    assert_size(segment.cookie, 2 * MIB);
    cr_assert(hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment));
    cr_assert_eq(segment.base, (void *)(FAR + 4 * MIB));
    assert_rules();
    finish();
}

Test(spans, pages_go_least_recently_freed_first_from_the_upper_end, .init = start)
{
    struct hearth__purge purge;
    add(0, MIB, true);
    struct hearth__span *a = take(100 * KIB);
    struct hearth__span *kept = take(8 * KIB);
    struct hearth__span *b = take(100 * KIB + 64);
    struct hearth__span *last = take(8 * KIB);
    give(b); /* 1 */
    give(a); /* 2 */
    cr_assert_not(hearth__spans_purge_begin(spans, 1, SIZE_MAX, &purge));
    cr_assert(hearth__spans_purge_begin(spans, 2, 10 * KIB, &purge));
    assert_rules();
    cr_assert_eq(purge.span, b);
    assert_size(purge.length, 8 * KIB);
    cr_assert_eq(purge.base, FAR + 208 * KIB - 8 * KIB, "the page at the end is shared");
    cr_assert_null(take(900 * KIB));
    hearth__spans_purge_end(spans, &purge, purge.length);
    assert_rules();
    assert_size(spans->warm_bytes, 200 * KIB - 8 * KIB);
    cr_assert(hearth__spans_purge_begin(spans, 2, SIZE_MAX, &purge));
    assert_size(purge.length, 92 * KIB);
    hearth__spans_purge_end(spans, &purge, purge.length);
    cr_assert(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    cr_assert_eq(purge.base, FAR);
    hearth__spans_purge_end(spans, &purge, purge.length);
    assert_size(spans->warm_bytes, 0);
    cr_assert_not(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    cr_assert_eq(hearth__spans_oldest(spans), UINT64_MAX);
    struct hearth__span *again = take(100 * KIB);
    cr_assert_not(again->zero, "a backing need not say what purged pages read as");
    give(again);
    give(kept);
    give(last);
    finish();
}

Test(spans, what_is_purged_merges_with_what_was_freed_meanwhile, .init = start)
{
    struct hearth__purge purge;
    add(0, MIB, true);
    struct hearth__span *a = take(100 * KIB);
    struct hearth__span *b = take(100 * KIB);
    struct hearth__span *c = take(100 * KIB);
    give(b); /* 1 */
    cr_assert(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    give(a); /* 2 */
    give(c); /* 3 */
    assert_size(spans->free_count, 3);
    hearth__spans_purge_end(spans, &purge, purge.length);
    assert_rules();
    assert_size(spans->free_count, 1);
    cr_assert_eq(hearth__spans_oldest(spans), 3, "as recent as its most recent part");
    cr_assert_leq(spans->warm_bytes, 300 * KIB);
    finish();
}

Test(spans, refused_pages_are_not_offered_again, .init = start)
{
    struct hearth__purge purge;
    add(0, MIB, true);
    struct hearth__span *a = take(100 * KIB);
    struct hearth__span *b = take(100 * KIB);
    give(a);
    cr_assert(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    hearth__spans_purge_end(spans, &purge, 0);
    assert_rules();
    assert_size(spans->warm_bytes, 100 * KIB);
    cr_assert_not(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    give(b);
    cr_assert(hearth__spans_purge_begin(spans, UINT64_MAX, SIZE_MAX, &purge));
    hearth__spans_purge_end(spans, &purge, purge.length);
    assert_rules();
    finish();
}

Test(spans, a_block_alone_in_its_segment_leaves_with_it, .init = start)
{
    struct hearth_segment segment;
    add(0, MIB, true);
    struct hearth__span *a = take(MIB);
    cr_assert(hearth__spans_withdraw(spans, a, &segment));
    assert_rules();
    cr_assert_eq(segment.base, (void *)FAR);
    add(0, MIB, true);
    a = take(512 * KIB);
    cr_assert_not(hearth__spans_withdraw(spans, a, &segment));
    give(a);
    finish();
}

Test(spans, growth_aims_at_what_was_needed, .init = start)
{
    struct hearth_segment segment;
    assert_size(hearth__spans_ask(spans, 1), 256 * KIB);
    assert_size(hearth__spans_ask(spans, 3 * MIB + 1), 3 * MIB + 64 * KIB);
    add(0, 16 * MIB, true);
    struct hearth__span *a = take(16 * MIB);
    assert_size(hearth__spans_ask(spans, 64), 2 * MIB);
    add(32 * MIB, 2 * MIB, true);
    struct hearth__span *b = take(MIB);
    cr_assert_not(hearth__spans_scattered(spans));
    give(a);
    give(b);
    cr_assert(hearth__spans_scattered(spans));
    while (hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment))
        ;
    assert_size(hearth__spans_ask(spans, 64), 17 * MIB);
    add(0, 17 * MIB, true);
    add(32 * MIB, 2 * MIB, true);
    cr_assert(hearth__spans_scattered(spans), "what was needed did not do");
    while (hearth__spans_evict(spans, UINT64_MAX, SIZE_MAX, &segment))
        ;
    assert_size(hearth__spans_ask(spans, 64), 19 * MIB);
    spans->most_bytes = 4 * MIB;
    assert_size(hearth__spans_ask(spans, 64), 4 * MIB);
    assert_size(hearth__spans_ask(spans, 8 * MIB), 8 * MIB);
    hearth__spans_forget(spans);
    spans->most_bytes = SIZE_MAX;
    assert_size(hearth__spans_ask(spans, 64), 256 * KIB);
    finish();
}

Test(spans, nodes_run_out_and_are_added, .init = start)
{
    static struct hearth__span *lent[2000];
    add(0, 64 * MIB, true);
    for (size_t i = 0; i < COUNT_OF(lent); i++) {
        if (!hearth__spans_ready(spans)) {
            struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SPANS);
            cr_assert_not_null(segment);
            hearth__spans_add_nodes(spans, segment);
        }
        lent[i] = hearth__spans_take(spans, 16 * KIB, 6);
    }
    assert_rules();
    for (size_t i = 0; i < COUNT_OF(lent); i += 2)
        hearth__spans_give(spans, lent[i], clock_now++);
    assert_rules();
    assert_size(spans->free_count, 1001);
    for (size_t i = 1; i < COUNT_OF(lent); i += 2)
        hearth__spans_give(spans, lent[i], clock_now++);
    assert_rules();
    assert_size(spans->free_count, 1);
    uint32_t made = hearth__segment_count();
    finish();
    start();
    add(0, MIB, true);
    cr_assert_eq(hearth__segment_count(), made, "metadata is recycled");
    finish();
}
