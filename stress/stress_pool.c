/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pthread pool against many submitters.
 *
 * In each round a pool of one to four threads is made, all threads submit tasks to it at the same time,
 * some of which submit another, and the pool is ended, without waiting, once everybody has submitted.
 *
 * Oracle: every submit is OK; when the pool has ended each task ran exactly once, and saw what its submitter
 * wrote before; on a pool of one thread those of one submitter ran in order.
 */
#include "harness.h"

#include <hearth/executor.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define THREADS_MAX 64
#define TASKS 300
#define SMOKE_ROUNDS 120

struct task {
    struct submitter *from;
    uint64_t value;  /* written by the submitter, plain */
    uint64_t result; /* written by the task, plain */
    unsigned runs;   /* written by the task */
    bool again;      /* submits its twin */
};

struct submitter {
    struct task tasks[TASKS];
    struct task twins[TASKS];
    unsigned number;
    _Atomic(unsigned) next; /* on a pool of one thread: the task that comes next */
    uint64_t random;
};

static struct stress_options options;
static pthread_barrier_t barrier;
static struct submitter submitters[THREADS_MAX];
static struct hearth_executor executor;
static bool finished; /* written between two barriers */

static void run(void *argument)
{
    struct task *task = argument;
    struct submitter *from = task->from;
    bool twin = task < from->tasks || task >= from->tasks + TASKS;
    task->runs++;
    task->result = task->value * 3;
    if (executor.threads == 1 && !twin) {
        unsigned number = (unsigned)(task - from->tasks);
        if (atomic_exchange_explicit(&from->next, number + 1, memory_order_relaxed) != number)
            stress_violation("task %u of submitter %u is out of order", number, from->number);
    }
    if (task->again) {
        struct task *next = &from->twins[task - from->tasks];
        next->value = task->result;
        stress_must(executor.submit(executor.pool, run, next), "submit from a task");
    }
}

static void submit_all(struct submitter *submitter)
{
    atomic_store_explicit(&submitter->next, 0, memory_order_relaxed);
    for (unsigned i = 0; i < TASKS; i++) {
        uint64_t value = stress_next(&submitter->random);
        submitter->tasks[i] = (struct task){submitter, value, 0, 0, value % 4 == 0};
        submitter->twins[i] = (struct task){submitter, 0, 0, 0, false};
        stress_must(executor.submit(executor.pool, run, &submitter->tasks[i]), "submit");
    }
}

static void check_all(const struct submitter *submitter)
{
    for (unsigned i = 0; i < TASKS; i++) {
        const struct task *task = &submitter->tasks[i], *twin = &submitter->twins[i];
        if (task->runs != 1 || task->result != task->value * 3)
            stress_violation("task %u of submitter %u ran %u times", i, submitter->number,
                             task->runs);
        if (twin->runs != task->again || twin->result != twin->value * 3)
            stress_violation("twin %u of submitter %u ran %u times", i, submitter->number,
                             twin->runs);
    }
}

static void *submit_some(void *argument)
{
    for (;;) {
        (void)pthread_barrier_wait(&barrier);
        if (finished)
            return NULL;
        submit_all(argument);
        (void)pthread_barrier_wait(&barrier);
    }
}

static void one_round(uint64_t *random)
{
    struct hearth_pool *pool;
    stress_must(hearth_pool_create((uint32_t)(1 + stress_next(random) % 4), &pool), "create");
    stress_must(hearth_pool_executor(pool, &executor), "executor");
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier); /* all have submitted */
    stress_must(hearth_pool_destroy(pool), "destroy");
    for (unsigned i = 0; i < options.threads; i++)
        check_all(&submitters[i]);
}

int main(int argc, char **argv)
{
    static pthread_t threads[THREADS_MAX];
    uint64_t rounds = 0;
    char counts[96];
    options = stress_parse(argc, argv, "stress_pool", 3);
    if (options.threads > THREADS_MAX)
        options.threads = THREADS_MAX;
    uint64_t random = stress_seed(&options, options.threads);
    (void)pthread_barrier_init(&barrier, NULL, options.threads + 1);
    for (unsigned i = 0; i < options.threads; i++) {
        submitters[i].number = i;
        submitters[i].random = stress_seed(&options, i);
        if (pthread_create(&threads[i], NULL, submit_some, &submitters[i]) != 0)
            stress_must(HEARTH_NO_MEMORY, "pthread_create");
    }
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(&random);
    finished = true;
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < options.threads; i++)
        (void)pthread_join(threads[i], NULL);
    (void)snprintf(counts, sizeof counts, "%" PRIu64 " rounds, %" PRIu64 " tasks", rounds,
                   rounds * options.threads * TASKS);
    return stress_verdict("stress_pool", &options, counts);
}
