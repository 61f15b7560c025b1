/* SPDX-License-Identifier: Apache-2.0 */
/* The subjects and cases of bench_runtime. */
#ifndef BENCH_RUNTIME_CASES_H
#define BENCH_RUNTIME_CASES_H

#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>

/** What runs a graph: sets itself up once, then runs it `count` times. */
struct bench_runtime_subject {
    const char *name;
    /** Prepare "chain" or "layered" with so many nodes; the result goes to run(). */
    void *(*open)(const char *form, size_t nodes);
    void (*run)(void *opened, size_t count);
};

extern const struct bench_runtime_subject bench_runtime_hearth;
extern const struct bench_runtime_subject bench_runtime_arena_loop;
extern const struct bench_runtime_subject bench_runtime_malloc_loop;

/** Hearth on a pool of `threads`, 0: serially; each kernel does so many rounds of work. */
void *bench_runtime_open_on(const char *form, size_t nodes, unsigned threads, size_t rounds);
void bench_runtime_run_on(void *opened, size_t count);

/** Rounds of work that take so many nanoseconds on an undisturbed core. */
size_t bench_runtime_calibrate(double ns);

/** End the process unless OK. */
void bench_must(enum hearth_status status, const char *what);

#endif
