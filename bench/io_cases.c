/* SPDX-License-Identifier: Apache-2.0 */
#include "io_cases.h"

#include <pthread.h>

#define KIB ((size_t)1 << 10)
/* Buffers in a batch of cross_thread: many times round the ring. */
#define CROSS_COUNT ((size_t)4096)

const size_t bench_io_sizes[] = {4 * KIB, 64 * KIB, 1024 * KIB, 0};

struct single_run {
    void (*loop)(void *pool, size_t bytes, size_t count);
    void *pool;
    size_t bytes;
};

static void batch_single(void *context, size_t count)
{
    const struct single_run *single = context;
    single->loop(single->pool, single->bytes, count);
}

static struct bench_figure run_single(const struct bench_io_run *run)
{
    bench_pin(bench_cpu_from_end(0));
    struct single_run single = {bench_io_subject.loops[run->loop],
                                bench_io_subject.open(run->bytes, 1), run->bytes};
    struct bench_figure figure = bench_measure(run->plan, batch_single, &single);
    bench_io_subject.close(single.pool);
    return figure;
}

struct cross_run {
    void *pool;
    size_t bytes;
    int consumer_cpu;
    struct bench_ring ring;
};

static void *consumer(void *context)
{
    struct cross_run *cross = context;
    bench_pin(cross->consumer_cpu);
    if (bench_io_subject.thread_begin != NULL) {
        bench_io_subject.thread_begin(cross->pool);
    }
    bench_io_subject.consume(cross->pool, &cross->ring);
    if (bench_io_subject.thread_end != NULL) {
        bench_io_subject.thread_end();
    }
    return NULL;
}

/* A batch lasts until the other thread has released all of it. Its length is fixed: a search for
 * one would be misled on a busy machine, where the first hand-over may take a whole time slice. */
static double sample_cross(void *context)
{
    struct cross_run *cross = context;
    uint64_t start = bench_now_ns();
    bench_io_subject.produce(cross->pool, &cross->ring, cross->bytes, CROSS_COUNT);
    bench_ring_flush(&cross->ring);
    return (double)(bench_now_ns() - start) / (double)CROSS_COUNT;
}

static struct bench_figure run_cross_thread(const struct bench_io_run *run)
{
    static struct cross_run cross; /* static: zero, and aligned for the ring */
    pthread_t thread;
    cross.bytes = run->bytes;
    cross.consumer_cpu = bench_cpu_from_end(1);
    bench_pin(bench_cpu_from_end(0));
    cross.pool = bench_io_subject.open(run->bytes, run->threads);
    if (pthread_create(&thread, NULL, consumer, &cross) != 0) {
        bench_die("cross_thread", "no thread");
    }
    for (unsigned warm_up = 0; warm_up < 3; warm_up++) {
        sample_cross(&cross);
    }
    struct bench_figure figure = bench_collect(run->plan, sample_cross, &cross);
    bench_ring_close(&cross.ring);
    pthread_join(thread, NULL);
    bench_io_subject.close(cross.pool);
    return figure;
}

/* {batch ns, groups, batches per group}. The cases with several threads have one group: threads can
 * also fall into step by luck, and the smallest of several medians would report the luck. */
const struct bench_io_case bench_io_cases[] = {
    {"acquire_release", run_single, BENCH_IO_ACQUIRE_RELEASE, {1}, {200000, 5, 21}, {100000, 3, 7}},
    {"alloc_export_release",
     run_single,
     BENCH_IO_ALLOC_EXPORT_RELEASE,
     {1},
     {200000, 5, 21},
     {100000, 3, 7}},
    {"retain_release", run_single, BENCH_IO_RETAIN_RELEASE, {1}, {200000, 5, 21}, {100000, 3, 7}},
    {"cross_thread", run_cross_thread, BENCH_IO_ACQUIRE_RELEASE, {2}, {0, 1, 31}, {0, 1, 9}},
    {"pairs",
     bench_io_run_pairs,
     BENCH_IO_ACQUIRE_RELEASE,
     {1, 2, 4, 8, BENCH_IO_THREADS_MAX},
     {5000000, 1, 7},
     {1000000, 1, 3}},
};

const size_t bench_io_case_count = sizeof(bench_io_cases) / sizeof(bench_io_cases[0]);
