/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls on an execution arena: the answer is a status, a counter moves, the callback hears of
 * it, and no other figure changes.
 * Covered: stale and foreign returns and resizes, wrong threads, wrong requests, sizes near SIZE_MAX,
 * wrong options, NULL everywhere. Not covered: remote double returns (test_exec_threads.c). */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_buf *live;

/* Every test begins with one live buffer and two retained ones. */
static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *a = take(arena, 1000), *b = take(arena, 5000);
    live = take(arena, 300);
    fill(live, 0x77);
    give(arena, a);
    give(arena, b);
    misuse_record();
}

static void teardown(void)
{
    cr_assert(filled(live, 300, 0x77));
    check_identity(arena, &memory);
    give(arena, live);
    give(arena, take(arena, 1000));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(exec_misuse, .init = setup, .fini = teardown);

static void expect_refused(enum hearth_status expected, struct hearth_buf *buf)
{
    struct hearth_exec_stats before = stats_of(arena);
    unsigned told = misuse.count;
    uint64_t process = hearth_misuse_count();
    EXPECT(expected, hearth_exec_free(arena, buf));
    cr_assert_eq(misuse.count, told + 1, "the callback heard of %u misuses", misuse.count - told);
    cr_assert_eq(misuse.status, expected);
    cr_assert_eq(misuse.slot, buf);
    cr_assert_eq(misuse.arena, hearth_exec_allocator(arena));
    cr_assert_str_eq(misuse.call, "hearth_exec_free");
    cr_assert_str_not_empty(misuse.detail);
    cr_assert_eq(hearth_misuse_count(), process + 1);
    cr_assert_eq(stats_of(arena).misuses, before.misuses + 1);
    check_unchanged(&before, arena);

    told = misuse.count;
    EXPECT(expected, hearth_free(hearth_exec_allocator(arena), buf));
    cr_assert_eq(misuse.count, told + 1);
    check_unchanged(&before, arena);
}

static struct hearth_buf *as_buf(const volatile void *anything)
{
    return (struct hearth_buf *)(uintptr_t)anything;
}

Test(exec_misuse, double_free_is_stale)
{
    struct hearth_buf *buf = take(arena, 1000);
    give(arena, buf);
    expect_refused(HEARTH_STALE, buf);
    expect_refused(HEARTH_STALE, buf);
}

Test(exec_misuse, garbage_pointers_are_foreign)
{
    char stack[256];
    char *heap = malloc(256);
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *unmapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(closed, MAP_FAILED);
    cr_assert_neq(unmapped, MAP_FAILED);
    munmap(unmapped, 4096);

    expect_refused(HEARTH_FOREIGN, NULL);
    expect_refused(HEARTH_FOREIGN, as_buf(stack));
    expect_refused(HEARTH_FOREIGN, as_buf(heap));
    expect_refused(HEARTH_FOREIGN, as_buf(closed));
    expect_refused(HEARTH_FOREIGN, as_buf(unmapped));
    expect_refused(HEARTH_FOREIGN, as_buf(arena));
    expect_refused(HEARTH_FOREIGN, as_buf(&memory));
    expect_refused(HEARTH_FOREIGN, as_buf(hearth_buf_data(live)));
    expect_refused(HEARTH_FOREIGN, (struct hearth_buf *)(uintptr_t)&hearth_exec_free);
    for (unsigned bit = 0; bit < 64; bit++) {
        expect_refused(HEARTH_FOREIGN, as_buf((void *)((uintptr_t)1 << bit)));
        expect_refused(HEARTH_FOREIGN, as_buf((void *)(UINTPTR_MAX << bit)));
        expect_refused(HEARTH_FOREIGN, as_buf((void *)(UINTPTR_MAX >> bit)));
    }
    free(heap);
    munmap(closed, 4096);
}

Test(exec_misuse, interior_pointers_are_foreign)
{
    struct hearth_buf *found = NULL;
    for (uintptr_t offset = 1; offset < 128; offset++) {
        struct hearth_buf *inside = as_buf((char *)live + offset);
        expect_refused(HEARTH_FOREIGN, inside);
        EXPECT(HEARTH_FOREIGN, hearth_buf_resize(inside, 1));
        cr_assert_null(hearth_buf_owner(inside));
        cr_assert_eq(hearth_buf_generation(inside), 0);
        EXPECT(HEARTH_FOREIGN, hearth_buf_of(inside, &found));
    }
}

Test(exec_misuse, buffers_of_other_arenas_are_foreign)
{
    struct hearth_exec *other = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(other, 1000);
    fill(buf, 1);
    expect_refused(HEARTH_FOREIGN, buf);
    give(other, buf);
    EXPECT_SIZE(1, hearth_exec_retained_count(other));
    EXPECT(HEARTH_OK, hearth_exec_destroy(other));
    expect_refused(HEARTH_FOREIGN, buf);
    enum hearth_status status = hearth_buf_resize(buf, 10);
    cr_assert(status == HEARTH_STALE || status == HEARTH_FOREIGN, "%s", hearth_status_name(status));
}

Test(exec_misuse, a_second_return_after_trim_is_refused)
{
    struct hearth_buf *buf = take(arena, 1000);
    give(arena, buf);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    struct hearth_exec_stats before = stats_of(arena);
    enum hearth_status status = hearth_exec_free(arena, buf);
    cr_assert(status == HEARTH_STALE || status == HEARTH_FOREIGN, "%s", hearth_status_name(status));
    status = hearth_buf_resize(buf, 1);
    cr_assert(status == HEARTH_STALE || status == HEARTH_FOREIGN, "%s", hearth_status_name(status));
    check_unchanged(&before, arena);
}

Test(exec_misuse, resize_of_what_is_not_live)
{
    struct hearth_buf *buf = take(arena, 1000);
    give(arena, buf);
    struct hearth_exec_stats before = stats_of(arena);
    EXPECT(HEARTH_STALE, hearth_buf_resize(buf, 10));
    EXPECT(HEARTH_STALE, hearth_buf_resize_keep(buf, 100000));
    EXPECT(HEARTH_FOREIGN, hearth_buf_resize(NULL, 10));
    EXPECT(HEARTH_FOREIGN, hearth_buf_resize_keep(as_buf(&memory), 10));
    EXPECT(HEARTH_FOREIGN, hearth_buf_resize(as_buf(hearth_buf_data(live)), 10));
    cr_assert_eq(misuse.count, 5u, "the callback heard of %u", misuse.count);
    check_unchanged(&before, arena);
}

static enum hearth_status from_thread[8];
static struct hearth_buf *thread_buf;

static void use_from_thread(void *ignored)
{
    (void)ignored;
    struct hearth_request request = {.size = 10};
    from_thread[0] = hearth_exec_alloc(arena, 10, &thread_buf);
    from_thread[1] = hearth_exec_alloc_ex(arena, &request, &thread_buf);
    from_thread[2] = hearth_buf_resize(live, 10);
    from_thread[3] = hearth_exec_trim(arena, NULL);
    from_thread[4] = hearth_exec_set_retention_cap(arena, 10);
    from_thread[5] = hearth_exec_reset_peak(arena);
    from_thread[6] = hearth_exec_release_owner(arena);
    from_thread[7] = hearth_alloc(hearth_exec_allocator(arena), 10, &thread_buf);
}

Test(exec_misuse, other_threads_are_not_the_owner)
{
    struct hearth_exec_stats before = stats_of(arena);
    on_thread(use_from_thread, NULL);
    for (size_t i = 0; i < 8; i++)
        cr_expect_eq(from_thread[i], HEARTH_NOT_OWNER, "call %zu answers %s", i,
                     hearth_status_name(from_thread[i]));
    cr_assert_null(thread_buf);
    check_unchanged(&before, arena);
    cr_expect_eq(misuse.count, 8u, "the callback heard of %u", misuse.count);
    cr_expect_eq(stats_of(arena).misuses, before.misuses + 8);
}

Test(exec_misuse, wrong_requests_are_invalid)
{
    struct hearth_exec_stats before = stats_of(arena);
    struct hearth_buf *buf = NULL;
    static const size_t wrong[] = {3,
                                   65,
                                   96,
                                   (size_t)1 << 22,
                                   4095,
                                   4 << 20 | 1,
                                   SIZE_MAX,
                                   ((size_t)2 << 20) + 64,
                                   5 << 18,
                                   33,
                                   SIZE_MAX / 2 + 1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct hearth_request request = {.size = 100, .alignment = wrong[i]};
        EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(arena, &request, &buf));
        EXPECT(HEARTH_INVALID, hearth_alloc_ex(hearth_exec_allocator(arena), &request, &buf));
    }
    for (size_t i = 0; i < 3; i++) {
        struct hearth_request request = {.size = 100};
        request.reserved[i] = 1;
        EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(arena, &request, &buf));
    }
    cr_assert_null(buf);
    check_unchanged(&before, arena);
}

