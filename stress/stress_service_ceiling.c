/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ceiling and one limit over everything.
 *
 * Workers take and return buffers of both domains, alone and in bulk, under a small limit on live bytes with
 * a reserve: most requests of the I/O arena wait for each other's returns, some are cancelled. What comes
 * home is retained under a small ceiling, above floors; every other round a thread moves ceiling, caps and
 * reserve up and down, and trims. From time to time all stop where they are.
 *
 * Oracle: the capacity that is certainly out never passes the limit; a refusal comes from the limit, a TIMEOUT after the deadline or a cancel, and
 * nobody waits for ever; payloads are their holder's; when all have stopped, what is retained is below the
 * ceiling, credit that is not filled below one grant per thread, and live, retained and pending are the
 * footprint and what the backing lent.
 */
#include "service.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define HELD 6
#define THREADS_MAX 64
#define MOVERS 1
#define SIZE_MOST ((size_t)128 << 10)
#define CEILING ((size_t)256 << 10)
#define GRANT ((size_t)16 << 10)
#define LIMIT ((size_t)512 << 10)
#define RESERVE ((size_t)128 << 10)
#define BULK 3
#define SMOKE_ROUNDS 4
#define STOPS 4
#define STEPS 1500
#define SMOKE_STEPS 800
#define POSSIBLE ((size_t)1 << 40)
#define PASSES 400            /* until everybody was reached */
#define DEADLINE_MOST 1000000 /* nanoseconds */
#define SMALL 1024            /* may stay out while others wait for ever */

struct worker {
    struct stress_parcel held[HELD];
    struct hearth_exec *arena;
    uint64_t random;
    uint64_t takes, refused, timeouts, cancelled;
    _Atomic(uint64_t) name; /* for hearth_service_cancel() */
};

static struct stress_options options;
static struct hearth_service *service;
static struct hearth_backing *backing;
static bool moving; /* the limits change in this round */
static struct worker workers[THREADS_MAX];
static pthread_barrier_t barrier;
static _Atomic(unsigned) working;
static _Atomic(bool) finished;
static _Atomic(size_t) out_bytes; /* capacity that is certainly out */

static void count_out(size_t capacity)
{
    size_t out = atomic_fetch_add_explicit(&out_bytes, capacity, memory_order_relaxed) + capacity;
    if (out > LIMIT)
        stress_violation("%zu bytes are out, the limit is %zu", out, LIMIT);
}

static void count_home(size_t capacity)
{
    (void)atomic_fetch_sub_explicit(&out_bytes, capacity, memory_order_relaxed);
}

/* What was not granted: was there a reason? */
static void check_refusal(struct worker *self, enum hearth_status status,
                          const struct hearth_request *request)
{
    struct hearth_refusal why = HEARTH_REFUSAL_INIT;
    if (status != HEARTH_NO_MEMORY && status != HEARTH_TIMEOUT) {
        stress_violation("a request was answered %s", hearth_status_name(status));
        return;
    }
    stress_expect(hearth_service_refusal(service, &why), "a question why");
    if (why.asked_bytes < request->size || why.live_limit > LIMIT)
        stress_violation("refused: %" PRIu64 " bytes under a limit of %" PRIu64 ", asked were %zu",
                         why.asked_bytes, why.live_limit, request->size);
    if (why.backing_refused != 0)
        stress_violation("the backing refused nothing");
    if (status == HEARTH_TIMEOUT && why.cancelled == 0 && stress_now_ns() < request->deadline_ns)
        stress_violation("TIMEOUT %" PRIu64 " ns before the deadline",
                         request->deadline_ns - stress_now_ns());
    self->refused += status == HEARTH_NO_MEMORY;
    self->timeouts += status == HEARTH_TIMEOUT && why.cancelled == 0;
    self->cancelled += why.cancelled != 0;
}

