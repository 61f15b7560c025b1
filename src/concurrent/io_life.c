/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: creation, references, close, and the end.
 *
 * Problem. The arena ends when it was closed, its last reference is gone, and everything came home; exactly
 * once, by whoever makes that true. Counting what is out by one shared counter would cost every lease and
 * every release a locked instruction on a line that all threads fight for. The threads' cells count for
 * nothing, but nobody can read all of them at one moment.
 *
 * Picture.
 *
 *     close:       flag, membarrier, CLOSED in every cache's attention word        returns at once
 *     last unref:  close, then wait for a protected period: each section that may have seen the flag
 *                  clear has ended, and with it its count
 *     complete:    drain lists and caches; live = sum of the cells
 *                  outstanding += live - BIAS
 *
 *     a return     flag clear: counts in its cell.   flag set: outstanding -= 1, its last touch
 *
 *     outstanding:   BIAS ... BIAS - k (k came home after the flag) ... + live - BIAS ... live - k ... 0
 *
 * `live` counts what was out when the last section that saw the flag clear had ended; it does not change any
 * more. Each buffer among it comes home through `outstanding`, before or after the sum is added. So the word
 * is zero exactly once, when the bias is gone and all are home; whoever brought it there ends the arena.
 *
 * Ends. Slots, lists and the core go to their pools, caches to theirs (io_cache.c). Generations live on in the
 * slots, so stale leases are answered for ever.
 *
 * Progress. close is lock-free, a return never waits. The last unref waits for the protected period, unless
 * it is called where it must not (a read section of the caller's own, a signal handler in the middle of an
 * operation): then the arena waits on the list of reclaim.c for the next one who may.
 *
 * Ordering. io.outstanding in docs/memory-model.md. Variants: no_grace (the sum is taken too early), io_unbiased.
 */
#include "concurrent/io.h"

#include "concurrent/membarrier.h"
#include "concurrent/service.h"
#include "core/conf.h"
#include "core/misuse.h"
#include "core/options.h"
#include "core/perturb.h"

#include <hearth/exec.h>

#include <sched.h>
#include <string.h>

#define SLOTS_DEFAULT ((size_t)1 << 20)

