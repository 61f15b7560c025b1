/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans of a service: its limits reach the slabs.
 * Covered: trims, caps, ceiling, limit on live bytes, ageing by time and by runs, leak checks,
 * scrubbing. Not covered: buffers taken and returned in bulk (test_exec_plans_bulk.c). */
#include "plan_runs.h"
#include "service_support.h"

enum { TAKES = 48 };

static struct rig rig;
static struct script script;
static struct stage stage;
static struct play play;
static size_t slab;

static void open_with(struct hearth_service_options options)
{
    options.exec_store = HEARTH_EXEC_STORE_PLANS;
    options.flags |= HEARTH_SERVICE_NO_THREAD;
    if (options.age_ms == 0)
        options.age_ms = HEARTH_AGE_NEVER;
    if (options.grant == 0)
        options.grant = 4 * KIB;
    rig_open(&rig, options);
    stage_on(&stage, exec_of(rig.service), NULL);
}

/* How large the slab of the script is. */
static void setup(void)
{
    script_net(&script, TAKES, 6);
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    play_learn(&stage, &script);
    slab = (size_t)stats_of(stage.arena).slab_bytes;
    rig_close(&rig);
}

static void teardown(void)
{
    rig_close(&rig);
}

TestSuite(exec_plans_limits, .init = setup, .fini = teardown, .timeout = 120);

static void recovers(void)
{
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    uint64_t acquires = bank_acquires(&rig.bank);
    play_served(&stage, &script);
    play_served(&stage, &script);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    rig_identity(&rig);
}

Test(exec_plans_limits, trim_while_idle)
{
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    for (unsigned round = 0; round < 3; round++) {
        recovers();
        struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
        cr_assert_geq(report.released_exec_bytes, slab);
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
        EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
        EXPECT_SIZE(0, service_trim(rig.service, HEARTH_UNBOUNDED, 0).released_bytes);
    }
    recovers();
}

static void learn_elsewhere(void *unused)
{
    (void)unused;
    struct hearth_exec *arena = exec_of(rig.service);
    static struct stage there;
    stage_on(&there, arena, NULL);
    there.peak_bytes = hearth_exec_peak_bytes(arena);
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&there, &script);
}

Test(exec_plans_limits, trim_by_another_thread)
{
    struct worker worker;
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    worker_start(&worker);
    for (unsigned round = 0; round < 3; round++) {
        worker_run(&worker, learn_elsewhere, NULL);
        cr_assert_geq(bank_bytes(&rig.bank), slab);
        (void)service_trim_idle(rig.service);
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
    }
    worker_end(&worker);
}

Test(exec_plans_limits, trim_with_a_goal)
{
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    recovers();
    warm_io(rig.service, 100 * KIB, 3);
    struct hearth_trim_report report = service_trim(rig.service, 1, 0);
    cr_assert_gt(report.released_bytes, 0);
    recovers();
}

Test(exec_plans_limits, trim_in_mid_run)
{
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    recovers();
    for (size_t number = 0; number < TAKES; number += 5) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
        EXPECT_SIZE(stage.live_capacity, report.kept_live);
        for (size_t i = 0; i <= number; i++) {
            if (play_live(&play, i))
                stage_verify(&stage, play.places[i]);
        }
        stage_check(&stage);
        play_end(&play);
        recovers();
    }
}

/* Nothing of it is retained above the ceiling. */
Test(exec_plans_limits, a_ceiling_below_the_slab)
{
    open_with(SERVICE_OPTIONS(.ceiling = slab - 64));
    for (unsigned run = 0; run < 8; run++) {
        (void)play_run(&stage, &script);
        cr_assert_leq(hearth_service_retained_bytes(rig.service), slab - 64);
        rig_identity(&rig);
    }
    EXPECT_SIZE(0, stats_of(stage.arena).plan_hits);
}

Test(exec_plans_limits, a_ceiling_above_the_slab)
{
    open_with(SERVICE_OPTIONS(.ceiling = 2 * slab));
    recovers();
    for (size_t number = 0; number < TAKES; number += 5) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        cr_assert_leq(hearth_service_retained_bytes(rig.service), 2 * slab);
        play_end(&play);
    }
    play_served(&stage, &script);
}

Test(exec_plans_limits, a_ceiling_that_is_lowered_and_lifted)
{
    open_with(SERVICE_OPTIONS(.ceiling = 4 * slab));
    for (unsigned round = 0; round < 3; round++) {
        recovers();
        EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, slab / 2));
        cr_assert_leq(hearth_service_retained_bytes(rig.service), slab / 2);
        for (unsigned run = 0; run < 4; run++) {
            EXPECT_SIZE(0, play_run(&stage, &script));
            cr_assert_leq(hearth_service_retained_bytes(rig.service), slab / 2);
        }
        EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, 4 * slab));
    }
    recovers();
}

Test(exec_plans_limits, a_cap_below_the_slab)
{
    open_with(SERVICE_OPTIONS(.exec_cap = slab - 64));
    for (unsigned run = 0; run < 8; run++) {
        EXPECT_SIZE(0, play_run(&stage, &script));
        cr_assert_leq(hearth_service_retained_bytes(rig.service), slab - 64);
    }
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, 2 * slab));
    recovers();
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, 0));
    (void)service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    for (unsigned run = 0; run < 4; run++) {
        EXPECT_SIZE(0, play_run(&stage, &script));
        EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    }
}

