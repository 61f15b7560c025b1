/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arenas that change their owner.
 *
 * A few arenas are shared by more threads. A thread that finds one without an owner claims it by
 * allocating, works with the arena and with plain data that goes with it, and releases it again.
 *
 * Oracle: the plain data of an arena is only ever seen whole (and ThreadSanitizer sees no race on it or
 * in the arena): two owners at a time, or an owner that does not see its predecessor's work, would show.
 */
#include "harness.h"

#include <hearth/exec.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define ARENAS 2
#define BUFFERS 8
#define THREADS_MAX 64
#define SMOKE_ROUNDS 30000

struct shared {
    struct hearth_exec *arena;
    /* Guarded by ownership of the arena. */
    struct hearth_buf *live[BUFFERS];
    uint64_t tags[BUFFERS];
    uint64_t turns;
};

static struct stress_options options;
static struct shared shared[ARENAS];
static _Atomic(uint64_t) claims, refusals;

static void use(struct shared *it, struct hearth_buf *first, uint64_t *random)
{
    it->turns++;
    if (hearth_exec_free(it->arena, first) != HEARTH_OK)
        stress_violation("the owner's return was refused");
    for (unsigned i = 0; i < BUFFERS; i++) {
        if (it->live[i] != NULL) {
            if (!stress_check(it->live[i], it->tags[i]))
                stress_violation("a buffer of the former owner is damaged");
            if (hearth_exec_free(it->arena, it->live[i]) != HEARTH_OK)
                stress_violation("a return of the former owner's buffer was refused");
            it->live[i] = NULL;
        } else if (stress_next(random) % 2 == 0) {
            stress_must(hearth_exec_alloc(it->arena, 64 + i * 64, &it->live[i]), "alloc");
            it->tags[i] = stress_next(random);
            stress_fill(it->live[i], it->tags[i]);
        }
    }
    stress_must(hearth_exec_release_owner(it->arena), "release_owner");
}

static void *work(void *argument)
{
    uint64_t random = stress_seed(&options, *(unsigned *)argument);
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++) {
        struct shared *it = &shared[stress_next(&random) % ARENAS];
        struct hearth_buf *buf;
        enum hearth_status status = hearth_exec_alloc(it->arena, 64, &buf);
        if (status == HEARTH_OK) {
            atomic_fetch_add_explicit(&claims, 1, memory_order_relaxed);
            use(it, buf, &random);
        } else if (status == HEARTH_NOT_OWNER) {
            atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
        } else {
            stress_violation("an allocation was answered %s", hearth_status_name(status));
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    unsigned numbers[THREADS_MAX];
    options = stress_parse(argc, argv, "stress_hand_over", 4);
    for (unsigned i = 0; i < ARENAS; i++) {
        stress_must(hearth_exec_create(NULL, &shared[i].arena), "create");
        stress_must(hearth_exec_release_owner(shared[i].arena), "release_owner");
    }
    for (unsigned i = 0; i < options.threads; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    uint64_t turns = 0;
    for (unsigned i = 0; i < ARENAS; i++) {
        turns += shared[i].turns;
        for (unsigned j = 0; j < BUFFERS; j++) {
            if (shared[i].live[j] != NULL)
                (void)hearth_exec_free(shared[i].arena, shared[i].live[j]);
        }
        stress_must(hearth_exec_destroy(shared[i].arena), "destroy");
    }
    uint64_t claimed = atomic_load_explicit(&claims, memory_order_relaxed);
    if (turns != claimed)
        stress_violation("%" PRIu64 " claims but %" PRIu64 " turns", claimed, turns);
    char counts[96];
    snprintf(counts, sizeof counts, "%" PRIu64 " claims, %" PRIu64 " refused", claimed,
             atomic_load_explicit(&refusals, memory_order_relaxed));
    return stress_verdict("stress_hand_over", &options, counts);
}
