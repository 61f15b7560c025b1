/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guard pages: a backing that turns accesses outside of storage, and to storage that was given back, into
 * faults. For debug:guard.
 *
 * Picture. A mapping per segment, of which only the pages in the middle are accessible:
 *
 *     start            base                    base + length   page end
 *     | no access ...   |== the segment ========|  (gap)       | no access ... |
 *
 * The segment lies as close to the guard behind it as its alignment allows: without a gap for the default
 * alignment. The cookie is the mapping's start with the log2 of the alignment in its low bits, from which
 * the mapping's size follows.
 *
 * Cost. A mapping, a protection and up to three kernel areas for each segment; the kernel's limit on areas
 * (vm.max_map_count) bounds how many segments there can be.
 */
#include "core/backing.h"

#include <hearth/allocator.h>

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct guard_backing {
    size_t page_bytes;
    _Atomic(uint64_t) page_events;
    _Atomic(uint64_t) mapped_bytes;
    _Atomic(uint64_t) unmapped_bytes;
};

#define ALIGNMENT_BITS ((uint64_t)63)

static size_t page_up(const struct guard_backing *self, size_t bytes)
{
    return (bytes + self->page_bytes - 1) & ~(self->page_bytes - 1);
}

/* A guard at either end, and room to move the segment to where it is aligned. */
static size_t mapping_bytes(const struct guard_backing *self, size_t bytes, size_t alignment)
{
    size_t room = alignment > self->page_bytes ? alignment : 0;
    return page_up(self, bytes) + room + 2 * self->page_bytes;
}

static enum hearth_status guard_acquire(void *context, size_t bytes, size_t alignment,
                                        struct hearth_segment *segment)
{
    struct guard_backing *self = context;
    if (alignment < HEARTH_ALIGNMENT)
        alignment = HEARTH_ALIGNMENT;
    if (bytes == 0 || bytes > PTRDIFF_MAX / 2)
        return HEARTH_NO_MEMORY;
    size_t whole = mapping_bytes(self, bytes, alignment);
    char *start = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return HEARTH_NO_MEMORY;
    size_t from_end = (uintptr_t)(start + whole - self->page_bytes - bytes) % alignment;
    size_t base = whole - self->page_bytes - bytes - from_end;
    size_t first = base & ~(self->page_bytes - 1);
    if (mprotect(start + first, page_up(self, base + bytes) - first, PROT_READ | PROT_WRITE) != 0) {
        munmap(start, whole);
        return HEARTH_NO_MEMORY;
    }
    (void)hearth__fetch_add_relaxed(&self->page_events, 2);
    (void)hearth__fetch_add_relaxed(&self->mapped_bytes, whole);
    *segment = (struct hearth_segment){
        .base = start + base,
        .length = bytes,
        .cookie = (uint64_t)(uintptr_t)start | (uint64_t)__builtin_ctzl(alignment),
        .flags = HEARTH_SEGMENT_ZERO,
    };
    return HEARTH_OK;
}

static void guard_release(void *context, const struct hearth_segment *segment)
{
    struct guard_backing *self = context;
    size_t alignment = (size_t)1 << (segment->cookie & ALIGNMENT_BITS);
    size_t whole = mapping_bytes(self, segment->length, alignment);
    munmap((void *)(uintptr_t)(segment->cookie & ~ALIGNMENT_BITS), whole);
    (void)hearth__fetch_add_relaxed(&self->page_events, 1);
    (void)hearth__fetch_add_relaxed(&self->unmapped_bytes, whole);
}

static void guard_stats(void *context, struct hearth_backing_stats *stats)
{
    struct guard_backing *self = context;
    stats->page_events = hearth__load_relaxed(&self->page_events);
    stats->mapped_bytes = hearth__load_relaxed(&self->mapped_bytes);
    stats->unmapped_bytes = hearth__load_relaxed(&self->unmapped_bytes);
}

enum hearth_status hearth__backing_create_guard(struct hearth_backing **backing)
{
    struct guard_backing *self = calloc(1, sizeof *self);
    if (self == NULL)
        return HEARTH_NO_MEMORY;
    self->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .name = "guard",
        .granule = HEARTH_ALIGNMENT,
        .acquire = guard_acquire,
        .release = guard_release,
        .stats = guard_stats,
        .destroy = free,
    };
    enum hearth_status status = hearth_backing_create(&ops, self, backing);
    if (status != HEARTH_OK)
        free(self);
    return status;
}
