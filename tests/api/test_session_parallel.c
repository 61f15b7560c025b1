/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on the pool.
 * Covered: pools of 1, 2 and 8 threads; failures; runs from a pool's own thread; remote deaths. Not covered:
 * other executors (test_session_executors.c), random graphs (test_session_random.c), races (stress/). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(session_parallel, .timeout = 240);

struct pool {
    struct hearth_pool *pool;
    struct hearth_executor executor;
};

static void pool_open(struct pool *pool, uint32_t threads)
{
    *pool = (struct pool){.executor = HEARTH_EXECUTOR_INIT};
    EXPECT(HEARTH_OK, hearth_pool_create(threads, &pool->pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool->pool, &pool->executor));
    EXPECT_SIZE(threads + 1, pool->executor.threads); /* and the caller */
}

static void pool_close(struct pool *pool)
{
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool->pool));
}

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

static void on_pool(uint32_t threads)
{
    struct pool pool;
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    pool_open(&pool, threads);
    for (unsigned i = 1; i <= 100; i++) {
        log_clear(&run.log);
        struct hearth_run_stats stats = run_parallel(&pool.executor, HEARTH_OK);
        expect_layers(&run);
        EXPECT_SIZE(i, stats.runs);
        EXPECT_SIZE(LAYER_NODES, stats.nodes);
        EXPECT_SIZE(LAYER_NODES, stats.tensors);
        EXPECT_SIZE(LAYER_NODES - 1, stats.temporaries);
        EXPECT_SIZE(LAYER_NODES - LAYER_OUTPUTS, stats.released);
        EXPECT_SIZE(0, stats.payload_copies + stats.taken);
        cr_assert_geq(stats.threads, 1);
        cr_assert_leq(stats.threads, threads + 1);
        if (stats.threads == 1)
            EXPECT_SIZE(0, stats.remote_deaths);
        cr_assert_leq(stats.remote_deaths, stats.released);
        EXPECT_SIZE(LAYER_NODES, log_count(&run.log, HEARTH_EVENT_NODE_BEGIN));
        EXPECT_SIZE(LAYER_NODES, log_count(&run.log, HEARTH_EVENT_NODE_END));
        EXPECT_SIZE(LAYER_NODES - LAYER_OUTPUTS, log_count(&run.log, HEARTH_EVENT_RELEASED));
        for (size_t j = 0; j < run.log.count; j++)
            cr_assert_leq(run.log.events[j].thread, threads);
        EXPECT_SIZE(i, layer_ops[0].calls);
        EXPECT_SIZE(i, layer_ops[LAYER_NODES - 1].calls);
    }
    pool_close(&pool);
    run_close(&run);
}

Test(session_parallel, a_pool_of_1)
{
    on_pool(1);
}

Test(session_parallel, a_pool_of_2)
{
    on_pool(2);
}

Test(session_parallel, a_pool_of_8)
{
    on_pool(8);
}

static atomic_uint begun;
static atomic_bool failed;
static atomic_uint begun_late; /* that are after the failing one in the graph */

static enum hearth_status counted(struct hearth_context *context, void *user)
{
    atomic_fetch_add(&begun, 1);
    return run_op(context, user);
}

static enum hearth_status failing(struct hearth_context *context, void *user)
{
    (void)context;
    atomic_store(&failed, true);
    return *(enum hearth_status *)user;
}

static enum hearth_status never(struct hearth_context *context, void *user)
{
    atomic_fetch_add(&begun_late, 1);
    return run_op(context, user);
}

static void fail_on(const struct hearth_executor *executor)
{
    static enum hearth_status answer = HEARTH_TIMEOUT;
    run_open(&run,
             PLAN("x", "y z", NODE("a", "x", "a", .kernel = counted),
                  NODE("b", "x", "b", .kernel = counted),
                  NODE("bad", "a b", "c", .kernel = failing, .user = &answer),
                  NODE("y", "c", "y", .kernel = never), NODE("d", "b", "d", .kernel = counted),
                  NODE("z", "d c", "z", .kernel = never)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 50; i++) {
        struct hearth_run_stats stats = run_parallel(executor, HEARTH_TIMEOUT);
        EXPECT_SIZE(0, atomic_load(&begun_late));
        cr_assert_geq(stats.nodes, 3);
        cr_assert_leq(stats.nodes, 4);
        cr_assert_not_null(strstr(hearth_session_error(run.context), "bad"));
        expect_names(run.context, "x");
        EXPECT_SIZE(0, hearth_service_live_bytes(run.rig.service));
    }
    run_close(&run);
}

Test(session_parallel, a_failure_ends_the_run)
{
    struct pool pool;
    pool_open(&pool, 2);
    fail_on(&pool.executor);
    pool_close(&pool);
    pool_open(&pool, 8);
    fail_on(&pool.executor);
    pool_close(&pool);
}

/* The two nodes meet, so that both run on threads of their own; one makes what the other one's thread frees. */
static pthread_barrier_t meeting;

static enum hearth_status meet(struct hearth_context *context, void *user)
{
    enum hearth_status status = run_op(context, user);
    pthread_barrier_wait(&meeting);
    return status;
}

Test(session_parallel, values_may_die_on_another_thread)
{
    static struct op a = {.count = {1000}}, b = {.count = {2000}}, y = {.count = {20000}};
    struct pool pool;
    uint64_t remote = 0;
    pthread_barrier_init(&meeting, NULL, 2);
    run_open(&run, PLAN("x", "y", NODE("a", "x", "a", .kernel = meet, .user = &a),
                        NODE("b", "x", "b", .kernel = meet, .user = &b), OP("y", "a b", "y", &y)));
    lend_ramp(run.context, "x");
    pool_open(&pool, 2); /* the caller is one of the two */
    for (unsigned i = 0; i < 200; i++) {
        struct hearth_run_stats stats = run_parallel(&pool.executor, HEARTH_OK);
        EXPECT_SIZE(2, stats.threads);
        EXPECT_SIZE(1, stats.remote_deaths); /* y's thread made one of the two */
        EXPECT_SIZE(2, stats.released);
        cr_assert_neq(a.out[0], b.out[0]);
        remote += stats.remote_deaths;
        EXPECT_SIZE(80000, hearth_service_live_bytes(run.rig.service));
    }
    EXPECT_SIZE(200, remote);
    /* They come back and are reused: one of each for each of the three threads, and the output. */
    cr_assert_leq(bank_acquires(&run.rig.bank), 3 * 2 + 2);
    pool_close(&pool);
    run_close(&run);
    pthread_barrier_destroy(&meeting);
}

static struct pool shared_pool;
static pthread_barrier_t finished;

static void run_inside(void *unused)
{
    (void)unused;
    (void)run_parallel(&shared_pool.executor, HEARTH_OK);
    EXPECT(HEARTH_BUSY, hearth_pool_destroy(shared_pool.pool));
    pthread_barrier_wait(&finished);
}

static void from_a_pool_thread(uint32_t threads)
{
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    pool_open(&shared_pool, threads);
    pthread_barrier_init(&finished, NULL, 2);
    for (unsigned i = 0; i < 20; i++) {
        EXPECT(HEARTH_OK, shared_pool.executor.submit(shared_pool.executor.pool, run_inside, NULL));
        pthread_barrier_wait(&finished);
        expect_layers(&run);
    }
    pool_close(&shared_pool);
    pthread_barrier_destroy(&finished);
    run_close(&run);
}

Test(session_parallel, a_run_from_a_thread_of_the_pool)
{
    from_a_pool_thread(1);
    from_a_pool_thread(4);
}
