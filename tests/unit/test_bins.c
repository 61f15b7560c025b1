/* SPDX-License-Identifier: Apache-2.0 */
/* The size-class store: order of take, eviction and take_largest, the bitmap's edges, the count. */
#include "core/bins.h"
#include "support.h"

#include <string.h>

static struct hearth__bins bins;
static struct hearth_buf pool[256];
static size_t used;

static void start(void)
{
    hearth__bins_init(&bins);
    memset(pool, 0, sizeof pool);
    used = 0;
}

static void add_aligned(void)
{
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_BINS);
    cr_assert_not_null(segment);
    hearth__bins_add_aligned(&bins, segment);
    cr_assert_not_null(bins.aligned);
}

static struct hearth_buf *give_aligned(unsigned class_index, unsigned alignment_log, uint64_t stamp)
{
    cr_assert_lt(used, COUNT_OF(pool));
    struct hearth_buf *buf = &pool[used++];
    buf->size_class = (uint16_t)class_index;
    buf->alignment_log = (uint8_t)alignment_log;
    buf->stamp = stamp;
    hearth__store_relaxed(&buf->weight, hearth__weight_of(1, hearth__class_size(class_index)));
    bins.store.ops->give(&bins.store, buf);
    return buf;
}

static struct hearth_buf *give(unsigned class_index, uint64_t stamp)
{
    return give_aligned(class_index, HEARTH__ALIGNMENT_LOG_MIN, stamp);
}

static struct hearth_buf *take_aligned(unsigned first, unsigned last, unsigned alignment_log)
{
    const struct hearth__want want = {.bytes = hearth__class_size(first),
                                      .size_class = first,
                                      .last_class = last,
                                      .alignment_log = alignment_log};
    return bins.store.ops->take(&bins.store, &want);
}

static struct hearth_buf *take(unsigned first, unsigned last)
{
    return take_aligned(first, last, HEARTH__ALIGNMENT_LOG_MIN);
}

static struct hearth_buf *evict_before(uint64_t before)
{
    return bins.store.ops->evict(&bins.store, before);
}

static struct hearth_buf *evict(void)
{
    return evict_before(UINT64_MAX);
}

static uint64_t oldest(void)
{
    return bins.store.ops->oldest(&bins.store);
}

static void assert_count(size_t slots, size_t bytes)
{
    size_t slots_now = 99;
    size_t bytes_now = 99;
    bins.store.ops->count(&bins.store, &slots_now, &bytes_now);
    assert_size(slots_now, slots);
    assert_size(bytes_now, bytes);
}

Test(bins, empty_gives_nothing, .init = start)
{
    cr_assert_null(take(0, HEARTH__CLASS_COUNT - 1));
    cr_assert_null(take_aligned(0, HEARTH__CLASS_COUNT - 1, 12));
    cr_assert_null(bins.store.ops->take_largest(&bins.store));
    cr_assert_null(evict());
    cr_assert_eq(oldest(), UINT64_MAX);
    assert_count(0, 0);
}

Test(bins, last_in_first_out_within_a_class, .init = start)
{
    struct hearth_buf *a = give(7, 1);
    struct hearth_buf *b = give(7, 2);
    struct hearth_buf *c = give(7, 3);
    cr_assert_eq(take(7, 7), c);
    cr_assert_eq(take(7, 7), b);
    struct hearth_buf *d = give(7, 4);
    cr_assert_eq(take(7, 7), d);
    cr_assert_eq(take(7, 7), a);
    cr_assert_null(take(7, 7));
}

Test(bins, smallest_sufficient_class_first, .init = start)
{
    struct hearth_buf *large = give(40, 1);
    struct hearth_buf *small = give(10, 2);
    struct hearth_buf *middle = give(20, 3);
    cr_assert_null(take(41, HEARTH__CLASS_COUNT - 1));
    cr_assert_null(take(11, 19));
    cr_assert_eq(take(9, 222), small);
    cr_assert_eq(take(9, 222), middle);
    cr_assert_null(take(9, 39), "the reuse ratio is a bound");
    cr_assert_eq(take(40, 40), large);
}

ParameterizedTestParameters(bins, every_bit_of_the_map)
{
    static unsigned classes[] = {0, 1, 62, 63, 64, 65, 126, 127, 128, 129, 191, 192, 221, 222};
    return cr_make_param_array(unsigned, classes, COUNT_OF(classes));
}

