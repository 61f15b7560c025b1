/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait under a limit on live bytes.
 *
 * Crowd: workers take leases of a sixteenth to three quarters of the limit, some with a deadline of about
 * the time a turn takes to come, some with one that only a forgotten waiter reaches, some without waiting;
 * others cancel one of them or all, change the limit and its reserve, and read. Pair: two threads hand all of
 * the limit to each other, each return just when the other begins to wait, so that nothing later makes
 * up for a wake-up that is missed. Line: waiters that arrive one after the other are served in that order.
 * End: a close wakes whoever waits.
 *
 * Oracle: what is out never passes the limit; a payload is its holder's; a wait ends OK, or TIMEOUT when
 * its deadline has passed or a cancel meant it; one with a long deadline is served, since returns go on; when
 * all is quiet nothing is live and nobody waits.
 */
#include "harness.h"

#include <hearth/service.h>

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 64
#define UNIT ((size_t)16 << 10)
#define UNITS 16
#define LIMIT (UNITS * UNIT)
#define LINE 4
#define SMOKE_ROUNDS 6
#define STEPS 2000 /* of each worker in a crowd */
#define SMOKE_STEPS 500
#define HANDOVERS 1500 /* of a pair */
#define SMOKE_HANDOVERS 500

/* Only a waiter that is forgotten waits so long, and a wait ends this long after its deadline at most. */
#define FOREVER_NS ((uint64_t)5 * 1000000000)
#define SLACK_NS ((uint64_t)5 * 1000000000)

struct worker {
    uint64_t random;
    uint64_t served, late, cancelled, refused;
    uint64_t waits_left; /* of a pair */
    _Atomic(uint64_t) name;
    _Atomic(uint64_t) cancels; /* that named this thread */
    _Atomic(bool) served_now;
    unsigned number;
};

static struct stress_options options;
static struct hearth_service *service;
static struct hearth_io *io;
static struct worker workers[THREADS_MAX];
static _Atomic(size_t) out_bytes; /* capacity that is certainly out */
static _Atomic(bool) finished;
static _Atomic(uint64_t) all_begun, all_ended; /* cancels of all */
/* Of a pair: who is about to wait, or waits; and, two bits up, who has ended. */
static _Atomic(unsigned) ready;
static uint64_t raises, cancels;

static uint64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t tag_of(const struct hearth_lease *lease)
{
    return lease->generation ^ (uint64_t)(uintptr_t)lease->buf;
}

static void took(struct worker *self, const struct hearth_lease *lease)
{
    size_t capacity = hearth_buf_capacity(lease->buf);
    size_t out = atomic_fetch_add_explicit(&out_bytes, capacity, memory_order_relaxed) + capacity;
    if (out > LIMIT)
        stress_violation("%zu bytes are out, the limit is %zu", out, LIMIT);
    stress_mark(hearth_lease_data(*lease), hearth_lease_size(*lease), tag_of(lease));
    self->served++;
}

static void give_back(const struct hearth_lease *lease)
{
    void *data = hearth_lease_data(*lease);
    size_t size = hearth_lease_size(*lease);
    if (data == NULL || !stress_marked(data, size, tag_of(lease)))
        stress_violation("the payload of what is held is not its holder's");
    else
        stress_mark(data, size, ~tag_of(lease)); /* a second holder of the same would see it */
    size_t capacity = hearth_buf_capacity(lease->buf);
    atomic_fetch_sub_explicit(&out_bytes, capacity, memory_order_relaxed);
    enum hearth_status status = hearth_lease_release(*lease);
    if (status != HEARTH_OK)
        stress_violation("a release was answered %s", hearth_status_name(status));
}

/* A wait that ended without a lease. `past`: the cancels of all that had ended before it. */
static void judge_timeout(struct worker *self, const struct hearth_request *request, uint64_t past)
{
    struct hearth_refusal refusal = HEARTH_REFUSAL_INIT;
    stress_must(hearth_service_refusal(service, &refusal), "refusal");
    uint64_t now = now_ns();
    if (refusal.cancelled != 0) {
        self->cancelled++;
        if (atomic_load_explicit(&self->cancels, memory_order_acquire) == 0 &&
            atomic_load_explicit(&all_begun, memory_order_acquire) == past)
            stress_violation("a wait was cancelled by nobody");
        return;
    }
    self->late++;
    if (now < request->deadline_ns)
        stress_violation("a wait ended %" PRIu64 " ns before its deadline",
                         request->deadline_ns - now);
    if (now > request->deadline_ns + SLACK_NS)
        stress_violation("a wait ended %" PRIu64 " ns after its deadline",
                         now - request->deadline_ns);
}

