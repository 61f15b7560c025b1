/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm: owners work on warm sets, a dozen buffers of mixed sizes that each run takes, writes to and returns,
 * well within a millisecond. One more thread fills a separate set of idle buffers and trims everything in a
 * loop. Each alloc is timed, clock included. Rounds with and without the storm alternate, so that both meet
 * the same machine.
 */
#include "measure.h"
#include "service_cases.h"

#include <hearth/exec.h>
#include <hearth/io.h>
#include <hearth/stats.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define OWNERS_MAX 16u
#define ROUNDS 6u
#define ROUND_MS 1500u
#define WARM_RUNS 1000u
#define IDLE_BUFFERS 256u
#define IDLE_BYTES ((size_t)65536)
#define BUDGET_NS UINT64_C(1000000)

static const size_t warm_set[] = {64,   4096,   1024,    65536, 256,    16384,
                                  1024, 262144, 1048576, 64,    131072, 8192};
#define WARM_COUNT (sizeof warm_set / sizeof *warm_set)

struct storm;

struct owner {
    struct storm *storm;
    struct hearth_exec *arena;
    struct bench_histogram *histogram; /* of the present round */
    struct bench_histogram calm, stormy;
    uint64_t hits, misses; /* while it stormed */
};

struct storm {
    struct hearth_service *service;
    struct owner *owners;
    unsigned owner_count;
    pthread_barrier_t barrier;
    _Atomic(bool) round_over;
    bool blows; /* written between two barriers, as `finished` */
    bool finished;
    uint64_t trims, visits, busy, released;
    uint64_t ns; /* of the rounds with the storm */
};

static void one_run(struct owner *self)
{
    struct hearth_buf *bufs[WARM_COUNT];
    for (size_t i = 0; i < WARM_COUNT; i++) {
        uint64_t start = bench_now_ns();
        enum hearth_status status = hearth_exec_alloc(self->arena, warm_set[i], &bufs[i]);
        bench_histogram_add(self->histogram, bench_now_ns() - start);
        bench_must(status, "alloc");
        *(volatile unsigned char *)hearth_buf_data(bufs[i]) = 1;
    }
    for (size_t i = 0; i < WARM_COUNT; i++) {
        bench_must(hearth_exec_free(self->arena, bufs[i]), "free");
    }
}

static void own_round(struct owner *self)
{
    struct bench_histogram warm = {.total = 0};
    struct hearth_exec_stats before = HEARTH_EXEC_STATS_INIT;
    struct hearth_exec_stats after = HEARTH_EXEC_STATS_INIT;
    struct storm *storm = self->storm;
    self->histogram = &warm;
    for (unsigned i = 0; i < WARM_RUNS; i++) {
        one_run(self);
    }
    self->histogram = storm->blows ? &self->stormy : &self->calm;
    bench_must(hearth_exec_stats(self->arena, &before), "stats");
    while (!atomic_load_explicit(&storm->round_over, memory_order_relaxed)) {
        one_run(self);
    }
    bench_must(hearth_exec_stats(self->arena, &after), "stats");
    if (storm->blows) {
        self->hits += after.hits - before.hits;
        self->misses += after.misses - before.misses;
    }
}

static void *own(void *argument)
{
    struct owner *self = argument;
    bench_must(hearth_service_exec(self->storm->service, &self->arena), "attach");
    for (;;) {
        (void)pthread_barrier_wait(&self->storm->barrier);
        if (self->storm->finished) {
            return NULL;
        }
        own_round(self);
        (void)pthread_barrier_wait(&self->storm->barrier);
    }
}

/* Half of the idle set is this thread's own, half in the shared lists. */
static void fill_and_trim(struct storm *storm, struct hearth_exec *arena)
{
    static struct hearth_buf *bufs[IDLE_BUFFERS];
    struct hearth_io *io = hearth_service_io(storm->service);
    for (unsigned i = 0; i < IDLE_BUFFERS; i++) {
        bench_must(i % 2 == 0 ? hearth_exec_alloc(arena, IDLE_BYTES, &bufs[i])
                              : hearth_io_alloc(io, IDLE_BYTES, &bufs[i]),
                   "alloc");
    }
    for (unsigned i = 0; i < IDLE_BUFFERS; i++) {
        bench_must(i % 2 == 0 ? hearth_exec_free(arena, bufs[i]) : hearth_io_free(io, bufs[i]),
                   "free");
    }
    for (unsigned i = 0; i < 8; i++) {
        struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
        uint64_t budget = i % 2 == 0 ? 0 : BUDGET_NS;
        bench_must(hearth_service_trim(storm->service, HEARTH_UNBOUNDED, budget, &report), "trim");
        storm->trims++;
        storm->visits += report.visited_caches;
        storm->busy += report.busy_caches;
        storm->released += report.released_bytes;
    }
}

