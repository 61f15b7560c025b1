/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GStreamer's GstBufferPool as a subject: unbounded, buffers of system memory.
 *
 * Its queue of free buffers waits in a loop for other threads to finish their step. With many more
 * threads than cores, version 1.22 was seen to stay in gst_atomic_queue_push() for good.
 */
#include "measure.h"

#include <gst/gst.h>
#include <stdint.h>
#include <stdlib.h>

struct item {
    GstBuffer *buffer;
};

static inline struct item take(void *pool, size_t bytes)
{
    struct item item = {NULL};
    (void)bytes;
    if (__builtin_expect(gst_buffer_pool_acquire_buffer(pool, &item.buffer, NULL) != GST_FLOW_OK,
                         0)) {
        bench_die("gst_buffer_pool_acquire_buffer", "no buffer");
    }
    return item;
}

static inline struct item again(struct item item)
{
    return (struct item){gst_buffer_ref(item.buffer)};
}

static inline void give(void *pool, struct item item)
{
    (void)pool;
    gst_buffer_unref(item.buffer);
}

#include "io_loops.h"

static void *open_pool(size_t bytes, unsigned threads)
{
    (void)threads;
    /* Plugins are not needed; looking for them takes long and writes to the user's cache. */
    setenv("GST_REGISTRY_DISABLE", "yes", 1);
    gst_init(NULL, NULL);
    GstBufferPool *pool = gst_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, NULL, (guint)bytes, 0, 0);
    if (!gst_buffer_pool_set_config(pool, config) || !gst_buffer_pool_set_active(pool, TRUE)) {
        bench_die("GstBufferPool", "cannot be configured");
    }
    return pool;
}

static void close_pool(void *pool)
{
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
}

const struct bench_io_subject bench_io_subject = {
    .bytes_max = UINT32_MAX,
    .stalls = true,
    .open = open_pool,
    .close = close_pool,
    .loops = {loop_acquire_release, loop_acquire_release, loop_retain_release},
    .produce = loop_produce,
    .consume = loop_consume,
};
