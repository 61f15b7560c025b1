/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process-wide metadata: arenas that are made and ended on all threads at once, and look-ups of
 * pointers into arenas of any age.
 *
 * Oracle: a buffer's owner is the arena that lent it, and nobody else writes its payload: a metadata
 * segment that two arenas got at a time would break either. Look-ups of old pointers answer with a
 * status. Metadata stays bounded by what is in use at a time.
 */
#include "harness.h"

#include <hearth/exec.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#define BUFFERS 600 /* more than the slots of an arena's first segment, so that it takes another */
#define OLD 64
#define CHURN 50
#define THREADS_MAX 64
#define SMOKE_ROUNDS 100

static struct stress_options options;
static _Atomic(struct hearth_buf *) old_buffers[OLD];
static _Atomic(void *) old_data[OLD];
static _Atomic(uint64_t) arenas;
static _Atomic(struct hearth_exec *) in_use[THREADS_MAX];

static void look_up_old(uint64_t *random)
{
    unsigned i = (unsigned)(stress_next(random) % OLD);
    struct hearth_buf *found = NULL;
    enum hearth_status status =
        hearth_buf_of(atomic_load_explicit(&old_data[i], memory_order_relaxed), &found);
    if (status != HEARTH_OK && status != HEARTH_FOREIGN && status != HEARTH_STALE)
        stress_violation("a look-up was answered %s", hearth_status_name(status));
    (void)hearth_buf_owner(atomic_load_explicit(&old_buffers[i], memory_order_relaxed));
}

static void one_arena(unsigned number, uint64_t *random)
{
    static _Thread_local struct hearth_buf *bufs[BUFFERS];
    struct hearth_exec *arena;
    /* Mostly small arenas, which come and go fast; one in eight takes a second segment. */
    size_t count = 1 + stress_next(random) % (stress_next(random) % 8 == 0 ? BUFFERS : 8);
    stress_must(hearth_exec_create(NULL, &arena), "create");
    atomic_fetch_add_explicit(&arenas, 1, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        stress_must(hearth_exec_alloc(arena, 64, &bufs[i]), "alloc");
        stress_fill(bufs[i], (uint64_t)number << 32 | i);
    }
    look_up_old(random);
    for (size_t i = 0; i < count; i++) {
        struct hearth_buf *found = NULL;
        if (hearth_buf_owner(bufs[i]) != hearth_exec_allocator(arena))
            stress_violation("a buffer has another owner than the arena that lent it");
        if (!stress_check(bufs[i], (uint64_t)number << 32 | i))
            stress_violation("a payload was written by somebody else");
        if (hearth_buf_of(hearth_buf_data(bufs[i]), &found) != HEARTH_OK || found != bufs[i])
            stress_violation("a live payload is not found");
    }
    unsigned slot = (unsigned)(stress_next(random) % OLD);
    atomic_store_explicit(&old_data[slot], hearth_buf_data(bufs[0]), memory_order_relaxed);
    atomic_store_explicit(&old_buffers[slot], bufs[0], memory_order_relaxed);
    for (size_t i = 0; i < count; i++)
        stress_must(hearth_exec_free(arena, bufs[i]), "free");
    stress_must(hearth_exec_destroy(arena), "destroy");
}

/* Arenas come and go without buffers, as fast as they can: a core that two threads got at a time would be
 * found in two places. */
static void churn(unsigned number)
{
    for (unsigned i = 0; i < CHURN; i++) {
        struct hearth_exec *arena;
        stress_must(hearth_exec_create(NULL, &arena), "create");
        atomic_store_explicit(&in_use[number], arena, memory_order_seq_cst);
        for (unsigned other = 0; other < options.threads; other++) {
            if (other != number &&
                atomic_load_explicit(&in_use[other], memory_order_seq_cst) == arena)
                stress_violation("two threads got the same arena");
        }
        atomic_store_explicit(&in_use[number], NULL, memory_order_seq_cst);
        stress_must(hearth_exec_destroy(arena), "destroy");
    }
    atomic_fetch_add_explicit(&arenas, CHURN, memory_order_relaxed);
}

static void *work(void *argument)
{
    unsigned number = *(unsigned *)argument;
    uint64_t random = stress_seed(&options, number);
    for (uint64_t round = 0; stress_goes_on(&options, round, SMOKE_ROUNDS); round++) {
        one_arena(number, &random);
        churn(number);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    unsigned numbers[THREADS_MAX];
    options = stress_parse(argc, argv, "stress_metadata", 4);
    for (unsigned i = 0; i < options.threads; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    char counts[64];
    snprintf(counts, sizeof counts, "%" PRIu64 " arenas",
             atomic_load_explicit(&arenas, memory_order_relaxed));
    return stress_verdict("stress_metadata", &options, counts);
}
