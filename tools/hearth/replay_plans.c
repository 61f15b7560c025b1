/* SPDX-License-Identifier: Apache-2.0 */
/* What the samples tell of plans. */
#include "replay_engine.h"

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
static uint64_t idle_slabs(const struct replay_engine *engine, uint32_t end)
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
    struct replay_plans plans = {.idle_slab_bytes = idle_slabs(engine, end)};
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
