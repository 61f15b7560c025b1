/* SPDX-License-Identifier: Apache-2.0 */
/* Backings of users: what is checked at creation and at each acquire, references, counters, purge, and
 * the process's default backing. */
#include "core/backing.h"
#include "support.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct lender lender;
static struct hearth_backing *backing;

static void start(void)
{
    backing = lender_open(&lender);
    misuse_record();
}

Test(backing_custom, impossible_tables, .init = start)
{
    struct hearth_backing *made = NULL;
    struct hearth_backing_ops ops = lender.ops;
    assert_status(hearth_backing_create(NULL, NULL, &made), HEARTH_INVALID);
    assert_status(hearth_backing_create(&ops, NULL, NULL), HEARTH_INVALID);
    ops.size = 0;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    ops.size = sizeof ops + 8;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    ops = lender.ops;
    ops.acquire = NULL;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    ops = lender.ops;
    ops.release = NULL;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    ops = lender.ops;
    ops.flags = 2;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    ops.flags = HEARTH_BACKING_DISCARD_ZEROES;
    ops.discard = NULL;
    assert_status(hearth_backing_create(&ops, NULL, &made), HEARTH_INVALID);
    cr_assert_null(made);
}

/* The table of a program that was compiled when it ended before `flags`. */
Test(backing_custom, shorter_table, .init = start)
{
    struct hearth_backing *made = NULL;
    struct hearth_backing_ops ops = lender.ops;
    ops.size = offsetof(struct hearth_backing_ops, flags);
    ops.flags = ~UINT64_C(0); /* somebody else's memory */
    assert_status(hearth_backing_create(&ops, &lender, &made), HEARTH_OK);
    assert_size(made->ops.flags, 0);
    hearth_backing_unref(made);
}

TheoryDataPoints(backing_custom, granules) = {
    DataPoints(size_t, 0, 1, 2, 3, 32, 48, 63, 64, 65, 96, 4096, 4097, 12288, 1 << 21,
               (size_t)1 << 63, SIZE_MAX),
};

Theory((size_t granule), backing_custom, granules)
{
    struct hearth_backing *made = NULL;
    start();
    struct hearth_backing_ops ops = lender.ops;
    ops.granule = granule;
    bool fine = (granule & (granule - 1)) == 0;
    assert_status(hearth_backing_create(&ops, &lender, &made), fine ? HEARTH_OK : HEARTH_INVALID);
    if (fine)
        assert_size(made->ops.granule, granule < 64 ? 64 : granule);
    hearth_backing_unref(made);
}

/* Arenas ask in whole granules, so that what comes back fits the next request of its kind. */
Test(backing_custom, arenas_round_to_the_granule, .init = start)
{
    struct hearth_backing *coarse = NULL;
    struct hearth_backing_ops ops = lender.ops;
    ops.granule = 64 * KIB;
    assert_ok(hearth_backing_create(&ops, &lender, &coarse));
    struct hearth_exec *arena = exec_open(coarse, 0, 0);
    struct hearth_buf *small = exec_take(arena, 1);
    assert_size(lender.last_bytes, 64 * KIB);
    assert_ok(hearth_exec_free(arena, small));
    cr_assert_eq(exec_take(arena, 60 * KIB), small);
    assert_size(lender.acquires, 1);
    (void)exec_take(arena, 66 * KIB);
    assert_size(lender.last_bytes, 128 * KIB);
    (void)exec_take(arena, 129 * KIB);
    assert_size(lender.last_bytes, 192 * KIB);
}

/* Creation of an arena over it is possible, but no size can be rounded to such a granule. */
Test(backing_custom, an_absurd_granule_overflows, .init = start)
{
    struct hearth_backing *absurd = NULL;
    struct hearth_buf *buf = NULL;
    struct hearth_backing_ops ops = lender.ops;
    ops.granule = (size_t)1 << 63;
    assert_ok(hearth_backing_create(&ops, &lender, &absurd));
    struct hearth_exec *arena = exec_open(absurd, 0, 0);
    assert_status(hearth_exec_alloc(arena, 1, &buf), HEARTH_OVERFLOW);
    assert_size(lender.acquires, 0);
}

