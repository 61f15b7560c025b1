/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No growth without need.
 *
 * Producers lease buffers of one size, mark them and put them into boxes, consumers take, check and release
 * them. Each round has another number of producers and consumers (1:1, 1:N, N:1, N:M) and another size.
 *
 * Oracle: the backing was asked for at most as many segments as buffers were in flight at a time, plus what
 * threads' caches may keep to themselves: for sizes below 64 KiB twice max(2, min(32, 64 KiB / size)) each, from
 * there on none but the one that each thread has in its hands. Payloads are right, all come home.
 */
#include "harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define BOXES 16
#define THREADS_MAX 64
#define MAGAZINES_BELOW ((size_t)64 << 10)
#define SMOKE_ROUNDS 10
#define BUFFERS 20000 /* of all producers in a round */
#define SMOKE_BUFFERS 2000

struct parcel {
    struct hearth_lease lease;
    uint64_t tag;
};

struct worker {
    uint64_t random;
    uint64_t count; /* still to be made */
    unsigned number;
};

static struct stress_options options;
static struct hearth_io *arena;
static size_t size;
static _Atomic(struct parcel *) boxes[BOXES];
static _Atomic(size_t) in_flight, most_in_flight;
static _Atomic(unsigned) producing;

static size_t caches_keep(size_t bytes)
{
    size_t limit = MAGAZINES_BELOW / bytes;
    if (bytes >= MAGAZINES_BELOW)
        return 1;
    limit = limit > 32 ? 32 : limit;
    return 2 * (limit < 2 ? 2 : limit);
}

static void take_off(void)
{
    size_t now = atomic_fetch_add_explicit(&in_flight, 1, memory_order_relaxed) + 1;
    size_t most = atomic_load_explicit(&most_in_flight, memory_order_relaxed);
    while (now > most &&
           !atomic_compare_exchange_weak_explicit(&most_in_flight, &most, now, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static void deliver(struct parcel *parcel)
{
    void *data = hearth_lease_data(parcel->lease);
    if (data == NULL || !stress_marked(data, size, parcel->tag))
        stress_violation("the payload of a buffer in flight is wrong");
    enum hearth_status status = hearth_lease_release(parcel->lease);
    if (status != HEARTH_OK)
        stress_violation("a release was answered %s", hearth_status_name(status));
    /* After the release: what is on its way home counts as in flight. */
    atomic_fetch_sub_explicit(&in_flight, 1, memory_order_relaxed);
    free(parcel);
}

static void produce(struct worker *self)
{
    struct parcel *parcel = malloc(sizeof *parcel);
    if (parcel == NULL)
        abort();
    take_off();
    stress_must(hearth_io_lease(arena, size, &parcel->lease), "lease");
    parcel->tag = (uint64_t)(self->number + 1) << 48 | self->count;
    stress_mark(hearth_lease_data(parcel->lease), size, parcel->tag);
    for (;;) {
        struct parcel *empty = NULL;
        if (atomic_compare_exchange_strong_explicit(&boxes[stress_next(&self->random) % BOXES],
                                                    &empty, parcel, memory_order_release,
                                                    memory_order_relaxed))
            return;
        sched_yield();
    }
}

static void *produce_all(void *argument)
{
    struct worker *self = argument;
    for (; self->count > 0; self->count--)
        produce(self);
    atomic_fetch_sub_explicit(&producing, 1, memory_order_release);
    return NULL;
}

static bool consume(struct worker *self)
{
    bool found = false;
    unsigned start = (unsigned)(stress_next(&self->random) % BOXES);
    for (unsigned i = 0; i < BOXES; i++) {
        struct parcel *parcel =
            atomic_exchange_explicit(&boxes[(start + i) % BOXES], NULL, memory_order_acquire);
        if (parcel == NULL)
            continue;
        deliver(parcel);
        found = true;
    }
    return found;
}

static void *consume_all(void *argument)
{
    for (;;) {
        bool last = atomic_load_explicit(&producing, memory_order_acquire) == 0;
        if (consume(argument))
            continue;
        if (last)
            return NULL;
        sched_yield();
    }
}

static void check_round(struct stress_lender *lender, unsigned threads)
{
    size_t obtained = atomic_load_explicit(&lender->acquires, memory_order_relaxed);
    size_t most = atomic_load_explicit(&most_in_flight, memory_order_relaxed);
    size_t allowed = most + threads * caches_keep(size);
    if (obtained > allowed)
        stress_violation("%zu segments of %zu bytes for %zu in flight and %u threads", obtained,
                         size, most, threads);
    stress_io_home(arena);
    stress_must(hearth_io_destroy(arena), "destroy");
    if (atomic_load_explicit(&lender->destroys, memory_order_acquire) != 1)
        stress_violation("the arena ended, but not its backing");
}

static void one_round(uint64_t number)
{
    static const size_t sizes[] = {256, 131072, 4096, 65536, 40000};
    pthread_t threads[2 * THREADS_MAX];
    struct worker workers[2 * THREADS_MAX];
    struct stress_lender lender = {0};
    unsigned producers = number % 4 < 2 ? 1 : options.threads;
    unsigned consumers = number % 2 == 0 ? 1 : options.threads;
    if (producers == 0)
        return; /* the options do not allow it; the analyzer does not know */
    size = sizes[number % (sizeof sizes / sizeof *sizes)];
    arena = stress_io_open(&lender, (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    atomic_store_explicit(&most_in_flight, 0, memory_order_relaxed);
    atomic_store_explicit(&producing, producers, memory_order_relaxed);
    for (unsigned i = 0; i < producers + consumers; i++) {
        workers[i] = (struct worker){.number = i};
        workers[i].random = stress_seed(&options, i + (unsigned)number * 2 * THREADS_MAX);
        workers[i].count = (options.smoke ? SMOKE_BUFFERS : BUFFERS) / producers;
        pthread_create(&threads[i], NULL, i < producers ? produce_all : consume_all, &workers[i]);
    }
    for (unsigned i = 0; i < producers + consumers; i++)
        pthread_join(threads[i], NULL);
    check_round(&lender, producers + consumers);
}

int main(int argc, char **argv)
{
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_io_growth", 3);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds);
    char counts[80];
    snprintf(counts, sizeof counts, "%" PRIu64 " rounds", rounds);
    return stress_verdict("stress_io_growth", &options, counts);
}
