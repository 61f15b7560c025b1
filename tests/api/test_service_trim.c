/* SPDX-License-Identifier: Apache-2.0 */
/* hearth_service_trim().
 * Covered: whose storage is reached (own, idle, ended, pending), what stays and why, goal and order, budgets,
 * a cache inside an operation, callers that are not attached, the report's size. Not covered: read sections
 * of the caller, racing owners (stress/), ageing (test_service_age.c). */
#include "service_support.h"

static struct rig rig;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
}

TestSuite(service_trim, .init = setup, .timeout = 120);

Test(service_trim, the_callers_own_storage_in_one_call)
{
    warm_exec(rig.service, 3000, 20);
    warm_exec(rig.service, 300 * KIB, 4);
    warm_io(rig.service, 3000, 20);
    warm_io(rig.service, 300 * KIB, 4);
    size_t half = (size_t)20 * 3072 + (size_t)4 * 320 * KIB;
    EXPECT_SIZE(2 * half, hearth_service_retained_bytes(rig.service));
    struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(half, report.released_exec_bytes);
    EXPECT_SIZE(half, report.released_io_bytes);
    EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    cr_assert_eq(report.more, 0u);
    report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(0, report.released_bytes);
    cr_assert_eq(report.more, 0u);
    rig_close(&rig);
}

Test(service_trim, live_and_leased_storage_is_untouched)
{
    struct hearth_buf *exec = take(exec_of(rig.service), 5000), *bare = io_take(rig.io, 70000);
    struct hearth_lease lease = io_lease(rig.io, 200 * KIB);
    fill(exec, 0x11);
    fill(bare, 0x22);
    fill(lease.buf, 0x33);
    warm_exec(rig.service, 100 * KIB, 3);
    warm_io(rig.service, 100 * KIB, 3);
    struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(5120 + 80 * KIB, report.kept_live);
    EXPECT_SIZE(224 * KIB, report.kept_leased);
    EXPECT_SIZE(6 * 112 * KIB, report.released_bytes);
    cr_assert(filled(exec, 5000, 0x11) && filled(bare, 70000, 0x22));
    cr_assert(filled(lease.buf, 200 * KIB, 0x33));
    EXPECT_SIZE(5120 + 304 * KIB, bank_bytes(&rig.bank));
    give(exec_of(rig.service), exec);
    io_give(rig.io, bare);
    io_drop(lease);
    rig_close(&rig);
}

static void warm(void *unused)
{
    (void)unused;
    for (size_t i = 1; i <= 40; i++) {
        warm_exec(rig.service, i * 1000, 3);
        warm_io(rig.service, i * 1000, 3);
    }
}

static void idle_threads(unsigned count)
{
    struct worker workers[8];
    for (unsigned i = 0; i < count; i++) {
        worker_start(&workers[i]);
        worker_run(&workers[i], warm, NULL);
    }
    size_t retained = hearth_service_retained_bytes(rig.service);
    cr_assert_gt(retained, (size_t)0);
    EXPECT_SIZE(retained, service_trim_idle(rig.service));
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    EXPECT_SIZE(count, hearth_service_thread_count(rig.service));
    for (unsigned i = 0; i < count; i++)
        worker_run(&workers[i], warm, NULL); /* usable as before */
    retained = hearth_service_retained_bytes(rig.service);
    EXPECT_SIZE(retained, service_trim_idle(rig.service));
    for (unsigned i = 0; i < count; i++)
        worker_end(&workers[i]);
    rig_close(&rig);
}

Test(service_trim, reaches_an_idle_thread)
{
    idle_threads(1);
}

Test(service_trim, reaches_many_idle_threads)
{
    idle_threads(8);
}

static void trim_elsewhere(void *unused)
{
    (void)unused;
    (void)service_trim_idle(rig.service);
}

Test(service_trim, by_a_thread_that_is_not_attached)
{
    struct worker worker;
    worker_start(&worker);
    worker_run(&worker, warm, NULL);
    warm(NULL);
    on_thread(trim_elsewhere, NULL);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    EXPECT_SIZE(2, hearth_service_thread_count(rig.service));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_trim, reaches_what_ended_threads_left)
{
    for (size_t i = 0; i < 5; i++)
        on_thread(warm, NULL);
    warm(NULL);
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(0, report.kept_busy + report.kept_unreached);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    warm(NULL);
    rig_close(&rig);
}

static struct hearth_buf *bufs[64];

static void take_bufs(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = take(exec_of(rig.service), 20 * KIB);
}

static void free_bufs(void)
{
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(bufs[i]), bufs[i]));
}

