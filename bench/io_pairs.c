/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs: the threads live as long as the case. Each batch starts and ends at a barrier; its time
 * goes from the first thread's first operation to the last thread's last, so that the barriers and
 * the waking of threads do not count. A batch is long enough for every thread to be interrupted by
 * others where there are more threads than cores: else they would run one after the other.
 */
#include "io_cases.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Operations per thread in the first, cold batch. */
#define FIRST_COUNT ((size_t)100)
#define COUNT_MAX ((size_t)1 << 24)

struct pairs_run;

struct worker {
    struct pairs_run *pairs;
    pthread_t thread;
    cpu_set_t cpus;
    uint64_t start_ns;
    uint64_t end_ns;
};

/* Written by the main thread between the barriers only, and so without locks. */
struct pairs_run {
    const struct bench_io_run *run;
    void *pool;
    size_t count; /* operations per thread and batch */
    bool stop;
    pthread_barrier_t begin;
    pthread_barrier_t end;
    struct worker workers[BENCH_IO_THREADS_MAX];
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct pairs_run *pairs = worker->pairs;
    if (sched_setaffinity(0, sizeof(worker->cpus), &worker->cpus) != 0) {
        perror("bench: sched_setaffinity");
    }
    if (bench_io_subject.thread_begin != NULL) {
        bench_io_subject.thread_begin(pairs->pool);
    }
    for (;;) {
        pthread_barrier_wait(&pairs->begin);
        if (pairs->stop) {
            break;
        }
        worker->start_ns = bench_now_ns();
        bench_io_subject.loops[pairs->run->loop](pairs->pool, pairs->run->bytes, pairs->count);
        worker->end_ns = bench_now_ns();
        pthread_barrier_wait(&pairs->end);
    }
    if (bench_io_subject.thread_end != NULL) {
        bench_io_subject.thread_end();
    }
    return NULL;
}

static uint64_t time_batch(struct pairs_run *pairs)
{
    uint64_t start = UINT64_MAX;
    uint64_t end = 0;
    pthread_barrier_wait(&pairs->begin);
    pthread_barrier_wait(&pairs->end);
    for (unsigned i = 0; i < pairs->run->threads; i++) {
        const struct worker *worker = &pairs->workers[i];
        start = worker->start_ns < start ? worker->start_ns : start;
        end = worker->end_ns > end ? worker->end_ns : end;
    }
    return end - start;
}

static double sample_pairs(void *context)
{
    struct pairs_run *pairs = context;
    return (double)time_batch(pairs) / (double)(pairs->count * pairs->run->threads);
}

/* Choose the count so that a batch lasts about `wanted`; which also is the warm-up. */
static void calibrate(struct pairs_run *pairs, uint64_t wanted)
{
    pairs->count = FIRST_COUNT;
    time_batch(pairs);
    uint64_t elapsed = time_batch(pairs);
    while (elapsed < wanted / 8 && pairs->count < COUNT_MAX) {
        pairs->count *= 4;
        elapsed = time_batch(pairs);
    }
    double factor = (double)wanted / (double)elapsed;
    if (factor > 1) {
        pairs->count = (size_t)((double)pairs->count * factor);
    }
}

/* A core for each thread as long as there are enough, else all for all. */
static void choose_cpus(struct pairs_run *pairs, const cpu_set_t *usable)
{
    bool enough = pairs->run->threads <= (unsigned)CPU_COUNT(usable);
    for (unsigned i = 0; i < pairs->run->threads; i++) {
        pairs->workers[i].cpus = *usable;
        if (enough) {
            CPU_ZERO(&pairs->workers[i].cpus);
            CPU_SET((unsigned)bench_cpu_from_end(i), &pairs->workers[i].cpus);
        }
    }
}

static void start_workers(struct pairs_run *pairs)
{
    unsigned threads = pairs->run->threads;
    if (pthread_barrier_init(&pairs->begin, NULL, threads + 1) != 0 ||
        pthread_barrier_init(&pairs->end, NULL, threads + 1) != 0) {
        bench_die("pairs", "no barrier");
    }
    for (unsigned i = 0; i < threads; i++) {
        pairs->workers[i].pairs = pairs;
        if (pthread_create(&pairs->workers[i].thread, NULL, work, &pairs->workers[i]) != 0) {
            bench_die("pairs", "no thread");
        }
    }
}

static void stop_workers(struct pairs_run *pairs)
{
    pairs->stop = true;
    pthread_barrier_wait(&pairs->begin);
    for (unsigned i = 0; i < pairs->run->threads; i++) {
        pthread_join(pairs->workers[i].thread, NULL);
    }
    pthread_barrier_destroy(&pairs->begin);
    pthread_barrier_destroy(&pairs->end);
}

struct bench_figure bench_io_run_pairs(const struct bench_io_run *run)
{
    static struct pairs_run pairs; /* static: no allocation of the subject's */
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) {
        bench_die("pairs", "sched_getaffinity");
    }
    unsigned cpus = (unsigned)CPU_COUNT(&usable);
    pairs.run = run;
    choose_cpus(&pairs, &usable);
    /* May pin this thread, which only waits from here on. */
    pairs.pool = bench_io_subject.open(run->bytes, run->threads);
    start_workers(&pairs);
    uint64_t share = run->threads > cpus ? run->threads / cpus : 1;
    calibrate(&pairs, run->plan->batch_ns * share);
    struct bench_figure figure = bench_collect(run->plan, sample_pairs, &pairs);
    stop_workers(&pairs);
    bench_io_subject.close(pairs.pool);
    return figure;
}
