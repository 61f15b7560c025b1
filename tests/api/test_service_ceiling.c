/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds on what is retained: ceiling, floors, caps.
 * Covered: one ceiling over all threads and the I/O arena, held at quiescence and while readers look;
 * stranded credit; floors; caps that never cross domains; changes while running; ceiling_percent. Not
 * covered: control groups with a limit of their own, races (stress/). */
#include "service_support.h"

static struct rig rig;

TestSuite(service_ceiling, .init = NULL, .timeout = 240);

/* What holds between two operations of a single thread. */
static void check_stranded(size_t grant, size_t threads)
{
    size_t retained = hearth_service_retained_bytes(rig.service);
    cr_assert_leq(retained, hearth_service_ceiling(rig.service));
    size_t stranded = hearth_service_stranded_bytes(rig.service);
    cr_assert_leq(stranded, threads * grant, "%zu bytes of credit are stranded with %zu threads",
                  stranded, threads);
    rig_identity(&rig);
}

static void check_bounds(size_t grant)
{
    check_stranded(grant, hearth_service_thread_count(rig.service));
}

Test(service_ceiling, over_both_domains_of_one_thread)
{
    static const size_t grants[] = {64, 4096, 64 * KIB, MIB, 8 * MIB};
    for (size_t g = 0; g < COUNT_OF(grants); g++) {
        rig_open(&rig, SERVICE_OPTIONS(.ceiling = 8 * MIB, .grant = grants[g]));
        for (size_t round = 0; round < 3; round++) {
            struct hearth_buf *exec[16], *io[16];
            for (size_t i = 0; i < 16; i++) {
                exec[i] = take(exec_of(rig.service), MIB);
                io[i] = io_take(rig.io, MIB);
            }
            for (size_t i = 0; i < 16; i++) {
                give(exec_of(rig.service), exec[i]);
                check_bounds(grants[g]);
                io_give(rig.io, io[i]);
                check_bounds(grants[g]);
            }
            cr_assert_geq(hearth_service_retained_bytes(rig.service) + grants[g] + MIB, 8 * MIB,
                          "much of the ceiling stays unused");
        }
        rig_close(&rig);
    }
}

Test(service_ceiling, with_small_and_odd_sizes)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = MIB, .grant = 32 * KIB));
    struct hearth_buf *exec[200];
    struct hearth_lease leases[200];
    uint64_t dice = 12345;
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < 200; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            exec[i] = take(exec_of(rig.service), (dice >> 33) % ((size_t)1 << (dice >> 60)));
            leases[i] = io_lease(rig.io, (dice >> 40) % (40 * KIB));
        }
        for (size_t i = 0; i < 200; i++) {
            give(exec_of(rig.service), exec[i]);
            io_drop(leases[i]);
            check_bounds(32 * KIB);
        }
    }
    rig_close(&rig);
}

/* A buffer above the ceiling is never retained, and is no reason to give up what is. */
Test(service_ceiling, a_buffer_above_it)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 2 * MIB, .grant = 64 * KIB));
    for (size_t i = 0; i < 2; i++) /* spans are in one piece then */
        warm_exec(rig.service, 256 * KIB, 3);
    warm_io(rig.service, 256 * KIB, 3);
    size_t retained = hearth_service_retained_bytes(rig.service);
    EXPECT_SIZE(6 * 256 * KIB, retained);
    warm_exec(rig.service, 3 * MIB, 1);
    warm_io(rig.service, 3 * MIB, 1);
    EXPECT_SIZE(retained, hearth_service_retained_bytes(rig.service));
    check_bounds(64 * KIB);
    rig_close(&rig);
}

enum { THREADS = 8, GRANT = 64 * 1024, LARGEST = 128 * 1024 };

static void churn(void *seed)
{
    uint64_t dice = (uint64_t)(uintptr_t)seed + 99;
    struct hearth_buf *exec[32];
    struct hearth_lease leases[32];
    for (size_t round = 0; round < 10; round++) {
        for (size_t i = 0; i < 32; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            exec[i] = take(exec_of(rig.service), (dice >> 33) % LARGEST);
            leases[i] = io_lease(rig.io, (dice >> 40) % LARGEST);
        }
        for (size_t i = 0; i < 32; i++) {
            io_drop(leases[i]);
            give(exec_of(rig.service), exec[i]);
        }
    }
}

static atomic_bool over;
static size_t highest;

