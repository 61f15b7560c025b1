/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads come and go, and services too.
 *
 * Short threads enter one of a few services, attach by their first use, at one depth of nested work or another, take,
 * resize, check and return buffers and leases, give some to each other through boxes, detach or just end; some use the service in two
 * thread-exit destructors, one that runs before the library's own and one after. What lies in the boxes
 * outlives its thread, and often its service. Meanwhile services are closed and replaced; whoever comes last
 * gives up the last reference, with buffers still out and others returning them.
 *
 * Oracle: what is held stays valid and keeps its payload; every right call is OK, requests are OK or, once the
 * service was closed, CLOSED; a reader finds no impossible figure; at the end every backing ended once with
 * every segment back; and a thousand services and threads take no more memory than a hundred.
 */
#include "service.h"

#include "core/atomic.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PLACES 3
#define HELD 10
#define DEPTHS 3 /* of a thread's work */
#define THREADS_MAX 64
#define SIZE_MOST ((size_t)256 << 10)
#define SMOKE_ROUNDS 300
#define WARM_ROUNDS 100
#define GROWTH_MOST ((size_t)16 << 20)
#define POSSIBLE ((size_t)1 << 40)

/* Rounds of destructors. In the last one, which a library that was used again in the one before needs,
 * ThreadSanitizer has forgotten the thread. */
#ifdef HEARTH__THREAD_SANITIZER
#define FAREWELLS 2
#else
#define FAREWELLS 3
#endif

struct house {
    struct hearth_service *service;
    struct stress_lender lender;
    _Atomic(bool) closed; /* set before the close: requests may find it */
    struct house *next;
};

struct guest {
    struct house *house;
    struct hearth_exec *arena;
    struct stress_parcel held[HELD];
    uint64_t random;
    uint64_t takes;
    bool referenced; /* this thread still holds its reference */
};

struct host {
    uint64_t random;
    uint64_t guests, takes;
};

/* What a thread leaves to a destructor: a reference, and perhaps something to return. */
struct farewell {
    struct house *house;
    struct stress_parcel parcel;
    uint64_t draw;
    unsigned rounds;
    pthread_key_t key;
};

static struct stress_options options;
static _Atomic(bool) finished;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the places and the list */
static struct house *places[PLACES];
static struct house *houses;
static pthread_key_t early_key, late_key; /* made before and after the library's own */

static bool may_be_closed(const struct house *house, enum hearth_status status)
{
    return status == HEARTH_CLOSED && atomic_load_explicit(&house->closed, memory_order_relaxed);
}

static size_t some_size(uint64_t draw)
{
    static const size_t sizes[] = {64, 65536, 512, 100000, 1024, SIZE_MOST, 4096, 24576};
    return sizes[draw % (sizeof sizes / sizeof *sizes)];
}

static void shut(struct house *house)
{
    atomic_store_explicit(&house->closed, true, memory_order_relaxed);
    enum hearth_status status = hearth_service_close(house->service);
    if (status != HEARTH_OK)
        stress_violation("a close was answered %s", hearth_status_name(status));
}

static struct house *build(uint64_t draw)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    struct house *house = calloc(1, sizeof *house);
    if (house == NULL)
        abort();
    if (draw % 4 == 0)
        with.ceiling = (size_t)1 << 20;
    with.grant = draw % 4 == 0 ? 65536 : 0;
    with.exec_cap = (draw >> 2) % 4 == 0 ? 300000 : 0;
    with.age_ms = (draw >> 4) % 2 == 0 ? 1 : 0;
    with.maintenance_bytes = 65536;
    with.flags = ((draw >> 5) % 2 == 0 ? HEARTH_SERVICE_NO_THREAD : 0) |
                 ((draw >> 6) % 4 == 0 ? HEARTH_SERVICE_SCRUB : 0);
    house->service = stress_service_open(&house->lender, with);
    return house;
}

/* The caller has a reference afterwards. */
static struct house *enter(uint64_t draw)
{
    (void)pthread_mutex_lock(&lock);
    struct house *house = places[draw % PLACES];
    hearth_service_ref(house->service);
    (void)pthread_mutex_unlock(&lock);
    return house;
}

static void replace(uint64_t draw)
{
    struct house *fresh = build(draw >> 16);
    (void)pthread_mutex_lock(&lock);
    struct house *old = places[draw % PLACES];
    places[draw % PLACES] = fresh;
    fresh->next = houses;
    houses = fresh;
    (void)pthread_mutex_unlock(&lock);
    if (old == NULL)
        return;
    if ((draw >> 8) % 2 == 0)
        shut(old);
    if ((draw >> 9) % 4 == 0)
        (void)stress_service_trim(old->service, HEARTH_UNBOUNDED, 0, false);
    hearth_service_unref(old->service);
}