static struct hearth_request some_request(const struct worker *self, uint64_t draw)
{
    static const size_t sizes[] = {64, 65536, 512, 30000, 1024, SIZE_MOST, 4096, 24576};
    struct hearth_request request = HEARTH_REQUEST_INIT;
    bool holds = false;
    for (unsigned i = 0; i < HELD; i++)
        holds |= self->held[i].kind != STRESS_NOTHING;
    request.size = sizes[draw % (sizeof sizes / sizeof *sizes)];
    request.priority = (draw >> 4) % 8 == 0 ? HEARTH_PRIORITY_HIGH : HEARTH_PRIORITY_NORMAL;
    if ((draw >> 8) % 4 != 0)
        request.deadline_ns = stress_now_ns() + (draw >> 16) % DEADLINE_MOST;
    if ((draw >> 8) % 4 == 1 && !holds) /* who holds something must not wait for ever for others */
        request.deadline_ns = UINT64_MAX;
    return request;
}

static void take(struct worker *self, struct stress_parcel *held, uint64_t draw)
{
    struct hearth_request request = some_request(self, draw);
    enum hearth_status status =
        stress_parcel_take(service, self->arena, &request, draw >> 40, held);
    if (status == HEARTH_OK) {
        count_out(held->capacity);
        self->takes++;
    } else {
        check_refusal(self, status, &request);
    }
}

static void give_back(struct stress_parcel *held, uint64_t draw)
{
    if (held->kind == STRESS_NOTHING)
        return;
    count_home(held->capacity);
    stress_parcel_return(held, draw);
}

static void resize(struct worker *self, struct stress_parcel *held, uint64_t draw)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    size_t before = held->capacity;
    if (held->kind != STRESS_EXEC || held->exec != self->arena)
        return;
    request.size = 64 + draw % SIZE_MOST;
    enum hearth_status status = stress_parcel_resize(held, request.size, draw % 2 == 0);
    if (status == HEARTH_NO_MEMORY)
        self->refused++;
    else
        stress_expect(status, "a resize");
    /* The old storage went home inside of the call, so what is certainly out is only known now. */
    if (held->capacity > before)
        count_out(held->capacity - before);
    else
        count_home(before - held->capacity);
}

static void take_bulk(struct worker *self, uint64_t draw)
{
    struct hearth_buf *bufs[BULK] = {NULL};
    struct hearth_lease leases[BULK];
    struct hearth_request request = some_request(self, draw);
    enum hearth_domain domain = draw % 2 == 0 ? HEARTH_DOMAIN_EXEC : HEARTH_DOMAIN_IO;
    bool leased = domain == HEARTH_DOMAIN_IO && (draw >> 20) % 2 == 0;
    request.size = request.size < 30000 ? request.size : 30000;
    enum hearth_status status =
        leased ? hearth_service_lease_bulk(service, &request, BULK, leases)
               : hearth_service_alloc_bulk(service, domain, &request, BULK, bufs);
    if (status != HEARTH_OK) {
        check_refusal(self, status, &request);
        return;
    }
    for (unsigned i = 0; i < BULK; i++) {
        if (leased)
            bufs[i] = hearth_lease_buf(leases[i]);
        count_out(hearth_buf_capacity(bufs[i]));
        stress_mark(hearth_buf_data(bufs[i]), request.size, draw + i);
    }
    for (unsigned i = 0; i < BULK; i++) {
        if (!stress_marked(hearth_buf_data(bufs[i]), request.size, draw + i))
            stress_violation("the payload of bulk is not its holder's");
        count_home(hearth_buf_capacity(bufs[i]));
    }
    size_t bad = SIZE_MAX;
    stress_expect(leased ? hearth_lease_release_bulk(leases, BULK, &bad)
                         : hearth_service_free_bulk(service, bufs, BULK, &bad),
                  "a return in bulk");
    self->takes += BULK;
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    struct stress_parcel *held = &self->held[(draw >> 32) % HELD];
    if (draw % 128 == 0) {
        stress_expect(hearth_service_detach(service), "a detach");
        self->arena = NULL;
    }
    if (self->arena == NULL)
        stress_expect(hearth_service_exec(service, &self->arena), "an attach");
    if (draw % 16 == 1)
        take_bulk(self, draw >> 8);
    else if (held->kind == STRESS_NOTHING)
        take(self, held, stress_next(&self->random));
    else if (draw % 16 == 2)
        resize(self, held, draw >> 8);
    else if (draw % 4 == 3 && held->capacity <= SMALL)
        stress_post(held, draw >> 8);
    else
        give_back(held, draw >> 8);
}

