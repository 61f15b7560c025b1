/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file executor.h
 * Executors: any thread pool that can be told to call a function; and a small one of our own.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_EXECUTOR_H
#define HEARTH_EXECUTOR_H

#include <hearth/export.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_pool;

/**
 * An executor: any thread pool that can be told to call a function. Zero-initialise it and set what
 * you have.
 */
struct hearth_executor {
    size_t size; /**< Set by HEARTH_EXECUTOR_INIT. */
    /**
     * Call fn(arg) once, on any thread, at any later time, also before submit returns. Any answer
     * but OK means that fn will not be called; the run then goes on with the threads it has. A call
     * that comes after the run ended finds nothing to do, so a pool may be busy with other work,
     * and a run may be started from a thread of the pool itself.
     */
    enum hearth_status (*submit)(void *pool, void (*fn)(void *arg), void *arg);
    void *pool; /**< Passed to submit. */
    /** Threads that may run tasks at the same time, the caller of the run among them: one call less is
     *  submitted at a time. 0: as many as the process has processors. */
    uint32_t threads;
    uint32_t reserved;
};

#define HEARTH_EXECUTOR_INIT                                                                       \
    {                                                                                              \
        sizeof(struct hearth_executor), NULL, NULL, 0, 0                                           \
    }

/** Create a small pthread pool, for tests, examples and programs that have none. `threads` 0: the
 *  number of processors. Ownership: hearth_pool_destroy() ends it. Returns INVALID, NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_pool_create(uint32_t threads,
                                                                  struct hearth_pool **pool);

/** Finish what was submitted, join the threads, end the pool. BUSY on one of its own threads. NULL
 *  is OK. */
HEARTH_API enum hearth_status hearth_pool_destroy(struct hearth_pool *pool);

/** Fill `executor` with the pool's: its threads and the caller. Valid as long as the pool. Returns
 *  INVALID. */
HEARTH_API enum hearth_status hearth_pool_executor(struct hearth_pool *pool,
                                                   struct hearth_executor *executor);

HEARTH_END_DECLS

#endif
