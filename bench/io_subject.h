/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench_io measures: one pool of buffers, with the timed loops compiled for it. Each program
 * bench_io_<name> is linked with exactly one subject, so that no peer's library is loaded, and no
 * thread of it runs, while another is measured.
 */
#ifndef BENCH_IO_SUBJECT_H
#define BENCH_IO_SUBJECT_H

#include "ring.h"

#include <stdbool.h>
#include <stddef.h>

/** Loops of one thread; a subject has NULL where it knows no such thing. */
enum bench_io_loop {
    BENCH_IO_ACQUIRE_RELEASE,
    BENCH_IO_ALLOC_EXPORT_RELEASE,
    BENCH_IO_RETAIN_RELEASE,
    BENCH_IO_LOOPS
};

struct bench_io_subject {
    /** The largest buffer it can hold. */
    size_t bytes_max;
    /** Known not to end now and then: leave the figure out, where others would fail. */
    bool stalls;
    /** A pool for buffers of `bytes`, used by so many threads. Ends the process on failure. */
    void *(*open)(size_t bytes, unsigned threads);
    /** End it; every buffer was given back. */
    void (*close)(void *pool);
    /** What each further thread does before and after it uses the pool; NULL: nothing. */
    void (*thread_begin)(void *pool);
    void (*thread_end)(void);
    /** `count` times the operation. */
    void (*loops[BENCH_IO_LOOPS])(void *pool, size_t bytes, size_t count);
    /** `count` times: take and hand over. The ring is empty before. */
    void (*produce)(void *pool, struct bench_ring *ring, size_t bytes, size_t count);
    /** Give back what is handed over, until the ring is closed. */
    void (*consume)(void *pool, struct bench_ring *ring);
};

extern const struct bench_io_subject bench_io_subject;

#endif