Test(exec_misuse, sizes_near_the_maximum_overflow)
{
    struct hearth_exec_stats before = stats_of(arena);
    struct hearth_buf *buf = NULL;
    for (size_t below = 0; below <= 128; below++) {
        EXPECT(HEARTH_OVERFLOW, hearth_exec_alloc(arena, SIZE_MAX - below, &buf));
        struct hearth_request request = {.size = SIZE_MAX - below, .alignment = 4096};
        EXPECT(HEARTH_OVERFLOW, hearth_exec_alloc_ex(arena, &request, &buf));
        EXPECT(HEARTH_OVERFLOW, hearth_buf_resize(live, SIZE_MAX - below));
        EXPECT(HEARTH_OVERFLOW, hearth_buf_resize_keep(live, SIZE_MAX - below));
    }
    cr_assert_null(buf);
    check_unchanged(&before, arena);
}

/* No machine has this much: the answer must not cost the arena its warm buffers. */
Test(exec_misuse, impossible_sizes_keep_the_warm_buffers)
{
    struct hearth_buf *buf = NULL;
    for (unsigned bit = 48; bit < 64; bit++) {
        struct hearth_exec_stats before = stats_of(arena);
        for (size_t more = 0; more < 2; more++) {
            enum hearth_status status = hearth_exec_alloc(arena, ((size_t)1 << bit) + more, &buf);
            cr_assert(status == HEARTH_NO_MEMORY || status == HEARTH_OVERFLOW, "2^%u: %s", bit,
                      hearth_status_name(status));
            status = hearth_buf_resize(live, ((size_t)1 << bit) + more);
            cr_assert(status == HEARTH_NO_MEMORY || status == HEARTH_OVERFLOW, "2^%u: %s", bit,
                      hearth_status_name(status));
        }
        EXPECT_SIZE(before.retained_bytes, hearth_exec_retained_bytes(arena));
        EXPECT_SIZE(before.footprint, hearth_exec_footprint(arena));
        EXPECT_SIZE(before.live_count, hearth_exec_live_count(arena));
    }
    cr_assert_null(buf);
}

