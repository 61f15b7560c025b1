/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns by other threads against an owner at work.
 *
 * Each thread owns an arena, allocates buffers, fills each with a pattern that names it, and posts it in
 * one of its boxes. Every thread takes from everybody's boxes, checks the pattern and returns the
 * buffer to the arena it came from. A reader looks at all arenas' figures all the time.
 *
 * Oracle: a pattern is never wrong (that would be two holders of one buffer); no return is refused; no
 * reading is impossible, and in one marked consistent the figures add up and counts agree with bytes
 * exactly; at the end nothing is live or pending, as many buffers came home as went out, and trim
 * gives everything back.
 */
#include "harness.h"

#include <hearth/exec.h>
#include <hearth/stats.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define BOXES 32
#define SIZE ((size_t)512) /* one for all, so that counts and bytes can be compared */
#define THREADS_MAX 64
#define SMOKE_ROUNDS 40000

struct parcel {
    struct hearth_buf *buf;
    struct hearth_exec *arena;
    uint64_t tag;
};

struct owner {
    struct hearth_exec *arena;
    _Atomic(struct parcel *) boxes[BOXES];
    uint64_t allocs;
    unsigned number;
};

static struct stress_options options;
static struct owner owners[THREADS_MAX];
static pthread_barrier_t barrier;
static _Atomic(bool) finished;
static uint64_t readings, consistent_readings;

static void post(struct owner *self, uint64_t *random)
{
    unsigned box = (unsigned)(stress_next(random) % BOXES);
    if (atomic_load_explicit(&self->boxes[box], memory_order_relaxed) != NULL)
        return;
    struct parcel *parcel = malloc(sizeof *parcel);
    if (parcel == NULL)
        abort();
    parcel->arena = self->arena;
    stress_must(hearth_exec_alloc(self->arena, SIZE, &parcel->buf), "alloc");
    self->allocs++;
    parcel->tag = (uint64_t)self->number << 48 | self->allocs;
    stress_fill(parcel->buf, parcel->tag);
    atomic_store_explicit(&self->boxes[box], parcel, memory_order_release);
}

static void take(struct owner *from, unsigned box)
{
    struct parcel *parcel = atomic_exchange_explicit(&from->boxes[box], NULL, memory_order_acq_rel);
    if (parcel == NULL)
        return;
    if (!stress_check(parcel->buf, parcel->tag))
        stress_violation("the pattern of a buffer in flight is wrong");
    enum hearth_status status = hearth_exec_free(parcel->arena, parcel->buf);
    if (status != HEARTH_OK)
        stress_violation("a right return was answered %s", hearth_status_name(status));
    free(parcel);
}

static void check_home(const struct owner *self)
{
    struct hearth_exec_stats stats = HEARTH_EXEC_STATS_INIT;
    stress_must(hearth_exec_trim(self->arena, NULL), "trim");
    stress_must(hearth_exec_stats(self->arena, &stats), "stats");
    if (stats.live_count != 0 || stats.pending_count != 0 || stats.footprint != 0)
        stress_violation("%" PRIu64 " live, %" PRIu64 " pending, %" PRIu64 " bytes after the end",
                         stats.live_count, stats.pending_count, stats.footprint);
    if (stats.allocs != self->allocs || stats.frees != self->allocs || stats.misuses != 0)
        stress_violation("%" PRIu64 " out, %" PRIu64 " home, %" PRIu64 " misuses", stats.allocs,
                         stats.frees, stats.misuses);
}

static void *work(void *argument)
{
    struct owner *self = argument;
    uint64_t random = stress_seed(&options, self->number);
    stress_must(hearth_exec_create(NULL, &self->arena), "create");
    (void)pthread_barrier_wait(&barrier);
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++) {
        post(self, &random);
        take(&owners[stress_next(&random) % options.threads],
             (unsigned)(stress_next(&random) % BOXES));
    }
    (void)pthread_barrier_wait(&barrier);
    for (unsigned box = 0; box < BOXES; box++)
        take(&owners[(self->number + 1) % options.threads], box);
    (void)pthread_barrier_wait(&barrier);
    check_home(self);
    (void)pthread_barrier_wait(&barrier); /* the reader stops before the arena ends */
    (void)pthread_barrier_wait(&barrier);
    stress_must(hearth_exec_destroy(self->arena), "destroy");
    return NULL;
}

static void look(const struct owner *owner)
{
    static const uint64_t impossible = UINT64_C(1) << 40;
    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    stress_must(hearth_exec_stats(owner->arena, &now), "stats");
    readings++;
    consistent_readings += now.consistent;
    if (now.live_count > impossible || now.live_capacity > impossible ||
        now.retained_bytes > impossible || now.pending_bytes > impossible)
        stress_violation("a reading is below zero");
    if (now.frees > now.allocs)
        stress_violation("%" PRIu64 " came home of %" PRIu64, now.frees, now.allocs);
    if (now.consistent && now.live_bytes != now.live_count * SIZE)
        stress_violation("%" PRIu64 " buffers live, but %" PRIu64 " bytes", now.live_count,
                         now.live_bytes);
    if (now.consistent &&
        now.live_capacity + now.retained_bytes + now.pending_bytes != now.footprint)
        stress_violation("live %" PRIu64 " + retained %" PRIu64 " + pending %" PRIu64
                         " is not the footprint %" PRIu64,
                         now.live_capacity, now.retained_bytes, now.pending_bytes, now.footprint);
}

static void *read_figures(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        for (unsigned i = 0; i < options.threads; i++)
            look(&owners[i]);
        sched_yield();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    pthread_t reader;
    options = stress_parse(argc, argv, "stress_remote_free", 3);
    pthread_barrier_init(&barrier, NULL, options.threads + 1);
    for (unsigned i = 0; i < options.threads; i++) {
        owners[i].number = i;
        pthread_create(&threads[i], NULL, work, &owners[i]);
    }
    (void)pthread_barrier_wait(&barrier); /* all arenas exist */
    pthread_create(&reader, NULL, read_figures, NULL);
    (void)pthread_barrier_wait(&barrier); /* no thread allocates any more */
    (void)pthread_barrier_wait(&barrier); /* every buffer is home */
    (void)pthread_barrier_wait(&barrier); /* all checked */
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    pthread_join(reader, NULL);
    (void)pthread_barrier_wait(&barrier);
    uint64_t allocs = 0;
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        allocs += owners[i].allocs;
    }
    char counts[160];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " buffers, %" PRIu64 " readings (%" PRIu64 " consistent)", allocs, readings,
             consistent_readings);
    return stress_verdict("stress_remote_free", &options, counts);
}
