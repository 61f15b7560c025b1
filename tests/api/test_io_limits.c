/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of an I/O arena: live_limit and slots.
 * Covered: never passed, exactly reached, refunded; NO_SLOT; when slots ran out any sufficient free buffer
 * serves, else the largest one grows. Not covered: several threads at the limit (stress/). */
#include "io_support.h"

static struct memory memory;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
}

TestSuite(io_limits, .init = setup);

static void nothing(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    (void)context;
}

Test(io_limits, live_capacity_stays_within_the_limit)
{
    static const size_t sizes[] = {1024, 64 * KIB, 256 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_io *io = io_create_limited(&memory, 8 * sizes[i]);
        struct hearth_lease leases[8], more = HEARTH_LEASE_INIT;
        struct hearth_buf *none = NULL;
        for (size_t round = 0; round < 3; round++) {
            for (size_t j = 0; j < 8; j++)
                leases[j] = io_lease(io, sizes[i]);
            struct io_figures before = io_figures(io);
            EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(io, 1, &more));
            EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(io, sizes[i], &none));
            cr_assert_null(none);
            cr_assert_null(more.buf);
            io_unchanged(&before, io);
            io_drop(leases[3]);
            EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(io, sizes[i] + 1, &more));
            leases[3] = io_lease(io, sizes[i]);
            for (size_t j = 0; j < 8; j++)
                io_drop(leases[j]);
        }
        io_identity(io, &memory);
        EXPECT(HEARTH_OK, hearth_io_destroy(io));
    }
    memory_fini(&memory);
}

/* A refused call leaves the order of eviction alone. */
Test(io_limits, a_refused_request_touches_no_free_buffer)
{
    struct hearth_io *io = io_create_limited(&memory, MIB);
    struct hearth_buf *a = io_take(io, 256 * KIB), *b = io_take(io, 64 * KIB), *none = NULL;
    io_give(io, a);
    io_give(io, b);
    struct hearth_buf *held = io_take(io, MIB - 128 * KIB);
    enum hearth_status status = hearth_io_alloc(io, 100 * KIB, &none);
    if (status == HEARTH_OK) /* from the backing: what is free would have been too large */
        io_give(io, none);
    memory_clear_log(&memory);
    EXPECT(HEARTH_OK, hearth_io_trim_ex(io, 1, 0, NULL));
    EXPECT_SIZE(1, memory.releases);
    EXPECT_SIZE(256 * KIB, memory.released[0]);
    io_give(io, held);
    io_finish(io, &memory);
}

Test(io_limits, retained_storage_does_not_count)
{
    struct hearth_io *io = io_create_limited(&memory, 100 * KIB);
    for (size_t i = 0; i < 20; i++)
        io_give(io, io_take(io, (i % 9 + 1) * 10 * KIB));
    io_give(io, io_take(io, 96 * KIB));
    cr_assert_gt(hearth_io_footprint(io), 100 * KIB);
    io_finish(io, &memory);
}

Test(io_limits, larger_than_the_limit_is_no_memory)
{
    struct hearth_io *io = io_create_limited(&memory, 64 * KIB);
    struct hearth_buf *none = NULL;
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(io, 64 * KIB + 1, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(io, (size_t)1 << 50, &none));
    EXPECT(HEARTH_OVERFLOW, hearth_io_alloc(io, SIZE_MAX, &none));
    struct hearth_buf *buf = io_take(io, 64 * KIB);
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize(buf, 64 * KIB + 1));
    EXPECT_SIZE(64 * KIB, hearth_buf_size(buf));
    io_give(io, buf);
    io_finish(io, &memory);
}

Test(io_limits, adopted_storage_is_free_of_the_limit)
{
    static unsigned char outside[8192];
    struct hearth_io *io = io_create_limited(&memory, 1024);
    struct hearth_lease adopted = HEARTH_LEASE_INIT;
    struct hearth_buf *buf = io_take(io, 1024);
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside, sizeof outside, nothing, NULL, &adopted));
    EXPECT_SIZE(1024, hearth_io_live_capacity(io));
    io_drop(adopted);
    io_give(io, buf);
    io_give(io, io_take(io, 1000));
    io_finish(io, &memory);
}