static void assert_refused(void)
{
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    struct hearth_buf *buf = NULL;
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    size_t lent_before = lender.lent;
    assert_status(hearth_exec_alloc(arena, 1000, &buf), HEARTH_NO_MEMORY);
    cr_assert_null(buf);
    cr_assert_geq(misuse_seen.count, 1);
    cr_assert_str_eq(misuse_seen.call, "lender");
    assert_size(lender.lent, lent_before);
    assert_size(hearth_backing_footprint(backing), 0);
    assert_ok(hearth_backing_stats(backing, &stats));
    cr_assert_geq(stats.acquire_failures, 1);
    cr_assert_eq(stats.acquire_failures, stats.acquire_calls);
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(hearth_exec_footprint(arena), 0);
    lender.shorten = lender.misplace = 0;
    lender.lend_null = false;
    buf = exec_take(arena, 1000);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.lent, 0);
}

Test(backing_custom, too_short_is_refused, .init = start)
{
    lender.shorten = 1;
    assert_refused();
}

Test(backing_custom, misaligned_is_refused, .init = start)
{
    lender.misplace = 32;
    assert_refused();
}

Test(backing_custom, no_multiple_of_the_granule_is_refused, .init = start)
{
    struct hearth_segment segment;
    lender.lengthen = 32;
    assert_status(hearth__backing_acquire(backing, 64, 64, &segment), HEARTH_NO_MEMORY);
    assert_size(misuse_seen.count, 1);
    assert_size(lender.lent, 0);
}

/* Whatever is asked, the backing hears of whole granules. */
Test(backing_custom, requests_are_rounded_to_the_granule, .init = start)
{
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 1, 64, &segment));
    assert_size(lender.last_bytes, 64);
    assert_ok(hearth__backing_acquire(backing, 65, 64, &segment));
    assert_size(lender.last_bytes, 128);
    static const size_t beyond[] = {SIZE_MAX, SIZE_MAX - 62, (size_t)PTRDIFF_MAX + 1, PTRDIFF_MAX};
    for (size_t i = 0; i < COUNT_OF(beyond); i++)
        assert_status(hearth__backing_acquire(backing, beyond[i], 64, &segment), HEARTH_NO_MEMORY);
    assert_size(lender.acquires, 2);
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    cr_assert_eq(stats.acquire_calls, 6);
    cr_assert_eq(stats.acquire_failures, 4);
}

Test(backing_custom, nothing_is_refused, .init = start)
{
    lender.lend_null = true;
    assert_refused();
}

Test(backing_custom, less_aligned_than_asked_is_refused, .init = start)
{
    struct hearth_segment segment;
    lender.misplace = 64;
    assert_status(hearth__backing_acquire(backing, 64, 128, &segment), HEARTH_NO_MEMORY);
    assert_ok(hearth__backing_acquire(backing, 64, 64, &segment));
    hearth__backing_release(backing, &segment);
    assert_size(misuse_seen.count, 1);
}

Test(backing_custom, more_than_asked_is_charged, .init = start)
{
    lender.lengthen = 78 * 64;
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    struct hearth_buf *buf = exec_take(arena, 1000);
    assert_size(hearth_buf_capacity(buf), 6016);
    assert_size(hearth_exec_live_capacity(arena), 6016);
    assert_size(hearth_exec_footprint(arena), 6016);
    assert_size(hearth_backing_footprint(backing), 6016);
    assert_ok(hearth_exec_free(arena, buf));
    assert_size(hearth_exec_retained_bytes(arena), 6016);
    cr_assert_eq(exec_take(arena, 5120), buf, "it serves the largest class that it holds");
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.lent, 0);
    assert_size(lender.wrong_cookies, 0);
}

static enum hearth_status odd_answer(void *context, size_t bytes, size_t alignment,
                                     struct hearth_segment *segment)
{
    (void)context, (void)bytes, (void)alignment, (void)segment;
    return HEARTH_BUSY;
}

Test(backing_custom, other_answers_become_no_memory, .init = start)
{
    struct hearth_backing *odd = NULL;
    struct hearth_segment segment;
    struct hearth_backing_ops ops = lender.ops;
    ops.acquire = odd_answer;
    assert_ok(hearth_backing_create(&ops, &lender, &odd));
    assert_status(hearth__backing_acquire(odd, 64, 64, &segment), HEARTH_NO_MEMORY);
}

