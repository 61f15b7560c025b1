/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever malloc this process runs with, as a subject. */
#include "measure.h"

#include <stdlib.h>

static inline void *take(void *arena, size_t bytes)
{
    (void)arena;
    void *block = malloc(bytes);
    if (__builtin_expect(block == NULL, 0)) {
        bench_die("malloc", "out of memory");
    }
    /* The block escapes, so the compiler must keep the pair. */
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

static inline void *data(void *block)
{
    return block;
}

static inline void give(void *arena, void *block)
{
    (void)arena;
    free(block);
}

#include "exec_loops.h"

static void *open_arena(void)
{
    return NULL;
}

static void close_arena(void *arena)
{
    (void)arena;
}

const struct bench_subject bench_subject_malloc = {
    .name = "malloc", .open = open_arena, .close = close_arena, BENCH_EXEC_LOOPS};
