/* SPDX-License-Identifier: Apache-2.0 */
/* Storage that nobody uses goes back: by runs, by time, by tick, and in an idle process by itself.
 * Covered: what is used stays, whose runs count, never, changing the ageing, the maintenance thread and its
 * absence, spikes of ended and idle threads. Not covered: forked children (tests/lifecycle). */
#include "service_support.h"

static struct rig rig;

TestSuite(service_age, .init = NULL, .timeout = 120);

/* Two buffers are used in each run, the others were used once. */
static void run_once(struct hearth_service *service)
{
    warm_exec(service, 1000, 1);
    warm_io(service, 100 * KIB, 1);
    EXPECT(HEARTH_OK, hearth_service_end_run(service));
}

static bool only_the_used(void *unused)
{
    (void)unused;
    return hearth_service_retained_bytes(rig.service) == 1024 + 112 * KIB;
}

Test(service_age, by_runs)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_runs = 8, .age_ms = HEARTH_AGE_NEVER,
                                   .flags = HEARTH_SERVICE_NO_THREAD));
    warm_exec(rig.service, 2 * MIB, 4);
    warm_io(rig.service, 2 * MIB, 4);
    warm_io(rig.service, 500, 20);
    for (size_t i = 0; i < 6; i++)
        run_once(rig.service);
    cr_assert_geq(hearth_service_retained_bytes(rig.service), 16 * MIB, "too early");
    for (size_t i = 0; i < 60 && !only_the_used(NULL); i++)
        run_once(rig.service);
    EXPECT_SIZE(1024 + 112 * KIB, hearth_service_retained_bytes(rig.service));
    uint64_t acquires = bank_acquires(&rig.bank);
    for (size_t i = 0; i < 50; i++)
        run_once(rig.service);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    rig_close(&rig);
}

static void warm_a_spike(void *unused)
{
    (void)unused;
    warm_exec(rig.service, 600 * KIB, 5);
}

/* Runs of one thread do not age the arena of another. */
Test(service_age, an_arena_counts_its_own_runs)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.age_runs = 4, .age_ms = HEARTH_AGE_NEVER,
                                   .flags = HEARTH_SERVICE_NO_THREAD));
    worker_start(&worker);
    worker_run(&worker, warm_a_spike, NULL);
    for (size_t i = 0; i < 100; i++)
        run_once(rig.service);
    cr_assert_geq(hearth_service_retained_bytes(rig.service), 5 * 640 * KIB);
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_age, end_run_of_a_thread_without_an_arena)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_runs = 1));
    EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    rig_close(&rig);
}

/* Three idle threads, three ended ones and the caller, each with a spike in both domains. */
static struct worker idle[3];

static void warm_spikes(void *unused)
{
    (void)unused;
    warm_exec(rig.service, 600 * KIB, 5);
    warm_exec(rig.service, 3000, 10);
    warm_io(rig.service, 600 * KIB, 5);
    warm_io(rig.service, 3000, 10);
}

static void spike_everywhere(void)
{
    for (size_t i = 0; i < COUNT_OF(idle); i++) {
        worker_start(&idle[i]);
        worker_run(&idle[i], warm_spikes, NULL);
        on_thread(warm_spikes, NULL);
    }
    warm_spikes(NULL);
}

/* Where nothing ages before this is asked, however slow the machine. */
static void expect_spikes(void)
{
    cr_assert_geq(hearth_service_retained_bytes(rig.service), 8 * MIB);
}

static void finish(void)
{
    for (size_t i = 0; i < COUNT_OF(idle); i++)
        worker_end(&idle[i]);
    rig_close(&rig);
}

static bool nothing_retained(void *unused)
{
    (void)unused;
    return bank_bytes(&rig.bank) == 0; /* and nothing is on its way */
}

Test(service_age, without_a_thread_only_ticks_help)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 50, .flags = HEARTH_SERVICE_NO_THREAD,
                                   .maintenance_bytes = 1));
    spike_everywhere();
    expect_spikes();
    size_t retained = hearth_service_retained_bytes(rig.service);
    io_pause(400);
    EXPECT_SIZE(retained, hearth_service_retained_bytes(rig.service));
    for (size_t i = 0; i < 500 && !nothing_retained(NULL); i++) {
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
        io_pause(2);
    }
    EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    finish();
}

