/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: random graphs on executors of every temper.
 *
 * World after world: a service, two random graphs of 20 to 80 nodes (values used by several nodes, mixed outputs,
 * workspaces, reuse in place, loops over bodies with varying trips), three sessions and a pool of the library's. In
 * each, three drivers run contexts of their own on the same sessions: serially, on the pool, or on an executor
 * that reorders, delays, refuses, calls inside submit and keeps calls until the session is gone; from their own
 * thread or from one of the executor's; with inputs lent, staged and put, outputs bound, and now and then
 * kernels that fail or a limit that refuses. Outputs are exported and kept by consumers. Then sessions, contexts,
 * plans, service and pool end in random order.
 *
 * Oracle: every value of every run has a stamp that is known before (session/graph.h), and fills its buffer;
 * kernels check what they read before and after they write; each node runs as often as it must; a run that fails
 * is answered what one of its kernels was; outputs stay what they are until they are released, exported ones
 * beyond the end of everything; what is live after the runs is what contexts and consumers hold, to the byte, and
 * what is in the footprint besides is found by a trim, and adds up; every backing ends once; no call of the runtime is a
 * misuse.
 */
#include "harness.h"
#include "service.h"
#include "session/bay.h"
#include "session/crooked.h"
#include "session/driver.h"

#include <hearth/context.h>
#include <hearth/io.h>
#include <hearth/plan.h>
#include <hearth/service.h>
#include <hearth/session.h>
#include <hearth/status.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMOKE_WORLDS 12u
#define ROUNDS_MOST 24u
#define CONSUMERS 2u
#define THREADS_POSSIBLE 256u
#define POSSIBLE ((size_t)1 << 40)

/* What ends in random order. */
enum ending {
    END_SESSION,                                             /* and the next ones */
    END_CONTEXT = END_SESSION + WORLD_SESSIONS,              /* and the next ones */
    END_PLANS = END_CONTEXT + WORLD_DRIVERS * DRIVER_PLACES, /* and the next ones */
    END_POOL = END_PLANS + WORLD_GRAPHS,
    END_LATE, /* not an end: the calls that the executor kept */
    END_SERVICE,
    ENDINGS
};

static struct stress_options options;
static _Atomic(bool) finished;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards `present` */
static struct hearth_service *present;
static struct world *worlds;
static uint64_t runs, failures, leases;

/* Storage that stayed where another thread made it (PLACE_FOREIGN) is not exported by this one. */
static void tell_misuse(void *context, const struct hearth_misuse *misuse)
{
    (void)context;
    if (misuse->status == HEARTH_NOT_OWNER && strcmp(misuse->call, "hearth_io_take") == 0)
        return;
    stress_violation("misuse of %s: %s: %s", misuse->call, hearth_status_name(misuse->status),
                     misuse->detail);
}

static struct hearth_service_options some_options(struct world *world, uint64_t draw)
{
    struct hearth_service_options with = HEARTH_SERVICE_OPTIONS_INIT;
    world->alone = draw % 2 == 0;
    world->tight = (draw >> 1) % 6 == 0;
    with.flags = (world->alone ? HEARTH_SERVICE_NO_THREAD : 0) |
                 ((draw >> 4) % 3 == 0 ? HEARTH_SERVICE_SCRUB : 0);
    with.live_limit = world->tight ? (size_t)200000 + (draw >> 8) % 400000 : 0;
    with.ceiling = (draw >> 24) % 4 == 0 ? (size_t)1 << 20 : 0;
    with.grant = with.ceiling == 0 ? 0 : 65536;
    with.exec_cap = (draw >> 28) % 4 == 0 ? 100000 : 0;
    with.age_ms = (draw >> 32) % 2 == 0 ? 1 : 0;
    with.maintenance_bytes = 65536;
    world->plans = (draw >> 36) % 3 == 0;
    with.exec_store = world->plans ? HEARTH_EXEC_STORE_PLANS : HEARTH_EXEC_STORE_DEFAULT;
    return with;
}

static void show_service(struct hearth_service *service)
{
    hearth_service_ref(service);
    (void)pthread_mutex_lock(&lock);
    struct hearth_service *old = present;
    present = service;
    (void)pthread_mutex_unlock(&lock);
    hearth_service_unref(old);
}

