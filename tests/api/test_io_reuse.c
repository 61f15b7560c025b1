/* SPDX-License-Identifier: Apache-2.0 */
/* Which storage serves a request to the I/O arena.
 * Covered: reuse at once, smallest sufficient first, the reuse ratio, order among equals from 64 KiB up,
 * size 0 and impossible sizes, alignments, zeroed requests, steady state. Not covered: several threads. */
#include "io_support.h"

static struct memory memory;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
}

TestSuite(io_reuse, .init = setup);

Test(io_reuse, what_was_returned_serves_again)
{
    static const size_t sizes[] = {1, 64, 1000, 5000, 63 * KIB, 64 * KIB, 100 * KIB, 3 * MIB};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_buf *buf = io_take(io, sizes[i]);
        void *data = hearth_buf_data(buf);
        EXPECT_SIZE(class_of(sizes[i]), hearth_buf_capacity(buf));
        io_give(io, buf);
        memory_clear_log(&memory);
        struct hearth_lease lease = io_lease(io, sizes[i]);
        cr_assert_eq(hearth_lease_data(lease), data, "%zu bytes", sizes[i]);
        io_drop(lease);
        buf = io_take(io, sizes[i]);
        cr_assert_eq(hearth_buf_data(buf), data, "%zu bytes", sizes[i]);
        io_give(io, buf);
        EXPECT_SIZE(0, memory.acquires);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    }
    io_finish(io, &memory);
}

static void smallest_first(size_t unit)
{
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *large = io_take(io, 32 * unit), *medium = io_take(io, 16 * unit),
                      *small = io_take(io, 10 * unit), *above = io_take(io, 40 * unit);
    void *data[] = {hearth_buf_data(small), hearth_buf_data(medium), hearth_buf_data(large)};
    io_give(io, small);
    io_give(io, above);
    io_give(io, large);
    io_give(io, medium);
    memory_clear_log(&memory);
    struct hearth_buf *bufs[4];
    for (size_t i = 0; i < 3; i++) {
        bufs[i] = io_take(io, 8 * unit);
        cr_assert_eq(hearth_buf_data(bufs[i]), data[i], "request %zu of unit %zu", i, unit);
    }
    EXPECT_SIZE(0, memory.acquires);
    bufs[3] = io_take(io, 8 * unit); /* 40 units are more than 4 times the request */
    EXPECT_SIZE(1, memory.acquires);
    EXPECT_SIZE(8 * unit, hearth_buf_capacity(bufs[3]));
    for (size_t i = 0; i < 4; i++)
        io_give(io, bufs[i]);
    io_finish(io, &memory);
}

Test(io_reuse, the_smallest_sufficient_serves_small)
{
    smallest_first(128);
}

Test(io_reuse, the_smallest_sufficient_serves_large)
{
    smallest_first(16 * KIB);
}

Test(io_reuse, the_smallest_sufficient_serves_across_64_kib)
{
    smallest_first(4 * KIB);
}

static void ratio_bound(uint32_t ratio, size_t request, size_t retained, bool serves)
{
    struct hearth_io *io = io_create(&memory, 0, 0, ratio);
    struct hearth_buf *buf = io_take(io, retained);
    void *data = hearth_buf_data(buf);
    io_give(io, buf);
    memory_clear_log(&memory);
    buf = io_take(io, request);
    cr_assert_eq(hearth_buf_data(buf) == data, serves, "%zu for %zu with ratio %u", retained,
                 request, ratio);
    EXPECT_SIZE(serves ? 0 : 1, memory.acquires);
    io_give(io, buf);
    io_identity(io, &memory);
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
}

Test(io_reuse, a_buffer_serves_up_to_the_ratio)
{
    ratio_bound(0, 1024, 4096, true);
    ratio_bound(0, 1024, 5120, false);
    ratio_bound(0, 897, 4096, true); /* rounded up to 1024 first */
    ratio_bound(0, 896, 4096, false);
    ratio_bound(0, 64 * KIB, 256 * KIB, true);
    ratio_bound(0, 64 * KIB, 320 * KIB, false);
    ratio_bound(1, 1000, 1024, true);
    ratio_bound(1, 1000, 1280, false);
    ratio_bound(2, 1000, 2048, true);
    ratio_bound(2, 1000, 2560, false);
    ratio_bound(1024, 64, 64 * KIB, true);
    ratio_bound(1024, 64, 80 * KIB, false);
    memory_fini(&memory);
}

