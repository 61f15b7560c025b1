/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an arena against returns.
 *
 * In each round an owner makes an arena on a backing of its own, hands its buffers to all threads, and
 * ends the arena by detach while they are being returned, some before, some after.
 *
 * Oracle: patterns are right; every return is OK; the backing is destroyed exactly once per round, after
 * the last buffer, with every byte given back.
 */
#include "harness.h"

#include <hearth/backing.h>
#include <hearth/exec.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFERS 24
#define THREADS_MAX 64
#define SMOKE_ROUNDS 1500

static struct stress_options options;
static pthread_barrier_t barrier;
static struct hearth_exec *arena;
static _Atomic(struct hearth_buf *) posted[BUFFERS];
static _Atomic(int) destroyed;
static _Atomic(int64_t) lent;
static bool finished; /* written between two barriers */

static enum hearth_status heap_acquire(void *context, size_t bytes, size_t alignment,
                                       struct hearth_segment *segment)
{
    (void)context;
    bytes = (bytes + alignment - 1) & ~(alignment - 1);
    segment->base = aligned_alloc(alignment, bytes);
    segment->length = bytes;
    atomic_fetch_add_explicit(&lent, 1, memory_order_relaxed);
    return segment->base == NULL ? HEARTH_NO_MEMORY : HEARTH_OK;
}

static void heap_release(void *context, const struct hearth_segment *segment)
{
    (void)context;
    atomic_fetch_sub_explicit(&lent, 1, memory_order_relaxed);
    free(segment->base);
}

static void heap_destroy(void *context)
{
    (void)context;
    if (atomic_load_explicit(&lent, memory_order_relaxed) != 0)
        stress_violation("the backing ended with segments out");
    atomic_fetch_add_explicit(&destroyed, 1, memory_order_relaxed);
}

static const struct hearth_backing_ops heap_ops = {
    .size = sizeof heap_ops,
    .name = "heap",
    .acquire = heap_acquire,
    .release = heap_release,
    .destroy = heap_destroy,
};

static void take_some(unsigned number)
{
    for (unsigned i = 0; i < BUFFERS; i++) {
        unsigned slot = (i * 7 + number) % BUFFERS;
        struct hearth_buf *buf =
            atomic_exchange_explicit(&posted[slot], NULL, memory_order_acq_rel);
        if (buf == NULL)
            continue;
        if (!stress_check(buf, slot))
            stress_violation("the pattern of a buffer in flight is wrong");
        enum hearth_status status = hearth_exec_free(arena, buf);
        if (status != HEARTH_OK)
            stress_violation("a right return was answered %s", hearth_status_name(status));
    }
}

static void *return_some(void *argument)
{
    for (;;) {
        (void)pthread_barrier_wait(&barrier);
        if (finished)
            return NULL;
        take_some(*(unsigned *)argument);
        (void)pthread_barrier_wait(&barrier);
    }
}

static void one_round(uint64_t *random)
{
    struct hearth_backing *backing;
    struct hearth_exec_options exec_options = HEARTH_EXEC_OPTIONS_INIT;
    stress_must(hearth_backing_create(&heap_ops, NULL, &backing), "backing");
    exec_options.backing = backing;
    stress_must(hearth_exec_create(&exec_options, &arena), "create");
    hearth_backing_unref(backing);
    atomic_store_explicit(&destroyed, 0, memory_order_relaxed);
    for (unsigned i = 0; i < BUFFERS; i++) {
        struct hearth_buf *buf;
        stress_must(hearth_exec_alloc(arena, 64 + i * 64, &buf), "alloc");
        stress_fill(buf, i);
        atomic_store_explicit(&posted[i], buf, memory_order_relaxed);
    }
    (void)pthread_barrier_wait(&barrier);
    for (uint64_t spin = stress_next(random) % 2000; spin > 0; spin--)
        atomic_signal_fence(memory_order_relaxed);
    size_t outstanding = BUFFERS + 1;
    stress_must(hearth_exec_detach(arena, &outstanding), "detach");
    if (outstanding > BUFFERS)
        stress_violation("%zu of %d buffers were out", outstanding, BUFFERS);
    (void)pthread_barrier_wait(&barrier);
    int ends = atomic_load_explicit(&destroyed, memory_order_relaxed);
    if (ends != 1)
        stress_violation("the arena ended %d times", ends);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    unsigned numbers[THREADS_MAX];
    options = stress_parse(argc, argv, "stress_detach", 3);
    pthread_barrier_init(&barrier, NULL, options.threads);
    for (unsigned i = 1; i < options.threads; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, return_some, &numbers[i]);
    }
    uint64_t random = stress_seed(&options, 0);
    uint64_t rounds = 0;
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(&random);
    finished = true;
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 1; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    char counts[64];
    snprintf(counts, sizeof counts, "%" PRIu64 " arenas ended", rounds);
    return stress_verdict("stress_detach", &options, counts);
}
