/* SPDX-License-Identifier: Apache-2.0 */
/* The mmap backing: alignment, lengths, page events, huge-page options, giving back. */
#include "core/backing.h"
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static struct hearth_backing *open_with(uint32_t huge_pages)
{
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    struct hearth_backing *backing = NULL;
    options.huge_pages = huge_pages;
    assert_ok(hearth_backing_create_mmap(&options, &backing));
    return backing;
}

static struct hearth_backing_stats stats_of(const struct hearth_backing *backing)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    return stats;
}

/* Whether the kernel's flags of the mapping at `base` contain "hg", huge pages advised. */
static bool advised(const void *base)
{
    char line[512];
    bool inside = false;
    bool found = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        unsigned long from;
        unsigned long to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = from <= (unsigned long)base && (unsigned long)base < to;
        else if (inside && strncmp(line, "VmFlags:", 8) == 0)
            found = found || strstr(line, " hg") != NULL;
    }
    (void)fclose(file);
    return found;
}

TheoryDataPoints(backing_mmap, aligned_and_long_enough) = {
    DataPoints(size_t, 64, 128, 4096, 8192, 65536, 1 << 20, 2 << 20),
    DataPoints(size_t, 1, 64, 4095, 4096, 4097, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 1),
};

Theory((size_t alignment, size_t bytes), backing_mmap, aligned_and_long_enough)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_DEFAULT);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, bytes, alignment, &segment));
    cr_assert_eq((uintptr_t)segment.base % alignment, 0);
    assert_size(segment.length, (bytes + 4095) / 4096 * 4096);
    if (segment.length >= 2 * MIB)
        cr_assert_eq((uintptr_t)segment.base % (2 * MIB), 0);
    cr_assert_eq(segment.flags, HEARTH_SEGMENT_ZERO);
    char *data = segment.base;
    cr_assert_eq(data[0], 0);
    cr_assert_eq(data[segment.length - 1], 0);
    memset(data, 1, segment.length);
    assert_size(hearth_backing_footprint(backing), segment.length);
    hearth__backing_release(backing, &segment);
    assert_size(hearth_backing_footprint(backing), 0);
    struct hearth_backing_stats stats = stats_of(backing);
    cr_assert_eq(stats.mapped_bytes, stats.unmapped_bytes, "what was cut off is given back too");
    hearth_backing_unref(backing);
}

Test(backing_mmap, accounts_for_every_call)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_OFF);
    struct hearth_segment a;
    struct hearth_segment b;
    cr_assert_str_eq(hearth_backing_name(backing), "mmap");
    assert_ok(hearth__backing_acquire(backing, 10000, 64, &a));
    assert_ok(hearth__backing_acquire(backing, 1, 64, &b));
    assert_status(hearth__backing_acquire(backing, (size_t)1 << 47, 64, &a), HEARTH_NO_MEMORY);
    struct hearth_backing_stats stats = stats_of(backing);
    cr_assert_eq(stats.acquire_calls, 3);
    cr_assert_eq(stats.acquire_failures, 1);
    cr_assert_eq(stats.release_calls, 0);
    cr_assert_eq(stats.acquired_bytes, 12288 + 4096);
    cr_assert_eq(stats.mapped_bytes, 12288 + 4096);
    cr_assert_eq(stats.page_events, 2);
    hearth__backing_release(backing, &b);
    stats = stats_of(backing);
    cr_assert_eq(stats.release_calls, 1);
    cr_assert_eq(stats.released_bytes, 4096);
    cr_assert_eq(stats.unmapped_bytes, 4096);
    cr_assert_eq(stats.page_events, 3);
    cr_assert_eq(stats.purge_calls, 0);
    assert_size(hearth_backing_footprint(backing), 12288);
}

