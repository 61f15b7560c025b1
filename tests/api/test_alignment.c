/* SPDX-License-Identifier: Apache-2.0 */
/* Alignment, as theories over alignments and sizes on two backings. */
#include "support.h"

#include <criterion/theories.h>

TheoryDataPoints(alignment, data_is_aligned_and_large_enough) = {
    DataPoints(size_t, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 8192, 65536, 262144,
               1048576, 2097152),
    DataPoints(size_t, 0, 1, 63, 64, 65, 100, 1000, 4096, 4097, 100000, 1048577, 2097152),
    DataPoints(bool, false, true),
};

Theory((size_t alignment, size_t size, bool on_mmap), alignment, data_is_aligned_and_large_enough)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_exec *arena = NULL;
    struct hearth_buf *bufs[3];
    size_t really = alignment < HEARTH_ALIGNMENT ? HEARTH_ALIGNMENT : alignment;
    if (on_mmap)
        EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &options.backing));
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    for (size_t round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3; i++) {
            EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &request, &bufs[i]));
            cr_assert_eq((uintptr_t)hearth_buf_data(bufs[i]) % really, 0u);
            cr_assert_geq(hearth_buf_capacity(bufs[i]), size);
            EXPECT_SIZE(size, hearth_buf_size(bufs[i]));
            fill(bufs[i], (unsigned char)(i + 1));
        }
        for (size_t i = 0; i < 3; i++) {
            cr_assert(filled(bufs[i], size, (unsigned char)(i + 1)), "buffers overlap");
            give(arena, bufs[i]);
        }
    }
    EXPECT_SIZE(3, stats_of(arena).hits);
    check_identity(arena, NULL);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    hearth_backing_unref(options.backing);
}

TheoryDataPoints(alignment, not_a_power_of_two_is_invalid) = {
    DataPoints(size_t, 3, 5, 63, 65, 66, 96, 100, 127, 192, 4095, 4097, 3 << 20, 2097153, 4194304,
               6291456, SIZE_MAX, SIZE_MAX - 63),
    DataPoints(size_t, 0, 1, 4096),
};

Theory((size_t alignment, size_t size), alignment, not_a_power_of_two_is_invalid)
{
    struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_exec *arena = NULL;
    struct hearth_buf *buf = NULL;
    misuse_record(); /* keeps the default callback quiet */
    EXPECT(HEARTH_OK, hearth_exec_create(NULL, &arena));
    EXPECT(HEARTH_INVALID, hearth_exec_alloc_ex(arena, &request, &buf));
    cr_assert_null(buf);
    EXPECT_SIZE(0, hearth_exec_footprint(arena));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

TheoryDataPoints(alignment, large_alignments_have_lists_of_their_own) = {
    DataPoints(size_t, 64, 128, 4096, 2097152),
    DataPoints(size_t, 64, 128, 4096, 2097152),
    DataPoints(size_t, 100, 8192),
};

Theory((size_t first, size_t second, size_t size), alignment,
       large_alignments_have_lists_of_their_own)
{
    static struct memory memory;
    memory_init(&memory);
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 1024);
    struct hearth_buf *buf = take_aligned(arena, size, first);
    give(arena, buf);
    buf = take_aligned(arena, size, second);
    EXPECT_SIZE(first == second ? 1 : 2, memory.acquires);
    EXPECT_SIZE(first == second ? 0 : 1, hearth_exec_retained_count(arena));
    give(arena, buf);
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

Test(alignment, default_is_always_64)
{
    static struct memory memory;
    memory_init(&memory);
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *bufs[500];
    for (size_t i = 0; i < 500; i++) {
        bufs[i] = take(arena, i * i);
        cr_assert_eq((uintptr_t)hearth_buf_data(bufs[i]) % 64, 0u);
    }
    for (size_t i = 0; i < 500; i++) {
        EXPECT(HEARTH_OK, hearth_buf_resize(bufs[i], i * i * 2));
        cr_assert_eq((uintptr_t)hearth_buf_data(bufs[i]) % 64, 0u);
        give(arena, bufs[i]);
    }
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

/* With slots out "any size serves", but never storage that is not aligned as asked. */
Test(alignment, slots_that_ran_out_still_give_the_alignment)
{
    static struct memory memory;
    memory_init(&memory);
    struct hearth_exec *arena = arena_create(&memory, 2, 0, 0);
    for (size_t alignment = 64; alignment <= HEARTH_ALIGNMENT_MAX; alignment *= 2) {
        struct hearth_buf *a = take_aligned(arena, 100, alignment), *b = take(arena, 1000);
        struct hearth_buf *none = NULL;
        EXPECT(HEARTH_NO_SLOT, hearth_exec_alloc(arena, 1, &none));
        cr_assert_eq((uintptr_t)hearth_buf_data(a) % alignment, 0u);
        check_identity(arena, &memory);
        give(arena, a);
        give(arena, b);
    }
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}
