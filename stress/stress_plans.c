/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that repeat, and runs that do not keep to what they did before, on the arenas of a service with plans.
 *
 * Workers play scripts: the same again and again, so that plans are made, and copies of them that were cut off,
 * joined, extended, permuted. Some tell where runs begin and end and which they are, others do not. Blocks are
 * returned late, or by other threads, or after the run's end, are resized and moved into the I/O arena; threads
 * end in the middle of a run, and each run may be another thread's. In some services all is trimmed and the
 * limits move, in others the maintenance thread ages storage. A reader looks at all figures.
 *
 * Oracle: each unit of 64 bytes of a live block is its owner's; hearth_buf_of() finds what is live; a second
 * return is refused; no request is; the figures of an arena add up in each reading, and never pass what scripts
 * and caps can make of them; when all threads have ended, live is what is kept, and at the end all is home.
 */
#include "player.h"
#include "runs.h"
#include "service.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define THREADS_MAX 16
#define ROUNDS_OF_SMOKE 8
#define LIVES 40
#define LIVES_OF_SMOKE 5
#define CEILING ((size_t)8 << 20)
#define HITS_LEAST 10u /* percent of the requests of calm rounds */

static struct stress_options options;
static struct stress_script scripts[STRESS_SCRIPTS];
static struct player players[THREADS_MAX];
static struct hearth_service *service;
static struct hearth_backing *backing;
static _Atomic(bool) finished;
static uint64_t readings, consistent_readings;

static void look_at_arena(const struct hearth_exec *arena)
{
    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    stress_must(hearth_exec_stats(arena, &now), "stats");
    readings++;
    consistent_readings += now.consistent;
    if (now.live_capacity > ARENA_MOST || now.live_bytes > ARENA_MOST ||
        now.retained_bytes > ARENA_MOST || now.pending_bytes > ARENA_MOST ||
        now.footprint > ARENA_MOST || now.peak_bytes > ARENA_MOST)
        stress_violation("live %" PRIu64 " (%" PRIu64 "), retained %" PRIu64 ", pending %" PRIu64
                         ", footprint %" PRIu64 ": at most %zu is possible",
                         now.live_capacity, now.live_bytes, now.retained_bytes, now.pending_bytes,
                         now.footprint, ARENA_MOST);
    if (!now.consistent)
        return;
    if (now.live_capacity + now.retained_bytes + now.pending_bytes != now.footprint)
        stress_violation("live %" PRIu64 " + retained %" PRIu64 " + pending %" PRIu64
                         " is not the footprint %" PRIu64,
                         now.live_capacity, now.retained_bytes, now.pending_bytes, now.footprint);
    if (now.live_bytes > now.live_capacity || now.allocs - now.frees != now.live_count)
        stress_violation("%" PRIu64 " of %" PRIu64 " bytes, %" PRIu64
                         " buffers are live, but %" PRIu64 " were taken and %" PRIu64 " returned",
                         now.live_bytes, now.live_capacity, now.live_count, now.allocs, now.frees);
    if (now.plan_hits + now.plan_misses > now.allocs || now.plan_blocked > now.plan_misses ||
        now.planned_runs > now.runs || now.slab_bytes > EXEC_CAP)
        stress_violation("%" PRIu64 " hits, %" PRIu64 " misses (%" PRIu64 " blocked) of %" PRIu64
                         " requests, %" PRIu64 " of %" PRIu64 " runs, a slab of %" PRIu64,
                         now.plan_hits, now.plan_misses, now.plan_blocked, now.allocs,
                         now.planned_runs, now.runs, now.slab_bytes);
}

static void *read_figures(void *argument)
{
    (void)argument;
    /* A player's own thread may keep its arenas, of three depths, while another one plays. */
    size_t arenas = 6 * (size_t)options.threads;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        for (unsigned i = 0; i < options.threads; i++) {
            (void)pthread_mutex_lock(&players[i].lock);
            if (players[i].shown != NULL)
                look_at_arena(players[i].shown);
            (void)pthread_mutex_unlock(&players[i].lock);
        }
        stress_service_look(service, arenas + 1, arenas * ARENA_MOST * 2);
        sched_yield();
    }
    return NULL;
}

