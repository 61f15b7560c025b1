/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot: every figure after a scripted run, versions of the struct, consistency. */
#include "concurrent/exec.h"
#include "support.h"

#include <hearth/stats.h>

#include <string.h>

Test(exec_stats, every_figure_of_a_scripted_run)
{
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 50, 5120);
    misuse_record();
    struct hearth_buf *a = exec_take(arena, 1000);
    struct hearth_buf *b = exec_take(arena, 2000);
    struct hearth_buf *c = exec_take(arena, 4000);
    struct hearth_buf *d = exec_take(arena, 10000);
    assert_ok(hearth_exec_free(arena, a));
    assert_status(hearth_exec_free(arena, a), HEARTH_STALE);
    cr_assert_eq(exec_take(arena, 900), a);
    assert_ok(hearth_exec_free(arena, d)); /* larger than the cap: a bypass */
    assert_ok(hearth_exec_free(arena, b));
    assert_ok(hearth_exec_free(arena, c)); /* evicts b */
    free_elsewhere(arena, &a, 1);
    cr_assert_eq(exec_take(arena, 3500), c);
    struct hearth_buf *e = exec_take(arena, 100);
    free_elsewhere(arena, &e, 1);

    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    assert_ok(hearth_exec_stats(arena, &now));
    cr_assert(now.consistent);
    cr_assert_eq(now.live_count, 1);
    cr_assert_eq(now.live_bytes, 3500);
    cr_assert_eq(now.live_capacity, 4096);
    cr_assert_eq(now.peak_bytes, 17000);
    cr_assert_eq(now.retained_count, 1);
    cr_assert_eq(now.retained_bytes, 1024);
    cr_assert_eq(now.pending_count, 1);
    cr_assert_eq(now.pending_bytes, 128);
    cr_assert_eq(now.footprint, 4096 + 1024 + 128);
    cr_assert_eq(now.retention_cap, 5120);
    cr_assert_eq(now.slots, 50);
    cr_assert_eq(now.allocs, 7);
    cr_assert_eq(now.frees, 6);
    cr_assert_eq(now.remote_frees, 2);
    cr_assert_eq(now.hits, 2);
    cr_assert_eq(now.misses, 5);
    cr_assert_eq(now.backing_acquires, 5);
    cr_assert_eq(now.backing_releases, 2);
    cr_assert_eq(now.evictions, 1);
    cr_assert_eq(now.bypasses, 1);
    cr_assert_eq(now.trims, 0);
    cr_assert_eq(now.misuses, 1);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_ok(hearth_exec_stats(arena, &now));
    cr_assert_eq(now.trims, 1);
    cr_assert_eq(now.pending_count, 0);
    cr_assert_eq(now.footprint, 4096);
}

Test(exec_stats, is_not_consistent_in_the_middle_of_an_operation)
{
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    (void)exec_take(arena, 100);
    hearth__section_resume(&arena->section);
    assert_ok(hearth_exec_stats(arena, &now));
    cr_assert_not(now.consistent);
    cr_assert_eq(now.live_bytes, 100, "the figures are given out all the same");
    hearth__exec_leave(arena);
    assert_ok(hearth_exec_stats(arena, &now));
    cr_assert(now.consistent);
}

Test(exec_stats, writes_no_more_than_the_caller_knows)
{
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_exec_stats now;
    memset(&now, 0x77, sizeof now);
    now.size = offsetof(struct hearth_exec_stats, live_capacity);
    assert_ok(hearth_exec_stats(arena, &now));
    cr_assert_eq(now.live_bytes, 0);
    cr_assert_eq(now.live_capacity, 0x7777777777777777);
    assert_size(now.size, offsetof(struct hearth_exec_stats, live_capacity));
    now.size = 0;
    assert_status(hearth_exec_stats(arena, &now), HEARTH_INVALID);
    assert_status(hearth_exec_stats(NULL, &now), HEARTH_INVALID);
    assert_status(hearth_exec_stats(arena, NULL), HEARTH_INVALID);
}
