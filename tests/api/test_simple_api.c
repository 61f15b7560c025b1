/* SPDX-License-Identifier: Apache-2.0 */
/* The simple allocator: reusable slots, no retained storage. */
#include "support.h"

static struct memory memory;
static struct hearth_simple *simple;
static struct hearth_allocator *allocator;

static void setup(void)
{
    memory_init(&memory);
    EXPECT(HEARTH_OK, hearth_simple_create_on(memory.backing, 3, &simple));
    allocator = hearth_simple_allocator(simple);
    cr_assert_not_null(allocator);
    misuse_record();
}

static void teardown(void)
{
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    memory_fini(&memory);
}

TestSuite(simple_api, .init = setup, .fini = teardown);

Test(simple_api, each_alloc_and_free_goes_to_the_backing)
{
    for (size_t round = 1; round <= 5; round++) {
        struct hearth_buf *buf = NULL;
        EXPECT(HEARTH_OK, hearth_alloc(allocator, 1000, &buf));
        EXPECT_SIZE(1000, hearth_buf_size(buf));
        cr_assert_geq(hearth_buf_capacity(buf), 1000u);
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 64, 0u);
        cr_assert_eq(hearth_buf_owner(buf), allocator);
        EXPECT_SIZE(round, memory.acquires);
        fill(buf, 1);
        EXPECT(HEARTH_OK, hearth_free(allocator, buf));
        EXPECT_SIZE(round, memory.releases);
        EXPECT_SIZE(0, memory.bytes);
    }
}

Test(simple_api, slots_are_limited_and_reused)
{
    struct hearth_buf *bufs[3], *none = NULL;
    EXPECT_SIZE(3, hearth_simple_slots(simple));
    for (size_t round = 0; round < 100; round++) {
        for (size_t i = 0; i < 3; i++) {
            EXPECT_SIZE(i, hearth_simple_live_count(simple));
            EXPECT(HEARTH_OK, hearth_alloc(allocator, i * 100, &bufs[i]));
        }
        EXPECT(HEARTH_NO_SLOT, hearth_alloc(allocator, 1, &none));
        EXPECT_SIZE(300, hearth_live_bytes(allocator));
        EXPECT(HEARTH_BUSY, hearth_simple_destroy(simple));
        for (size_t i = 0; i < 3; i++)
            EXPECT(HEARTH_OK, hearth_free(allocator, bufs[i]));
    }
    cr_assert_null(none);
    EXPECT_SIZE(300, hearth_peak_bytes(allocator));
    hearth_reset_peak(allocator);
    EXPECT_SIZE(0, hearth_peak_bytes(allocator));
    EXPECT_SIZE(0, hearth_live_bytes(allocator));
}

Test(simple_api, misuse_is_answered)
{
    struct hearth_buf *buf = NULL, *foreign = NULL;
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    foreign = take(arena, 10);
    EXPECT(HEARTH_OK, hearth_alloc(allocator, 10, &buf));
    EXPECT(HEARTH_FOREIGN, hearth_free(allocator, foreign));
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(arena, buf));
    EXPECT(HEARTH_FOREIGN, hearth_free(allocator, NULL));
    EXPECT(HEARTH_FOREIGN, hearth_free(allocator, (struct hearth_buf *)(uintptr_t)&memory));
    for (uintptr_t offset = 1; offset < 128; offset++)
        EXPECT(HEARTH_FOREIGN,
               hearth_free(allocator, (struct hearth_buf *)(uintptr_t)((char *)buf + offset)));
    EXPECT(HEARTH_OVERFLOW, hearth_alloc(allocator, SIZE_MAX, &foreign));
    EXPECT(HEARTH_INVALID, hearth_alloc(allocator, 10, NULL));
    EXPECT_SIZE(1, hearth_simple_live_count(simple));
    EXPECT(HEARTH_OK, hearth_free(allocator, buf));
    unsigned told = misuse.count;
    enum hearth_status status = hearth_free(allocator, buf);
    cr_assert(status == HEARTH_STALE || status == HEARTH_FOREIGN, "%s", hearth_status_name(status));
    cr_assert_eq(misuse.count, told + 1);
    EXPECT_SIZE(0, hearth_simple_live_count(simple));
    give(arena, foreign);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(simple_api, requests_handles_and_resize_work)
{
    struct hearth_request request = {.size = 5000, .alignment = 65536, .zero = true};
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_buf *buf = NULL, *found = NULL;
    EXPECT(HEARTH_OK, hearth_alloc_ex(allocator, &request, &buf));
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 65536, 0u);
    cr_assert(filled(buf, 5000, 0));
    fill(buf, 9);
    EXPECT(HEARTH_OK, hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    uint64_t generation = hearth_buf_generation(buf);
    EXPECT(HEARTH_OK, hearth_buf_resize_keep(buf, 500000));
    cr_assert(filled(buf, 5000, 9));
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 65536, 0u);
    cr_assert_eq(hearth_buf_generation(buf), generation);
    EXPECT_SIZE(500000, hearth_live_bytes(allocator));
    EXPECT_SIZE(500000, hearth_peak_bytes(allocator));
    EXPECT_SIZE(hearth_buf_capacity(buf), memory.bytes);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    EXPECT_SIZE(0, memory.bytes);
    request.alignment = 3;
    EXPECT(HEARTH_INVALID, hearth_alloc_ex(allocator, &request, &buf));
}

Test(simple_api, a_refusing_backing_changes_nothing)
{
    struct hearth_buf *buf = NULL, *bufs[3];
    memory.limit = 1;
    for (size_t i = 0; i < 10; i++)
        EXPECT(HEARTH_NO_MEMORY, hearth_alloc(allocator, 1000, &buf));
    EXPECT_SIZE(0, hearth_simple_live_count(simple));
    EXPECT_SIZE(0, hearth_peak_bytes(allocator));
    memory.limit = 0;
    for (size_t i = 0; i < 3; i++)
        EXPECT(HEARTH_OK, hearth_alloc(allocator, 1000, &bufs[i]));
    for (size_t i = 0; i < 3; i++)
        EXPECT(HEARTH_OK, hearth_free(allocator, bufs[i]));
}

Test(simple_api, creation_is_checked)
{
    struct hearth_simple *none = NULL;
    EXPECT(HEARTH_INVALID, hearth_simple_create(0, &none));
    EXPECT(HEARTH_INVALID, hearth_simple_create(1, NULL));
    EXPECT(HEARTH_OVERFLOW, hearth_simple_create(SIZE_MAX, &none));
    cr_assert_null(none);
    EXPECT(HEARTH_OK, hearth_simple_destroy(NULL));
    EXPECT(HEARTH_OK, hearth_simple_create(1, &none));
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_alloc(hearth_simple_allocator(none), MIB, &buf));
    fill(buf, 1);
    EXPECT(HEARTH_OK, hearth_free(hearth_simple_allocator(none), buf));
    EXPECT(HEARTH_OK, hearth_simple_destroy(none));
    cr_assert_null(hearth_simple_allocator(NULL));
    EXPECT_SIZE(0, hearth_simple_slots(NULL) + hearth_simple_live_count(NULL));
}
