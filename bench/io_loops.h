/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timed loops, as a template: the file that includes this defines, before it does,
 *
 *     struct item { ... };                                        what a holder keeps of a buffer
 *     static inline struct item take(void *pool, size_t bytes);   ends the process on failure
 *     static inline struct item again(struct item item);          one more reference; not asked
 *                                                                 for with BENCH_IO_UNCOUNTED
 *     static inline void give(void *pool, struct item item);      one reference less
 *
 * so that each pool is called the way its users call it, and not through a pointer. Nothing is
 * written to the buffers: that would cost every pool the same.
 */
#ifndef BENCH_IO_LOOPS_H
#define BENCH_IO_LOOPS_H

#include "io_subject.h"

#include <string.h>

static void loop_acquire_release(void *pool, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        give(pool, take(pool, bytes));
    }
}

#ifndef BENCH_IO_UNCOUNTED
static void loop_retain_release(void *pool, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct item first = take(pool, bytes);
        struct item second = again(first);
        give(pool, first);
        give(pool, second);
    }
}
#endif

/* Items that are larger than a pointer travel here and the ring carries their addresses. While one
 * is written, the BENCH_RING_ENTRIES before it may still be read. */
static struct item in_transit[2 * BENCH_RING_ENTRIES];

static inline void *wrap(struct item item, size_t position)
{
    void *entry = NULL;
    if (sizeof(item) <= sizeof(entry)) {
        memcpy(&entry, &item, sizeof(item) <= sizeof(entry) ? sizeof(item) : sizeof(entry));
        return entry;
    }
    struct item *place = &in_transit[position % (2 * BENCH_RING_ENTRIES)];
    *place = item;
    return place;
}

static inline struct item unwrap(void *entry)
{
    struct item item;
    const void *source = sizeof(item) <= sizeof(entry) ? (const void *)&entry : entry;
    memcpy(&item, source, sizeof(item));
    return item;
}

static void loop_produce(void *pool, struct bench_ring *ring, size_t bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bench_ring_push(ring, wrap(take(pool, bytes), i));
    }
}

static void loop_consume(void *pool, struct bench_ring *ring)
{
    for (;;) {
        void *entry = bench_ring_peek(ring);
        if (entry == NULL) {
            return;
        }
        give(pool, unwrap(entry));
        bench_ring_done(ring);
    }
}

#endif
