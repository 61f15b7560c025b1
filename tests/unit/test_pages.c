/* SPDX-License-Identifier: Apache-2.0 */
/* Page observation: faults per thread and process, residency. */
#include "support.h"

#include <hearth/stats.h>

#include <string.h>
#include <sys/mman.h>

static struct hearth_page_stats pages(enum hearth_scope scope)
{
    struct hearth_page_stats stats = HEARTH_PAGE_STATS_INIT;
    assert_ok(hearth_page_stats(scope, &stats));
    return stats;
}

static char *fresh(size_t bytes)
{
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(at, MAP_FAILED);
    (void)madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

static void touch(void *argument)
{
    memset(argument, 1, 256 * 4096);
}

Test(pages, counts_the_faults_of_a_first_write)
{
    char *memory = fresh(256 * 4096);
    (void)pages(HEARTH_SCOPE_THREAD);
    struct hearth_page_stats before = pages(HEARTH_SCOPE_THREAD);
    touch(memory);
    struct hearth_page_stats after = pages(HEARTH_SCOPE_THREAD);
    cr_assert_geq(after.minor_faults - before.minor_faults, 256);
    cr_assert_leq(after.minor_faults - before.minor_faults, 256 + 64);
    cr_assert_geq(after.resident_bytes + 64 * KIB, before.resident_bytes + 256 * 4096);
    struct hearth_page_stats again = pages(HEARTH_SCOPE_THREAD);
    touch(memory);
    cr_assert_eq(pages(HEARTH_SCOPE_THREAD).minor_faults, again.minor_faults, "the second is free");
}

Test(pages, tells_threads_apart)
{
    char *memory = fresh(256 * 4096);
    struct hearth_page_stats thread = pages(HEARTH_SCOPE_THREAD);
    struct hearth_page_stats process = pages(HEARTH_SCOPE_PROCESS);
    on_thread(touch, memory);
    cr_assert_lt(pages(HEARTH_SCOPE_THREAD).minor_faults - thread.minor_faults, 128);
    cr_assert_geq(pages(HEARTH_SCOPE_PROCESS).minor_faults - process.minor_faults, 256);
}

Test(pages, writes_no_more_than_the_caller_knows)
{
    struct hearth_page_stats stats;
    memset(&stats, 0x77, sizeof stats);
    stats.size = offsetof(struct hearth_page_stats, major_faults);
    assert_ok(hearth_page_stats(HEARTH_SCOPE_PROCESS, &stats));
    cr_assert_neq(stats.minor_faults, 0x7777777777777777);
    cr_assert_eq(stats.major_faults, 0x7777777777777777);
    stats.size = 0;
    assert_status(hearth_page_stats(HEARTH_SCOPE_PROCESS, &stats), HEARTH_INVALID);
    assert_status(hearth_page_stats(HEARTH_SCOPE_PROCESS, NULL), HEARTH_INVALID);
    stats.size = sizeof stats;
    assert_status(hearth_page_stats((enum hearth_scope)2, &stats), HEARTH_INVALID);
}
