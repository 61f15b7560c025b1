/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation ids of a trace, and what is known about each. Open addressing; ids are never removed,
 * so that a second free can be told from the free of an id that never was. */
#ifndef HEARTH_TOOL_TRACE_IDS_H
#define HEARTH_TOOL_TRACE_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_id {
    uint64_t id;
    uint64_t bytes;
    uint32_t alloc_line;
    uint32_t free_line; /* 0 while live. */
    uint32_t export_line;
    uint32_t alloc_event; /* Index of the alloc event. */
    bool used;
};

struct trace_ids {
    struct trace_id *entries;
    size_t capacity; /* Power of two, or 0. */
    size_t count;
};

/** The entry of an id, or NULL. Valid until the next trace_ids_add(). */
struct trace_id *trace_ids_find(const struct trace_ids *ids, uint64_t id);

/** Add an id that is not there yet. NULL: no memory. Valid until the next trace_ids_add(). */
struct trace_id *trace_ids_add(struct trace_ids *ids, uint64_t id);

void trace_ids_destroy(struct trace_ids *ids);

#endif