static void stop(void)
{
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    uint64_t name = hearth_service_waiter(service);
    if (name == 0)
        stress_violation("a thread has no name");
    atomic_store_explicit(&self->name, name, memory_order_relaxed);
    for (unsigned i = 0; i < STOPS; i++) {
        for (unsigned steps = options.smoke ? SMOKE_STEPS : STEPS; steps > 0; steps--)
            step(self);
        for (unsigned k = 0; k < HELD; k++)
            if (self->held[k].capacity > SMALL)
                give_back(&self->held[k], k);
        (void)atomic_fetch_sub_explicit(&working, 1, memory_order_relaxed);
        stop();
    }
    for (unsigned i = 0; i < HELD; i++)
        give_back(&self->held[i], i);
    return NULL;
}

/* Nothing may be taken back from under a request that is certainly allowed, so the limit stays. */
static void disturb(uint64_t *random)
{
    static const size_t limits[] = {CEILING, 0, 65536, CEILING / 2, 300000};
    uint64_t draw = stress_next(random);
    uint64_t name =
        atomic_load_explicit(&workers[(draw >> 8) % options.threads].name, memory_order_relaxed);
    size_t limit = limits[(draw >> 16) % (sizeof limits / sizeof *limits)];
    switch (draw % 8) {
    case 0:
        stress_expect(hearth_service_cancel(service, (draw >> 32) % 2 == 0 ? 0 : name, NULL),
                      "a cancel");
        break;
    case 1:
    case 2:
        if (moving)
            stress_expect(hearth_service_set_ceiling(service, limit), "a ceiling");
        break;
    case 3:
        if (moving)
            stress_expect(hearth_service_set_live_limit(service, LIMIT, (draw >> 32) % RESERVE),
                          "a limit");
        break;
    case 4:
        if (moving)
            stress_expect(hearth_service_set_retention_cap(service, 1 + (uint32_t)(draw >> 32) % 3,
                                                           limit == 0 ? HEARTH_UNBOUNDED : limit),
                          "a cap");
        break;
    case 5:
        (void)stress_service_trim(service, limit, (draw >> 32) % 2 * 100000, false);
        break;
    default:
        stress_nap();
    }
}

static void *move_all_the_time(void *argument)
{
    uint64_t *random = argument;
    for (unsigned i = 0; i < STOPS; i++) {
        while (atomic_load_explicit(&working, memory_order_relaxed) > 0)
            disturb(random);
        stop();
    }
    return NULL;
}

static void *read_figures(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        stress_service_look(service, (size_t)options.threads + MOVERS + 1, POSSIBLE);
        (void)sched_yield();
    }
    return NULL;
}

/* Caches that were inside an operation when the ceiling fell follow when they are reached. */
static void check_ceiling(void)
{
    if (moving)
        stress_expect(hearth_service_set_ceiling(service, CEILING / 2), "a ceiling");
    for (unsigned i = 0; moving && i < PASSES; i++) {
        if (hearth_service_retained_bytes(service) <= CEILING / 2)
            break;
        stress_nap();
        stress_expect(hearth_service_set_ceiling(service, CEILING / 2), "a ceiling");
    }
    size_t ceiling = hearth_service_ceiling(service);
    size_t retained = hearth_service_retained_bytes(service);
    if (ceiling != (moving ? CEILING / 2 : CEILING))
        stress_violation("the ceiling is %zu", ceiling);
    if (retained > ceiling)
        stress_violation("%zu bytes are retained below a ceiling of %zu", retained, ceiling);
    size_t most = hearth_service_thread_count(service) * GRANT;
    if (hearth_service_stranded_bytes(service) > most)
        stress_violation("%zu bytes of credit are stranded, at most %zu may be",
                         hearth_service_stranded_bytes(service), most);
}

