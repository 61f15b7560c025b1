/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A jemalloc arena of its own per backing, with extent hooks given at its creation, so that every page
 * that enters or leaves it passes through here and is counted: reuse is observed, not assumed.
 *
 * - No thread cache: warm paths never get here, and a cache would hide storage from the figures.
 * - Decay is off: pages go back when hearth purges, not behind its back.
 * - dalloc is refused (the range stays mapped, its pages go through purge), because unmapping single
 *   extents of a retaining arena shreds the address space; while the arena is destroyed it is
 *   accepted, which is what gives the metadata block back.
 * - Blocks of 16 KiB and more are page aligned: jemalloc's cache-oblivious placement would else spread
 *   them over one page more than the footprint says.
 *
 * Only this file knows jemalloc. Built without it, hearth_backing_create_jemalloc() answers INVALID.
 */
#include "core/backing.h"

#include "core/misuse.h"

#include <stdio.h>
#include <stdlib.h>

#if !defined(HEARTH_JEMALLOC_PRIVATE) && !defined(HEARTH_JEMALLOC_SYSTEM)

enum hearth_status hearth_backing_create_jemalloc(const struct hearth_backing_options *options,
                                                  struct hearth_backing **backing)
{
    (void)options;
    (void)backing;
    return hearth__misuse_detail(
        HEARTH_INVALID, "hearth_backing_create_jemalloc", NULL, NULL,
        "this library was built without jemalloc; use the mmap backing, or "
        "build with HEARTH_JEMALLOC=private");
}

#else

#include <jemalloc/jemalloc.h>
#include <stddef.h>
#include <sys/mman.h>

#if defined(HEARTH_JEMALLOC_PRIVATE)
/* The private copy's entry points, renamed at build time so that linking hearth never replaces or
 * meets the host's malloc (cmake/HearthJemalloc.cmake); its settings are in cmake/jemalloc-conf.c. */
void *hearth__je_mallocx(size_t size, int flags);
void hearth__je_dallocx(void *at, int flags);
size_t hearth__je_sallocx(const void *at, int flags);
size_t hearth__je_nallocx(size_t size, int flags);
int hearth__je_mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

#define JE(name) hearth__je_##name
#else
#define JE(name) name
#endif

#define PAGE_BYTES ((size_t)4096)
#define LARGE_BYTES ((size_t)16 << 10)

struct jemalloc_backing {
    extent_hooks_t hooks; /* first: jemalloc hands its address to the hooks */
    struct hearth__huge_policy huge;
    unsigned arena;
    _Atomic(bool) closing;
    _Atomic(uint64_t) page_events;
    _Atomic(uint64_t) mapped_bytes;
    _Atomic(uint64_t) unmapped_bytes;
    _Atomic(uint64_t) purged_bytes;
};

static struct jemalloc_backing *backing_of(extent_hooks_t *hooks)
{
    return (struct jemalloc_backing *)(void *)hooks;
}

static void count_event(struct jemalloc_backing *self)
{
    (void)hearth__fetch_add_relaxed(&self->page_events, 1);
}