Test(backing_mmap, a_refused_acquire_changes_nothing)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_DEFAULT);
    struct hearth_segment segment;
    size_t before = mapped_now();
    static const size_t huge[] = {(size_t)1 << 47, (size_t)1 << 62, PTRDIFF_MAX};
    for (size_t i = 0; i < COUNT_OF(huge); i++)
        assert_status(hearth__backing_acquire(backing, huge[i], HEARTH_ALIGNMENT_MAX, &segment),
                      HEARTH_NO_MEMORY);
    assert_size(hearth_backing_footprint(backing), 0);
    cr_assert_eq(stats_of(backing).mapped_bytes, 0);
    assert_size(mapped_now(), before);
}

Test(backing_mmap, release_gives_the_pages_back_at_once)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_OFF);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 64 * MIB, 64, &segment));
    memset(segment.base, 1, segment.length);
    size_t resident = resident_now();
    size_t mapped = mapped_now();
    hearth__backing_release(backing, &segment);
    cr_assert_leq(resident_now() + 60 * MIB, resident);
    cr_assert_leq(mapped_now() + 64 * MIB, mapped);
    assert_size(hearth_backing_purge(backing), 0);
}

/* Only pages that lie in the range as a whole go; the rest keeps its content. */
Test(backing_mmap, discard_takes_whole_pages)
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

Test(backing_mmap, huge_pages_off_neither_aligns_nor_advises)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_OFF);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 4 * MIB, 64, &segment));
    cr_assert_eq(stats_of(backing).page_events, 1);
    cr_assert_eq(stats_of(backing).mapped_bytes, 4 * MIB, "no room for an alignment");
    cr_assert_not(advised(segment.base));
    hearth__backing_release(backing, &segment);
}

Test(backing_mmap, huge_pages_on_advises)
{
    struct hearth_backing *backing = open_with(HEARTH_HUGE_PAGES_ON);
    struct hearth_segment segment;
    assert_ok(hearth__backing_acquire(backing, 2 * MIB, 64, &segment));
    cr_assert_eq((uintptr_t)segment.base % (2 * MIB), 0);
    bool known = madvise(segment.base, segment.length, MADV_HUGEPAGE) == 0;
    cr_assert_eq(advised(segment.base), known);
    hearth__backing_release(backing, &segment);
    assert_ok(hearth__backing_acquire(backing, 2 * MIB - 4096, 64, &segment));
    cr_assert_not(advised(segment.base), "smaller segments are left alone");
}

Test(backing_mmap, the_policy_follows_option_and_system)
{
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    char mode[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file != NULL) {
        cr_assert_not_null(fgets(mode, sizeof mode, file));
        (void)fclose(file);
    }
    struct hearth__huge_policy policy = hearth__huge_policy(NULL);
    cr_assert(policy.align);
    cr_assert_eq(policy.advise, strstr(mode, "[madvise]") != NULL);
    options.huge_pages = HEARTH_HUGE_PAGES_OFF;
    policy = hearth__huge_policy(&options);
    cr_assert_not(policy.align || policy.advise);
    options.huge_pages = HEARTH_HUGE_PAGES_ON;
    policy = hearth__huge_policy(&options);
    cr_assert(policy.align && policy.advise);
}

Test(backing_mmap, impossible_options)
{
    struct hearth_backing *backing = NULL;
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    options.huge_pages = 3;
    assert_status(hearth_backing_create_mmap(&options, &backing), HEARTH_INVALID);
    options = (struct hearth_backing_options)HEARTH_BACKING_OPTIONS_INIT;
    options.reserved = 1;
    assert_status(hearth_backing_create_mmap(&options, &backing), HEARTH_INVALID);
    options = (struct hearth_backing_options)HEARTH_BACKING_OPTIONS_INIT;
    options.size--;
    assert_status(hearth_backing_create_mmap(&options, &backing), HEARTH_INVALID);
    assert_status(hearth_backing_create_mmap(NULL, NULL), HEARTH_INVALID);
    cr_assert_null(backing);
}