Test(io_reuse, last_returned_serves_first_from_64_kib_up)
{
    static const size_t sizes[] = {64 * KIB, 100 * KIB, MIB};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    for (size_t s = 0; s < COUNT_OF(sizes); s++) {
        struct hearth_lease leases[6];
        void *data[6];
        for (size_t i = 0; i < 6; i++) {
            leases[i] = io_lease(io, sizes[s]);
            data[i] = hearth_lease_data(leases[i]);
        }
        for (size_t i = 0; i < 6; i++)
            io_drop(leases[i]);
        for (size_t i = 0; i < 6; i++) {
            leases[i] = io_lease(io, sizes[s]);
            cr_assert_eq(hearth_lease_data(leases[i]), data[5 - i], "%zu bytes, %zu", sizes[s], i);
        }
        for (size_t i = 0; i < 6; i++)
            io_drop(leases[i]);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    }
    io_finish(io, &memory);
}

Test(io_reuse, small_ones_are_all_found_again)
{
    enum { MANY = 500 };
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    static struct hearth_lease leases[MANY];
    for (size_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < MANY; i++)
            leases[i] = io_lease(io, 200);
        for (size_t i = 0; i < MANY; i++)
            io_drop(leases[i * 7 % MANY]);
        EXPECT_SIZE(MANY, memory.acquires);
        EXPECT_SIZE(MANY, hearth_io_retained_count(io));
    }
    EXPECT_SIZE(0, memory.releases);
    io_finish(io, &memory);
}

Test(io_reuse, steady_after_one_run)
{
    static const size_t sizes[] = {100, 70000, 0, 5000, 300, 2 * MIB, 5000, 65536, 64};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    for (size_t run = 0; run < 50; run++) {
        struct hearth_lease leases[COUNT_OF(sizes)];
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            leases[i] = io_lease(io, sizes[i]);
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            io_drop(leases[i * 4 % COUNT_OF(sizes)]);
        EXPECT_SIZE(COUNT_OF(sizes), memory.acquires);
    }
    EXPECT_SIZE(0, memory.releases);
    io_finish(io, &memory);
}

Test(io_reuse, size_zero_gives_distinct_buffers)
{
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *a = io_take(io, 0), *b = io_take(io, 0);
    struct hearth_lease lease = io_lease(io, 0);
    cr_assert_neq(hearth_buf_data(a), hearth_buf_data(b));
    cr_assert_neq(hearth_buf_data(a), hearth_lease_data(lease));
    cr_assert_not_null(hearth_lease_data(lease));
    EXPECT_SIZE(64, hearth_buf_capacity(a));
    EXPECT_SIZE(3, hearth_io_live_count(io));
    EXPECT_SIZE(0, hearth_io_live_bytes(io));
    EXPECT_SIZE(192, hearth_io_live_capacity(io));
    io_give(io, a);
    io_give(io, b);
    io_drop(lease);
    io_finish(io, &memory);
}

Test(io_reuse, impossible_sizes_change_nothing)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 63, SIZE_MAX - 4096,
                                   (size_t)PTRDIFF_MAX + 1};
    static const size_t alignments[] = {0, 64, 4096, 2 * MIB};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *held = io_take(io, 100), *none = NULL;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    io_give(io, io_take(io, 1000));
    struct io_figures before = io_figures(io);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        EXPECT(HEARTH_OVERFLOW, hearth_io_alloc(io, sizes[i], &none));
        EXPECT(HEARTH_OVERFLOW, hearth_io_lease(io, sizes[i], &lease));
        EXPECT(HEARTH_OVERFLOW, hearth_buf_resize(held, sizes[i]));
        for (size_t j = 0; j < COUNT_OF(alignments); j++) {
            struct hearth_request request = {.size = sizes[i], .alignment = alignments[j]};
            EXPECT(HEARTH_OVERFLOW, hearth_io_alloc_ex(io, &request, &none));
            EXPECT(HEARTH_OVERFLOW, hearth_io_lease_ex(io, &request, &lease));
        }
    }
    cr_assert_null(none);
    cr_assert_null(lease.buf);
    io_unchanged(&before, io);
    io_give(io, held);
    io_finish(io, &memory);
}

