/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: creation, change of owner, and the end, with or without buffers outstanding.
 *
 * Detach. The problem is to end an arena exactly once, when the last buffer comes home, without counting
 * on the owner's path and without a moment in which a return is counted by nobody. `outstanding` starts
 * at a large bias, far above any number of buffers. The detacher closes the inbox, so that each return
 * is either in the chain it takes (and settled by it) or finds the inbox closed, finishes the
 * buffer itself and subtracts one. The detacher then knows how many were out, and adds that minus the
 * bias. Whoever sees the sum reach zero ends the arena: the word is zero only when the bias is gone and
 * each buffer is home.
 *
 *     outstanding:   BIAS ... BIAS - k (k came home) ... + live - BIAS ... = live - k ... 0: the end
 *
 * A thread that has subtracted touches nothing of the arena any more, except the one that saw zero.
 */
#include "concurrent/exec_plan.h"
#include "concurrent/exec_spans.h"

#include "core/conf.h"
#include "core/misuse.h"
#include "core/options.h"

#include <string.h>

#ifdef HEARTH_BROKEN_DETACH_UNBIASED
#define OUTSTANDING_BIAS ((uint64_t)1)
#else
#define OUTSTANDING_BIAS ((uint64_t)1 << 62)
#endif

static enum hearth_status merge_options(const struct hearth_exec_options *given,
                                        struct hearth_exec_options *options, uint32_t *debug)
{
    static const char call[] = "hearth_exec_create";
    struct hearth__conf conf;
    *options = (struct hearth_exec_options)HEARTH_EXEC_OPTIONS_INIT;
    if (given != NULL) {
        bool known = given->size == sizeof *given;
        if (!hearth__options_known(call, given, known))
            return HEARTH_INVALID;
        *options = *given;
    }
    if (options->store > HEARTH_EXEC_STORE_PLANS)
        return hearth__misuse_detail(HEARTH_INVALID, call, NULL, given,
                                     "options->store is no enum hearth_exec_store");
    enum hearth_status status = hearth__conf_environment(call, &conf);
    if (status != HEARTH_OK)
        return status;
    if (conf.has_exec_cap)
        options->retention_cap = conf.exec_cap == 0 ? HEARTH_RETAIN_NOTHING : conf.exec_cap;
    if (conf.exec_store != HEARTH_EXEC_STORE_DEFAULT)
        options->store = conf.exec_store;
    *debug = hearth__debug_arena(conf.debug);
    const struct hearth__common_options common = {&options->retention_cap, &options->slots,
                                                  &options->reuse_ratio, &options->backing};
    return hearth__options_complete(&common, &conf, HEARTH_EXEC_SLOTS_DEFAULT);
}

/* Debugging goes by the general paths only. A leak check that began before the arena could be found looks here;
 * one that begins later finds the arena: leak.c. */
static void close_plain_paths(struct hearth_exec *arena)
{
    hearth__section_barrier();
    if (hearth__debug_flags(arena->debug) != 0)
        (void)hearth__fetch_or_release(&arena->section.attention, HEARTH__ATTENTION_METERED);
}

static void set_plain_path(struct hearth_exec *arena)
{
    size_t cap = hearth__load_relaxed(&arena->retention_cap);
    bool plain = arena->debug == 0 && cap > HEARTH__HELD_MAX;
    arena->plain_alignment_log = plain ? HEARTH__ALIGNMENT_LOG_MIN : 0;
}

void hearth__exec_set_cap(struct hearth_exec *arena, size_t bytes)
{
    hearth__store_relaxed(&arena->retention_cap, bytes);
    set_plain_path(arena);
}

static void join_nothing(struct hearth_exec *core)
{
    core->filling = false;
    core->fixed = false;
    core->metering = false;
    core->stored = 0;
    core->charge = 0;
    core->room_wanted = 0;
    core->runs = 0;
    core->budget = NULL;
    core->service = NULL;
    hearth__store_relaxed(&core->holds, 3);
    core->orphans = 0;
    core->orphaned_at_end = false;
    hearth__store_relaxed(&core->level, 0);
    hearth__ages_init(&core->run_ages);
    hearth__ages_init(&core->ages);
    core->seen_gives = 0;
    core->seen_out = 0;
    core->seen_tick = 0;
    core->seen_at_work = false;
    hearth__store_relaxed(&core->asked_before, 0);
    hearth__store_relaxed(&core->lost, 0);
}

