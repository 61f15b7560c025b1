/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runs of a session needed so far, and what any order of execution may need. See demand.c.
 */
#ifndef HEARTH_RUNTIME_DEMAND_H
#define HEARTH_RUNTIME_DEMAND_H

#include "core/atomic.h"
#include "runtime/plan.h"

/* Workspaces of a node that are learned, by the order in which it asks for them. */
#define HEARTH__WORKSPACES_LEARNED 4

typedef _Atomic(size_t) hearth__largest; /* writer: any, by compare-and-swap; only grows */

struct hearth__demand {
    hearth__largest *values;     /* bytes + 1 by value; 0: not made yet */
    hearth__largest *workspaces; /* bytes + 1 by node and order; 0: none */
};

/* Some buffers of one size class that are needed at the same time. */
struct hearth__need {
    size_t bytes;
    size_t count;
};

struct hearth__needs {
    struct hearth__need *list; /* the largest first */
    size_t count;
    size_t room;
};

/* Plans with more nodes are not computed: it takes memory in their square. */
#define HEARTH__DEMAND_NODES_MAX ((size_t)16384)

enum hearth_status hearth__demand_init(struct hearth__demand *demand,
                                       const struct hearth_plan *plan);
void hearth__demand_fini(struct hearth__demand *demand);

static inline void hearth__demand_note(hearth__largest *largest, size_t bytes)
{
    size_t seen = hearth__load_relaxed(largest);
    while (hearth__unlikely(seen <= bytes) && !hearth__cas_weak_relaxed(largest, &seen, bytes + 1))
        ;
}

/* I/O buffers that a run may have out, and those that `threads` threads may keep for themselves meanwhile.
 * Ownership: free needs->list. Returns NO_MEMORY. */
enum hearth_status hearth__demand_outputs(const struct hearth__demand *demand,
                                          const struct hearth_plan *plan, uint32_t threads,
                                          struct hearth__needs *needs);

/* Execution buffers that one thread may have out at the same time, whatever runs where and when.
 * Ownership: free needs->list. Returns OVERFLOW (a larger plan), NO_MEMORY. */
enum hearth_status hearth__demand_needs(const struct hearth__demand *demand,
                                        const struct hearth_plan *plan,
                                        struct hearth__needs *needs);

#endif
