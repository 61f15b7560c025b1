/* SPDX-License-Identifier: Apache-2.0 */
#include "core/backing.h"

#include "core/conf.h"
#include "core/debug.h"
#include "core/misuse.h"
#include "core/perturb.h"

#include <hearth/allocator.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool power_of_two(size_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

enum hearth_status hearth_backing_create(const struct hearth_backing_ops *ops, void *context,
                                         struct hearth_backing **backing)
{
    struct hearth_backing_ops known = {0};
    if (ops == NULL || backing == NULL ||
        (ops->size != sizeof *ops && ops->size != offsetof(struct hearth_backing_ops, flags)))
        return HEARTH_INVALID;
    memcpy(&known, ops, ops->size);
    if (known.acquire == NULL || known.release == NULL ||
        (known.granule != 0 && !power_of_two(known.granule)) ||
        (known.flags & ~(uint64_t)HEARTH_BACKING_DISCARD_ZEROES) != 0 ||
        (known.flags != 0 && known.discard == NULL))
        return HEARTH_INVALID;
    struct hearth_backing *made = calloc(1, sizeof *made);
    if (made == NULL)
        return HEARTH_NO_MEMORY;
    made->ops = known;
    if (made->ops.granule < HEARTH_ALIGNMENT)
        made->ops.granule = HEARTH_ALIGNMENT;
    if (made->ops.name == NULL)
        made->ops.name = "user";
    made->context = context;
    hearth__store_relaxed(&made->references, 1);
    *backing = made;
    return HEARTH_OK;
}

void hearth_backing_ref(struct hearth_backing *backing)
{
    if (backing != NULL)
        (void)hearth__fetch_add_relaxed(&backing->references, 1);
}

void hearth_backing_unref(struct hearth_backing *backing)
{
    if (backing == NULL)
        return;
    /* EDGE backing.references, publish: this thread's use of the backing. */
    /* EDGE backing.references, observe: everybody else's, before it ends. */
    if (hearth__fetch_sub_acq_rel(&backing->references, 1) != 1)
        return;
    if (backing->ops.destroy != NULL)
        backing->ops.destroy(backing->context);
    free(backing);
}

const char *hearth_backing_name(const struct hearth_backing *backing)
{
    return backing == NULL ? "none" : backing->ops.name;
}

enum hearth_status hearth__backing_acquire(struct hearth_backing *backing, size_t bytes,
                                           size_t alignment, struct hearth_segment *segment)
{
    *segment = (struct hearth_segment){0};
    (void)hearth__fetch_add_relaxed(&backing->acquire_calls, 1);
    size_t granule = backing->ops.granule;
    if (__builtin_add_overflow(bytes, granule - 1, &bytes) || bytes > PTRDIFF_MAX) {
        (void)hearth__fetch_add_relaxed(&backing->acquire_failures, 1);
        return HEARTH_NO_MEMORY;
    }
    bytes &= ~(granule - 1);
    HEARTH__PERTURB("backing");
    enum hearth_status status = backing->ops.acquire(backing->context, bytes, alignment, segment);
    if (status == HEARTH_OK &&
        (segment->base == NULL || segment->length < bytes || segment->length % granule != 0 ||
         (uintptr_t)segment->base % alignment != 0)) {
        status = hearth__misuse_detail(HEARTH_NO_MEMORY, backing->ops.name, NULL, segment->base,
                                       "the backing lent less, or less aligned, than was asked, or "
                                       "no multiple of its granule");
        if (segment->base != NULL)
            backing->ops.release(backing->context, segment);
    }
    if (status != HEARTH_OK) {
        (void)hearth__fetch_add_relaxed(&backing->acquire_failures, 1);
        return HEARTH_NO_MEMORY;
    }
    (void)hearth__fetch_add_relaxed(&backing->acquired_bytes, segment->length);
    return HEARTH_OK;
}

void hearth__backing_release(struct hearth_backing *backing, const struct hearth_segment *segment)
{
    (void)hearth__fetch_add_relaxed(&backing->release_calls, 1);
    (void)hearth__fetch_add_relaxed(&backing->released_bytes, segment->length);
    HEARTH__PERTURB("backing");
    hearth__debug_released(segment->base, segment->length);
    backing->ops.release(backing->context, segment);
}

size_t hearth__backing_discard(struct hearth_backing *backing, void *base, size_t length)
{
    if (backing->ops.discard == NULL || length == 0)
        return 0;
    hearth__debug_released(base, length); /* what is there may be written to */
    return backing->ops.discard(backing->context, base, length);
}

size_t hearth__discard_pages(void *base, size_t length)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t before = (page_bytes - (uintptr_t)base % page_bytes) % page_bytes;
    if (length < before + page_bytes)
        return 0;
    size_t bytes = (length - before) & ~(page_bytes - 1);
    return madvise((char *)base + before, bytes, MADV_DONTNEED) == 0 ? bytes : 0;
}

