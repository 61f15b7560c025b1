/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that is wrong on purpose, for tests: now and then it hands out memory that is in
 * use or was exported, and refuses a free. It shows that a replay which reports no errors would
 * have noticed some.
 * Memory comes from mmap and is never given back, so that only the marks can notice the overlap.
 */
#include "replay_allocator.h"

#include <sys/mman.h>

/* Often enough for the smallest trace to meet it in each run. */
#define WRONG_EVERY 16u

static enum hearth_status thread_nothing(struct replay_allocator *self, struct replay_lane *lane)
{
    (void)self;
    (void)lane;
    return HEARTH_OK;
}

static enum hearth_status take(struct replay_lane *lane, size_t bytes, bool exported,
                               struct replay_block *block)
{
    lane->backing_calls++;
    if (lane->last_exported != NULL && lane->last_exported_bytes >= bytes) {
        block->data = lane->last_exported; /* Whoever it was handed to still reads it. */
        lane->last_exported = NULL;
        return HEARTH_OK;
    }
    if (lane->backing_calls % WRONG_EVERY == 0 && lane->last_bytes >= bytes) {
        block->data = lane->last;
        return HEARTH_OK;
    }
    block->data = mmap(NULL, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block->data == MAP_FAILED) {
        return HEARTH_NO_MEMORY;
    }
    lane->last = block->data;
    lane->last_bytes = bytes;
    if (exported) {
        lane->last_exported = block->data;
        lane->last_exported_bytes = bytes;
    }
    return HEARTH_OK;
}

static enum hearth_status give(struct replay_lane *lane, struct replay_block *block)
{
    (void)block;
    lane->backing_calls++;
    return lane->backing_calls % WRONG_EVERY == 0 ? HEARTH_STALE : HEARTH_OK;
}

static void snapshot(struct replay_allocator *self, struct replay_snapshot *snapshot)
{
    (void)self;
    *snapshot = (struct replay_snapshot){0};
}

static enum hearth_status destroy(struct replay_allocator *self)
{
    (void)self;
    return HEARTH_OK;
}

static const struct replay_allocator_ops broken_ops = {
    .thread_begin = thread_nothing,
    .thread_end = thread_nothing,
    .alloc = take,
    .free = give,
    .snapshot = snapshot,
    .destroy = destroy,
};

static struct replay_allocator broken = {.ops = &broken_ops, .name = "broken"};

struct replay_allocator *replay_broken_create(void)
{
    return &broken;
}
