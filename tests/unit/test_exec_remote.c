/* SPDX-License-Identifier: Apache-2.0 */
/* Returns by other threads: pending figures, the bounded drain, stale and riding returns. */
#include "concurrent/exec.h"
#include "support.h"

#include <hearth/stats.h>

static struct lender lender;
static struct hearth_exec *arena;

static void start(void)
{
    arena = exec_open(lender_open(&lender), 0, 0);
    misuse_record();
}

static uint64_t misuses(void)
{
    struct hearth_exec_stats stats = HEARTH_EXEC_STATS_INIT;
    assert_ok(hearth_exec_stats(arena, &stats));
    return stats.misuses;
}

Test(exec_remote, pending_until_the_owner_comes, .init = start)
{
    struct hearth_buf *bufs[3] = {exec_take(arena, 100), exec_take(arena, 200),
                                  exec_take(arena, 1000)};
    free_elsewhere(arena, bufs, 3);
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(hearth_exec_live_bytes(arena), 0);
    assert_size(hearth_exec_live_capacity(arena), 0);
    assert_size(hearth_exec_pending_count(arena), 3);
    assert_size(hearth_exec_pending_bytes(arena), 128 + 256 + 1024);
    assert_size(hearth_exec_retained_bytes(arena), 0);
    assert_size(hearth_exec_footprint(arena), 128 + 256 + 1024);
    assert_sound(arena);
    cr_assert_eq(exec_take(arena, 200), bufs[1], "what others returned is reused");
    assert_size(lender.acquires, 3);
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_size(hearth_exec_retained_count(arena), 2);
    assert_size(hearth_exec_live_bytes(arena), 200);
    assert_sound(arena);
}

Test(exec_remote, one_allocation_takes_in_at_most_sixteen, .init = start)
{
    struct hearth_buf *bufs[40];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 64);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    static const size_t left[] = {24, 8, 0, 0};
    for (size_t i = 0; i < COUNT_OF(left); i++) {
        (void)exec_take(arena, 64);
        assert_size(hearth_exec_pending_count(arena), left[i]);
        assert_size(hearth_exec_pending_bytes(arena), 64 * left[i]);
        assert_size(hearth_exec_live_count(arena), i + 1);
        assert_size(hearth_exec_retained_count(arena), 40 - left[i] - (i + 1));
        assert_sound(arena);
    }
    assert_size(lender.acquires, 40);
}

Test(exec_remote, a_backlog_and_new_returns_are_both_pending, .init = start)
{
    struct hearth_buf *bufs[20];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 64);
    struct hearth_buf *other = exec_take(arena, 6400);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    (void)exec_take(arena, 64);
    assert_size(hearth_exec_pending_count(arena), 4);
    free_elsewhere(arena, &other, 1);
    assert_size(hearth_exec_pending_count(arena), 5);
    assert_size(hearth_exec_pending_bytes(arena), 4 * 64 + 7168);
    assert_sound(arena);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_size(hearth_exec_footprint(arena), 64);
    assert_sound(arena);
}

/* exec.h: a return "is taken in by the owner's next operations", hits included: also one that was
 * queued while the owner worked off a backlog that a drain emptied exactly. */
Test(exec_remote, no_return_is_forgotten_behind_a_backlog, .init = start)
{
    struct hearth_buf *bufs[32];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 64);
    struct hearth_buf *other = exec_take(arena, 6400);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    (void)exec_take(arena, 64);
    assert_size(hearth_exec_pending_count(arena), 16);
    free_elsewhere(arena, &other, 1);
    for (unsigned i = 0; i < 3; i++)
        (void)exec_take(arena, 64);
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_sound(arena);
}

/* A return by the owner takes in as much as an allocation does. */
Test(exec_remote, the_owners_returns_drain_too, .init = start)
{
    struct hearth_buf *bufs[20];
    struct hearth_buf *own[3] = {exec_take(arena, 64), exec_take(arena, 64), exec_take(arena, 64)};
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 64);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    static const size_t left[] = {4, 0, 0};
    for (size_t i = 0; i < COUNT_OF(own); i++) {
        assert_ok(hearth_exec_free(arena, own[i]));
        assert_size(hearth_exec_pending_count(arena), left[i]);
        assert_sound(arena);
    }
    assert_size(hearth_exec_retained_count(arena), 23);
}

Test(exec_remote, a_miss_drains_everything_before_it_asks_the_backing, .init = start)
{
    struct hearth_buf *wanted = exec_take(arena, 64 * KIB);
    struct hearth_buf *bufs[100];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 64);
    free_elsewhere(arena, &wanted, 1);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    cr_assert_eq(exec_take(arena, 64 * KIB), wanted, "it lay at the bottom of the queue");
    assert_size(lender.acquires, 101);
}

