/* SPDX-License-Identifier: Apache-2.0 */
/* Hearth under test: an execution arena per thread, one I/O arena and one backing for all; or a service,
 * which attaches the threads itself. */
#include "replay_allocator.h"

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/service.h>
#include <hearth/stats.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay_hearth {
    struct replay_allocator base;
    struct hearth_backing *backing;
    struct hearth_io *io;
    struct hearth_service *service; /* NULL: arenas alone */
};

static enum hearth_status thread_begin(struct replay_allocator *self, struct replay_lane *lane)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = hearth->backing;
    options.store = replay_store_number(hearth->base.store);
    enum hearth_status status = hearth->service != NULL
                                    ? hearth_service_exec(hearth->service, &lane->exec)
                                    : hearth_exec_create(&options, &lane->exec);
    if (status != HEARTH_OK) {
        lane->exec = NULL;
    }
    return status;
}

static enum hearth_status thread_end(struct replay_allocator *self, struct replay_lane *lane)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    enum hearth_status status = hearth->service != NULL ? hearth_service_detach(hearth->service)
                                                        : hearth_exec_destroy(lane->exec);
    lane->exec = NULL;
    return status;
}

static enum hearth_status take_leased(struct replay_lane *lane, size_t bytes,
                                      struct replay_block *block)
{
    struct replay_hearth *hearth = (struct replay_hearth *)lane->allocator;
    struct hearth_lease lease;
    enum hearth_status status = hearth_io_lease(hearth->io, bytes, &lease);
    if (status == HEARTH_OK) {
        block->handle = lease.buf;
        block->generation = lease.generation;
        block->origin = NULL;
        block->data = hearth_lease_data(lease);
    }
    return status;
}

static enum hearth_status take(struct replay_lane *lane, size_t bytes, bool exported,
                               struct replay_block *block)
{
    struct hearth_buf *buf;
    if (exported) {
        return take_leased(lane, bytes, block);
    }
    enum hearth_status status = hearth_exec_alloc(lane->exec, bytes, &buf);
    if (status == HEARTH_OK) {
        block->handle = buf;
        block->origin = lane->exec;
        block->data = hearth_buf_data(buf);
    }
    return status;
}

static enum hearth_status give(struct replay_lane *lane, struct replay_block *block)
{
    (void)lane; /* The arena that it came from, not the freeing thread's. */
    if (block->origin == NULL) {
        return hearth_lease_release(
            (struct hearth_lease){.buf = block->handle, .generation = block->generation});
    }
    return hearth_exec_free(block->origin, block->handle);
}

static enum hearth_status run_begin(struct replay_lane *lane)
{
    return hearth_exec_run_begin(lane->exec, 0);
}

static enum hearth_status run_end(struct replay_lane *lane)
{
    return hearth_exec_run_end(lane->exec);
}

static void exec_figures(const struct replay_lane *lane, struct replay_exec_figures *figures)
{
    struct hearth_exec_stats stats = HEARTH_EXEC_STATS_INIT;
    hearth_exec_stats(lane->exec, &stats);
    *figures = (struct replay_exec_figures){
        .created = stats.backing_acquires,
        .allocs = stats.allocs,
        .plan_hits = stats.plan_hits,
        .plan_misses = stats.plan_misses,
        .plan_blocked = stats.plan_blocked,
        .plans_made = stats.plans_made,
        .footprint = stats.footprint,
        .plans = stats.plans,
        .slab_bytes = stats.slab_bytes,
        .plan_bytes = stats.plan_bytes,
        .plan_bound = stats.plan_bound,
    };
}

static void snapshot(struct replay_allocator *self, struct replay_snapshot *snapshot)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    hearth_backing_stats(hearth->backing, &stats);
    snapshot->backing_calls = stats.acquire_calls + stats.release_calls + stats.purge_calls;
    snapshot->page_events = stats.page_events;
    snapshot->footprint = hearth_backing_footprint(hearth->backing);
    struct hearth_io_stats io = HEARTH_IO_STATS_INIT;
    hearth_io_stats(hearth->io, &io);
    snapshot->io.created = io.backing_acquires;
    snapshot->io.footprint = io.footprint;
    snapshot->io.peak = io.peak_bytes;
    snapshot->io.retained = io.retained_bytes;
    snapshot->io.leased = io.leased_count;
    snapshot->exec_footprint = 0;
    if (hearth->service != NULL) {
        snapshot->exec_footprint = hearth_service_footprint(hearth->service) - io.footprint;
    }
}

