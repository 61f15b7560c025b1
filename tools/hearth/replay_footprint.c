/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_footprint.h"

#include "replay_engine.h"

#include <hearth/stats.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Makes the kernel forget the largest number of resident pages. */
static bool forget_resident_peak(void)
{
    int file = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, "5", 1) == 1;
    if (file >= 0) {
        close(file);
    }
    return done;
}

/* Most resident bytes since then. Without stdio, which would take memory. 0: not told. */
static uint64_t resident_peak(void)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        close(file);
    }
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    const char *at = strstr(text, "VmHWM:");
    return at != NULL ? strtoull(at + strlen("VmHWM:"), NULL, 10) * 1024 : 0;
}

static uint64_t resident_now(void)
{
    struct hearth_page_stats pages = HEARTH_PAGE_STATS_INIT;
    hearth_page_stats(HEARTH_SCOPE_PROCESS, &pages);
    return pages.resident_bytes;
}

/* The arenas' own figures, or all at once where slabs are lent. */
static uint64_t exec_footprint(const struct replay_engine *engine,
                               const struct replay_snapshot *snapshot)
{
    const struct replay_allocator *allocator = engine->job->allocator;
    uint64_t sum = 0;
    if (!allocator->has_arenas || allocator->lends_slabs) {
        return snapshot->exec_footprint;
    }
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        sum += replay_read_exec(&engine->workers[i]).footprint;
    }
    return sum;
}

static void read_into(struct replay_engine *engine, struct replay_snapshot *snapshot)
{
    struct replay_footprint *footprint = &engine->footprint;
    struct replay_allocator *allocator = engine->job->allocator;
    allocator->ops->snapshot(allocator, snapshot);
    snapshot->exec_footprint = exec_footprint(engine, snapshot);
    if (snapshot->footprint > footprint->peak) {
        footprint->peak = snapshot->footprint;
    }
    if (snapshot->exec_footprint > footprint->exec_peak) {
        footprint->exec_peak = snapshot->exec_footprint;
    }
}

void replay_footprint_begin(struct replay_engine *engine)
{
    struct replay_snapshot snapshot = {0};
    read_into(engine, &snapshot);
    engine->footprint.base = snapshot.footprint;
    engine->footprint.rss_base = resident_now();
}

void replay_footprint_restart(struct replay_engine *engine)
{
    struct replay_snapshot snapshot = {0};
    engine->footprint.peak = 0;
    engine->footprint.exec_peak = 0;
    read_into(engine, &snapshot);
    if (!forget_resident_peak()) {
        engine->footprint.rss_base = 0;
    }
}

void replay_footprint_snapshot(struct replay_engine *engine, uint32_t number)
{
    read_into(engine, &engine->snapshots[number]);
}

void replay_footprint_sample(struct replay_engine *engine)
{
    struct replay_snapshot snapshot = {0};
    read_into(engine, &snapshot);
}

void replay_footprint_touched(struct replay_engine *engine)
{
    uint64_t peak = resident_peak();
    uint64_t base = engine->footprint.rss_base;
    engine->footprint.rss_peak = base != 0 && peak > base ? peak - base : 0;
}
