/* SPDX-License-Identifier: Apache-2.0 */
/* The execution arenas' figures, and what they tell of plans. */
#include "replay_engine.h"

struct replay_exec_figures replay_read_exec(const struct replay_worker *worker)
{
    const struct replay_allocator *allocator = worker->engine->job->allocator;
    struct replay_exec_figures figures = {0};
    if (allocator->has_arenas && worker->lane.exec != NULL) {
        allocator->ops->exec_figures(&worker->lane, &figures);
    }
    return figures;
}

void replay_add_exec(struct replay_exec_figures *sum, const struct replay_exec_figures *start,
                     const struct replay_exec_figures *end)
{
    struct replay_exec_figures before = *sum;
    *sum = *end;
    sum->created = before.created + end->created - start->created;
    sum->allocs = before.allocs + end->allocs - start->allocs;
    sum->plan_hits = before.plan_hits + end->plan_hits - start->plan_hits;
    sum->plan_misses = before.plan_misses + end->plan_misses - start->plan_misses;
    sum->plan_blocked = before.plan_blocked + end->plan_blocked - start->plan_blocked;
    sum->plans_made = before.plans_made + end->plans_made - start->plans_made;
}

static void add_counts(struct replay_plans *plans, const struct replay_exec_figures *exec)
{
    plans->requests += exec->allocs;
    plans->hits += exec->plan_hits;
    plans->misses += exec->plan_misses;
    plans->blocked += exec->plan_blocked;
}

static void add_state(struct replay_plans *plans, const struct replay_exec_figures *exec)
{
    plans->plans = exec->plans > plans->plans ? exec->plans : plans->plans;
    plans->slab_bytes = exec->slab_bytes > plans->slab_bytes ? exec->slab_bytes : plans->slab_bytes;
    if (exec->plan_bound > 0) {
        double over = (double)exec->plan_bytes / (double)exec->plan_bound;
        plans->over_bound = over > plans->over_bound ? over : plans->over_bound;
    }
}

/* What the snapshot tells of all and the arenas do not tell of themselves. */
static uint64_t idle_bytes(const struct replay_engine *engine, uint32_t end)
{
    uint64_t arenas = 0;
    uint64_t all = engine->snapshots[end].exec_footprint;
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        arenas += engine->workers[i].samples[end - 1].exec.footprint;
    }
    return engine->job->allocator->lends_slabs && all > arenas ? all - arenas : 0;
}

struct replay_plans replay_evaluate_plans(const struct replay_engine *engine)
{
    uint32_t first = replay_first_measured(engine->job);
    uint32_t end = replay_first_timed(engine->job);
    struct replay_plans plans = {.idle_exec_bytes = idle_bytes(engine, end)};
    for (uint32_t i = 0; i < engine->worker_count; i++) {
        const struct replay_sample *samples = engine->workers[i].samples;
        for (uint32_t pass = 0; pass < engine->pass_count; pass++) {
            plans.made += samples[pass].exec.plans_made;
            if (pass >= first && pass < end) {
                add_counts(&plans, &samples[pass].exec);
            }
        }
        add_state(&plans, &samples[end - 1].exec);
    }
    return plans;
}
