/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions on a service with run plans (test_exec_plans_*.c).
 * Covered: serial runs are told to the arena, learned, and served without the backing; a run on another thread is
 * served at once; bodies; parallel runs are right. Not covered: times and memory (bench/). */
#include "run_support.h"

enum { RUNS = 8 };

static struct run run;

TestSuite(session_plans, .timeout = 120);

static void open_layers(void)
{
    run_open_with(&run, layers(),
                  SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS, .age_ms = HEARTH_AGE_NEVER,
                                  .flags = HEARTH_SERVICE_NO_THREAD),
                  CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(run.context, "x");
}

static uint64_t plan_hits(void)
{
    return stats_of(exec_of(run.rig.service)).plan_hits;
}

Test(session_plans, runs_are_learned)
{
    open_layers();
    for (unsigned i = 0; i < RUNS; i++) {
        uint64_t before = plan_hits();
        struct hearth_run_stats stats = run_once(&run);
        struct hearth_exec_stats now = stats_of(exec_of(run.rig.service));
        expect_layers(&run);
        EXPECT_SIZE(i + 1, now.runs);
        if (i < 2) {
            EXPECT_SIZE(0, now.plan_hits);
            continue;
        }
        cr_assert_gt(now.plan_hits, before);
        EXPECT_SIZE(0, now.plan_misses);
        EXPECT_SIZE(i - 1, now.planned_runs);
        if (i > 2)
            EXPECT_SIZE(0, stats.backing_acquires + stats.backing_releases);
        log_clear(&run.log);
    }
    EXPECT_SIZE(1, stats_of(exec_of(run.rig.service)).plans_made);
    run_close(&run);
}

static void run_here(void *hits)
{
    uint64_t before = plan_hits();
    lend_ramp(run.context, "x");
    (void)run_once(&run);
    expect_layers(&run);
    *(uint64_t *)hits = plan_hits() - before;
}

Test(session_plans, another_thread_is_served_at_once)
{
    uint64_t here = 0, there = 0;
    open_layers();
    for (unsigned i = 0; i < 4; i++)
        run_here(&here);
    cr_assert_gt(here, 0);
    for (unsigned i = 0; i < 5; i++) {
        uint64_t acquires = bank_acquires(&run.rig.bank);
        on_thread(run_here, &there);
        EXPECT_SIZE(here, there);
        EXPECT_SIZE(acquires, bank_acquires(&run.rig.bank));
    }
    run_close(&run);
}

Test(session_plans, inputs_of_several_lengths)
{
    static uint32_t data[64];
    open_layers();
    for (unsigned i = 0; i < 60; i++) {
        uint64_t before = plan_hits();
        for (unsigned k = 0; k < 64; k++)
            data[k] = k;
        lend_input(run.context, "x", data, 16 + 16 * (size_t)(i % 3));
        (void)run_once(&run);
        cr_assert(i < 9 || plan_hits() > before, "run %u was not served", i);
        log_clear(&run.log);
    }
    run_close(&run);
}

Test(session_plans, parallel_runs_are_right)
{
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    open_layers();
    EXPECT(HEARTH_OK, hearth_pool_create(3, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    for (unsigned i = 0; i < 200; i++) {
        struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
        if (i % 10 < 8)
            EXPECT(HEARTH_OK, hearth_session_run_on(run.session, run.context, &executor, &stats));
        else
            (void)run_once(&run);
        expect_layers(&run);
        log_clear(&run.log);
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}
