/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain mmap: each segment is a mapping of its own, page granular, and goes back to the kernel when
 * it is released. For sanitizers, which then see use after release as a fault, and for hosts without
 * jemalloc. Small buffers cost a page each.
 */
#include "core/backing.h"

#include <hearth/allocator.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct mmap_backing {
    struct hearth__huge_policy huge;
    size_t page_bytes;
    _Atomic(uint64_t) page_events;
    _Atomic(uint64_t) mapped_bytes;
    _Atomic(uint64_t) unmapped_bytes;
    _Atomic(uint64_t) purged_bytes;
};

static void count(_Atomic(uint64_t) *bytes_cell, struct mmap_backing *self, size_t bytes)
{
    (void)hearth__fetch_add_relaxed(&self->page_events, 1);
    (void)hearth__fetch_add_relaxed(bytes_cell, bytes);
}

static void unmap(struct mmap_backing *self, void *base, size_t bytes)
{
    if (bytes == 0)
        return;
    munmap(base, bytes);
    count(&self->unmapped_bytes, self, bytes);
}

static enum hearth_status mmap_acquire(void *context, size_t bytes, size_t alignment,
                                       struct hearth_segment *segment)
{
    struct mmap_backing *self = context;
    size_t length = (bytes + self->page_bytes - 1) & ~(self->page_bytes - 1);
    bool huge = length >= HEARTH__HUGE_PAGE_BYTES;
    if (huge && self->huge.align && alignment < HEARTH__HUGE_PAGE_BYTES)
        alignment = HEARTH__HUGE_PAGE_BYTES;
    size_t extra = alignment > self->page_bytes ? alignment : 0;
    size_t reserved = length + extra;
    char *at = mmap(NULL, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return HEARTH_NO_MEMORY;
    count(&self->mapped_bytes, self, reserved);
    size_t before = (alignment - (uintptr_t)at % alignment) % alignment;
    if (extra != 0) {
        unmap(self, at, before);
        unmap(self, at + before + length, extra - before);
        at += before;
    }
    if (huge && self->huge.advise) {
        /* A kernel without huge pages refuses; the memory is as good without. */
        (void)madvise(at, length, MADV_HUGEPAGE);
        count(&self->mapped_bytes, self, 0);
    }
    segment->base = at;
    segment->length = length;
    segment->flags = HEARTH_SEGMENT_ZERO;
    return HEARTH_OK;
}

static void mmap_release(void *context, const struct hearth_segment *segment)
{
    unmap(context, segment->base, segment->length);
}

static size_t mmap_discard(void *context, void *base, size_t length)
{
    struct mmap_backing *self = context;
    size_t bytes = hearth__discard_pages(base, length);
    if (bytes != 0)
        count(&self->purged_bytes, self, bytes);
    return bytes;
}

static void mmap_stats(void *context, struct hearth_backing_stats *stats)
{
    struct mmap_backing *self = context;
    stats->page_events = hearth__load_relaxed(&self->page_events);
    stats->mapped_bytes = hearth__load_relaxed(&self->mapped_bytes);
    stats->unmapped_bytes = hearth__load_relaxed(&self->unmapped_bytes);
    stats->purged_bytes = hearth__load_relaxed(&self->purged_bytes);
}

enum hearth_status hearth_backing_create_mmap(const struct hearth_backing_options *options,
                                              struct hearth_backing **backing)
{
    if (backing == NULL || hearth__backing_options_check(options) != HEARTH_OK)
        return HEARTH_INVALID;
    struct mmap_backing *self = calloc(1, sizeof *self);
    if (self == NULL)
        return HEARTH_NO_MEMORY;
    self->huge = hearth__huge_policy(options);
    self->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .name = "mmap",
        .granule = self->page_bytes,
        .acquire = mmap_acquire,
        .release = mmap_release,
        .discard = mmap_discard,
        .stats = mmap_stats,
        .destroy = free,
        .flags = HEARTH_BACKING_DISCARD_ZEROES,
    };
    enum hearth_status status = hearth_backing_create(&ops, self, backing);
    if (status != HEARTH_OK)
        free(self);
    return status;
}
