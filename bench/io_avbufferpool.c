/* SPDX-License-Identifier: Apache-2.0 */
/* FFmpeg's AVBufferPool as a subject. A holder keeps an AVBufferRef, and each reference is one. */
#include "measure.h"

#include <libavutil/buffer.h>
#include <stdint.h>

struct item {
    AVBufferRef *ref;
};

static inline struct item checked(AVBufferRef *ref, const char *call)
{
    if (__builtin_expect(ref == NULL, 0)) {
        bench_die(call, "out of memory");
    }
    return (struct item){ref};
}

static inline struct item take(void *pool, size_t bytes)
{
    (void)bytes;
    return checked(av_buffer_pool_get(pool), "av_buffer_pool_get");
}

static inline struct item again(struct item item)
{
    return checked(av_buffer_ref(item.ref), "av_buffer_ref");
}

static inline void give(void *pool, struct item item)
{
    (void)pool;
    av_buffer_unref(&item.ref);
}

#include "io_loops.h"

static void *open_pool(size_t bytes, unsigned threads)
{
    (void)threads;
    AVBufferPool *pool = av_buffer_pool_init(bytes, NULL);
    if (pool == NULL) {
        bench_die("av_buffer_pool_init", "out of memory");
    }
    return pool;
}

static void close_pool(void *context)
{
    AVBufferPool *pool = context;
    av_buffer_pool_uninit(&pool);
}

const struct bench_io_subject bench_io_subject = {
    .bytes_max = SIZE_MAX,
    .open = open_pool,
    .close = close_pool,
    .loops = {loop_acquire_release, loop_acquire_release, loop_retain_release},
    .produce = loop_produce,
    .consume = loop_consume,
};
