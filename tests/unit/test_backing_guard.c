/* SPDX-License-Identifier: Apache-2.0 */
/* Guard pages: placement at every size and alignment, faults on either side and after release. */
#include "core/backing.h"
#include "core/conf.h"
#include "support.h"

#include <hearth/io.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static struct hearth_backing *open_guard(void)
{
    struct hearth_backing *backing = NULL;
    assert_ok(hearth__backing_create_guard(&backing));
    return backing;
}

/* Whether a write to `at` kills a process. */
static bool faults(char *at)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        *(volatile char *)at = 1;
        _exit(0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

Test(backing_guard, every_size_and_alignment)
{
    static const size_t sizes[] = {64, 128, 192, 4032, 4096, 4160, 8192, 100 * 64, 3 * MIB};
    struct hearth_backing *backing = open_guard();
    cr_assert_str_eq(hearth_backing_name(backing), "guard");
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (size_t alignment = 64; alignment <= 2 * MIB; alignment *= 2) {
            struct hearth_segment segment;
            assert_ok(hearth__backing_acquire(backing, sizes[i], alignment, &segment));
            uintptr_t base = (uintptr_t)segment.base;
            assert_size(base % alignment, 0);
            assert_size(segment.length, sizes[i]);
            /* As near to the guard as the alignment allows. */
            size_t gap = (PAGE - (base + segment.length) % PAGE) % PAGE;
            cr_assert(gap < alignment && (alignment > 64 || gap == 0));
            memset(segment.base, 7, segment.length);
            hearth__backing_release(backing, &segment);
        }
    }
    assert_size(hearth_backing_footprint(backing), 0);
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    assert_size(stats.mapped_bytes, stats.unmapped_bytes);
    hearth_backing_unref(backing);
}

Test(backing_guard, faults_on_both_sides_and_after_release)
{
    struct hearth_backing *backing = open_guard();
    for (size_t alignment = 64; alignment <= 64 * KIB; alignment *= 32) {
        struct hearth_segment segment;
        assert_ok(hearth__backing_acquire(backing, 8192 - 64, alignment, &segment));
        char *base = segment.base;
        char *end = base + segment.length;
        char *page_end = (char *)(((uintptr_t)end + PAGE - 1) & ~(PAGE - 1));
        char *page_start = (char *)((uintptr_t)base & ~(PAGE - 1));
        cr_assert_not(faults(base));
        cr_assert_not(faults(end - 1));
        cr_assert(faults(page_end));
        cr_assert(faults(page_start - 1));
        hearth__backing_release(backing, &segment);
        cr_assert(faults(base));
    }
    hearth_backing_unref(backing);
}

Test(backing_guard, impossible_sizes_are_refused)
{
    struct hearth_backing *backing = open_guard();
    struct hearth_segment segment;
    assert_status(hearth__backing_acquire(backing, SIZE_MAX, 64, &segment), HEARTH_NO_MEMORY);
    assert_status(hearth__backing_acquire(backing, PTRDIFF_MAX - 63, 64, &segment),
                  HEARTH_NO_MEMORY);
    assert_status(hearth__backing_acquire(backing, (size_t)1 << 60, 64, &segment),
                  HEARTH_NO_MEMORY);
    hearth_backing_unref(backing);
}

Test(backing_guard, the_default_backing_under_debug_guard)
{
    struct hearth_backing *backing = NULL;
    struct hearth_exec *arena = NULL;
    cr_assert_eq(setenv("HEARTH_CONF", "debug:guard", 1), 0);
    assert_ok(hearth_backing_default(&backing));
    cr_assert_str_eq(hearth_backing_name(backing), "guard");
    assert_ok(hearth_exec_create(NULL, &arena));
    struct hearth_buf *buf = exec_take(arena, 1000);
    char *data = hearth_buf_data(buf);
    assert_size(hearth_buf_capacity(buf), 1024);
    cr_assert_not(faults(data + 1023));
    cr_assert(faults(data + 1024));
    assert_ok(hearth_exec_free(arena, buf));
    assert_sound(arena);
    assert_ok(hearth_exec_destroy(arena));
    assert_size(hearth_backing_footprint(backing), 0);
}