static struct world *open_world(uint64_t *random)
{
    struct world *world = calloc(1, sizeof *world);
    if (world == NULL)
        abort();
    world->options = &options;
    world->service = stress_service_open(&world->lender, some_options(world, stress_next(random)));
    for (uint32_t i = 0; i < WORLD_GRAPHS; i++)
        world->graphs[i] = graph_make(random);
    for (uint32_t i = 0; i < WORLD_SESSIONS; i++) {
        struct hearth_session_options with = HEARTH_SESSION_OPTIONS_INIT;
        uint64_t draw = stress_next(random);
        world->session_graphs[i] = world->graphs[i < WORLD_GRAPHS ? i : draw % WORLD_GRAPHS];
        with.plan = world->session_graphs[i]->plan;
        with.service = world->service;
        with.concurrent_runs = (uint32_t)(draw >> 8) % 4;
        stress_must(hearth_session_create(&with, &world->sessions[i]), "session");
    }
    stress_must(hearth_pool_create(options.threads, &world->pool), "pool");
    stress_must(hearth_pool_executor(world->pool, &world->executor), "executor");
    world->drivers = calloc(WORLD_DRIVERS, sizeof *world->drivers);
    if (world->drivers == NULL)
        abort();
    show_service(world->service);
    return world;
}

static void *drive(void *argument)
{
    driver_work(argument);
    return NULL;
}

