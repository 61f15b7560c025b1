/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote_free: one thread takes buffers and hands them over through a ring, another frees them. A
 * batch lasts until the other thread has freed all of it, so the figure is the pace of the pair.
 */
#include "exec_cases.h"

#include <pthread.h>

struct remote_run {
    const struct bench_subject *subject;
    void *arena;
    size_t bytes;
    int consumer_cpu;
    struct bench_ring ring;
};

static void *consumer(void *context)
{
    struct remote_run *run = context;
    bench_pin(run->consumer_cpu);
    run->subject->consume(run->arena, &run->ring);
    return NULL;
}

static void batch_remote(void *context, size_t count)
{
    struct remote_run *run = context;
    run->subject->produce(run->arena, &run->ring, run->bytes, count);
    bench_ring_flush(&run->ring);
}

struct bench_figure bench_run_remote_free(const struct bench_subject *subject, size_t bytes,
                                          const struct bench_plan *plan)
{
    static struct remote_run run; /* static: zero, and aligned for the ring */
    pthread_t thread;
    run.subject = subject;
    run.bytes = bytes;
    run.arena = subject->open();
    run.consumer_cpu = bench_cpu_from_end(1);
    bench_pin(bench_cpu_from_end(0));
    if (pthread_create(&thread, NULL, consumer, &run) != 0) {
        bench_die("remote_free", "no thread");
    }
    struct bench_figure figure = bench_measure(plan, batch_remote, &run);
    bench_ring_close(&run.ring);
    pthread_join(thread, NULL);
    subject->close(run.arena);
    return figure;
}
