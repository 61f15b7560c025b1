/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that hop from thread to thread.
 *
 * The same run again and again, each by another thread: one of several that idle in between, or one that was
 * started for it. One, two or four such chains of runs go on at the same time on one service. Some tell where
 * runs begin and end, others do not.
 *
 * Oracle: each unit of 64 bytes of a live block is its owner's. No more runs than two for each that goes on at
 * the same time are not served by a plan, whatever the thread; the others need nothing of the backing. One
 * chain needs one slab in all, of little more than is live at a time; so many need so many at most. At the end
 * all is home.
 */
#include "runs.h"
#include "service.h"

#include <hearth/stats.h>

#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define CHAINS_MOST 4u
#define IDLERS_MOST 16u /* of a chain */
#define THREADS_MAX (CHAINS_MOST * IDLERS_MOST)
#define ROUNDS_OF_SMOKE 12
#define RUNS 16
#define SMALL ((size_t)65536)
/* Lists hold so many times what is live at a time, at most, after one run. */
#define LISTS_MOST ((size_t)4)

struct chain {
    struct stress_block held[STRESS_PLACES];
    uint64_t random, serial, key;
    unsigned number, runs;
    unsigned served; /* runs that a plan served */
    size_t slab;     /* the largest one seen */
};

struct idler {
    struct chain *chain;
    sem_t turn, done;
    pthread_t thread;
};

static struct stress_options options;
static struct stress_script script;
static struct chain chains[CHAINS_MOST];
static struct idler idlers[CHAINS_MOST][IDLERS_MOST];
static struct hearth_service *service;
static unsigned chain_count, idler_count; /* idlers of each chain; 0: fresh threads */
static _Atomic(bool) finished;
static size_t peak; /* of the script, in whole units */
static uint64_t runs, runs_served;

static size_t rounded(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static void measure_peak(void)
{
    size_t sizes[STRESS_PLACES] = {0}, bytes = 0;
    peak = 0;
    for (unsigned i = 0; i < script.count; i++) {
        const struct stress_step *step = &script.steps[i];
        bytes -= sizes[step->place];
        sizes[step->place] = rounded(step->size);
        bytes += sizes[step->place];
        peak = bytes > peak ? bytes : peak;
    }
}

static void play(struct chain *self, struct hearth_exec *arena, bool trims)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    for (unsigned i = 0; i < script.count; i++) {
        const struct stress_step *step = &script.steps[i];
        struct stress_block *block = &self->held[step->place];
        request.size = step->size;
        if (step->size == 0)
            stress_block_return(block, true, stress_next(&self->random));
        else
            (void)stress_block_take(arena, &request,
                                    (uint64_t)(self->number + 1) << 48 | ++self->serial, block);
        /* What lists kept of the first runs, on whatever thread; the slab is in use. */
        if (trims && i == script.count / 2)
            (void)stress_service_trim(service, HEARTH_UNBOUNDED, 0, false);
    }
}

static void judge(struct chain *self, const struct hearth_exec_stats *before,
                  const struct hearth_exec_stats *now)
{
    uint64_t hits = now->plan_hits - before->plan_hits;
    uint64_t misses = now->misses - before->misses;
    bool served = hits == script.takes;
    self->served += served;
    if (now->live_count != 0 || now->allocs - before->allocs != script.takes)
        stress_violation("%" PRIu64 " buffers are live after a run of %" PRIu64, now->live_count,
                         now->allocs - before->allocs);
    if (served && (misses != 0 || now->plan_misses != before->plan_misses))
        stress_violation("%" PRIu64 " calls of the backing in a run of a plan", misses);
    if (served && (now->slab_bytes < now->plan_bytes || now->plan_bound > peak ||
                   now->plan_bytes > now->plan_bound + now->plan_bound / 4))
        stress_violation("a plan of %" PRIu64 " bytes in %" PRIu64 " for %" PRIu64 ", which is %zu",
                         now->plan_bytes, now->slab_bytes, now->plan_bound, peak);
    if (chain_count == 1 && self->runs >= 2 && !served)
        stress_violation("a plan served %" PRIu64 " of %u requests of run %u", hits, script.takes,
                         self->runs);
    if (served && now->slab_bytes > self->slab)
        self->slab = now->slab_bytes;
}

/* Of one chain, after a trim. */
static void check_footprint(uint64_t slab)
{
    size_t footprint = hearth_service_footprint(service);
    if (footprint > slab + SMALL)
        stress_violation("%zu bytes for one slab of %" PRIu64, footprint, slab);
}

/* On whatever thread. */
static void one_run(struct chain *self)
{
    struct hearth_exec_stats before = HEARTH_EXEC_STATS_INIT, now = HEARTH_EXEC_STATS_INIT;
    struct hearth_exec *arena = NULL;
    stress_must(hearth_service_exec(service, &arena), "an attach");
    stress_must(hearth_exec_stats(arena, &before), "stats");
    if (self->key != 0)
        stress_expect(hearth_exec_run_begin(arena, self->key), "run_begin");
    play(self, arena, chain_count == 1 && self->runs == 3);
    if (self->key != 0)
        stress_expect(hearth_exec_run_end(arena), "run_end");
    stress_must(hearth_exec_stats(arena, &now), "stats");
    judge(self, &before, &now);
    if (chain_count == 1 && self->runs > 3)
        check_footprint(now.slab_bytes);
    self->runs++;
}

