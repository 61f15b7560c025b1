/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention caps and trims against takers and returners.
 *
 * Workers take, mark, check and return buffers of many classes, in bursts, so that magazines and lists fill
 * and empty, and give some of them to each other. Two threads change the retention cap all the time, trim
 * everything, trim towards a goal with and without a budget: so slots are evicted from the middle of lists
 * that others pop, and threads' caches are visited while their owners go in and out. Every other round has a
 * limit on live bytes.
 *
 * Oracle: the payload of what is held is its holder's; no call is refused but by the limit, which what is
 * out never passes; no figure is ever impossible; a trim never tells of more than was lent; when all is quiet
 * the cap holds, nothing is live, and trim finds all storage.
 */
#include "harness.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define HELD 12
#define BOXES 4
#define THREADS_MAX 64
#define SIZE_MOST ((size_t)256 << 10)
#define LIMIT ((size_t)1 << 20)
#define LAST_CAP ((size_t)200 << 10)
#define SMOKE_ROUNDS 4
#define STEPS 6000 /* of each worker in a round */
#define SMOKE_STEPS 2000
#define TRIMMERS 2
#define VISITS 64
#define COLD_WORDS 1048576

struct worker {
    struct hearth_lease held[HELD];
    uint64_t random;
    uint64_t tags;
    uint64_t leases, releases, refused;
    unsigned number;
};

struct trimmer {
    uint64_t random;
    uint64_t caps, trims;
};

static struct stress_options options;
static struct hearth_io *arena;
static bool limited;
static _Atomic(size_t) out_bytes; /* capacity that is certainly out */
static _Atomic(bool) finished;
static _Atomic(struct hearth_buf *) boxes[BOXES];
static _Atomic(uint64_t) cold[COLD_WORDS];

static size_t some_size(uint64_t *random, bool burst)
{
    static const size_t sizes[] = {64, 65536, 512, 131072, 1024, 262144, 4096, 24576};
    uint64_t draw = stress_next(random);
    return burst ? 64 : sizes[draw % (sizeof sizes / sizeof *sizes)];
}

/* No two leases have the same. */
static uint64_t tag_of(const struct hearth_lease *lease)
{
    return lease->generation ^ (uint64_t)(uintptr_t)lease->buf;
}

static void expect_limit(enum hearth_status status)
{
    if (status != HEARTH_OK && (status != HEARTH_NO_MEMORY || !limited))
        stress_violation("a request was answered %s", hearth_status_name(status));
}

static bool take(struct worker *self, size_t size, struct hearth_lease *lease)
{
    enum hearth_status status = hearth_io_lease(arena, size, lease);
    expect_limit(status);
    if (status != HEARTH_OK) {
        self->refused++;
        *lease = (struct hearth_lease)HEARTH_LEASE_INIT;
        return false;
    }
    size_t capacity = hearth_buf_capacity(hearth_lease_buf(*lease));
    size_t out = atomic_fetch_add_explicit(&out_bytes, capacity, memory_order_relaxed) + capacity;
    if (limited && out > LIMIT)
        stress_violation("%zu bytes are out, the limit is %zu", out, LIMIT);
    self->leases++;
    stress_mark(hearth_lease_data(*lease), size, tag_of(lease));
    return true;
}

static void give_up(struct worker *self, struct hearth_lease *lease)
{
    size_t size = hearth_lease_size(*lease);
    void *data = hearth_lease_data(*lease);
    if (data == NULL || !stress_marked(data, size, tag_of(lease)))
        stress_violation("the payload of what is held is not its holder's");
    else
        stress_mark(data, size, ~tag_of(lease)); /* a second holder of the same would see it */
    size_t capacity = hearth_buf_capacity(lease->buf);
    atomic_fetch_sub_explicit(&out_bytes, capacity, memory_order_relaxed);
    enum hearth_status status = hearth_lease_release(*lease);
    if (status != HEARTH_OK)
        stress_violation("a release was answered %s", hearth_status_name(status));
    self->releases++;
    *lease = (struct hearth_lease)HEARTH_LEASE_INIT;
}

/* Bare buffers go through boxes, to be freed by others. */
static void exchange(struct worker *self, uint64_t draw)
{
    struct hearth_buf *buf = NULL;
    enum hearth_status status = hearth_io_alloc(arena, 65536, &buf);
    expect_limit(status);
    if (status != HEARTH_OK) {
        self->refused++;
        return;
    }
    stress_mark(hearth_buf_data(buf), 65536, 1);
    buf = atomic_exchange_explicit(&boxes[draw % BOXES], buf, memory_order_acq_rel);
    if (buf == NULL)
        return;
    if (!stress_marked(hearth_buf_data(buf), 65536, 1))
        stress_violation("the payload of a bare buffer is not its holder's");
    stress_mark(hearth_buf_data(buf), 65536, 2);
    if (hearth_io_free(arena, buf) != HEARTH_OK)
        stress_violation("a bare buffer in flight cannot be freed");
}

/* Stores whose lines are elsewhere wait, and with them those that come after: when the owner goes in now, it
 * may look at its attention word long before its gate is seen busy. */
