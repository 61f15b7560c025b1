/* SPDX-License-Identifier: Apache-2.0 */
/* The retention cap, least recently freed eviction, and trim.
 * Covered: order across size classes, alignments and reuse; lowering; bypass; 0 and unbounded; trim
 * with live and retained buffers; steady repeats after trim. Not covered: the backing's own purge. */
#include "support.h"

static struct memory memory;

static void setup(void)
{
    memory_init(&memory);
    misuse_record(); /* keeps the default callback quiet */
}

static void finish(struct hearth_exec *arena)
{
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

/* The backing got exactly these lengths back since the log was cleared; the order of the calls to the
 * backing within one operation is nobody's business. */
static void expect_released(size_t count, const size_t *lengths)
{
    EXPECT_SIZE(count, memory.releases);
    for (size_t i = 0; i < count; i++) {
        size_t expected = 0, got = 0;
        for (size_t j = 0; j < count; j++) {
            expected += lengths[j] == lengths[i];
            got += memory.released[j] == lengths[i];
        }
        cr_assert_eq(got, expected, "%zu bytes were given back %zu times", lengths[i], got);
    }
}

#define EXPECT_RELEASED(...)                                                                       \
    expect_released(sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t),                        \
                    (const size_t[]){__VA_ARGS__})

TestSuite(exec_cap, .init = setup);

Test(exec_cap, a_return_above_the_cap_evicts_the_least_recently_freed)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 4096, 0);
    EXPECT_SIZE(4096, hearth_exec_retention_cap(arena));
    struct hearth_buf *a = take(arena, 1024), *b = take(arena, 2048), *c = take(arena, 512),
                      *d = take(arena, 1536), *e = take(arena, 3072);
    give(arena, b);
    give(arena, a);
    give(arena, c);
    EXPECT_SIZE(0, memory.releases);
    give(arena, d); /* 2048 1024 512 1536 = 5120 */
    EXPECT_RELEASED(2048);
    EXPECT_SIZE(3072, hearth_exec_retained_bytes(arena));
    give(arena, e); /* 1024 512 1536 3072 = 6144 */
    EXPECT_RELEASED(2048, 1024, 512, 1536);
    EXPECT_SIZE(3072, hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(1, hearth_exec_retained_count(arena));
    EXPECT_SIZE(4, stats_of(arena).evictions);
    finish(arena);
}

Test(exec_cap, eviction_stops_as_soon_as_the_rest_fits)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 1024, 0);
    struct hearth_buf *bufs[9];
    for (size_t i = 0; i < 9; i++)
        bufs[i] = take(arena, 128);
    for (size_t i = 0; i < 9; i++)
        give(arena, bufs[i]);
    EXPECT_SIZE(1024, hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(1, memory.releases);
    finish(arena);
}

Test(exec_cap, lowering_evicts_at_once_in_order_of_return)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    static const size_t sizes[] = {64, 1 << 20, 4096, 256, 128 << 10, 640, 4096, 192};
    static const size_t order[] = {3, 0, 6, 1, 7, 2, 5, 4};
    struct hearth_buf *bufs[8];
    size_t total = 0;
    for (size_t i = 0; i < 8; i++) {
        bufs[i] = take(arena, sizes[i]);
        total += sizes[i];
    }
    for (size_t i = 0; i < 8; i++)
        give(arena, bufs[order[i]]);
    EXPECT_SIZE(total, hearth_exec_retained_bytes(arena));

    for (size_t i = 0; i < 8; i++) {
        EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, total - 1));
        total -= sizes[order[i]];
        EXPECT_SIZE(i + 1, memory.releases);
        EXPECT_SIZE(sizes[order[i]], memory.released[i]);
        EXPECT_SIZE(total, hearth_exec_retained_bytes(arena));
        EXPECT_SIZE(7 - i, hearth_exec_retained_count(arena));
        check_identity(arena, &memory);
    }
    finish(arena);
}

Test(exec_cap, order_holds_across_alignments)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    static const size_t alignments[] = {64, 4096, 128, 64, 65536, 256};
    static const size_t sizes[] = {8192, 4096, 4096, 5120, 16384, 6144};
    struct hearth_buf *bufs[6];
    size_t capacities[6];
    for (size_t i = 0; i < 6; i++) {
        bufs[i] = take_aligned(arena, sizes[i], alignments[i]);
        capacities[i] = hearth_buf_capacity(bufs[i]);
    }
    for (size_t i = 6; i-- > 0;)
        give(arena, bufs[i]);
    for (size_t i = 6; i-- > 0;) {
        size_t retained = hearth_exec_retained_bytes(arena);
        EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, retained - 1));
        EXPECT_SIZE(6 - i, memory.releases);
        EXPECT_SIZE(capacities[i], memory.released[5 - i]);
        EXPECT_SIZE(retained - capacities[i], hearth_exec_retained_bytes(arena));
    }
    finish(arena);
}

