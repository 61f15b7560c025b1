/* SPDX-License-Identifier: Apache-2.0 */
/* The backing that fails on purpose: which acquires fail, what passes through. */
#include "core/backing.h"
#include "support.h"

static struct lender lender;
static struct hearth_backing *inner;
static struct hearth_backing *backing;

static void start(void)
{
    inner = lender_open(&lender);
    assert_ok(hearth_backing_create_failing(inner, &backing));
}

/* Ten acquires as a string: '.' for one that succeeded, 'x' for one that failed. */
static const char *ten(void)
{
    static char seen[11];
    for (unsigned i = 0; i < 10; i++) {
        struct hearth_segment segment;
        enum hearth_status status = hearth__backing_acquire(backing, 64, 64, &segment);
        seen[i] = status == HEARTH_OK ? '.' : 'x';
        if (status == HEARTH_OK)
            hearth__backing_release(backing, &segment);
        else
            cr_assert_eq(status, HEARTH_NO_MEMORY);
    }
    return seen;
}

Test(backing_failing, fails_exactly_what_it_is_told, .init = start)
{
    static const struct {
        uint64_t nth;
        uint64_t count;
        const char *expected;
    } cases[] = {
        {0, 0, ".........."},          {1, 1, "x........."},
        {3, 1, "..x......."},          {4, 3, "...xxx...."},
        {10, 1, ".........x"},         {11, 1, ".........."},
        {0, 5, ".........."},          {2, 0, ".........."},
        {2, UINT64_MAX, ".xxxxxxxxx"}, {UINT64_MAX, UINT64_MAX, ".........."},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_ok(hearth_backing_fail(backing, cases[i].nth, cases[i].count));
        cr_assert_str_eq(ten(), cases[i].expected, "nth %llu, count %llu",
                         (unsigned long long)cases[i].nth, (unsigned long long)cases[i].count);
    }
}

Test(backing_failing, the_inner_backing_never_hears_of_it, .init = start)
{
    struct hearth_segment segment;
    assert_ok(hearth_backing_fail(backing, 1, 2));
    assert_status(hearth__backing_acquire(backing, 64, 64, &segment), HEARTH_NO_MEMORY);
    assert_status(hearth__backing_acquire(backing, 64, 64, &segment), HEARTH_NO_MEMORY);
    assert_size(lender.acquires, 0);
    assert_ok(hearth__backing_acquire(backing, 640, 128, &segment));
    assert_size(lender.acquires, 1);
    assert_size(lender.last_bytes, 640);
    assert_size(lender.last_alignment, 128);
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    cr_assert_eq(stats.acquire_calls, 3);
    cr_assert_eq(stats.acquire_failures, 2);
    cr_assert_eq(stats.acquired_bytes, 640);
    cr_assert_eq(stats.page_events, 1, "page figures come from within");
    assert_size(hearth_backing_footprint(inner), 640);
    hearth__backing_release(backing, &segment);
    assert_size(hearth_backing_footprint(inner), 0);
    assert_size(lender.wrong_cookies, 0);
    assert_size(hearth_backing_purge(backing), 4096);
    assert_size(lender.purges, 1);
}

Test(backing_failing, discard_passes_through, .init = start)
{
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 8192, 64, &segment));
    assert_size(hearth__backing_discard(backing, (char *)segment.base + 64, 4096), 4096);
    assert_size(lender.discards, 1);
    assert_size(lender.discarded, 4096);
    assert_size(hearth__backing_discard(backing, segment.base, 0), 0);
    assert_size(lender.discards, 1);
    hearth__backing_release(backing, &segment);
}

Test(backing_failing, a_refusal_within_is_passed_on, .init = start)
{
    struct hearth_segment segment;
    lender.budget = 100;
    assert_status(hearth__backing_acquire(backing, 128, 64, &segment), HEARTH_NO_MEMORY);
    assert_size(hearth_backing_footprint(backing), 0);
}

Test(backing_failing, holds_a_reference, .init = start)
{
    hearth_backing_unref(inner);
    assert_size(lender.destroys, 0);
    cr_assert_str_eq(ten(), "..........");
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 1);
}

Test(backing_failing, takes_over_the_granule)
{
    struct hearth_backing *pages = mmap_open();
    assert_ok(hearth_backing_create_failing(pages, &backing));
    cr_assert_str_eq(hearth_backing_name(backing), "failing");
    assert_size(backing->ops.granule, pages->ops.granule);
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    struct hearth_buf *buf = exec_take(arena, 100);
    assert_size(hearth_buf_capacity(buf), 4096);
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert_eq(exec_take(arena, 4000), buf, "one granule serves all of its sizes");
}

Test(backing_failing, only_failing_backings_can_be_told, .init = start)
{
    assert_status(hearth_backing_fail(inner, 1, 1), HEARTH_INVALID);
    assert_status(hearth_backing_fail(NULL, 1, 1), HEARTH_INVALID);
    assert_status(hearth_backing_create_failing(NULL, &backing), HEARTH_INVALID);
    assert_status(hearth_backing_create_failing(inner, NULL), HEARTH_INVALID);
}
