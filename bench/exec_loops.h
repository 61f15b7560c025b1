/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timed loops, as a template: the file that includes this defines, before it does,
 *
 *     static inline void *take(void *arena, size_t bytes);    a block; ends the process on failure
 *     static inline void *data(void *block);                  its storage
 *     static inline void give(void *arena, void *block);
 *
 * so that each allocator is called the way its users call it, and not through a pointer.
 */
#ifndef BENCH_EXEC_LOOPS_H
#define BENCH_EXEC_LOOPS_H

#include "exec_subject.h"

#define BENCH_PAGE ((size_t)4096)

/* Volatile, so that the store, and with it the block, cannot be optimized away. */
static inline void write_byte(void *storage)
{
    *(volatile char *)storage = 1;
}

static inline void write_pages(void *storage, size_t bytes)
{
    for (size_t offset = 0; offset < bytes; offset += BENCH_PAGE) {
        write_byte((char *)storage + offset);
    }
}

static void loop_pair(void *arena, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = take(arena, bytes);
        write_byte(data(block));
        give(arena, block);
    }
}

static void loop_mixed(void *arena, struct bench_mixed *mixed, size_t count)
{
    size_t position = mixed->position;
    for (size_t i = 0; i < count; i++) {
        const struct bench_step *step = &mixed->steps[position++ & (BENCH_MIXED_STEPS - 1)];
        void **live = &mixed->live[step->slot];
        if (*live != NULL) {
            give(arena, *live);
        }
        *live = take(arena, step->bytes);
        write_byte(data(*live));
    }
    mixed->position = position;
}

static void loop_mixed_end(void *arena, struct bench_mixed *mixed)
{
    for (size_t slot = 0; slot < BENCH_MIXED_LIVE; slot++) {
        if (mixed->live[slot] != NULL) {
            give(arena, mixed->live[slot]);
            mixed->live[slot] = NULL;
        }
    }
}

static void loop_warm_touch(void *arena, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = take(arena, bytes);
        write_pages(data(block), bytes);
        give(arena, block);
    }
}

static void loop_first_touch(void *arena, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        write_pages(data(take(arena, bytes)), bytes);
    }
}

static void loop_produce(void *arena, struct bench_ring *ring, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = take(arena, bytes);
        write_byte(data(block));
        bench_ring_push(ring, block);
    }
}

static void loop_consume(void *arena, struct bench_ring *ring)
{
    for (;;) {
        void *block = bench_ring_peek(ring);
        if (block == NULL) {
            return;
        }
        give(arena, block);
        bench_ring_done(ring);
    }
}

#define BENCH_EXEC_LOOPS                                                                           \
    .pair = loop_pair, .mixed = loop_mixed, .mixed_end = loop_mixed_end,                           \
    .warm_touch = loop_warm_touch, .first_touch = loop_first_touch, .produce = loop_produce,       \
    .consume = loop_consume

#endif
