/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_check.h"

#include "support.h"

#include <stdlib.h>

static size_t rounded(size_t size)
{
    return (size + HEARTH__PACK_ALIGNMENT - 1) & ~(HEARTH__PACK_ALIGNMENT - 1);
}

size_t pack_peak(const struct hearth__pack_item *items, size_t count)
{
    size_t peak = 0;
    /* The peak is reached where some buffer begins. */
    for (size_t i = 0; i < count; i++) {
        size_t load = 0;
        for (size_t j = 0; j < count; j++) {
            if (items[j].begin <= items[i].begin && items[i].begin < items[j].end)
                load += rounded(items[j].size);
        }
        peak = load > peak ? load : peak;
    }
    return peak;
}

static bool meet(const struct hearth__pack_item *items, const size_t *offsets, size_t i, size_t j)
{
    bool in_time = items[i].begin < items[j].end && items[j].begin < items[i].end;
    bool in_space = offsets[i] < offsets[j] + rounded(items[j].size) &&
                    offsets[j] < offsets[i] + rounded(items[i].size);
    return in_time && in_space && items[i].size > 0 && items[j].size > 0;
}

void pack_check(const struct hearth__pack_item *items, size_t count, const size_t *offsets,
                const struct hearth__pack_report *report)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(offsets[i] % HEARTH__PACK_ALIGNMENT, 0, "offset %zu of %zu", offsets[i], i);
        if (items[i].size == 0)
            assert_size(offsets[i], 0);
        size_t top = offsets[i] + rounded(items[i].size);
        total = top > total ? top : total;
        for (size_t j = 0; j < i; j++)
            cr_assert_not(meet(items, offsets, i, j), "%zu and %zu share bytes", i, j);
    }
    assert_size(report->total, total);
    assert_size(report->bound, pack_peak(items, count));
    cr_assert_geq(report->total, report->bound);
}

struct hearth__pack_report pack_checked(const struct hearth__pack_item *items, size_t count,
                                        const struct hearth__pack_options *options)
{
    struct hearth__pack_report report;
    size_t *offsets = malloc((count + 1) * sizeof(*offsets));
    cr_assert_not_null(offsets);
    for (size_t i = 0; i <= count; i++)
        offsets[i] = SIZE_MAX;
    assert_ok(hearth__pack(items, count, options, offsets, &report));
    assert_size(offsets[count], SIZE_MAX);
    pack_check(items, count, offsets, &report);
    free(offsets);
    return report;
}

uint32_t pack_draw(uint64_t *state, uint32_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 32) * bound >> 32);
}

void pack_make_items(struct hearth__pack_item *items, size_t count, uint32_t steps, uint32_t life,
                     uint32_t size_log, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (size_t i = 0; i < count; i++) {
        uint32_t begin = pack_draw(&state, steps);
        uint32_t end = begin + 1 + pack_draw(&state, life);
        size_t size = pack_draw(&state, 1u << pack_draw(&state, size_log + 1));
        items[i] = (struct hearth__pack_item){size, begin, end < steps ? end : steps};
    }
}
