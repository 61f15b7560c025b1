/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: giving retained storage back when asked, and changing the cap.
 *
 * Nobody waits for a trim. It visits the caches of threads that are not inside an operation, which sends
 * their contents to the shared lists, asks the others to do the same themselves at their next general
 * call, and pops or evicts from the lists in steps of a few dozen.
 */
#include "concurrent/io.h"

#include "concurrent/membarrier.h"

#include "core/clock.h"
#include "core/misuse.h"

#include <string.h>

/* Outside: the calling thread's own magazines, too, go to the lists. */
static struct hearth__io_pass gather(struct hearth_io *arena)
{
    struct hearth__io_access access;
    hearth__io_enter(arena, &access);
    if (access.cache != NULL)
        (void)hearth__io_cache_flush(arena, access.cache);
    hearth__io_leave(&access);
    return hearth__io_visit_all(arena);
}

static size_t release(struct hearth_io *arena, size_t goal, uint64_t deadline)
{
    struct hearth__io_access access;
    hearth__io_enter(arena, &access);
    size_t released = goal == SIZE_MAX ? hearth__io_drain_lists(&access, goal, deadline)
                                       : hearth__io_evict(&access, goal, false, deadline);
    hearth__io_leave(&access);
    return released;
}

static void fill_report(struct hearth_io *arena, struct hearth_trim_report *report)
{
    struct hearth__io_reading now;
    hearth__io_read(arena, &now);
    uint64_t leased = hearth__io_leased_capacity(&now);
    uint64_t live = hearth__io_live_capacity(&now);
    report->kept_leased = leased;
    report->kept_live = live > leased ? live - leased : 0;
    uint64_t lost = hearth__load_relaxed(&arena->lost_bytes);
    uint64_t retained = hearth__io_retained_bytes(&now);
    report->kept_lost = lost < retained ? lost : retained;
    uint64_t rest = retained - report->kept_lost;
    if (report->busy_caches != 0)
        report->kept_busy = rest;
    else
        report->kept_unreached = rest;
}

static void copy_report(const struct hearth_trim_report *made, struct hearth_trim_report *report)
{
    size_t size = report->size;
    memcpy(report, made, size < sizeof *made ? size : sizeof *made);
    report->size = size;
}

enum hearth_status hearth_io_trim_ex(struct hearth_io *arena, size_t goal, uint64_t budget_ns,
                                     struct hearth_trim_report *report)
{
    struct hearth_trim_report made = HEARTH_TRIM_REPORT_INIT;
    if (arena == NULL || (report != NULL && report->size < sizeof report->size))
        return hearth__io_misuse(arena, HEARTH_INVALID, "hearth_io_trim", NULL);
    uint64_t began = hearth__now_ns();
    uint64_t deadline = budget_ns == 0 ? 0 : began + budget_ns;
    if (deadline < budget_ns)
        deadline = UINT64_MAX;
    enum hearth_status status = HEARTH_OK;
    if (budget_ns == 0)
        status = hearth_io_tick();
    else if (hearth__reclaim_pending())
        made.more = 1;
    (void)hearth__fetch_add_relaxed(&arena->trims, 1);
    struct hearth__io_pass pass = gather(arena);
    made.visited_caches = pass.visited;
    made.busy_caches = pass.busy;
    size_t released = release(arena, goal, deadline);
    made.released_bytes = released;
    made.released_io_bytes = released;
    if (deadline == 0 || hearth__now_ns() < deadline)
        made.purged_bytes = hearth_backing_purge(arena->backing);
    bool evicting = hearth__load_relaxed(&arena->evicting) != 0;
    if (released < goal && (evicting || (deadline != 0 && hearth__now_ns() >= deadline)))
        made.more = 1;
    made.elapsed_ns = hearth__now_ns() - began;
    if (report != NULL) {
        fill_report(arena, &made);
        copy_report(&made, report);
    }
    return status;
}

enum hearth_status hearth_io_trim(struct hearth_io *arena, size_t *released)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    enum hearth_status status = hearth_io_trim_ex(arena, SIZE_MAX, 0, &report);
    if (released != NULL && arena != NULL)
        *released = (size_t)report.released_bytes;
    return status;
}

enum hearth_status hearth_io_set_retention_cap(struct hearth_io *arena, size_t bytes)
{
    if (arena == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, "hearth_io_set_retention_cap", NULL);
    size_t before = hearth__load_relaxed(&arena->retention_cap);
    while (!hearth__cas_weak_relaxed(&arena->retention_cap, &before, bytes))
        ;
    hearth__io_credit_change(arena, before, bytes);
    if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    hearth__io_alert(arena, HEARTH__ATTENTION_CREDIT);
    if (bytes >= before)
        return HEARTH_OK;
    (void)gather(arena);
    struct hearth__io_access access;
    hearth__io_enter(arena, &access);
    hearth__io_evict_excess(&access);
    hearth__io_leave(&access);
    return HEARTH_OK;
}

enum hearth_status hearth_io_reset_peak(struct hearth_io *arena)
{
    if (arena == NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, "hearth_io_reset_peak", NULL);
    hearth__store_relaxed(&arena->base, hearth_io_live_bytes(arena));
    hearth__store_relaxed(&arena->net, 0);
    hearth__store_relaxed(&arena->peak, 0);
    /* EDGE io.epoch, publish: the base. */
    (void)hearth__fetch_add_release(&arena->epoch, 1);
    if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    hearth__io_alert(arena, HEARTH__ATTENTION_PEAK);
    return HEARTH_OK;
}
