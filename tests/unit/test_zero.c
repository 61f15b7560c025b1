/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for zeroed storage, on every path by which storage can come: fresh, from the store or a list,
 * exchanged by a resize, taken over by another arena, after slots ran out, under a limit. The backing lies:
 * its segments say that they are zero and are not. So what was cleared and what was left alone can be
 * told apart: storage that was handed out before must read as zero, storage that is fresh must not have
 * been touched. Not covered: threads that race.
 */
#include "support.h"

#include <hearth/io.h>

#include <stdlib.h>
#include <string.h>

#define FRESH 0xa5
#define DIRTY 0x77

static struct hearth_backing *liar;
static size_t liar_extra; /* lent beyond what was asked */

static enum hearth_status liar_acquire(void *context, size_t bytes, size_t alignment,
                                       struct hearth_segment *segment)
{
    (void)context;
    bytes += liar_extra;
    segment->base = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (segment->base == NULL)
        return HEARTH_NO_MEMORY;
    memset(segment->base, FRESH, bytes);
    segment->length = bytes;
    segment->flags = HEARTH_SEGMENT_ZERO;
    return HEARTH_OK;
}

static void liar_release(void *context, const struct hearth_segment *segment)
{
    (void)context;
    free(segment->base);
}

static void start(void)
{
    static const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .acquire = liar_acquire,
        .release = liar_release,
    };
    assert_ok(hearth_backing_create(&ops, NULL, &liar));
    liar_extra = 0;
}

/* How a buffer reads throughout, or -1. */
static int reads_as(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 1; i < size; i++) {
        if (bytes[i] != bytes[0])
            return -1;
    }
    return size == 0 ? -1 : bytes[0];
}

static struct hearth_buf *zeroed(struct hearth_allocator *arena, size_t size)
{
    const struct hearth_request request = {.size = size, .zero = 1};
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_alloc_ex(arena, &request, &buf));
    return buf;
}

static void dirty(struct hearth_buf *buf)
{
    memset(hearth_buf_data(buf), DIRTY, hearth_buf_capacity(buf));
}

static struct hearth_allocator *io_open(size_t slots, size_t live_limit)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_io *arena = NULL;
    options.backing = liar;
    options.slots = slots;
    options.live_limit = live_limit;
    assert_ok(hearth_io_create(&options, &arena));
    return hearth_io_allocator(arena);
}

static struct hearth_allocator *of_kind(unsigned kind, size_t slots)
{
    return kind == 0 ? hearth_exec_allocator(exec_open(liar, slots, 0))
                     : io_open(slots, kind == 1 ? 0 : 64 * MIB);
}

TheoryDataPoints(zero, each_path) = {
    DataPoints(unsigned, 0, 1, 2), /* execution arena, I/O arena, I/O arena with a limit */
    DataPoints(size_t, 1, 100, 4096, 100000),
};

Theory((unsigned kind, size_t size), zero, each_path)
{
    start();
    struct hearth_allocator *arena = of_kind(kind, 0);
    struct hearth_buf *fresh = zeroed(arena, size);
    cr_assert_eq(reads_as(hearth_buf_data(fresh), size), FRESH, "the work is skipped");
    dirty(fresh);
    assert_ok(hearth_free(arena, fresh));
    struct hearth_buf *again = zeroed(arena, size);
    cr_assert_eq(again, fresh);
    cr_assert_eq(reads_as(hearth_buf_data(again), size), 0);
    /* Handed out without a wish, dirtied, and back, by whatever path is the plain one. */
    assert_ok(hearth_free(arena, again));
    struct hearth_buf *plain = NULL;
    assert_ok(hearth_alloc(arena, size, &plain));
    dirty(plain);
    assert_ok(hearth_free(arena, plain));
    again = zeroed(arena, size);
    cr_assert_eq(reads_as(hearth_buf_data(again), size), 0);
    /* Moved: the old storage goes to the store, the new one is not fresh any more. */
    dirty(again);
    assert_ok(hearth_buf_resize_keep(again, 5 * size + 1000));
    cr_assert_eq(reads_as(hearth_buf_data(again), size), DIRTY);
    plain = zeroed(arena, size);
    cr_assert_eq(reads_as(hearth_buf_data(plain), size), 0);
    assert_ok(hearth_free(arena, again));
    again = zeroed(arena, 5 * size + 1000);
    cr_assert_eq(reads_as(hearth_buf_data(again), 5 * size + 1000), 0);
}

TheoryDataPoints(zero, up_to_the_size) = {
    DataPoints(unsigned, 0, 1, 2),
    DataPoints(size_t, 1, 100, 4096, 100000),
};

/* Only the bytes that were asked for are cleared, and all of them. */
Theory((unsigned kind, size_t size), zero, up_to_the_size)
{
    start();
    struct hearth_allocator *arena = of_kind(kind, 0);
    struct hearth_buf *buf = zeroed(arena, size);
    dirty(buf);
    assert_ok(hearth_free(arena, buf));
    buf = zeroed(arena, size - size / 8);
    const unsigned char *data = hearth_buf_data(buf);
    cr_assert_eq(reads_as(data, size - size / 8), 0);
    if (hearth_buf_capacity(buf) > size)
        cr_assert_eq(data[hearth_buf_capacity(buf) - 1], DIRTY);
}

