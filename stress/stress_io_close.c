/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an arena against all that may still come home.
 *
 * In each round an arena is made on a backing of its own and its buffers and leases are spread over all
 * threads. Then one thread closes, tries to destroy, or gives up its reference, at a random moment; the others
 * hold references or none, take more while they are let, and release, retain, free and export what there
 * is. The last return is anybody's.
 *
 * Oracle: what is held stays valid and keeps its payload; every right call is OK, requests are OK or
 * CLOSED; after the round the backing was destroyed once, with every segment back; every lease of the round is
 * stale then; and a thousand arenas take no more memory than a hundred.
 */
#include "harness.h"

#include "core/atomic.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ITEMS 24
#define THREADS_MAX 64
#define SMOKE_ROUNDS 1200
#define WARM_ROUNDS 200
#define GROWTH_MOST ((size_t)8 << 20)

enum item_state { GONE, BARE, LEASED };

struct item {
    struct hearth_lease lease; /* generation 0 while bare */
    _Atomic(int) state;        /* enum item_state; who takes it to GONE has it */
    size_t size;
    uint64_t tag;
};

struct worker {
    uint64_t random;
    unsigned number;
    bool reference; /* holds one in this round */
};

static struct stress_options options;
static pthread_barrier_t barrier;
static struct hearth_io *arena;
static struct item items[ITEMS];
static struct worker workers[THREADS_MAX];
static bool finished; /* written between two barriers */

static void expect(enum hearth_status status, enum hearth_status wanted, const char *what)
{
    if (status != wanted)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
}

static void pause_some(uint64_t *random)
{
    for (uint64_t spin = stress_next(random) % 3000; spin > 0; spin--)
        atomic_signal_fence(memory_order_relaxed);
}

static void check(const struct item *item, const void *data)
{
    if (data == NULL || !stress_marked(data, item->size, item->tag))
        stress_violation("the payload of what is held is not its holder's");
}

static void return_lease(struct item *item, uint64_t draw)
{
    check(item, hearth_lease_data(item->lease));
    if (draw % 3 == 0) {
        struct hearth_view view;
        expect(hearth_lease_view(item->lease, 0, item->size, &view), HEARTH_OK, "view");
        expect(hearth_lease_release(item->lease), HEARTH_OK, "release");
        check(item, view.data);
    } else if (draw % 3 == 1) {
        expect(hearth_lease_retain(item->lease), HEARTH_OK, "retain");
        expect(hearth_lease_release(item->lease), HEARTH_OK, "release");
    }
    expect(hearth_lease_release(item->lease), HEARTH_OK, "the last release");
}

static void return_bare(struct item *item, uint64_t draw)
{
    check(item, hearth_buf_data(item->lease.buf));
    if (draw % 2 == 0) {
        expect(hearth_io_free(arena, item->lease.buf), HEARTH_OK, "free");
        return;
    }
    expect(hearth_io_export(arena, item->lease.buf, &item->lease), HEARTH_OK, "export");
    return_lease(item, draw >> 8);
}

static void return_some(struct worker *self)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct item *item = &items[(i * 7 + self->number * 5) % ITEMS];
        int state = atomic_exchange_explicit(&item->state, GONE, memory_order_acq_rel);
        uint64_t draw = stress_next(&self->random);
        if (state == LEASED)
            return_lease(item, draw);
        else if (state == BARE)
            return_bare(item, draw);
        if (draw % 64 == 0)
            pause_some(&self->random);
    }
}

/* More, and short: with a reference only. The tag lies on the stack of one thread. */
static void take_more(struct worker *self, uint64_t count)
{
    for (; count > 0; count--) {
        size_t size = stress_next(&self->random) % 4 == 0 ? 65536 : 320;
        struct hearth_lease lease;
        enum hearth_status status = hearth_io_lease(arena, size, &lease);
        if (status == HEARTH_CLOSED)
            return;
        expect(status, HEARTH_OK, "a request");
        if (status != HEARTH_OK)
            return;
        stress_mark(hearth_lease_data(lease), size, self->number);
        if (!stress_marked(hearth_lease_data(lease), size, self->number))
            stress_violation("the payload of what is held is not its holder's");
        expect(hearth_lease_release(lease), HEARTH_OK, "release");
    }
}

