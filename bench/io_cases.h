/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of bench_io: what is run, on how many threads, with how many samples. */
#ifndef BENCH_IO_CASES_H
#define BENCH_IO_CASES_H

#include "io_subject.h"
#include "measure.h"

#include <stddef.h>

#define BENCH_IO_THREADS_MAX 64u
#define BENCH_IO_COUNTS_MAX 5u

/** One figure to be taken. */
struct bench_io_run {
    enum bench_io_loop loop;
    size_t bytes;
    unsigned threads;
    const struct bench_plan *plan;
};

struct bench_io_case {
    const char *name;
    struct bench_figure (*run)(const struct bench_io_run *run);
    enum bench_io_loop loop;
    unsigned threads[BENCH_IO_COUNTS_MAX]; /* ends at the first 0 */
    struct bench_plan plan;
    struct bench_plan quick;
};

extern const struct bench_io_case bench_io_cases[];
extern const size_t bench_io_case_count;

/** In bytes; ends with 0. */
extern const size_t bench_io_sizes[];

/** Several threads at the same pool, each in the same loop: wall time over all operations.
 *  plan->batch_ns is the time that each thread should be running in a batch. */
struct bench_figure bench_io_run_pairs(const struct bench_io_run *run);

#endif
