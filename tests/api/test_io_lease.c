/* SPDX-License-Identifier: Apache-2.0 */
/* Leases and views: counted rights to buffers.
 * Covered: lease, export, retain and release, the largest count, staleness after the last release and after
 * the slot was handed out again, questions, views and their bounds, the deleter. Not covered: races. */
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
    EXPECT_SIZE(0, hearth_io_live_count(io));
    io_finish(io, &memory);
}

TestSuite(io_lease, .init = setup, .fini = teardown);

Test(io_lease, the_last_release_returns_the_buffer)
{
    static const size_t sizes[] = {0, 1000, 100 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_lease lease = io_lease(io, sizes[i]);
        for (size_t n = 0; n < 10; n++)
            EXPECT(HEARTH_OK, hearth_lease_retain(lease));
        for (size_t n = 0; n < 10; n++) {
            io_drop(lease);
            cr_assert(hearth_lease_valid(lease));
            EXPECT_SIZE(1, hearth_io_leased_count(io));
            EXPECT_SIZE(0, hearth_io_retained_count(io));
        }
        io_drop(lease);
        EXPECT_SIZE(0, hearth_io_leased_count(io));
        EXPECT_SIZE(1, hearth_io_retained_count(io));
        io_is_stale(lease);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
        io_is_stale(lease);
    }
}

Test(io_lease, questions)
{
    struct hearth_buf *buf = io_take(io, 1000);
    void *data = hearth_buf_data(buf);
    struct hearth_lease lease = io_export(io, buf), empty = HEARTH_LEASE_INIT;
    cr_assert(hearth_lease_valid(lease));
    cr_assert_eq(hearth_lease_buf(lease), buf);
    cr_assert_eq(hearth_lease_data(lease), data);
    EXPECT_SIZE(1000, hearth_lease_size(lease));
    cr_assert_eq(hearth_buf_owner(buf), hearth_io_allocator(io));
    struct hearth_buf *found = NULL;
    EXPECT(HEARTH_OK, hearth_buf_of(data, &found));
    cr_assert_eq(found, buf);
    cr_assert_not(hearth_lease_valid(empty));
    cr_assert_null(hearth_lease_buf(empty));
    cr_assert_null(hearth_lease_data(empty));
    EXPECT_SIZE(0, hearth_lease_size(empty));
    EXPECT_SIZE(0, misuse.count);
    io_drop(lease);
}

Test(io_lease, an_export_keeps_its_size_and_content)
{
    struct hearth_buf *buf = io_take(io, 5000);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 3000));
    fill(buf, 0x42);
    struct hearth_lease lease = io_export(io, buf);
    EXPECT_SIZE(3000, hearth_lease_size(lease));
    EXPECT(HEARTH_LEASED, hearth_buf_resize(buf, 10));
    EXPECT(HEARTH_LEASED, hearth_buf_resize_keep(buf, 100000));
    EXPECT(HEARTH_LEASED, hearth_io_free(io, buf));
    struct hearth_lease again = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_LEASED, hearth_io_export(io, buf, &again));
    cr_assert_null(again.buf);
    EXPECT_SIZE(3000, hearth_lease_size(lease));
    cr_assert(filled(buf, 3000, 0x42));
    EXPECT_SIZE(4, misuse.count);
    cr_assert_eq(misuse.status, HEARTH_LEASED);
    io_drop(lease);
    EXPECT(HEARTH_STALE, hearth_io_free(io, buf));
    EXPECT(HEARTH_STALE, hearth_io_export(io, buf, &again));
    EXPECT(HEARTH_STALE, hearth_buf_resize(buf, 10));
}

Test(io_lease, a_stale_lease_never_reaches_the_next_user)
{
    static const size_t sizes[] = {200, 100 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_lease old[20];
        for (size_t n = 0; n < COUNT_OF(old); n++) {
            old[n] = io_lease(io, sizes[i]);
            io_drop(old[n]);
        }
        struct hearth_lease lease = io_lease(io, sizes[i]);
        cr_assert_eq(lease.buf, old[0].buf, "the slot is used again");
        struct io_figures before = io_figures(io);
        for (size_t n = 0; n < COUNT_OF(old); n++) {
            cr_assert_neq(lease.generation, old[n].generation);
            io_is_stale(old[n]);
        }
        io_unchanged(&before, io);
        cr_assert(hearth_lease_valid(lease));
        io_drop(lease);
    }
}

Test(io_lease, a_retain_at_the_largest_count_is_an_overflow)
{
    const size_t most = ((size_t)1 << 18) - 1;
    struct hearth_lease lease = io_lease(io, 100);
    struct hearth_view view;
    for (size_t n = 1; n < most; n++)
        EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    for (size_t n = 0; n < 3; n++) {
        EXPECT(HEARTH_OVERFLOW, hearth_lease_retain(lease));
        EXPECT(HEARTH_OVERFLOW, hearth_lease_view(lease, 0, 1, &view));
    }
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_lease_view(lease, 0, 1, &view));
    EXPECT(HEARTH_OVERFLOW, hearth_lease_retain(lease));
    for (size_t n = 1; n < most; n++)
        EXPECT(HEARTH_OK, hearth_lease_release(lease));
    EXPECT_SIZE(1, hearth_io_leased_count(io));
    io_drop(view.lease);
    io_is_stale(lease);
}

