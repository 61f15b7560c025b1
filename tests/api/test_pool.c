/* SPDX-License-Identifier: Apache-2.0 */
/* The pthread pool and its executor. Races: stress_pool. */
#include "io_support.h"

#include <hearth/executor.h>

#include <malloc.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum { MANY = 10000 };

struct fixture {
    struct hearth_pool *pool;
    struct hearth_executor executor;
};

static struct fixture open_pool(uint32_t threads)
{
    struct fixture f;
    memset(&f, 0, sizeof f);
    EXPECT(HEARTH_OK, hearth_pool_create(threads, &f.pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(f.pool, &f.executor));
    return f;
}

static void submit(struct fixture *f, void (*fn)(void *), void *arg)
{
    EXPECT(HEARTH_OK, f->executor.submit(f->executor.pool, fn, arg));
}

static atomic_size_t ran;

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add_explicit(&ran, 1, memory_order_relaxed);
}

Test(pool, arguments_are_checked)
{
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_pool_create(1, NULL));
    EXPECT(HEARTH_INVALID, hearth_pool_create(UINT32_MAX, &pool));
    cr_assert_null(pool);
    EXPECT(HEARTH_OK, hearth_pool_destroy(NULL));
    EXPECT(HEARTH_INVALID, hearth_pool_executor(NULL, &executor));
    struct fixture f = open_pool(1);
    EXPECT(HEARTH_INVALID, hearth_pool_executor(f.pool, NULL));
    EXPECT(HEARTH_INVALID, f.executor.submit(NULL, count, NULL));
    EXPECT(HEARTH_INVALID, f.executor.submit(f.executor.pool, NULL, NULL));
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
}

/* Sanitizers have more address space than a limit could leave them. */
#if !defined(__SANITIZE_ADDRESS__)
Test(pool, threads_that_cannot_be_had)
{
    struct rlimit limit = {512 * MIB, 512 * MIB}; /* a stack is 8 MiB */
    struct hearth_pool *pool = NULL;
    EXPECT_SIZE(0, (size_t)setrlimit(RLIMIT_AS, &limit));
    EXPECT(HEARTH_NO_MEMORY, hearth_pool_create(1000, &pool)); /* and those that ran are joined */
    cr_assert_null(pool);
    struct fixture f = open_pool(2);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
}
#endif

Test(pool, the_executor_is_the_pools)
{
    struct fixture f = open_pool(3);
    EXPECT_SIZE(sizeof f.executor, f.executor.size);
    EXPECT_SIZE(4, f.executor.threads); /* and the caller of a run */
    EXPECT_SIZE(0, f.executor.reserved);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    f = open_pool(0);
    cr_assert_geq(f.executor.threads, 2);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
}

Test(pool, the_end_finishes_what_was_submitted)
{
    for (uint32_t threads = 1; threads <= 8; threads *= 2) {
        struct fixture f = open_pool(threads);
        atomic_store_explicit(&ran, 0, memory_order_relaxed);
        for (size_t i = 0; i < MANY; i++)
            submit(&f, count, NULL);
        EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
        EXPECT_SIZE(MANY, atomic_load_explicit(&ran, memory_order_relaxed));
    }
}

static size_t order[MANY], ordered;

static void note(void *arg)
{
    order[ordered++] = (size_t)(uintptr_t)arg;
}

Test(pool, first_in_first_out)
{
    struct fixture f = open_pool(1);
    for (uintptr_t i = 0; i < MANY; i++)
        submit(&f, note, (void *)i);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    EXPECT_SIZE(MANY, ordered);
    for (size_t i = 0; i < MANY; i++)
        EXPECT_SIZE(i, order[i]);
}

/* A gate that holds a thread until it is opened, and says that the thread is there. */
struct gate {
    sem_t there, open;
};

static void gate_init(struct gate *gate)
{
    (void)sem_init(&gate->there, 0, 0);
    (void)sem_init(&gate->open, 0, 0);
}

static void pass(void *arg)
{
    struct gate *gate = arg;
    (void)sem_post(&gate->there);
    (void)sem_wait(&gate->open);
}

Test(pool, as_many_at_a_time_as_there_are_threads)
{
    struct fixture f = open_pool(4);
    struct gate gate;
    gate_init(&gate);
    for (int i = 0; i < 4; i++)
        submit(&f, pass, &gate);
    for (int i = 0; i < 4; i++)
        (void)sem_wait(&gate.there); /* all four are inside */
    for (int i = 0; i < 4; i++)
        (void)sem_post(&gate.open);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
}

/* The ring is in the middle when it grows: what was at its end comes before what was at its start. */
Test(pool, a_ring_that_grows_keeps_the_order)
{
    struct fixture f = open_pool(1);
    struct gate gate;
    gate_init(&gate);
    ordered = 0;
    uintptr_t next = 0;
    for (int i = 0; i < 40; i++)
        submit(&f, note, (void *)next++);
    submit(&f, pass, &gate);
    (void)sem_wait(&gate.there);
    EXPECT_SIZE(40, ordered);
    while (next < 500)
        submit(&f, note, (void *)next++);
    (void)sem_post(&gate.open);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    EXPECT_SIZE(500, ordered);
    for (size_t i = 0; i < ordered; i++)
        EXPECT_SIZE(i, order[i]);
}

Test(pool, submitting_allocates_nothing_in_the_long_run)
{
    struct fixture f = open_pool(1);
    struct gate gate;
    gate_init(&gate);
    size_t in_use = 0;
    for (int round = 0; round < 20; round++) {
        submit(&f, pass, &gate);
        (void)sem_wait(&gate.there);
        for (int i = 0; i < 300; i++)
            submit(&f, count, NULL);
        if (round == 0)
            in_use = mallinfo2().uordblks;
        EXPECT_SIZE(in_use, mallinfo2().uordblks);
        (void)sem_post(&gate.open);
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
}

static enum hearth_status own_answer;

static void destroy_it(void *arg)
{
    own_answer = hearth_pool_destroy(arg);
}

Test(pool, its_own_threads_cannot_end_it)
{
    struct fixture f = open_pool(2), other = open_pool(1);
    submit(&f, destroy_it, f.pool);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    EXPECT(HEARTH_BUSY, own_answer);
    f = open_pool(1);
    submit(&f, destroy_it, other.pool); /* those of another pool can */
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    EXPECT(HEARTH_OK, own_answer);
}

struct chain {
    struct fixture *f;
    int left;
};

static void go_on(void *arg)
{
    struct chain *chain = arg;
    if (chain->left-- > 0)
        submit(chain->f, go_on, chain);
}

Test(pool, tasks_may_submit_also_while_it_ends)
{
    for (uint32_t threads = 1; threads <= 2; threads++) {
        struct fixture f = open_pool(threads);
        struct chain chain = {&f, MANY};
        submit(&f, go_on, &chain);
        EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
        EXPECT_SIZE(0, (size_t)(chain.left + 1));
    }
}

static sigset_t blocked;

static void look_at_signals(void *arg)
{
    (void)arg;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &blocked);
}

Test(pool, signals_are_blocked_in_its_threads_only)
{
    sigset_t before, after;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    struct fixture f = open_pool(1);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    submit(&f, look_at_signals, NULL);
    EXPECT(HEARTH_OK, hearth_pool_destroy(f.pool));
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPROF};
    for (size_t i = 0; i < COUNT_OF(signals); i++) {
        cr_assert_eq(sigismember(&blocked, signals[i]), 1);
        cr_assert_eq(sigismember(&before, signals[i]), sigismember(&after, signals[i]));
    }
}
