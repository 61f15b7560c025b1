/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trim, tick, ageing and caps against owners at work.
 *
 * Workers take, resize, export, move, check and return buffers of both domains, give some to each other, end
 * runs and detach. Two threads trim all the time: everything, towards a goal, within a budget; they tick, end
 * runs, change caps and let storage age within a millisecond, as does the maintenance thread in every other
 * round. A reader looks at the figures. From time to time all stop where they are.
 *
 * Oracle: the payload of what is held is its holder's; nothing is refused; no figure is impossible, and no
 * trim releases more than its goal and one buffer; when all have stopped the live figures are exactly what is
 * held, repeated trims reach everything else though the threads are still there, and reports and figures add
 * up to what the backing lent; at the end all storage is home.
 */
#include "service.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define HELD 12
#define THREADS_MAX 64
#define TRIMMERS 2
#define SIZE_MOST ((size_t)512 << 10)
#define SMOKE_ROUNDS 4
#define STOPS 4 /* in a round */
#define STEPS 4000
#define SMOKE_STEPS 700
#define POSSIBLE ((size_t)1 << 40)

struct worker {
    struct stress_parcel held[HELD];
    struct hearth_exec *arena;
    uint64_t random;
    uint64_t takes, detaches;
};

struct trimmer {
    uint64_t random;
    uint64_t trims, ticks;
    uint64_t released;
};

static struct stress_options options;
static struct hearth_service *service;
static struct hearth_backing *backing;
static bool alone; /* no maintenance thread in this round */
/* In this round trims alone give back: no caps, no slices of others whose rest a trim gives back as well. */
static bool goals;
static struct worker workers[THREADS_MAX];
static pthread_barrier_t barrier;
static _Atomic(unsigned) working; /* workers that have not stopped: for the trimmers */
static _Atomic(bool) finished;

static size_t some_size(uint64_t draw)
{
    static const size_t sizes[] = {64, 65536, 64, 100000, 1024, SIZE_MOST, 4096, 24576};
    return sizes[draw % (sizeof sizes / sizeof *sizes)];
}

static void change_places(struct worker *self)
{
    stress_expect(hearth_service_detach(service), "a detach");
    self->detaches++;
    self->arena = NULL;
}

static void use(struct worker *self, struct stress_parcel *held, uint64_t draw)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    if (held->kind == STRESS_NOTHING) {
        request.size = some_size(draw >> 8);
        request.zero = draw % 16 == 0;
        stress_expect(stress_parcel_take(service, self->arena, &request, draw >> 16, held),
                      "a request");
        self->takes++;
    } else if (draw % 8 < 2 && held->kind == STRESS_EXEC && held->exec == self->arena) {
        stress_expect(stress_parcel_resize(held, some_size(draw >> 8), draw % 2 == 0), "a resize");
    } else if (draw % 8 < 3) {
        stress_post(held, draw >> 8);
    } else {
        stress_parcel_return(held, draw >> 8);
    }
}

/* Small and short: the owner goes in and out as often as it can. */
static void beat(const struct worker *self)
{
    for (unsigned i = 0; i < 8; i++) {
        struct hearth_buf *buf = NULL;
        enum hearth_status status = hearth_exec_alloc(self->arena, 64, &buf);
        stress_expect(status, "a small request");
        if (status != HEARTH_OK)
            return;
        stress_mark(hearth_buf_data(buf), 64, (uintptr_t)&buf);
        sched_yield();
        if (!stress_marked(hearth_buf_data(buf), 64, (uintptr_t)&buf))
            stress_violation("the payload of a small buffer is not its holder's");
        stress_expect(hearth_exec_free(self->arena, buf), "a small return");
    }
}

static void step(struct worker *self)
{
    uint64_t draw = stress_next(&self->random);
    if (draw % 256 == 0)
        change_places(self);
    if (self->arena == NULL)
        stress_expect(hearth_service_exec(service, &self->arena), "an attach");
    if (self->arena == NULL)
        return;
    if (draw % 16 == 1)
        stress_expect(hearth_service_end_run(service), "the end of a run");
    if (draw % 64 == 2)
        beat(self);
    use(self, &self->held[(draw >> 32) % HELD], stress_next(&self->random));
}

/* All threads meet here before and after main looks. */
static void stop(void)
{
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    for (unsigned i = 0; i < STOPS; i++) {
        for (unsigned steps = options.smoke ? SMOKE_STEPS : STEPS; steps > 0; steps--)
            step(self);
        atomic_fetch_sub_explicit(&working, 1, memory_order_relaxed);
        stop();
    }
    for (unsigned i = 0; i < HELD; i++)
        stress_parcel_return(&self->held[i], stress_next(&self->random));
    return NULL;
}

static void trim(struct trimmer *self, uint64_t draw)
{
    size_t goal = draw % 3 == 0 ? HEARTH_UNBOUNDED : (draw >> 8) % SIZE_MOST;
    uint64_t budget = goals || (draw >> 30) % 2 == 0 ? 0 : 1 + (draw >> 12) % 500000;
    struct hearth_trim_report report = stress_service_trim(service, goal, budget, false);
    if (goals && !stress_has_spans() && goal != HEARTH_UNBOUNDED &&
        report.released_bytes > goal + 2 * SIZE_MOST)
        stress_violation("a trim of %zu bytes released %" PRIu64 ", %" PRIu64
                         " of execution arenas",
                         goal, report.released_bytes, report.released_exec_bytes);
    self->released += report.released_bytes;
    self->trims++;
}

