/* SPDX-License-Identifier: Apache-2.0 */
#include "bay.h"

#include "../harness.h"
#include "kernel.h"

#include <hearth/allocator.h>
#include <hearth/status.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define PLACES 96u
#define THREADS_MOST 8u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t emptied = PTHREAD_COND_INITIALIZER;
static struct bay_lease places[PLACES];
static unsigned place_count, in_hand;
static uint64_t put_count, random_state;
static bool closing;
static pthread_t threads[THREADS_MOST];
static unsigned thread_count;

static void expect(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        stress_violation("%s was answered %s", what, hearth_status_name(status));
}

static void check(const struct bay_lease *lease)
{
    const void *data = hearth_lease_data(lease->lease);
    if (data == NULL || !stamp_filled(data, hearth_lease_size(lease->lease), lease->stamp))
        stress_violation("an exported output was written to by somebody else");
}

static void release(struct bay_lease *lease, uint64_t draw)
{
    struct hearth_view view;
    check(lease);
    if (draw % 4 == 0) {
        expect(hearth_lease_view(lease->lease, 0, sizeof(uint64_t), &view), "a view");
        expect(hearth_lease_release(lease->lease), "a release");
        lease->lease = view.lease;
        check(lease);
    }
    /* For whoever has it as well. */
    if (hearth_lease_data(lease->lease) != NULL)
        stamp_fill(hearth_lease_data(lease->lease), hearth_lease_size(lease->lease), ~lease->stamp);
    expect(hearth_lease_release(lease->lease), "a last release");
}

/* Any lease, out of its place. `lock` is held; give_back() follows. */
static bool take_lease(struct bay_lease *lease, uint64_t *draw)
{
    *draw = stress_next(&random_state);
    if (place_count == 0)
        return false;
    struct bay_lease *found = &places[*draw % place_count];
    *lease = *found;
    *found = places[--place_count];
    in_hand++;
    return true;
}

/* `lock` is held. */
static void let_go(void)
{
    if (--in_hand == 0)
        (void)pthread_cond_broadcast(&emptied);
}

static void nap(void)
{
    static const struct timespec moment = {0, 300000};
    (void)nanosleep(&moment, NULL);
}

static void *consume(void *argument)
{
    (void)argument;
    for (;;) {
        struct bay_lease lease;
        uint64_t draw;
        (void)pthread_mutex_lock(&lock);
        bool taken = place_count > PLACES / 2 && take_lease(&lease, &draw);
        bool end = closing;
        (void)pthread_mutex_unlock(&lock);
        if (taken) {
            release(&lease, draw >> 8);
            (void)pthread_mutex_lock(&lock);
            let_go();
            (void)pthread_mutex_unlock(&lock);
        } else if (end) {
            return NULL;
        } else {
            nap();
        }
    }
}

void bay_open(unsigned count, uint64_t seed)
{
    random_state = seed | 1;
    for (; thread_count < count && thread_count < THREADS_MOST; thread_count++)
        if (pthread_create(&threads[thread_count], NULL, consume, NULL) != 0)
            abort();
}

void bay_put(const struct bay_lease *lease)
{
    struct bay_lease other;
    uint64_t draw;
    check(lease);
    (void)pthread_mutex_lock(&lock);
    put_count++;
    bool full = place_count == PLACES && take_lease(&other, &draw);
    places[place_count++] = *lease;
    (void)pthread_mutex_unlock(&lock);
    if (!full)
        return;
    release(&other, draw >> 8);
    (void)pthread_mutex_lock(&lock);
    let_go();
    (void)pthread_mutex_unlock(&lock);
}

void bay_count(const void *tag, size_t *bytes, size_t *capacity)
{
    (void)pthread_mutex_lock(&lock);
    while (in_hand > 0 || place_count > PLACES / 2)
        (void)pthread_cond_wait(&emptied, &lock);
    for (unsigned i = 0; i < place_count; i++) {
        if (places[i].tag != tag)
            continue;
        *bytes += hearth_lease_size(places[i].lease);
        *capacity += hearth_buf_capacity(hearth_lease_buf(places[i].lease));
    }
    (void)pthread_mutex_unlock(&lock);
}

void bay_clear(void)
{
    struct bay_lease lease;
    uint64_t draw;
    (void)pthread_mutex_lock(&lock);
    while (take_lease(&lease, &draw)) {
        (void)pthread_mutex_unlock(&lock);
        release(&lease, draw >> 8);
        (void)pthread_mutex_lock(&lock);
        let_go();
    }
    while (in_hand > 0)
        (void)pthread_cond_wait(&emptied, &lock);
    (void)pthread_mutex_unlock(&lock);
}

uint64_t bay_close(void)
{
    bay_clear();
    (void)pthread_mutex_lock(&lock);
    closing = true;
    (void)pthread_mutex_unlock(&lock);
    while (thread_count > 0)
        (void)pthread_join(threads[--thread_count], NULL);
    return put_count;
}
