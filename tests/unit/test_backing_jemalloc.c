/* SPDX-License-Identifier: Apache-2.0 */
/* The jemalloc backing: usable sizes are class sizes, every page event is counted, purge and destroy
 * give everything back. Skipped where the library was built without jemalloc. */
#include "core/backing.h"
#include "core/size_class.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

static struct hearth_backing *open_with(uint32_t huge_pages)
{
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    struct hearth_backing *backing = NULL;
    options.huge_pages = huge_pages;
    misuse_record();
    enum hearth_status status = hearth_backing_create_jemalloc(&options, &backing);
    if (status == HEARTH_INVALID && misuse_seen.count == 1)
        cr_skip_test("built without jemalloc");
    assert_ok(status);
    return backing;
}

static struct hearth_backing *open_one(void)
{
    return open_with(HEARTH_HUGE_PAGES_DEFAULT);
}

static struct hearth_backing_stats stats_of(const struct hearth_backing *backing)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    return stats;
}

TheoryDataPoints(backing_jemalloc, aligned_and_long_enough) = {
    DataPoints(size_t, 64, 128, 1024, 4096, 8192, 65536, 1 << 20, 2 << 20),
    DataPoints(size_t, 1, 64, 4095, 4097, 16384, 100000, (2 << 20) - 64, (2 << 20) - 1, 2 << 20,
               (5 << 20) + 1),
};

Theory((size_t alignment, size_t bytes), backing_jemalloc, aligned_and_long_enough)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, bytes, alignment, &segment));
    cr_assert_eq((uintptr_t)segment.base % alignment, 0);
    cr_assert_geq(segment.length, bytes);
    cr_assert_eq(segment.length % HEARTH_ALIGNMENT, 0);
    if (segment.length >= 2 * MIB)
        cr_assert_eq((uintptr_t)segment.base % (2 * MIB), 0);
    memset(segment.base, 1, segment.length);
    assert_size(hearth_backing_footprint(backing), segment.length);
    hearth__backing_release(backing, &segment);
    assert_size(hearth_backing_footprint(backing), 0);
    hearth_backing_unref(backing);
}

/* The promise of size_class.h, for every class up to 256 MiB. */
Test(backing_jemalloc, usable_size_is_class_size)
{
    struct hearth_backing *backing = open_one();
    for (unsigned i = 0; hearth__class_size(i) <= 256 * MIB; i++) {
        struct hearth_segment segment;
        size_t bytes = hearth__class_size(i);
        assert_ok(hearth__backing_acquire(backing, bytes, HEARTH_ALIGNMENT, &segment));
        assert_size(segment.length, bytes);
        hearth__backing_release(backing, &segment);
        size_t least = i == 0 ? 1 : hearth__class_size(i - 1) + 1;
        assert_ok(hearth__backing_acquire(backing, least, HEARTH_ALIGNMENT, &segment));
        assert_size(segment.length, least < 2 * MIB ? bytes : (least + 4095) / 4096 * 4096);
        hearth__backing_release(backing, &segment);
    }
    hearth_backing_unref(backing);
}

