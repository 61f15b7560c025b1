/* SPDX-License-Identifier: Apache-2.0 */
/* Hearth as a subject: an I/O arena with default options, through its public calls. */
#include "measure.h"

#include <hearth/io.h>
#include <stdint.h>

struct item {
    struct hearth_lease lease;
};

static inline void expect_ok(enum hearth_status status, const char *call)
{
    if (__builtin_expect(status != HEARTH_OK, 0)) {
        bench_die(call, hearth_status_text(status));
    }
}

static inline struct item take(void *pool, size_t bytes)
{
    struct item item;
    expect_ok(hearth_io_lease(pool, bytes, &item.lease), "hearth_io_lease");
    return item;
}

static inline struct item again(struct item item)
{
    expect_ok(hearth_lease_retain(item.lease), "hearth_lease_retain");
    return item;
}

static inline void give(void *pool, struct item item)
{
    (void)pool;
    expect_ok(hearth_lease_release(item.lease), "hearth_lease_release");
}

#include "io_loops.h"

static void loop_alloc_export_release(void *pool, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hearth_buf *buf;
        struct hearth_lease lease;
        expect_ok(hearth_io_alloc(pool, bytes, &buf), "hearth_io_alloc");
        expect_ok(hearth_io_export(pool, buf, &lease), "hearth_io_export");
        expect_ok(hearth_lease_release(lease), "hearth_lease_release");
    }
}

static void *open_arena(size_t bytes, unsigned threads)
{
    struct hearth_io *io;
    (void)bytes;
    (void)threads;
    expect_ok(hearth_io_create(NULL, &io), "hearth_io_create");
    return io;
}

static void close_arena(void *pool)
{
    expect_ok(hearth_io_destroy(pool), "hearth_io_destroy");
}

const struct bench_io_subject bench_io_subject = {
    .bytes_max = SIZE_MAX,
    .open = open_arena,
    .close = close_arena,
    .loops = {loop_acquire_release, loop_alloc_export_release, loop_retain_release},
    .produce = loop_produce,
    .consume = loop_consume,
};
