/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packer against an oracle that looks at all pairs: edges of the problem, random runs, the best layout of
 * few buffers by trying all orders, the same result in one call and in slices, budgets. Recorded runs
 * are in test_pack_traces.c. Not covered: how long a unit of work takes, see bench_pack.
 */
#include "pack_check.h"
#include "support.h"

#include "core/clock.h"
#include "core/pack.h"

#include <stdlib.h>
#include <string.h>

#define UNIT HEARTH__PACK_ALIGNMENT

static bool malloc_fails;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return malloc_fails ? NULL : __real_malloc(size);
}

Test(pack, nothing_takes_nothing)
{
    struct hearth__pack_report report = {.total = 1, .bound = 1};
    assert_ok(hearth__pack(NULL, 0, NULL, NULL, &report));
    assert_size(report.total, 0);
    assert_size(report.bound, 0);
    cr_assert_eq(report.method, HEARTH__PACK_NONE);
    assert_ok(hearth__pack(NULL, 0, NULL, NULL, NULL));
}

Test(pack, buffers_without_bytes_lie_at_zero)
{
    const struct hearth__pack_item items[] = {{0, 0, 9}, {1, 1, 2}, {0, 1, 3}, {65, 1, 2}};
    struct hearth__pack_report report = pack_checked(items, COUNT_OF(items), NULL);
    assert_size(report.total, 3 * UNIT);
    report = pack_checked(items, 1, NULL);
    assert_size(report.total, 0);
}

Test(pack, an_end_makes_room_for_a_begin_of_the_same_step)
{
    const struct hearth__pack_item follow[] = {{64, 0, 5}, {64, 5, 6}, {64, 6, UINT32_MAX}};
    assert_size(pack_checked(follow, COUNT_OF(follow), NULL).total, UNIT);
    const struct hearth__pack_item meet[] = {{64, 0, 5}, {64, 4, 6}};
    assert_size(pack_checked(meet, COUNT_OF(meet), NULL).total, 2 * UNIT);
    const struct hearth__pack_item backward[] = {{64, 6, 7}, {64, 5, 6}, {64, 0, 5}};
    assert_size(pack_checked(backward, COUNT_OF(backward), NULL).total, UNIT);
}

Test(pack, equal_lives_are_stacked)
{
    struct hearth__pack_item items[100];
    size_t sum = 0;
    for (size_t i = 0; i < COUNT_OF(items); i++) {
        items[i] = (struct hearth__pack_item){(i + 1) * UNIT, 7, 8};
        sum += items[i].size;
    }
    assert_size(pack_checked(items, COUNT_OF(items), NULL).total, sum);
    for (size_t i = 0; i < COUNT_OF(items); i++)
        items[i] = (struct hearth__pack_item){UNIT, 0, UINT32_MAX};
    assert_size(pack_checked(items, COUNT_OF(items), NULL).total, 100 * UNIT);
}

Test(pack, a_life_of_no_step_is_refused)
{
    size_t offsets[2] = {5, 6};
    struct hearth__pack_report report = {.total = 7};
    const struct hearth__pack_item empty[] = {{1, 0, 1}, {1, 3, 3}};
    assert_status(hearth__pack(empty, 2, NULL, offsets, &report), HEARTH_INVALID);
    const struct hearth__pack_item negative[] = {{1, 0, 1}, {0, 3, 2}};
    assert_status(hearth__pack(negative, 2, NULL, offsets, &report), HEARTH_INVALID);
    assert_size(offsets[0], 5);
    assert_size(report.total, 7);
}

Test(pack, too_many_bytes_are_refused)
{
    size_t offsets[2] = {5, 6};
    struct hearth__pack_item items[] = {{HEARTH__PACK_TOTAL_MAX + 1, 0, 1}, {1, 1, 2}};
    assert_status(hearth__pack(items, 2, NULL, offsets, NULL), HEARTH_OVERFLOW);
    items[0].size = SIZE_MAX;
    assert_status(hearth__pack(items, 2, NULL, offsets, NULL), HEARTH_OVERFLOW);
    items[0].size = HEARTH__PACK_TOTAL_MAX;
    items[1].begin = 0;
    assert_status(hearth__pack(items, 2, NULL, offsets, NULL), HEARTH_OVERFLOW);
    assert_size(offsets[0], 5);
    items[1].begin = 1;
    assert_size(pack_checked(items, 2, NULL).total, HEARTH__PACK_TOTAL_MAX);
    items[0].size -= UNIT;
    items[1].begin = 0;
    assert_size(pack_checked(items, 2, NULL).total, HEARTH__PACK_TOTAL_MAX);
}

