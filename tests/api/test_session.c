/* SPDX-License-Identifier: Apache-2.0 */
/* Serial runs of a session.
 * Covered: each figure of a run against a count of its own; peaks against a computation by hand; the steady
 * state; failures of kernels, missing inputs and values, other plans; several contexts on threads; short
 * stats. Not covered: executors (test_session_parallel.c), events (test_events.c). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(session, .timeout = 120);

/* x -> a, y -> b -> z, with workspaces: 3 nodes, 2 intermediates, 2 outputs. */
static struct op split = {.outs = 2, .count = {1000, 10}, .temporary = 3000};
static struct op middle = {.count = {500}, .temporary = 9000};
static struct op last = {.count = {20}};

static struct hearth_plan *three_nodes(void)
{
    return PLAN("x", "y z", OP("split", "x", "a y", &split), OP("middle", "a", "b", &middle),
                OP("last", "b", "z", &last));
}

static void open_run(void)
{
    run_open(&run, three_nodes());
    lend_ramp(run.context, "x");
}

Test(session, figures_of_a_run)
{
    open_run();
    for (unsigned i = 1; i <= 5; i++) {
        log_clear(&run.log);
        uint64_t acquires = bank_acquires(&run.rig.bank), releases = run.rig.bank.releases;
        uint64_t before = now_ns();
        struct hearth_run_stats stats = run_once(&run);
        uint64_t took = now_ns() - before;
        EXPECT_SIZE(i, stats.runs);
        EXPECT_SIZE(3, stats.nodes);
        EXPECT_SIZE(1, stats.threads);
        EXPECT_SIZE(4, stats.tensors);
        EXPECT_SIZE(log_count(&run.log, HEARTH_EVENT_MADE), stats.tensors);
        EXPECT_SIZE(2, stats.temporaries);
        EXPECT_SIZE(2, stats.released);
        EXPECT_SIZE(log_count(&run.log, HEARTH_EVENT_RELEASED), stats.released);
        EXPECT_SIZE(0, stats.reused_in_place);
        EXPECT_SIZE(0, stats.remote_deaths);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.copied_bytes);
        EXPECT_SIZE(0, stats.staged_copies);
        EXPECT_SIZE(0, stats.migration_copies);
        EXPECT_SIZE(0, stats.taken);
        EXPECT_SIZE(0, stats.body_runs);
        EXPECT_SIZE(bank_acquires(&run.rig.bank) - acquires, stats.backing_acquires);
        EXPECT_SIZE(run.rig.bank.releases - releases, stats.backing_releases);
        EXPECT_SIZE(4000 + 2000 + 9000, stats.execution_peak_bytes);
        EXPECT_SIZE(40 + 80, stats.io_peak_bytes);
        cr_assert_leq(stats.elapsed_ns, took);
        cr_assert_gt(stats.elapsed_ns, 0);
        EXPECT_SIZE(i, split.calls);
    }
    run_close(&run);
}

/* The peak of a run is that run's: a large run leaves nothing behind in the figures of a small one. */
Test(session, peaks_follow_the_sizes)
{
    static struct op wide, narrow;
    run_open(&run, PLAN("x", "y", OP("wide", "x", "t", &wide), OP("narrow", "t", "y", &narrow)));
    lend_ramp(run.context, "x");
    const uint32_t sizes[] = {10, 100000, 7, 5000, 1};
    for (unsigned i = 0; i < COUNT_OF(sizes); i++) {
        wide.count[0] = sizes[i];
        wide.temporary = sizes[i] * 2;
        narrow.count[0] = sizes[i] / 2 + 1;
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(sizes[i] * 6, stats.execution_peak_bytes);
        EXPECT_SIZE((sizes[i] / 2 + 1) * 4, stats.io_peak_bytes);
    }
    run_close(&run);
}

Test(session, the_steady_state_comes_after_three_runs)
{
    open_run();
    for (unsigned i = 0; i < 3; i++)
        (void)run_once(&run);
    uint64_t acquires = bank_acquires(&run.rig.bank), releases = run.rig.bank.releases;
    size_t heap = heap_bytes();
    for (unsigned i = 0; i < 100; i++) {
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(0, stats.backing_acquires + stats.backing_releases);
        log_clear(&run.log);
    }
    EXPECT_SIZE(acquires, bank_acquires(&run.rig.bank));
    EXPECT_SIZE(releases, run.rig.bank.releases);
    EXPECT_SIZE(heap, heap_bytes());
    run_close(&run);
}

Test(session, a_service_counts_the_runs)
{
    open_run();
    EXPECT(HEARTH_OK, hearth_service_set_ageing(run.rig.service, 4, HEARTH_AGE_NEVER));
    warm_exec(run.rig.service, 3 * MIB, 2);
    size_t before = hearth_service_retained_bytes(run.rig.service);
    for (unsigned i = 0; i < 50; i++)
        (void)run_once(&run);
    cr_assert_lt(hearth_service_retained_bytes(run.rig.service) + 5 * MIB, before);
    run_close(&run);
}

