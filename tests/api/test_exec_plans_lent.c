/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans of a service: slabs are the service's, and lent to an arena for the time of a run.
 * Covered: what one thread learned serves the next one's run, alive or new; runs at the same time; nested runs;
 * figures of arenas and service. Not covered: limits (test_exec_plans_limits.c), ends (test_exec_plans_gone.c),
 * races (stress/). */
#include "plan_runs.h"
#include "service_support.h"

enum { TAKES = 48, THREADS = 4 };

static struct rig rig;
static struct script script;
static struct worker workers[THREADS];
static struct stage stages[THREADS];
static size_t hits[THREADS];

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .age_ms = HEARTH_AGE_NEVER, .flags = HEARTH_SERVICE_NO_THREAD));
    script_net(&script, TAKES, 6);
}

static void teardown(void)
{
    EXPECT_SIZE(0, misuse.count);
    rig_close(&rig);
}

TestSuite(exec_plans_lent, .init = setup, .fini = teardown, .timeout = 120);

static void attach(size_t i)
{
    if (stages[i].arena == NULL)
        stage_on(&stages[i], exec_of(rig.service), NULL);
}

static void run(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    attach(i);
    hits[i] = play_run(&stages[i], &script);
}

static size_t run_on(size_t i)
{
    worker_run(&workers[i], run, (void *)i);
    return hits[i];
}

/* An arena that another thread used before has figures already. */
static void run_by_a_new_thread(void *index)
{
    static struct stage stage;
    struct hearth_exec *arena = exec_of(rig.service);
    stage_on(&stage, arena, NULL);
    stage.peak_bytes = hearth_exec_peak_bytes(arena);
    hits[(size_t)(uintptr_t)index] = play_run(&stage, &script);
}

static void start(size_t count)
{
    for (size_t i = 0; i < count; i++)
        worker_start(&workers[i]);
}

static void end(size_t count)
{
    for (size_t i = 0; i < count; i++)
        worker_end(&workers[i]);
}

static void compact(size_t slabs)
{
    size_t peak = script_peak(&script);
    cr_assert_leq(bank_bytes(&rig.bank), slabs * (peak + peak / 20 + 4 * KIB),
                  "%zu bytes for a peak of %zu", bank_bytes(&rig.bank), peak);
    EXPECT_SIZE(bank_bytes(&rig.bank), hearth_service_footprint(rig.service));
    EXPECT_SIZE(bank_bytes(&rig.bank), hearth_service_retained_bytes(rig.service));
}

Test(exec_plans_lent, one_thread)
{
    attach(0);
    for (unsigned round = 0; round < 6; round++) {
        uint64_t acquires = bank_acquires(&rig.bank);
        EXPECT_SIZE(round < 2 ? 0 : TAKES, play_run(&stages[0], &script));
        if (round >= 2)
            EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
        EXPECT_SIZE(hearth_service_footprint(rig.service),
                    hearth_service_retained_bytes(rig.service));
        EXPECT_SIZE(hearth_service_footprint(rig.service), bank_bytes(&rig.bank));
        rig_identity(&rig);
    }
    compact(1);
    /* Idle, the slab is the service's. */
    struct hearth_exec_stats stats = stats_of(stages[0].arena);
    cr_assert_leq(stats.footprint + stats.slab_bytes, hearth_service_footprint(rig.service));
    EXPECT_SIZE(1, stats.plans);
}

Test(exec_plans_lent, figures_in_a_run)
{
    static struct play play;
    attach(0);
    play_learn(&stages[0], &script);
    size_t footprint = hearth_service_footprint(rig.service);
    play_begin(&play, &stages[0], &script);
    for (size_t number = 0; number < TAKES; number++) {
        play_to(&play, number);
        const struct stage *stage = &stages[0];
        EXPECT_SIZE(footprint, hearth_service_footprint(rig.service));
        EXPECT_SIZE(stage->live_bytes, hearth_service_live_bytes(rig.service));
        EXPECT_SIZE(stage->live_capacity, hearth_service_live_capacity(rig.service));
        EXPECT_SIZE(footprint - stage->live_capacity, hearth_service_retained_bytes(rig.service));
        cr_assert_geq(hearth_exec_footprint(stage->arena), stats_of(stage->arena).slab_bytes);
    }
    play_end(&play);
    EXPECT_SIZE(footprint, hearth_service_retained_bytes(rig.service));
}

Test(exec_plans_lent, what_one_thread_learned_serves_another)
{
    start(2);
    EXPECT_SIZE(0, run_on(0));
    EXPECT_SIZE(0, run_on(0));
    EXPECT_SIZE(TAKES, run_on(0));
    uint64_t acquires = bank_acquires(&rig.bank);
    EXPECT_SIZE(TAKES, run_on(1)); /* its first */
    for (unsigned round = 0; round < 10; round++) {
        EXPECT_SIZE(TAKES, run_on(0));
        EXPECT_SIZE(TAKES, run_on(1));
    }
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    compact(1);
    end(2);
    compact(1);
}

Test(exec_plans_lent, each_run_of_a_sequence_on_another_thread)
{
    start(THREADS);
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < THREADS; i++)
            EXPECT_SIZE(round == 0 && i < 2 ? 0 : TAKES, run_on(i));
        compact(3); /* with what the lists of the first thread retain since it was recorded */
    }
    (void)service_trim_idle(rig.service);
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < THREADS; i++)
            EXPECT_SIZE(TAKES, run_on(i));
        compact(1);
    }
    end(THREADS);
}