/* At some depth; the thread may have arenas of others. */
static void attach(struct guest *self)
{
    struct hearth_exec *again = NULL;
    unsigned depth = (unsigned)(stress_next(&self->random) % DEPTHS);
    self->arena = NULL;
    enum hearth_status status =
        hearth_service_child_exec(self->house->service, depth, &self->arena);
    if (status == HEARTH_OK) {
        status = hearth_service_child_exec(self->house->service, depth, &again);
        if (status == HEARTH_OK && again != self->arena)
            stress_violation("an attached thread got two arenas of one depth");
    }
    if (status == HEARTH_OK) {
        status = hearth_service_exec(self->house->service, &again);
        if (status == HEARTH_OK && (again == self->arena) != (depth == 0))
            stress_violation("the arena of depth %u is that of another depth", depth);
    }
    if (status != HEARTH_OK && !may_be_closed(self->house, status))
        stress_violation("an attach was answered %s", hearth_status_name(status));
}

static void detach(struct guest *self)
{
    enum hearth_status status = hearth_service_detach(self->house->service);
    if (status != HEARTH_OK)
        stress_violation("a detach was answered %s", hearth_status_name(status));
    self->arena = NULL;
}

static void take(struct guest *self, struct stress_parcel *parcel, uint64_t draw)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = some_size(draw);
    request.zero = (draw >> 4) % 8 == 0;
    enum hearth_status status =
        stress_parcel_take(self->house->service, self->arena, &request, draw >> 8, parcel);
    if (status == HEARTH_OK)
        self->takes++;
    else if (!may_be_closed(self->house, status))
        stress_violation("a request was answered %s", hearth_status_name(status));
}

static void resize(struct guest *self, struct stress_parcel *parcel, uint64_t draw)
{
    if (parcel->kind != STRESS_EXEC || parcel->exec != self->arena)
        return; /* from the boxes, or of an arena that this thread had before */
    enum hearth_status status = stress_parcel_resize(parcel, some_size(draw), (draw >> 4) % 2 == 0);
    if (status != HEARTH_OK && !may_be_closed(self->house, status))
        stress_violation("a resize was answered %s", hearth_status_name(status));
}

static void forbidden(const struct guest *self)
{
    if (self->arena == NULL)
        return;
    if (hearth_exec_destroy(self->arena) != HEARTH_INVALID ||
        hearth_exec_detach(self->arena, NULL) != HEARTH_INVALID ||
        hearth_exec_release_owner(self->arena) != HEARTH_INVALID ||
        hearth_io_close(hearth_service_io(self->house->service)) != HEARTH_INVALID)
        stress_violation("the service's own arena was given away");
}

static void step(struct guest *self)
{
    uint64_t draw = stress_next(&self->random);
    struct stress_parcel *held = &self->held[(draw >> 40) % HELD];
    if (draw % 64 == 0)
        detach(self);
    else if (draw % 64 == 1)
        forbidden(self);
    else if (draw % 64 == 2)
        (void)hearth_service_end_run(self->house->service);
    else if (draw % 64 == 3)
        (void)stress_service_trim(self->house->service, (draw >> 8) % SIZE_MOST, 1000000, false);
    else if (draw % 64 == 4)
        (void)hearth_service_tick(self->house->service);
    if ((self->arena == NULL && (draw >> 8) % 4 != 0) || (draw >> 10) % 8 == 0)
        attach(self);
    draw = stress_next(&self->random);
    if (held->kind == STRESS_NOTHING)
        take(self, held, draw);
    else if (draw % 4 == 0)
        resize(self, held, draw >> 2);
    else if (draw % 4 == 1)
        stress_post(held, draw >> 2);
    else
        stress_parcel_return(held, draw >> 2);
}

/* Attached or not, whatever destructor ran before. */
static void say_farewell(void *argument)
{
    struct farewell *farewell = argument;
    struct guest ghost = {.house = farewell->house, .random = farewell->draw | 1};
    struct stress_parcel parcel = {.kind = STRESS_NOTHING};
    attach(&ghost);
    take(&ghost, &parcel, farewell->draw);
    stress_parcel_return(&parcel, farewell->draw >> 3);
    stress_parcel_return(&farewell->parcel, farewell->draw);
    if (farewell->rounds-- > 0 && pthread_setspecific(farewell->key, farewell) == 0)
        return; /* in the next round of destructors once more */
    hearth_service_unref(farewell->house->service);
    free(farewell);
}

static void leave_farewell(struct guest *self, uint64_t draw)
{
    struct farewell *farewell = calloc(1, sizeof *farewell);
    if (farewell == NULL)
        abort();
    farewell->house = self->house;
    hearth_service_ref(self->house->service);
    farewell->draw = draw;
    farewell->rounds = (unsigned)(draw >> 8) % FAREWELLS;
    farewell->key = draw % 2 == 0 ? early_key : late_key;
    farewell->parcel = self->held[0];
    self->held[0].kind = STRESS_NOTHING;
    if (pthread_setspecific(farewell->key, farewell) != 0)
        abort();
}

