/* SPDX-License-Identifier: Apache-2.0 */
/* From a payload's address to its buffer. Covered: start and interior, after return, trim, eviction and
 * destroy, after a resize that moves, many buffers of several arenas, garbage. */
#include "support.h"

#include <sys/mman.h>

static struct memory memory;
static struct hearth_exec *arena;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(buf_of, .init = setup, .fini = teardown);

static void expect_found(const void *data, struct hearth_buf *buf)
{
    struct hearth_buf *found = NULL;
    EXPECT(HEARTH_OK, hearth_buf_of(data, &found));
    cr_assert_eq(found, buf);
}

static void expect_not(enum hearth_status expected, const void *data)
{
    struct hearth_buf *found = NULL;
    EXPECT(expected, hearth_buf_of(data, &found));
    cr_assert_null(found);
}

Test(buf_of, only_the_start_of_the_payload)
{
    struct hearth_buf *buf = take(arena, 300000);
    const char *data = hearth_buf_data(buf);
    expect_found(data, buf);
    for (size_t offset = 1; offset < 300000; offset += offset < 256 ? 1 : 61)
        expect_not(HEARTH_FOREIGN, data + offset);
    expect_not(HEARTH_FOREIGN, data + 64);
    expect_not(HEARTH_FOREIGN, data + 4096);
    expect_not(HEARTH_FOREIGN, data + hearth_buf_capacity(buf));
    expect_found(data, buf);
    give(arena, buf);
}

Test(buf_of, garbage_is_foreign)
{
    char stack[64];
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect_not(HEARTH_FOREIGN, NULL);
    expect_not(HEARTH_FOREIGN, stack);
    expect_not(HEARTH_FOREIGN, closed);
    expect_not(HEARTH_FOREIGN, (const void *)(uintptr_t)&hearth_buf_of);
    for (unsigned bit = 0; bit < 64; bit++) {
        expect_not(HEARTH_FOREIGN, (const void *)((uintptr_t)1 << bit));
        expect_not(HEARTH_FOREIGN, (const void *)(UINTPTR_MAX << bit));
        expect_not(HEARTH_FOREIGN, (const void *)(UINTPTR_MAX >> bit));
    }
    struct hearth_buf *buf = take(arena, 10);
    expect_not(HEARTH_FOREIGN, buf); /* the descriptor is no payload */
    give(arena, buf);
    EXPECT(HEARTH_INVALID, hearth_buf_of(stack, NULL));
    munmap(closed, 4096);
}

Test(buf_of, stale_while_retained_and_found_again_after_reuse)
{
    struct hearth_buf *buf = take(arena, 1000);
    const void *data = hearth_buf_data(buf);
    give(arena, buf);
    expect_not(HEARTH_STALE, data);
    struct hearth_buf *again = take(arena, 1000);
    cr_assert_eq(hearth_buf_data(again), data);
    expect_found(data, again);
    give(arena, again);
}

Test(buf_of, foreign_once_the_storage_is_gone)
{
    struct hearth_buf *trimmed = take(arena, 1000), *evicted = take(arena, 5000),
                      *bypassed = take(arena, 100000);
    const void *data = hearth_buf_data(trimmed);
    give(arena, trimmed);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    expect_not(HEARTH_FOREIGN, data);

    data = hearth_buf_data(evicted);
    give(arena, evicted);
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 4096));
    expect_not(HEARTH_FOREIGN, data);

    data = hearth_buf_data(bypassed);
    give(arena, bypassed);
    expect_not(HEARTH_FOREIGN, data);

    struct hearth_exec *other = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(other, 1000);
    data = hearth_buf_data(buf);
    give(other, buf);
    EXPECT(HEARTH_OK, hearth_exec_destroy(other));
    expect_not(HEARTH_FOREIGN, data);
}

Test(buf_of, follows_a_resize_that_moves)
{
    struct hearth_buf *buf = take(arena, 1000);
    const void *before = hearth_buf_data(buf);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 100000));
    cr_assert_neq(hearth_buf_data(buf), before);
    expect_found(hearth_buf_data(buf), buf);
    struct hearth_buf *found = NULL;
    enum hearth_status status = hearth_buf_of(before, &found);
    cr_assert(status == HEARTH_STALE || status == HEARTH_FOREIGN, "%s", hearth_status_name(status));
    give(arena, buf);
}

enum { MANY = 20000 };

Test(buf_of, many_buffers_of_several_arenas)
{
    static struct hearth_buf *bufs[MANY];
    static const void *data[MANY];
    struct hearth_exec *arenas[3] = {arena, arena_create(NULL, 0, 0, 0),
                                     arena_create(&memory, 0, 0, 0)};
    for (size_t i = 0; i < MANY; i++) {
        bufs[i] = take(arenas[i % 3], i % 7 * 40);
        data[i] = hearth_buf_data(bufs[i]);
    }
    for (size_t i = 0; i < MANY; i++) {
        expect_found(data[i], bufs[i]);
        cr_assert_eq(hearth_buf_owner(bufs[i]), hearth_exec_allocator(arenas[i % 3]));
    }
    for (size_t i = 0; i < MANY; i += 2)
        give(arenas[i % 3], bufs[i]);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2)
            expect_found(data[i], bufs[i]);
        else
            expect_not(HEARTH_STALE, data[i]);
    }
    for (size_t i = 0; i < 3; i++)
        EXPECT(HEARTH_OK, hearth_exec_trim(arenas[i], NULL));
    for (size_t i = 0; i < MANY; i++) {
        if (i % 2)
            expect_found(data[i], bufs[i]);
        else
            expect_not(HEARTH_FOREIGN, data[i]);
    }
    for (size_t i = 1; i < MANY; i += 2)
        give(arenas[i % 3], bufs[i]);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arenas[1]));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arenas[2]));
}