Test(session, the_first_failure_ends_the_run)
{
    open_run();
    (void)run_once(&run);
    EXPECT_SIZE(0, strlen(hearth_session_error(run.context)));
    for (enum hearth_status status = HEARTH_NO_MEMORY; status <= HEARTH_NOT_OWNER; status++) {
        unsigned before = last.calls;
        middle.fail = status;
        last.fail = HEARTH_FOREIGN;
        struct hearth_run_stats stats = run_expecting(&run, status);
        cr_assert_eq(last.calls, before, "a node ran after the failure");
        if (status != HEARTH_INVALID)
            EXPECT_SIZE(2, stats.nodes);
        cr_assert_not_null(strstr(hearth_session_error(run.context), "middle"));
        cr_assert_null(strchr(hearth_session_error(run.context), '\n'));
        expect_names(run.context, "x");
        EXPECT_SIZE(0, hearth_service_live_bytes(run.rig.service));
        middle.fail = last.fail = HEARTH_OK;
        (void)run_once(&run);
        EXPECT_SIZE(0, strlen(hearth_session_error(run.context)));
        expect_names(run.context, "x y z");
    }
    run_close(&run);
}

Test(session, a_missing_input_is_named)
{
    run_open(&run, PLAN("x late unused", "y", OP("first", "x", "t", NULL),
                        OP("second", "t late", "y", NULL)));
    lend_ramp(run.context, "x");
    (void)run_expecting(&run, HEARTH_INVALID);
    cr_assert_not_null(strstr(hearth_session_error(run.context), "late"));
    expect_names(run.context, "x");
    lend_ramp(run.context, "late"); /* what no node uses may be missing */
    (void)run_once(&run);
    expect_value(run.context, "y", ELEMENTS, 2, 2);
    run_close(&run);
}

static enum hearth_status lazy(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

Test(session, an_output_that_was_not_made_is_named)
{
    run_open(&run, PLAN("x", "yonder", NODE("lazy", "x", "yonder", .kernel = lazy)));
    lend_ramp(run.context, "x");
    (void)run_expecting(&run, HEARTH_INVALID);
    cr_assert_not_null(strstr(hearth_session_error(run.context), "lazy"));
    cr_assert_not_null(strstr(hearth_session_error(run.context), "yonder"));
    expect_names(run.context, "x");
    run_close(&run);
}

Test(session, another_plans_context_is_invalid)
{
    open_run();
    struct hearth_plan *twin = three_nodes();
    struct hearth_context *others[] = {context_of(twin, CONTEXT_OPTIONS(.flags = 0)),
                                       context_of(NULL, CONTEXT_OPTIONS(.flags = 0))};
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    for (unsigned i = 0; i < 2; i++) {
        lend_ramp(others[i], "x");
        EXPECT(HEARTH_INVALID, hearth_session_run(run.session, others[i], &stats));
        expect_names(others[i], "x");
        EXPECT(HEARTH_OK, hearth_context_destroy(others[i]));
    }
    hearth_plan_unref(twin);
    EXPECT(HEARTH_INVALID, hearth_session_run(run.session, NULL, &stats));
    EXPECT(HEARTH_INVALID, hearth_session_run(NULL, run.context, &stats));
    stats.size = 0;
    EXPECT(HEARTH_INVALID, hearth_session_run(run.session, run.context, &stats));
    EXPECT_SIZE(1, hearth_context_count(run.context));
    run_close(&run);
}

Test(session, impossible_options)
{
    struct hearth_session_options options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_session *session = NULL;
    struct hearth_plan *plan = three_nodes();
    EXPECT(HEARTH_INVALID, hearth_session_create(&options, &session)); /* no plan */
    EXPECT(HEARTH_INVALID, hearth_session_create(NULL, &session));
    options.plan = plan;
    EXPECT(HEARTH_INVALID, hearth_session_create(&options, NULL));
    options.size += 8;
    EXPECT(HEARTH_INVALID, hearth_session_create(&options, &session));
    options.size -= 8;
    options.reserved = 1;
    EXPECT(HEARTH_INVALID, hearth_session_create(&options, &session));
    cr_assert_null(session);
    EXPECT(HEARTH_OK, hearth_session_destroy(NULL));
    hearth_plan_unref(plan);
}

Test(session, nothing_beyond_the_size_of_the_stats_is_written)
{
    struct hearth_run_stats stats;
    open_run();
    for (size_t members = 0; members < (sizeof stats - sizeof stats.size) / 8; members++) {
        memset(&stats, 0xAB, sizeof stats);
        stats.size = sizeof stats.size + members * 8;
        size_t size = stats.size;
        EXPECT(HEARTH_OK, hearth_session_run(run.session, run.context, &stats));
        EXPECT_SIZE(size, stats.size);
        for (size_t i = size; i < sizeof stats; i++)
            cr_assert_eq(((unsigned char *)&stats)[i], 0xAB);
        if (members >= 2) {
            EXPECT_SIZE(members + 1, stats.runs);
            EXPECT_SIZE(3, stats.nodes);
        }
    }
    EXPECT(HEARTH_OK, hearth_session_run(run.session, run.context, NULL));
    run_close(&run);
}

Test(session, staged_copies_are_counted_in_the_next_run)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    open_run();
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(1, stats.payload_copies);
    EXPECT_SIZE(1, stats.staged_copies);
    EXPECT_SIZE(sizeof ramp, stats.copied_bytes);
    stats = run_once(&run);
    EXPECT_SIZE(0, stats.payload_copies + stats.staged_copies + stats.copied_bytes);
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, NULL, 0,
                                           NULL)); /* room only: no copy */
    EXPECT_SIZE(0, run_once(&run).payload_copies);
    run_close(&run);
}

