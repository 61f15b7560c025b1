/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two threads return the same thing at the same moment.
 *
 * Threads come in pairs with an arena of their own. The first of a pair makes a batch, opens a gate, and
 * both run through the batch. A batch consists of leases with one reference, which both release; of bare
 * buffers, which both free; or of bare buffers that one frees and the other exports. With leases the winner
 * sometimes leases anew at once, so that the loser meets a later generation of the same slot.
 *
 * Oracle: each is returned (or exported) by exactly one of the two; the loser is answered STALE, or LEASED
 * where it lost to an export; at the end nothing is live.
 */
#include "harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define BATCH 64
#define YIELD_ONE_IN 48
#define THREADS_MAX 64
#define SMOKE_ROUNDS 1500
#define ATTEMPTS_LEAST 1000000 /* of a full run, however short */

enum kind { RELEASE_BOTH, RELEASE_ANEW, FREE_BOTH, FREE_EXPORT, KINDS };

/* Not sorted by size: what belongs together stands together. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct pair {
    struct hearth_io *arena;
    struct hearth_lease batch[BATCH];
    enum hearth_status answers[2][BATCH];
    struct hearth_lease exported[BATCH];
    enum kind kind;
    _Atomic(uint64_t) opened; /* batches handed to the second thread */
    _Atomic(uint64_t) closed; /* batches it is through with */
    _Atomic(bool) finished;
    uint64_t attempts;
    uint64_t collisions; /* batches in which both sides won something */
    unsigned number;
};

static struct stress_options options;
static struct pair pairs[THREADS_MAX / 2];

/* A few polls, then let others work: the gate should open for both at once. */
static void wait_for(_Atomic(uint64_t) *word, uint64_t value, const _Atomic(bool) *stop)
{
    for (unsigned polls = 1; atomic_load_explicit(word, memory_order_acquire) != value; polls++) {
        if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed))
            return;
        if (polls % 1024 == 0)
            sched_yield();
    }
}

static void lease_anew(struct pair *pair)
{
    struct hearth_lease lease;
    stress_must(hearth_io_lease(pair->arena, 64, &lease), "lease");
    if (hearth_lease_release(lease) != HEARTH_OK)
        stress_violation("a lease was released by somebody who does not have it");
}

static void return_batch(struct pair *pair, unsigned side, uint64_t *random)
{
    for (unsigned i = 0; i < BATCH; i++) {
        if (stress_next(random) % YIELD_ONE_IN == 0)
            sched_yield(); /* so that one overtakes the other even on one core */
        struct hearth_lease lease = pair->batch[i];
        enum hearth_status *answer = &pair->answers[side][i];
        switch (pair->kind) {
        case RELEASE_BOTH:
        case RELEASE_ANEW:
            *answer = hearth_lease_release(lease);
            if (*answer == HEARTH_OK && pair->kind == RELEASE_ANEW)
                lease_anew(pair);
            break;
        case FREE_EXPORT:
            if (side == 1) {
                *answer = hearth_io_export(pair->arena, lease.buf, &pair->exported[i]);
                break;
            }
            *answer = hearth_io_free(pair->arena, lease.buf);
            break;
        default:
            *answer = hearth_io_free(pair->arena, lease.buf);
            break;
        }
    }
}

static void make_batch(struct pair *pair, uint64_t *random)
{
    uint64_t draw = stress_next(random);
    size_t size = draw % 8 == 0 ? 65536 : 64;
    pair->kind = (enum kind)((draw >> 8) % KINDS);
    for (unsigned i = 0; i < BATCH; i++) {
        pair->batch[i] = (struct hearth_lease){NULL, 0};
        if (pair->kind == RELEASE_BOTH || pair->kind == RELEASE_ANEW)
            stress_must(hearth_io_lease(pair->arena, size, &pair->batch[i]), "lease");
        else
            stress_must(hearth_io_alloc(pair->arena, size, &pair->batch[i].buf), "alloc");
    }
}

static void judge(struct pair *pair)
{
    unsigned wins[2] = {0, 0};
    for (unsigned i = 0; i < BATCH; i++) {
        enum hearth_status first = pair->answers[0][i];
        enum hearth_status second = pair->answers[1][i];
        enum hearth_status loser = first == HEARTH_OK ? second : first;
        bool exported = pair->kind == FREE_EXPORT && second == HEARTH_OK;
        if ((first == HEARTH_OK) == (second == HEARTH_OK))
            stress_violation("kind %d: both were answered %s", (int)pair->kind,
                             hearth_status_name(first));
        else if (loser != (exported ? HEARTH_LEASED : HEARTH_STALE))
            stress_violation("kind %d: the loser was answered %s", (int)pair->kind,
                             hearth_status_name(loser));
        if (exported && hearth_lease_release(pair->exported[i]) != HEARTH_OK)
            stress_violation("an exported buffer cannot be released");
        wins[0] += first == HEARTH_OK;
        wins[1] += second == HEARTH_OK;
    }
    pair->attempts += 2 * (uint64_t)BATCH;
    pair->collisions += wins[0] != 0 && wins[1] != 0;
}

static void *lead(void *argument)
{
    struct pair *pair = argument;
    uint64_t random = stress_seed(&options, pair->number);
    uint64_t round = 0;
    while (stress_goes_on(&options, round, SMOKE_ROUNDS) ||
           (!options.smoke && pair->attempts < ATTEMPTS_LEAST)) {
        make_batch(pair, &random);
        round++;
        atomic_store_explicit(&pair->opened, round, memory_order_release);
        return_batch(pair, 0, &random);
        wait_for(&pair->closed, round, NULL);
        judge(pair);
    }
    atomic_store_explicit(&pair->finished, true, memory_order_relaxed);
    return NULL;
}

static void *follow(void *argument)
{
    struct pair *pair = argument;
    uint64_t random = stress_seed(&options, THREADS_MAX + pair->number);
    for (uint64_t round = 1;; round++) {
        wait_for(&pair->opened, round, &pair->finished);
        if (atomic_load_explicit(&pair->opened, memory_order_acquire) != round)
            return NULL;
        return_batch(pair, 1, &random);
        atomic_store_explicit(&pair->closed, round, memory_order_release);
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    struct stress_lender lenders[THREADS_MAX / 2] = {{0}};
    uint64_t attempts = 0;
    uint64_t collisions = 0;
    options = stress_parse(argc, argv, "stress_io_double_release", 4);
    unsigned count = options.threads < 2 ? 1 : options.threads / 2;
    for (size_t i = 0; i < count; i++) {
        pairs[i].number = (unsigned)i;
        pairs[i].arena =
            stress_io_open(&lenders[i], (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
        pthread_create(&threads[2 * i], NULL, lead, &pairs[i]);
        pthread_create(&threads[2 * i + 1], NULL, follow, &pairs[i]);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[2 * i], NULL);
        pthread_join(threads[2 * i + 1], NULL);
        stress_io_home(pairs[i].arena);
        stress_must(hearth_io_destroy(pairs[i].arena), "destroy");
        attempts += pairs[i].attempts;
        collisions += pairs[i].collisions;
    }
    char counts[160];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " attempts to return, %" PRIu64 " batches won by both in part", attempts,
             collisions);
    return stress_verdict("stress_io_double_release", &options, counts);
}