static void *run_freshly(void *argument)
{
    one_run(argument);
    return NULL;
}

static void *idle(void *argument)
{
    struct idler *self = argument;
    for (;;) {
        while (sem_wait(&self->turn) != 0)
            continue;
        if (atomic_load_explicit(&finished, memory_order_relaxed))
            return NULL;
        one_run(self->chain);
        (void)sem_post(&self->done);
    }
}

static void *drive(void *argument)
{
    struct chain *self = argument;
    for (unsigned i = 0; i < RUNS; i++) {
        if (idler_count == 0) {
            pthread_t fresh;
            if (pthread_create(&fresh, NULL, run_freshly, self) == 0)
                (void)pthread_join(fresh, NULL);
            continue;
        }
        struct idler *idler = &idlers[self->number][stress_next(&self->random) % idler_count];
        (void)sem_post(&idler->turn);
        while (sem_wait(&idler->done) != 0)
            continue;
    }
    return NULL;
}

/* Slabs at most for those that went on at the same time, and what lists kept of the runs without a plan. */
static void check_chains(void)
{
    unsigned served = 0;
    size_t slab = 0;
    for (unsigned i = 0; i < chain_count; i++) {
        served += chains[i].served;
        runs += chains[i].runs;
        slab = chains[i].slab > slab ? chains[i].slab : slab;
    }
    runs_served += served;
    if (served + 2 * chain_count < chain_count * RUNS)
        stress_violation("plans served %u runs of %u, %u at the same time, %s, %s", served,
                         chain_count * RUNS, chain_count, idler_count == 0 ? "fresh" : "idlers",
                         chains[0].key != 0 ? "told" : "not told");
    size_t most = chain_count * (slab + 2 * LISTS_MOST * peak) + SMALL;
    if (hearth_service_footprint(service) > most)
        stress_violation("%zu bytes for %u slabs of %zu and lists of %zu",
                         hearth_service_footprint(service), chain_count, slab, peak);
}

static void start_idlers(void)
{
    for (unsigned c = 0; c < chain_count; c++)
        for (unsigned i = 0; i < idler_count; i++) {
            struct idler *idler = &idlers[c][i];
            idler->chain = &chains[c];
            (void)sem_init(&idler->turn, 0, 0);
            (void)sem_init(&idler->done, 0, 0);
            pthread_create(&idler->thread, NULL, idle, idler);
        }
}

static void end_idlers(void)
{
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned c = 0; c < chain_count; c++)
        for (unsigned i = 0; i < idler_count; i++) {
            (void)sem_post(&idlers[c][i].turn);
            pthread_join(idlers[c][i].thread, NULL);
            (void)sem_destroy(&idlers[c][i].turn);
            (void)sem_destroy(&idlers[c][i].done);
        }
}

static void one_round(uint64_t number, uint64_t *random)
{
    static const unsigned takes[] = {20, 120, 300};
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    struct stress_lender lender = {0};
    pthread_t drivers[CHAINS_MOST] = {0};
    with.exec_store = HEARTH_EXEC_STORE_PLANS;
    with.flags = HEARTH_SERVICE_NO_THREAD;
    service = stress_service_open(&lender, with);
    stress_script_make(&script, random, takes[stress_next(random) % 3],
                       (size_t)65536 << stress_next(random) % 4, STRESS_PEAK_MOST / 2);
    measure_peak();
    chain_count = 1u << number % 3;
    idler_count = number / 3 % 2 == 0 ? options.threads : 0;
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    for (unsigned i = 0; i < chain_count; i++)
        chains[i] = (struct chain){.number = i,
                                   .random = stress_seed(&options, i + (unsigned)number * 10),
                                   .key = number % 2};
    start_idlers();
    for (unsigned i = 0; i < chain_count; i++)
        pthread_create(&drivers[i], NULL, drive, &chains[i]);
    for (unsigned i = 0; i < chain_count; i++)
        pthread_join(drivers[i], NULL);
    check_chains();
    end_idlers();
    stress_service_home(service, true);
    hearth_service_unref(service);
    stress_lender_ended(&lender);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_plans_hop", 6);
    options.threads = options.threads > IDLERS_MOST ? IDLERS_MOST : options.threads;
    uint64_t random = stress_seed(&options, THREADS_MAX);
    for (; stress_goes_on(&options, rounds, ROUNDS_OF_SMOKE); rounds++)
        one_round(rounds, &random);
    char counts[120];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " runs, %" PRIu64 " of them served by plans", rounds,
             runs, runs_served);
    return stress_verdict("stress_plans_hop", &options, counts);
}
