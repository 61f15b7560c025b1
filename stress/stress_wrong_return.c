/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong returns, from everywhere, all the time, against an owner at work.
 *
 * The owner allocates and returns buffers and leaves their descriptors lying about in a table; the other
 * threads return whatever they find there, live or not, theirs never. So returns collide with the
 * owner's, with each other, and with later generations of the same slot.
 *
 * Oracle: nothing crashes, hangs or races; each answer is OK or STALE; and the books balance: every OK
 * brought exactly one buffer home or was found stale by the owner's drain and counted as a misuse, every
 * STALE was counted, and at the end trim finds every slot's storage.
 */
#include "harness.h"

#include <hearth/exec.h>
#include <hearth/handle.h>
#include <hearth/stats.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define TABLE 16
#define THREADS_MAX 64
#define SMOKE_ROUNDS 100000

static struct stress_options options;
static struct hearth_exec *arena;
static _Atomic(struct hearth_buf *) table[TABLE];
static _Atomic(bool) finished;
static _Atomic(uint64_t) oks, stales;

static void give_back(struct hearth_buf *buf)
{
    enum hearth_status status = hearth_exec_free(arena, buf);
    if (status == HEARTH_OK)
        atomic_fetch_add_explicit(&oks, 1, memory_order_relaxed);
    else if (status == HEARTH_STALE)
        atomic_fetch_add_explicit(&stales, 1, memory_order_relaxed);
    else
        stress_violation("a return was answered %s", hearth_status_name(status));
}

static void *return_wrongly(void *argument)
{
    uint64_t random = stress_seed(&options, *(unsigned *)argument);
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        struct hearth_buf *buf =
            atomic_load_explicit(&table[stress_next(&random) % TABLE], memory_order_acquire);
        if (buf != NULL)
            give_back(buf);
    }
    return NULL;
}

static uint64_t own(void)
{
    struct hearth_buf *mine[TABLE] = {NULL};
    uint64_t random = stress_seed(&options, 0);
    uint64_t allocs = 0;
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++) {
        unsigned i = (unsigned)(stress_next(&random) % TABLE);
        if (mine[i] != NULL) {
            give_back(mine[i]);
            mine[i] = NULL;
        } else {
            stress_must(hearth_exec_alloc(arena, 64 + i * 8, &mine[i]), "alloc");
            allocs++;
            atomic_store_explicit(&table[i], mine[i], memory_order_release);
        }
    }
    for (unsigned i = 0; i < TABLE; i++) {
        if (mine[i] != NULL)
            give_back(mine[i]);
    }
    return allocs;
}

static void check_books(uint64_t allocs)
{
    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    uint64_t ok = atomic_load_explicit(&oks, memory_order_relaxed);
    uint64_t stale = atomic_load_explicit(&stales, memory_order_relaxed);
    size_t released = 0;
    stress_must(hearth_exec_trim(arena, &released), "trim");
    stress_must(hearth_exec_stats(arena, &now), "stats");
    if (now.live_count != 0 || now.pending_count != 0 || now.retained_count != 0)
        stress_violation("%" PRIu64 " live, %" PRIu64 " pending, %" PRIu64 " retained at the end",
                         now.live_count, now.pending_count, now.retained_count);
    if (now.footprint != 0 || now.live_bytes != 0)
        stress_violation("%" PRIu64 " bytes got lost", now.footprint);
    if (now.allocs != allocs || now.frees != allocs)
        stress_violation("%" PRIu64 " out, %" PRIu64 " home", allocs, now.frees);
    if (now.misuses < stale || ok != allocs + (now.misuses - stale))
        stress_violation("%" PRIu64 " OK and %" PRIu64 " STALE for %" PRIu64 " buffers and %" PRIu64
                         " misuses",
                         ok, stale, allocs, now.misuses);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    unsigned numbers[THREADS_MAX];
    options = stress_parse(argc, argv, "stress_wrong_return", 3);
    stress_must(hearth_exec_create(NULL, &arena), "create");
    for (unsigned i = 1; i < options.threads; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, return_wrongly, &numbers[i]);
    }
    uint64_t allocs = own();
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned i = 1; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    check_books(allocs);
    stress_must(hearth_exec_destroy(arena), "destroy");
    char counts[160];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " buffers, %" PRIu64 " returns OK, %" PRIu64 " STALE", allocs,
             atomic_load_explicit(&oks, memory_order_relaxed),
             atomic_load_explicit(&stales, memory_order_relaxed));
    return stress_verdict("stress_wrong_return", &options, counts);
}
