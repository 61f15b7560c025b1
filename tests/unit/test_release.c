/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments that wait for their release: order, the bound of the list, totals, and slices. A deadline
 * that has passed allows one step, so that slices are counted and not timed. Not covered: how long a
 * chunk takes.
 */
#include "core/release.h"

#include "core/backing.h"
#include "core/clock.h"
#include "support.h"

#define PAST 1u /* a deadline long ago */
#define CHUNK HEARTH__RELEASE_CHUNK_BYTES

static struct hearth__releases releases;
static struct lender lender;
static struct hearth_backing *backing;

static void start(void)
{
    hearth__releases_init(&releases);
    backing = lender_open(&lender);
}

static void add(size_t bytes)
{
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, bytes, 64, &segment));
    cr_assert(hearth__releases_add(&releases, backing, &segment));
}

static void assert_totals(size_t held, size_t released)
{
    assert_size(hearth__load_relaxed(&releases.held_bytes), held);
    assert_size(releases.released_bytes, released);
    assert_size(lender.lent, held);
    assert_size(lender.wrong_cookies, 0);
}

Test(release, nothing_waits_at_first, .init = start)
{
    cr_assert(hearth__releases_run(&releases, 0));
    cr_assert(hearth__releases_run(&releases, PAST));
    assert_totals(0, 0);
}

Test(release, all_at_once_without_a_deadline, .init = start)
{
    add(64);
    add(3 * CHUNK);
    add(4096);
    assert_totals(3 * CHUNK + 4096 + 64, 0);
    cr_assert(hearth__releases_run(&releases, 0));
    assert_totals(0, 3 * CHUNK + 4096 + 64);
    assert_size(lender.releases, 3);
    assert_size(lender.discards, 0);
}

Test(release, one_segment_for_a_slice_that_is_over, .init = start)
{
    add(64);
    add(128);
    add(CHUNK - 64);
    cr_assert_not(hearth__releases_run(&releases, PAST));
    assert_totals(CHUNK - 64 + 128, 64);
    cr_assert_not(hearth__releases_run(&releases, PAST));
    assert_totals(CHUNK - 64, 64 + 128);
    cr_assert(hearth__releases_run(&releases, PAST));
    assert_totals(0, CHUNK + 128);
    assert_size(lender.discards, 0);
}

Test(release, a_far_deadline_ends_nothing, .init = start)
{
    add(64);
    add(2 * CHUNK + 64);
    cr_assert(hearth__releases_run(&releases, UINT64_MAX));
    assert_totals(0, 2 * CHUNK + 128);
    assert_size(lender.discards, 3);
    assert_size(lender.discarded, 2 * CHUNK + 64);
    assert_size(releases.discarded_bytes, 2 * CHUNK + 64);
}

Test(release, a_large_segment_is_split)
{
    hearth__releases_init(&releases);
    backing = mmap_open();
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 256 * MIB, 64, &segment));
    for (size_t at = 0; at < segment.length; at += 4096)
        ((char *)segment.base)[at] = 1;
    cr_assert(hearth__releases_add(&releases, backing, &segment));
    struct hearth_backing_stats before = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &before));
    size_t resident = resident_now();
    for (size_t slice = 1; slice <= 128; slice++) {
        struct hearth_backing_stats now = HEARTH_BACKING_STATS_INIT;
        cr_assert_not(hearth__releases_run(&releases, PAST));
        assert_ok(hearth_backing_stats(backing, &now));
        cr_assert_eq(now.page_events, before.page_events + slice);
        cr_assert_eq(now.purged_bytes, slice * CHUNK);
        cr_assert_eq(now.unmapped_bytes, before.unmapped_bytes);
        assert_size(hearth__load_relaxed(&releases.held_bytes), 256 * MIB);
    }
    cr_assert_leq(resident_now() + 250 * MIB, resident, "nothing is left for the release");
    cr_assert(hearth__releases_run(&releases, PAST));
    assert_size(hearth_backing_footprint(backing), 0);
    assert_size(releases.released_bytes, 256 * MIB);
    hearth_backing_unref(backing);
}

Test(release, what_was_begun_with_a_deadline_ends_without, .init = start)
{
    add(8 * CHUNK);
    cr_assert_not(hearth__releases_run(&releases, PAST));
    cr_assert_not(hearth__releases_run(&releases, PAST));
    assert_size(lender.discards, 2);
    cr_assert(hearth__releases_run(&releases, 0));
    assert_size(lender.discards, 2);
    assert_totals(0, 8 * CHUNK);
}

/* Nobody is asked to discard twice in vain. */
Test(release, a_backing_that_cannot_discard, .init = start)
{
    struct hearth_backing *bare = NULL;
    struct hearth_segment segment;
    struct hearth_backing_ops ops = lender.ops;
    ops.discard = NULL;
    assert_ok(hearth_backing_create(&ops, &lender, &bare));
    assert_ok(hearth__backing_acquire(bare, 64 * CHUNK, 64, &segment));
    cr_assert(hearth__releases_add(&releases, bare, &segment));
    cr_assert_not(hearth__releases_run(&releases, PAST));
    cr_assert(hearth__releases_run(&releases, PAST));
    assert_totals(0, 64 * CHUNK);
    assert_size(releases.discarded_bytes, 0);
}

Test(release, the_list_is_bounded, .init = start)
{
    for (unsigned i = 0; i < HEARTH__RELEASES_MOST; i++)
        add(64);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 64, 64, &segment));
    cr_assert_not(hearth__releases_add(&releases, backing, &segment));
    cr_assert_not(hearth__releases_run(&releases, PAST));
    cr_assert(hearth__releases_add(&releases, backing, &segment), "there is room again");
    cr_assert(hearth__releases_run(&releases, 0));
    assert_totals(0, (HEARTH__RELEASES_MOST + 1) * 64);
}

/* The order in which a backing sees its segments again. */
static size_t order[512];
static size_t ordered;

static void note_release(void *context, const struct hearth_segment *segment)
{
    order[ordered++] = segment->length;
    lender.ops.release(context, segment);
}

Test(release, first_in_first_out_around_the_ring, .init = start)
{
    struct hearth_backing *noting = NULL;
    struct hearth_backing_ops ops = lender.ops;
    ops.release = note_release;
    assert_ok(hearth_backing_create(&ops, &lender, &noting));
    hearth_backing_unref(backing);
    backing = noting;
    size_t added = 0;
    uint64_t random = 3;
    while (added < 400) {
        for (uint64_t n = random_next(&random) % 60; n > 0 && added < 400; n--) {
            if (releases.count == HEARTH__RELEASES_MOST)
                break;
            add(64 * ++added);
        }
        for (uint64_t n = random_next(&random) % 60; n > 0; n--)
            (void)hearth__releases_run(&releases, PAST);
    }
    cr_assert(hearth__releases_run(&releases, hearth__now_ns() + UINT64_C(60000000000)));
    assert_size(ordered, 400);
    for (size_t i = 0; i < ordered; i++)
        assert_size(order[i], 64 * (i + 1));
}