Test(service_age, an_idle_process_after_a_spike)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 100, .maintenance_bytes = 1));
    spike_everywhere();
    cr_assert(wait_until(nothing_retained, NULL, 3000), "%zu bytes stay",
              hearth_service_retained_bytes(rig.service));
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    warm_spikes(NULL); /* and once more, after the thread found nothing to do */
    cr_assert(wait_until(nothing_retained, NULL, 3000), "%zu bytes stay after a second spike",
              hearth_service_retained_bytes(rig.service));
    finish();
}

static bool below_the_threshold(void *unused)
{
    (void)unused;
    return hearth_service_retained_bytes(rig.service) < 256 * KIB;
}

Test(service_age, less_than_maintenance_bytes_may_stay)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 50, .maintenance_bytes = 256 * KIB));
    warm_exec(rig.service, 100 * KIB, 1);
    io_pause(200);
    spike_everywhere();
    cr_assert(wait_until(below_the_threshold, NULL, 3000), "%zu bytes stay",
              hearth_service_retained_bytes(rig.service));
    finish();
}

/* The defaults: nobody asks for it, and eight megabytes and more come back after ten seconds. */
Test(service_age, out_of_the_box)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    spike_everywhere();
    expect_spikes();
    size_t retained = hearth_service_retained_bytes(rig.service);
    io_pause(7000);
    EXPECT_SIZE(retained, hearth_service_retained_bytes(rig.service));
    cr_assert(wait_until(below_the_threshold, NULL, 20000), "%zu bytes stay",
              hearth_service_retained_bytes(rig.service));
    finish();
}

/* What is in use every few milliseconds does not age. */
Test(service_age, used_storage_stays_warm)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 300, .maintenance_bytes = 1));
    warm_exec(rig.service, 3 * MIB, 1);
    warm_io(rig.service, 3 * MIB, 1);
    warm_exec(rig.service, 5 * MIB, 2);
    for (uint64_t end = in_ms(1500); now_ns() < end; io_pause(2)) {
        warm_exec(rig.service, 3 * MIB, 1);
        warm_io(rig.service, 3 * MIB, 1);
    }
    EXPECT_SIZE(4, bank_acquires(&rig.bank));
    EXPECT_SIZE(6 * MIB, hearth_service_retained_bytes(rig.service));
    rig_close(&rig);
}

Test(service_age, never)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER, .age_runs = HEARTH_AGE_NEVER,
                                   .maintenance_bytes = 1));
    warm_spikes(NULL);
    size_t retained = hearth_service_retained_bytes(rig.service);
    for (size_t i = 0; i < 300; i++) {
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    }
    io_pause(300);
    EXPECT_SIZE(retained, hearth_service_retained_bytes(rig.service));
    rig_close(&rig);
}

Test(service_age, changed_while_running)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER, .maintenance_bytes = 1));
    spike_everywhere();
    expect_spikes();
    io_pause(200);
    cr_assert_not(nothing_retained(NULL));
    EXPECT(HEARTH_OK, hearth_service_set_ageing(rig.service, HEARTH_AGE_NEVER, 50));
    cr_assert(wait_until(nothing_retained, NULL, 3000), "%zu bytes stay",
              hearth_service_retained_bytes(rig.service));
    EXPECT(HEARTH_OK, hearth_service_set_ageing(rig.service, 0, 0));
    warm_spikes(NULL);
    io_pause(300);
    cr_assert_not(nothing_retained(NULL), "ten seconds are the default");
    finish();
}

/* Ticks may come as often as they like, also when there is nothing, and after the close. */
Test(service_age, ticks_are_harmless)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = HEARTH_SERVICE_NO_THREAD));
    for (size_t i = 0; i < 10000; i++)
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    warm_spikes(NULL);
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    for (size_t i = 0; i < 50; i++) {
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
        io_pause(1);
    }
    EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    rig_close(&rig);
}

/* The thread holds no reference: the service can end while it sleeps, or works. */
Test(service_age, the_service_may_end_at_any_time)
{
    for (size_t i = 0; i < 60; i++) {
        rig_open(&rig, SERVICE_OPTIONS(.age_ms = 5, .maintenance_bytes = 1));
        warm_spikes(NULL);
        io_pause((long)(i % 20));
        hearth_service_unref(rig.service);
        for (uint64_t end = in_ms(5000); bank_bytes(&rig.bank) > 0 && now_ns() < end;)
            io_pause(1); /* the thread finishes what it is at */
        bank_close(&rig.bank);
    }
}