static void forget_peak(struct replay_allocator *self)
{
    hearth_io_reset_peak(((struct replay_hearth *)self)->io);
}

static enum hearth_status end_arenas(struct replay_hearth *hearth)
{
    enum hearth_status status = HEARTH_OK;
    if (hearth->service != NULL) {
        status = hearth_service_live_capacity(hearth->service) != 0 ? HEARTH_BUSY : HEARTH_OK;
        hearth_service_unref(hearth->service);
        return status;
    }
    status = hearth_io_destroy(hearth->io);
    if (status != HEARTH_OK) {
        hearth_io_unref(hearth->io); /* What is still out keeps its memory. */
    }
    return status;
}

static enum hearth_status destroy(struct replay_allocator *self)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    enum hearth_status status = end_arenas(hearth);
    hearth_backing_unref(hearth->backing);
    free(hearth);
    return status;
}

static const struct replay_allocator_ops hearth_ops = {
    .thread_begin = thread_begin,
    .thread_end = thread_end,
    .alloc = take,
    .free = give,
    .run_begin = run_begin,
    .run_end = run_end,
    .exec_figures = exec_figures,
    .snapshot = snapshot,
    .forget_peak = forget_peak,
    .destroy = destroy,
};

static enum hearth_status make_backing(const char *name, struct hearth_backing **backing)
{
    if (name == NULL) {
        enum hearth_status status = hearth_backing_default(backing);
        if (status == HEARTH_OK) {
            hearth_backing_ref(*backing);
            /* Start cold: what an earlier replay left behind must not serve this one. */
            hearth_backing_purge(*backing);
        }
        return status;
    }
    return strcmp(name, "mmap") == 0 ? hearth_backing_create_mmap(NULL, backing)
                                     : hearth_backing_create_jemalloc(NULL, backing);
}

static enum hearth_status make_arenas(struct replay_hearth *hearth)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_service_options service_options = HEARTH_SERVICE_OPTIONS_INIT;
    options.backing = hearth->backing;
    service_options.exec_backing = hearth->backing;
    service_options.io_backing = hearth->backing;
    service_options.exec_store = replay_store_number(hearth->base.store);
    if (!hearth->base.lends_slabs) {
        return hearth_io_create(&options, &hearth->io);
    }
    enum hearth_status status = hearth_service_create(&service_options, &hearth->service);
    if (status == HEARTH_OK) {
        hearth->io = hearth_service_io(hearth->service);
    }
    return status;
}

struct replay_allocator *replay_hearth_create(const struct replay_subject *subject,
                                              char message[REPLAY_MESSAGE_BYTES])
{
    const char *backing = subject->backing;
    bool service = strcmp(subject->allocator, "service") == 0;
    char reason[REPLAY_MESSAGE_BYTES / 2];
    if (hearth_conf_check(getenv("HEARTH_CONF"), reason, sizeof reason) != HEARTH_OK) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "HEARTH_CONF: %s", reason);
        return NULL;
    }
    struct replay_hearth *hearth = calloc(1, sizeof *hearth);
    if (hearth == NULL) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "out of memory");
        return NULL;
    }
    enum hearth_status status = make_backing(backing, &hearth->backing);
    if (status != HEARTH_OK) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "backing %s: %s%s",
                 backing != NULL ? backing : "(default)", hearth_status_text(status),
                 status == HEARTH_INVALID ? " (not built into this hearth; use --backing mmap)"
                                          : "");
        free(hearth);
        return NULL;
    }
    hearth->base = (struct replay_allocator){
        .ops = &hearth_ops,
        .name = subject->allocator,
        .backing = hearth_backing_name(hearth->backing),
        .store = subject->store,
        .knows_page_events = true,
        .lends_slabs = service,
        .has_arenas = true,
    };
    status = make_arenas(hearth);
    if (status != HEARTH_OK) {
        snprintf(message, REPLAY_MESSAGE_BYTES, "cannot create %s: %s (%s)",
                 service ? "a service" : "an I/O arena", hearth_status_name(status),
                 hearth_status_text(status));
        hearth_backing_unref(hearth->backing);
        free(hearth);
        return NULL;
    }
    return &hearth->base;
}