static void open_round(enum weather weather, struct stress_lender *lender)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    with.exec_store = HEARTH_EXEC_STORE_PLANS;
    with.exec_cap = EXEC_CAP;
    with.maintenance_bytes = 65536;
    with.flags = weather == ALL ? 0 : HEARTH_SERVICE_NO_THREAD;
    if (weather == ALL) {
        with.age_ms = 20;
        with.age_runs = 64;
        with.ceiling = CEILING;
        with.grant = 65536;
    }
    backing = stress_lender_open(lender);
    with.exec_backing = backing;
    with.io_backing = backing;
    stress_must(hearth_service_create(&with, &service), "create");
}

/* All threads ended; what they kept is live, and nothing else. */
static void check_ended(bool alone)
{
    size_t capacity = stress_blocks_posted();
    for (unsigned i = 0; i < options.threads; i++)
        capacity += player_kept(&players[i]);
    if (hearth_service_live_capacity(service) != capacity)
        stress_violation("%zu bytes are kept, live are %zu", capacity,
                         hearth_service_live_capacity(service));
    if (alone && hearth_service_footprint(service) != hearth_backing_footprint(backing))
        stress_violation("the footprint is %zu, the backing lent %zu",
                         hearth_service_footprint(service), hearth_backing_footprint(backing));
}

/* Nothing is live; what runs of ended threads had is within reach. */
static void check_ceiling(void)
{
    size_t retained = hearth_service_retained_bytes(service);
    for (unsigned i = 0; i < 100 && retained > CEILING; i++) {
        (void)stress_service_trim(service, retained - CEILING, 0, false);
        retained = hearth_service_retained_bytes(service);
    }
    if (retained > CEILING)
        stress_violation("%zu bytes are retained above the ceiling", retained);
}

static void one_round(uint64_t number)
{
    pthread_t threads[THREADS_MAX] = {0}, reader;
    struct stress_lender lender = {0};
    enum weather weather = (enum weather)((number + options.seed) % WEATHERS);
    open_round(weather, &lender);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        players[i].service = service;
        players[i].weather = weather;
        players[i].lives = options.smoke ? LIVES_OF_SMOKE : LIVES;
        pthread_create(&threads[i], NULL, player_work, &players[i]);
    }
    pthread_create(&reader, NULL, read_figures, NULL);
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    pthread_join(reader, NULL);
    check_ended(weather != ALL);
    for (unsigned i = 0; i < options.threads; i++)
        player_return_all(&players[i]);
    stress_blocks_clear();
    if (weather == ALL)
        check_ceiling();
    stress_service_home(service, weather != ALL);
    hearth_service_unref(service);
    hearth_backing_unref(backing);
    stress_lender_ended(&lender);
}

static struct tally add_up(void)
{
    struct tally sum = {0};
    for (unsigned i = 0; i < options.threads; i++) {
        const struct tally *one = &players[i].tally;
        sum.runs += one->runs;
        sum.takes += one->takes;
        sum.threads += one->threads;
        sum.hits += one->hits;
        sum.misses += one->misses;
        sum.blocked += one->blocked;
        sum.made += one->made;
        sum.calm_takes += one->calm_takes;
        sum.calm_hits += one->calm_hits;
    }
    return sum;
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_plans", 4);
    options.threads = options.threads > THREADS_MAX ? THREADS_MAX : options.threads;
    stress_scripts_make(scripts, stress_seed(&options, THREADS_MAX));
    for (unsigned i = 0; i < options.threads; i++)
        player_init(&players[i], &options, scripts, i);
    for (; stress_goes_on(&options, rounds, ROUNDS_OF_SMOKE); rounds++)
        one_round(rounds);
    struct tally sum = add_up();
    if (sum.calm_hits * 100 < sum.calm_takes * HITS_LEAST)
        stress_violation("plans served %" PRIu64 " of %" PRIu64 " requests in calm rounds",
                         sum.calm_hits, sum.calm_takes);
    char counts[300];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " lives, %" PRIu64 " runs, %" PRIu64
             " buffers, %" PRIu64 " plans, %" PRIu64 " hits (%" PRIu64 " of %" PRIu64
             " in calm rounds), %" PRIu64 " misses, %" PRIu64 " blocked, %" PRIu64
             " readings (%" PRIu64 " consistent)",
             rounds, sum.threads, sum.runs, sum.takes, sum.made, sum.hits, sum.calm_hits,
             sum.calm_takes, sum.misses, sum.blocked, readings, consistent_readings);
    return stress_verdict("stress_plans", &options, counts);
}