/* Returned to an owner that does nothing any more. */
Test(service_trim, reaches_pending_returns_of_an_idle_owner)
{
    struct worker worker;
    worker_start(&worker);
    worker_run(&worker, take_bufs, NULL);
    free_bufs();
    EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    EXPECT_SIZE(COUNT_OF(bufs) * 20 * KIB, hearth_service_footprint(rig.service));
    size_t released = 0;
    for (size_t i = 0; i < 100 && bank_bytes(&rig.bank) > 0; i++) {
        released += service_trim(rig.service, HEARTH_UNBOUNDED, 0).released_bytes;
        io_pause(5);
    }
    EXPECT_SIZE(COUNT_OF(bufs) * 20 * KIB, released);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    worker_run(&worker, take_bufs, NULL);
    free_bufs();
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_trim, reaches_returns_to_an_ended_threads_arena)
{
    on_thread(take_bufs, NULL);
    free_bufs();
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    struct worker worker;
    worker_start(&worker);
    worker_run(&worker, take_bufs, NULL);
    free_bufs(); /* queued; the owner ends without another operation */
    worker_end(&worker);
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    rig_close(&rig);
}

static void take_more(void *unused)
{
    (void)unused;
    struct hearth_buf *buf = take(exec_of(rig.service), 900 * KIB);
    give(exec_of(rig.service), buf);
}

