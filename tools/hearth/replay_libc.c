/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc and free under test: glibc's own, or jemalloc's when it was loaded in its place. Every
 * call reaches the general allocator, so every call is a backing call.
 */
#include "replay_allocator.h"

#include "replay_mallctl.h"

#include <hearth/stats.h>

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

static enum hearth_status thread_begin(struct replay_allocator *self, struct replay_lane *lane)
{
    (void)self;
    (void)lane;
    return HEARTH_OK;
}

static enum hearth_status take(struct replay_lane *lane, size_t bytes, bool exported,
                               struct replay_block *block)
{
    (void)exported;
    lane->backing_calls++;
    block->data = malloc(bytes != 0 ? bytes : 1); /* malloc(0) may be NULL. */
    return block->data != NULL ? HEARTH_OK : HEARTH_NO_MEMORY;
}

static enum hearth_status give(struct replay_lane *lane, struct replay_block *block)
{
    lane->backing_calls++;
    free(block->data);
    return HEARTH_OK;
}

/* What glibc holds of the kernel's memory: its heaps and its mmapped chunks. */
static void glibc_snapshot(struct replay_allocator *self, struct replay_snapshot *snapshot)
{
    (void)self;
    struct mallinfo2 info = mallinfo2();
    *snapshot = (struct replay_snapshot){.footprint = info.arena + info.hblkhd};
}

/* What jemalloc keeps resident, dirty pages included; the process's resident bytes where it was
 * built without statistics. */
static void jemalloc_snapshot(struct replay_allocator *self, struct replay_snapshot *snapshot)
{
    (void)self;
    size_t resident = 0;
    if (!replay_mallctl_resident(&resident)) {
        struct hearth_page_stats pages = HEARTH_PAGE_STATS_INIT;
        hearth_page_stats(HEARTH_SCOPE_PROCESS, &pages);
        resident = (size_t)pages.resident_bytes;
    }
    *snapshot = (struct replay_snapshot){.footprint = resident};
}

static enum hearth_status destroy(struct replay_allocator *self)
{
    (void)self;
    return HEARTH_OK;
}

static const struct replay_allocator_ops glibc_ops = {
    .thread_begin = thread_begin,
    .thread_end = thread_begin,
    .alloc = take,
    .free = give,
    .snapshot = glibc_snapshot,
    .destroy = destroy,
};

static const struct replay_allocator_ops jemalloc_ops = {
    .thread_begin = thread_begin,
    .thread_end = thread_begin,
    .alloc = take,
    .free = give,
    .snapshot = jemalloc_snapshot,
    .destroy = destroy,
};

static struct replay_allocator glibc = {.ops = &glibc_ops, .name = "malloc"};
static struct replay_allocator jemalloc = {.ops = &jemalloc_ops, .name = "jemalloc"};

bool replay_malloc_possible(char message[REPLAY_MESSAGE_BYTES])
{
    if (replay_mallctl_present()) {
        snprintf(message, REPLAY_MESSAGE_BYTES,
                 "--allocator malloc: jemalloc replaces malloc in this process; unset LD_PRELOAD, "
                 "or build hearth with HEARTH_JEMALLOC=private");
        return false;
    }
    return true;
}

struct replay_allocator *replay_malloc_create(char message[REPLAY_MESSAGE_BYTES])
{
    if (!replay_malloc_possible(message)) {
        return NULL;
    }
    malloc_trim(0); /* Start cold, as far as glibc lets us. */
    return &glibc;
}

struct replay_allocator *replay_jemalloc_create(char message[REPLAY_MESSAGE_BYTES])
{
    if (!replay_mallctl_present()) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "--allocator jemalloc: jemalloc is not loaded");
        return NULL;
    }
    replay_mallctl_purge(); /* Start cold. */
    return &jemalloc;
}
