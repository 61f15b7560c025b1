/* SPDX-License-Identifier: Apache-2.0 */
/* Each backing call of a scenario refused in turn: the answer is NO_MEMORY, nothing that is in use changes, and
 * everything goes back in the end. */
#include "io_support.h"

static struct memory memory;
static struct hearth_backing *failing;
static struct hearth_io *io;
static struct hearth_exec *exec;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
    EXPECT(HEARTH_OK, hearth_backing_create_failing(memory.backing, &failing));
}

static void teardown(void)
{
    hearth_backing_unref(failing);
    memory_fini(&memory);
}

TestSuite(io_failing, .init = setup, .fini = teardown);

static void create(void)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_exec_options others = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = others.backing = failing;
    EXPECT(HEARTH_OK, hearth_io_create(&options, &io));
    EXPECT(HEARTH_OK, hearth_exec_create(&others, &exec));
}

static void destroy(void)
{
    io_identity(io, NULL);
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    EXPECT(HEARTH_OK, hearth_io_destroy(io));
    EXPECT_SIZE(0, memory.bytes);
}

static struct io_figures before;

/* A refused call may have had retained storage reclaimed, and changed nothing else. */
static bool step(enum hearth_status status)
{
    if (status == HEARTH_OK) {
        io_identity(io, NULL);
        before = io_figures(io);
        return true;
    }
    cr_assert_eq(status, HEARTH_NO_MEMORY);
    struct io_figures after = io_figures(io);
    before.footprint -= before.retained_bytes - after.retained_bytes;
    before.retained_bytes = after.retained_bytes;
    before.retained_count = after.retained_count;
    io_unchanged(&before, io);
    return false;
}

/* Takes all kinds of buffers and gives them back, as far as it gets. */
static enum hearth_status scenario(void)
{
    struct hearth_request request = {.size = 5000, .alignment = 65536};
    struct hearth_buf *small = NULL, *aligned = NULL, *from = NULL, *taken = NULL;
    struct hearth_lease large = HEARTH_LEASE_INIT, lease = HEARTH_LEASE_INIT;
    before = io_figures(io);
    bool right =
        step(hearth_io_alloc(io, 1000, &small)) && step(hearth_io_lease(io, 200 * KIB, &large)) &&
        step(hearth_io_alloc_ex(io, &request, &aligned)) && step(hearth_buf_resize(small, 3000)) &&
        step(hearth_buf_resize_keep(aligned, 300 * KIB)) &&
        step(hearth_io_lease(io, 700, &lease)) && step(hearth_exec_alloc(exec, 900, &from));
    if (from) {
        right = step(hearth_io_take(io, from, &taken)) && right;
        io_give(io, taken);
    }
    if (small) {
        memset(hearth_buf_data(small), 1, hearth_buf_size(small));
        io_give(io, small);
    }
    if (aligned)
        io_give(io, aligned);
    if (large.buf)
        io_drop(large);
    if (lease.buf)
        io_drop(lease);
    EXPECT_SIZE(0, hearth_io_live_count(io));
    EXPECT_SIZE(hearth_io_footprint(io) + hearth_exec_footprint(exec), memory.bytes);
    return right ? HEARTH_OK : HEARTH_NO_MEMORY;
}

static uint64_t sweep(uint64_t count)
{
    for (uint64_t nth = 1;; nth++) {
        create();
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, nth, count));
        enum hearth_status status = scenario();
        struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
        EXPECT(HEARTH_OK, hearth_backing_stats(failing, &stats));
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, 0, 0));
        EXPECT(HEARTH_OK, scenario()); /* it recovers */
        destroy();
        if (status == HEARTH_OK && stats.acquire_failures == 0)
            return nth;
        static uint64_t failures;
        if (status == HEARTH_OK && stats.acquire_failures == failures)
            return nth;
        failures = stats.acquire_failures;
        cr_assert_lt(nth, 100u);
    }
}

Test(io_failing, each_call_refused_once)
{
    cr_assert_gt(sweep(1), 5u);
}

Test(io_failing, each_call_and_all_after_it_refused)
{
    cr_assert_gt(sweep(UINT64_MAX), 5u);
}

Test(io_failing, retained_storage_is_reclaimed_before_no_memory)
{
    struct hearth_buf *buf = NULL;
    create();
    struct hearth_buf *live = io_take(io, 200);
    io_give(io, io_take(io, 1000));
    io_drop(io_lease(io, 70000));
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 1));
    EXPECT(HEARTH_OK, hearth_io_alloc(io, MIB, &buf));
    EXPECT_SIZE(0, hearth_io_retained_bytes(io));
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 100));
    struct hearth_buf *none = NULL;
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(io, 2 * MIB, &none));
    cr_assert_null(none);
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 0, 0));
    EXPECT_SIZE(200 + MIB, hearth_io_live_bytes(io));
    io_give(io, buf);
    io_give(io, live);
    destroy();
}

static void fill_cache(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 20; i++)
        io_drop(io_lease(io, i * 900));
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool filled_up, over;

static void *fill_and_wait(void *unused)
{
    fill_cache(unused);
    pthread_mutex_lock(&lock);
    filled_up = true;
    pthread_cond_broadcast(&changed);
    while (!over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return NULL;
}

Test(io_failing, other_threads_idle_caches_are_reclaimed_too)
{
    struct hearth_buf *buf = NULL;
    pthread_t thread;
    create();
    cr_assert_eq(pthread_create(&thread, NULL, fill_and_wait, NULL), 0);
    pthread_mutex_lock(&lock);
    while (!filled_up)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    io_pause(10);
    cr_assert_gt(hearth_io_retained_bytes(io), (size_t)0);
    EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 1));
    EXPECT(HEARTH_OK, hearth_io_alloc(io, MIB, &buf));
    EXPECT_SIZE(0, hearth_io_retained_bytes(io));
    io_give(io, buf);
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    destroy();
}