static void *blow(void *argument)
{
    struct storm *storm = argument;
    struct hearth_exec *arena;
    bench_must(hearth_service_exec(storm->service, &arena), "attach");
    for (;;) {
        (void)pthread_barrier_wait(&storm->barrier);
        if (storm->finished) {
            return NULL;
        }
        uint64_t start = bench_now_ns();
        while (storm->blows && !atomic_load_explicit(&storm->round_over, memory_order_relaxed)) {
            fill_and_trim(storm, arena);
        }
        storm->ns += storm->blows ? bench_now_ns() - start : 0;
        (void)pthread_barrier_wait(&storm->barrier);
    }
}

static void tell(const char *setting, const struct storm *storm)
{
    static struct bench_histogram calm, stormy;
    static const double parts[] = {0.5, 0.99, 0.999};
    static const char *const names[] = {"p50", "p99", "p99.9"};
    uint64_t hits = 0, misses = 0;
    calm = stormy = (struct bench_histogram){.total = 0};
    for (unsigned i = 0; i < storm->owner_count; i++) {
        bench_histogram_join(&calm, &storm->owners[i].calm);
        bench_histogram_join(&stormy, &storm->owners[i].stormy);
        hits += storm->owners[i].hits;
        misses += storm->owners[i].misses;
    }
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        double without = bench_histogram_at(&calm, parts[i]);
        double with = bench_histogram_at(&stormy, parts[i]);
        char name[64];
        (void)snprintf(name, sizeof name, "%s without", names[i]);
        bench_tell("storm", setting, name, without, "ns");
        (void)snprintf(name, sizeof name, "%s with", names[i]);
        bench_tell("storm", setting, name, with, "ns");
        (void)snprintf(name, sizeof name, "%s with over without", names[i]);
        bench_tell("storm", setting, name, with / without, "ratio");
    }
    double seconds = (double)storm->ns / 1e9;
    bench_tell("storm", setting, "allocs without", (double)calm.total, "count");
    bench_tell("storm", setting, "allocs with", (double)stormy.total, "count");
    bench_tell("storm", setting, "misses with", (double)misses, "count");
    bench_tell("storm", setting, "hit rate with", 100.0 * (double)hits / (double)(hits + misses),
               "percent");
    bench_tell("storm", setting, "trims", (double)storm->trims / seconds, "per second");
    bench_tell("storm", setting, "visits", (double)storm->visits / seconds, "per second");
    bench_tell("storm", setting, "caches left alone", (double)storm->busy / seconds, "per second");
    bench_tell("storm", setting, "released", (double)storm->released / seconds, "bytes per second");
}

static void run(const char *setting, unsigned owner_count, bool quick)
{
    struct storm storm = {.owner_count = owner_count};
    pthread_t threads[OWNERS_MAX + 1];
    storm.service = bench_open_service(NULL);
    storm.owners = calloc(owner_count, sizeof *storm.owners);
    if (storm.owners == NULL) {
        bench_die("storm", "out of memory");
    }
    (void)pthread_barrier_init(&storm.barrier, NULL, owner_count + 2);
    for (unsigned i = 0; i <= owner_count; i++) {
        void *argument = i < owner_count ? (void *)&storm.owners[i] : &storm;
        if (i < owner_count) {
            storm.owners[i].storm = &storm;
        }
        if (pthread_create(&threads[i], NULL, i < owner_count ? own : blow, argument) != 0) {
            bench_die("storm", "no thread");
        }
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        storm.blows = round % 2 == 1;
        atomic_store_explicit(&storm.round_over, false, memory_order_relaxed);
        (void)pthread_barrier_wait(&storm.barrier);
        bench_sleep_ms(quick ? ROUND_MS / 10 : ROUND_MS);
        atomic_store_explicit(&storm.round_over, true, memory_order_relaxed);
        (void)pthread_barrier_wait(&storm.barrier);
    }
    storm.finished = true;
    (void)pthread_barrier_wait(&storm.barrier);
    for (unsigned i = 0; i <= owner_count; i++) {
        pthread_join(threads[i], NULL);
    }
    tell(setting, &storm);
    free(storm.owners);
    hearth_service_unref(storm.service);
}

void bench_service_storm(bool quick)
{
    run("1 owner", 1, quick);
    run("16 owners", OWNERS_MAX, quick);
}
