/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: large numbers.
 * Covered: runs of thousands of requests, planned in slices; runs that are too long to be recorded; thousands of
 * runs; more runs at a time than a service has slabs for. */
#include "plan_runs.h"
#include "service_support.h"

enum { RING = 64 };

static struct memory memory;
static struct stage stage;
static struct script script;

TestSuite(exec_plans_large, .init = NULL, .timeout = 300);

static void open_stage(void)
{
    memory_init(&memory);
    misuse_record();
    stage_open(&stage, &memory, 0);
}

static void close_stage(void)
{
    EXPECT_SIZE(0, misuse.count);
    stage_close(&stage);
    memory_fini(&memory);
}

/* A run of `requests`, up to RING live at a time, each marked at its ends. Returns hits. */
static uint64_t long_run(size_t requests, uint32_t seed)
{
    static struct hearth_buf *ring[RING];
    static uint64_t run;
    uint64_t hits = stats_of(stage.arena).plan_hits;
    uint32_t state = seed;
    size_t sizes[RING] = {0};
    run++;
    for (size_t i = 0; i < requests + RING; i++) {
        struct hearth_buf **slot = &ring[i % RING];
        uint64_t mark[2] = {run << 32 | (i - RING), ~(run << 32 | (i - RING))};
        if (*slot != NULL) {
            unsigned char *data = hearth_buf_data(*slot);
            cr_assert_eq(memcmp(data, &mark[0], 8), 0);
            cr_assert_eq(memcmp(data + sizes[i % RING] - 8, &mark[1], 8), 0);
            give(stage.arena, *slot);
            *slot = NULL;
        }
        if (i >= requests)
            continue;
        state = state * 1664525u + 1013904223u;
        size_t size = sizes[i % RING] = 16 + (state >> 16) % 2000;
        *slot = take(stage.arena, size);
        mark[0] = run << 32 | i;
        mark[1] = ~mark[0];
        memcpy(hearth_buf_data(*slot), &mark[0], 8);
        memcpy((unsigned char *)hearth_buf_data(*slot) + size - 8, &mark[1], 8);
    }
    check_identity(stage.arena, &memory);
    stage.peak_bytes = hearth_exec_peak_bytes(stage.arena);
    return stats_of(stage.arena).plan_hits - hits;
}

static void learned_and_served(size_t requests)
{
    open_stage();
    unsigned runs = 0;
    while (long_run(requests, 7) < requests)
        cr_assert_lt(++runs, 400, "%zu requests are not planned after %u runs", requests, runs);
    uint64_t acquires = memory.acquires;
    for (unsigned run = 0; run < 3; run++)
        EXPECT_SIZE(requests, long_run(requests, 7));
    EXPECT_SIZE(acquires, memory.acquires);
    struct hearth_exec_stats stats = stats_of(stage.arena);
    /* Random sizes that all live for as long are hard to pack. */
    cr_assert_leq(stats.plan_bytes, stats.plan_bound + stats.plan_bound / 5);
    cr_assert_leq(stats.footprint, stats.plan_bytes + 4 * KIB);
    close_stage();
}

Test(exec_plans_large, a_run_of_2000_requests)
{
    learned_and_served(2000);
}

Test(exec_plans_large, a_run_of_3000_requests)
{
    learned_and_served(3000);
}

Test(exec_plans_large, a_run_of_20000_requests)
{
    learned_and_served(20000);
}

Test(exec_plans_large, a_run_that_is_too_long)
{
    open_stage();
    script_net(&script, 40, 2);
    for (unsigned run = 0; run < 5; run++)
        EXPECT_SIZE(0, long_run(100000, 7));
    for (unsigned run = 0; play_run(&stage, &script) < 40; run++)
        cr_assert_lt(run, 1100, "not learned after %u runs", run);
    play_served(&stage, &script);
    EXPECT_SIZE(0, long_run(100000, 7));
    play_served(&stage, &script);
    close_stage();
}

/* Planning in slices goes on while other runs are served. */
Test(exec_plans_large, a_long_run_beside_a_short_one)
{
    open_stage();
    script_net(&script, 40, 2);
    play_learn(&stage, &script);
    uint64_t hits = 0;
    for (unsigned run = 0; run < 400 && hits == 0; run++) {
        hits = long_run(8000, 9);
        (void)play_run(&stage, &script);
    }
    EXPECT_SIZE(8000, hits);
    for (unsigned run = 0; run < 3; run++) {
        EXPECT_SIZE(8000, long_run(8000, 9));
        EXPECT_SIZE(40, play_run(&stage, &script));
    }
    close_stage();
}

Test(exec_plans_large, thousands_of_runs)
{
    open_stage();
    script_net(&script, 20, 2);
    play_learn(&stage, &script);
    stage.quick = true;
    for (unsigned run = 0; run < 3000; run++)
        play_served(&stage, &script);
    EXPECT_SIZE(3003, stats_of(stage.arena).runs);
    close_stage();
}

enum { THREADS = 6, DEPTHS = 17 };

static struct rig rig;
static struct stage stages[THREADS][DEPTHS];
static struct play plays[THREADS][DEPTHS];

static void begin_all(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        struct hearth_exec *arena = NULL;
        if (stages[i][depth].arena == NULL) {
            EXPECT(HEARTH_OK, hearth_service_child_exec(rig.service, depth, &arena));
            stage_on(&stages[i][depth], arena, NULL);
        }
        play_begin(&plays[i][depth], &stages[i][depth], &script);
        play_to(&plays[i][depth], 12);
    }
}

static void end_all(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    for (unsigned depth = 0; depth < DEPTHS; depth++)
        play_end(&plays[i][depth]);
}

Test(exec_plans_large, more_runs_at_a_time_than_slabs)
{
    struct worker workers[THREADS];
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .age_ms = HEARTH_AGE_NEVER, .flags = HEARTH_SERVICE_NO_THREAD));
    script_net(&script, 20, 2);
    for (size_t i = 0; i < THREADS; i++)
        worker_start(&workers[i]);
    for (unsigned round = 0; round < 5; round++) {
        for (size_t i = 0; i < THREADS; i++)
            worker_run(&workers[i], begin_all, (void *)i);
        for (size_t i = 0; i < THREADS; i++)
            worker_run(&workers[i], end_all, (void *)i);
        rig_identity(&rig);
    }
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    for (size_t i = 0; i < THREADS; i++)
        worker_end(&workers[i]);
    EXPECT_SIZE(0, misuse.count);
    rig_close(&rig);
}
