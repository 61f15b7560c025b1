/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with more than one thing going on.
 * Covered: runs inside of runs and the lanes kept for them; pools and runs in forked children; prefills whose calls
 * come inside of submit, on the caller's thread, or each on a thread of its own. */
#include "executor_support.h"

#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static struct run run;

TestSuite(session_lanes, .timeout = 120);

/* A kernel that runs its session's plan once more, on another context, until `NESTED` runs are going on. */
enum { NESTED = 4 };

static struct hearth_context *contexts[NESTED];
static struct hearth_session *nested_session;
static unsigned going_on;

static enum hearth_status run_another(struct hearth_context *context, void *user)
{
    struct hearth_executor executor = refusing_executor(4);
    if (going_on < NESTED) {
        struct hearth_context *next = contexts[going_on++];
        lend_ramp(next, "x");
        EXPECT(HEARTH_OK, hearth_session_run_on(nested_session, next, &executor, NULL));
        going_on--;
        expect_value(next, "y", ELEMENTS, 1, 1);
    }
    return run_op(context, user);
}

static void run_nested(struct hearth_session *session)
{
    struct hearth_executor executor = refusing_executor(4);
    nested_session = session;
    going_on = 1;
    lend_ramp(contexts[0], "x");
    EXPECT(HEARTH_OK, hearth_session_run_on(session, contexts[0], &executor, NULL));
    expect_value(contexts[0], "y", ELEMENTS, 1, 1);
}

static struct hearth_session *session_for(uint32_t concurrent_runs)
{
    struct hearth_session_options options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_session *session = NULL;
    options.plan = run.plan;
    options.service = run.rig.service;
    options.concurrent_runs = concurrent_runs;
    EXPECT(HEARTH_OK, hearth_session_create(&options, &session));
    return session;
}

/* Bytes that the session takes from the C heap for one run, and then for as many as nest. */
static void expect_heap(uint32_t concurrent_runs, bool enough)
{
    struct hearth_executor executor = refusing_executor(4);
    struct hearth_session *session = session_for(concurrent_runs);
    nested_session = session;
    going_on = NESTED; /* it runs alone */
    lend_ramp(contexts[0], "x");
    EXPECT(HEARTH_OK, hearth_session_run_on(session, contexts[0], &executor, NULL));
    size_t heap = heap_bytes();
    run_nested(session);
    if (enough || heap == 0)
        EXPECT_SIZE(heap, heap_bytes());
    else
        cr_assert_gt(heap_bytes(), heap);
    heap = heap_bytes(); /* what was more is remembered */
    for (unsigned i = 0; i < 10; i++)
        run_nested(session);
    EXPECT_SIZE(heap, heap_bytes());
    EXPECT(HEARTH_OK, hearth_session_destroy(session));
}

Test(session_lanes, runs_inside_of_runs)
{
    run_open(&run, PLAN("x", "y", NODE("node", "x", "y", .kernel = run_another)));
    for (unsigned i = 0; i < NESTED; i++)
        contexts[i] = context_of(run.plan, CONTEXT_OPTIONS(.flags = 0));
    for (unsigned i = 0; i < 4; i++) /* the arenas have what they need */
        run_nested(run.session);
    expect_heap(NESTED, true);
    expect_heap(NESTED + 1, true);
    expect_heap(0, false);
    expect_heap(1, false);
    expect_heap(NESTED - 1, false);
    for (unsigned i = 0; i < NESTED; i++)
        EXPECT(HEARTH_OK, hearth_context_destroy(contexts[i]));
    run_close(&run);
}

/* In a child: the parent's pool has no threads, and its runs go on without them. */
static struct hearth_pool *pool;
static struct hearth_executor executor;

static void nothing(void *unused)
{
    (void)unused;
}

static bool is_layers(void)
{
    const struct hearth_tensor *value = NULL;
    if (hearth_context_get(run.context, "v12", &value) != HEARTH_OK)
        return false;
    const uint32_t *data = hearth_tensor_data(value);
    return data[0] == 15 && data[1] == 23;
}

/* 0, or the number of what went wrong: a test's assertion must not fail in a child. */
static int in_child(unsigned generations)
{
    alarm(60);
    if (executor.submit(executor.pool, nothing, NULL) != HEARTH_BUSY)
        return 1;
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
        if (hearth_session_run_on(run.session, run.context, &executor, &stats) != HEARTH_OK)
            return 2;
        if (stats.threads != 1 || stats.nodes != LAYER_NODES || !is_layers())
            return 3;
    }
    struct hearth_pool *own = NULL;
    struct hearth_executor mine = HEARTH_EXECUTOR_INIT;
    if (hearth_pool_create(2, &own) != HEARTH_OK || hearth_pool_executor(own, &mine) != HEARTH_OK ||
        hearth_session_run_on(run.session, run.context, &mine, NULL) != HEARTH_OK || !is_layers())
        return 4;
    if (hearth_pool_destroy(own) != HEARTH_OK)
        return 5;
    if (generations > 1) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(generations - 1));
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
            return 6;
        if (WEXITSTATUS(status) != 0)
            return 10 + WEXITSTATUS(status);
    }
    return hearth_pool_destroy(pool) == HEARTH_OK ? 0 : 7;
}

