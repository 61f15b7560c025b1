/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever malloc this process runs with, as a subject. It counts no references. */
#include "measure.h"

#include <stdint.h>
#include <stdlib.h>

#define BENCH_IO_UNCOUNTED

struct item {
    void *block;
};

static inline struct item take(void *pool, size_t bytes)
{
    (void)pool;
    struct item item = {malloc(bytes)};
    if (__builtin_expect(item.block == NULL, 0)) {
        bench_die("malloc", "out of memory");
    }
    /* The block escapes, so the compiler must keep the pair. */
    __asm__ volatile("" : : "r"(item.block) : "memory");
    return item;
}

static inline void give(void *pool, struct item item)
{
    (void)pool;
    free(item.block);
}

#include "io_loops.h"

static void *open_nothing(size_t bytes, unsigned threads)
{
    (void)bytes;
    (void)threads;
    return NULL;
}

static void close_nothing(void *pool)
{
    (void)pool;
}

const struct bench_io_subject bench_io_subject = {
    .bytes_max = SIZE_MAX,
    .open = open_nothing,
    .close = close_nothing,
    .loops = {loop_acquire_release, loop_acquire_release, NULL},
    .produce = loop_produce,
    .consume = loop_consume,
};
