/* SPDX-License-Identifier: Apache-2.0 */
/* Storage for parallel runs ahead of need, and what parallel runs share with serial ones.
 * Covered: after a prefill runs on a pool obtain nothing; serial runs on a new thread; calls that do not come
 * in time, or come when everything is over; wrong arguments; bound outputs and reuse in place on a pool. */
#include "run_support.h"

static struct run run;

TestSuite(session_prefill, .timeout = 120);

static struct hearth_pool *pool;
static struct hearth_executor executor;

static void pool_open(uint32_t threads)
{
    executor = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    EXPECT(HEARTH_OK, hearth_pool_create(threads, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
}

static struct hearth_run_stats run_parallel(void)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    enum hearth_status status = hearth_session_run_on(run.session, run.context, &executor, &stats);
    cr_assert_eq(status, HEARTH_OK, "%s: %s", hearth_status_name(status),
                 hearth_session_error(run.context));
    return stats;
}

static void steady_on(uint32_t threads)
{
    size_t filled_threads = 0;
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    pool_open(threads);
    for (unsigned i = 0; i < 3; i++)
        (void)run_parallel();
    EXPECT(HEARTH_OK,
           hearth_session_prefill(run.session, &executor, in_ms(20000), &filled_threads));
    EXPECT_SIZE(threads + 1, filled_threads);
    uint64_t acquires = bank_acquires(&run.rig.bank), releases = run.rig.bank.releases;
    for (unsigned i = 0; i < 300; i++) {
        struct hearth_run_stats stats = run_parallel();
        EXPECT_SIZE(0, stats.backing_acquires + stats.backing_releases);
        log_clear(&run.log);
    }
    expect_layers(&run);
    EXPECT_SIZE(acquires, bank_acquires(&run.rig.bank));
    EXPECT_SIZE(releases, run.rig.bank.releases);
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}

Test(session_prefill, runs_on_a_pool_of_2_obtain_nothing)
{
    steady_on(2);
}

Test(session_prefill, runs_on_a_pool_of_8_obtain_nothing)
{
    steady_on(8);
}

static void run_here(void *unused)
{
    (void)unused;
    size_t filled_threads = 0;
    EXPECT(HEARTH_OK, hearth_session_prefill(run.session, NULL, 0, &filled_threads));
    EXPECT_SIZE(1, filled_threads);
    for (unsigned i = 0; i < 10; i++)
        EXPECT_SIZE(0, run_once(&run).backing_acquires);
}

Test(session_prefill, a_new_thread_obtains_nothing_in_serial_runs)
{
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    (void)run_once(&run);
    on_thread(run_here, NULL);
    run_close(&run);
}

/* Calls that are kept. */
static struct {
    unsigned count;
    void (*fn[64])(void *);
    void *arg[64];
} kept;

static enum hearth_status keep_call(void *unused, void (*fn)(void *), void *arg)
{
    (void)unused;
    cr_assert_lt(kept.count, COUNT_OF(kept.fn));
    kept.fn[kept.count] = fn;
    kept.arg[kept.count++] = arg;
    return HEARTH_OK;
}

static enum hearth_status refuse(void *unused, void (*fn)(void *), void *arg)
{
    (void)unused;
    (void)fn;
    (void)arg;
    return HEARTH_BUSY;
}

static void call_kept(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < kept.count; i++)
        kept.fn[i](kept.arg[i]);
}

Test(session_prefill, calls_may_come_too_late)
{
    size_t filled_threads = 0;
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    (void)run_once(&run);
    executor = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    executor.submit = keep_call;
    executor.threads = 2;
    uint64_t before = now_ns();
    EXPECT(HEARTH_TIMEOUT,
           hearth_session_prefill(run.session, &executor, in_ms(50), &filled_threads));
    cr_assert_geq(now_ns() - before, 50 * 1000000u);
    EXPECT_SIZE(1, filled_threads);
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    hearth_plan_unref(run.plan);
    hearth_service_unref(run.rig.service);
    on_thread(call_kept, NULL);
    bank_close(&run.rig.bank);
}

Test(session_prefill, wrong_arguments)
{
    run_open(&run, layers());
    struct hearth_session *bare = session_of(run.plan, NULL);
    EXPECT(HEARTH_INVALID, hearth_session_prefill(bare, NULL, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_session_prefill(NULL, NULL, 0, NULL));
    EXPECT(HEARTH_OK, hearth_session_prefill(run.session, NULL, 0, NULL)); /* before any run */
    executor = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_session_prefill(run.session, &executor, in_ms(50), NULL));
    executor.submit = refuse;
    executor.threads = 3;
    size_t filled_threads = 0;
    enum hearth_status status =
        hearth_session_prefill(run.session, &executor, in_ms(50), &filled_threads);
    cr_assert(status == HEARTH_OK || status == HEARTH_TIMEOUT);
    EXPECT_SIZE(1, filled_threads); /* what was refused does not come */
    EXPECT(HEARTH_OK, hearth_session_destroy(bare));
    run_close(&run);
}

Test(session_prefill, bound_outputs_of_runs_on_a_pool)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    pool_open(4);
    make_u32(hearth_io_allocator(run.rig.io), ELEMENTS, 0, &tensor);
    const void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "v13", &tensor));
    for (unsigned i = 0; i < 100; i++) {
        EXPECT_SIZE(0, run_parallel().payload_copies);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "v13")), data);
        expect_layers(&run);
        log_clear(&run.log);
    }
    struct hearth_lease lease = export_of(run.context, "v13");
    cr_assert_eq(hearth_lease_data(lease), data);
    (void)run_parallel();
    expect_u32(data, sizeof ramp, ELEMENTS, 15, 8);
    cr_assert_neq(hearth_tensor_data(value_of(run.context, "v13")), data);
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}

/* In storage of whatever thread made the input, as long as the size is the same. */
static enum hearth_status increment(struct hearth_context *context, void *user)
{
    struct hearth_tensor *made = NULL;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    (void)user;
    cr_assert(hearth_context_can_reuse(context, 0, 0));
    EXPECT(HEARTH_OK,
           hearth_context_make_output_in_place(context, 0, 0, HEARTH_DTYPE_UINT32, &shape, &made));
    for (size_t i = 0; i < ELEMENTS; i++)
        ((uint32_t *)hearth_tensor_data(made))[i]++;
    return HEARTH_OK;
}

#define INCREMENT(inputs, outputs) NODE("increment", inputs, outputs, .kernel = increment)

Test(session_prefill, reuse_in_place_on_a_pool)
{
    run_open(&run, PLAN("x", "y", OP("a", "x", "a0", NULL), OP("b", "x", "b0", NULL),
                        INCREMENT("a0", "a1"), INCREMENT("b0", "b1"), INCREMENT("a1", "a2"),
                        INCREMENT("b1", "b2"), OP("y", "a2 b2", "y", NULL)));
    lend_ramp(run.context, "x");
    pool_open(3);
    for (unsigned i = 0; i < 300; i++) {
        struct hearth_run_stats stats = run_parallel();
        EXPECT_SIZE(4, stats.reused_in_place);
        expect_value(run.context, "y", ELEMENTS, 7, 2);
        EXPECT_SIZE(sizeof ramp, hearth_service_live_bytes(run.rig.service));
        log_clear(&run.log);
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}