enum hearth_status hearth_exec_create(const struct hearth_exec_options *given,
                                      struct hearth_exec **arena)
{
    struct hearth_exec_options options;
    uint32_t debug = 0;
    if (arena == NULL)
        return hearth__misuse(HEARTH_INVALID, "hearth_exec_create", NULL, NULL);
    enum hearth_status status = merge_options(given, &options, &debug);
    return status == HEARTH_OK ? hearth__exec_make(&options, debug, arena) : status;
}

enum hearth_status hearth__exec_make(const struct hearth_exec_options *given, uint32_t debug,
                                     struct hearth_exec **arena)
{
    struct hearth_exec_options options = *given;
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_EXEC);
    if (segment == NULL)
        return HEARTH_NO_MEMORY;
    struct hearth_exec *core = hearth__segment_core(segment);
    hearth__bins_init(&core->bins);
    memset(&core->cells, 0, sizeof core->cells);
    core->allocator.ops = &hearth__exec_ops;
    core->store = &core->bins.store;
    hearth__slots_init(&core->slots, segment, options.slots);
    core->debug = debug;
    if ((core->debug & HEARTH__DEBUG_SITES) != 0)
        hearth__site_prepare();
    core->quarantine = (struct hearth__quarantine){0};
    core->overwritten = (struct hearth__overwritten){0};
    join_nothing(core);
    core->held = 0;
    hearth__exec_spans_init(core);
    core->with_spans = options.store == HEARTH_EXEC_STORE_SPANS &&
                       (debug & HEARTH__DEBUG_QUARANTINE) == 0; /* that goes by slots */
    hearth__store_relaxed(&core->running, 0);
    core->visited = false;
    core->spare = (struct hearth__slots){.fresh = HEARTH__SLOTS_PER_GRANULE, .limit = SIZE_MAX};
    core->spare_held = 0;
    core->made_seen = 0;
    core->backing = options.backing;
    hearth_backing_ref(options.backing);
    hearth__rounding_init(&core->rounding, options.reuse_ratio, options.backing->ops.granule);
    hearth__store_relaxed(&core->retention_cap, options.retention_cap);
    set_plain_path(core);
    hearth__store_relaxed(&core->backlog, NULL);
    hearth__inbox_open(&core->inbox);
    hearth__store_relaxed(&core->outstanding, OUTSTANDING_BIAS);
    hearth__store_relaxed(&core->misuses, 0);
    core->with_plans =
        options.store == HEARTH_EXEC_STORE_PLANS && (debug & ~HEARTH__DEBUG_PLANNED) == 0 &&
        strcmp(options.backing->ops.name, "guard") != 0; /* whose pages are around what it lends */
    core->gate_mark = core->with_plans || core->with_spans ? HEARTH__GATE_OTHER : 0;
    hearth__exec_run_init(&core->run);
    hearth__section_init(&core->section, hearth__exec_gate(core, hearth__thread_token()));
    hearth__store_release(&segment->arena, &core->allocator);
    close_plain_paths(core);
    hearth__store_release(&core->owner, hearth__thread_token());
    *arena = core;
    return HEARTH_OK;
}

static void pool(struct hearth_exec *arena)
{
    hearth__bins_fini(&arena->bins);
    hearth__slots_release(&arena->spare);
    hearth__slots_release(&arena->slots);
}

/* Nothing is out and nothing is retained. */
static void finish(struct hearth_exec *arena)
{
    struct hearth_backing *backing = arena->backing;
    hearth__exec_run_finish(arena);
    hearth__exec_spans_end(arena);
    if (arena->service != NULL)
        hearth__exec_drop(arena);
    else
        pool(arena);
    hearth_backing_unref(backing);
}

void hearth__exec_drop(struct hearth_exec *arena)
{
    /* EDGE exec.holds, publish: this thread's use of the core. */
    /* EDGE exec.holds, observe: everybody's, before it is pooled. */
    if (hearth__fetch_sub_acq_rel(&arena->holds, 1) == 1)
        pool(arena);
}

