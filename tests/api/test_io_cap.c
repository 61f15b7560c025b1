/* SPDX-License-Identifier: Apache-2.0 */
/* The retention cap of an I/O arena, and least recently freed eviction, for one thread.
 * Covered: 0, nothing, unbounded, exact order with small, large and aligned buffers mixed, buffers above the
 * cap, lowering and lifting. An eviction may go down to an eighth below the cap. Not covered: several
 * threads. */
#include "io_support.h"

static struct memory memory;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
}

TestSuite(io_cap, .init = setup);

/* What was given back is the beginning of `order`, which has no length twice; the rest is within `cap`, and
 * no more went than that and an eighth of the cap need. */
static void expect_oldest_gone(struct hearth_io *io, const size_t *order, size_t count, size_t cap)
{
    size_t total = 0, gone = 0;
    for (size_t i = 0; i < count; i++)
        total += order[i];
    for (size_t i = 0; i < memory.releases; i++) {
        bool among = false;
        for (size_t j = 0; j < memory.releases; j++)
            among = among || order[j] == memory.released[i];
        cr_assert(among, "%zu bytes went although %zu older ones are left", memory.released[i],
                  count - memory.releases);
        gone += memory.released[i];
    }
    EXPECT_SIZE(total - gone, hearth_io_retained_bytes(io));
    cr_assert_leq(total - gone, cap);
    if (memory.releases)
        cr_assert_gt(total - gone + order[memory.releases - 1], cap - cap / 8);
    else
        cr_assert_leq(total, cap);
    io_identity(io, &memory);
}

Test(io_cap, returns_above_the_cap_evict_the_oldest)
{
    static const size_t sizes[] = {1024, 128 * KIB, 2048,     64 * KIB, 512,       192,
                                   4096, 80 * KIB,  40 * KIB, 256,      224 * KIB, 3072,
                                   64,   96 * KIB,  10 * KIB, 448,      112 * KIB, 20 * KIB};
    for (size_t cap = 100 * KIB; cap <= 900 * KIB; cap += 37 * KIB) {
        struct hearth_io *io = io_create(&memory, 0, cap, 0);
        struct hearth_buf *bufs[COUNT_OF(sizes)];
        size_t order[COUNT_OF(sizes)], kept = 0;
        for (size_t i = 0; i < COUNT_OF(sizes); i++)
            bufs[i] = io_take(io, sizes[i]);
        for (size_t i = 0; i < COUNT_OF(sizes); i++) {
            memory_clear_log(&memory);
            size_t released = hearth_buf_capacity(bufs[i]);
            io_give(io, bufs[i]);
            if (released > cap) {
                EXPECT_SIZE(1, memory.releases);
                EXPECT_SIZE(released, memory.released[0]);
                continue;
            }
            order[kept++] = released;
            expect_oldest_gone(io, order, kept, cap);
            memmove(order, order + memory.releases, (kept - memory.releases) * sizeof *order);
            kept -= memory.releases;
            EXPECT_SIZE(kept, hearth_io_retained_count(io));
        }
        EXPECT(HEARTH_OK, hearth_io_destroy(io));
    }
    memory_fini(&memory);
}

Test(io_cap, lowering_evicts_at_once_in_order_of_return)
{
    static const size_t sizes[] = {64, MIB, 4096, 256, 128 * KIB, 640, 64 * KIB, 192, 320 * KIB};
    static const size_t order[] = {3, 0, 6, 1, 7, 8, 2, 5, 4};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_lease leases[COUNT_OF(sizes)];
    size_t left[COUNT_OF(sizes)], total = 0;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        leases[i] = io_lease(io, sizes[i]);
        total += sizes[i];
        left[i] = sizes[order[i]];
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        io_drop(leases[order[i]]);
    EXPECT_SIZE(total, hearth_io_retained_bytes(io));
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t retained = hearth_io_retained_bytes(io);
        memory_clear_log(&memory);
        EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, retained - 1));
        EXPECT_SIZE(1, memory.releases);
        EXPECT_SIZE(left[i], memory.released[0]);
        EXPECT_SIZE(retained - left[i], hearth_io_retained_bytes(io));
    }
    EXPECT_SIZE(0, hearth_io_retained_count(io));
    io_finish(io, &memory);
}

Test(io_cap, order_holds_across_alignments)
{
    static const size_t alignments[] = {64, 4096, 128, 64, 65536, 256};
    static const size_t sizes[] = {8192, 12288, 4096, 5120, 16384, 6144};
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *bufs[6];
    size_t capacities[6];
    for (size_t i = 0; i < 6; i++) {
        bufs[i] = io_take_aligned(io, sizes[i], alignments[i]);
        capacities[i] = hearth_buf_capacity(bufs[i]);
    }
    for (size_t i = 6; i-- > 0;)
        io_give(io, bufs[i]);
    for (size_t i = 6; i-- > 0;) {
        EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, hearth_io_retained_bytes(io) - 1));
        EXPECT_SIZE(6 - i, memory.releases);
        EXPECT_SIZE(capacities[i], memory.released[5 - i]);
    }
    io_finish(io, &memory);
}