static void work(struct world *world, uint64_t *random)
{
    pthread_t threads[WORLD_DRIVERS];
    uint64_t rounds = 1 + stress_next(random) % ROUNDS_MOST;
    for (uint32_t i = 0; i < WORLD_DRIVERS; i++) {
        world->drivers[i].world = world;
        world->drivers[i].random = stress_next(random) | 1;
        world->drivers[i].rounds = rounds;
        if (pthread_create(&threads[i], NULL, drive, &world->drivers[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < WORLD_DRIVERS; i++) {
        (void)pthread_join(threads[i], NULL);
        runs += world->drivers[i].runs;
        failures += world->drivers[i].failures;
        leases += world->drivers[i].leases;
    }
}

/* A call that keeps its thread until all threads have one. */
struct gathering {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    unsigned missing, inside; /* guarded by `lock` */
};

static void gather(void *argument)
{
    struct gathering *all = argument;
    (void)pthread_mutex_lock(&all->lock);
    all->missing--;
    (void)pthread_cond_broadcast(&all->moved);
    while (all->missing > 0)
        (void)pthread_cond_wait(&all->moved, &all->lock);
    all->inside--;
    (void)pthread_cond_broadcast(&all->moved);
    (void)pthread_mutex_unlock(&all->lock);
}

/* The pool is through with what it was given: a prefill that was late goes on after its deadline. */
static void settle_pool(const struct hearth_executor *pool)
{
    struct gathering all = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .moved = PTHREAD_COND_INITIALIZER,
                            .missing = options.threads,
                            .inside = options.threads};
    for (unsigned i = 0; i < options.threads; i++)
        stress_must(pool->submit(pool->pool, gather, &all), "submit");
    (void)pthread_mutex_lock(&all.lock);
    while (all.inside > 0)
        (void)pthread_cond_wait(&all.moved, &all.lock);
    (void)pthread_mutex_unlock(&all.lock);
    (void)pthread_cond_destroy(&all.moved);
    (void)pthread_mutex_destroy(&all.lock);
}

/* Nobody runs anything. What is live is what contexts and consumers hold. */
static void check_quiet(struct world *world)
{
    size_t bytes = 0, capacity = 0;
    settle_pool(&world->executor);
    crooked_settle();
    for (uint32_t i = 0; i < WORLD_DRIVERS * DRIVER_PLACES; i++)
        place_count(&world->drivers[i / DRIVER_PLACES].places[i % DRIVER_PLACES], &bytes,
                    &capacity);
    bay_count(world, &bytes, &capacity);
    size_t live = hearth_service_live_bytes(world->service);
    if (live != bytes)
        stress_violation("%zu bytes are live after the runs, and %zu are held", live, bytes);
    live = hearth_service_live_capacity(world->service);
    if (live != capacity)
        stress_violation("a capacity of %zu is live after the runs, and %zu is held", live,
                         capacity);
    else if (world->plans && capacity != 0) /* a slab with something live stays whole */
        (void)stress_service_trim(world->service, HEARTH_UNBOUNDED, 0, world->alone);
    else
        (void)stress_service_quiet(world->service, capacity, world->alone);
}

static void end_one(struct world *world, uint32_t what)
{
    enum hearth_status status = HEARTH_OK;
    if (what < END_CONTEXT) {
        status = hearth_session_destroy(world->sessions[what]);
    } else if (what < END_PLANS) {
        uint32_t number = what - END_CONTEXT;
        struct driver *driver = &world->drivers[number / DRIVER_PLACES];
        status = hearth_context_destroy(driver->places[number % DRIVER_PLACES].context);
    } else if (what < END_POOL) {
        graph_drop_plans(world->graphs[what - END_PLANS]);
    } else if (what == END_POOL) {
        status = hearth_pool_destroy(world->pool);
    } else if (what == END_LATE) {
        crooked_call_late();
    } else {
        hearth_service_unref(world->service);
    }
    if (status != HEARTH_OK)
        stress_violation("the end of number %u was answered %s", what, hearth_status_name(status));
}

/* What ended and was freed is written over before late calls come. */
static void spray_heap(void)
{
    void *blocks[256];
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        size_t size = (i % 64 + 1) * 48;
        blocks[i] = malloc(size);
        if (blocks[i] != NULL)
            memset(blocks[i], 0xa5, size);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        free(blocks[i]);
}

static void end_world(struct world *world, uint64_t *random)
{
    uint32_t order[ENDINGS] = {0};
    for (uint32_t i = 0; i < ENDINGS; i++) {
        uint32_t place = (uint32_t)(stress_next(random) % (i + 1));
        order[i] = order[place];
        order[place] = i;
    }
    for (uint32_t i = 0; i < ENDINGS; i++)
        end_one(world, order[i]);
    spray_heap();
    crooked_call_late();
    for (uint32_t i = 0; i < WORLD_GRAPHS; i++)
        graph_free(world->graphs[i]);
    for (uint32_t i = 0; i < WORLD_DRIVERS; i++) {
        for (uint32_t j = 0; j < GRAPH_INITIAL_MOST; j++)
            free(world->drivers[i].inputs[j]);
        for (uint32_t j = 0; j < DRIVER_PLACES; j++)
            place_free(&world->drivers[i].places[j]);
    }
    free(world->drivers);
    world->next = worlds;
    worlds = world;
}

static void *read_figures(void *argument)
{
    (void)argument;
    while (!atomic_load_explicit(&finished, memory_order_relaxed)) {
        (void)pthread_mutex_lock(&lock);
        struct hearth_service *service = present;
        hearth_service_ref(service);
        (void)pthread_mutex_unlock(&lock);
        if (service == NULL) {
            stress_nap();
            continue;
        }
        for (unsigned i = 0; i < 20; i++)
            stress_service_look(service, THREADS_POSSIBLE, POSSIBLE);
        hearth_service_unref(service);
        stress_nap();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct hearth_misuse_handler loud = {tell_misuse, NULL};
    char counts[200];
    uint64_t world_count = 0;
    pthread_t reader;
    options = stress_parse(argc, argv, "stress_session", 8);
    (void)hearth_misuse_set_handler(&loud);
    uint64_t random = stress_seed(&options, 0);
    crooked_open(options.threads, stress_seed(&options, 1));
    bay_open(CONSUMERS, stress_seed(&options, 2));
    if (pthread_create(&reader, NULL, read_figures, NULL) != 0)
        abort();
    for (; stress_goes_on(&options, world_count, SMOKE_WORLDS); world_count++) {
        struct world *world = open_world(&random);
        work(world, &random);
        check_quiet(world);
        end_world(world, &random);
    }
    atomic_store_explicit(&finished, true, memory_order_relaxed);
    (void)pthread_join(reader, NULL);
    show_service(NULL);
    crooked_close();
    (void)bay_close();
    while (worlds != NULL) {
        struct world *next = worlds->next;
        stress_lender_ended(&worlds->lender);
        free(worlds);
        worlds = next;
    }
    (void)snprintf(counts, sizeof counts,
                   "%" PRIu64 " worlds, %" PRIu64 " runs, %" PRIu64 " failed, %" PRIu64 " leases",
                   world_count, runs, failures, leases);
    return stress_verdict("stress_session", &options, counts);
}