/* A lease, perhaps after a wait; the caller gives it back. */
static bool take(struct worker *self, size_t size, uint64_t patience_ns, uint32_t priority,
                 struct hearth_lease *lease)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = size;
    request.priority = priority;
    request.deadline_ns = patience_ns == 0 ? HEARTH_NO_WAIT : now_ns() + patience_ns;
    uint64_t past = atomic_load_explicit(&all_ended, memory_order_acquire);
    enum hearth_status status = hearth_io_lease_ex(io, &request, lease);
    if (status == HEARTH_OK) {
        took(self, lease);
        return true;
    }
    if (status == HEARTH_TIMEOUT && patience_ns != 0) {
        judge_timeout(self, &request, past);
        if (patience_ns == FOREVER_NS && now_ns() >= request.deadline_ns)
            stress_violation("thread %u was forgotten, with %zu bytes", self->number, size);
    } else if (patience_ns == 0 && (status == HEARTH_NO_MEMORY || status == HEARTH_TIMEOUT)) {
        self->refused++;
    } else {
        stress_violation("a request was answered %s", hearth_status_name(status));
    }
    return false;
}

static void name_self(struct worker *self)
{
    atomic_store_explicit(&self->name, hearth_service_waiter(service), memory_order_release);
}

/* Crowd */

static void *crowd_work(void *argument)
{
    struct worker *self = argument;
    name_self(self);
    for (unsigned i = options.smoke ? SMOKE_STEPS : STEPS; i > 0; i--) {
        uint64_t draw = stress_next(&self->random);
        size_t size = draw % 16 == 0 ? LIMIT * 3 / 4 : UNIT * (1 + draw % (UNITS / 2));
        uint64_t patience = FOREVER_NS;
        if ((draw >> 16) % 4 == 0)
            patience = (draw >> 32) % 60000;
        struct hearth_lease lease;
        if (take(self, size, patience, (uint32_t)((draw >> 20) % 8 == 0), &lease)) {
            if ((draw >> 24) % 4 == 0)
                (void)sched_yield();
            give_back(&lease);
        }
        if (i % 64 == 0 && !stress_goes_on(&options, 0, 1))
            break;
    }
    return NULL;
}

static void cancel_some(uint64_t draw)
{
    if (draw % 4 == 0) {
        atomic_fetch_add_explicit(&all_begun, 1, memory_order_acq_rel);
        stress_must(hearth_service_cancel(service, 0, NULL), "cancel");
        atomic_fetch_add_explicit(&all_ended, 1, memory_order_acq_rel);
    } else {
        struct worker *worker = &workers[(draw >> 8) % options.threads];
        uint64_t name = atomic_load_explicit(&worker->name, memory_order_acquire);
        if (name == 0)
            return;
        size_t woken = 0;
        atomic_fetch_add_explicit(&worker->cancels, 1, memory_order_acq_rel);
        stress_must(hearth_service_cancel(service, name, &woken), "cancel");
        if (woken > 1)
            stress_violation("%zu waits of one thread were cancelled", woken);
    }
    cancels++;
}

static void *meddle(void *argument)
{
    uint64_t random = stress_seed(&options, 1000000 + *(const unsigned *)argument);
    while (!atomic_load_explicit(&finished, memory_order_acquire)) {
        uint64_t draw = stress_next(&random);
        if (draw % 4 == 0) {
            size_t limit = LIMIT - (draw >> 8) % 4 * UNIT;
            stress_must(hearth_service_set_live_limit(service, limit, (draw >> 16) % 2 * UNIT / 2),
                        "limit");
            raises++;
        } else if (draw % 4 == 1) {
            cancel_some(draw >> 8);
        }
        size_t live = hearth_service_live_capacity(service);
        if (live > LIMIT)
            stress_violation("%zu bytes are live, the limit is %zu", live, LIMIT);
        if (hearth_service_waiter_count(service) > options.threads)
            stress_violation("more waiters than threads");
        (void)usleep(100);
    }
    /* Large ones fit again. */
    stress_must(hearth_service_set_live_limit(service, LIMIT, 0), "limit");
    return NULL;
}

/* Pair */

static bool is_ready(unsigned bits)
{
    return (atomic_load_explicit(&ready, memory_order_acquire) & bits) != 0;
}

/* Who holds all waits until the other is about to wait, and returns after a moment. */
static void hand_over(struct worker *self, const struct hearth_lease *lease)
{
    unsigned other = 1u << (1 - self->number);
    unsigned other_ended = other << 2;
    while (!is_ready(other | other_ended))
        (void)sched_yield();
    for (uint64_t spins = stress_next(&self->random) % 2048; spins > 0; spins--)
        (void)is_ready(other);
    give_back(lease);
    /* Our own next try would wake it, too. */
    while (is_ready(other) && !is_ready(other_ended))
        (void)sched_yield();
}

static void *pair_work(void *argument)
{
    struct worker *self = argument;
    unsigned mine = 1u << self->number;
    for (uint64_t left = self->waits_left; left > 0; left--) {
        struct hearth_lease lease;
        atomic_fetch_or_explicit(&ready, mine, memory_order_acq_rel);
        if (!take(self, LIMIT - UNIT / 2, FOREVER_NS, HEARTH_PRIORITY_NORMAL, &lease))
            break;
        atomic_fetch_and_explicit(&ready, ~mine, memory_order_acq_rel);
        hand_over(self, &lease);
    }
    atomic_fetch_or_explicit(&ready, mine << 2, memory_order_acq_rel);
    return NULL;
}

