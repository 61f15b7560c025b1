/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls on an I/O arena: the answer is a status, counters move, the callback hears of it, and no
 * figure changes.
 * Covered: garbage, interior and foreign buffers, execution buffers and the other way round, stale and
 * wrong leases, empty leases, NULL, wrong options. Not covered: two threads (stress/). */
#include "io_support.h"

#include <stdlib.h>
#include <sys/mman.h>

static struct memory memory;
static struct hearth_io *io;
static struct hearth_buf *live;
static struct hearth_lease held;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    io_give(io, io_take(io, 1000));
    live = io_take(io, 300);
    held = io_lease(io, 100 * KIB);
    fill(live, 0x77);
    memset(hearth_lease_data(held), 0x55, 100 * KIB);
    misuse_record();
}

static void teardown(void)
{
    cr_assert(filled(live, 300, 0x77));
    cr_assert(filled(held.buf, 100 * KIB, 0x55));
    io_give(io, live);
    io_drop(held);
    io_finish(io, &memory);
}

TestSuite(io_misuse, .init = setup, .fini = teardown);

static struct hearth_buf *as_buf(const volatile void *anything)
{
    return (struct hearth_buf *)(uintptr_t)anything;
}

#define REFUSED(expected, call_name, argument, operation)                                          \
    do {                                                                                           \
        struct io_figures before_ = io_figures(io);                                                \
        unsigned told_ = misuse.count;                                                             \
        uint64_t process_ = hearth_misuse_count();                                                 \
        EXPECT(expected, operation);                                                               \
        cr_assert_eq(misuse.count, told_ + 1, "the callback heard of %u", misuse.count - told_);   \
        cr_assert_eq(misuse.status, (expected));                                                   \
        cr_assert_eq(misuse.slot, (const void *)(argument));                                       \
        cr_assert_str_eq(misuse.call, (call_name));                                                \
        cr_assert_str_not_empty(misuse.detail);                                                    \
        cr_assert_eq(hearth_misuse_count(), process_ + 1);                                         \
        io_unchanged(&before_, io);                                                                \
    } while (0)

static void expect_refused(enum hearth_status expected, struct hearth_buf *buf)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    REFUSED(expected, "hearth_io_free", buf, hearth_io_free(io, buf));
    cr_assert_eq(misuse.arena, hearth_io_allocator(io));
    REFUSED(expected, "hearth_io_export", buf, hearth_io_export(io, buf, &lease));
    cr_assert_eq(misuse.arena, hearth_io_allocator(io));
    cr_assert_null(lease.buf);
    EXPECT(expected, hearth_free(hearth_io_allocator(io), buf));
}

static void expect_no_lease(struct hearth_buf *buf, uint64_t generation)
{
    struct hearth_lease lease = {buf, generation};
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_view view;
    REFUSED(HEARTH_FOREIGN, "hearth_lease_release", buf, hearth_lease_release(lease));
    REFUSED(HEARTH_FOREIGN, "hearth_lease_retain", buf, hearth_lease_retain(lease));
    REFUSED(HEARTH_FOREIGN, "hearth_lease_view", buf, hearth_lease_view(lease, 0, 0, &view));
    EXPECT(HEARTH_FOREIGN, hearth_handle_from_lease(lease, &handle));
    cr_assert_not(hearth_lease_valid(lease));
    cr_assert_null(hearth_lease_buf(lease));
    cr_assert_null(hearth_lease_data(lease));
    EXPECT_SIZE(0, hearth_lease_size(lease));
}

static void expect_garbage(struct hearth_buf *buf)
{
    expect_refused(HEARTH_FOREIGN, buf);
    expect_no_lease(buf, 1);
    expect_no_lease(buf, held.generation);
}

Test(io_misuse, garbage_pointers_are_foreign)
{
    char stack[256];
    char *heap = malloc(256);
    void *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *unmapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(closed, MAP_FAILED);
    munmap(unmapped, 4096);
    expect_garbage(NULL);
    expect_garbage(as_buf(stack));
    expect_garbage(as_buf(heap));
    expect_garbage(as_buf(closed));
    expect_garbage(as_buf(unmapped));
    expect_garbage(as_buf(io));
    expect_garbage(as_buf(&memory));
    expect_garbage(as_buf(hearth_buf_data(live)));
    expect_garbage(as_buf(hearth_lease_data(held)));
    expect_garbage((struct hearth_buf *)(uintptr_t)&hearth_io_free);
    for (unsigned bit = 0; bit < 64; bit++) {
        expect_garbage(as_buf((void *)((uintptr_t)1 << bit)));
        expect_garbage(as_buf((void *)(UINTPTR_MAX << bit)));
        expect_garbage(as_buf((void *)(UINTPTR_MAX >> bit)));
    }
    free(heap);
    munmap(closed, 4096);
}

Test(io_misuse, interior_pointers_are_foreign)
{
    for (uintptr_t offset = 1; offset < 128; offset++) {
        expect_garbage(as_buf((char *)live + offset));
        expect_garbage(as_buf((char *)held.buf + offset));
    }
}

