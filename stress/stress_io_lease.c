/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that can be done to buffers and leases, by all threads at once.
 *
 * Each thread keeps a few buffers and leases, and in each step does something to one of them: take, free,
 * export, retain, view, release, hand over to whoever looks into a box. Every other worker lives in short
 * threads, one after another, which leave what they hold to their successor. A round is one arena; in
 * every other round it has few slots and few sizes, so that all fight for the same buffers.
 *
 * Oracle: the payload of what is held always carries its tag; every call on what is held is OK; nothing
 * but NO_SLOT is refused, and that only with few slots; no figure is ever impossible; at the end of a round
 * as many references were given up as were made, nothing is live, and the backing has all storage back.
 */
#include "harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define HELD 8
#define BOXES 8
#define THREADS_MAX 64
#define FEW_SLOTS 12
#define SIZE_MOST ((size_t)1 << 20)
#define SMOKE_ROUNDS 4
#define STEPS 12000 /* of each worker in a round */
#define SMOKE_STEPS 4000

struct held {
    struct hearth_lease lease; /* generation 0: a bare buffer */
    size_t size;
    uint64_t tag; /* 0: nothing is held */
};

struct worker {
    struct held held[HELD];
    uint64_t random;
    uint64_t tags;
    uint64_t steps;
    uint64_t taken, freed, exported, made, released, refused; /* references: made, released */
    unsigned number;
};

static struct stress_options options;
static struct hearth_io *arena;
static bool few;
static _Atomic(struct held *) boxes[BOXES];
static _Atomic(bool) finished;

static void expect_ok(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        stress_violation("%s of what is held was answered %s", what, hearth_status_name(status));
}

static size_t some_size(uint64_t *random)
{
    static const size_t sizes[] = {64, 65536, 256, 131072, 1024, 4096, 24576, 1048576};
    uint64_t draw = stress_next(random);
    size_t size = sizes[draw % (few ? 2 : sizeof sizes / sizeof *sizes)];
    return size - (draw >> 32) % (size / 8);
}

static bool is_bare(const struct held *held)
{
    return held->lease.generation == 0;
}

static void *data_of(const struct held *held)
{
    return is_bare(held) ? hearth_buf_data(held->lease.buf) : hearth_lease_data(held->lease);
}

static void check(const struct held *held)
{
    const void *data = data_of(held);
    if (data == NULL || !stress_marked(data, held->size, held->tag))
        stress_violation("the payload of what is held is not its holder's");
    else if (!is_bare(held) && hearth_lease_size(held->lease) != held->size)
        stress_violation("the size of a lease changed");
}

static void take(struct worker *self, struct held *held)
{
    size_t size = some_size(&self->random);
    bool bare = stress_next(&self->random) % 2 == 0;
    *held = (struct held){.size = size};
    enum hearth_status status = bare ? hearth_io_alloc(arena, size, &held->lease.buf)
                                     : hearth_io_lease(arena, size, &held->lease);
    if (status != HEARTH_OK) {
        if (status != HEARTH_NO_SLOT || !few)
            stress_violation("a request was answered %s", hearth_status_name(status));
        self->refused++;
        sched_yield();
        return;
    }
    self->taken += bare;
    self->made += !bare;
    held->tag = (uint64_t)(self->number + 1) << 48 | ++self->tags;
    stress_mark(data_of(held), size, held->tag);
}

static void give_up(struct worker *self, struct held *held)
{
    check(held);
#ifdef HEARTH_BROKEN_USE_AFTER_RELEASE
    const void *data = data_of(held);
#endif
    if (is_bare(held)) {
        expect_ok(hearth_io_free(arena, held->lease.buf), "free");
        self->freed++;
    } else {
        expect_ok(hearth_lease_release(held->lease), "release");
        self->released++;
    }
#ifdef HEARTH_BROKEN_USE_AFTER_RELEASE
    (void)stress_marked(data, held->size, held->tag);
#endif
    held->tag = 0;
}

static void export(struct worker *self, struct held *held)
{
    expect_ok(hearth_io_export(arena, held->lease.buf, &held->lease), "export");
    self->exported++;
    self->made++;
    check(held);
}

/* Into a box, or back to the caller if the box is taken. */
static bool hand_over(const struct held *held, uint64_t random)
{
    struct held *parcel = malloc(sizeof *parcel);
    struct held *empty = NULL;
    if (parcel == NULL)
        abort();
    *parcel = *held;
    if (atomic_compare_exchange_strong_explicit(&boxes[random % BOXES], &empty, parcel,
                                                memory_order_release, memory_order_relaxed))
        return true;
    free(parcel);
    return false;
}

static void receive(struct held *held, uint64_t random)
{
    struct held *parcel =
        atomic_exchange_explicit(&boxes[random % BOXES], NULL, memory_order_acquire);
    if (parcel == NULL)
        return;
    *held = *parcel;
    free(parcel);
    check(held);
}