/* What an arena asks for larger alignments comes back with exactly the length it asked. */
Test(backing_jemalloc, an_arena_is_charged_what_it_asks)
{
    struct hearth_backing *backing = open_one();
    struct hearth_exec *arena = exec_open(backing, 0, 0);
    for (size_t alignment = 64; alignment <= HEARTH_ALIGNMENT_MAX; alignment *= 2) {
        for (size_t size = 1; size <= 4 * MIB; size = size * 3 + 1) {
            struct hearth_buf *buf = exec_take_aligned(arena, size, alignment);
            cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
            cr_assert_geq(hearth_buf_capacity(buf), size);
            void *data = hearth_buf_data(buf);
            assert_ok(hearth_exec_free(arena, buf));
            buf = exec_take_aligned(arena, size, alignment);
            cr_assert_eq(hearth_buf_data(buf), data, "%zu at %zu is not reused", size, alignment);
            assert_ok(hearth_exec_free(arena, buf));
            assert_ok(hearth_exec_trim(arena, NULL));
        }
    }
    assert_size(hearth_backing_footprint(backing), 0);
    assert_ok(hearth_exec_destroy(arena));
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, huge_blocks_are_no_longer_than_asked_for)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment block;
    assert_ok(hearth__backing_acquire(backing, 4 * MIB, 64, &block));
    memset(block.base, 1, block.length);
    hearth__backing_release(backing, &block);
    struct hearth_backing_stats before = stats_of(backing);
    /* 3.5 MiB is a class of jemalloc's, 3.1 is not. */
    assert_ok(hearth__backing_acquire(backing, 3 * MIB + 100 * KIB + 1, 64, &block));
    assert_size(block.length, 3 * MIB + 104 * KIB);
    memset(block.base, 2, block.length);
    struct hearth_backing_stats after = stats_of(backing);
    cr_assert_eq(after.acquired_bytes - before.acquired_bytes, block.length);
    hearth__backing_release(backing, &block);
    assert_ok(hearth__backing_acquire(backing, 3 * MIB + 512 * KIB, 64, &block));
    assert_size(block.length, 3 * MIB + 512 * KIB);
    hearth__backing_release(backing, &block);
    assert_size(hearth_backing_footprint(backing), 0);
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, accounts_for_every_call)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment a;
    struct hearth_segment b;
    cr_assert_str_eq(hearth_backing_name(backing), "jemalloc");
    assert_ok(hearth__backing_acquire(backing, 1000, 64, &a));
    assert_ok(hearth__backing_acquire(backing, 100000, 64, &b));
    struct hearth_segment none;
    assert_status(hearth__backing_acquire(backing, (size_t)1 << 60, 64, &none), HEARTH_NO_MEMORY);
    struct hearth_backing_stats stats = stats_of(backing);
    cr_assert_eq(stats.acquire_calls, 3);
    cr_assert_eq(stats.acquire_failures, 1);
    cr_assert_eq(stats.acquired_bytes, 1024 + 112 * KIB);
    cr_assert_geq(stats.mapped_bytes, stats.acquired_bytes);
    cr_assert_gt(stats.page_events, 0);
    hearth__backing_release(backing, &a);
    hearth__backing_release(backing, &b);
    stats = stats_of(backing);
    cr_assert_eq(stats.release_calls, 2);
    cr_assert_eq(stats.released_bytes, stats.acquired_bytes);
    cr_assert_eq(stats.unmapped_bytes, 0, "ranges stay mapped until the end");
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, every_growth_is_a_page_event)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment segments[8];
    for (size_t i = 0; i < COUNT_OF(segments); i++) {
        struct hearth_backing_stats before = stats_of(backing);
        assert_ok(hearth__backing_acquire(backing, 32 * MIB, 64, &segments[i]));
        struct hearth_backing_stats after = stats_of(backing);
        cr_assert(after.mapped_bytes == before.mapped_bytes ||
                  after.page_events > before.page_events);
        cr_assert_geq(after.mapped_bytes, (i + 1) * 32 * MIB);
    }
    for (size_t i = 0; i < COUNT_OF(segments); i++)
        hearth__backing_release(backing, &segments[i]);
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, purge_gives_the_pages_back)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 64 * MIB, 64, &segment));
    memset(segment.base, 1, segment.length);
    size_t resident = resident_now();
    hearth__backing_release(backing, &segment);
    cr_assert_geq(resident_now() + 4 * MIB, resident, "release keeps the pages");
    cr_assert_eq(stats_of(backing).purged_bytes, 0);
    size_t purged = hearth_backing_purge(backing);
    cr_assert_geq(purged, 64 * MIB);
    cr_assert_leq(resident_now() + 60 * MIB, resident);
    struct hearth_backing_stats stats = stats_of(backing);
    cr_assert_eq(stats.purged_bytes, purged);
    cr_assert_eq(stats.purge_calls, 1);
    assert_size(hearth_backing_purge(backing), 0);
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, purge_spares_what_is_lent)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment kept;
    struct hearth_segment released;
    assert_ok(hearth__backing_acquire(backing, 4 * MIB, 64, &kept));
    assert_ok(hearth__backing_acquire(backing, 4 * MIB, 64, &released));
    pattern_write(kept.base, kept.length, 5);
    memset(released.base, 1, released.length);
    hearth__backing_release(backing, &released);
    cr_assert_geq(hearth_backing_purge(backing), 4 * MIB);
    cr_assert(pattern_holds(kept.base, kept.length, 5));
    hearth__backing_release(backing, &kept);
    hearth_backing_unref(backing);
}

static void round_of_use(void)
{
    struct hearth_backing *backing = open_one();
    struct hearth_segment segments[16];
    for (size_t i = 0; i < COUNT_OF(segments); i++) {
        assert_ok(hearth__backing_acquire(backing, (i + 1) * MIB / 3, 64, &segments[i]));
        memset(segments[i].base, 1, segments[i].length);
    }
    for (size_t i = 0; i < COUNT_OF(segments); i++)
        hearth__backing_release(backing, &segments[i]);
    hearth_backing_unref(backing);
}