Test(exec_cap, reuse_makes_a_buffer_the_most_recent)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *a = take(arena, 1024), *b = take(arena, 4096), *c = take(arena, 16384);
    give(arena, a);
    give(arena, b);
    give(arena, c);
    a = take(arena, 1024);
    give(arena, a); /* now 4096 16384 1024 */
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 1024));
    EXPECT_RELEASED(4096, 16384);
    finish(arena);
}

Test(exec_cap, within_a_class_the_oldest_goes_and_the_newest_is_reused)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *bufs[4];
    void *data[4];
    for (size_t i = 0; i < 4; i++) {
        bufs[i] = take(arena, 1000);
        data[i] = hearth_buf_data(bufs[i]);
    }
    for (size_t i = 0; i < 4; i++)
        give(arena, bufs[i]);
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 2048));
    bufs[0] = take(arena, 1000);
    bufs[1] = take(arena, 1000);
    cr_assert_eq(hearth_buf_data(bufs[0]), data[3]);
    cr_assert_eq(hearth_buf_data(bufs[1]), data[2]);
    give(arena, bufs[0]);
    give(arena, bufs[1]);
    finish(arena);
}

Test(exec_cap, a_buffer_above_the_cap_bypasses_and_evicts_nobody)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 4096, 0);
    struct hearth_buf *small = take(arena, 4096), *large = take(arena, 5120);
    give(arena, small);
    give(arena, large);
    EXPECT_RELEASED(5120);
    EXPECT_SIZE(4096, hearth_exec_retained_bytes(arena));
    struct hearth_exec_stats stats = stats_of(arena);
    EXPECT_SIZE(1, stats.bypasses);
    EXPECT_SIZE(0, stats.evictions);
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, small));
    finish(arena);
}

Test(exec_cap, cap_zero_retains_nothing)
{
    struct hearth_exec *arena = arena_create(&memory, 2, 0, 0);
    struct hearth_buf *kept = take(arena, 4096), *live = take(arena, 64);
    give(arena, kept);
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 0));
    EXPECT_SIZE(0, hearth_exec_retention_cap(arena));
    EXPECT_SIZE(0, hearth_exec_retained_count(arena));
    fill(live, 5);
    cr_assert(filled(live, 64, 5));
    for (size_t i = 0; i < 3; i++) {
        struct hearth_buf *buf = take(arena, 100);
        give(arena, buf);
        EXPECT_SIZE(0, hearth_exec_retained_bytes(arena));
    }
    EXPECT_SIZE(4, memory.releases);
    EXPECT_SIZE(64, hearth_exec_footprint(arena));
    give(arena, live);
    EXPECT_SIZE(0, hearth_exec_footprint(arena));
    finish(arena);
}

Test(exec_cap, a_cap_of_one_at_creation_retains_nothing)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 1, 0);
    give(arena, take(arena, 0));
    give(arena, take(arena, 4096));
    EXPECT_SIZE(0, hearth_exec_retained_count(arena));
    EXPECT_SIZE(1, hearth_exec_retention_cap(arena));
    finish(arena);
}

Test(exec_cap, unbounded_retains_everything)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 64, 0);
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, HEARTH_UNBOUNDED));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_exec_retention_cap(arena));
    struct hearth_buf *bufs[50];
    for (size_t i = 0; i < 50; i++)
        bufs[i] = take(arena, i * 1000);
    for (size_t i = 0; i < 50; i++)
        give(arena, bufs[i]);
    EXPECT_SIZE(50, hearth_exec_retained_count(arena));
    EXPECT_SIZE(0, memory.releases);
    finish(arena);
}

Test(exec_cap, live_buffers_do_not_count)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 1024, 0);
    struct hearth_buf *live = take(arena, MIB), *small = take(arena, 1024);
    fill(live, 9);
    give(arena, small);
    EXPECT_SIZE(1024, hearth_exec_retained_bytes(arena));
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 0));
    cr_assert(filled(live, MIB, 9));
    give(arena, live);
    finish(arena);
}

Test(exec_cap, a_resize_that_moves_keeps_within_the_cap)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 1024, 0);
    struct hearth_buf *buf = take(arena, 1024), *kept = take(arena, 512);
    give(arena, kept);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 4096));
    cr_assert_leq(hearth_exec_retained_bytes(arena), 1024u);
    check_identity(arena, &memory);
    give(arena, buf);
    cr_assert_leq(hearth_exec_retained_bytes(arena), 1024u);
    finish(arena);
}