static void take_part(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    if (self->reference) {
        take_more(self, draw % 40);
        if (draw >> 60 == 0)
            (void)hearth_io_trim(arena, NULL);
        if ((draw >> 50) % 2 == 0) {
            hearth_io_unref(arena);
            return_some(self);
            return;
        }
    }
    return_some(self);
    if (self->reference)
        hearth_io_unref(arena);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    for (;;) {
        (void)pthread_barrier_wait(&barrier);
        if (finished)
            return NULL;
        take_part(self);
        (void)pthread_barrier_wait(&barrier);
    }
}

static void fill_items(uint64_t *random)
{
    static const size_t sizes[] = {64, 320, 4096, 65536};
    for (unsigned i = 0; i < ITEMS; i++) {
        struct item *item = &items[i];
        uint64_t draw = stress_next(random);
        item->lease = (struct hearth_lease)HEARTH_LEASE_INIT;
        item->size = sizes[draw % 4];
        item->tag = draw;
        bool bare = (draw >> 8) % 2 == 0;
        if (bare)
            stress_must(hearth_io_alloc(arena, item->size, &item->lease.buf), "alloc");
        else
            stress_must(hearth_io_lease(arena, item->size, &item->lease), "lease");
        stress_mark(hearth_buf_data(item->lease.buf), item->size, item->tag);
        atomic_store_explicit(&item->state, bare ? BARE : LEASED, memory_order_relaxed);
    }
}

static void end_arena(uint64_t *random)
{
    uint64_t draw = stress_next(random);
    pause_some(random);
    if (draw % 3 == 0)
        expect(hearth_io_close(arena), HEARTH_OK, "close");
    if (draw % 3 == 1) {
        enum hearth_status status = hearth_io_destroy(arena);
        if (status == HEARTH_OK)
            return;
        expect(status, HEARTH_BUSY, "destroy");
    }
    if ((draw >> 8) % 2 == 0)
        return_some(&workers[0]);
    hearth_io_unref(arena);
}

static void check_stale(void)
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct hearth_lease lease = items[i].lease;
        if (lease.generation == 0)
            continue;
        expect(hearth_lease_release(lease), HEARTH_STALE, "the release of a stale lease");
        expect(hearth_lease_retain(lease), HEARTH_STALE, "the retain of a stale lease");
        if (hearth_lease_valid(lease) || hearth_lease_data(lease) != NULL)
            stress_violation("a stale lease is valid");
    }
}

static void one_round(uint64_t *random)
{
    struct stress_lender lender = {0};
    arena = stress_io_open(&lender, (struct hearth_io_options)HEARTH_IO_OPTIONS_INIT);
    fill_items(random);
    for (unsigned i = 1; i < options.threads; i++) {
        workers[i].reference = stress_next(random) % 3 != 0;
        if (workers[i].reference)
            hearth_io_ref(arena);
    }
    (void)pthread_barrier_wait(&barrier);
    end_arena(random);
    (void)pthread_barrier_wait(&barrier);
    return_some(&workers[0]); /* for who runs it with one thread */
    uint64_t ends = atomic_load_explicit(&lender.destroys, memory_order_acquire);
    if (ends != 1)
        stress_violation("the arena ended %" PRIu64 " times", ends);
    check_stale();
}

static size_t resident(void)
{
#if !defined(HEARTH__THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
    char line[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    const char *second = fgets(line, sizeof line, file) == NULL ? NULL : strchr(line, ' ');
    fclose(file);
    size_t pages = second == NULL ? 0 : strtoul(second, NULL, 10);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
#else
    return 0; /* the sanitizer's own */
#endif
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    size_t warm = 0;
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_io_close", 3);
    pthread_barrier_init(&barrier, NULL, options.threads);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i].number = i;
        workers[i].random = stress_seed(&options, i);
        if (i > 0)
            pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    uint64_t random = stress_seed(&options, THREADS_MAX);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++) {
        one_round(&random);
        if (rounds == WARM_ROUNDS)
            warm = resident();
    }
    finished = true;
    (void)pthread_barrier_wait(&barrier);
    for (unsigned i = 1; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    size_t now = resident();
    if (rounds > WARM_ROUNDS && now > warm + GROWTH_MOST)
        stress_violation("%zu bytes resident after %d arenas, %zu at the end", warm, WARM_ROUNDS,
                         now);
    char counts[120];
    snprintf(counts, sizeof counts, "%" PRIu64 " arenas ended, resident %zu KiB, then %zu KiB",
             rounds, warm >> 10, now >> 10);
    return stress_verdict("stress_io_close", &options, counts);
}