static void retain(struct worker *self, const struct held *held)
{
    expect_ok(hearth_lease_retain(held->lease), "retain");
    self->made++;
    if (!hand_over(held, stress_next(&self->random))) {
        expect_ok(hearth_lease_release(held->lease), "release");
        self->released++;
    }
}

static void view(struct worker *self, const struct held *held)
{
    struct hearth_view part;
    size_t offset = held->size / 2 & ~(size_t)7;
    expect_ok(hearth_lease_view(held->lease, offset, held->size - offset, &part), "view");
    self->made++;
    if ((char *)part.data != (char *)hearth_lease_data(held->lease) + offset)
        stress_violation("a view is not where it should be");
    expect_ok(hearth_lease_release(part.lease), "release of a view");
    self->released++;
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    struct held *held = &self->held[draw % HELD];
    unsigned choice = (unsigned)(draw >> 8) % 8;
    if (held->tag == 0) {
        if (choice < 3)
            receive(held, draw >> 16);
        else
            take(self, held);
    } else if (is_bare(held)) {
        if (choice < 4)
            export(self, held);
        else
            give_up(self, held);
    } else if (choice < 2) {
        retain(self, held);
    } else if (choice == 2) {
        view(self, held);
    } else if (choice == 3) {
        if (hand_over(held, draw >> 16))
            held->tag = 0;
    } else {
        give_up(self, held);
    }
}

static void *live(void *argument)
{
    struct worker *self = argument;
    uint64_t life = stress_next(&self->random) % 500;
    bool is_short = self->number % 2 == 1;
    for (; self->steps > 0 && (!is_short || life-- > 0); self->steps--) {
        step(self);
        if (self->steps % 256 == 0 && !stress_goes_on(&options, 0, 1))
            self->steps = 1;
    }
    return NULL;
}

static void *work(void *argument)
{
    struct worker *self = argument;
    while (self->steps > 0) {
        pthread_t successor;
        if (self->number % 2 == 0) {
            live(self);
        } else if (pthread_create(&successor, NULL, live, self) == 0) {
            pthread_join(successor, NULL);
        }
    }
    for (unsigned i = 0; i < HELD; i++) {
        if (self->held[i].tag != 0)
            give_up(self, &self->held[i]);
    }
    return NULL;
}

static void *read_figures(void *argument)
{
    uint64_t *readings = argument;
    size_t count = (size_t)options.threads * (HELD + 70 * 8) + BOXES; /* and in magazines */
    for (; !atomic_load_explicit(&finished, memory_order_relaxed); ++*readings) {
        stress_io_look(arena, count, count * 2 * SIZE_MOST);
        sched_yield();
    }
    return NULL;
}

static void check_round(struct worker *workers, struct worker *sum)
{
    struct worker round = {0};
    for (unsigned i = 0; i < BOXES; i++) {
        struct held left = {.tag = 0};
        receive(&left, i);
        if (left.tag != 0)
            give_up(&round, &left);
    }
    for (unsigned i = 0; i < options.threads; i++) {
        round.taken += workers[i].taken;
        round.freed += workers[i].freed;
        round.exported += workers[i].exported;
        round.made += workers[i].made;
        round.released += workers[i].released;
        sum->refused += workers[i].refused;
    }
    if (round.taken != round.freed + round.exported || round.made != round.released)
        stress_violation("buffers: %" PRIu64 " taken, %" PRIu64 " freed, %" PRIu64
                         " exported; references: %" PRIu64 " made, %" PRIu64 " given up",
                         round.taken, round.freed, round.exported, round.made, round.released);
    sum->taken += round.taken;
    sum->made += round.made;
}

static void one_round(uint64_t number, struct worker *sum, uint64_t *readings)
{
    pthread_t threads[THREADS_MAX], reader;
    struct worker workers[THREADS_MAX];
    struct stress_lender lender = {0};
    struct hearth_io_options arena_options = HEARTH_IO_OPTIONS_INIT;
    few = number % 2 == 1;
    arena_options.slots = few ? FEW_SLOTS : 0;
    arena = stress_io_open(&lender, arena_options);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    pthread_create(&reader, NULL, read_figures, readings);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.number = i};
        workers[i].random = stress_seed(&options, i + (unsigned)number * THREADS_MAX);
        workers[i].steps = options.smoke ? SMOKE_STEPS : STEPS;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++)
        pthread_join(threads[i], NULL);
    check_round(workers, sum);
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    pthread_join(reader, NULL);
    stress_io_home(arena);
    stress_must(hearth_io_destroy(arena), "destroy");
    if (atomic_load_explicit(&lender.destroys, memory_order_acquire) != 1)
        stress_violation("the arena ended, but not its backing");
}

int main(int argc, char **argv)
{
    struct worker sum = {0};
    uint64_t readings = 0;
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_io_lease", 4);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds, &sum, &readings);
    char counts[200];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " arenas, %" PRIu64 " bare buffers, %" PRIu64 " references, %" PRIu64
             " without a slot, %" PRIu64 " readings",
             rounds, sum.taken, sum.made, sum.refused, readings);
    return stress_verdict("stress_io_lease", &options, counts);
}
