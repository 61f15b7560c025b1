/* SPDX-License-Identifier: Apache-2.0 */
/* TLS destructors that release, allocate and attach again, in each of the rounds that the system makes. One key is
 * older than hearth's own, one younger, so that hearth's destructor runs before and after them. */
#include "life.h"

#include <hearth/backing.h>

#include <limits.h>
#include <stdint.h>

/* ThreadSanitizer ends a thread's state in a destructor of its own, in the last round; code that it instruments
 * cannot run after that. */
enum {
    ROUNDS = LIFE_TSAN ? PTHREAD_DESTRUCTOR_ITERATIONS - 2 : PTHREAD_DESTRUCTOR_ITERATIONS,
    THREADS = LIFE_TSAN ? 100 : 400,
};

static pthread_key_t older, younger;
static struct hearth_service *service;
static atomic_uint rounds_seen;

/* What a thread takes while it lives: a lease for each round and key. */
struct estate {
    struct hearth_lease leases[2 * ROUNDS];
    struct hearth_buf *buf;
    unsigned round[2];
};

/* Nobody would detach a thread that attaches now, so it may be refused. The I/O arena works as ever. */
static void work_in_the_last_round(void)
{
    struct hearth_exec *arena = NULL;
    struct hearth_lease lease = life_lease(service, 3000);
    OK(hearth_lease_release(lease));
    enum hearth_status status = hearth_service_exec(service, &arena);
    CHECK(status == HEARTH_OK || status == HEARTH_BUSY);
    CHECK((arena != NULL) == (status == HEARTH_OK));
}

static void destroy(struct estate *estate, pthread_key_t key, size_t which)
{
    unsigned round = estate->round[which]++;
    atomic_fetch_or(&rounds_seen, 1u << round);
    if (round < ROUNDS)
        OK(hearth_lease_release(estate->leases[which * ROUNDS + round]));
    if (LIFE_TSAN || round + 1 < ROUNDS)
        life_work(service);
    else
        work_in_the_last_round();
    if (which == 0 && round == 1)
        OK(hearth_free(hearth_buf_owner(estate->buf), estate->buf));
    if (round + 1 < ROUNDS)
        pthread_setspecific(key, estate);
}

static void destroy_older(void *estate)
{
    destroy(estate, older, 0);
}

static void destroy_younger(void *estate)
{
    destroy(estate, younger, 1);
}

static void *live(void *argument)
{
    struct estate *estate = argument;
    struct hearth_exec *arena = NULL;
    OK(hearth_service_exec(service, &arena));
    for (size_t i = 0; i < sizeof estate->leases / sizeof *estate->leases; i++)
        estate->leases[i] = life_lease(service, i * 9000 + 1);
    OK(hearth_exec_alloc(arena, 5000, &estate->buf));
    pthread_setspecific(older, estate);
    pthread_setspecific(younger, estate);
    return NULL;
}

int main(void)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct hearth_backing *backing = NULL;
    if (pthread_key_create(&older, destroy_older))
        life_die("pthread_key_create");
    OK(hearth_backing_create_mmap(NULL, &backing));
    options.exec_backing = options.io_backing = backing;
    OK(hearth_service_create(&options, &service));
    life_work(service);
    if (pthread_key_create(&younger, destroy_younger))
        life_die("pthread_key_create");
    size_t footprint = 0;
    for (size_t i = 0; i < THREADS; i++) {
        struct estate estate = {.buf = NULL};
        life_on_thread(live, &estate);
        CHECK(estate.round[0] == ROUNDS);
        CHECK(estate.round[1] == ROUNDS);
        CHECK(hearth_service_live_bytes(service) == 0);
        if (i == THREADS / 10)
            footprint = hearth_service_footprint(service);
    }
    CHECK(atomic_load(&rounds_seen) == (1u << ROUNDS) - 1);
    CHECK(hearth_service_footprint(service) <= footprint);
    CHECK(hearth_service_thread_count(service) <= 1);
    hearth_service_unref(service);
    CHECK(hearth_backing_footprint(backing) == 0);
    hearth_backing_unref(backing);
    return life_verdict();
}
