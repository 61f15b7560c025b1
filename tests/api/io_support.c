/* SPDX-License-Identifier: Apache-2.0 */
#include "io_support.h"

#include <time.h>

struct io_figures io_figures(const struct hearth_io *io)
{
    return (struct io_figures){
#define IO_FIGURE(name) .name = hearth_io_##name(io),
        IO_FIGURES(IO_FIGURE)
#undef IO_FIGURE
    };
}

void io_unchanged(const struct io_figures *before, const struct hearth_io *io)
{
    struct io_figures after = io_figures(io);
#define IO_FIGURE(name)                                                                            \
    cr_assert_eq(before->name, after.name, #name " changed from %zu to %zu", before->name,         \
                 after.name);
    IO_FIGURES(IO_FIGURE)
#undef IO_FIGURE
}

void io_identity(const struct hearth_io *io, const struct memory *memory)
{
    struct io_figures now = io_figures(io);
    EXPECT_SIZE(now.live_capacity + now.retained_bytes + now.pending_bytes, now.footprint);
    EXPECT_SIZE(now.owned_count + now.leased_count, now.live_count);
    cr_assert_leq(now.leased_bytes, now.live_bytes);
    cr_assert_leq(now.live_bytes, now.peak_bytes);
    cr_assert_leq(now.live_count + now.retained_count, now.slots);
    cr_assert((now.retained_count == 0) == (now.retained_bytes == 0));
    EXPECT_SIZE(0, now.pending_count);
    cr_assert_leq(now.retained_bytes, now.retention_cap);
    if (memory)
        EXPECT_SIZE(memory->bytes, now.footprint);
}

static struct hearth_io *create(const struct hearth_io_options *options)
{
    struct hearth_io *io = NULL;
    EXPECT(HEARTH_OK, hearth_io_create(options, &io));
    cr_assert_not_null(io);
    return io;
}

struct hearth_io *io_create(struct memory *memory, size_t slots, size_t cap, uint32_t ratio)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    options.slots = slots;
    options.retention_cap = cap;
    options.reuse_ratio = ratio;
    options.backing = memory ? memory->backing : NULL;
    return create(&options);
}

struct hearth_io *io_create_limited(struct memory *memory, size_t live_limit)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    options.live_limit = live_limit;
    options.backing = memory->backing;
    return create(&options);
}

void io_finish(struct hearth_io *io, struct memory *memory)
{
    io_identity(io, memory);
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    memory_fini(memory);
}

static void check_fresh(const struct hearth_buf *buf, size_t size, size_t alignment)
{
    cr_assert_not_null(buf);
    EXPECT_SIZE(size, hearth_buf_size(buf));
    cr_assert_geq(hearth_buf_capacity(buf), size);
    alignment = alignment < HEARTH_ALIGNMENT ? HEARTH_ALIGNMENT : alignment;
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0u);
}

struct hearth_buf *io_take(struct hearth_io *io, size_t size)
{
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_io_alloc(io, size, &buf));
    check_fresh(buf, size, 0);
    return buf;
}

struct hearth_buf *io_take_aligned(struct hearth_io *io, size_t size, size_t alignment)
{
    struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_io_alloc_ex(io, &request, &buf));
    check_fresh(buf, size, alignment);
    return buf;
}

void io_give(struct hearth_io *io, struct hearth_buf *buf)
{
    EXPECT(HEARTH_OK, hearth_io_free(io, buf));
}

struct hearth_lease io_lease(struct hearth_io *io, size_t size)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_lease(io, size, &lease));
    check_fresh(lease.buf, size, 0);
    cr_assert(hearth_lease_valid(lease));
    EXPECT_SIZE(size, hearth_lease_size(lease));
    return lease;
}

struct hearth_lease io_export(struct hearth_io *io, struct hearth_buf *buf)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_export(io, buf, &lease));
    cr_assert_eq(lease.buf, buf);
    return lease;
}

void io_drop(struct hearth_lease lease)
{
    EXPECT(HEARTH_OK, hearth_lease_release(lease));
}

void io_is_stale(struct hearth_lease lease)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_view view = {.size = 77};
    uint64_t misuses = hearth_misuse_count();
    EXPECT(HEARTH_STALE, hearth_lease_release(lease));
    EXPECT(HEARTH_STALE, hearth_lease_retain(lease));
    EXPECT(HEARTH_STALE, hearth_lease_view(lease, 0, 0, &view));
    EXPECT(HEARTH_STALE, hearth_handle_from_lease(lease, &handle));
    cr_assert_eq(hearth_misuse_count(), misuses + 4);
    EXPECT_SIZE(77, view.size);
    cr_assert_null(hearth_handle_buf(&handle));
    cr_assert_not(hearth_lease_valid(lease));
    cr_assert_null(hearth_lease_buf(lease));
    cr_assert_null(hearth_lease_data(lease));
    EXPECT_SIZE(0, hearth_lease_size(lease));
}

void io_pause(long milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}