Test(io_cap, reuse_makes_a_buffer_the_most_recent)
{
    struct hearth_io *io = io_create(&memory, 0, 0, 1);
    struct hearth_buf *a = io_take(io, 1024), *b = io_take(io, 64 * KIB), *c = io_take(io, 4096);
    io_give(io, a);
    io_give(io, b);
    io_give(io, c);
    io_drop(io_lease(io, 64 * KIB));
    io_drop(io_lease(io, 1024)); /* now 4096, 64 KiB, 1024 */
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, 65 * KIB));
    EXPECT_SIZE(1, memory.releases);
    EXPECT_SIZE(4096, memory.released[0]);
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, 64 * KIB));
    EXPECT_SIZE(64 * KIB, memory.released[1]);
    EXPECT_SIZE(1024, hearth_io_retained_bytes(io));
    io_finish(io, &memory);
}

Test(io_cap, a_buffer_above_the_cap_bypasses_and_evicts_nobody)
{
    static const size_t sizes[] = {5120, 64 * KIB, MIB};
    struct hearth_io *io = io_create(&memory, 0, 4096, 0);
    struct hearth_buf *small[4];
    for (size_t i = 0; i < 4; i++)
        small[i] = io_take(io, 1024);
    for (size_t i = 0; i < 4; i++)
        io_give(io, small[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        io_drop(io_lease(io, sizes[i]));
        io_give(io, io_take(io, sizes[i]));
        EXPECT_SIZE(2 * i + 2, memory.releases);
        EXPECT_SIZE(sizes[i], memory.released[2 * i]);
        EXPECT_SIZE(4096, hearth_io_retained_bytes(io));
        EXPECT_SIZE(4, hearth_io_retained_count(io));
    }
    io_finish(io, &memory);
}

static void retains_nothing(struct hearth_io *io)
{
    static const size_t sizes[] = {0, 100, 5000, 64 * KIB, MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_buf *buf = io_take(io, sizes[i]);
        struct hearth_lease lease = io_lease(io, sizes[i]);
        io_give(io, buf);
        io_drop(lease);
        EXPECT_SIZE(0, hearth_io_retained_count(io));
        EXPECT_SIZE(0, memory.bytes);
    }
    EXPECT_SIZE(2 * COUNT_OF(sizes), memory.releases);
}

Test(io_cap, retain_nothing_at_creation)
{
    struct hearth_io *io = io_create(&memory, 0, HEARTH_RETAIN_NOTHING, 0);
    EXPECT_SIZE(HEARTH_RETAIN_NOTHING, hearth_io_retention_cap(io));
    retains_nothing(io);
    io_finish(io, &memory);
}

Test(io_cap, zero_set_later)
{
    struct hearth_io *io = io_create(&memory, 0, 0, 0);
    struct hearth_buf *live = io_take(io, 100 * KIB);
    struct hearth_lease lease = io_lease(io, 200);
    fill(live, 7);
    for (size_t i = 0; i < 100; i++)
        io_give(io, io_take(io, i * 1000));
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, 0));
    EXPECT_SIZE(0, hearth_io_retention_cap(io));
    EXPECT_SIZE(0, hearth_io_retained_bytes(io));
    cr_assert(filled(live, 100 * KIB, 7));
    cr_assert(hearth_lease_valid(lease));
    io_give(io, live);
    io_drop(lease);
    EXPECT_SIZE(0, memory.bytes);
    memory_clear_log(&memory);
    retains_nothing(io);
    io_finish(io, &memory);
}

Test(io_cap, lifting_retains_everything)
{
    struct hearth_io *io = io_create(&memory, 0, 64, 0);
    struct hearth_buf *bufs[100];
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, HEARTH_UNBOUNDED));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_io_retention_cap(io));
    for (size_t i = 0; i < 100; i++)
        bufs[i] = io_take(io, i * 3000);
    for (size_t i = 0; i < 100; i++)
        io_give(io, bufs[i]);
    EXPECT_SIZE(100, hearth_io_retained_count(io));
    EXPECT_SIZE(0, memory.releases);
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, 64));
    cr_assert_leq(hearth_io_retained_count(io),
                  (size_t)1); /* the one of size 0, if it is the last */
    io_finish(io, &memory);
}

/* The whole cap is one thread's, buffer after buffer. */
Test(io_cap, exactly_the_cap_is_retained)
{
    static const size_t sizes[] = {64, 1024, 64 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_io *io = io_create(&memory, 0, 10 * sizes[i], 0);
        struct hearth_buf *bufs[10];
        for (size_t round = 0; round < 3; round++) {
            for (size_t j = 0; j < 10; j++)
                bufs[j] = io_take(io, sizes[i]);
            for (size_t j = 0; j < 10; j++)
                io_give(io, bufs[j]);
            EXPECT_SIZE(10 * sizes[i], hearth_io_retained_bytes(io));
        }
        EXPECT_SIZE(10 * sizes[i], memory.bytes);
        EXPECT(HEARTH_OK, hearth_io_destroy(io));
    }
    memory_fini(&memory);
}