static void check_stopped(void)
{
    size_t bytes = 0, capacity = 0;
    stress_count_boxes(&bytes, &capacity);
    for (unsigned i = 0; i < options.threads; i++)
        stress_count(workers[i].held, HELD, &bytes, &capacity);
    size_t live = hearth_service_live_capacity(service);
    if (hearth_service_live_bytes(service) != bytes)
        stress_violation("%zu bytes are held, live are %zu", bytes,
                         hearth_service_live_bytes(service));
    if (live != capacity || live > LIMIT)
        stress_violation("%zu bytes are live, held are %zu, the limit is %zu", live, capacity,
                         LIMIT);
    if (hearth_service_waiter_count(service) != 0)
        stress_violation("somebody waits while all have stopped");
    check_ceiling();
    /* What other slices left to be given back is given back first. */
    (void)stress_service_trim(service, 0, 0, true);
    /* A goal of nothing: the report alone. What was pending may be taken in. */
    struct hearth_trim_report report = stress_service_trim(service, 0, 0, true);
    size_t retained = hearth_service_retained_bytes(service);
    size_t footprint = hearth_service_footprint(service);
    if (footprint != hearth_backing_footprint(backing))
        stress_violation("the footprint is %zu, the backing lent %zu", footprint,
                         hearth_backing_footprint(backing));
    size_t sum = live + retained + report.kept_pending;
    /* Cold bytes of spans are no part of it. */
    if (report.released_bytes != 0 || (stress_has_spans() ? sum > footprint : sum != footprint))
        stress_violation("%zu live, %zu retained, %" PRIu64 " pending are not the footprint %zu",
                         live, retained, report.kept_pending, footprint);
}

static void open_round(uint64_t number, struct stress_lender *lender)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    moving = number % 2 == 1;
    with.flags = HEARTH_SERVICE_NO_THREAD;
    with.ceiling = CEILING;
    with.grant = GRANT;
    with.exec_floor = CEILING / 8;
    with.io_floor = CEILING / 8;
    with.live_limit = LIMIT;
    with.reserve = RESERVE;
    with.exhaustion = HEARTH_EXHAUSTION_WAIT;
    backing = stress_lender_open(lender);
    with.exec_backing = backing;
    with.io_backing = backing;
    stress_must(hearth_service_create(&with, &service), "create");
    atomic_store_explicit(&out_bytes, 0, memory_order_relaxed);
}

static void one_round(uint64_t number, struct worker *sum)
{
    pthread_t threads[THREADS_MAX + MOVERS + 1] = {0};
    uint64_t random = stress_seed(&options, 1000000 + (unsigned)number);
    struct stress_lender lender = {0};
    unsigned count = 0;
    open_round(number, &lender);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    atomic_store_explicit(&working, options.threads, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.random = stress_seed(&options, i + (unsigned)number * 100)};
        pthread_create(&threads[count++], NULL, work, &workers[i]);
    }
    pthread_create(&threads[count++], NULL, move_all_the_time, &random);
    pthread_create(&threads[count++], NULL, read_figures, NULL);
    for (unsigned i = 0; i < STOPS; i++) {
        (void)pthread_barrier_wait(&barrier);
        check_stopped();
        atomic_store_explicit(&working, options.threads, memory_order_relaxed);
        (void)pthread_barrier_wait(&barrier);
    }
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < options.threads; i++) {
        sum->takes += workers[i].takes;
        sum->refused += workers[i].refused;
        sum->timeouts += workers[i].timeouts;
        sum->cancelled += workers[i].cancelled;
    }
    stress_clear_boxes();
    stress_service_home(service, true);
    hearth_service_unref(service);
    hearth_backing_unref(backing);
    stress_lender_ended(&lender);
}

int main(int argc, char **argv)
{
    struct worker sum = {.random = 0};
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_service_ceiling", 4);
    (void)pthread_barrier_init(&barrier, NULL, options.threads + MOVERS + 1);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds, &sum);
    char counts[200];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " buffers, %" PRIu64 " refused, %" PRIu64
             " timeouts, %" PRIu64 " cancelled",
             rounds, sum.takes, sum.refused, sum.timeouts, sum.cancelled);
    return stress_verdict("stress_service_ceiling", &options, counts);
}
