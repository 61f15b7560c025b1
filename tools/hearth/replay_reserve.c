/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_reserve.h"

#include "prefault.h"
#include "replay_engine.h"

#include <stdlib.h>

/* Reuse goes up to a quarter, and storage may be rounded up: a third is within both. */
#define GROUP_SPAN 3u

/* Below this size threads keep free buffers for themselves: of each size two chains, of as many as
 * fit into 64 KiB, and of 2 to 32. */
#define SMALL_BYTES ((uint64_t)64 << 10)
#define CHAIN_LEAST 2u
#define CHAIN_MOST 32u

/* Marks that no pass uses. */
#define RESERVE_SEED 1u

static uint64_t at_least_one(uint64_t bytes)
{
    return bytes != 0 ? bytes : 1;
}

static int descending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

static bool is_output(const struct trace_event *event)
{
    return event->op == TRACE_ALLOC && event->exported;
}

static int find_groups(const struct trace *trace,
                       struct replay_size_group groups[REPLAY_SIZE_GROUPS])
{
    int count = 0;
    size_t outputs = 0;
    uint64_t *sizes = calloc(trace->event_count, sizeof *sizes);
    if (sizes == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        if (is_output(&trace->events[i])) {
            sizes[outputs++] = at_least_one(trace->events[i].bytes);
        }
    }
    qsort(sizes, outputs, sizeof *sizes, descending);
    for (size_t i = 0; i < outputs; i++) {
        if (count == 0 || sizes[i] < groups[count - 1].bytes / GROUP_SPAN) {
            groups[count++] = (struct replay_size_group){.bytes = sizes[i]};
        }
    }
    free(sizes);
    return count;
}

static size_t group_of(const struct replay_size_group *groups, size_t count, uint64_t bytes)
{
    size_t group = count - 1;
    while (groups[group].bytes < at_least_one(bytes)) {
        group--;
    }
    return group;
}

/* One clone's outputs, run by run, as the consumers will hold them. */
struct holding {
    uint32_t out[REPLAY_SIZE_GROUPS];
    uint32_t (*given)[REPLAY_SIZE_GROUPS]; /* By run, modulo hold + 1. */
    uint64_t run;
};

static void end_run(struct holding *holding, size_t count, uint32_t hold)
{
    uint32_t *oldest = holding->given[(holding->run + 1) % (hold + 1)];
    for (size_t group = 0; group < count; group++) {
        holding->out[group] -= oldest[group];
        oldest[group] = 0;
    }
    holding->run++;
}

static void follow(const struct trace *trace, bool consumers, uint32_t hold,
                   struct replay_size_group *groups, size_t count, struct holding *holding)
{
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        size_t group = event->exported ? group_of(groups, count, event->bytes) : 0;
        if (is_output(event)) {
            uint32_t out = ++holding->out[group];
            groups[group].most = out > groups[group].most ? out : groups[group].most;
        } else if (event->exported && consumers) {
            holding->given[holding->run % (hold + 1)][group]++;
        } else if (event->exported) {
            holding->out[group]--;
        }
        if (event->run_last && consumers) {
            end_run(holding, count, hold);
        }
    }
}

int replay_size_groups(const struct trace *trace, bool consumers, uint32_t hold,
                       struct replay_size_group groups[REPLAY_SIZE_GROUPS])
{
    struct holding holding = {.given = calloc((size_t)hold + 1, sizeof *holding.given)};
    int count = holding.given != NULL ? find_groups(trace, groups) : -1;
    /* Until what the last pass left held is the same in each pass. */
    uint32_t passes = hold / trace->run_count + 2;
    for (uint32_t pass = 0; count > 0 && pass < passes; pass++) {
        follow(trace, consumers, hold, groups, (size_t)count, &holding);
    }
    free(holding.given);
    return count;
}

/* Whether an output is freed by another thread than took it. */
static bool changes_threads(const struct trace *trace, uint32_t consumers)
{
    uint16_t *takers = calloc(trace->slot_count, sizeof *takers);
    bool changes = consumers > 0 || takers == NULL;
    for (uint32_t i = 0; i < trace->event_count && !changes; i++) {
        const struct trace_event *event = &trace->events[i];
        if (is_output(event)) {
            takers[event->slot] = event->thread;
        } else if (event->exported) {
            changes = takers[event->slot] != event->thread;
        }
    }
    free(takers);
    return changes;
}

/* Buffers of a group that other threads may keep for themselves while one finds none. A thread that
 * frees what it took, and has room for all of it in its chains, asks nobody. */
