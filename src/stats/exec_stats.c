/* SPDX-License-Identifier: Apache-2.0 */
#include "concurrent/exec.h"

#include <hearth/stats.h>

#include <string.h>

/* Readings tried before one is given out as it is. */
#define ATTEMPTS 8

static void fill(const struct hearth_exec *arena, const struct hearth__exec_reading *now,
                 struct hearth_exec_stats *stats)
{
    const struct hearth__exec_cells *cells = &arena->cells;
    stats->live_count = hearth__exec_live_count(now);
    stats->live_bytes = hearth__exec_live_bytes(now);
    stats->live_capacity = hearth__exec_live_capacity(now);
    stats->peak_bytes = now->peak;
    stats->retained_count = hearth__exec_retained_count(now);
    stats->retained_bytes = hearth__exec_retained_bytes(now);
    stats->pending_count = hearth__exec_pending_count(now);
    stats->pending_bytes = hearth__exec_pending_bytes(now);
    stats->footprint = hearth__exec_footprint(now);
    stats->retention_cap = hearth__load_relaxed(&arena->retention_cap);
    stats->slots = arena->slots.limit;
    stats->allocs = hearth__exec_allocs(now);
    stats->frees = hearth__exec_frees(now);
    stats->remote_frees = now->remote_frees + now->pending.count;
    stats->misses = now->misses;
    stats->hits = stats->allocs > stats->misses ? stats->allocs - stats->misses : 0;
    stats->backing_acquires = now->obtained_count - now->pieces_in;
    stats->backing_releases = now->given_count - now->pieces_out;
    stats->evictions = hearth__load_relaxed(&cells->evictions);
    stats->bypasses = hearth__load_relaxed(&cells->bypasses);
    stats->trims = hearth__load_relaxed(&cells->trims);
    stats->misuses = hearth__load_relaxed(&arena->misuses);
    stats->runs = hearth__load_relaxed(&cells->runs);
    stats->planned_runs = hearth__load_relaxed(&cells->planned_runs);
    stats->plan_hits = hearth__load_relaxed(&cells->plan_hits);
    stats->plan_misses = hearth__load_relaxed(&cells->plan_misses);
    stats->plan_blocked = hearth__load_relaxed(&cells->plan_blocked);
    stats->plans_made = hearth__load_relaxed(&cells->plans_made);
    stats->plans = hearth__load_relaxed(&cells->plans);
    stats->slab_bytes = hearth__load_relaxed(&cells->slab_bytes);
    stats->plan_bytes = hearth__load_relaxed(&cells->plan_bytes);
    stats->plan_bound = hearth__load_relaxed(&cells->plan_bound);
    stats->purged_bytes = hearth__load_relaxed(&cells->purged_bytes);
    uint64_t cold = hearth__load_relaxed(&arena->cold_bytes);
    stats->cold_bytes = cold < stats->retained_bytes ? cold : stats->retained_bytes;
    stats->rearrangements = hearth__load_relaxed(&cells->rearrangements);
}

enum hearth_status hearth_exec_stats(const struct hearth_exec *arena,
                                     struct hearth_exec_stats *stats)
{
    if (arena == NULL || stats == NULL || stats->size == 0)
        return HEARTH_INVALID;
    struct hearth__exec_reading now = hearth__exec_read(arena);
    struct hearth_exec_stats made = {.size = stats->size};
    for (unsigned i = 0; i < ATTEMPTS && !made.consistent; i++) {
        /* An operation moves its cells inside the section. One that was half done in the first reading
         * either still is inside when the gate is read, or moves a cell before the second reading. */
        bool busy = hearth__section_busy(&arena->section);
        struct hearth__exec_reading again = hearth__exec_read(arena);
        made.consistent = !busy && hearth__exec_reading_equal(&now, &again);
#ifdef HEARTH_BROKEN_CONSISTENT_BLIND
        made.consistent = true;
#endif
        now = again;
    }
    fill(arena, &now, &made);
    memcpy(stats, &made, stats->size < sizeof made ? stats->size : sizeof made);
    return HEARTH_OK;
}