/* Settle what other threads queued; the arena is the caller's alone. */
static void drain_all(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    hearth__section_resume(&arena->section);
    arena->visited = false;
    hearth__store_relaxed(&arena->running, hearth__load_relaxed(&arena->running) + 1);
    hearth__exec_merge(arena);
    if (arena->front != NULL)
        hearth__exec_front_settle(arena, false);
    arena->run.requesting = true; /* no time to plan */
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    hearth__exec_end(arena, &after);
}

static uint64_t live_now(const struct hearth_exec *arena)
{
    return hearth__weight_count(hearth__load_relaxed(&arena->cells.out_weight) -
                                hearth__load_relaxed(&arena->cells.in_weight));
}

static void lists_reset(struct hearth__bins *bins)
{
    struct hearth__bin_set *aligned = bins->aligned;
    hearth__bins_init(bins);
    bins->aligned = aligned;
    if (aligned != NULL)
        memset(aligned, 0, HEARTH__ALIGNED_SETS * sizeof *aligned);
}

void hearth__exec_lose(struct hearth_exec *arena, bool own, bool store_too)
{
    size_t slots = 0;
    size_t bytes = 0;
    struct hearth__exec_reading now = hearth__exec_read(arena);
    /* The book stays where it is, with what it holds. */
    bool had_book = arena->run.book != NULL || arena->run.lost_places;
    hearth__exec_run_init(&arena->run);
    arena->run.lost_places = had_book;
    if (store_too) {
        lists_reset(&arena->bins);
        hearth__exec_spans_init(arena);
        arena->with_spans = false;
        arena->slots.unused = NULL;
        arena->spare.unused = NULL;
    } else {
        arena->store->ops->count(arena->store, &slots, &bytes);
    }
    arena->held =
        hearth__weight_of((size_t)(now.obtained_count - now.given_count + now.cuts - now.merges),
                          (size_t)(now.obtained_bytes - now.given_bytes));
    arena->spare_held = 0;
    arena->stored = (int64_t)(hearth__weight_of(slots, bytes) + arena->span_stored);
    if (arena->spans != NULL) {
        slots += arena->spans->free_count + (arena->front != NULL);
        bytes += arena->spans->free_bytes +
                 (arena->front != NULL ? hearth__buf_capacity(arena->front) : 0);
    }
    if (!own) {
        arena->visited = false;
        hearth__store_relaxed(&arena->running, 0);
    }
    size_t retained = (size_t)hearth__exec_retained_bytes(&now);
    size_t retained_count = (size_t)hearth__exec_retained_count(&now);
    hearth__store_relaxed(&arena->lost,
                          hearth__weight_of(retained_count > slots ? retained_count - slots : 0,
                                            retained > bytes ? retained - bytes : 0));
}

/* Close the inbox and give back all that is retained. */
static void give_all_back(struct hearth_exec *arena)
{
    hearth__store_relaxed(&arena->owner, HEARTH__OWNER_GONE);
    drain_all(arena);
    /* What came between is a chain of its own; after this nothing comes any more. */
    hearth__store_release(&arena->backlog, hearth__inbox_close(&arena->inbox));
    drain_all(arena);
    hearth__section_resume(&arena->section);
    (void)hearth__exec_trim_all(arena);
    struct hearth__overwritten overwritten = hearth__exec_overwritten(arena);
    hearth__exec_leave(arena);
    hearth__exec_tell_overwritten(arena, &overwritten);
}

enum hearth_status hearth_exec_destroy(struct hearth_exec *arena)
{
    if (arena == NULL)
        return HEARTH_OK;
    if (arena->service != NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, "hearth_exec_destroy", NULL);
    drain_all(arena);
    hearth__exec_assert(arena);
    if (live_now(arena) != 0)
        return HEARTH_BUSY;
    give_all_back(arena);
    finish(arena);
    return HEARTH_OK;
}

uint64_t hearth__exec_wind_up(struct hearth_exec *arena)
{
    give_all_back(arena);
    uint64_t live = live_now(arena);
    /* EDGE exec.outstanding, publish: the end of this thread's work on the arena. */
    /* EDGE exec.outstanding, observe: that of all who came home before. */
    uint64_t before = hearth__fetch_add_acq_rel(&arena->outstanding, live - OUTSTANDING_BIAS);
    if (before + live == OUTSTANDING_BIAS)
        finish(arena);
    return live;
}

