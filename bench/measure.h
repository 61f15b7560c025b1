/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a figure is taken: short timed batches, in groups. A batch is short (fractions of a
 * millisecond) so that most batches run undisturbed on a busy machine; a group's figure is the
 * median of its batches; the reported figure is the smallest group median, because other load only
 * ever adds time. docs/bench.md says how rounds are combined on top of this.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#define BENCH_SAMPLES_MAX 256u

/** How many samples, and how long a timed batch should last at least. */
struct bench_plan {
    uint64_t batch_ns;
    unsigned groups;
    unsigned per_group;
};

/** Nanoseconds per operation. */
struct bench_figure {
    double ns;   /* smallest group median: the figure */
    double low;  /* 10th percentile of all samples */
    double high; /* 90th percentile of all samples */
};

/** CLOCK_MONOTONIC in nanoseconds. */
uint64_t bench_now_ns(void);

/** Run the calling thread on one CPU only; a failure is reported and otherwise ignored. */
void bench_pin(int cpu);

/** The `index`th CPU from the end of those this process may use, wrapping round. */
int bench_cpu_from_end(unsigned index);

/** Print a message and end the process: a figure that went wrong must not look like one. */
_Noreturn void bench_die(const char *what, const char *detail);

/** Combine plan->groups * plan->per_group calls of sample(), each giving ns per operation. */
struct bench_figure bench_collect(const struct bench_plan *plan, double (*sample)(void *context),
                                  void *context);

/** Time batch(context, count); count is found by doubling until a batch lasts plan->batch_ns,
 *  which also is the warm-up. */
struct bench_figure bench_measure(const struct bench_plan *plan,
                                  void (*batch)(void *context, size_t count), void *context);

#endif
