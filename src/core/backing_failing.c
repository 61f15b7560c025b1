/* SPDX-License-Identifier: Apache-2.0 */
/* A backing that refuses on purpose, so that every failure path can be walked by a test. */
#include "core/backing.h"

#include <stdlib.h>

struct failing_backing {
    struct hearth_backing *inner;
    /* Acquires so far, and the half-open range of them that fails. */
    _Atomic(uint64_t) calls;
    _Atomic(uint64_t) fail_from;
    _Atomic(uint64_t) fail_to;
};

static enum hearth_status failing_acquire(void *context, size_t bytes, size_t alignment,
                                          struct hearth_segment *segment)
{
    struct failing_backing *self = context;
    uint64_t call = hearth__fetch_add_relaxed(&self->calls, 1);
    if (call >= hearth__load_relaxed(&self->fail_from) &&
        call < hearth__load_relaxed(&self->fail_to))
        return HEARTH_NO_MEMORY;
    return hearth__backing_acquire(self->inner, bytes, alignment, segment);
}

static void failing_release(void *context, const struct hearth_segment *segment)
{
    struct failing_backing *self = context;
    hearth__backing_release(self->inner, segment);
}

static size_t failing_purge(void *context)
{
    struct failing_backing *self = context;
    return hearth_backing_purge(self->inner);
}

static size_t failing_discard(void *context, void *base, size_t length)
{
    struct failing_backing *self = context;
    return hearth__backing_discard(self->inner, base, length);
}

static void failing_stats(void *context, struct hearth_backing_stats *stats)
{
    struct failing_backing *self = context;
    (void)hearth_backing_stats(self->inner, stats);
}

static void failing_destroy(void *context)
{
    struct failing_backing *self = context;
    hearth_backing_unref(self->inner);
    free(self);
}

enum hearth_status hearth_backing_create_failing(struct hearth_backing *inner,
                                                 struct hearth_backing **backing)
{
    if (inner == NULL || backing == NULL)
        return HEARTH_INVALID;
    struct failing_backing *self = calloc(1, sizeof *self);
    if (self == NULL)
        return HEARTH_NO_MEMORY;
    self->inner = inner;
    const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .name = "failing",
        .granule = inner->ops.granule,
        .acquire = failing_acquire,
        .release = failing_release,
        .purge = failing_purge,
        .discard = failing_discard,
        .stats = failing_stats,
        .destroy = failing_destroy,
        .flags = inner->ops.flags,
    };
    enum hearth_status status = hearth_backing_create(&ops, self, backing);
    if (status != HEARTH_OK) {
        free(self);
        return status;
    }
    hearth_backing_ref(inner);
    return HEARTH_OK;
}

enum hearth_status hearth_backing_fail(struct hearth_backing *backing, uint64_t nth, uint64_t count)
{
    if (backing == NULL || backing->ops.acquire != failing_acquire)
        return HEARTH_INVALID;
    struct failing_backing *self = backing->context;
    uint64_t from = 0;
    uint64_t to = 0;
    if (nth != 0) {
        if (__builtin_add_overflow(hearth__load_relaxed(&self->calls), nth - 1, &from))
            from = UINT64_MAX;
        if (__builtin_add_overflow(from, count, &to))
            to = UINT64_MAX;
    }
    hearth__store_relaxed(&self->fail_from, from);
    hearth__store_relaxed(&self->fail_to, to);
    return HEARTH_OK;
}