Test(exec_plans_lent, a_new_thread_for_each_run)
{
    for (size_t round = 0; round < 12; round++) {
        uint64_t acquires = bank_acquires(&rig.bank);
        on_thread(run_by_a_new_thread, NULL);
        EXPECT_SIZE(round < 2 ? 0 : TAKES, hits[0]);
        if (round < 2)
            continue;
        EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
        compact(1);
    }
}

static struct play plays[THREADS];
static size_t stop_at;

static void begin(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    attach(i);
    hits[i] = (size_t)stats_of(stages[i].arena).plan_hits;
    play_begin(&plays[i], &stages[i], &script);
    play_to(&plays[i], stop_at);
}

static void finish(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    play_end(&plays[i]);
    hits[i] = (size_t)stats_of(stages[i].arena).plan_hits - hits[i];
}

/* As many slabs as runs at a time; every one of them learns by itself. */
Test(exec_plans_lent, runs_at_the_same_time)
{
    start(THREADS);
    stop_at = TAKES / 2;
    for (unsigned round = 0; round < 8; round++) {
        uint64_t acquires = bank_acquires(&rig.bank);
        for (size_t i = 0; i < THREADS; i++)
            worker_run(&workers[i], begin, (void *)i);
        for (size_t i = 0; i < THREADS; i++)
            worker_run(&workers[i], finish, (void *)i);
        for (size_t i = 0; i < THREADS; i++)
            EXPECT_SIZE(round < 2 ? 0 : TAKES, hits[i]);
        if (round < 2)
            continue;
        EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
        compact(THREADS);
    }
    end(THREADS);
    compact(THREADS);
    rig_identity(&rig);
}

Test(exec_plans_lent, a_run_beside_one_that_waits)
{
    start(2);
    for (unsigned i = 0; i < 3; i++)
        (void)run_on(0);
    stop_at = 10;
    worker_run(&workers[0], begin, (void *)0);
    for (unsigned round = 0; round < 4; round++)
        EXPECT_SIZE(round < 2 ? 0 : TAKES, run_on(1));
    worker_run(&workers[0], finish, (void *)0);
    EXPECT_SIZE(TAKES, hits[0]);
    compact(2);
    for (unsigned round = 0; round < 4; round++) {
        EXPECT_SIZE(TAKES, run_on(0));
        EXPECT_SIZE(TAKES, run_on(1));
    }
    end(2);
}

static void release_all(void *stage)
{
    struct stage *of = stage;
    for (unsigned place = 0; place < STAGE_PLACES; place++) {
        if (of->places[place].buf != NULL)
            give(of->arena, stage_hand_over(of, place));
    }
}

static void tell_the_end(void *stage)
{
    EXPECT(HEARTH_OK, hearth_exec_run_end(((struct stage *)stage)->arena));
}

/* Buffers that come home from other threads, the last one too. */
Test(exec_plans_lent, returned_by_another_thread)
{
    start(2);
    stop_at = TAKES - 1;
    for (unsigned round = 0; round < 10; round++) {
        worker_run(&workers[0], begin, (void *)0);
        stages[0].shared = true;
        worker_run(&workers[1], release_all, &stages[0]);
        stage_check(&stages[0]);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        worker_run(&workers[0], tell_the_end, &stages[0]);
        EXPECT_SIZE(round < 2 ? 0 : (round - 1) * TAKES, stats_of(stages[0].arena).plan_hits);
        EXPECT_SIZE(round + 1, stats_of(stages[0].arena).runs);
    }
    EXPECT_SIZE(TAKES, run_on(1));
    end(2);
    rig_identity(&rig);
}

Test(exec_plans_lent, nested_runs)
{
    static struct stage inner;
    static struct play play;
    static struct script body;
    struct hearth_exec *child = NULL;
    script_net(&body, 20, 3);
    attach(0);
    EXPECT(HEARTH_OK, hearth_service_child_exec(rig.service, 1, &child));
    stage_on(&inner, child, NULL);
    for (unsigned round = 0; round < 6; round++) {
        uint64_t before = stats_of(stages[0].arena).plan_hits;
        size_t served = 0;
        play_begin(&play, &stages[0], &script);
        for (size_t number = 5; number < TAKES; number += 10) {
            play_to(&play, number);
            served += play_run(&inner, &body);
        }
        play_end(&play);
        if (round < 2)
            continue;
        EXPECT_SIZE(TAKES, stats_of(stages[0].arena).plan_hits - before);
        EXPECT_SIZE(5 * body.takes, served);
    }
    rig_identity(&rig);
}

Test(exec_plans_lent, several_shapes_on_several_threads)
{
    static struct script shapes[6];
    for (size_t i = 0; i < 6; i++)
        shapes[i] = script_scaled(&script, i + 1, 6);
    start(3);
    for (unsigned round = 0; round < 5; round++) {
        for (size_t i = 0; i < 18; i++) {
            script = shapes[i % 6];
            size_t served = run_on(i % 3);
            if (round > 0 || i >= 12)
                EXPECT_SIZE(TAKES, served);
        }
    }
    script = shapes[5];
    compact(1);
    end(3);
}