Test(exec_remote, a_second_return_is_stale, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    free_elsewhere(arena, &buf, 1);
    assert_status(hearth__exec_free_remote(arena, buf, 0, "test"), HEARTH_STALE);
    cr_assert_eq(misuses(), 1);
    assert_size(hearth_exec_pending_count(arena), 1);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_status(hearth__exec_free_remote(arena, buf, 0, "test"), HEARTH_STALE);
    cr_assert_eq(misuses(), 2);
    assert_size(hearth_exec_footprint(arena), 0);
    assert_sound(arena);
}

/* Both are told OK; the drain finds the queued one wrong, counts it and reports it. */
Test(exec_remote, the_owner_overtakes_a_queued_return, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    free_elsewhere(arena, &buf, 1);
    (void)hearth_exec_free(arena, buf);
    assert_ok(hearth_exec_set_retention_cap(arena, HEARTH_UNBOUNDED));
    cr_assert_geq(misuses(), 1, "one return was too many");
    cr_assert_eq(misuse_seen.status, HEARTH_STALE);
    cr_assert_eq(misuse_seen.arena, hearth_exec_allocator(arena));
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_size(hearth_exec_retained_count(arena), 1);
    assert_sound(arena);
}

/* The owner's plain path does not look for claims; where a sanitizer closed it, open it again. */
static void start_plain(void)
{
    start();
    arena->debug = 0;
    arena->plain_alignment_log = HEARTH__ALIGNMENT_LOG_MIN;
    hearth__store_relaxed(&arena->section.attention, 0);
}

Test(exec_remote, a_stale_return_does_not_take_the_next_holders_buffer, .init = start_plain)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t generation = hearth_buf_generation(buf);
    /* A stale return is queued behind the owner's back: claimed before, pushed after. */
    cr_assert_eq(hearth__inbox_claim(buf, generation), HEARTH__CLAIM_PUSH);
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert_eq(exec_take(arena, 100), buf);
    cr_assert(hearth__inbox_push(&arena->inbox, buf));
    (void)exec_take(arena, 5000);
    assert_size(hearth_exec_live_count(arena), 2);
    cr_assert_eq(misuses(), 1);
    assert_size(misuse_seen.count, 1);
    assert_ok(hearth_exec_free(arena, buf));
    assert_sound(arena);
}

Test(exec_remote, a_return_that_rides_along_comes_home, .init = start_plain)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t generation = hearth_buf_generation(buf);
    cr_assert_eq(hearth__inbox_claim(buf, generation), HEARTH__CLAIM_PUSH);
    assert_ok(hearth_exec_free(arena, buf));
    cr_assert_eq(exec_take(arena, 100), buf);
    assert_ok(hearth__exec_free_remote(arena, buf, generation + 1, "test"));
    cr_assert_eq(buf->returned >> HEARTH__GENERATION_SHIFT, generation + 1);
    cr_assert(hearth__inbox_push(&arena->inbox, buf));
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_size(hearth_exec_live_count(arena), 0);
    assert_size(hearth_exec_footprint(arena), 0);
    cr_assert_eq(misuses(), 1, "the stale return that it overtook is counted");
    assert_sound(arena);
}

Test(exec_remote, a_return_of_an_exact_generation, .init = start)
{
    assert_ok(hearth_exec_free(arena, exec_take(arena, 100)));
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t generation = hearth_buf_generation(buf);
    assert_status(hearth__exec_free_remote(arena, buf, generation + 1, "test"), HEARTH_STALE);
    assert_status(hearth__exec_free_remote(arena, buf, generation - 1, "test"), HEARTH_STALE);
    assert_size(hearth_exec_pending_count(arena), 0);
    assert_ok(hearth__exec_free_remote(arena, buf, generation, "test"));
    assert_size(hearth_exec_pending_count(arena), 1);
}

Test(exec_remote, leased_buffers_stay, .init = start)
{
    struct hearth_buf *buf = exec_take(arena, 100);
    uint64_t live = buf->state;
    hearth__store_relaxed(&buf->state,
                          hearth__word(hearth__word_generation(live), HEARTH__LEASED) + 1);
    assert_status(hearth__exec_free_remote(arena, buf, 0, "test"), HEARTH_LEASED);
    assert_status(hearth_exec_free(arena, buf), HEARTH_LEASED);
    assert_status(hearth_buf_resize(buf, 10), HEARTH_LEASED);
    hearth__store_relaxed(&buf->state, live);
    assert_size(hearth_exec_live_count(arena), 1);
    cr_assert_eq(misuses(), 3);
}

Test(exec_remote, returns_obey_the_cap, .init = start)
{
    struct hearth_buf *bufs[8];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 1024);
    assert_ok(hearth_exec_set_retention_cap(arena, 2048));
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    assert_size(hearth_exec_pending_bytes(arena), 8192);
    (void)exec_take(arena, 1024);
    assert_sound(arena);
    cr_assert_leq(hearth_exec_retained_bytes(arena), 2048);
    assert_size(lender.acquires, 8);
    assert_size(hearth_exec_footprint(arena), lender.lent);
}
