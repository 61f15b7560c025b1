/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding against a search through all classes: the smallest one that the backing lends whole, how far
 * the reuse ratio reaches, alignments, sizes that cannot be lent. */
#include "core/rounding.h"

#include "core/buf.h"
#include "support.h"

static struct hearth__rounding rounding;

/* The smallest class of at least `bytes` that is a multiple of the granule; the limit if there is none. */
static unsigned expected_class(size_t bytes, size_t granule)
{
    unsigned found = 0;
    while (found < HEARTH__CLASS_COUNT &&
           (hearth__class_size(found) < bytes || hearth__class_size(found) % granule != 0))
        found++;
    return found;
}

static unsigned expected_reach(unsigned rounded, uint32_t ratio)
{
    size_t bytes = hearth__class_size(rounded);
    unsigned reach = rounded;
    while (reach + 1 < HEARTH__CLASS_COUNT && hearth__class_size(reach + 1) / ratio <= bytes &&
           (hearth__class_size(reach + 1) / ratio < bytes ||
            hearth__class_size(reach + 1) % ratio == 0))
        reach++;
    return reach;
}

static void check(size_t size, size_t granule, uint32_t ratio)
{
    struct hearth__want want = {0};
    unsigned expected = expected_class(size, granule);
    bool can = hearth__rounding_want(&rounding, size, HEARTH__ALIGNMENT_LOG_MIN, &want);
    cr_assert_eq(can, expected < HEARTH__CLASS_COUNT, "%zu with granule %zu", size, granule);
    if (!can)
        return;
    cr_assert_eq(want.size_class, expected, "%zu with granule %zu", size, granule);
    assert_size(want.bytes, hearth__class_size(expected));
    cr_assert_eq(want.last_class, expected_reach(expected, ratio), "%zu, ratio %u", size, ratio);
    cr_assert_eq(want.alignment_log, HEARTH__ALIGNMENT_LOG_MIN);
}

TheoryDataPoints(rounding, agrees_with_a_search) = {
    DataPoints(size_t, 64, 128, 4096, 16384, 65536, 2 << 20, (size_t)1 << 40, (size_t)1 << 62),
    DataPoints(uint32_t, 1, 2, 3, 4, 7, 1024, UINT32_MAX),
};

Theory((size_t granule, uint32_t ratio), rounding, agrees_with_a_search)
{
    hearth__rounding_init(&rounding, ratio, granule);
    for (unsigned i = 0; i < HEARTH__CLASS_COUNT; i++) {
        size_t bytes = hearth__class_size(i);
        check(bytes - 1, granule, ratio);
        check(bytes, granule, ratio);
        check(bytes + 1, granule, ratio);
    }
    uint64_t random = granule + ratio;
    for (unsigned i = 0; i < 300; i++)
        check(random_next(&random) >> random_next(&random) % 64, granule, ratio);
    check(0, granule, ratio);
    check(SIZE_MAX, granule, ratio);
}

/* No class is a multiple of 2^63 bytes. */
Test(rounding, a_granule_that_nothing_fits)
{
    struct hearth__want want;
    hearth__rounding_init(&rounding, 4, (size_t)1 << 63);
    cr_assert_not(hearth__rounding_want(&rounding, 1, HEARTH__ALIGNMENT_LOG_MIN, &want));
    cr_assert_not(hearth__rounding_want(&rounding, HEARTH__CLASS_SIZE_MAX, 6, &want));
}

TheoryDataPoints(rounding, alignments) = {
    DataPoints(unsigned, 7, 9, 11, 12, 13, 16, 21),
    DataPoints(size_t, 0, 1, 64, 65, 1000, 4095, 4096, 4097, 16384, 100000, (3 << 20) + 1),
};

/* The request counts as a whole number of its alignments, of pages at most; beyond a page it is large. */
Theory((unsigned alignment_log, size_t size), rounding, alignments)
{
    struct hearth__want want;
    size_t alignment = (size_t)1 << alignment_log;
    size_t unit = alignment < 4096 ? alignment : 4096;
    size_t least = size == 0 ? 1 : size;
    hearth__rounding_init(&rounding, 4, 64);
    cr_assert(hearth__rounding_want(&rounding, size, alignment_log, &want));
    cr_assert_eq(want.alignment_log, alignment_log);
    if (alignment > 4096 && least < 16384)
        least = 16384;
    least = (least + unit - 1) / unit * unit;
    cr_assert_eq(want.size_class, expected_class(least, 64));
    assert_size(want.bytes, hearth__class_size(want.size_class));
}

Test(rounding, aligned_sizes_that_overflow)
{
    struct hearth__want want;
    hearth__rounding_init(&rounding, 4, 64);
    static const size_t beyond[] = {SIZE_MAX, SIZE_MAX - 4094, HEARTH__CLASS_SIZE_MAX + 1};
    for (unsigned log = 7; log <= HEARTH__ALIGNMENT_LOG_MAX; log++) {
        for (size_t i = 0; i < COUNT_OF(beyond); i++)
            cr_assert_not(hearth__rounding_want(&rounding, beyond[i], log, &want));
        cr_assert(hearth__rounding_want(&rounding, HEARTH__CLASS_SIZE_MAX, log, &want));
    }
}