Test(backing_custom, destroyed_once_after_the_last_reference, .init = start)
{
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    struct hearth_exec *detached = exec_open(backing, 0, 0);
    struct hearth_buf *buf = exec_take(detached, 100);
    hearth_backing_ref(backing);
    hearth_backing_ref(NULL);
    hearth_backing_unref(NULL);
    hearth_backing_unref(backing);
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 0);
    assert_ok(hearth_exec_destroy(arena));
    assert_ok(hearth_exec_detach(detached, NULL));
    assert_size(lender.destroys, 0);
    assert_ok(hearth_exec_free(detached, buf));
    assert_size(lender.destroys, 1);
    assert_size(lender.lent, 0);
}

Test(backing_custom, optional_members_may_be_missing, .init = start)
{
    struct hearth_backing *bare = NULL;
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .acquire = lender.ops.acquire,
        .release = lender.ops.release,
    };
    assert_ok(hearth_backing_create(&ops, &lender, &bare));
    cr_assert_not_null(hearth_backing_name(bare));
    assert_size(hearth_backing_purge(bare), 0);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(bare, 8192, 64, &segment));
    assert_size(hearth__backing_discard(bare, segment.base, segment.length), 0);
    hearth__backing_release(bare, &segment);
    assert_ok(hearth_backing_stats(bare, &stats));
    cr_assert_eq(stats.page_events, 0);
    cr_assert_eq(stats.purge_calls, 0);
    hearth_backing_unref(bare);
    assert_size(lender.destroys, 0);
}

Test(backing_custom, stats_write_no_more_than_the_caller_knows, .init = start)
{
    struct hearth_backing_stats stats;
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 64, 64, &segment));
    memset(&stats, 0x77, sizeof stats);
    stats.size = offsetof(struct hearth_backing_stats, release_calls);
    assert_ok(hearth_backing_stats(backing, &stats));
    assert_size(stats.size, offsetof(struct hearth_backing_stats, release_calls));
    cr_assert_eq(stats.acquire_calls, 1);
    cr_assert_eq(stats.acquire_failures, 0);
    cr_assert_eq(stats.release_calls, 0x7777777777777777);
    stats.size = 0;
    assert_status(hearth_backing_stats(backing, &stats), HEARTH_INVALID);
    assert_status(hearth_backing_stats(NULL, &stats), HEARTH_INVALID);
    assert_status(hearth_backing_stats(backing, NULL), HEARTH_INVALID);
    assert_size(hearth_backing_footprint(NULL), 0);
    assert_size(hearth_backing_purge(NULL), 0);
}

Test(backing_custom, the_zero_flag_saves_the_clearing)
{
    backing = lender_open(&lender);
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    const struct hearth_request zeroed = {.size = 1000, .zero = true};
    struct hearth_buf *buf = NULL;
    for (unsigned round = 0; round < 3; round++) {
        lender.flags = round == 0 ? 0 : HEARTH_SEGMENT_ZERO;
        assert_ok(hearth_exec_alloc_ex(arena, &zeroed, &buf));
        const unsigned char *data = hearth_buf_data(buf);
        for (size_t i = 0; i < 1000; i++)
            cr_assert_eq(data[i], 0, "byte %zu of round %u", i, round);
        memset(hearth_buf_data(buf), 0xff, 1000);
        assert_ok(hearth_exec_free(arena, buf));
        if (round == 0)
            assert_ok(hearth_exec_trim(arena, NULL));
    }
}

Test(backing_custom, the_default_is_one_and_stays)
{
    struct hearth_backing *first = NULL;
    struct hearth_backing *second = NULL;
    (void)unsetenv("HEARTH_CONF");
    assert_ok(hearth_backing_default(&first));
    assert_ok(hearth_backing_default(&second));
    cr_assert_eq(first, second);
    assert_status(hearth_backing_default(NULL), HEARTH_INVALID);
    struct hearth_exec *arena = NULL;
    assert_ok(hearth_exec_create(NULL, &arena));
    struct hearth_buf *buf = exec_take(arena, 100);
    cr_assert_gt(hearth_backing_footprint(first), 0);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_destroy(arena));
    assert_size(hearth_backing_footprint(first), 0);
    assert_ok(hearth_backing_default(&second));
    cr_assert_eq(first, second);
}
