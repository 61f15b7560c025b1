/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures of an I/O arena say when nothing is in flight.
 * Covered: each getter through a life of buffers and leases, the peak of one thread and its reset, adopted
 * storage, the allocator interface's figures, figures read by another thread. Not covered: readers during
 * operations (stress/). */
#include "io_support.h"

static struct memory memory;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    io_finish(io, &memory);
}

TestSuite(io_accounting, .init = setup, .fini = teardown);

static void expect(struct io_figures expected)
{
    expected.slots = (size_t)1 << 20;
    expected.retention_cap = HEARTH_UNBOUNDED;
    expected.live_count = expected.owned_count + expected.leased_count;
    expected.footprint = expected.live_capacity + expected.retained_bytes;
    io_unchanged(&expected, io);
    io_identity(io, &memory);
}

Test(io_accounting, the_life_of_a_buffer)
{
    static const size_t sizes[] = {1000, 100 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        size_t size = sizes[i], capacity = class_of(size);
        EXPECT(HEARTH_OK, hearth_io_reset_peak(io));
        expect((struct io_figures){.owned_count = 0});
        struct hearth_buf *buf = io_take(io, size);
        expect((struct io_figures){
            .owned_count = 1, .live_bytes = size, .live_capacity = capacity, .peak_bytes = size});
        struct hearth_lease lease = io_export(io, buf);
        EXPECT(HEARTH_OK, hearth_lease_retain(lease));
        io_drop(lease);
        expect((struct io_figures){.leased_count = 1,
                                   .live_bytes = size,
                                   .leased_bytes = size,
                                   .live_capacity = capacity,
                                   .peak_bytes = size});
        io_drop(lease);
        expect((struct io_figures){
            .peak_bytes = size, .retained_count = 1, .retained_bytes = capacity});
        lease = io_lease(io, size / 2 + 1);
        expect((struct io_figures){.leased_count = 1,
                                   .live_bytes = size / 2 + 1,
                                   .leased_bytes = size / 2 + 1,
                                   .live_capacity = capacity,
                                   .peak_bytes = size});
        io_drop(lease);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
        expect((struct io_figures){.peak_bytes = size});
    }
}

Test(io_accounting, many_at_once)
{
    enum { MANY = 300 };
    struct hearth_buf *bufs[MANY];
    struct hearth_lease leases[MANY];
    struct io_figures sum = {.owned_count = MANY, .leased_count = MANY};
    for (size_t i = 0; i < MANY; i++) {
        size_t size = i * i % 100000;
        bufs[i] = io_take(io, size);
        leases[i] = io_lease(io, size / 2);
        sum.live_bytes += size + size / 2;
        sum.leased_bytes += size / 2;
        sum.live_capacity += hearth_buf_capacity(bufs[i]) + hearth_buf_capacity(leases[i].buf);
    }
    sum.peak_bytes = sum.live_bytes;
    expect(sum);
    for (size_t i = 0; i < MANY; i++) {
        sum.owned_count--;
        sum.live_bytes -= hearth_buf_size(bufs[i]);
        sum.live_capacity -= hearth_buf_capacity(bufs[i]);
        sum.retained_count++;
        sum.retained_bytes += hearth_buf_capacity(bufs[i]);
        io_give(io, bufs[i]);
        expect(sum);
    }
    for (size_t i = 0; i < MANY; i++)
        io_drop(leases[i]);
    EXPECT_SIZE(2 * MANY, hearth_io_retained_count(io));
}

Test(io_accounting, the_peak_of_one_thread_is_exact)
{
    size_t live = 0, peak = 0;
    struct hearth_buf *bufs[64] = {NULL};
    uint64_t random = 1;
    for (size_t step = 0; step < 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t at = random >> 58,
               size = (size_t)(random >> 20) % ((size_t)1 << (random >> 33) % 22);
        if (bufs[at]) {
            live -= hearth_buf_size(bufs[at]);
            io_give(io, bufs[at]);
            bufs[at] = NULL;
        } else {
            bufs[at] = io_take(io, size);
            live += size;
        }
        peak = live > peak ? live : peak;
        EXPECT_SIZE(live, hearth_io_live_bytes(io));
        EXPECT_SIZE(peak, hearth_io_peak_bytes(io));
        if (step % 3000 == 2999) {
            EXPECT(HEARTH_OK, hearth_io_reset_peak(io));
            peak = live;
            EXPECT_SIZE(peak, hearth_io_peak_bytes(io));
        }
    }
    for (size_t i = 0; i < 64; i++) {
        if (bufs[i])
            io_give(io, bufs[i]);
    }
    EXPECT(HEARTH_OK, hearth_io_reset_peak(io));
    EXPECT_SIZE(0, hearth_io_peak_bytes(io));
}

static void count_release(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    ++*(unsigned *)context;
}

Test(io_accounting, adopted_storage_counts_as_live_and_not_as_storage)
{
    static unsigned char outside[5000];
    unsigned calls = 0;
    struct hearth_lease a = HEARTH_LEASE_INIT, b = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside, 5000, count_release, &calls, &a));
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside + 1, 300, count_release, &calls, &b));
    struct hearth_buf *buf = io_take(io, 100);
    expect((struct io_figures){.owned_count = 1,
                               .leased_count = 2,
                               .live_bytes = 5400,
                               .leased_bytes = 5300,
                               .live_capacity = 128,
                               .peak_bytes = 5400});
    io_drop(a);
    expect((struct io_figures){.owned_count = 1,
                               .leased_count = 1,
                               .live_bytes = 400,
                               .leased_bytes = 300,
                               .live_capacity = 128,
                               .peak_bytes = 5400});
    io_drop(b);
    io_give(io, buf);
    expect((struct io_figures){.peak_bytes = 5400, .retained_count = 1, .retained_bytes = 128});
    EXPECT_SIZE(2, calls);
}

Test(io_accounting, the_allocator_tells_the_same)
{
    struct hearth_allocator *allocator = hearth_io_allocator(io);
    struct hearth_lease lease = io_lease(io, 1000);
    EXPECT_SIZE(1000, hearth_live_bytes(allocator));
    io_drop(lease);
    EXPECT_SIZE(0, hearth_live_bytes(allocator));
    EXPECT_SIZE(1000, hearth_peak_bytes(allocator));
    EXPECT(HEARTH_OK, hearth_reset_peak(allocator));
    EXPECT_SIZE(0, hearth_peak_bytes(allocator));
    EXPECT_SIZE(0, hearth_io_peak_bytes(io));
}

static struct hearth_lease made[10];

static void make(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 10; i++)
        made[i] = io_lease(io, 1000);
}

static void drop(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 10; i++)
        io_drop(made[i]);
}

Test(io_accounting, figures_of_threads_that_are_gone)
{
    on_thread(make, NULL);
    expect((struct io_figures){.leased_count = 10,
                               .live_bytes = 10000,
                               .leased_bytes = 10000,
                               .live_capacity = 10240,
                               .peak_bytes = 10000});
    on_thread(drop, NULL);
    expect((struct io_figures){.peak_bytes = 10000, .retained_count = 10, .retained_bytes = 10240});
}