Test(exec_plans_limits, a_limit_on_live_bytes)
{
    size_t peak = script_peak(&script);
    size_t limit = peak + peak / 4 + 64 * KIB; /* the lists' buffers have up to a quarter more */
    open_with(SERVICE_OPTIONS(.live_limit = limit));
    for (unsigned run = 0; run < 6; run++) {
        struct hearth_buf *none = NULL;
        size_t before = stats_of(stage.arena).plan_hits;
        play_begin(&play, &stage, &script);
        for (size_t number = 0; number < TAKES; number++) {
            play_to(&play, number);
            cr_assert_leq(hearth_service_live_capacity(rig.service), limit);
            size_t room = limit - hearth_service_live_capacity(rig.service);
            if (number % 8 == 0)
                EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(stage.arena, room + 64, &none));
        }
        play_end(&play);
        EXPECT_SIZE(run < 2 ? 0 : TAKES, stats_of(stage.arena).plan_hits - before);
        EXPECT_SIZE(0, hearth_service_live_capacity(rig.service));
    }
    /* Lowered so that a planned run does not fit: the first request that would pass it is refused. */
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, peak - 64, 0));
    unsigned places[TAKES];
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0, takes = 0; i < script.acts_count && status == HEARTH_OK; i++) {
        const struct act *act = &script.acts[i];
        const struct hearth_request request = {.size = act->value};
        if (act->take)
            status = stage_try(&stage, &request, &places[takes++]);
        else
            stage_give(&stage, places[act->value]);
    }
    EXPECT(HEARTH_NO_MEMORY, status);
    cr_assert_leq(hearth_service_live_capacity(rig.service), peak - 64);
    for (unsigned i = 0; i < STAGE_PLACES; i++) {
        if (stage.places[i].buf != NULL)
            stage_give(&stage, i);
    }
}

static bool nothing_is_retained(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    return hearth_service_retained_bytes(rig.service) == 0;
}

Test(exec_plans_limits, an_idle_slab_ages)
{
    open_with(SERVICE_OPTIONS(.age_ms = 30));
    recovers();
    cr_assert_geq(bank_bytes(&rig.bank), slab);
    cr_assert(wait_until(nothing_is_retained, NULL, 3000), "the slab stays");
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    recovers();
}

Test(exec_plans_limits, a_slab_in_use_does_not_age)
{
    open_with(SERVICE_OPTIONS(.age_ms = 1000));
    recovers();
    uint64_t acquires = bank_acquires(&rig.bank);
    for (unsigned i = 0; i < 300; i++) {
        EXPECT_SIZE(TAKES, play_run(&stage, &script));
        EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
        io_pause(5);
    }
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
}

Test(exec_plans_limits, a_slab_ages_by_runs)
{
    struct script brief;
    open_with(SERVICE_OPTIONS(.age_runs = 8));
    script_net(&brief, 4, 3);
    for (unsigned run = 0; run < 20; run++) {
        EXPECT_SIZE(run < 2 ? 0 : TAKES, play_run(&stage, &script));
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    }
    for (unsigned run = 0; run < 200; run++) {
        (void)play_run(&stage, &brief);
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    }
    cr_assert_lt(bank_bytes(&rig.bank), slab, "a slab that no run used stays");
    recovers();
}

static void count_leak(void *seen, const struct hearth_leak *leak)
{
    cr_assert_eq(hearth_buf_owner(leak->buf), hearth_exec_allocator(stage.arena));
    *(size_t *)seen += leak->bytes;
}

Test(exec_plans_limits, leak_checks_see_planned_buffers)
{
    struct hearth_leak_check *check = NULL;
    size_t count = 0;
    open_with(SERVICE_OPTIONS(.age_runs = 0));
    recovers();
    EXPECT(HEARTH_OK, hearth_leak_check_begin(rig.service, &check));
    play_begin(&play, &stage, &script);
    play_to(&play, 20);
    size_t bytes = 0;
    EXPECT(HEARTH_BUSY, hearth_leak_check_end(check, count_leak, &bytes, &count));
    EXPECT_SIZE(stage.live_count, count);
    EXPECT_SIZE(stage.live_bytes, bytes);
    play_end(&play);
    EXPECT(HEARTH_OK, hearth_leak_check_begin(rig.service, &check));
    (void)play_run(&stage, &script);
    EXPECT(HEARTH_OK, hearth_leak_check_end(check, NULL, NULL, &count));
    recovers();
}

/* What a buffer held is gone before the next one has its bytes. */
Test(exec_plans_limits, scrubbed)
{
    struct hearth_buf *bufs[TAKES];
    open_with(SERVICE_OPTIONS(.flags = HEARTH_SERVICE_SCRUB));
    for (unsigned run = 0; run < 6; run++) {
        size_t takes = 0;
        for (size_t i = 0; i < script.acts_count; i++) {
            const struct act *act = &script.acts[i];
            if (!act->take) {
                give(stage.arena, bufs[act->value]);
                continue;
            }
            struct hearth_buf *buf = bufs[takes++] = take(stage.arena, act->value);
            const unsigned char *data = hearth_buf_data(buf);
            for (size_t k = 0; k < act->value; k++)
                cr_assert(data[k] == 0 || data[k] == 0xA5, "byte %zu of %zu was not scrubbed", k,
                          act->value);
            fill(buf, 0x77);
        }
    }
}