Test(io_limits, no_slot_when_all_are_out)
{
    struct hearth_io *io = io_create(&memory, 4, 0, 0);
    struct hearth_lease leases[4], more = HEARTH_LEASE_INIT;
    struct hearth_buf *none = NULL;
    EXPECT_SIZE(4, hearth_io_slots(io));
    for (size_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < 4; i++)
            leases[i] = io_lease(io, i * 30000);
        struct io_figures before = io_figures(io);
        EXPECT(HEARTH_NO_SLOT, hearth_io_lease(io, 1, &more));
        EXPECT(HEARTH_NO_SLOT, hearth_io_alloc(io, 100 * KIB, &none));
        EXPECT(HEARTH_NO_SLOT, hearth_io_adopt(io, &more, 1, nothing, NULL, &more));
        cr_assert_null(more.buf);
        io_unchanged(&before, io);
        for (size_t i = 0; i < 4; i++)
            io_drop(leases[i]);
        if (round % 2)
            EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    }
    io_finish(io, &memory);
}

Test(io_limits, adopted_leases_take_slots)
{
    struct hearth_io *io = io_create(&memory, 2, 0, 0);
    struct hearth_lease a = HEARTH_LEASE_INIT, b = HEARTH_LEASE_INIT, c = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &a, 1, nothing, NULL, &a));
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &b, 1, nothing, NULL, &b));
    EXPECT(HEARTH_NO_SLOT, hearth_io_adopt(io, &c, 1, nothing, NULL, &c));
    EXPECT(HEARTH_NO_SLOT, hearth_io_lease(io, 1, &c));
    io_drop(a);
    c = io_lease(io, 1);
    io_drop(b);
    io_drop(c);
    io_finish(io, &memory);
}

Test(io_limits, out_of_slots_any_sufficient_buffer_serves)
{
    struct hearth_io *io = io_create(&memory, 3, 0, 0);
    struct hearth_buf *large = io_take(io, MIB), *medium = io_take(io, 200 * KIB),
                      *held = io_take(io, 100);
    void *data[] = {hearth_buf_data(medium), hearth_buf_data(large)};
    io_give(io, large);
    io_give(io, medium);
    memory_clear_log(&memory);
    struct hearth_buf *a = io_take(io, 100), *b = io_take(io, 100);
    cr_assert_eq(hearth_buf_data(a), data[0], "the smaller one first, far beyond the ratio");
    cr_assert_eq(hearth_buf_data(b), data[1]);
    EXPECT_SIZE(0, memory.acquires);
    EXPECT_SIZE(0, memory.releases);
    io_give(io, a);
    io_give(io, b);
    io_give(io, held);
    io_finish(io, &memory);
}

Test(io_limits, out_of_slots_the_largest_grows)
{
    static const size_t sizes[] = {1000, 200 * KIB, 30000};
    struct hearth_io *io = io_create(&memory, 3, 0, 0);
    struct hearth_buf *bufs[3];
    for (size_t i = 0; i < 3; i++)
        bufs[i] = io_take(io, sizes[i]);
    for (size_t i = 0; i < 3; i++)
        io_give(io, bufs[i]);
    memory_clear_log(&memory);
    struct hearth_buf *buf = io_take(io, MIB);
    EXPECT_SIZE(1, memory.acquires);
    EXPECT_SIZE(1, memory.releases);
    EXPECT_SIZE(224 * KIB, memory.released[0]);
    EXPECT_SIZE(MIB, hearth_buf_capacity(buf));
    EXPECT_SIZE(2, hearth_io_retained_count(io));
    io_identity(io, &memory);
    io_give(io, buf);
    EXPECT_SIZE(3, hearth_io_retained_count(io));
    io_finish(io, &memory);
}
