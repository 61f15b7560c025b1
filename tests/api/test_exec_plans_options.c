/* SPDX-License-Identifier: Apache-2.0 */
/* Run plans: how they are asked for, and when they are done without.
 * Covered: options and HEARTH_CONF, wrong values; debug modes; arenas that obtain nothing; slots that run out. Every
 * test runs in a process of its own, so each may set the variable once before its first arena. */
#include "plan_runs.h"
#include "service_support.h"

#include <stdlib.h>
#include <string.h>

enum { TAKES = 40 };

static struct stage stage;
static struct script script;

static void setup(void)
{
    misuse_record();
    script_net(&script, TAKES, 2);
}

TestSuite(exec_plans_options, .init = setup, .timeout = 120);

static void conf(const char *text)
{
    cr_assert_eq(setenv("HEARTH_CONF", text, 1), 0);
}

/* An arena on the default backing. */
static void open_stage(uint32_t store)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    options.store = store;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    stage_on(&stage, arena, NULL);
}

static void served_or_not(bool served)
{
    size_t hits = 0;
    for (unsigned run = 0; run < 5; run++)
        hits = play_run(&stage, &script);
    EXPECT_SIZE(served ? TAKES : 0, hits);
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT_SIZE(served ? 3 : 0, stats.planned_runs);
    EXPECT_SIZE(served, stats.plans_made);
    if (!served)
        EXPECT_SIZE(0, stats.plan_hits + stats.plan_misses + stats.plan_blocked + stats.plans +
                           stats.slab_bytes + stats.plan_bytes + stats.plan_bound);
    stage_close(&stage);
    EXPECT_SIZE(0, misuse.count);
}

Test(exec_plans_options, by_default_there_are_none)
{
    open_stage(HEARTH_EXEC_STORE_DEFAULT);
    served_or_not(false);
    open_stage(HEARTH_EXEC_STORE_LISTS);
    served_or_not(false);
    open_stage(HEARTH_EXEC_STORE_SPANS);
    served_or_not(false);
    open_stage(HEARTH_EXEC_STORE_PLANS);
    served_or_not(true);
}

Test(exec_plans_options, by_the_environment)
{
    conf("exec_store:plans");
    open_stage(HEARTH_EXEC_STORE_DEFAULT);
    served_or_not(true);
    open_stage(HEARTH_EXEC_STORE_LISTS);
    served_or_not(true);
}

Test(exec_plans_options, not_by_the_environment)
{
    conf("exec_store:lists");
    open_stage(HEARTH_EXEC_STORE_PLANS);
    served_or_not(false);
}

Test(exec_plans_options, with_other_keys)
{
    conf("backing:mmap,exec_store:plans,exec_cap:64M,reuse_ratio:2");
    open_stage(HEARTH_EXEC_STORE_DEFAULT);
    served_or_not(true);
}

Test(exec_plans_options, of_a_service_by_the_environment)
{
    static struct rig rig;
    conf("exec_store:plans");
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    stage_on(&stage, exec_of(rig.service), NULL);
    for (unsigned run = 0; run < 5; run++)
        EXPECT_SIZE(run < 2 ? 0 : TAKES, play_run(&stage, &script));
    rig_close(&rig);
}

static void refuse(const char *text, const char *names)
{
    char message[512] = "";
    EXPECT(HEARTH_INVALID, hearth_conf_check(text, message, sizeof message));
    cr_assert_not_null(strstr(message, names), "\"%s\" does not name \"%s\" of \"%s\"", message,
                       names, text);
}

Test(exec_plans_options, wrong_values)
{
    static const uint32_t wrong[] = {4, 5, 1000, UINT32_MAX};
    EXPECT(HEARTH_OK, hearth_conf_check("exec_store:lists", NULL, 0));
    EXPECT(HEARTH_OK, hearth_conf_check("exec_store:spans", NULL, 0));
    EXPECT(HEARTH_OK, hearth_conf_check("exec_store:plans", NULL, 0));
    refuse("exec_store:plan", "exec_store");
    refuse("exec_store:Plans", "exec_store");
    refuse("exec_store:", "exec_store");
    refuse("exec_store", "exec_store");
    refuse("exec_store:3", "exec_store");
    refuse("exec_store:lists+plans", "exec_store");
    refuse("exec_stores:plans", "exec_stores");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
        struct hearth_service_options service_options = HEARTH_SERVICE_OPTIONS_INIT;
        struct hearth_exec *arena = NULL;
        struct hearth_service *service = NULL;
        options.store = service_options.exec_store = wrong[i];
        EXPECT(HEARTH_INVALID, hearth_exec_create(&options, &arena));
        EXPECT(HEARTH_INVALID, hearth_service_create(&service_options, &service));
        cr_assert_null(arena);
        cr_assert_null(service);
        EXPECT_SIZE(2 * (i + 1), misuse.count);
    }
}

