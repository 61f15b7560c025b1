/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of bench_exec: what is run, at which sizes, with how many samples. */
#ifndef BENCH_EXEC_CASES_H
#define BENCH_EXEC_CASES_H

#include "exec_subject.h"
#include "measure.h"

#include <stdbool.h>
#include <stddef.h>

#define BENCH_CASE_SIZES_MAX 6u

struct bench_case {
    const char *name;
    struct bench_figure (*run)(const struct bench_subject *subject, size_t bytes,
                               const struct bench_plan *plan);
    struct bench_plan plan;
    struct bench_plan quick;
    size_t sizes[BENCH_CASE_SIZES_MAX]; /* ends at the first 0 */
};

extern const struct bench_case bench_exec_cases[];
extern const size_t bench_exec_case_count;

/** remote_free: the calling thread produces, a thread on another CPU frees. */
struct bench_figure bench_run_remote_free(const struct bench_subject *subject, size_t bytes,
                                          const struct bench_plan *plan);

#endif
