/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans of a service: threads that exit and services that end in mid-run.
 * Covered: planned buffers of threads that are gone, detached or of a closed or unreferenced service keep their content
 * and come home from any thread; the next runs. Not covered: forked children (tests/lifecycle), races (stress/). */
#include "plan_runs.h"
#include "service_support.h"

enum { TAKES = 48 };

static struct rig rig;
static struct script script;
static struct stage stage;
static struct play play;
static size_t stop_at;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .age_ms = HEARTH_AGE_NEVER, .flags = HEARTH_SERVICE_NO_THREAD));
    script_net(&script, TAKES, 6);
}

TestSuite(exec_plans_gone, .init = setup, .timeout = 120);

static void attach(void)
{
    struct hearth_exec *arena = exec_of(rig.service);
    stage_on(&stage, arena, NULL);
    stage.shared = true;
    /* An arena that another thread left has figures already, and perhaps its buffers. */
    stage.peak_bytes = hearth_exec_peak_bytes(arena);
    stage.live_count = hearth_exec_live_count(arena);
    stage.live_bytes = hearth_exec_live_bytes(arena);
    stage.live_capacity = hearth_exec_live_capacity(arena);
}

static void learn_and_stop(void *unused)
{
    (void)unused;
    attach();
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    play_begin(&play, &stage, &script);
    play_to(&play, stop_at);
}

static void run_once(void *served)
{
    attach();
    *(size_t *)served = play_run(&stage, &script);
}

static struct hearth_buf *outstanding[TAKES];
static size_t outstanding_count;

static void collect(void)
{
    for (size_t i = 0; i < TAKES; i++) {
        if (play_live(&play, i))
            outstanding[outstanding_count++] = stage_hand_over(&stage, play_keep(&play, i));
    }
}

static void return_them(void *unused)
{
    (void)unused;
    while (outstanding_count > 0) {
        struct hearth_buf *buf = outstanding[--outstanding_count];
        struct hearth_allocator *owner = hearth_buf_owner(buf);
        cr_assert_not_null(owner);
        EXPECT(HEARTH_OK, hearth_free(owner, buf));
    }
}

static void verify_all(void)
{
    for (size_t i = 0; i < TAKES; i++) {
        if (play_live(&play, i))
            stage_verify(&stage, play.places[i]);
    }
}

Test(exec_plans_gone, a_thread_that_exits_in_mid_run)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 5) {
        size_t served = 0;
        on_thread(learn_and_stop, NULL);
        verify_all();
        EXPECT_SIZE(stage.live_bytes, hearth_service_live_bytes(rig.service));
        collect();
        return_them(NULL);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        for (unsigned i = 0; i < 4; i++)
            on_thread(run_once, &served);
        EXPECT_SIZE(TAKES, served);
        rig_identity(&rig);
    }
    rig_close(&rig);
}

/* The next thread runs before the buffers of the one before are home. */
Test(exec_plans_gone, a_thread_that_exits_and_the_next_one_runs)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 5) {
        static struct stage before;
        static struct play its;
        size_t served = 0;
        on_thread(learn_and_stop, NULL);
        before = stage;
        its = play;
        its.stage = &before;
        for (unsigned i = 0; i < 4; i++) {
            on_thread(learn_and_stop, NULL);
            /* It may have the same arena; each has its own bytes. */
            for (size_t j = 0; j < TAKES; j++) {
                if (play_live(&its, j))
                    stage_verify(&before, its.places[j]);
            }
            collect();
            return_them(NULL);
        }
        for (size_t j = 0; j < TAKES; j++) {
            if (play_live(&its, j))
                outstanding[outstanding_count++] = stage_hand_over(&before, play_keep(&its, j));
        }
        on_thread(return_them, NULL);
        /* Some may be recorded once more, after what was amiss before. */
        for (unsigned i = 0; i < 8 && served != TAKES; i++)
            on_thread(run_once, &served);
        EXPECT_SIZE(TAKES, served);
    }
    rig_close(&rig);
}

Test(exec_plans_gone, a_detach_in_mid_run)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 5) {
        learn_and_stop(NULL);
        EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
        verify_all();
        collect();
        if (stop_at % 2 == 0)
            on_thread(return_them, NULL);
        else
            return_them(NULL);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        rig_identity(&rig);
    }
    attach();
    for (unsigned run = 0; run < 3; run++)
        (void)play_run(&stage, &script);
    EXPECT_SIZE(TAKES, play_run(&stage, &script));
    rig_close(&rig);
}

static void close_in_mid_run(bool by_another)
{
    struct hearth_buf *none = NULL;
    learn_and_stop(NULL);
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    verify_all();
    EXPECT(HEARTH_CLOSED, hearth_exec_alloc(stage.arena, 100, &none));
    EXPECT(HEARTH_CLOSED, hearth_exec_run_begin(stage.arena, 1));
    EXPECT_SIZE(stage.live_bytes, hearth_service_live_bytes(rig.service));
    collect();
    if (by_another)
        on_thread(return_them, NULL);
    else
        return_them(NULL);
    EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    rig_close(&rig);
}

Test(exec_plans_gone, a_close_in_mid_run)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        close_in_mid_run(false);
        setup();
    }
    rig_close(&rig);
}

Test(exec_plans_gone, a_close_in_mid_run_and_home_from_another_thread)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        close_in_mid_run(true);
        setup();
    }
    rig_close(&rig);
}

Test(exec_plans_gone, a_close_between_runs)
{
    stop_at = 0;
    learn_and_stop(NULL);
    play_end(&play);
    cr_assert_gt(bank_bytes(&rig.bank), 0);
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    rig_close(&rig);
}

static void unref_in_mid_run(bool on_its_own, bool by_another)
{
    if (on_its_own)
        on_thread(learn_and_stop, NULL);
    else
        learn_and_stop(NULL);
    hearth_service_unref(rig.service);
    verify_all();
    cr_assert_geq(bank_bytes(&rig.bank), stage.live_capacity);
    collect();
    if (by_another)
        on_thread(return_them, NULL);
    else
        return_them(NULL);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    bank_close(&rig.bank);
}

static void unref_everywhere(bool on_its_own, bool by_another)
{
    for (stop_at = 0; stop_at < TAKES; stop_at += 7) {
        unref_in_mid_run(on_its_own, by_another);
        setup();
    }
    rig_close(&rig);
}

Test(exec_plans_gone, an_unref_in_mid_run)
{
    unref_everywhere(false, false);
}

Test(exec_plans_gone, an_unref_in_mid_run_and_home_from_another_thread)
{
    unref_everywhere(false, true);
}

Test(exec_plans_gone, an_unref_after_the_thread)
{
    unref_everywhere(true, false);
}

Test(exec_plans_gone, an_unref_after_the_thread_and_home_from_another_one)
{
    unref_everywhere(true, true);
}

Test(exec_plans_gone, an_unref_between_runs)
{
    for (unsigned runs = 0; runs < 5; runs++) {
        attach();
        for (unsigned run = 0; run < runs; run++)
            (void)play_run(&stage, &script);
        rig_close(&rig);
        setup();
    }
    rig_close(&rig);
}