/* One slot: the storage of another size is exchanged for fresh one. */
Test(zero, slots_ran_out, .init = start)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        struct hearth_allocator *arena = of_kind(kind, 1);
        struct hearth_buf *buf = zeroed(arena, 100);
        dirty(buf);
        assert_ok(hearth_free(arena, buf));
        buf = zeroed(arena, 100000);
        cr_assert_eq(reads_as(hearth_buf_data(buf), 100000), FRESH);
        dirty(buf);
        assert_ok(hearth_free(arena, buf));
        buf = zeroed(arena, 100);
        cr_assert_eq(reads_as(hearth_buf_data(buf), 100), 0, "a much larger one serves");
        dirty(buf);
        assert_ok(hearth_buf_resize(buf, 500000));
        dirty(buf);
        assert_ok(hearth_free(arena, buf));
        buf = zeroed(arena, 500000);
        cr_assert_eq(reads_as(hearth_buf_data(buf), 500000), 0);
    }
}

Test(zero, taken_over_by_another_arena, .init = start)
{
    struct hearth_exec *exec = exec_open(liar, 0, 0);
    struct hearth_io *io = NULL;
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    options.backing = liar;
    assert_ok(hearth_io_create(&options, &io));
    struct hearth_allocator *arena = hearth_io_allocator(io);
    for (unsigned round = 0; round < 3; round++) {
        struct hearth_buf *buf = exec_take(exec, 100);
        struct hearth_buf *taken = NULL;
        assert_ok(hearth_io_take(io, buf, &taken));
        dirty(taken);
        assert_ok(hearth_free(arena, taken));
        taken = zeroed(arena, 100);
        cr_assert_eq(reads_as(hearth_buf_data(taken), 100), 0);
        assert_ok(hearth_free(arena, taken));
    }
}

Test(zero, returned_by_another_thread, .init = start)
{
    struct hearth_exec *exec = exec_open(liar, 0, 0);
    struct hearth_buf *buf = zeroed(hearth_exec_allocator(exec), 1000);
    dirty(buf);
    free_elsewhere(exec, &buf, 1);
    buf = zeroed(hearth_exec_allocator(exec), 1000);
    cr_assert_eq(reads_as(hearth_buf_data(buf), 1000), 0);
}

Test(zero, leases, .init = start)
{
    struct hearth_io *io = NULL;
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    const struct hearth_request request = {.size = 3000, .zero = 1};
    struct hearth_lease lease;
    options.backing = liar;
    assert_ok(hearth_io_create(&options, &io));
    assert_ok(hearth_io_lease_ex(io, &request, &lease));
    cr_assert_eq(reads_as(hearth_buf_data(lease.buf), 3000), FRESH);
    for (unsigned round = 0; round < 3; round++) {
        dirty(lease.buf);
        assert_ok(hearth_lease_release(lease));
        assert_ok(hearth_io_lease(io, 3000, &lease));
        dirty(lease.buf);
        assert_ok(hearth_lease_release(lease));
        assert_ok(hearth_io_lease_ex(io, &request, &lease));
        cr_assert_eq(reads_as(hearth_buf_data(lease.buf), 3000), 0);
    }
}

/* Storage that was obtained, found to pass the limit and put away is fresh still; once it was handed out
 * it is not. */
Test(zero, put_away_unused, .init = start)
{
    struct hearth_allocator *arena = io_open(0, 8192);
    struct hearth_buf *buf = NULL;
    const struct hearth_request request = {.size = 8192, .zero = 1};
    liar_extra = 4096;
    assert_status(hearth_alloc_ex(arena, &request, &buf), HEARTH_NO_MEMORY);
    for (unsigned round = 0; round < 3; round++) {
        buf = zeroed(arena, 4096);
        int reads = reads_as(hearth_buf_data(buf), 4096);
        cr_assert(reads == 0 || (reads == FRESH && round == 0), "round %u: %d", round, reads);
        dirty(buf);
        assert_ok(hearth_free(arena, buf));
    }
}

/* Thousands of steps on one arena with few slots; whatever was handed out before reads as zero. */
static void random_steps(struct hearth_allocator *arena, uint64_t random)
{
    struct hearth_buf *live[12] = {NULL};
    size_t skipped = 0;
    for (unsigned step = 0; step < 20000; step++) {
        struct hearth_buf **buf = &live[random_next(&random) % COUNT_OF(live)];
        size_t size = (size_t)1 << random_next(&random) % 15;
        size += random_next(&random) % size;
        if (*buf != NULL && random_next(&random) % 4 == 0) {
            if (hearth_resize(arena, *buf, size, random_next(&random) % 2 == 0) == HEARTH_OK)
                dirty(*buf);
        } else if (*buf != NULL) {
            assert_ok(hearth_free(arena, *buf));
            *buf = NULL;
        } else {
            const struct hearth_request request = {
                .size = size,
                .alignment = (size_t)64 << random_next(&random) % 3,
                .zero = random_next(&random) % 2 == 0,
            };
            if (hearth_alloc_ex(arena, &request, buf) != HEARTH_OK)
                continue;
            int reads = reads_as(hearth_buf_data(*buf), size);
            if (request.zero != 0)
                cr_assert(reads == 0 || reads == FRESH, "step %u: %d", step, reads);
            skipped += request.zero != 0 && reads == FRESH;
            dirty(*buf);
        }
    }
    cr_assert_gt(skipped, 0);
}

Test(zero, random_steps, .init = start)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        random_steps(of_kind(kind, 0), 1 + kind);
        random_steps(of_kind(kind, 8), 11 + kind);
    }
    random_steps(io_open(0, 100000), 21);
    random_steps(io_open(9, 70000), 22);
    liar_extra = 64;
    for (unsigned kind = 0; kind < 3; kind++)
        random_steps(of_kind(kind, 8), 31 + kind);
    random_steps(io_open(0, 100000), 41);
}