static enum hearth_status merge_options(const struct hearth_io_options *given,
                                        struct hearth_io_options *options, uint32_t *debug)
{
    static const char call[] = "hearth_io_create";
    struct hearth__conf conf;
    *options = (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT;
    if (given != NULL) {
        bool known = given->size == sizeof *given && given->reserved == 0;
        if (!hearth__options_known(call, given, known))
            return HEARTH_INVALID;
        *options = *given;
    }
    enum hearth_status status = hearth__conf_environment(call, &conf);
    if (status != HEARTH_OK)
        return status;
    if (conf.has_io_cap)
        options->retention_cap = conf.io_cap == 0 ? HEARTH_RETAIN_NOTHING : conf.io_cap;
    *debug = hearth__debug_arena(conf.debug);
    if ((*debug & HEARTH__DEBUG_SITES) != 0)
        hearth__site_prepare();
    if (options->live_limit == 0)
        options->live_limit = HEARTH_UNBOUNDED;
    const struct hearth__common_options common = {&options->retention_cap, &options->slots,
                                                  &options->reuse_ratio, &options->backing};
    return hearth__options_complete(&common, &conf, SLOTS_DEFAULT);
}

static void lists_init(struct hearth__io_list *lists)
{
    for (size_t i = 0; i <= HEARTH__CLASS_COUNT; i++) {
        hearth__stack_init(&lists[i * HEARTH__IO_LIST_STRIDE].top);
        hearth__stack_init(&lists[i * HEARTH__IO_LIST_STRIDE].below);
    }
}

static void wait_for_sections(struct hearth__retired *retired);
static void complete(struct hearth__retired *retired);

static void join(struct hearth_io *core, size_t live_limit, const struct hearth__io_host *host)
{
    core->service = host == NULL ? NULL : host->service;
    core->budget = host == NULL ? &core->own : host->budget;
    core->fixed = host != NULL && host->exhaustion == HEARTH_EXHAUSTION_FAIL;
    core->waits = host != NULL && host->exhaustion == HEARTH_EXHAUSTION_WAIT;
    if (host == NULL) {
        const struct hearth__budget_limits limits = {
            .ceiling = HEARTH_UNBOUNDED,
            .grant = 1,
            .live_limit = live_limit,
            .metered = live_limit != HEARTH_UNBOUNDED,
        };
        hearth__budget_init(&core->own, &limits);
    }
    hearth__ages_init(&core->ages);
    hearth__ages_init(&core->run_ages);
    core->seen = 0;
    core->flushed_ms = 0;
    core->sweep_at = 0;
    core->sweep_slot = 0;
    hearth__store_relaxed(&core->seen_clock, 0);
    core->seen_tick = 0;
    core->seen_at_work = false;
}

static void core_init(struct hearth_io *core, const struct hearth_io_options *options,
                      uint32_t debug, const struct hearth__io_host *host,
                      struct hearth__io_list *lists)
{
    core->allocator.ops = &hearth__io_ops;
    core->lists = lists;
    lists_init(lists);
    core->debug = debug;
    join(core, options->live_limit, host);
    core->plain = debug == 0 && !core->budget->metered;
    core->backing = options->backing;
    hearth_backing_ref(options->backing);
    core->slots_limit = options->slots;
    hearth__rounding_init(&core->rounding, options->reuse_ratio, options->backing->ops.granule);
    hearth__io_credit_init(core, options->retention_cap);
    hearth__store_relaxed(&core->closed, 0);
    hearth__store_relaxed(&core->epoch, 1);
    hearth__store_relaxed(&core->base, 0);
    hearth__store_relaxed(&core->aligned, NULL);
    hearth__store_relaxed(&core->caches, NULL);
    hearth__store_relaxed(&core->segments, NULL);
    hearth__store_relaxed(&core->clock, 0);
    hearth__store_relaxed(&core->net, 0);
    hearth__store_relaxed(&core->peak, 0);
    hearth__store_relaxed(&core->slots_used, 0);
    hearth__stack_init(&core->unused);
    hearth__store_relaxed(&core->references, 1);
    hearth__store_relaxed(&core->outstanding, HEARTH__IO_BIAS);
    hearth__store_relaxed(&core->evicting, 0);
    hearth__store_relaxed(&core->inside, 0);
    hearth__store_relaxed(&core->trims, 0);
    hearth__store_relaxed(&core->misuses, 0);
    hearth__store_relaxed(&core->lost_bytes, 0);
    memset(&core->shared, 0, sizeof core->shared);
    memset(&core->after, 0, sizeof core->after);
    hearth__store_relaxed(&core->detaining, 0);
    core->quarantine = (struct hearth__quarantine){0};
    core->retired = (struct hearth__retired){.wait = wait_for_sections, .after = complete};
}

enum hearth_status hearth_io_create(const struct hearth_io_options *given, struct hearth_io **arena)
{
    struct hearth_io_options options;
    uint32_t debug;
    if (arena == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_io_create", NULL, NULL);
    enum hearth_status status = merge_options(given, &options, &debug);
    return status == HEARTH_OK ? hearth__io_make(&options, debug, NULL, arena) : status;
}

enum hearth_status hearth__io_make(const struct hearth_io_options *options, uint32_t debug,
                                   const struct hearth__io_host *host, struct hearth_io **arena)
{
    /* What was left over goes first, so that its memory can serve the new arena. */
    if (!hearth__reclaim_may_wait() || hearth__io_thread_inside())
        return HEARTH_BUSY;
    if (hearth__reclaim_pending())
        (void)hearth__reclaim_run();
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_IO);
    struct hearth__segment *lists = hearth__segment_acquire(HEARTH__SEGMENT_IO_LISTS);
    if (segment == NULL || lists == NULL) {
        if (segment != NULL)
            hearth__segment_release(segment);
        if (lists != NULL)
            hearth__segment_release(lists);
        return HEARTH_NO_MEMORY;
    }
    struct hearth_io *core = hearth__segment_core(segment);
    core_init(core, options, debug, host, hearth__segment_core(lists));
    (void)hearth__io_slots_add(core, segment);
    *arena = core;
    return HEARTH_OK;
}

void hearth_io_ref(struct hearth_io *arena)
{
    if (arena != NULL)
        (void)hearth__fetch_add_relaxed(&arena->references, 1);
}

/* Nothing is out and nothing is retained: give the memory back. */
static void finish(struct hearth_io *arena)
{
    struct hearth_backing *backing = arena->backing;
    struct hearth_service *service = arena->service;
    if (service == NULL)
        hearth__budget_fini(&arena->own);
    hearth__io_caches_end(arena);
    hearth__segment_release(hearth__core_segment(arena->lists));
    struct hearth__io_list *aligned = hearth__load_acquire(&arena->aligned);
    if (aligned != NULL)
        hearth__segment_release(hearth__core_segment(aligned));
    struct hearth__segment *next;
    /* EDGE io.segments, observe: the list. The core's own segment comes last. */
    struct hearth__segment *segment = hearth__load_acquire(&arena->segments);
    for (; segment != NULL; segment = next) {
        next = segment->next;
        hearth__segment_release(segment);
    }
    hearth_backing_unref(backing);
    if (service != NULL)
        hearth__service_let_go(service);
}

/* Set the flag. False if it was set before. */
static bool close_once(struct hearth_io *arena)
{
    uint32_t open = 0;
    if (!hearth__cas_acq_rel(&arena->closed, &open, 1))
        return false;
    HEARTH__PERTURB("io.attach");
    /* A cache that was linked before is found by the walk; one linked later finds the flag. */
    if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    hearth__io_alert(arena, HEARTH__ATTENTION_CLOSED);
    return true;
}

/* Sections that may have begun before the flag was seen. */
static void wait_for_sections(struct hearth__retired *retired)
{
    struct hearth_io *arena =
        (struct hearth_io *)(void *)((char *)retired - offsetof(struct hearth_io, retired));
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (; cache != NULL; cache = cache->next_in_arena)
        while (hearth__section_busy(&cache->section))
            (void)sched_yield();
}

/* After the protected period: nobody uses lists and caches any more. */
static void complete(struct hearth__retired *retired)
{
    struct hearth_io *arena =
        (struct hearth_io *)(void *)((char *)retired - offsetof(struct hearth_io, retired));
    struct hearth__io_access access = {.arena = arena, .closed = true, .cells = &arena->after};
    hearth__io_caches_empty(arena);
    hearth__reclaim_enter();
    (void)hearth__fetch_add_relaxed(&arena->inside, 1);
    (void)hearth__io_drain_lists(&access, SIZE_MAX, 0);
    hearth__io_leave(&access);
    (void)hearth_backing_purge(arena->backing);

    hearth__weight live = 0;
    const struct hearth__io_cells *cells = &arena->shared;
    struct hearth__io_cache *cache = hearth__load_acquire(&arena->caches);
    for (;;) {
        live += hearth__load_acquire(&cells->bare_out_weight) +
                hearth__load_acquire(&cells->lease_out_weight) -
                hearth__load_acquire(&cells->bare_in_weight) -
                hearth__load_acquire(&cells->lease_in_weight);
        if (cache == NULL)
            break;
        cells = &cache->cells;
        cache = cache->next_in_arena;
    }
    uint64_t count = hearth__weight_count(live);
    /* EDGE io.outstanding, publish: the end of this thread's work on the arena. */
    /* EDGE io.outstanding, observe: that of all who came home before. */
    uint64_t before = hearth__fetch_add_acq_rel(&arena->outstanding, count - HEARTH__IO_BIAS);
    if (before + count == HEARTH__IO_BIAS)
        finish(arena);
}

void hearth__io_came_home(struct hearth_io *arena)
{
    HEARTH__PERTURB("io.outstanding");
    /* EDGE io.outstanding, publish: this thread's use of the arena. */
    /* EDGE io.outstanding, observe: everybody's, before it ends. */
    if (hearth__fetch_sub_acq_rel(&arena->outstanding, 1) == 1)
        finish(arena);
}

void hearth_io_unref(struct hearth_io *arena)
{
    if (arena == NULL)
        return;
    /* EDGE io.references, publish: this thread's use of the arena. */
    /* EDGE io.references, observe: everybody's, before the last one closes it. */
    if (hearth__fetch_sub_acq_rel(&arena->references, 1) != 1)
        return;
    (void)close_once(arena);
    hearth__reclaim_retire(&arena->retired);
    if (!hearth__io_thread_inside())
        (void)hearth__reclaim_run();
}

bool hearth__io_close(struct hearth_io *arena)
{
    return close_once(arena);
}

enum hearth_status hearth_io_close(struct hearth_io *arena)
{
    if (arena == NULL || arena->service != NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, "hearth_io_close", NULL);
    return close_once(arena) ? HEARTH_OK : HEARTH_CLOSED;
}

enum hearth_status hearth_io_destroy(struct hearth_io *arena)
{
    if (arena == NULL)
        return HEARTH_OK;
    if (arena->service != NULL)
        return hearth__io_misuse(arena, HEARTH_INVALID, "hearth_io_destroy", NULL);
    if (!hearth__reclaim_may_wait() || hearth__io_thread_inside() ||
        hearth_io_live_count(arena) != 0)
        return HEARTH_BUSY;
    (void)close_once(arena);
    hearth_io_unref(arena);
    return HEARTH_OK;
}

enum hearth_status hearth_io_tick(void)
{
    if (!hearth__reclaim_may_wait() || hearth__io_thread_inside())
        return HEARTH_BUSY;
    return hearth__reclaim_pending() ? hearth__reclaim_run() : HEARTH_OK;
}