Test(exec_plans_options, a_wrong_value_in_the_environment)
{
    struct hearth_exec *arena = NULL;
    conf("exec_store:plants");
    EXPECT(HEARTH_INVALID, hearth_exec_create(NULL, &arena));
    cr_assert_null(arena);
    EXPECT_SIZE(1, misuse.count);
    cr_assert_not_null(strstr(misuse.detail, "exec_store"));
}

static void debugging(const char *text)
{
    conf(text);
    open_stage(HEARTH_EXEC_STORE_PLANS);
    EXPECT(HEARTH_OK, hearth_exec_run_begin(stage.arena, 1));
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage.arena));
    served_or_not(false);
}

Test(exec_plans_options, debug_poison)
{
    debugging("debug:poison");
}

Test(exec_plans_options, debug_quarantine)
{
    debugging("debug:quarantine");
}

Test(exec_plans_options, debug_guard)
{
    debugging("debug:guard");
}

Test(exec_plans_options, debug_sites)
{
    debugging("debug:sites");
}

Test(exec_plans_options, debug_everything)
{
    debugging("debug:poison+quarantine+guard+sites,exec_store:plans");
}

/* What was filled ahead of need serves all there is. */
Test(exec_plans_options, a_service_that_obtains_nothing)
{
    static struct rig rig;
    const struct hearth_request request = {.size = 64 * KIB};
    rig_open(&rig, SERVICE_OPTIONS(.exec_store = HEARTH_EXEC_STORE_PLANS,
                                   .exhaustion = HEARTH_EXHAUSTION_FAIL, .reuse_ratio = 1024,
                                   .age_ms = HEARTH_AGE_NEVER));
    stage_on(&stage, exec_of(rig.service), NULL);
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_EXEC, &request, TAKES, 0));
    uint64_t acquires = bank_acquires(&rig.bank);
    for (unsigned run = 0; run < 6; run++)
        EXPECT_SIZE(0, play_run(&stage, &script));
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    rig_close(&rig);
}

/* Slots bound the lists' buffers and the places together, or not: whatever is served is right. */
Test(exec_plans_options, few_slots)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct memory memory;
    struct hearth_exec *arena = NULL;
    memory_init(&memory);
    options.store = HEARTH_EXEC_STORE_PLANS;
    options.slots = TAKES;
    options.backing = memory.backing;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    stage_on(&stage, arena, &memory);
    EXPECT_SIZE(TAKES, hearth_exec_slots(arena));
    for (unsigned run = 0; run < 8; run++)
        (void)play_run(&stage, &script);
    struct hearth_buf *bufs[TAKES + 1];
    size_t count = 0;
    enum hearth_status status;
    while ((status = hearth_exec_alloc(arena, 100, &bufs[count])) == HEARTH_OK)
        cr_assert_lt(++count, TAKES + 1);
    EXPECT(HEARTH_NO_SLOT, status);
    while (count > 0)
        give(arena, bufs[--count]);
    stage.peak_bytes = hearth_exec_peak_bytes(arena);
    for (unsigned run = 0; run < 4; run++)
        (void)play_run(&stage, &script);
    stage_close(&stage);
    memory_fini(&memory);
}

Test(exec_plans_options, figures_in_json)
{
    char text[8192];
    open_stage(HEARTH_EXEC_STORE_PLANS);
    play_learn(&stage, &script);
    struct hearth_exec_stats stats = stats_of(stage.arena);
    EXPECT(HEARTH_OK, hearth_exec_stats_json(&stats, text, sizeof text, NULL));
    cr_assert_not_null(strstr(text, "\"plan_hits\""));
    cr_assert_not_null(strstr(text, "\"slab_bytes\""));
    cr_assert_not_null(strstr(text, "\"plan_bound\""));
    stage_close(&stage);
}