/* Several contexts of one session at a time, more than it was made for. */
struct user {
    struct worker worker;
    struct hearth_context *context;
    uint32_t first;
};

static void run_often(void *argument)
{
    struct user *user = argument;
    uint32_t input[ELEMENTS];
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < ELEMENTS; i++)
            input[i] = user->first + round + i;
        struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
        lend_input(user->context, "x", input, ELEMENTS);
        EXPECT(HEARTH_OK, hearth_session_run(run.session, user->context, &stats));
        EXPECT_SIZE(3, stats.nodes);
        EXPECT_SIZE(4 * 3 * ELEMENTS, stats.io_peak_bytes + stats.execution_peak_bytes);
        expect_value(user->context, "z", ELEMENTS, user->first + round + 3, 1);
        struct hearth_lease lease = export_of(user->context, "z");
        expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS,
                   user->first + round + 3, 1);
        io_drop(lease);
    }
    EXPECT(HEARTH_OK, hearth_context_clear(user->context));
}

Test(session, many_contexts_run_at_the_same_time)
{
    struct user users[6];
    run_open(&run, PLAN("x", "z", OP("first", "x", "a", NULL), OP("middle", "a", "b", NULL),
                        OP("last", "b", "z", NULL)));
    for (uint32_t i = 0; i < COUNT_OF(users); i++) {
        users[i].first = i * 1000000;
        users[i].context = context_of(run.plan, CONTEXT_OPTIONS(.flags = 0));
        worker_start(&users[i].worker);
        worker_begin(&users[i].worker, run_often, &users[i]);
    }
    for (uint32_t i = 0; i < COUNT_OF(users); i++)
        worker_end(&users[i].worker);
    for (uint32_t i = 0; i < COUNT_OF(users); i++)
        EXPECT(HEARTH_OK, hearth_context_destroy(users[i].context));
    lend_ramp(run.context, "x");
    EXPECT_SIZE(200 * COUNT_OF(users) + 1, run_once(&run).runs);
    run_close(&run);
}

/* A context may move from thread to thread between runs. */
static void run_here(void *unused)
{
    (void)unused;
    (void)run_once(&run);
    expect_value(run.context, "z", 20, 3, 0);
}

Test(session, a_context_may_change_threads)
{
    static uint32_t zeros[ELEMENTS];
    open_run();
    lend_input(run.context, "x", zeros, ELEMENTS);
    /* z is: 1 + b, b is 1 + a, a is 1 + x; the ramp would repeat within. */
    for (unsigned i = 0; i < 5; i++) {
        (void)run_once(&run);
        expect_value(run.context, "z", 20, 3, 0);
    }
    on_thread(run_here, NULL);
    run_close(&run);
}

/* Each acquire of a cold run fails in turn: the run answers, and nothing stays behind. */
Test(session, every_acquire_may_fail)
{
    struct hearth_service_options options = SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER);
    struct hearth_backing *failing = NULL;
    struct bank bank;
    bank_open(&bank);
    EXPECT(HEARTH_OK, hearth_backing_create_failing(bank.backing, &failing));
    options.exec_backing = options.io_backing = failing;
    run_open_with(&run, three_nodes(), options, CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(run.context, "x");
    unsigned refused = 0;
    for (enum hearth_status status = HEARTH_NO_MEMORY; status != HEARTH_OK; refused++) {
        EXPECT(HEARTH_OK, hearth_context_remove(run.context, "x"));
        EXPECT(HEARTH_OK, hearth_context_clear(run.context));
        lend_ramp(run.context, "x");
        EXPECT(HEARTH_OK, hearth_service_trim(run.rig.service, HEARTH_UNBOUNDED, 0, NULL));
        EXPECT_SIZE(0, bank_bytes(&bank));
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, refused + 1, 1000));
        status = hearth_session_run(run.session, run.context, NULL);
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, 0, 0));
        if (status == HEARTH_OK)
            break;
        EXPECT(HEARTH_NO_MEMORY, status);
        expect_names(run.context, "x");
        EXPECT_SIZE(0, hearth_service_live_bytes(run.rig.service));
        cr_assert_gt(strlen(hearth_session_error(run.context)), 0);
    }
    cr_assert_geq(refused, 5); /* two intermediates, two outputs, the larger workspace */
    expect_names(run.context, "x y z");
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    hearth_plan_unref(run.plan);
    hearth_service_unref(run.rig.service);
    EXPECT_SIZE(0, bank_bytes(&bank));
    hearth_backing_unref(failing);
    bank_close(&bank);
    bank_close(&run.rig.bank);
}