static size_t kept_by_threads(const struct replay_engine *engine,
                              const struct replay_size_group *group, bool changes)
{
    if (group->bytes >= SMALL_BYTES) {
        return 0;
    }
    uint64_t chain = SMALL_BYTES / group->bytes;
    chain = chain < CHAIN_LEAST ? CHAIN_LEAST : chain;
    chain = chain > CHAIN_MOST ? CHAIN_MOST : chain;
    if (!changes && group->most <= 2 * chain) {
        return 0;
    }
    return 2 * (size_t)chain * (engine->worker_count + engine->job->consumers - 1);
}

/* The groups with as many blocks as this clone shall have out at once. */
struct reserve {
    struct replay_size_group groups[REPLAY_SIZE_GROUPS];
    size_t wanted[REPLAY_SIZE_GROUPS];
    size_t count;
    size_t total;
};

static void plan(const struct replay_worker *worker, struct reserve *reserve)
{
    const struct replay_job *job = worker->engine->job;
    bool changes = changes_threads(job->trace, job->consumers);
    int count = replay_size_groups(job->trace, job->consumers > 0, job->hold, reserve->groups);
    reserve->count = count > 0 ? (size_t)count : 0;
    for (size_t i = 0; i < reserve->count; i++) {
        const struct replay_size_group *group = &reserve->groups[i];
        /* What is not written costs no page, and its size may be more than there is. */
        if (group->bytes > job->touch_limit) {
            continue;
        }
        reserve->wanted[i] = group->most;
        if (worker->clone == 0) {
            reserve->wanted[i] += kept_by_threads(worker->engine, group, changes);
        }
        reserve->total += reserve->wanted[i];
    }
}

static bool take(struct replay_worker *worker, uint64_t bytes, struct replay_block *block)
{
    const struct replay_job *job = worker->engine->job;
    if (job->allocator->ops->alloc(&worker->lane, bytes, true, block) != HEARTH_OK) {
        return false; /* The passes will tell which allocation it is. */
    }
    pattern_write(block->data, bytes, job->stride, RESERVE_SEED);
    return true;
}

/* All at once, all groups together: no group can serve itself from another's, and no clone from
 * what another gave back. */
static size_t burst(struct replay_worker *worker, const struct reserve *reserve)
{
    const struct replay_allocator_ops *ops = worker->engine->job->allocator->ops;
    struct replay_block *blocks = prefault_alloc(reserve->total, sizeof *blocks);
    size_t taken = 0;
    for (size_t group = 0; blocks != NULL && group < reserve->count; group++) {
        size_t left = reserve->wanted[group];
        for (; left > 0 && take(worker, reserve->groups[group].bytes, &blocks[taken]); left--) {
            taken++;
        }
    }
    pthread_barrier_wait(&worker->engine->clone_gate);
    for (size_t i = 0; i < taken; i++) {
        if (ops->free(&worker->lane, &blocks[i]) != HEARTH_OK) {
            worker->reserve_errors++;
        }
    }
    prefault_free(blocks, reserve->total, sizeof *blocks);
    return taken;
}

/* A thread's first use of a shared arena makes what it keeps there. */
static void greet_consumers(struct replay_worker *worker, const struct trace_event *event)
{
    struct replay_engine *engine = worker->engine;
    for (uint32_t i = 0; i < engine->job->consumers; i++) {
        struct replay_output output = {
            .event = event, .clone = worker->clone, .written = true, .at_once = true};
        output.seed = RESERVE_SEED;
        if (event->bytes > engine->job->touch_limit || !take(worker, event->bytes, &output.block)) {
            return;
        }
        replay_outlet_send(engine, &output);
        replay_outlet_end_run(engine, worker->clone);
        replay_outlet_settle(engine, worker->clone);
    }
}

static const struct trace_event *smallest_output(const struct trace *trace)
{
    const struct trace_event *smallest = NULL;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (is_output(event) && (smallest == NULL || event->bytes < smallest->bytes)) {
            smallest = event;
        }
    }
    return smallest;
}

void replay_reserve(struct replay_worker *worker)
{
    const struct trace_event *smallest = smallest_output(worker->engine->job->trace);
    struct reserve reserve = {.count = 0};
    if (smallest == NULL || worker->trace_thread != smallest->thread) {
        return; /* The trace exports nothing, or another thread of the clone does. */
    }
    plan(worker, &reserve);
    worker->reserved = burst(worker, &reserve);
    if (worker->clone == 0) {
        greet_consumers(worker, smallest);
    }
}
