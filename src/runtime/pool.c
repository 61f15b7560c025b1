/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small pthread pool: one queue, first in, first out, behind one mutex. The queue is a ring that
 * doubles when it is full, so submitting allocates nothing once it has the room the program needs.
 */
#include <hearth/executor.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 4096u
#define ROOM_FIRST ((size_t)64) /* a power of two */

struct task {
    void (*fn)(void *arg);
    void *arg;
};

struct hearth_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* something was submitted, or the pool ends */
    /* Guarded by the lock. */
    struct task *ring;
    size_t room; /* a power of two */
    size_t head; /* taken so far; both counts only grow, and may wrap around */
    size_t tail; /* submitted so far */
    bool ending;
    /* The creator's, and what ends the pool. */
    uint64_t forks; /* of the process when it was made: in a forked child there are no threads */
    uint32_t count;
    pthread_t threads[];
};

/* Changes in forked children only, before they have a second thread. */
static uint64_t forks;

static void count_fork(void)
{
    forks++;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

/* The pool whose thread this is. */
static _Thread_local const struct hearth_pool *own_pool;

static void *work(void *argument)
{
    struct hearth_pool *pool = argument;
    own_pool = pool;
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->head == pool->tail && !pool->ending)
            (void)pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->head == pool->tail)
            break;
        struct task task = pool->ring[pool->head++ & (pool->room - 1)];
        (void)pthread_mutex_unlock(&pool->lock);
        task.fn(task.arg);
        (void)pthread_mutex_lock(&pool->lock);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Under the lock: twice the room. */
static bool grow(struct hearth_pool *pool)
{
    size_t room = pool->room * 2;
    struct task *ring = room > SIZE_MAX / sizeof *ring ? NULL : malloc(room * sizeof *ring);
    if (ring == NULL)
        return false;
    for (size_t i = pool->head; i != pool->tail; i++)
        ring[i & (room - 1)] = pool->ring[i & (pool->room - 1)];
    struct task *old = pool->ring;
    pool->ring = ring;
    pool->room = room;
    free(old);
    return true;
}

static enum hearth_status submit(void *context, void (*fn)(void *arg), void *arg)
{
    struct hearth_pool *pool = context;
    if (pool == NULL || fn == NULL)
        return HEARTH_INVALID;
    if (pool->forks != forks)
        return HEARTH_BUSY; /* nobody would come, and the lock may be held for ever */
    enum hearth_status status = HEARTH_OK;
    (void)pthread_mutex_lock(&pool->lock);
    if (pool->tail - pool->head == pool->room && !grow(pool)) {
        status = HEARTH_NO_MEMORY;
    } else {
        pool->ring[pool->tail++ & (pool->room - 1)] = (struct task){fn, arg};
        /* Before the lock is given up: the task may be what the pool's end waits for. */
        (void)pthread_cond_signal(&pool->wake);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return status;
}

static uint32_t processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (uint32_t)CPU_COUNT(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more of them than the set can hold */
    return online < 1 ? 1 : (uint32_t)online;
}

/* Start the threads. Signals are blocked in them: they are for the program's own threads. */
static bool start(struct hearth_pool *pool, uint32_t threads)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->count < threads &&
           pthread_create(&pool->threads[pool->count], NULL, work, pool) == 0)
        pool->count++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool->count == threads;
}

/* Whatever is there of a pool. */
static void end(struct hearth_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
    for (uint32_t i = 0; i < pool->count; i++)
        (void)pthread_join(pool->threads[i], NULL);
    (void)pthread_cond_destroy(&pool->wake);
    (void)pthread_mutex_destroy(&pool->lock);
    free(pool->ring);
    free(pool);
}

enum hearth_status hearth_pool_create(uint32_t threads, struct hearth_pool **pool)
{
    if (pool == NULL || threads > THREADS_MAX)
        return HEARTH_INVALID;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
    if (threads == 0)
        threads = processors();
    struct hearth_pool *made = calloc(1, sizeof *made + threads * sizeof made->threads[0]);
    struct task *ring = malloc(ROOM_FIRST * sizeof *ring);
    if (made == NULL || ring == NULL) {
        free(made);
        free(ring);
        return HEARTH_NO_MEMORY;
    }
    (void)pthread_mutex_init(&made->lock, NULL); /* neither fails with the default attributes */
    (void)pthread_cond_init(&made->wake, NULL);
    made->ring = ring;
    made->room = ROOM_FIRST;
    made->forks = forks;
    if (!start(made, threads)) {
        end(made);
        return HEARTH_NO_MEMORY;
    }
    *pool = made;
    return HEARTH_OK;
}

enum hearth_status hearth_pool_destroy(struct hearth_pool *pool)
{
    if (pool == NULL)
        return HEARTH_OK;
    if (pool->forks != forks) {
        free(pool->ring);
        free(pool);
        return HEARTH_OK;
    }
    if (own_pool == pool)
        return HEARTH_BUSY;
    end(pool);
    return HEARTH_OK;
}

enum hearth_status hearth_pool_executor(struct hearth_pool *pool, struct hearth_executor *executor)
{
    if (pool == NULL || executor == NULL)
        return HEARTH_INVALID;
    *executor = (struct hearth_executor)HEARTH_EXECUTOR_INIT;
    executor->submit = submit;
    executor->pool = pool;
    executor->threads = pool->count + 1; /* and who runs on it */
    return HEARTH_OK;
}