static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment,
                        bool *zero, bool *commit, unsigned arena)
{
    (void)arena;
    struct jemalloc_backing *self = backing_of(hooks);
    size_t extra = alignment > PAGE_BYTES ? alignment - PAGE_BYTES : 0;
    char *at =
        mmap(wanted, size + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (wanted != NULL && at != wanted) {
        munmap(at, size + extra);
        return NULL;
    }
    size_t before = (alignment - (uintptr_t)at % alignment) % alignment;
    if (before != 0)
        munmap(at, before);
    if (extra != before)
        munmap(at + before + size, extra - before);
    count_event(self);
    (void)hearth__fetch_add_relaxed(&self->mapped_bytes, size);
    *zero = true;
    *commit = true;
    return at + before;
}

static void unmap(struct jemalloc_backing *self, void *at, size_t size)
{
    munmap(at, size);
    count_event(self);
    (void)hearth__fetch_add_relaxed(&self->unmapped_bytes, size);
}

static bool hook_dalloc(extent_hooks_t *hooks, void *at, size_t size, bool committed,
                        unsigned arena)
{
    (void)committed;
    (void)arena;
    struct jemalloc_backing *self = backing_of(hooks);
    if (!hearth__load_relaxed(&self->closing))
        return true;
    unmap(self, at, size);
    return false;
}

static void hook_destroy(extent_hooks_t *hooks, void *at, size_t size, bool committed,
                         unsigned arena)
{
    (void)committed;
    (void)arena;
    unmap(backing_of(hooks), at, size);
}

static bool hook_commit(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                        unsigned arena)
{
    (void)at, (void)size, (void)offset, (void)length, (void)arena;
    count_event(backing_of(hooks));
    return false;
}

static bool hook_refuse(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                        unsigned arena)
{
    (void)hooks, (void)at, (void)size, (void)offset, (void)length, (void)arena;
    return true;
}

static bool hook_purge(extent_hooks_t *hooks, void *at, size_t size, size_t offset, size_t length,
                       unsigned arena)
{
    (void)size;
    (void)arena;
    struct jemalloc_backing *self = backing_of(hooks);
    count_event(self);
    if (madvise((char *)at + offset, length, MADV_DONTNEED) != 0)
        return true;
    (void)hearth__fetch_add_relaxed(&self->purged_bytes, length);
    return false;
}

static bool hook_split(extent_hooks_t *hooks, void *at, size_t size, size_t size_a, size_t size_b,
                       bool committed, unsigned arena)
{
    (void)at, (void)size, (void)size_a, (void)size_b, (void)committed, (void)arena;
    count_event(backing_of(hooks));
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b,
                       bool committed, unsigned arena)
{
    (void)a, (void)size_a, (void)b, (void)size_b, (void)committed, (void)arena;
    count_event(backing_of(hooks));
    return false;
}

/* The flags with which a block of this size is obtained. */
static int block_flags(const struct jemalloc_backing *self, size_t bytes, size_t alignment)
{
    /* What counts is the size that jemalloc makes of it. */
    int plain = MALLOCX_ARENA(self->arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(alignment);
    if (self->huge.align && alignment < HEARTH__HUGE_PAGE_BYTES &&
        JE(nallocx)(bytes, plain) >= HEARTH__HUGE_PAGE_BYTES)
        alignment = HEARTH__HUGE_PAGE_BYTES;
    else if (bytes >= LARGE_BYTES && alignment < PAGE_BYTES)
        alignment = PAGE_BYTES;
    return MALLOCX_ARENA(self->arena) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(alignment);
}

/* Huge blocks of other sizes than jemalloc's, such as slabs, are lent no longer than asked for. What lies behind
 * is not used until the block comes back, and so has no pages. */
static size_t lent_length(struct jemalloc_backing *self, char *at, size_t bytes, size_t usable)
{
    size_t length = (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    if (bytes < HEARTH__HUGE_PAGE_BYTES || length >= usable)
        return usable;
    (void)hearth__fetch_add_relaxed(&self->purged_bytes,
                                    hearth__discard_pages(at + length, usable - length));
    count_event(self);
    return length;
}

static enum hearth_status jemalloc_acquire(void *context, size_t bytes, size_t alignment,
                                           struct hearth_segment *segment)
{
    struct jemalloc_backing *self = context;
    int flags = block_flags(self, bytes, alignment);
    void *at = JE(mallocx)(bytes, flags);
    if (at == NULL)
        return HEARTH_NO_MEMORY;
    segment->base = at;
    segment->length = lent_length(self, at, bytes, JE(sallocx)(at, flags));
    if (segment->length >= HEARTH__HUGE_PAGE_BYTES && self->huge.advise) {
        /* A kernel without huge pages refuses; the memory is as good without. */
        (void)madvise(at, segment->length, MADV_HUGEPAGE);
        count_event(self);
    }
    return HEARTH_OK;
}

static void jemalloc_release(void *context, const struct hearth_segment *segment)
{
    struct jemalloc_backing *self = context;
    JE(dallocx)(segment->base, MALLOCX_ARENA(self->arena) | MALLOCX_TCACHE_NONE);
}

/* Write a per-arena control: arena.<i>.<leaf>. */
static int control(unsigned arena, const char *leaf, void *value, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "arena.%u.%s", arena, leaf);
    return JE(mallctl)(name, NULL, NULL, value, bytes);
}

static size_t jemalloc_purge(void *context)
{
    struct jemalloc_backing *self = context;
    uint64_t before = hearth__load_relaxed(&self->purged_bytes);
    (void)control(self->arena, "purge", NULL, 0);
    return (size_t)(hearth__load_relaxed(&self->purged_bytes) - before);
}

/* Pages of a block that is lent: jemalloc makes no use of what it reads as. */
static size_t jemalloc_discard(void *context, void *base, size_t length)
{
    struct jemalloc_backing *self = context;
    size_t bytes = hearth__discard_pages(base, length);
    if (bytes == 0)
        return 0;
    count_event(self);
    (void)hearth__fetch_add_relaxed(&self->purged_bytes, bytes);
    return bytes;
}

static void jemalloc_stats(void *context, struct hearth_backing_stats *stats)
{
    struct jemalloc_backing *self = context;
    stats->page_events = hearth__load_relaxed(&self->page_events);
    stats->mapped_bytes = hearth__load_relaxed(&self->mapped_bytes);
    stats->unmapped_bytes = hearth__load_relaxed(&self->unmapped_bytes);
    stats->purged_bytes = hearth__load_relaxed(&self->purged_bytes);
}

static void jemalloc_destroy(void *context)
{
    struct jemalloc_backing *self = context;
    hearth__store_relaxed(&self->closing, true);
    (void)control(self->arena, "destroy", NULL, 0);
    free(self);
}

static bool create_arena(struct jemalloc_backing *self)
{
    self->hooks = (extent_hooks_t){
        .alloc = hook_alloc,
        .dalloc = hook_dalloc,
        .destroy = hook_destroy,
        .commit = hook_commit,
        .decommit = hook_refuse,
        .purge_lazy = hook_refuse,
        .purge_forced = hook_purge,
        .split = hook_split,
        .merge = hook_merge,
    };
    extent_hooks_t *hooks = &self->hooks;
    size_t index_bytes = sizeof self->arena;
    /* The control takes a pointer. NOLINTNEXTLINE(bugprone-sizeof-expression) */
    if (JE(mallctl)("arenas.create", &self->arena, &index_bytes, &hooks, sizeof hooks) != 0)
        return false;
    ssize_t never = -1;
    return control(self->arena, "dirty_decay_ms", &never, sizeof never) == 0 &&
           control(self->arena, "muzzy_decay_ms", &never, sizeof never) == 0;
}

enum hearth_status hearth_backing_create_jemalloc(const struct hearth_backing_options *options,
                                                  struct hearth_backing **backing)
{
    if (backing == NULL || hearth__backing_options_check(options) != HEARTH_OK)
        return HEARTH_INVALID;
    struct jemalloc_backing *self = calloc(1, sizeof *self);
    if (self == NULL)
        return HEARTH_NO_MEMORY;
    self->huge = hearth__huge_policy(options);
    if (!create_arena(self)) {
        free(self);
        return HEARTH_NO_MEMORY;
    }
    const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .name = "jemalloc",
        .acquire = jemalloc_acquire,
        .release = jemalloc_release,
        .purge = jemalloc_purge,
        .discard = jemalloc_discard,
        .stats = jemalloc_stats,
        .destroy = jemalloc_destroy,
        .flags = HEARTH_BACKING_DISCARD_ZEROES,
    };
    enum hearth_status status = hearth_backing_create(&ops, self, backing);
    if (status != HEARTH_OK)
        jemalloc_destroy(self);
    return status;
}

#endif
