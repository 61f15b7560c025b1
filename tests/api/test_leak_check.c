/* SPDX-License-Identifier: Apache-2.0 */
/* Leak checks over all arenas of the process: what counts, what is told of it, nesting, other threads, arenas made
 * before and meanwhile. Checks on one service are tested with the service. */
#include "io_support.h"

#include <hearth/service.h>

#include <stdio.h>
#include <unistd.h>

enum { LEAKS_MOST = 64 };

static struct leaks {
    size_t count;
    struct hearth_leak leak[LEAKS_MOST];
    char site[LEAKS_MOST][2048];
} leaks;

static void note(void *context, const struct hearth_leak *leak)
{
    struct leaks *seen = context;
    cr_assert_lt(seen->count, LEAKS_MOST);
    cr_assert_eq(leak->size, sizeof *leak);
    seen->leak[seen->count] = *leak;
    strncpy(seen->site[seen->count], leak->site, sizeof seen->site[0] - 1);
    seen->count++;
}

static struct hearth_leak_check *begin(void)
{
    struct hearth_leak_check *check = NULL;
    EXPECT(HEARTH_OK, hearth_leak_check_begin(NULL, &check));
    return check;
}

static void end(struct hearth_leak_check *check, size_t expected)
{
    size_t count = SIZE_MAX;
    memset(&leaks, 0, sizeof leaks);
    EXPECT(expected == 0 ? HEARTH_OK : HEARTH_BUSY,
           hearth_leak_check_end(check, note, &leaks, &count));
    EXPECT_SIZE(expected, count);
    EXPECT_SIZE(expected, leaks.count);
}

static const struct hearth_leak *leak_of(const struct hearth_buf *buf)
{
    for (size_t i = 0; i < leaks.count; i++)
        if (leaks.leak[i].buf == buf)
            return &leaks.leak[i];
    cr_assert(false, "%p is not among the leaks", (const void *)buf);
    return NULL;
}

static struct hearth_exec *exec_new(void)
{
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(NULL, &arena));
    return arena;
}

static struct hearth_io *io_new(void)
{
    struct hearth_io *io = NULL;
    EXPECT(HEARTH_OK, hearth_io_create(NULL, &io));
    return io;
}

Test(leak_check, nothing_is_nothing)
{
    end(begin(), 0);
    struct hearth_exec *arena = exec_new();
    struct hearth_io *io = io_new();
    struct hearth_leak_check *check = begin();
    give(arena, take(arena, 100));
    io_give(io, io_take(io, 100));
    io_drop(io_lease(io, 100));
    end(check, 0);
}

Test(leak_check, what_was_out_before_does_not_count)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_io *io = io_new();
    struct hearth_buf *buf = take(arena, 100);
    struct hearth_lease lease = io_lease(io, 100);
    struct hearth_leak_check *check = begin();
    end(check, 0);
    check = begin();
    give(arena, buf);
    io_drop(lease);
    end(check, 0);
}

Test(leak_check, what_is_out_is_told)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_io *io = io_new();
    /* Warm, so that the plain paths would serve. */
    give(arena, take(arena, 1000));
    io_drop(io_lease(io, 2000));
    struct hearth_leak_check *check = begin();
    struct hearth_buf *buf = take(arena, 1000);
    struct hearth_buf *bare = io_take(io, 100 * KIB);
    struct hearth_lease lease = io_lease(io, 2000);
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    io_pause(20);
    end(check, 3);
    const struct hearth_leak *leak = leak_of(buf);
    EXPECT_SIZE(1000, leak->bytes);
    EXPECT_SIZE(0, leak->references);
    cr_assert_eq(leak->domain, (uint32_t)HEARTH_DOMAIN_EXEC);
    cr_assert(leak->age_ns >= 20000000u && leak->age_ns < 60000000000u);
    cr_assert_not_null(strchr(leaks.site[leak - leaks.leak], '\n'), "%s",
                       leaks.site[leak - leaks.leak]);
    leak = leak_of(bare);
    EXPECT_SIZE(100 * KIB, leak->bytes);
    EXPECT_SIZE(0, leak->references);
    cr_assert_eq(leak->domain, (uint32_t)HEARTH_DOMAIN_IO);
    leak = leak_of(lease.buf);
    EXPECT_SIZE(2000, leak->bytes);
    EXPECT_SIZE(3, leak->references);
}

