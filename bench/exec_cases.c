/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_cases.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Fresh bytes that one first_touch sample writes: enough to drown the cost of starting it. */
#define FIRST_TOUCH_BYTES (32 * MIB)
#define FIRST_TOUCH_MOST ((size_t)64)

struct sized_run {
    const struct bench_subject *subject;
    void *arena;
    size_t bytes;
};

static void batch_pair(void *context, size_t count)
{
    const struct sized_run *run = context;
    run->subject->pair(run->arena, run->bytes, count);
}

static void batch_warm_touch(void *context, size_t count)
{
    const struct sized_run *run = context;
    run->subject->warm_touch(run->arena, run->bytes, count);
}

static struct bench_figure run_sized(const struct bench_subject *subject, size_t bytes,
                                     const struct bench_plan *plan,
                                     void (*batch)(void *context, size_t count))
{
    struct sized_run run = {subject, subject->open(), bytes};
    struct bench_figure figure = bench_measure(plan, batch, &run);
    subject->close(run.arena);
    return figure;
}

static struct bench_figure run_pair(const struct bench_subject *subject, size_t bytes,
                                    const struct bench_plan *plan)
{
    return run_sized(subject, bytes, plan, batch_pair);
}

static struct bench_figure run_warm_touch(const struct bench_subject *subject, size_t bytes,
                                          const struct bench_plan *plan)
{
    return run_sized(subject, bytes, plan, batch_warm_touch);
}

struct mixed_run {
    const struct bench_subject *subject;
    void *arena;
    struct bench_mixed mixed;
};

static void batch_mixed(void *context, size_t count)
{
    struct mixed_run *run = context;
    run->subject->mixed(run->arena, &run->mixed, count);
}

static struct bench_figure run_mixed(const struct bench_subject *subject, size_t bytes,
                                     const struct bench_plan *plan)
{
    (void)bytes;
    static struct mixed_run run; /* static: the steps are no allocation of the subject's */
    run.subject = subject;
    run.arena = subject->open();
    bench_mixed_init(&run.mixed);
    /* Once through all steps, so that every size has been seen. */
    subject->mixed(run.arena, &run.mixed, BENCH_MIXED_STEPS);
    struct bench_figure figure = bench_measure(plan, batch_mixed, &run);
    subject->mixed_end(run.arena, &run.mixed);
    subject->close(run.arena);
    return figure;
}

static size_t first_touch_count(size_t bytes)
{
    size_t count = FIRST_TOUCH_BYTES / bytes;
    return count < FIRST_TOUCH_MOST ? count : FIRST_TOUCH_MOST;
}

static double time_first_touch(const struct bench_subject *subject, size_t bytes)
{
    size_t count = first_touch_count(bytes);
    void *arena = subject->open();
    subject->pair(arena, 64, 1); /* the allocator's own start is not what is asked for */
    uint64_t start = bench_now_ns();
    subject->first_touch(arena, bytes, count);
    return (double)(bench_now_ns() - start) / (double)count;
}

/* Each sample is a process of its own, so that no page was ever touched before. */
static double sample_first_touch(void *context)
{
    const struct sized_run *run = context;
    double ns = 0;
    int status = 0;
    int ends[2];
    if (pipe(ends) != 0) {
        bench_die("first_touch", "no pipe");
    }
    pid_t child = fork();
    if (child == 0) {
        ns = time_first_touch(run->subject, run->bytes);
        _exit(write(ends[1], &ns, sizeof(ns)) == (ssize_t)sizeof(ns) ? 0 : 3);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], &ns, sizeof(ns)) != (ssize_t)sizeof(ns) ||
        waitpid(child, &status, 0) != child || status != 0) {
        bench_die("first_touch", "the sample's process failed");
    }
    close(ends[0]);
    return ns;
}

static struct bench_figure run_first_touch(const struct bench_subject *subject, size_t bytes,
                                           const struct bench_plan *plan)
{
    struct sized_run run = {subject, NULL, bytes};
    return bench_collect(plan, sample_first_touch, &run);
}

/* {batch ns, groups, batches per group}. remote_free has one group: two threads can also fall into
 * step by luck, and the smallest of several medians would report the luck. */
const struct bench_case bench_exec_cases[] = {
    {"pair",
     run_pair,
     {200000, 5, 21},
     {100000, 3, 7},
     {256, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB}},
    {"mixed", run_mixed, {400000, 5, 21}, {200000, 3, 7}, {BENCH_MIXED_LARGEST}},
    {"first_touch", run_first_touch, {0, 3, 3}, {0, 1, 3}, {64 * KIB, MIB, 16 * MIB}},
    {"warm_touch", run_warm_touch, {200000, 5, 11}, {100000, 3, 5}, {64 * KIB, MIB, 16 * MIB}},
    {"remote_free", bench_run_remote_free, {1000000, 1, 31}, {500000, 1, 9}, {4 * KIB, 64 * KIB}},
};

const size_t bench_exec_case_count = sizeof(bench_exec_cases) / sizeof(bench_exec_cases[0]);