static void look(void *unused)
{
    (void)unused;
    while (!atomic_load(&over)) {
        size_t retained = hearth_service_retained_bytes(rig.service);
        size_t stranded = hearth_service_stranded_bytes(rig.service);
        highest = retained > highest ? retained : highest;
        highest = stranded > highest ? stranded : highest;
        io_pause(0); /* others need the processor, too */
    }
}

Test(service_ceiling, over_many_threads)
{
    struct worker workers[THREADS], reader;
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = GRANT));
    worker_start(&reader);
    worker_begin(&reader, look, NULL);
    for (size_t i = 0; i < THREADS; i++)
        worker_start(&workers[i]);
    for (size_t round = 0; round < 6; round++) {
        for (size_t i = 0; i < THREADS; i++)
            worker_begin(&workers[i], churn, (void *)(uintptr_t)(round * THREADS + i));
        for (size_t i = 0; i < THREADS; i++)
            worker_wait(&workers[i]);
        check_bounds(GRANT);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    }
    atomic_store(&over, true);
    worker_end(&reader);
    /* A reader sums while operations run, but nothing is ever negative. */
    cr_assert_lt(highest, 1024 * MIB);
    for (size_t i = 0; i < THREADS; i++) {
        worker_end(&workers[i]);
        check_stranded(GRANT, THREADS);
    }
    rig_close(&rig);
}

static void warm_four(void *unused)
{
    (void)unused;
    warm_exec(rig.service, MIB, 4);
}

/* Credit of an idle thread serves another thread, if that wants to retain. */
Test(service_ceiling, an_idle_threads_storage_makes_room)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = 64 * KIB));
    worker_start(&worker);
    worker_run(&worker, warm_four, NULL);
    EXPECT_SIZE(4 * MIB, hearth_service_retained_bytes(rig.service));
    for (size_t i = 0; i < 50; i++) {
        warm_exec(rig.service, MIB, 4);
        check_bounds(64 * KIB);
        io_pause(3);
    }
    uint64_t acquires = bank_acquires(&rig.bank);
    warm_exec(rig.service, MIB, 3);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_ceiling, io_does_not_evict_below_the_exec_floor)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = 64 * KIB, .exec_floor = 2 * MIB));
    warm_exec(rig.service, 512 * KIB, 8);
    io_pause(3);
    for (size_t i = 0; i < 20; i++) {
        warm_io(rig.service, (i % 4 + 1) * 512 * KIB, 3);
        check_bounds(64 * KIB);
        cr_assert_geq(hearth_exec_retained_bytes(exec_of(rig.service)), 2 * MIB);
        io_pause(2);
    }
    cr_assert_gt(hearth_io_retained_bytes(rig.io), (size_t)0, "and what is above is its to take");
    rig_close(&rig);
}

Test(service_ceiling, exec_does_not_evict_below_the_io_floor)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = 64 * KIB, .io_floor = 2 * MIB));
    warm_io(rig.service, 512 * KIB, 8);
    for (size_t i = 0; i < 20; i++) {
        warm_exec(rig.service, (i % 4 + 1) * 512 * KIB, 3);
        check_bounds(64 * KIB);
        cr_assert_geq(hearth_io_retained_bytes(rig.io), 2 * MIB);
        io_pause(2);
    }
    warm_exec(rig.service, 512 * KIB, 3);
    cr_assert_gt(hearth_exec_retained_bytes(exec_of(rig.service)), (size_t)0);
    rig_close(&rig);
}

Test(service_ceiling, caps_never_cross_domains)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_cap = MIB, .io_cap = 2 * MIB));
    struct hearth_exec *arena = exec_of(rig.service);
    for (size_t i = 0; i < 2; i++) /* spans are in one piece then */
        warm_exec(rig.service, 256 * KIB, 4);
    EXPECT_SIZE(MIB, hearth_exec_retained_bytes(arena));
    for (size_t i = 0; i < 20; i++) {
        warm_io(rig.service, (i % 5 + 1) * 100 * KIB, 40);
        cr_assert_leq(hearth_io_retained_bytes(rig.io), 2 * MIB);
        EXPECT_SIZE(MIB, hearth_exec_retained_bytes(arena));
    }
    uint64_t acquires = bank_acquires(&rig.bank);
    warm_exec(rig.service, 256 * KIB, 4);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    size_t io = hearth_io_retained_bytes(rig.io);
    for (size_t i = 0; i < 20; i++) {
        warm_exec(rig.service, (i % 5 + 1) * 100 * KIB, 40);
        cr_assert_leq(exec_warm(arena), MIB);
        EXPECT_SIZE(io, hearth_io_retained_bytes(rig.io));
    }
    rig_close(&rig);
}

