/* SPDX-License-Identifier: Apache-2.0 */
#include "concurrent/io.h"

#include <hearth/stats.h>

#include <string.h>

/* Readings tried before one is given out as it is. */
#define ATTEMPTS 8

static void fill(const struct hearth_io *arena, const struct hearth__io_reading *now,
                 struct hearth_io_stats *stats)
{
    stats->live_count = hearth__io_live_count(now);
    stats->owned_count = hearth__io_owned_count(now);
    stats->leased_count = hearth__io_leased_count(now);
    stats->live_bytes = hearth__io_live_bytes(now);
    stats->leased_bytes = hearth__io_leased_bytes(now);
    stats->live_capacity = hearth__io_live_capacity(now);
    stats->peak_bytes = hearth_io_peak_bytes(arena);
    stats->retained_count = hearth__io_retained_count(now);
    stats->retained_bytes = hearth__io_retained_bytes(now);
    stats->footprint = hearth__io_footprint(now);
    stats->retention_cap = hearth_io_retention_cap(arena);
    stats->slots = arena->slots_limit;
    stats->misses = now->misses;
    stats->backing_acquires = now->obtained_count;
    stats->backing_releases = now->given_count;
    stats->exports = now->exports;
    stats->refills = now->refills;
    stats->flushes = now->flushes;
    stats->evictions = now->evictions;
    stats->bypasses = now->bypasses;
    stats->trims = hearth__load_relaxed(&arena->trims);
    stats->lost_bytes = hearth__load_relaxed(&arena->lost_bytes);
    stats->misuses = hearth__load_relaxed(&arena->misuses);
}

enum hearth_status hearth_io_stats(const struct hearth_io *arena, struct hearth_io_stats *stats)
{
    if (arena == NULL || stats == NULL || stats->size == 0)
        return HEARTH_INVALID;
    struct hearth__io_reading now;
    hearth__io_read(arena, &now);
    struct hearth_io_stats made = {.size = stats->size};
    for (unsigned i = 0; i < ATTEMPTS && !made.consistent; i++) {
        /* As for execution arenas: an operation is inside, or has moved a cell before the second reading. */
        struct hearth__io_reading again;
        bool busy = hearth__io_busy(arena);
        hearth__io_read(arena, &again);
        made.consistent = !busy && hearth__io_reading_equal(&now, &again);
        now = again;
    }
    fill(arena, &now, &made);
    memcpy(stats, &made, stats->size < sizeof made ? stats->size : sizeof made);
    return HEARTH_OK;
}
