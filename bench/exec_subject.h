/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is measured: one allocator, with the timed loops compiled for it. Which malloc "malloc" is
 * depends on what the process was started with (LD_PRELOAD and environment), see docs/bench.md.
 */
#ifndef BENCH_EXEC_SUBJECT_H
#define BENCH_EXEC_SUBJECT_H

#include "mixed.h"
#include "ring.h"

#include <stddef.h>

struct bench_subject {
    const char *name;
    /** An arena of the calling thread, or NULL where the allocator knows no such thing. */
    void *(*open)(void);
    /** End it; every block was given back. */
    void (*close)(void *arena);
    /** `count` times: take, write one byte, give back. */
    void (*pair)(void *arena, size_t bytes, size_t count);
    /** `count` steps: give one back, take another, write one byte. */
    void (*mixed)(void *arena, struct bench_mixed *mixed, size_t count);
    /** Give back what is still live. */
    void (*mixed_end)(void *arena, struct bench_mixed *mixed);
    /** `count` times: take, write every page, give back. */
    void (*warm_touch)(void *arena, size_t bytes, size_t count);
    /** `count` times: take, write every page. Nothing is given back, so nothing is reused. */
    void (*first_touch)(void *arena, size_t bytes, size_t count);
    /** `count` times: take, write one byte, hand over. */
    void (*produce)(void *arena, struct bench_ring *ring, size_t bytes, size_t count);
    /** Give back what is handed over, until the ring is closed. */
    void (*consume)(void *arena, struct bench_ring *ring);
};

extern const struct bench_subject bench_subject_hearth;
extern const struct bench_subject bench_subject_malloc;

#endif