Test(io_reuse, alignments_up_to_2_mib)
{
    static const size_t sizes[] = {0, 1, 64, 1000, 4097, 100000, 3 * MIB};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    for (size_t alignment = 1; alignment <= HEARTH_ALIGNMENT_MAX; alignment *= 2) {
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            struct hearth_buf *a = io_take_aligned(io, sizes[i], alignment),
                              *b = io_take_aligned(io, sizes[i], alignment);
            void *data = hearth_buf_data(a);
            fill(a, 1);
            fill(b, 2);
            cr_assert(filled(a, sizes[i], 1));
            io_give(io, a);
            memory_clear_log(&memory);
            a = io_take_aligned(io, sizes[i], alignment);
            cr_assert_eq(hearth_buf_data(a), data, "%zu aligned to %zu", sizes[i], alignment);
            EXPECT_SIZE(0, memory.acquires);
            io_give(io, a);
            io_give(io, b);
            io_identity(io, &memory);
            EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
        }
    }
    io_finish(io, &memory);
}

Test(io_reuse, alignments_have_lists_of_their_own)
{
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    io_give(io, io_take_aligned(io, 8192, 4096));
    memory_clear_log(&memory);
    struct hearth_buf *plain = io_take(io, 8192), *other = io_take_aligned(io, 8192, 256);
    EXPECT_SIZE(2, memory.acquires);
    struct hearth_buf *same = io_take_aligned(io, 5000, 4096);
    EXPECT_SIZE(2, memory.acquires);
    io_give(io, plain);
    io_give(io, other);
    io_give(io, same);
    io_finish(io, &memory);
}

Test(io_reuse, wrong_requests_are_invalid)
{
    static const size_t alignments[] = {3, 65, 96, 4095, 4097, 3 * MIB, 4 * MIB, SIZE_MAX};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *none = NULL;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct io_figures before = io_figures(io);
    for (size_t i = 0; i < COUNT_OF(alignments); i++) {
        struct hearth_request request = {.size = 100, .alignment = alignments[i]};
        EXPECT(HEARTH_INVALID, hearth_io_alloc_ex(io, &request, &none));
        EXPECT(HEARTH_INVALID, hearth_io_lease_ex(io, &request, &lease));
    }
    struct hearth_request reserved = {.size = 100, .reserved = {0, 0, 0, 1}};
    EXPECT(HEARTH_INVALID, hearth_io_alloc_ex(io, &reserved, &none));
    EXPECT(HEARTH_INVALID, hearth_io_alloc_ex(io, NULL, &none));
    EXPECT(HEARTH_INVALID, hearth_io_alloc(io, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_alloc(NULL, 1, &none));
    EXPECT(HEARTH_INVALID, hearth_io_lease(io, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_lease(NULL, 1, &lease));
    EXPECT(HEARTH_INVALID, hearth_io_lease_ex(io, NULL, &lease));
    cr_assert_null(none);
    cr_assert_null(lease.buf);
    cr_assert_eq(misuse.status, HEARTH_INVALID);
    io_unchanged(&before, io);
    io_finish(io, &memory);
}

Test(io_reuse, zeroed_requests_read_as_zero)
{
    static const size_t sizes[] = {100, 5000, 100000};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_request request = {.size = sizes[i], .zero = 1};
        for (size_t round = 0; round < 3; round++) {
            struct hearth_buf *buf = NULL;
            EXPECT(HEARTH_OK, hearth_io_alloc_ex(io, &request, &buf));
            cr_assert(filled(buf, sizes[i], 0), "%zu bytes, round %zu", sizes[i], round);
            memset(hearth_buf_data(buf), 0xEE, hearth_buf_capacity(buf));
            io_give(io, buf);
        }
    }
    io_finish(io, &memory);
}