/* The storage that a resize leaves behind was freed then, before whatever is returned next. */
Test(exec_cap, storage_left_by_a_resize_has_its_place_in_the_order)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 1);
    struct hearth_buf *a = take(arena, 640), *b = take(arena, 1280), *c = take(arena, 384),
                      *d = take(arena, 192);
    give(arena, a);
    EXPECT(HEARTH_OK, hearth_buf_resize(b, 10000));
    give(arena, c);
    give(arena, d); /* 640 1280 384 192 */
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 384 + 192));
    EXPECT_RELEASED(640, 1280);
    EXPECT_SIZE(384 + 192, hearth_exec_retained_bytes(arena));
    give(arena, b);
    finish(arena);
}

Test(exec_cap, trim_gives_back_exactly_what_is_retained)
{
    struct hearth_exec *arena = arena_create(&memory, 4, 0, 0);
    struct hearth_buf *a = take(arena, 100), *b = take_aligned(arena, 5000, 4096),
                      *live = take(arena, 2000);
    fill(live, 0x3C);
    size_t expected = hearth_buf_capacity(a) + hearth_buf_capacity(b), released = 1;
    give(arena, a);
    give(arena, b);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, &released));
    EXPECT_SIZE(expected, released);
    EXPECT_SIZE(0, hearth_exec_retained_count(arena));
    EXPECT_SIZE(0, hearth_exec_retained_bytes(arena));
    EXPECT_SIZE(2048, hearth_exec_footprint(arena));
    EXPECT_SIZE(2000, hearth_exec_live_bytes(arena));
    cr_assert(filled(live, 2000, 0x3C));
    check_identity(arena, &memory);

    EXPECT(HEARTH_OK, hearth_exec_trim(arena, &released));
    EXPECT_SIZE(0, released);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    EXPECT_SIZE(3, stats_of(arena).trims);
    EXPECT_SIZE(0, stats_of(arena).evictions);
    give(arena, live);
    finish(arena);
}

Test(exec_cap, trimmed_slots_are_usable_again)
{
    struct hearth_exec *arena = arena_create(&memory, 3, 0, 0);
    for (size_t round = 0; round < 100; round++) {
        struct hearth_buf *bufs[3], *none = NULL;
        for (size_t i = 0; i < 3; i++)
            bufs[i] = take(arena, 100 * (i + round));
        EXPECT(HEARTH_NO_SLOT, hearth_exec_alloc(arena, 1, &none));
        for (size_t i = 0; i < 3; i++)
            give(arena, bufs[i]);
        EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
        EXPECT_SIZE(0, hearth_exec_footprint(arena));
    }
    finish(arena);
}

static void repeat(struct hearth_exec *arena)
{
    static const size_t sizes[] = {100, 5000, 70000, 0, 5000, 300};
    struct hearth_buf *bufs[6];
    for (size_t i = 0; i < 6; i++)
        bufs[i] = take(arena, sizes[i]);
    for (size_t i = 0; i < 6; i++)
        give(arena, bufs[(i * 5 + 1) % 6]);
}

Test(exec_cap, steady_again_one_run_after_trim)
{
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    repeat(arena);
    size_t retained = hearth_exec_retained_bytes(arena);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    memory_clear_log(&memory);
    repeat(arena);
    EXPECT_SIZE(6, memory.acquires);
    memory_clear_log(&memory);
    for (size_t i = 0; i < 5; i++)
        repeat(arena);
    EXPECT_SIZE(0, memory.acquires);
    EXPECT_SIZE(0, memory.releases);
    EXPECT_SIZE(retained, hearth_exec_retained_bytes(arena));
    finish(arena);
}

/* exec.h: before NO_MEMORY is answered, what the arena retains is given back and the request tried
 * again. */
Test(exec_cap, retained_storage_is_given_back_before_no_memory)
{
    struct hearth_backing *failing = NULL;
    EXPECT(HEARTH_OK, hearth_backing_create_failing(memory.backing, &failing));
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = failing;
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    struct hearth_buf *live = take(arena, 200), *none = NULL;
    give(arena, take(arena, 1000));

    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 1));
    struct hearth_buf *large = take(arena, 64 * KIB);
    EXPECT_SIZE(0, hearth_exec_retained_bytes(arena));
    check_identity(arena, &memory);

    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 100));
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(arena, 128 * KIB, &none));
    cr_assert_null(none);
    EXPECT_SIZE(2, hearth_exec_live_count(arena));
    EXPECT_SIZE(200 + 64 * KIB, hearth_exec_live_bytes(arena));
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 0, 0));
    give(arena, take(arena, 128 * KIB));
    give(arena, live);
    give(arena, large);
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    hearth_backing_unref(failing);
    memory_fini(&memory);
}