Test(pack, sums_over_a_run_may_be_greater_than_a_slab)
{
    struct hearth__pack_item items[16];
    for (uint32_t i = 0; i < COUNT_OF(items); i++)
        items[i] = (struct hearth__pack_item){HEARTH__PACK_TOTAL_MAX, i, i + 1};
    assert_size(pack_checked(items, COUNT_OF(items), NULL).total, HEARTH__PACK_TOTAL_MAX);
    for (uint32_t i = 0; i < COUNT_OF(items); i++)
        items[i].end = 16;
    size_t offsets[16];
    assert_status(hearth__pack(items, 16, NULL, offsets, NULL), HEARTH_OVERFLOW);
}

Test(pack, too_many_buffers_and_no_memory)
{
    assert_size(hearth__packer_bytes(HEARTH__PACK_COUNT_MAX + 1), 0);
    assert_size(hearth__packer_bytes(SIZE_MAX), 0);
    cr_assert_gt(hearth__packer_bytes(HEARTH__PACK_COUNT_MAX), HEARTH__PACK_COUNT_MAX);
    assert_status(hearth__pack(NULL, HEARTH__PACK_COUNT_MAX + 1, NULL, NULL, NULL),
                  HEARTH_OVERFLOW);
    const struct hearth__pack_item item = {1, 0, 1};
    size_t offset = 5;
    malloc_fails = true;
    enum hearth_status status = hearth__pack(&item, 1, NULL, &offset, NULL);
    malloc_fails = false;
    assert_status(status, HEARTH_NO_MEMORY);
    assert_size(offset, 5);
}

/* Counts, lives and sizes of all orders of magnitude. */
Test(pack, random_runs_are_laid_out_right)
{
    static struct hearth__pack_item items[700];
    uint64_t state = 1;
    for (uint64_t seed = 0; seed < 400; seed++) {
        size_t count = 1 + pack_draw(&state, seed % 20 == 0 ? COUNT_OF(items) : 60);
        uint32_t steps = 1 + pack_draw(&state, 1u << pack_draw(&state, 12));
        uint32_t life = 1 + pack_draw(&state, steps);
        pack_make_items(items, count, steps, life, pack_draw(&state, 25), seed);
        struct hearth__pack_options options = {.work = 1u << pack_draw(&state, 18), .seed = seed};
        pack_checked(items, count, &options);
    }
}

/* The lowest total of all orders of the buffers, each at the lowest gap: some order gives the best layout.
 * Heap's way through the orders, without recursion. */
struct orders {
    size_t order[6];
    size_t counters[6];
    size_t at;
};

static bool next_order(struct orders *orders, size_t count)
{
    while (orders->at < count) {
        size_t *counter = &orders->counters[orders->at];
        if (*counter < orders->at) {
            size_t other = orders->at % 2 == 0 ? 0 : *counter;
            size_t kept = orders->order[other];
            orders->order[other] = orders->order[orders->at];
            orders->order[orders->at] = kept;
            ++*counter;
            orders->at = 1;
            return true;
        }
        *counter = 0;
        orders->at++;
    }
    return false;
}

static size_t total_in_order(const struct hearth__pack_item *items, size_t count,
                             const size_t *order)
{
    size_t offsets[6];
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const struct hearth__pack_item *item = &items[order[i]];
        size_t offset = 0;
        for (size_t j = 0; j < i; j++) {
            const struct hearth__pack_item *other = &items[order[j]];
            bool meet = item->begin < other->end && other->begin < item->end;
            if (meet && offset < offsets[j] + other->size && offsets[j] < offset + item->size) {
                offset = offsets[j] + other->size;
                j = SIZE_MAX; /* from the start again */
            }
        }
        offsets[i] = offset;
        total = offset + item->size > total ? offset + item->size : total;
    }
    return total;
}

Test(pack, few_buffers_are_laid_out_as_well_as_can_be)
{
    size_t best_ones = 0;
    enum { RUNS = 500 };
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        struct hearth__pack_item items[6];
        pack_make_items(items, 6, 6, 3, 0, seed);
        uint64_t state = seed;
        for (size_t i = 0; i < 6; i++)
            items[i].size = UNIT * (1 + pack_draw(&state, 6));
        struct orders orders = {.order = {0, 1, 2, 3, 4, 5}, .at = 1};
        size_t best = total_in_order(items, 6, orders.order);
        while (next_order(&orders, 6)) {
            size_t total = total_in_order(items, 6, orders.order);
            best = total < best ? total : best;
        }
        const struct hearth__pack_options options = {.work = 20000};
        size_t total = pack_checked(items, 6, &options).total;
        cr_assert_geq(total, best);
        best_ones += total == best;
    }
    cr_assert_geq(best_ones, RUNS, "%zu of %d", best_ones, RUNS);
}

static struct hearth__pack_item many[10000];