Test(session_lanes, forked_children)
{
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    EXPECT(HEARTH_OK, hearth_pool_create(4, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    for (unsigned i = 0; i < 5; i++) {
        int status = 0;
        (void)run_on(&run, &executor);
        pid_t child = fork();
        if (child == 0)
            _exit(in_child(2));
        cr_assert_gt(child, 0);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status), "a child ended by signal %d", WTERMSIG(status));
        EXPECT_SIZE(0, (size_t)WEXITSTATUS(status));
        (void)run_on(&run, &executor); /* and the parent's pool goes on */
        expect_layers(&run);
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}

/* Prefills whose calls come inside of submit do not wait for themselves, whatever the deadline. */
Test(session_lanes, prefills_inside_of_submit)
{
    struct hearth_executor calls = inline_executor(5), refuses = refusing_executor(5);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    (void)run_once(&run);
    for (unsigned i = 0; i < 3; i++) {
        size_t threads = 99;
        EXPECT(HEARTH_OK, hearth_session_prefill(run.session, &calls, UINT64_MAX, &threads));
        EXPECT_SIZE(1, threads);
        threads = 99;
        EXPECT(HEARTH_OK, hearth_session_prefill(run.session, &refuses, UINT64_MAX, &threads));
        EXPECT_SIZE(1, threads);
        threads = 99;
        EXPECT(HEARTH_OK, hearth_session_prefill(run.session, NULL, 0, &threads));
        EXPECT_SIZE(1, threads);
    }
    struct hearth_executor wrong[] = {calls, calls, calls};
    wrong[0].reserved = 1;
    wrong[1].size--;
    wrong[2].submit = NULL;
    for (unsigned i = 0; i < COUNT_OF(wrong); i++) {
        size_t threads = 99;
        EXPECT(HEARTH_INVALID,
               hearth_session_prefill(run.session, &wrong[i], UINT64_MAX, &threads));
        EXPECT_SIZE(0, threads);
    }
    size_t threads = 99;
    struct hearth_session *bare = session_of(run.plan, NULL);
    EXPECT(HEARTH_INVALID, hearth_session_prefill(bare, &calls, UINT64_MAX, &threads));
    EXPECT_SIZE(0, threads);
    EXPECT(HEARTH_OK, hearth_session_destroy(bare));
    run_close(&run);
}

/* A pool with one thread that is busy until all calls were submitted; each call is noted by its thread. */
enum { CALLS = 3 };

static sem_t all_submitted;
static atomic_uint submitted, noted;
static pthread_t noted_threads[CALLS];
static struct call calls_of_pool[CALLS];

static void be_busy(void *unused)
{
    (void)unused;
    while (sem_wait(&all_submitted) != 0)
        ;
}

static void note_and_call(void *call)
{
    noted_threads[atomic_fetch_add(&noted, 1)] = pthread_self();
    ((struct call *)call)->fn(((struct call *)call)->arg);
}

static enum hearth_status submit_noting(void *unused, void (*fn)(void *), void *arg)
{
    (void)unused;
    unsigned number = atomic_fetch_add(&submitted, 1);
    cr_assert_lt(number, CALLS);
    calls_of_pool[number] = (struct call){fn, arg};
    EXPECT(HEARTH_OK, executor.submit(executor.pool, note_and_call, &calls_of_pool[number]));
    if (number + 1 == CALLS)
        sem_post(&all_submitted);
    return HEARTH_OK;
}

Test(session_lanes, each_call_of_a_prefill_keeps_its_thread)
{
    for (unsigned i = 0; i < 20; i++) {
        struct hearth_executor noting = refusing_executor(CALLS + 1);
        size_t threads = 0;
        noting.submit = submit_noting;
        atomic_store(&submitted, 0);
        atomic_store(&noted, 0);
        sem_init(&all_submitted, 0, 0);
        run_open(&run, layers()); /* of which nothing is known: the calls have nothing to fill */
        EXPECT(HEARTH_OK, hearth_pool_create(CALLS, &pool));
        EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
        EXPECT(HEARTH_OK, executor.submit(executor.pool, be_busy, NULL));
        EXPECT(HEARTH_OK, hearth_session_prefill(run.session, &noting, in_ms(60000), &threads));
        EXPECT_SIZE(CALLS + 1, threads);
        EXPECT_SIZE(CALLS, noted);
        for (unsigned a = 0; a < CALLS; a++)
            for (unsigned b = 0; b < a; b++)
                cr_assert(!pthread_equal(noted_threads[a], noted_threads[b]));
        EXPECT_SIZE(CALLS + 1, hearth_service_thread_count(run.rig.service));
        EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
        run_close(&run);
        sem_destroy(&all_submitted);
    }
}