ParameterizedTest(unsigned *class_index, bins, every_bit_of_the_map, .init = start)
{
    unsigned at = *class_index;
    unsigned last = HEARTH__CLASS_COUNT - 1;
    struct hearth_buf *buf = give(at, 1);
    if (at < last)
        cr_assert_null(take(at + 1, last));
    if (at > 0)
        cr_assert_null(take(0, at - 1));
    cr_assert_eq(take(0, at), buf);
    cr_assert_null(take(0, last), "the bit is cleared with the last member");

    buf = give(at, 2);
    cr_assert_eq(take(at, last), buf);
    buf = give(at, 3);
    cr_assert_eq(evict(), buf);
    cr_assert_null(take(0, last));
    buf = give(at, 4);
    cr_assert_eq(bins.store.ops->take_largest(&bins.store), buf);
    cr_assert_null(take(0, last));
    cr_assert_null(evict());
}

Test(bins, takes_across_words_of_the_map, .init = start)
{
    struct hearth_buf *far = give(222, 1);
    struct hearth_buf *near = give(64, 2);
    cr_assert_eq(take(63, 222), near);
    cr_assert_null(take(63, 221));
    cr_assert_eq(take(63, 222), far);
}

Test(bins, evicts_by_stamp_across_classes, .init = start)
{
    struct hearth_buf *order[] = {
        give(100, 10), give(5, 11), give(100, 12), give(63, 13), give(64, 14), give(5, 15),
    };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        cr_assert_eq(evict(), order[i], "victim %zu", i);
    cr_assert_null(evict());
}

Test(bins, evicts_by_stamp_across_alignments, .init = start)
{
    add_aligned();
    struct hearth_buf *order[] = {
        give_aligned(30, 21, 1), give_aligned(30, 6, 2),  give_aligned(10, 7, 3),
        give_aligned(80, 12, 4), give_aligned(10, 12, 5), give_aligned(0, 6, 6),
    };
    for (size_t i = 0; i < COUNT_OF(order); i++)
        cr_assert_eq(evict(), order[i], "victim %zu", i);
    hearth__bins_fini(&bins);
}

Test(bins, eviction_takes_the_tail_and_reuse_the_head, .init = start)
{
    struct hearth_buf *a = give(7, 1);
    struct hearth_buf *b = give(7, 2);
    struct hearth_buf *c = give(7, 3);
    cr_assert_eq(evict(), a);
    cr_assert_eq(take(7, 7), c);
    cr_assert_eq(evict(), b);
    cr_assert_null(take(7, 7));
    struct hearth_buf *d = give(7, 4);
    cr_assert_eq(take(7, 7), d, "the list works on after it was empty");
}

Test(bins, evicts_only_what_is_old_enough, .init = start)
{
    add_aligned();
    struct hearth_buf *a = give(100, 10);
    struct hearth_buf *b = give_aligned(30, 12, 11);
    struct hearth_buf *c = give(100, 12);
    cr_assert_eq(oldest(), 10);
    cr_assert_null(evict_before(0));
    cr_assert_null(evict_before(10), "below, not at");
    cr_assert_eq(evict_before(11), a);
    cr_assert_eq(oldest(), 11);
    cr_assert_null(evict_before(11));
    cr_assert_eq(evict_before(13), b);
    cr_assert_eq(take(100, 100), c);
    cr_assert_eq(oldest(), UINT64_MAX, "what was taken is not old");
    cr_assert_null(evict_before(13));
    hearth__bins_fini(&bins);
}

Test(bins, take_largest_looks_everywhere, .init = start)
{
    add_aligned();
    struct hearth_buf *small = give_aligned(3, 21, 1);
    struct hearth_buf *first = give(90, 2);
    struct hearth_buf *largest = give_aligned(150, 13, 3);
    struct hearth_buf *second = give(90, 4);
    cr_assert_eq(bins.store.ops->take_largest(&bins.store), largest);
    cr_assert_eq(bins.store.ops->take_largest(&bins.store), second);
    cr_assert_eq(bins.store.ops->take_largest(&bins.store), first);
    cr_assert_eq(bins.store.ops->take_largest(&bins.store), small);
    cr_assert_null(bins.store.ops->take_largest(&bins.store));
    hearth__bins_fini(&bins);
}