/* Line */

static void *line_work(void *argument)
{
    struct worker *self = argument;
    struct hearth_lease lease;
    if (take(self, LIMIT / LINE - UNIT / 2, FOREVER_NS, HEARTH_PRIORITY_NORMAL, &lease)) {
        atomic_store_explicit(&self->served_now, true, memory_order_release);
        while (!atomic_load_explicit(&finished, memory_order_acquire))
            (void)usleep(100);
        give_back(&lease);
    }
    return NULL;
}

static void run_line(void)
{
    pthread_t threads[LINE];
    struct hearth_lease held[LINE];
    struct worker self = {.number = LINE};
    for (unsigned i = 0; i < LINE; i++)
        (void)take(&self, LIMIT / LINE - UNIT / 2, 0, HEARTH_PRIORITY_NORMAL, &held[i]);
    for (unsigned i = 0; i < LINE; i++) {
        pthread_create(&threads[i], NULL, line_work, &workers[i]);
        while (hearth_service_waiter_count(service) <= i)
            (void)sched_yield();
    }
    for (unsigned i = 0; i < LINE; i++) {
        give_back(&held[i]);
        while (!atomic_load_explicit(&workers[i].served_now, memory_order_acquire))
            (void)sched_yield();
        for (unsigned j = i + 1; j < LINE; j++)
            if (atomic_load_explicit(&workers[j].served_now, memory_order_acquire))
                stress_violation("waiter %u was served before waiter %u", j, i);
    }
    atomic_store_explicit(&finished, true, memory_order_release);
    for (unsigned i = 0; i < LINE; i++)
        pthread_join(threads[i], NULL);
}

/* End */

static void *end_work(void *argument)
{
    (void)argument;
    struct hearth_lease lease;
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = UNIT;
    request.deadline_ns = UINT64_MAX;
    if (hearth_io_lease_ex(io, &request, &lease) != HEARTH_CLOSED)
        stress_violation("a wait outlived the close");
    return NULL;
}

static void run_end(void)
{
    pthread_t threads[2];
    struct worker self = {.number = LINE};
    struct hearth_lease lease;
    (void)take(&self, LIMIT - UNIT / 2, 0, HEARTH_PRIORITY_NORMAL, &lease);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, end_work, NULL);
    while (hearth_service_waiter_count(service) == 0)
        (void)sched_yield();
    stress_must(hearth_service_close(service), "close");
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    give_back(&lease);
}

static void run_threads(unsigned count, void *(*work)(void *), bool meddled)
{
    pthread_t threads[THREADS_MAX], meddler;
    unsigned number = 0;
    if (meddled)
        pthread_create(&meddler, NULL, meddle, &number);
    for (unsigned i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, &workers[i]);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    atomic_store_explicit(&finished, true, memory_order_release);
    if (meddled)
        pthread_join(meddler, NULL);
}

static void open_service(struct stress_lender *lender)
{
    struct hearth_service_options service_options = HEARTH_SERVICE_OPTIONS_INIT;
    service_options.live_limit = LIMIT;
    service_options.exhaustion = HEARTH_EXHAUSTION_WAIT;
    service_options.io_backing = stress_lender_open(lender);
    stress_must(hearth_service_create(&service_options, &service), "create");
    hearth_backing_unref(service_options.io_backing);
    io = hearth_service_io(service);
}

static void one_round(uint64_t round, struct worker *sum)
{
    struct stress_lender lender = {0};
    open_service(&lender);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    atomic_store_explicit(&ready, 0, memory_order_relaxed);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        workers[i] = (struct worker){.number = i};
        workers[i].random = stress_seed(&options, i + (unsigned)round * THREADS_MAX);
        workers[i].waits_left = options.smoke ? SMOKE_HANDOVERS : HANDOVERS;
    }
    if (round % 3 == 0)
        run_threads(2, pair_work, false);
    else if (round % 3 == 1)
        run_threads(options.threads, crowd_work, true);
    else
        run_line();
    if (hearth_service_live_capacity(service) != 0 || hearth_service_waiter_count(service) != 0)
        stress_violation("%zu bytes are live, %zu wait, and nobody is there",
                         hearth_service_live_capacity(service),
                         hearth_service_waiter_count(service));
    run_end();
    hearth_service_unref(service);
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        sum->served += workers[i].served;
        sum->late += workers[i].late;
        sum->cancelled += workers[i].cancelled;
        sum->refused += workers[i].refused;
    }
}

int main(int argc, char **argv)
{
    struct worker sum = {.number = 0};
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_waiters", 6);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds, &sum);
    char counts[240];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " leases, %" PRIu64 " late, %" PRIu64
             " cancelled, %" PRIu64 " refused, %" PRIu64 " limits, %" PRIu64 " cancels",
             rounds, sum.served, sum.late, sum.cancelled, sum.refused, raises, cancels);
    return stress_verdict("stress_waiters", &options, counts);
}
