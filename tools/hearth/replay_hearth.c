/* SPDX-License-Identifier: Apache-2.0 */
/* Hearth under test: two execution arenas per thread, one backing for all. */
#include "replay_allocator.h"

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/stats.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct replay_hearth {
    struct replay_allocator base;
    struct hearth_backing *backing;
};

static enum hearth_status thread_begin(struct replay_allocator *self, struct replay_lane *lane)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = hearth->backing;
    enum hearth_status status = hearth_exec_create(&options, &lane->exec);
    if (status != HEARTH_OK) {
        lane->exec = NULL;
        return status;
    }
    status = hearth_exec_create(&options, &lane->exported);
    if (status != HEARTH_OK) {
        lane->exported = NULL;
    }
    return status;
}

static enum hearth_status thread_end(struct replay_allocator *self, struct replay_lane *lane)
{
    (void)self;
    enum hearth_status exec = hearth_exec_destroy(lane->exec);
    enum hearth_status exported = hearth_exec_destroy(lane->exported);
    return exec != HEARTH_OK ? exec : exported;
}

static enum hearth_status take(struct replay_lane *lane, size_t bytes, bool exported,
                               struct replay_block *block)
{
    struct hearth_exec *arena = exported ? lane->exported : lane->exec;
    struct hearth_buf *buf;
    enum hearth_status status = hearth_exec_alloc(arena, bytes, &buf);
    if (status == HEARTH_OK) {
        block->handle = buf;
        block->origin = arena;
        block->data = hearth_buf_data(buf);
    }
    return status;
}

static enum hearth_status give(struct replay_lane *lane, struct replay_block *block)
{
    (void)lane; /* The arena that it came from, not the freeing thread's. */
    return hearth_exec_free(block->origin, block->handle);
}

static void snapshot(struct replay_allocator *self, struct replay_snapshot *snapshot)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    hearth_backing_stats(hearth->backing, &stats);
    snapshot->backing_calls = stats.acquire_calls + stats.release_calls + stats.purge_calls;
    snapshot->page_events = stats.page_events;
    snapshot->footprint = hearth_backing_footprint(hearth->backing);
}

static void destroy(struct replay_allocator *self)
{
    struct replay_hearth *hearth = (struct replay_hearth *)self;
    hearth_backing_unref(hearth->backing);
    free(hearth);
}

static const struct replay_allocator_ops hearth_ops = {
    .thread_begin = thread_begin,
    .thread_end = thread_end,
    .alloc = take,
    .free = give,
    .snapshot = snapshot,
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

struct replay_allocator *replay_hearth_create(const char *backing,
                                              char message[REPLAY_MESSAGE_BYTES])
{
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
    hearth->base.ops = &hearth_ops;
    hearth->base.name = "hearth";
    hearth->base.backing = hearth_backing_name(hearth->backing);
    hearth->base.knows_page_events = true;
    return &hearth->base;
}