static void write_cold(uint64_t *random)
{
    uint64_t draw = stress_next(random);
    for (uint64_t i = 0; i < 32; i++)
        atomic_store_explicit(&cold[(draw + i * 32771) % COLD_WORDS], draw, memory_order_relaxed);
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    if (draw % 64 == 0) {
        exchange(self, draw >> 8);
        return;
    }
    /* Small and short: the owner is inside and outside as often as it can be. */
    for (unsigned i = 0; i < 8; i++) {
        struct hearth_lease lease;
        if (i % 2 == 0)
            write_cold(&self->random);
        if (take(self, some_size(&self->random, true), &lease))
            give_up(self, &lease);
    }
    struct hearth_lease *held = &self->held[(draw >> 8) % HELD];
    if (held->buf != NULL)
        give_up(self, held);
    else
        (void)take(self, some_size(&self->random, false), held);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    uint64_t steps = options.smoke ? SMOKE_STEPS : STEPS;
    for (; steps > 0; steps--) {
        step(self);
        if (steps % 256 == 0 && !stress_goes_on(&options, 0, 1))
            break;
        if (steps % 512 == 0) { /* a burst home, so that lists are long */
            for (unsigned i = 0; i < HELD; i++)
                if (self->held[i].buf != NULL)
                    give_up(self, &self->held[i]);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (self->held[i].buf != NULL)
            give_up(self, &self->held[i]);
    return NULL;
}

static void trim(struct trimmer *self, uint64_t draw)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    size_t released = 0;
    size_t goal = (draw >> 8) % 2 == 0 ? HEARTH_UNBOUNDED : (draw >> 16) % SIZE_MOST;
    uint64_t budget = (draw >> 9) % 2 == 0 ? 0 : 1 + (draw >> 32) % 50000;
    if (draw % 2 == 0) {
        stress_must(hearth_io_trim(arena, &released), "trim");
    } else {
        stress_must(hearth_io_trim_ex(arena, goal, budget, &report), "trim_ex");
        released = report.released_bytes;
    }
    if (released > (size_t)1 << 40)
        stress_violation("a trim tells of %zu bytes", released);
    self->trims++;
}

/* For the visits: hardly anything is given back. */
static void visit_often(struct trimmer *self)
{
    for (unsigned i = 0; i < VISITS; i++)
        stress_must(hearth_io_trim_ex(arena, 1, 1000000, NULL), "trim_ex");
    self->trims += VISITS;
}

static void *trim_all_the_time(void *argument)
{
    static const size_t caps[] = {0, HEARTH_UNBOUNDED, 65536, (size_t)1 << 20, 4096, 300000};
    struct trimmer *self = argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        uint64_t draw = stress_next(&self->random);
        if (draw % 4 == 0) {
            size_t cap = caps[(draw >> 8) % (sizeof caps / sizeof *caps)];
            stress_must(hearth_io_set_retention_cap(arena, cap), "cap");
            self->caps++;
        } else if (draw % 4 == 1) {
            visit_often(self);
        } else {
            trim(self, draw >> 8);
        }
        size_t count = (size_t)options.threads * (HELD + 70 * 8);
        stress_io_look(arena, count, count * SIZE_MOST);
        if ((draw >> 60) == 0)
            sched_yield();
    }
    return NULL;
}

static void check_quiet(void)
{
    for (unsigned i = 0; i < BOXES; i++) {
        struct hearth_buf *buf = atomic_exchange_explicit(&boxes[i], NULL, memory_order_acquire);
        if (buf != NULL && hearth_io_free(arena, buf) != HEARTH_OK)
            stress_violation("a bare buffer that was left cannot be freed");
    }
    stress_must(hearth_io_set_retention_cap(arena, LAST_CAP), "cap");
    struct worker filler = {.number = THREADS_MAX};
    for (unsigned i = 0; i < HELD; i++)
        (void)take(&filler, 20000, &filler.held[i]);
    for (unsigned i = 0; i < HELD; i++)
        if (filler.held[i].buf != NULL)
            give_up(&filler, &filler.held[i]);
    size_t retained = hearth_io_retained_bytes(arena);
    if (retained > LAST_CAP)
        stress_violation("%zu bytes are retained, the cap is %zu", retained, LAST_CAP);
    stress_io_home(arena);
}

static void one_round(uint64_t number, struct worker *sum, struct trimmer *trims)
{
    pthread_t threads[THREADS_MAX] = {0};
    pthread_t trimming[TRIMMERS] = {0};
    struct worker workers[THREADS_MAX] = {{.number = 0}};
    struct trimmer trimmers[TRIMMERS] = {{0}};
    struct stress_lender lender = {0};
    struct hearth_io_options arena_options = HEARTH_IO_OPTIONS_INIT;
    limited = number % 2 == 1;
    arena_options.live_limit = limited ? LIMIT : 0;
    arena = stress_io_open(&lender, arena_options);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.number = i};
        workers[i].random = stress_seed(&options, i + (unsigned)number * THREADS_MAX);
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < TRIMMERS; i++) {
        trimmers[i].random = stress_seed(&options, 1000000 + i + (unsigned)number);
        pthread_create(&trimming[i], NULL, trim_all_the_time, &trimmers[i]);
    }
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        if (workers[i].leases != workers[i].releases)
            stress_violation("%" PRIu64 " leases, %" PRIu64 " releases", workers[i].leases,
                             workers[i].releases);
        sum->leases += workers[i].leases;
        sum->refused += workers[i].refused;
    }
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned i = 0; i < TRIMMERS; i++) {
        pthread_join(trimming[i], NULL);
        trims->caps += trimmers[i].caps;
        trims->trims += trimmers[i].trims;
    }
    check_quiet();
    stress_must(hearth_io_destroy(arena), "destroy");
    if (atomic_load_explicit(&lender.destroys, memory_order_acquire) != 1)
        stress_violation("the arena ended, but not its backing");
}

int main(int argc, char **argv)
{
    struct worker sum = {.number = 0};
    struct trimmer trims = {0};
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_io_cap", 3);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds, &sum, &trims);
    char counts[200];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " arenas, %" PRIu64 " leases, %" PRIu64 " beyond the limit, %" PRIu64
             " caps, %" PRIu64 " trims",
             rounds, sum.leases, sum.refused, trims.caps, trims.trims);
    return stress_verdict("stress_io_cap", &options, counts);
}