Test(io_misuse, buffers_of_other_arenas_are_foreign)
{
    struct hearth_io *other = io_create(&memory, 0, 0, 0);
    struct hearth_exec *exec = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *theirs = io_take(other, 300), *execs = take(exec, 300);
    struct hearth_lease lease = io_lease(other, 300);
    expect_refused(HEARTH_FOREIGN, theirs);
    expect_refused(HEARTH_FOREIGN, lease.buf);
    expect_refused(HEARTH_FOREIGN, execs);
    expect_no_lease(execs, 1); /* no I/O buffer, so no lease of one */
    expect_no_lease(execs, hearth_buf_generation(execs));
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(exec, live));
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(exec, held.buf));
    EXPECT(HEARTH_FOREIGN, hearth_free(hearth_exec_allocator(exec), live));
    EXPECT(HEARTH_FOREIGN, hearth_io_free(other, live));
    EXPECT(HEARTH_FOREIGN, hearth_io_export(other, live, &(struct hearth_lease){NULL, 0}));
    EXPECT_SIZE(2, hearth_io_live_count(other));
    EXPECT_SIZE(1, hearth_exec_live_count(exec));
    io_give(other, theirs);
    expect_refused(HEARTH_FOREIGN, theirs);
    io_drop(lease);
    give(exec, execs);
    expect_refused(HEARTH_FOREIGN, execs);
    EXPECT(HEARTH_OK, hearth_io_destroy(other));
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    io_is_stale(lease);
    io_give(io, io_take(io, 300));
    EXPECT(HEARTH_FOREIGN, hearth_io_free(io, lease.buf));
}

Test(io_misuse, returned_and_leased_buffers)
{
    struct hearth_buf *small = io_take(io, 1000), *large = io_take(io, MIB);
    io_give(io, small);
    io_give(io, large);
    expect_refused(HEARTH_STALE, small);
    expect_refused(HEARTH_STALE, large);
    expect_refused(HEARTH_LEASED, held.buf);
    REFUSED(HEARTH_LEASED, "hearth_buf_resize", held.buf, hearth_buf_resize(held.buf, 1));
    REFUSED(HEARTH_STALE, "hearth_buf_resize", small, hearth_buf_resize(small, 1));
    EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
    expect_refused(HEARTH_STALE, small);
    expect_refused(HEARTH_STALE, large);
}

Test(io_misuse, leases_with_wrong_generations_are_stale)
{
    static const uint64_t wrong[] = {0, UINT64_MAX, (uint64_t)1 << 43, (uint64_t)1 << 63};
    struct io_figures before = io_figures(io);
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        io_is_stale((struct hearth_lease){held.buf, wrong[i]});
    for (unsigned bit = 0; bit < 64; bit++)
        io_is_stale((struct hearth_lease){held.buf, held.generation ^ (uint64_t)1 << bit});
    /* live but not leased: no lease names it */
    io_is_stale((struct hearth_lease){live, hearth_buf_generation(live)});
    io_unchanged(&before, io);
}

Test(io_misuse, an_empty_lease)
{
    struct hearth_lease empty = HEARTH_LEASE_INIT, zeroed = {0};
    expect_no_lease(empty.buf, empty.generation);
    expect_no_lease(zeroed.buf, zeroed.generation);
}

Test(io_misuse, nulls)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_trim_report report = {.size = 0};
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_INVALID, hearth_io_free(NULL, live));
    EXPECT(HEARTH_INVALID, hearth_io_export(NULL, live, &lease));
    EXPECT(HEARTH_INVALID, hearth_io_export(io, live, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_export_handle(NULL, live, &handle));
    EXPECT(HEARTH_INVALID, hearth_io_export_handle(io, live, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_export_held(io, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_close(NULL));
    EXPECT(HEARTH_INVALID, hearth_io_trim(NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_io_trim_ex(io, 1, 0, &report));
    EXPECT(HEARTH_INVALID, hearth_io_set_retention_cap(NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_io_reset_peak(NULL));
    EXPECT(HEARTH_INVALID, hearth_handle_from_lease(held, NULL));
    EXPECT(HEARTH_OK, hearth_io_destroy(NULL));
    hearth_io_ref(NULL);
    hearth_io_unref(NULL);
    cr_assert_null(hearth_io_allocator(NULL));
    cr_assert_not(hearth_io_can_take(NULL, NULL));
#define IO_FIGURE(name) EXPECT_SIZE(0, hearth_io_##name(NULL));
    IO_FIGURES(IO_FIGURE)
#undef IO_FIGURE
    io_unchanged(&before, io);
}

Test(io_misuse, wrong_options)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_io *none = NULL;
    EXPECT(HEARTH_INVALID, hearth_io_create(&options, NULL));
    options.size = 1;
    EXPECT(HEARTH_INVALID, hearth_io_create(&options, &none));
    options.size = sizeof options + 8;
    EXPECT(HEARTH_INVALID, hearth_io_create(&options, &none));
    options = (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT;
    options.reserved = 1;
    EXPECT(HEARTH_INVALID, hearth_io_create(&options, &none));
    options.reserved = 0;
    options.slots = SIZE_MAX;
    EXPECT(HEARTH_OVERFLOW, hearth_io_create(&options, &none));
    cr_assert_null(none);
    EXPECT(HEARTH_OK, hearth_io_create(NULL, &none));
    EXPECT_SIZE((size_t)1 << 20, hearth_io_slots(none));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_io_retention_cap(none));
    EXPECT(HEARTH_OK, hearth_io_destroy(none));
}