size_t hearth_backing_purge(struct hearth_backing *backing)
{
    if (backing == NULL || backing->ops.purge == NULL)
        return 0;
    (void)hearth__fetch_add_relaxed(&backing->purge_calls, 1);
    return backing->ops.purge(backing->context);
}

size_t hearth_backing_footprint(const struct hearth_backing *backing)
{
    if (backing == NULL)
        return 0;
    /* "in" before "out": a segment whose return is seen was seen lent. Both are relaxed, so a reader
     * on a weakly ordered machine may be off by what is in flight; never below zero. */
    uint64_t released = hearth__load_acquire(&backing->released_bytes);
    uint64_t acquired = hearth__load_acquire(&backing->acquired_bytes);
    return acquired < released ? 0 : (size_t)(acquired - released);
}

enum hearth_status hearth_backing_stats(const struct hearth_backing *backing,
                                        struct hearth_backing_stats *stats)
{
    if (backing == NULL || stats == NULL || stats->size == 0)
        return HEARTH_INVALID;
    struct hearth_backing_stats now = HEARTH_BACKING_STATS_INIT;
    if (backing->ops.stats != NULL)
        backing->ops.stats(backing->context, &now);
    now.release_calls = hearth__load_relaxed(&backing->release_calls);
    now.released_bytes = hearth__load_acquire(&backing->released_bytes);
    now.acquire_calls = hearth__load_relaxed(&backing->acquire_calls);
    now.acquire_failures = hearth__load_relaxed(&backing->acquire_failures);
    now.acquired_bytes = hearth__load_relaxed(&backing->acquired_bytes);
    now.purge_calls = hearth__load_relaxed(&backing->purge_calls);
    now.size = stats->size;
    memcpy(stats, &now, stats->size < sizeof now ? stats->size : sizeof now);
    return HEARTH_OK;
}

enum hearth_status hearth__backing_options_check(const struct hearth_backing_options *options)
{
    if (options == NULL)
        return HEARTH_OK;
    return options->size == sizeof *options && options->huge_pages <= HEARTH_HUGE_PAGES_ON &&
                   options->reserved == 0
               ? HEARTH_OK
               : HEARTH_INVALID;
}

/* Whether the kernel's mode for transparent huge pages is "madvise", the one in which advice both is
 * needed and helps. */
static bool system_wants_advice(void)
{
    char mode[128];
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file == NULL)
        return false;
    bool wanted = fgets(mode, sizeof mode, file) != NULL && strstr(mode, "[madvise]") != NULL;
    fclose(file);
    return wanted;
}

struct hearth__huge_policy hearth__huge_policy(const struct hearth_backing_options *options)
{
    switch (options == NULL ? HEARTH_HUGE_PAGES_DEFAULT : options->huge_pages) {
    case HEARTH_HUGE_PAGES_OFF:
        return (struct hearth__huge_policy){false, false};
    case HEARTH_HUGE_PAGES_ON:
        return (struct hearth__huge_policy){true, true};
    default:
        return (struct hearth__huge_policy){true, system_wants_advice()};
    }
}

enum hearth_status hearth__backing_create_default(struct hearth_backing **backing)
{
    struct hearth__conf conf;
    enum hearth_status status = hearth__conf_environment("hearth_backing_default", &conf);
    if (status != HEARTH_OK)
        return status;
    struct hearth_backing_options options = HEARTH_BACKING_OPTIONS_INIT;
    if (conf.has_huge_pages)
        options.huge_pages = conf.huge_pages;
    if ((conf.debug & HEARTH__DEBUG_GUARD) != 0)
        return hearth__backing_create_guard(backing);
    switch (conf.backing) {
    case HEARTH__CONF_BACKING_JEMALLOC:
        return hearth_backing_create_jemalloc(&options, backing);
    case HEARTH__CONF_BACKING_MMAP:
        return hearth_backing_create_mmap(&options, backing);
    default:
#if defined(HEARTH_DEFAULT_BACKING_JEMALLOC)
        return hearth_backing_create_jemalloc(&options, backing);
#else
        return hearth_backing_create_mmap(&options, backing);
#endif
    }
}

enum hearth_status hearth_backing_default(struct hearth_backing **backing)
{
    static _Atomic(struct hearth_backing *) shared;
    if (backing == NULL)
        return HEARTH_INVALID;
    /* EDGE backing.default, observe: the backing's members. */
    struct hearth_backing *present = hearth__load_acquire(&shared);
    if (present == NULL) {
        struct hearth_backing *made;
        enum hearth_status status = hearth__backing_create_default(&made);
        if (status != HEARTH_OK)
            return status;
        /* EDGE backing.default, publish: the backing's members. */
        if (hearth__cas_acq_rel(&shared, &present, made))
            present = made;
        else
            hearth_backing_unref(made);
    }
    *backing = present;
    return HEARTH_OK;
}