/* Step by step; answers the number of slices. */
static size_t pack_in_slices(size_t count, const struct hearth__pack_options *options,
                             uint64_t slice, size_t *offsets, struct hearth__pack_report *report)
{
    size_t bytes = hearth__packer_bytes(count);
    char *memory = malloc(bytes);
    cr_assert_not_null(memory);
    memset(memory, 0x5a, bytes);
    struct hearth__packer *packer;
    assert_ok(hearth__packer_init(memory, many, count, options, &packer));
    assert_status(hearth__packer_layout(packer, offsets, report), HEARTH_BUSY);
    size_t slices = 1;
    while (!hearth__packer_step(packer, slice))
        slices++;
    cr_assert(hearth__packer_step(packer, slice), "the end is the end");
    assert_ok(hearth__packer_layout(packer, offsets, report));
    free(memory);
    return slices;
}

Test(pack, slices_give_what_one_call_gives)
{
    enum { COUNT = 300 };
    static const uint64_t slices[] = {0, 1, 100, 12345, UINT64_MAX};
    for (uint64_t seed = 0; seed < 10; seed++) {
        pack_make_items(many, COUNT, 500, 100, 20, seed);
        const struct hearth__pack_options options = {.work = 600000, .seed = seed};
        struct hearth__pack_report expected;
        size_t offsets[COUNT];
        assert_ok(hearth__pack(many, COUNT, &options, offsets, &expected));
        for (size_t i = 0; i < COUNT_OF(slices); i++) {
            struct hearth__pack_report report;
            size_t others[COUNT];
            size_t count = pack_in_slices(COUNT, &options, slices[i], others, &report);
            cr_assert(slices[i] > 100 || count > 10, "%zu slices", count);
            cr_assert_arr_eq(others, offsets, sizeof(offsets));
            cr_assert_eq(report.work, expected.work);
            cr_assert_eq(report.passes, expected.passes);
            cr_assert_eq(report.method, expected.method);
            assert_size(report.total, expected.total);
        }
    }
}

Test(pack, more_work_is_never_worse)
{
    pack_make_items(many, 200, 300, 300, 20, 2);
    size_t least = SIZE_MAX;
    for (uint64_t work = 1; work < 20000000; work *= 4) {
        const struct hearth__pack_options options = {.work = work};
        struct hearth__pack_report report = pack_checked(many, 200, &options);
        cr_assert_leq(report.total, least, "%zu after %zu", report.total, least);
        least = report.total;
    }
}

Test(pack, what_is_there_never_gets_worse)
{
    enum { COUNT = 400 };
    pack_make_items(many, COUNT, 600, 600, 13, 3);
    void *memory = malloc(hearth__packer_bytes(COUNT));
    cr_assert_not_null(memory);
    const struct hearth__pack_options options = {.work = 4000000};
    struct hearth__packer *packer;
    assert_ok(hearth__packer_init(memory, many, COUNT, &options, &packer));
    size_t least = SIZE_MAX;
    size_t layouts = 0;
    for (bool done = false; !done;) {
        done = hearth__packer_step(packer, 10000);
        size_t offsets[COUNT];
        struct hearth__pack_report report;
        if (hearth__packer_layout(packer, offsets, &report) == HEARTH_BUSY)
            continue;
        pack_check(many, COUNT, offsets, &report);
        cr_assert_leq(report.total, least, "%zu after %zu", report.total, least);
        layouts += report.total < least;
        least = report.total;
    }
    cr_assert_gt(layouts, 2, "the run is a hard one");
    free(memory);
}

Test(pack, what_is_accepted_ends_the_work)
{
    pack_make_items(many, 400, 600, 600, 20, 3);
    struct hearth__pack_options options = {.work = 3000000};
    struct hearth__pack_report best = pack_checked(many, 400, &options);
    cr_assert_gt(best.total, best.bound, "the run is a hard one");
    options.accept = 200;
    struct hearth__pack_report good = pack_checked(many, 400, &options);
    cr_assert_leq(good.total, good.bound + good.bound / 5);
    cr_assert_lt(good.work, best.work);
    options.accept = UINT32_MAX;
    cr_assert_eq(pack_checked(many, 400, &options).passes, 1);
}

Test(pack, a_deadline_ends_the_work_once_there_is_a_layout)
{
    pack_make_items(many, 400, 600, 600, 20, 3);
    struct hearth__pack_options options = {.work = UINT64_MAX, .deadline_ns = 1};
    cr_assert_leq(pack_checked(many, 400, &options).passes, 2);
    options.deadline_ns = hearth__now_ns() + 20000000;
    cr_assert_gt(pack_checked(many, 400, &options).passes, 2);
}

/* One pass, whatever the runs look like; the work is an upper bound for all of them. */
Test(pack, ten_thousand_buffers)
{
    static const uint32_t lives[] = {1, 4, 100, 20000};
    for (size_t i = 0; i < COUNT_OF(lives); i++) {
        pack_make_items(many, COUNT_OF(many), 20000, lives[i], 22, i);
        const struct hearth__pack_options options = {.work = 1};
        struct hearth__pack_report report = pack_checked(many, COUNT_OF(many), &options);
        cr_assert_lt(report.work, 10000000, "%zu units", (size_t)report.work);
        cr_assert_lt((double)report.total, 1.25 * (double)report.bound);
    }
}