static void cap_of_this_thread(void *cap)
{
    *(size_t *)cap = hearth_exec_retention_cap(exec_of(rig.service));
}

Test(service_ceiling, caps_change_while_running)
{
    struct worker worker;
    size_t cap = 0;
    rig_open(&rig, SERVICE_OPTIONS(.exec_cap = 8 * MIB));
    worker_start(&worker);
    worker_run(&worker, warm_four, NULL);
    warm_exec(rig.service, MIB, 4);
    warm_io(rig.service, MIB, 4);
    (void)service_trim(rig.service, 0, 0);
    io_pause(5);
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, 2 * MIB));
    EXPECT_SIZE(4 * MIB, hearth_io_retained_bytes(rig.io));
    EXPECT_SIZE(2 * MIB, hearth_exec_retained_bytes(exec_of(rig.service)));
    cr_assert_leq(hearth_service_retained_bytes(rig.service), 8 * MIB, "the idle thread's, too");
    EXPECT_SIZE(2 * MIB, hearth_exec_retention_cap(exec_of(rig.service)));
    on_thread(cap_of_this_thread, &cap);
    EXPECT_SIZE(2 * MIB, cap);
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_io_retention_cap(rig.io));
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_IO, MIB));
    EXPECT_SIZE(MIB, hearth_io_retained_bytes(rig.io));
    EXPECT(HEARTH_OK,
           hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_IO | HEARTH_DOMAIN_EXEC, 0));
    worker_run(&worker, warm_four, NULL);
    warm_exec(rig.service, MIB, 4);
    warm_io(rig.service, MIB, 4);
    EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(
                          rig.service, HEARTH_DOMAIN_IO | HEARTH_DOMAIN_EXEC, HEARTH_UNBOUNDED));
    worker_run(&worker, warm_four, NULL);
    worker_run(&worker, cap_of_this_thread, &cap);
    EXPECT_SIZE(HEARTH_UNBOUNDED, cap);
    warm_io(rig.service, MIB, 4);
    EXPECT_SIZE(8 * MIB, hearth_service_retained_bytes(rig.service));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_ceiling, changes_while_running)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.grant = 64 * KIB));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_service_ceiling(rig.service));
    worker_start(&worker);
    worker_run(&worker, warm_four, NULL);
    warm_exec(rig.service, MIB, 4);
    warm_io(rig.service, MIB, 4);
    EXPECT_SIZE(12 * MIB, hearth_service_retained_bytes(rig.service));
    (void)service_trim(rig.service, 0, 0);
    io_pause(5);
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, 3 * MIB));
    EXPECT_SIZE(3 * MIB, hearth_service_ceiling(rig.service));
    io_pause(5);
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, 3 * MIB));
    check_bounds(64 * KIB);
    warm_exec(rig.service, MIB, 4);
    warm_io(rig.service, MIB, 4);
    worker_run(&worker, warm_four, NULL);
    check_bounds(64 * KIB);
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, HEARTH_UNBOUNDED));
    warm_exec(rig.service, MIB, 4);
    warm_io(rig.service, MIB, 4);
    worker_run(&worker, warm_four, NULL);
    EXPECT_SIZE(12 * MIB, hearth_service_retained_bytes(rig.service));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_ceiling, of_zero_retains_nothing)
{
    rig_open(&rig, SERVICE_OPTIONS(.grant = 4096));
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, 0));
    EXPECT_SIZE(0, hearth_service_ceiling(rig.service));
    for (size_t i = 0; i < 10; i++) {
        warm_exec(rig.service, i * 1000, 3);
        warm_io(rig.service, i * 1000, 3);
        EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
    }
    rig_close(&rig);
}

Test(service_ceiling, of_the_container)
{
    size_t free_of_it;
    rig_open(&rig, SERVICE_OPTIONS(.ceiling_percent = 100));
    free_of_it = hearth_service_ceiling(rig.service);
    cr_assert_gt(free_of_it, (size_t)0);
    rig_close(&rig);
    rig_open(&rig, SERVICE_OPTIONS(.ceiling_percent = 1));
    cr_assert_leq(hearth_service_ceiling(rig.service), free_of_it);
    EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    warm_exec(rig.service, 1000, 1);
    rig_close(&rig);
    rig_open(&rig, SERVICE_OPTIONS(.ceiling_percent = 100, .ceiling = 64 * KIB, .grant = 4096));
    EXPECT_SIZE(64 * KIB, hearth_service_ceiling(rig.service));
    rig_close(&rig);
}