Test(bins, alignments_have_lists_of_their_own, .init = start)
{
    add_aligned();
    struct hearth_buf *made[HEARTH__ALIGNMENT_LOG_MAX + 1];
    for (unsigned log = HEARTH__ALIGNMENT_LOG_MIN; log <= HEARTH__ALIGNMENT_LOG_MAX; log++)
        made[log] = give_aligned(50, log, log);
    assert_count(16, 16 * hearth__class_size(50));
    for (unsigned log = HEARTH__ALIGNMENT_LOG_MIN; log <= HEARTH__ALIGNMENT_LOG_MAX; log++) {
        cr_assert_eq(take_aligned(50, 50, log), made[log]);
        cr_assert_null(take_aligned(50, 50, log), "alignment 2^%u took from another list", log);
    }
    hearth__bins_fini(&bins);
}

Test(bins, the_segment_of_aligned_lists_is_recycled, .init = start)
{
    add_aligned();
    struct hearth__bin_set *sets = bins.aligned;
    (void)give_aligned(50, 10, 1);
    cr_assert_not_null(take_aligned(50, 50, 10));
    uint32_t count = hearth__segment_count();
    hearth__bins_fini(&bins);
    cr_assert_null(bins.aligned);
    hearth__bins_fini(&bins);
    memset(sets, 0xff, sizeof *sets);
    add_aligned();
    cr_assert_eq(bins.aligned, sets);
    cr_assert_eq(hearth__segment_count(), count);
    assert_count(0, 0);
    cr_assert_null(take_aligned(0, 222, 7), "recycled lists start empty");
}

Test(bins, counts_slots_and_bytes, .init = start)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < 130; i += 7) {
        (void)give(i, i);
        bytes += hearth__class_size(i);
    }
    assert_count(used, bytes);
    struct hearth_buf *gone = take(0, 0);
    cr_assert_not_null(gone);
    assert_count(used - 1, bytes - 64);
}

/* The store against a plain array, for a few thousand random steps. */
Test(bins, agrees_with_an_array, .init = start)
{
    static struct hearth_buf *kept[COUNT_OF(pool)];
    uint64_t random = 7;
    size_t count = 0;
    for (uint64_t step = 1; step < 20000; step++) {
        unsigned class_index = (unsigned)(random_next(&random) % HEARTH__CLASS_COUNT);
        if (used < COUNT_OF(pool) && random_next(&random) % 2 == 0) {
            kept[count++] = give(class_index, step);
            continue;
        }
        unsigned last = class_index + 8 < HEARTH__CLASS_COUNT ? class_index + 8 : 222;
        size_t expected = count;
        bool evicts = random_next(&random) % 4 == 0;
        bool by_age = random_next(&random) % 2 == 0;
        uint64_t age = random_next(&random) % (step < 2048 ? step : 2048);
        uint64_t before = by_age ? step - age : UINT64_MAX;
        for (size_t i = 0; i < count; i++) {
            bool fits = kept[i]->size_class >= class_index && kept[i]->size_class <= last;
            bool better = expected == count || kept[i]->size_class < kept[expected]->size_class ||
                          (kept[i]->size_class == kept[expected]->size_class &&
                           kept[i]->stamp > kept[expected]->stamp);
            bool older = expected == count || kept[i]->stamp < kept[expected]->stamp;
            if (evicts ? older : fits && better)
                expected = i;
        }
        if (evicts) {
            cr_assert_eq(oldest(), expected == count ? UINT64_MAX : kept[expected]->stamp);
            if (expected != count && kept[expected]->stamp >= before)
                expected = count;
        }
        struct hearth_buf *got = evicts ? evict_before(before) : take(class_index, last);
        cr_assert_eq(got, expected == count ? NULL : kept[expected], "step %zu", (size_t)step);
        if (got == NULL)
            continue;
        kept[expected] = kept[--count];
        /* The pool's last descriptor moves nowhere: a taken one is given again at once. */
        got->stamp = step;
        got->size_class = (uint16_t)class_index;
        hearth__store_relaxed(&got->weight, hearth__weight_of(1, hearth__class_size(class_index)));
        bins.store.ops->give(&bins.store, got);
        kept[count++] = got;
    }
    assert_size(used, COUNT_OF(pool));
}