Test(leak_check, adopted_taken_and_exported_buffers_count)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_io *io = io_new();
    struct hearth_leak_check *check = begin();
    struct hearth_buf *taken = NULL;
    struct hearth_buf *buf = take(arena, 1000);
    if (hearth_io_can_take(io, arena))
        EXPECT(HEARTH_OK, hearth_io_take(io, buf, &taken));
    struct hearth_lease exported = io_export(io, io_take(io, 700));
    end(check, 2);
    EXPECT_SIZE(1000, leak_of(taken)->bytes);
    EXPECT_SIZE(1, leak_of(exported.buf)->references);
}

Test(leak_check, resize_keeps_the_site)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_buf *old = take(arena, 100);
    struct hearth_leak_check *check = begin();
    struct hearth_buf *buf = take(arena, 100);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 100000));
    EXPECT(HEARTH_OK, hearth_buf_resize(old, 100000));
    end(check, 1);
    EXPECT_SIZE(100000, leak_of(buf)->bytes);
}

Test(leak_check, nested_and_overlapping)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_leak_check *outer = begin();
    struct hearth_buf *first = take(arena, 1);
    struct hearth_leak_check *inner = begin();
    struct hearth_buf *second = take(arena, 2);
    struct hearth_leak_check *third = begin();
    struct hearth_buf *last = take(arena, 3);
    end(inner, 2);
    (void)leak_of(second);
    end(outer, 3);
    (void)leak_of(first);
    give(arena, last);
    end(third, 0);
}

static void work(void *argument)
{
    struct hearth_io *io = argument;
    struct hearth_exec *arena = exec_new();
    (void)take(arena, 10);
    (void)io_lease(io, 20);
}

Test(leak_check, threads_and_arenas_that_come_later)
{
    struct hearth_io *io = io_new();
    struct hearth_leak_check *check = begin();
    struct hearth_io *later = io_new();
    (void)io_take(later, 30);
    on_thread(work, io);
    on_thread(work, later);
    end(check, 5);
    (void)io_take(io, 30);
    check = begin();
    end(check, 0);
}

static void give_back(void *argument)
{
    struct hearth_buf *buf = argument;
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
}

Test(leak_check, returned_and_not_taken_in_is_returned)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_leak_check *check = begin();
    struct hearth_buf *buf = take(arena, 1000);
    on_thread(give_back, buf);
    EXPECT_SIZE(1, hearth_exec_pending_count(arena));
    end(check, 0);
}

Test(leak_check, many)
{
    struct hearth_exec *arena = exec_new();
    struct hearth_leak_check *check = begin();
    size_t count = 0;
    for (size_t i = 0; i < 2000; i++)
        (void)take(arena, 64);
    /* Printed, with no callback. */
    int saved = dup(STDERR_FILENO);
    FILE *output = tmpfile();
    cr_assert(saved >= 0 && output != NULL && dup2(fileno(output), STDERR_FILENO) >= 0);
    EXPECT(HEARTH_BUSY, hearth_leak_check_end(check, NULL, NULL, &count));
    fflush(stderr);
    cr_assert(dup2(saved, STDERR_FILENO) >= 0);
    EXPECT_SIZE(2000, count);
    char line[4096];
    size_t lines = 0;
    rewind(output);
    while (fgets(line, sizeof line, output) != NULL) {
        lines++;
        cr_assert_not_null(strstr(line, "leak: 64 bytes"), "%s", line);
        cr_assert_not_null(strstr(line, "execution"), "%s", line);
    }
    EXPECT_SIZE(2000, lines);
    fclose(output);
}

Test(leak_check, wrong_arguments)
{
    misuse_record();
    EXPECT(HEARTH_INVALID, hearth_leak_check_begin(NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_leak_check_end(NULL, NULL, NULL, NULL));
    EXPECT_SIZE(2, misuse.count);
}