Test(exec_misuse, wrong_options_are_invalid)
{
    struct hearth_exec *none = NULL;
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    static const size_t sizes[] = {
        0, 1, sizeof(size_t), sizeof options - 1, sizeof options + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        options.size = sizes[i];
        EXPECT(HEARTH_INVALID, hearth_exec_create(&options, &none));
    }
    options = (struct hearth_exec_options)HEARTH_EXEC_OPTIONS_INIT;
    options.store = HEARTH_EXEC_STORE_PLANS + 1;
    EXPECT(HEARTH_INVALID, hearth_exec_create(&options, &none));
    options.store = HEARTH_EXEC_STORE_DEFAULT;
    options.slots = SIZE_MAX;
    EXPECT(HEARTH_OVERFLOW, hearth_exec_create(&options, &none));
    cr_assert_null(none);
    EXPECT(HEARTH_INVALID, hearth_exec_create(NULL, NULL));
}

Test(exec_misuse, null_arguments)
{
    struct hearth_buf *buf = NULL;
    struct hearth_request request = {.size = 10};
    struct hearth_allocator *allocator = hearth_exec_allocator(arena);
    struct hearth_exec_stats before = stats_of(arena);
    EXPECT(HEARTH_INVALID, hearth_exec_alloc(NULL, 10, &buf));
    EXPECT(HEARTH_INVALID, hearth_exec_alloc(arena, 10, NULL));
    EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(NULL, &request, &buf));
    EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(arena, NULL, &buf));
    EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(arena, &request, NULL));
    EXPECT(HEARTH_INVALID, hearth_alloc(NULL, 10, &buf));
    EXPECT(HEARTH_INVALID, hearth_alloc(allocator, 10, NULL));
    EXPECT(HEARTH_INVALID, hearth_alloc_ex(NULL, &request, &buf));
    EXPECT(HEARTH_INVALID, hearth_alloc_ex(allocator, NULL, &buf));
    EXPECT(HEARTH_INVALID, hearth_exec_trim(NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_exec_set_retention_cap(NULL, 1));
    EXPECT(HEARTH_INVALID, hearth_exec_reset_peak(NULL));
    EXPECT(HEARTH_INVALID, hearth_exec_release_owner(NULL));
    EXPECT(HEARTH_INVALID, hearth_exec_stats(NULL, &before));
    EXPECT(HEARTH_INVALID, hearth_exec_stats(arena, NULL));
    EXPECT(HEARTH_OK, hearth_exec_destroy(NULL));
    size_t outstanding = 9;
    EXPECT(HEARTH_OK, hearth_exec_detach(NULL, &outstanding));
    EXPECT_SIZE(0, outstanding);
    cr_assert_neq(hearth_exec_free(NULL, live), HEARTH_OK);
    cr_assert_neq(hearth_free(NULL, live), HEARTH_OK);
    cr_assert_null(buf);
    cr_assert_null(hearth_exec_allocator(NULL));
    EXPECT_SIZE(0, hearth_exec_slots(NULL) + hearth_exec_live_count(NULL) +
                       hearth_exec_live_bytes(NULL) + hearth_exec_live_capacity(NULL) +
                       hearth_exec_peak_bytes(NULL) + hearth_exec_retained_count(NULL) +
                       hearth_exec_retained_bytes(NULL) + hearth_exec_pending_count(NULL) +
                       hearth_exec_pending_bytes(NULL) + hearth_exec_retention_cap(NULL) +
                       hearth_exec_footprint(NULL));
    EXPECT_SIZE(0, hearth_live_bytes(NULL) + hearth_peak_bytes(NULL));
    hearth_reset_peak(NULL);
    cr_assert_null(hearth_buf_data(NULL));
    EXPECT_SIZE(0, hearth_buf_size(NULL) + hearth_buf_capacity(NULL));
    cr_assert_null(hearth_buf_owner(NULL));
    check_unchanged(&before, arena);
}
