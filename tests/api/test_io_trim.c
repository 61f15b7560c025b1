/* SPDX-License-Identifier: Apache-2.0 */
/* Trim of an I/O arena.
 * Covered: everything, a goal and its order, the report's sum, budgets, live and leased storage untouched,
 * caches of other threads that are idle or gone. Not covered: busy caches, read sections of the caller. */
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

TestSuite(io_trim, .init = setup, .fini = teardown);

/* With nobody else working the figures add up to the footprint before the trim. */
static struct hearth_trim_report trim(size_t goal, uint64_t budget)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    size_t before = hearth_io_footprint(io), retained = hearth_io_retained_bytes(io);
    EXPECT(HEARTH_OK, hearth_io_trim_ex(io, goal, budget, &report));
    EXPECT_SIZE(before, report.released_bytes + report.kept_live + report.kept_leased +
                            report.kept_pending + report.kept_busy + report.kept_unreached +
                            report.kept_lost);
    EXPECT_SIZE(report.released_bytes, report.released_io_bytes);
    EXPECT_SIZE(0, report.released_exec_bytes);
    EXPECT_SIZE(sizeof report, report.size);
    EXPECT_SIZE(retained - hearth_io_retained_bytes(io), report.released_bytes);
    EXPECT_SIZE(before - report.released_bytes, memory.bytes);
    EXPECT_SIZE(0, report.kept_lost);
    return report;
}

Test(io_trim, everything_retained_and_nothing_else)
{
    struct hearth_buf *live = io_take(io, 2000), *large = io_take(io, 200 * KIB);
    struct hearth_lease lease = io_lease(io, 70000);
    fill(live, 0x3C);
    for (size_t i = 0; i < 50; i++) {
        io_give(io, io_take(io, i * 5000));
        io_give(io, io_take_aligned(io, i * 5000, 4096));
    }
    struct hearth_trim_report report = trim(HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(0, hearth_io_retained_count(io));
    EXPECT_SIZE(2048 + 224 * KIB, report.kept_live);
    EXPECT_SIZE(80 * KIB, report.kept_leased);
    cr_assert(report.released_bytes > 0);
    cr_assert_eq(report.more, 0u);
    cr_assert(filled(live, 2000, 0x3C));
    EXPECT_SIZE(0, trim(HEARTH_UNBOUNDED, 0).released_bytes);
    io_give(io, live);
    io_give(io, large);
    io_drop(lease);
    size_t released = 1;
    EXPECT(HEARTH_OK, hearth_io_trim(io, &released));
    EXPECT_SIZE(2048 + 224 * KIB + 80 * KIB, released);
    EXPECT_SIZE(0, memory.bytes);
    EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
}

Test(io_trim, a_goal_takes_the_oldest)
{
    static const size_t sizes[] = {64 * KIB, 256, 128 * KIB, 4096, 1024, 320 * KIB, 40 * KIB};
    struct hearth_buf *bufs[COUNT_OF(sizes)];
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        bufs[i] = io_take(io, sizes[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        io_give(io, bufs[i]);
    EXPECT_SIZE(0, trim(0, 0).released_bytes);
    EXPECT_SIZE(64 * KIB, trim(1, 0).released_bytes);
    EXPECT_SIZE(256 + 128 * KIB, trim(257, 0).released_bytes);
    EXPECT_SIZE(4096, trim(4096, 0).released_bytes);
    struct hearth_trim_report report = trim(1025, 0);
    EXPECT_SIZE(1024 + 320 * KIB, report.released_bytes);
    EXPECT_SIZE(40 * KIB, report.kept_unreached + report.kept_busy);
    EXPECT_SIZE(40 * KIB, trim(10 * MIB, 0).released_bytes);
}

Test(io_trim, a_budget_is_continued)
{
    struct hearth_buf *bufs[2000];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = io_take(io, 100);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        io_give(io, bufs[i]);
    for (size_t calls = 0; hearth_io_retained_bytes(io) > 0; calls++) {
        struct hearth_trim_report report = trim(HEARTH_UNBOUNDED, 1000000);
        cr_assert(report.more || hearth_io_retained_bytes(io) == 0);
        cr_assert_lt(calls, (size_t)1000);
    }
    EXPECT_SIZE(0, memory.bytes);
}

Test(io_trim, members_beyond_the_report_are_not_written)
{
    struct hearth_trim_report report;
    memset(&report, 0xEE, sizeof report);
    report.size = offsetof(struct hearth_trim_report, purged_bytes);
    io_give(io, io_take(io, 1000));
    EXPECT(HEARTH_OK, hearth_io_trim_ex(io, HEARTH_UNBOUNDED, 0, &report));
    EXPECT_SIZE(1024, report.released_bytes);
    cr_assert_eq(report.purged_bytes, 0xEEEEEEEEEEEEEEEEu);
    cr_assert_eq(report.elapsed_ns, 0xEEEEEEEEEEEEEEEEu);
    EXPECT_SIZE(offsetof(struct hearth_trim_report, purged_bytes), report.size);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned ready;
static bool over;

static void fill_cache(void)
{
    static _Thread_local struct hearth_lease leases[200];
    for (size_t i = 0; i < 200; i++)
        leases[i] = io_lease(io, i * 400);
    for (size_t i = 0; i < 200; i++)
        io_drop(leases[i]);
}

static void *fill_and_wait(void *unused)
{
    (void)unused;
    fill_cache();
    pthread_mutex_lock(&lock);
    ready++;
    pthread_cond_broadcast(&changed);
    while (!over)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    fill_cache(); /* usable as before */
    return NULL;
}

static void trim_reaches(unsigned threads)
{
    pthread_t thread[8];
    for (unsigned i = 0; i < threads; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, fill_and_wait, NULL), 0);
    pthread_mutex_lock(&lock);
    while (ready < threads)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    io_pause(10); /* a pass each millisecond at most */
    cr_assert_gt(hearth_io_retained_bytes(io), (size_t)0);
    struct hearth_trim_report report = trim(HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(0, hearth_io_retained_bytes(io));
    EXPECT_SIZE(0, report.busy_caches);
    EXPECT_SIZE(0, memory.bytes);
    cr_assert_geq(report.visited_caches, (uint64_t)threads);
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
}

Test(io_trim, reaches_the_idle_cache_of_another_thread)
{
    trim_reaches(1);
}

Test(io_trim, reaches_the_idle_caches_of_many_threads)
{
    trim_reaches(8);
}

static void fill_and_go(void *unused)
{
    (void)unused;
    fill_cache();
}

Test(io_trim, reaches_what_a_thread_left_behind)
{
    on_thread(fill_and_go, NULL);
    EXPECT_SIZE(200, hearth_io_retained_count(io));
    EXPECT_SIZE(0, trim(HEARTH_UNBOUNDED, 0).kept_busy);
    EXPECT_SIZE(0, memory.bytes);
}

/* A lower cap reaches idle caches, too. */
Test(io_trim, a_lower_cap_reaches_the_idle_cache_of_another_thread)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, fill_and_wait, NULL), 0);
    pthread_mutex_lock(&lock);
    while (ready < 1)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    io_pause(10);
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, 0));
    EXPECT_SIZE(0, memory.bytes);
    EXPECT(HEARTH_OK, hearth_io_set_retention_cap(io, HEARTH_UNBOUNDED));
    pthread_mutex_lock(&lock);
    over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}
