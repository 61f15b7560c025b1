/* SPDX-License-Identifier: Apache-2.0 */
/* Executors of other kinds than the pool.
 * Covered: executors that refuse, that call inside submit, that call when the run or everything is over; how
 * many tasks are submitted; what cannot run on an executor; wrong uses of the pool. */
#include "run_support.h"

static struct run run;

TestSuite(session_executors, .timeout = 120);

static struct hearth_run_stats run_parallel(const struct hearth_executor *executor,
                                            enum hearth_status expected)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    enum hearth_status status = hearth_session_run_on(run.session, run.context, executor, &stats);
    cr_assert_eq(status, expected, "the run answers %s instead of %s: %s",
                 hearth_status_name(status), hearth_status_name(expected),
                 hearth_session_error(run.context));
    return stats;
}

/* An executor that does what it is told here. */
struct strange {
    enum hearth_status answer;
    bool at_once;
    unsigned submits;
    unsigned kept;
    struct {
        void (*fn)(void *);
        void *arg;
    } tasks[256];
};

static enum hearth_status strange_submit(void *pool, void (*fn)(void *), void *arg)
{
    struct strange *strange = pool;
    strange->submits++;
    if (strange->answer != HEARTH_OK)
        return strange->answer;
    if (strange->at_once) {
        fn(arg);
    } else {
        cr_assert_lt(strange->kept, COUNT_OF(strange->tasks));
        strange->tasks[strange->kept].fn = fn;
        strange->tasks[strange->kept++].arg = arg;
    }
    return HEARTH_OK;
}

static void call_kept(struct strange *strange)
{
    for (unsigned i = 0; i < strange->kept; i++)
        strange->tasks[i].fn(strange->tasks[i].arg);
    strange->kept = 0;
}

static struct hearth_executor executor_of(struct strange *strange, uint32_t threads)
{
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    executor.submit = strange_submit;
    executor.pool = strange;
    executor.threads = threads;
    return executor;
}

Test(session_executors, an_executor_that_refuses)
{
    struct strange strange = {.answer = HEARTH_BUSY};
    struct hearth_executor executor = executor_of(&strange, 4);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 10; i++) {
        EXPECT_SIZE(1, run_parallel(&executor, HEARTH_OK).threads);
        expect_layers(&run);
    }
    cr_assert_gt(strange.submits, 0);
    run_close(&run);
}

Test(session_executors, an_executor_that_calls_inside_submit)
{
    struct strange strange = {.at_once = true};
    struct hearth_executor executor = executor_of(&strange, 4);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 10; i++) {
        EXPECT_SIZE(1, run_parallel(&executor, HEARTH_OK).threads);
        expect_layers(&run);
    }
    cr_assert_gt(strange.submits, 0);
    run_close(&run);
}

Test(session_executors, an_executor_that_calls_after_the_run)
{
    struct strange strange = {0};
    struct hearth_executor executor = executor_of(&strange, 3);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    for (unsigned i = 1; i <= 10; i++) {
        EXPECT_SIZE(1, run_parallel(&executor, HEARTH_OK).threads);
        cr_assert_leq(strange.kept, 3);
        call_kept(&strange);
        expect_layers(&run);
        EXPECT_SIZE(i, layer_ops[3].calls);
    }
    run_close(&run);
}

static void call_all(void *strange)
{
    call_kept(strange);
}

/* Tasks of several runs that come when session, context, plan and service are gone. */
Test(session_executors, an_executor_that_calls_after_the_end_of_everything)
{
    static struct strange strange;
    struct hearth_executor executor = executor_of(&strange, 8);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 20; i++) {
        EXPECT_SIZE(1, run_parallel(&executor, HEARTH_OK).threads);
        expect_layers(&run);
    }
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    hearth_plan_unref(run.plan);
    hearth_service_unref(run.rig.service);
    on_thread(call_all, &strange);
    bank_close(&run.rig.bank);
}

Test(session_executors, the_caller_is_one_of_the_threads)
{
    for (uint32_t threads = 1; threads <= 5; threads++) {
        static struct strange strange;
        strange = (struct strange){0};
        struct hearth_executor executor = executor_of(&strange, threads);
        run_open(&run, layers());
        lend_ramp(run.context, "x");
        (void)run_parallel(&executor, HEARTH_OK);
        cr_assert_leq(strange.submits, threads - 1, "%u submits with %u threads", strange.submits,
                      threads);
        call_kept(&strange);
        run_close(&run);
    }
}

Test(session_executors, what_cannot_run_on_an_executor)
{
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    struct hearth_executor bad = HEARTH_EXECUTOR_INIT;
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    run_open(&run, layers());
    EXPECT(HEARTH_OK, hearth_pool_create(1, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    struct hearth_exec *arena = exec_of(run.rig.service);
    struct hearth_context *own =
        context_of(run.plan, CONTEXT_OPTIONS(.execution = hearth_exec_allocator(arena)));
    lend_ramp(own, "x");
    lend_ramp(run.context, "x");
    EXPECT(HEARTH_INVALID, hearth_session_run_on(run.session, own, &executor, &stats));
    EXPECT(HEARTH_INVALID, hearth_session_run_on(run.session, run.context, NULL, &stats));
    EXPECT(HEARTH_INVALID, hearth_session_run_on(run.session, run.context, &bad, &stats));
    bad = executor;
    bad.size += 8;
    EXPECT(HEARTH_INVALID, hearth_session_run_on(run.session, run.context, &bad, &stats));
    /* Nor may several threads use one of these at once. */
    struct hearth_simple *simple = NULL;
    EXPECT(HEARTH_OK, hearth_simple_create_on(run.rig.bank.backing, 64, &simple));
    struct hearth_allocator *unshared[] = {hearth_exec_allocator(arena),
                                           hearth_simple_allocator(simple)};
    for (unsigned i = 0; i < COUNT_OF(unshared); i++) {
        struct hearth_context *context = context_of(run.plan, CONTEXT_OPTIONS(.io = unshared[i]));
        lend_ramp(context, "x");
        EXPECT(HEARTH_INVALID, hearth_session_run_on(run.session, context, &executor, &stats));
        EXPECT(HEARTH_OK, hearth_session_run(run.session, context, &stats));
        EXPECT(HEARTH_OK, hearth_context_destroy(context));
    }
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    struct hearth_session *bare = session_of(run.plan, NULL);
    EXPECT(HEARTH_INVALID, hearth_session_run_on(bare, run.context, &executor, &stats));
    EXPECT(HEARTH_OK, hearth_session_destroy(bare));
    EXPECT(HEARTH_OK, hearth_context_destroy(own));
    (void)run_parallel(&executor, HEARTH_OK);
    expect_layers(&run);
    EXPECT(HEARTH_INVALID, hearth_pool_create(1, NULL));
    EXPECT(HEARTH_INVALID, hearth_pool_executor(NULL, &bad));
    EXPECT(HEARTH_INVALID, hearth_pool_executor(pool, NULL));
    EXPECT(HEARTH_OK, hearth_pool_destroy(NULL));
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}