/* The backing does not answer, so the owner stays inside its operation: it is left alone, not waited for. */
Test(service_trim, a_cache_inside_an_operation_is_reported)
{
    struct worker worker;
    worker_start(&worker);
    worker_run(&worker, warm, NULL);
    size_t retained = hearth_service_retained_bytes(rig.service);
    bank_shut(&rig.bank);
    worker_begin(&worker, take_more, NULL);
    bank_await(&rig.bank, 1);
    for (size_t i = 0; i < 5; i++) {
        struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
        cr_assert_geq(report.busy_caches, (uint64_t)1);
        cr_assert_gt(report.kept_busy, (uint64_t)0);
        io_pause(3);
    }
    cr_assert_lt(hearth_service_retained_bytes(rig.service), retained, "the I/O part is reached");
    cr_assert_gt(hearth_service_retained_bytes(rig.service), (size_t)0);
    bank_unshut(&rig.bank);
    worker_wait(&worker);
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

static atomic_bool over;

static void work(void *unused)
{
    (void)unused;
    while (!atomic_load(&over))
        warm_exec(rig.service, 10000, 20);
}

/* An owner that works all the time keeps its warm set or gives back slices of it; nothing fails. */
Test(service_trim, beside_a_busy_owner)
{
    struct worker worker;
    worker_start(&worker);
    worker_begin(&worker, work, NULL);
    bool busy = false;
    for (size_t i = 0; i < 200 && !busy; i++) {
        struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
        EXPECT(HEARTH_OK, hearth_service_trim(rig.service, HEARTH_UNBOUNDED, 0, &report));
        EXPECT_SIZE(report.released_bytes, report.released_exec_bytes + report.released_io_bytes);
        busy = report.busy_caches > 0;
        io_pause(1);
    }
    cr_assert(busy, "it was never found active");
    atomic_store(&over, true);
    worker_wait(&worker);
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_trim, a_goal_takes_the_oldest_of_an_arena)
{
    static const size_t sizes[] = {64 * KIB, 256, 128 * KIB, 4096, 1024, 320 * KIB};
    struct hearth_exec *arena = exec_of(rig.service);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        bufs[i] = take(arena, sizes[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        give(arena, bufs[i]);
    EXPECT_SIZE(0, service_trim(rig.service, 0, 0).released_bytes);
    EXPECT_SIZE(64 * KIB, service_trim(rig.service, 1, 0).released_bytes);
    EXPECT_SIZE(256 + 128 * KIB, service_trim(rig.service, 257, 0).released_bytes);
    EXPECT_SIZE(4096, service_trim(rig.service, 4096, 0).released_bytes);
    struct hearth_trim_report report = service_trim(rig.service, 1000, 0);
    EXPECT_SIZE(1024, report.released_bytes);
    EXPECT_SIZE(320 * KIB, report.kept_unreached + report.kept_busy);
    EXPECT_SIZE(320 * KIB, service_trim(rig.service, 10 * MIB, 0).released_bytes);
    rig_close(&rig);
}

/* Whoever holds the oldest storage: an idle thread, an ended one, the caller, the I/O arena. */
Test(service_trim, a_goal_is_passed_by_less_than_one_buffer)
{
    struct worker worker;
    worker_start(&worker);
    worker_run(&worker, warm, NULL);
    on_thread(warm, NULL);
    warm(NULL);
    (void)service_trim(rig.service, 0, 0); /* so that idle threads are known to be idle */
    io_pause(5);
    size_t goal = 1;
    for (size_t calls = 0; hearth_service_retained_bytes(rig.service) > 0; calls++) {
        size_t retained = hearth_service_retained_bytes(rig.service);
        struct hearth_trim_report report = service_trim(rig.service, goal, 0);
        size_t wanted = goal < retained ? goal : retained;
        size_t spans = exec_store_is("spans") ? (size_t)report.purged_bytes : 0;
        /* A segment may have cold bytes beside those that the goal is about. */
        size_t most = goal + (exec_store_is("spans") ? 512 * KIB : 40 * KIB);
        cr_assert_lt(report.released_bytes + spans, most);
        if (report.kept_busy == 0)
            cr_assert_geq(report.released_bytes + spans, wanted);
        cr_assert_lt(calls, (size_t)2000);
        goal = goal * 3 % (256 * KIB) + 1;
        io_pause(2);
    }
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

static void warm_many(void *unused)
{
    (void)unused;
    warm_exec(rig.service, 100, 1000);
    warm_exec(rig.service, 200 * KIB, 40);
    warm_io(rig.service, 100, 1000);
    warm_io(rig.service, 200 * KIB, 40);
}

static void slices(uint64_t budget)
{
    struct worker worker;
    size_t more = 0;
    worker_start(&worker);
    worker_run(&worker, warm_many, NULL);
    warm_many(NULL);
    for (size_t calls = 0; hearth_service_footprint(rig.service) > 0; calls++) {
        struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, budget);
        more += report.more != 0;
        cr_assert(report.more || report.kept_busy || report.kept_unreached == 0,
                  "it leaves %llu bytes and does not say so",
                  (unsigned long long)report.kept_unreached);
        cr_assert_lt(calls, (size_t)20000);
        if (report.busy_caches)
            io_pause(2);
    }
    if (budget < 1000)
        cr_assert_gt(more, (size_t)1);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_trim, slices_of_a_nanosecond)
{
    slices(1);
}

Test(service_trim, slices_of_fifty_microseconds)
{
    slices(50000);
}

Test(service_trim, slices_of_a_millisecond)
{
    slices(1000000);
}

Test(service_trim, an_endless_budget)
{
    slices(UINT64_MAX);
}

Test(service_trim, members_beyond_the_report_are_not_written)
{
    struct hearth_trim_report report;
    memset(&report, 0xEE, sizeof report);
    report.size = offsetof(struct hearth_trim_report, purged_bytes);
    warm_exec(rig.service, 1000, 1);
    EXPECT(HEARTH_OK, hearth_service_trim(rig.service, HEARTH_UNBOUNDED, 0, &report));
    EXPECT_SIZE(1024, report.released_bytes);
    cr_assert_eq(report.purged_bytes, 0xEEEEEEEEEEEEEEEEu);
    cr_assert_eq(report.elapsed_ns, 0xEEEEEEEEEEEEEEEEu);
    EXPECT_SIZE(offsetof(struct hearth_trim_report, purged_bytes), report.size);
    report.size = 0;
    EXPECT(HEARTH_INVALID, hearth_service_trim(rig.service, HEARTH_UNBOUNDED, 0, &report));
    EXPECT(HEARTH_OK, hearth_service_trim(rig.service, HEARTH_UNBOUNDED, 0, NULL));
    rig_close(&rig);
}

/* What the kernel says: after a trim the pages of a large spike are gone. */
Test(service_trim, pages_go_back_to_the_kernel)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the sanitizer's shadow of the pages stays");
#endif
    struct hearth_service *service = NULL;
    struct hearth_page_stats before = HEARTH_PAGE_STATS_INIT, after = HEARTH_PAGE_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_service_create(NULL, &service));
    EXPECT(HEARTH_OK, hearth_page_stats(HEARTH_SCOPE_PROCESS, &before));
    for (size_t i = 0; i < 20; i++) {
        bufs[i] = take(exec_of(service), 4 * MIB);
        fill(bufs[i], 1);
    }
    for (size_t i = 0; i < 20; i++)
        give(exec_of(service), bufs[i]);
    (void)service_trim_idle(service);
    EXPECT(HEARTH_OK, hearth_page_stats(HEARTH_SCOPE_PROCESS, &after));
    EXPECT_SIZE(0, hearth_service_footprint(service));
    cr_assert_leq(after.resident_bytes, before.resident_bytes + 8 * MIB);
    hearth_service_unref(service);
    rig_close(&rig);
}