Test(io_lease, views_hold_a_reference)
{
    struct hearth_lease lease = io_lease(io, 1000);
    unsigned char *data = hearth_lease_data(lease);
    struct hearth_view whole, part, inner;
    EXPECT(HEARTH_OK, hearth_lease_view(lease, 0, 1000, &whole));
    EXPECT(HEARTH_OK, hearth_lease_view(lease, 100, 200, &part));
    cr_assert_eq(whole.data, data);
    EXPECT_SIZE(1000, whole.size);
    cr_assert_eq(part.data, data + 100);
    EXPECT_SIZE(200, part.size);
    io_drop(lease);
    io_drop(whole.lease);
    EXPECT_SIZE(1, hearth_io_leased_count(io));
    /* relative to the whole lease, and as large as it */
    EXPECT(HEARTH_OK, hearth_lease_view(part.lease, 50, 900, &inner));
    cr_assert_eq(inner.data, data + 50);
    io_drop(part.lease);
    EXPECT_SIZE(1000, hearth_lease_size(inner.lease));
    data[0] = 1;
    io_drop(inner.lease);
    io_is_stale(lease);
    io_is_stale(part.lease);
}

Test(io_lease, views_stay_inside)
{
    static const struct {
        size_t offset, size;
        bool inside;
    } cases[] = {
        {0, 0, true},
        {1000, 0, true},
        {999, 1, true},
        {0, 1001, false},
        {1000, 1, false},
        {1001, 0, false},
        {1, SIZE_MAX, false},
        {SIZE_MAX, 1, false},
        {SIZE_MAX, SIZE_MAX, false},
        {0, SIZE_MAX, false},
        {SIZE_MAX, 0, false},
        {500, SIZE_MAX - 499, false},
        {500, SIZE_MAX - 500, false},
        {2, SIZE_MAX - 1, false},
    };
    struct hearth_lease lease = io_lease(io, 1000);
    struct hearth_view view = {.size = 77};
    struct io_figures before = io_figures(io);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        view.size = 77;
        EXPECT(cases[i].inside ? HEARTH_OK : HEARTH_INVALID,
               hearth_lease_view(lease, cases[i].offset, cases[i].size, &view));
        if (cases[i].inside)
            io_drop(view.lease);
        else
            EXPECT_SIZE(77, view.size);
    }
    EXPECT(HEARTH_INVALID, hearth_lease_view(lease, 0, 1, NULL));
    io_unchanged(&before, io);
    io_drop(lease); /* the only reference: no refused view kept one */
    io_is_stale(lease);
}

Test(io_lease, the_deleter_releases_by_data_pointer)
{
    struct hearth_lease lease = io_lease(io, 1000), large = io_lease(io, 100 * KIB);
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    hearth_lease_deleter(hearth_lease_data(lease));
    cr_assert(hearth_lease_valid(lease));
    hearth_lease_deleter(hearth_lease_data(lease));
    io_is_stale(lease);
    hearth_lease_deleter(hearth_lease_data(large));
    io_is_stale(large);
    misuse_record();
    hearth_lease_deleter(NULL);
    EXPECT_SIZE(0, misuse.count);
}

static void expect_deleter_refuses(void *data)
{
    unsigned told = misuse.count;
    uint64_t process = hearth_misuse_count();
    struct io_figures before = io_figures(io);
    hearth_lease_deleter(data);
    cr_assert_eq(misuse.count, told + 1, "%p was not told", data);
    cr_assert_eq(hearth_misuse_count(), process + 1);
    cr_assert_str_eq(misuse.call, "hearth_lease_deleter");
    io_unchanged(&before, io);
}

static void never_called(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    ++*(unsigned *)context;
}

Test(io_lease, the_deleter_refuses_everything_else)
{
    static unsigned char outside[100];
    unsigned calls = 0;
    struct hearth_lease lease = io_lease(io, 1000), adopted = HEARTH_LEASE_INIT;
    unsigned char *data = hearth_lease_data(lease);
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside, 100, never_called, &calls, &adopted));
    struct hearth_buf *bare = io_take(io, 500);
    expect_deleter_refuses(data + 1);
    expect_deleter_refuses(data + 64);
    expect_deleter_refuses(&calls);
    expect_deleter_refuses((void *)(uintptr_t)1);
    expect_deleter_refuses((void *)UINTPTR_MAX);
    expect_deleter_refuses(lease.buf);
    expect_deleter_refuses(io);
    expect_deleter_refuses(outside);
    EXPECT_SIZE(0, calls);
    expect_deleter_refuses(hearth_buf_data(bare)); /* live, but nobody's lease */
    void *bare_data = hearth_buf_data(bare);
    io_give(io, bare);
    expect_deleter_refuses(bare_data);
    io_drop(lease);
    expect_deleter_refuses(data);
    EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    expect_deleter_refuses(data);
    io_drop(adopted);
    EXPECT_SIZE(1, calls);
}