static void disturb(struct trimmer *self)
{
    static const size_t caps[] = {HEARTH_UNBOUNDED, 0, 65536, (size_t)1 << 20, 4096, 300000};
    uint64_t draw = stress_next(&self->random);
    uint32_t domains = 1 + (uint32_t)(draw >> 8) % 3;
    switch (draw % 8) {
    case 0:
        if (goals)
            break;
        stress_expect(hearth_service_set_retention_cap(
                          service, domains, caps[(draw >> 16) % (sizeof caps / sizeof *caps)]),
                      "a cap");
        break;
    case 1:
        stress_expect(hearth_service_set_ageing(service,
                                                (draw >> 8) % 2 == 0 ? 1 : HEARTH_AGE_NEVER,
                                                (draw >> 16) % 4 != 0 ? 1 : HEARTH_AGE_NEVER),
                      "ageing");
        break;
    case 2:
    case 3:
        if (goals)
            break;
        stress_expect(hearth_service_tick(service), "a tick");
        self->ticks++;
        break;
    case 4:
        stress_expect(hearth_service_end_run(service), "the end of a run");
        break;
    default:
        trim(self, draw >> 8);
    }
}

static void *trim_all_the_time(void *argument)
{
    struct trimmer *self = argument;
    for (unsigned i = 0; i < STOPS; i++) {
        while (atomic_load_explicit(&working, memory_order_relaxed) > 0)
            disturb(self);
        stop();
    }
    return NULL;
}

static void *read_figures(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        stress_service_look(service, (size_t)options.threads + TRIMMERS + 1, POSSIBLE);
        (void)sched_yield();
    }
    return NULL;
}

/* All have stopped, with what they hold. */
static void check_stopped(void)
{
    size_t bytes = 0, capacity = 0;
    stress_count_boxes(&bytes, &capacity);
    for (unsigned i = 0; i < options.threads; i++)
        stress_count(workers[i].held, HELD, &bytes, &capacity);
    if (hearth_service_live_bytes(service) != bytes)
        stress_violation("%zu bytes are held, live are %zu", bytes,
                         hearth_service_live_bytes(service));
    if (hearth_service_live_capacity(service) != capacity)
        stress_violation("%zu bytes of capacity are held, live are %zu", capacity,
                         hearth_service_live_capacity(service));
    if (alone && hearth_service_footprint(service) != hearth_backing_footprint(backing))
        stress_violation("the footprint is %zu, the backing lent %zu",
                         hearth_service_footprint(service), hearth_backing_footprint(backing));
    (void)stress_service_quiet(service, capacity, alone);
    for (unsigned i = 0; i < options.threads; i++)
        for (unsigned k = 0; k < HELD; k++)
            if (workers[i].held[k].kind != STRESS_NOTHING)
                stress_parcel_check(&workers[i].held[k]);
}

static void open_round(uint64_t number, struct stress_lender *lender)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    alone = number % 2 == 0;
    goals = number % 4 == 0;
    with.flags = alone ? HEARTH_SERVICE_NO_THREAD : 0;
    with.maintenance_bytes = 65536;
    with.age_ms = 1;
    with.age_runs = 4;
    backing = stress_lender_open(lender);
    with.exec_backing = backing;
    with.io_backing = backing;
    stress_must(hearth_service_create(&with, &service), "create");
}

static void one_round(uint64_t number, struct worker *sum, struct trimmer *trims)
{
    pthread_t threads[THREADS_MAX + TRIMMERS + 1] = {0};
    struct trimmer trimmers[TRIMMERS] = {{0}};
    struct stress_lender lender = {0};
    unsigned count = 0;
    open_round(number, &lender);
    atomic_store_explicit(&finished, false, memory_order_relaxed);
    atomic_store_explicit(&working, options.threads, memory_order_relaxed);
    for (unsigned i = 0; i < options.threads; i++) {
        workers[i] = (struct worker){.random = stress_seed(&options, i + (unsigned)number * 100)};
        pthread_create(&threads[count++], NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < TRIMMERS; i++) {
        trimmers[i].random = stress_seed(&options, 1000000 + i + (unsigned)number);
        pthread_create(&threads[count++], NULL, trim_all_the_time, &trimmers[i]);
    }
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
        sum->detaches += workers[i].detaches;
    }
    for (unsigned i = 0; i < TRIMMERS; i++) {
        trims->trims += trimmers[i].trims;
        trims->ticks += trimmers[i].ticks;
        trims->released += trimmers[i].released;
    }
    stress_clear_boxes();
    stress_service_home(service, alone);
    hearth_service_unref(service);
    hearth_backing_unref(backing);
    stress_lender_ended(&lender);
}

int main(int argc, char **argv)
{
    struct worker sum = {.random = 0};
    struct trimmer trims = {0};
    uint64_t rounds = 0;
    options = stress_parse(argc, argv, "stress_service_trim", 3);
    (void)pthread_barrier_init(&barrier, NULL, options.threads + TRIMMERS + 1);
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++)
        one_round(rounds, &sum, &trims);
    char counts[200];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " buffers, %" PRIu64 " detaches, %" PRIu64
             " trims of %" PRIu64 " MiB, %" PRIu64 " ticks",
             rounds, sum.takes, sum.detaches, trims.trims, trims.released >> 20, trims.ticks);
    return stress_verdict("stress_service_trim", &options, counts);
}
