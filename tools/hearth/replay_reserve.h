/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm-up of what all threads share. A thread's own arena has all it needs after it saw the
 * trace; of a shared one each pass needs as much as happens to be out at the same moment, and with
 * clones that run freely the worst moment may come late. So the worst moment is made to happen
 * first, once: each clone takes all that it will ever have out, and none gives anything back before
 * all have done so. That asks nothing of the allocator: whether its threads share what is free or
 * keep it for themselves, each finds what it needs.
 */
#ifndef HEARTH_TOOL_REPLAY_RESERVE_H
#define HEARTH_TOOL_REPLAY_RESERVE_H

#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct replay_engine;
struct replay_worker;

/* Sizes of exported allocations that may share storage: all between a third of `bytes` and it. */
struct replay_size_group {
    uint64_t bytes;
    uint32_t most; /* Of one clone's at a time. */
};

/* As many groups as there are powers of 3 in 64 bits. */
#define REPLAY_SIZE_GROUPS 42u

/**
 * Find the groups, largest first, and what one clone may have out of each at a time. Returns their
 * number; -1: no memory. `consumers`: whether there are any; without, nothing is held.
 */
int replay_size_groups(const struct trace *trace, bool consumers, uint32_t hold,
                       struct replay_size_group groups[REPLAY_SIZE_GROUPS]);

/** Make the worst moment happen, and let each consumer see one allocation. Call in a pass of mode
 *  REPLAY_RESERVE, in all workers; it waits for one of each clone. */
void replay_reserve(struct replay_worker *worker);

#endif