static void return_all(struct guest *self)
{
    for (unsigned i = 0; i < HELD; i++)
        stress_parcel_return(&self->held[i], stress_next(&self->random));
}

/* Some returns before the reference is given up, some after: the service may be gone then. */
static void leave(struct guest *self)
{
    uint64_t draw = stress_next(&self->random);
    if (draw % 4 == 0)
        leave_farewell(self, draw >> 8);
    if ((draw >> 2) % 2 == 0)
        detach(self);
    if ((draw >> 3) % 2 == 0)
        return_all(self);
    for (unsigned i = 0; i < HELD && (draw >> 4) % 2 == 0; i++)
        if (self->held[i].kind != STRESS_NOTHING)
            stress_post(&self->held[i], stress_next(&self->random));
    hearth_service_unref(self->house->service);
    return_all(self);
}

static void *stay(void *argument)
{
    struct guest *self = argument;
    uint64_t steps = stress_next(&self->random) % 150;
    for (; steps > 0 && !atomic_load_explicit(&finished, memory_order_relaxed); steps--)
        step(self);
    leave(self);
    return NULL;
}

static void *receive(void *argument)
{
    struct host *self = argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        pthread_t thread;
        struct guest guest = {.random = stress_next(&self->random) | 1};
        guest.house = enter(stress_next(&self->random));
        if (pthread_create(&thread, NULL, stay, &guest) != 0)
            abort();
        (void)pthread_join(thread, NULL);
        self->guests++;
        self->takes += guest.takes;
    }
    return NULL;
}

/* A thread that is never attached, and now and then gives up the last reference. */
static void *read_figures(void *argument)
{
    uint64_t *random = argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        struct house *house = enter(stress_next(random));
        for (unsigned i = 0; i < 20; i++)
            stress_service_look(house->service, (size_t)options.threads * DEPTHS + 1, POSSIBLE);
        hearth_service_unref(house->service);
    }
    return NULL;
}

static size_t resident(void)
{
#if !defined(HEARTH__THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
    char line[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return 0;
    const char *second = fgets(line, sizeof line, file) == NULL ? NULL : strchr(line, ' ');
    (void)fclose(file);
    size_t pages = second == NULL ? 0 : strtoul(second, NULL, 10);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
#else
    return 0; /* the sanitizer's own */
#endif
}

static uint64_t replace_all_the_time(size_t *warm)
{
    static const struct timespec moment = {0, 500000};
    uint64_t random = stress_seed(&options, THREADS_MAX);
    uint64_t rounds = 0;
    for (; stress_goes_on(&options, rounds, SMOKE_ROUNDS); rounds++) {
        replace(stress_next(&random));
        (void)nanosleep(&moment, NULL);
        if (rounds == WARM_ROUNDS)
            *warm = resident();
    }
    return rounds;
}

static void check_ends(void)
{
    for (struct house *house = houses; house != NULL;) {
        struct house *next = house->next;
        stress_lender_ended(&house->lender);
        free(house);
        house = next;
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX] = {0};
    pthread_t reader;
    struct host hosts[THREADS_MAX] = {{.random = 0}};
    size_t warm = 0;
    options = stress_parse(argc, argv, "stress_service_churn", 4);
    if (pthread_key_create(&early_key, say_farewell) != 0)
        abort();
    for (unsigned i = 0; i < PLACES; i++)
        replace(i | (uint64_t)i << 16);
    if (pthread_key_create(&late_key, say_farewell) != 0)
        abort();
    uint64_t reading = stress_seed(&options, THREADS_MAX + 1);
    for (unsigned i = 0; i < options.threads; i++) {
        hosts[i].random = stress_seed(&options, i);
        pthread_create(&threads[i], NULL, receive, &hosts[i]);
    }
    pthread_create(&reader, NULL, read_figures, &reading);
    uint64_t services = replace_all_the_time(&warm);
    size_t now = resident();
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    struct host sum = {.random = 0};
    for (unsigned i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
        sum.guests += hosts[i].guests;
        sum.takes += hosts[i].takes;
    }
    pthread_join(reader, NULL);
    for (unsigned i = 0; i < PLACES; i++)
        hearth_service_unref(places[i]->service);
    stress_clear_boxes();
    check_ends();
    if (services > WARM_ROUNDS && now > warm + GROWTH_MOST)
        stress_violation("%zu bytes resident after %d services, %zu at the end", warm, WARM_ROUNDS,
                         now);
    char counts[160];
    snprintf(counts, sizeof counts,
             "%" PRIu64 " services, %" PRIu64 " threads, %" PRIu64
             " buffers, resident %zu KiB, then %zu KiB",
             services, sum.guests, sum.takes, warm >> 10, now >> 10);
    return stress_verdict("stress_service_churn", &options, counts);
}