enum hearth_status hearth_exec_detach(struct hearth_exec *arena, size_t *outstanding)
{
    uint64_t live = 0;
    if (arena != NULL && arena->service != NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, "hearth_exec_detach", NULL);
    if (arena != NULL)
        live = hearth__exec_wind_up(arena);
    if (outstanding != NULL)
        *outstanding = (size_t)live;
    return HEARTH_OK;
}

void hearth__exec_came_home(struct hearth_exec *arena)
{
    /* EDGE exec.outstanding, publish: this thread's use of the arena. */
    /* EDGE exec.outstanding, observe: the detacher's and all others' before it ends. */
    if (hearth__fetch_sub_acq_rel(&arena->outstanding, 1) == 1)
        finish(arena);
}

enum hearth_status hearth_exec_release_owner(struct hearth_exec *arena)
{
    static const char call[] = "hearth_exec_release_owner";
    if (arena == NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, NULL);
    uint64_t token = hearth__thread_token();
    if (arena->service != NULL)
        return hearth__exec_misuse(arena, HEARTH_INVALID, call, NULL);
    if (hearth__load_relaxed(&arena->owner) != token)
        return hearth__exec_misuse(arena, HEARTH_NOT_OWNER, call, NULL);
    if (!hearth__section_open(&arena->section, hearth__exec_gate(arena, token)))
        return hearth__exec_busy(arena);
    if (hearth__load_relaxed(&arena->running) != 0) /* from a callback, while the section is left */
        return hearth__exec_misuse(arena, HEARTH_BUSY, call, NULL);
    hearth__store_relaxed(&arena->section.gate, hearth__exec_gate(arena, HEARTH__OWNER_NONE));
    /* EDGE exec.owner, publish: everything that this owner did. */
    hearth__store_release(&arena->owner, HEARTH__OWNER_NONE);
    return HEARTH_OK;
}

enum hearth_status hearth_exec_trim(struct hearth_exec *arena, size_t *released)
{
    static const char call[] = "hearth_exec_trim";
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin(arena, call);
    if (status != HEARTH_OK)
        return status;
    uint64_t before = hearth__exec_gone(arena);
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    (void)hearth__exec_trim_all(arena);
    hearth__cell_add(&arena->cells.trims, 1);
    hearth__exec_end(arena, &after);
    hearth__exec_assert(arena);
    (void)hearth_backing_purge(arena->backing);
    if (released != NULL)
        *released = (size_t)(hearth__exec_gone(arena) - before);
    return HEARTH_OK;
}

enum hearth_status hearth_exec_set_retention_cap(struct hearth_exec *arena, size_t bytes)
{
    static const char call[] = "hearth_exec_set_retention_cap";
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin_alone(arena, call);
    if (status != HEARTH_OK)
        return status;
    hearth__exec_set_cap(arena, bytes);
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    if (arena->run.book != NULL && arena->run.book->slab.length > bytes)
        (void)hearth__exec_run_trim(arena);
    hearth__exec_evict_to(arena, bytes, &after);
    hearth__exec_end(arena, &after);
    hearth__exec_assert(arena);
    return HEARTH_OK;
}

enum hearth_status hearth_exec_reset_peak(struct hearth_exec *arena)
{
    static const char call[] = "hearth_exec_reset_peak";
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin(arena, call);
    if (status != HEARTH_OK)
        return status;
    struct hearth__exec_cells *cells = &arena->cells;
    (void)hearth__exec_drain(arena, SIZE_MAX, &after);
    uint64_t in_size = hearth__load_acquire(&cells->in_size);
    uint64_t live = hearth__load_relaxed(&cells->out_size) - in_size;
    /* By as much as the peak moves: a visitor may be adding to both `in_size` and `peak_at`. */
    (void)hearth__fetch_add_release(&cells->peak_at, live - hearth__load_relaxed(&cells->peak));
    hearth__store_relaxed(&cells->peak, live);
    hearth__exec_end(arena, &after);
    return HEARTH_OK;
}