Test(backing_jemalloc, destroy_gives_everything_back)
{
    round_of_use();
    size_t mapped = mapped_now();
    size_t resident = resident_now();
    for (unsigned i = 0; i < 40; i++)
        round_of_use();
    cr_assert_leq(mapped_now(), mapped + 8 * MIB, "address space grew by %zu",
                  mapped_now() - mapped);
    cr_assert_leq(resident_now(), resident + 8 * MIB);
}

Test(backing_jemalloc, backings_do_not_share)
{
    struct hearth_backing *one = open_one();
    struct hearth_backing *two = open_one();
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(one, 8 * MIB, 64, &segment));
    cr_assert_lt(stats_of(two).mapped_bytes, 8 * MIB);
    memset(segment.base, 1, segment.length);
    hearth__backing_release(one, &segment);
    assert_size(hearth_backing_purge(two), 0);
    cr_assert_geq(hearth_backing_purge(one), 8 * MIB);
    hearth_backing_unref(one);
    hearth_backing_unref(two);
}

Test(backing_jemalloc, huge_pages_options)
{
    struct hearth_backing *off = open_with(HEARTH_HUGE_PAGES_OFF);
    struct hearth_backing *on = open_with(HEARTH_HUGE_PAGES_ON);
    bool aligned = true;
    struct hearth_segment segments[8];
    for (size_t i = 0; i < COUNT_OF(segments); i++) {
        assert_ok(hearth__backing_acquire(off, 2560 * KIB, 64, &segments[i]));
        aligned = aligned && (uintptr_t)segments[i].base % (2 * MIB) == 0;
    }
    cr_assert_not(aligned, "off: segments are packed");
    for (size_t i = 0; i < COUNT_OF(segments); i++)
        hearth__backing_release(off, &segments[i]);
    for (size_t i = 0; i < COUNT_OF(segments); i++) {
        assert_ok(hearth__backing_acquire(on, 2560 * KIB, 64, &segments[i]));
        cr_assert_eq((uintptr_t)segments[i].base % (2 * MIB), 0);
    }
    for (size_t i = 0; i < COUNT_OF(segments); i++)
        hearth__backing_release(on, &segments[i]);
    hearth_backing_unref(off);
    hearth_backing_unref(on);
}

Test(backing_jemalloc, impossible_options)
{
    hearth_backing_unref(open_one());
    struct hearth_backing *backing = NULL;
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    options.huge_pages = 3;
    assert_status(hearth_backing_create_jemalloc(&options, &backing), HEARTH_INVALID);
    options.huge_pages = 0;
    options.size++;
    assert_status(hearth_backing_create_jemalloc(&options, &backing), HEARTH_INVALID);
    assert_status(hearth_backing_create_jemalloc(NULL, NULL), HEARTH_INVALID);
}

/* Only pages that lie in the range as a whole go; the rest keeps its content. */
Test(backing_jemalloc, discard_takes_whole_pages)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_OFF);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 16 * MIB, 64, &segment));
    memset(segment.base, 0x5a, segment.length);
    struct hearth_backing_stats before = stats_of(backing);
    unsigned char *data = segment.base;
    assert_size(hearth__backing_discard(backing, data + 100, 3 * 4096), 2 * 4096);
    cr_assert_eq(data[4095], 0x5a);
    cr_assert_eq(data[4096], 0);
    cr_assert_eq(data[3 * 4096 - 1], 0);
    cr_assert_eq(data[3 * 4096], 0x5a);
    assert_size(hearth__backing_discard(backing, data + 1, 8190), 0);
    assert_size(hearth__backing_discard(backing, data, 0), 0);
    struct hearth_backing_stats after = stats_of(backing);
    cr_assert_eq(after.page_events, before.page_events + 1);
    cr_assert_eq(after.purged_bytes, before.purged_bytes + 8192);
    size_t resident = resident_now();
    assert_size(hearth__backing_discard(backing, data, segment.length), segment.length);
    cr_assert_leq(resident_now() + 15 * MIB, resident);
    memset(data, 0x5a, segment.length);
    assert_size(hearth_backing_footprint(backing), segment.length);
    hearth__backing_release(backing, &segment);
    assert_size(hearth_backing_footprint(backing), 0);
    hearth_backing_unref(backing);
}
