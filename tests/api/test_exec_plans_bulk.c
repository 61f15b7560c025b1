/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans of a service: buffers that are taken and returned many at a time.
 * Covered: runs in bulk are learned and served; bulks in planned runs; refused bulks leave buffers as they were. */
#include "plan_runs.h"
#include "service_support.h"

enum { TAKES = 48, BULK = 8, BULKS = 5 };

static struct rig rig;
static struct script script;
static struct stage stage;
static struct play play;

static void setup(void)
{
    script_net(&script, TAKES, 6);
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .age_ms = HEARTH_AGE_NEVER, .flags = HEARTH_SERVICE_NO_THREAD));
    stage_on(&stage, exec_of(rig.service), NULL);
}

static void teardown(void)
{
    rig_close(&rig);
}

TestSuite(exec_plans_bulk, .init = setup, .fini = teardown, .timeout = 120);

static void taken_in_bulk(struct hearth_buf **bufs, size_t i)
{
    const struct hearth_request request = {.size = 10 * KIB * (i + 1)};
    EXPECT(HEARTH_OK,
           hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_EXEC, &request, BULK, bufs));
    for (size_t j = 0; j < BULK; j++)
        fill(bufs[j], (unsigned char)(1 + i * BULK + j));
}

static void taken_one_by_one(struct hearth_buf **bufs, size_t i)
{
    for (size_t j = 0; j < BULK; j++) {
        bufs[j] = take(stage.arena, 10 * KIB * (i + 1));
        fill(bufs[j], (unsigned char)(1 + i * BULK + j));
    }
}

static void in_bulk(bool take, bool give_back)
{
    for (unsigned run = 0; run < 6; run++) {
        struct hearth_buf *bufs[BULKS][BULK] = {{NULL}};
        for (size_t i = 0; i < BULKS; i++)
            (take ? taken_in_bulk : taken_one_by_one)(bufs[i], i);
        for (size_t i = 0; i < BULKS; i++) {
            for (size_t j = 0; j < BULK; j++)
                cr_assert(
                    filled(bufs[i][j], 10 * KIB * (i + 1), (unsigned char)(1 + i * BULK + j)));
            if (give_back)
                EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs[i], BULK, NULL));
            for (size_t j = 0; j < BULK && !give_back; j++)
                give(stage.arena, bufs[i][j]);
        }
        rig_identity(&rig);
        EXPECT_SIZE(run < 2 ? 0 : (size_t)BULK * BULKS * (run - 1),
                    stats_of(stage.arena).plan_hits);
    }
}

Test(exec_plans_bulk, taken)
{
    in_bulk(true, false);
}

Test(exec_plans_bulk, returned)
{
    in_bulk(false, true);
}

Test(exec_plans_bulk, taken_and_returned)
{
    in_bulk(true, true);
}

/* What is beside the plan is a mismatch like any other. */
Test(exec_plans_bulk, within_a_planned_run)
{
    play_learn(&stage, &script);
    stage.shared = true; /* the peak is not the stage's alone */
    for (size_t number = 1; number < TAKES; number += 6) {
        struct hearth_buf *bufs[BULK];
        const struct hearth_request request = {.size = 100 * KIB};
        uint64_t hits = stats_of(stage.arena).plan_hits;
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        EXPECT(HEARTH_OK,
               hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_EXEC, &request, BULK, bufs));
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, BULK, NULL));
        play_end(&play);
        cr_assert_geq(stats_of(stage.arena).plan_hits - hits, TAKES - 1);
        for (unsigned run = 0; run < 3; run++)
            (void)play_run(&stage, &script);
    }
    play_served(&stage, &script);
}

Test(exec_plans_bulk, planned_buffers_returned_in_bulk)
{
    play_learn(&stage, &script);
    for (size_t number = 1; number < TAKES; number += 3) {
        struct hearth_buf *bufs[TAKES];
        size_t count = 0;
        uint64_t hits = stats_of(stage.arena).plan_hits;
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        for (size_t i = 1; i <= number; i++) { /* 0 keeps the run going */
            if (play_live(&play, i))
                bufs[count++] = stage_hand_over(&stage, play_keep(&play, i));
        }
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, count, NULL));
        stage_check(&stage);
        play_end(&play);
        EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits);
        play_served(&stage, &script);
    }
}

static struct hearth_buf *sent[TAKES];
static size_t sent_count;

static void return_sent(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, sent, sent_count, NULL));
    sent_count = 0;
}

Test(exec_plans_bulk, planned_buffers_returned_in_bulk_by_another_thread)
{
    play_learn(&stage, &script);
    stage.shared = true;
    for (size_t number = 1; number < TAKES - 1; number += 3) {
        uint64_t hits = stats_of(stage.arena).plan_hits;
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        for (size_t i = 1; i <= number; i++) {
            if (play_live(&play, i))
                sent[sent_count++] = stage_hand_over(&stage, play_keep(&play, i));
        }
        on_thread(return_sent, NULL);
        stage_check(&stage);
        play_end(&play);
        EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
        EXPECT_SIZE(TAKES, stats_of(stage.arena).plan_hits - hits);
    }
}

/* Each is looked at before the first one is returned; what was looked at is as safe as before. */
Test(exec_plans_bulk, a_refused_bulk_leaves_buffers_as_they_were)
{
    char garbage[256];
    play_learn(&stage, &script);
    for (size_t number = 0; number + 1 < TAKES; number++) {
        play_begin(&play, &stage, &script);
        play_to(&play, number);
        unsigned kept = play_keep(&play, number);
        struct hearth_buf *buf = stage_buf(&stage, kept);
        struct hearth_buf *twice[] = {buf, buf};
        struct hearth_buf *none[] = {buf, NULL};
        struct hearth_buf *wrong[] = {buf, (struct hearth_buf *)(void *)garbage};
        size_t bad = 99;
        EXPECT(HEARTH_STALE, hearth_service_free_bulk(rig.service, twice, 2, &bad));
        EXPECT_SIZE(1, bad);
        EXPECT(HEARTH_FOREIGN, hearth_service_free_bulk(rig.service, none, 2, &bad));
        EXPECT(HEARTH_FOREIGN, hearth_service_free_bulk(rig.service, wrong, 2, &bad));
        stage_check(&stage);
        play_to(&play, TAKES - 1);
        stage_give(&stage, kept);
        play_end(&play);
        for (unsigned run = 0; run < 4; run++)
            (void)play_run(&stage, &script);
    }
    play_served(&stage, &script);
}
