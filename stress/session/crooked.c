/* SPDX-License-Identifier: Apache-2.0 */
#include "crooked.h"

#include "../harness.h"

#include <hearth/status.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define JOBS_MOST 1024u
#define THREADS_MOST 64u
#define DELAY_MOST_NS 2000000u
#define NEVER UINT64_MAX /* until crooked_call_late() */

struct job {
    void (*fn)(void *arg);
    void *arg;
    uint64_t due_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job jobs[JOBS_MOST];
static unsigned job_count, running;
static uint64_t random_state;
static bool closing;
static pthread_t threads[THREADS_MOST];
static unsigned thread_count;

/* Any job that is due. */
static bool take_job(struct job *job)
{
    uint64_t now = stress_now_ns();
    unsigned start = job_count == 0 ? 0 : (unsigned)(stress_next(&random_state) % job_count);
    for (unsigned i = 0; i < job_count; i++) {
        struct job *found = &jobs[(start + i) % job_count];
        if (found->due_ns <= now) {
            *job = *found;
            *found = jobs[--job_count];
            return true;
        }
    }
    return false;
}

/* Delayed jobs become due without anybody's signal. */
static void wait_a_moment(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&changed, &lock, &until);
}

static void *work(void *argument)
{
    (void)argument;
    (void)pthread_mutex_lock(&lock);
    while (!closing || job_count > 0) {
        struct job job;
        if (!take_job(&job)) {
            wait_a_moment();
            continue;
        }
        running++;
        (void)pthread_mutex_unlock(&lock);
        job.fn(job.arg);
        (void)pthread_mutex_lock(&lock);
        running--;
        (void)pthread_cond_broadcast(&changed);
    }
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

void crooked_open(unsigned count, uint64_t seed)
{
    random_state = seed | 1;
    for (; thread_count < count && thread_count < THREADS_MOST; thread_count++)
        if (pthread_create(&threads[thread_count], NULL, work, NULL) != 0)
            abort();
}

/* Whether there is room. `lock` is held. */
static bool keep(void (*fn)(void *arg), void *arg, uint64_t due_ns)
{
    if (job_count == JOBS_MOST)
        return false;
    jobs[job_count++] = (struct job){fn, arg, due_ns};
    (void)pthread_cond_signal(&changed);
    return true;
}

static enum crooked_mode some_mode(uint64_t draw)
{
    static const enum crooked_mode modes[] = {CROOKED_SWIFT,  CROOKED_SWIFT, CROOKED_SWIFT,
                                              CROOKED_SWIFT,  CROOKED_MIXED, CROOKED_MIXED,
                                              CROOKED_INSIDE, CROOKED_LATE,  CROOKED_REFUSE};
    return modes[draw % (sizeof modes / sizeof *modes)];
}

static enum hearth_status submit(void *pool, void (*fn)(void *arg), void *arg)
{
    enum crooked_mode mode = *(const enum crooked_mode *)pool;
    uint64_t due_ns = mode == CROOKED_LATE ? NEVER : 0;
    (void)pthread_mutex_lock(&lock);
    uint64_t draw = stress_next(&random_state);
    if (mode == CROOKED_MIXED)
        mode = some_mode(draw);
    if (mode == CROOKED_MIXED) /* drawn once more: a delay */
        due_ns = stress_now_ns() + (draw >> 8) % DELAY_MOST_NS;
    else if (mode == CROOKED_LATE)
        due_ns = NEVER;
    bool inside = mode == CROOKED_INSIDE;
    bool kept = !inside && mode != CROOKED_REFUSE && keep(fn, arg, due_ns);
    (void)pthread_mutex_unlock(&lock);
    if (inside)
        fn(arg);
    return inside || kept ? HEARTH_OK : HEARTH_NO_SLOT;
}

struct hearth_executor crooked_executor(enum crooked_mode mode, uint32_t count)
{
    static enum crooked_mode modes[CROOKED_MODES] = {CROOKED_MIXED, CROOKED_SWIFT, CROOKED_INSIDE,
                                                     CROOKED_LATE, CROOKED_REFUSE};
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    executor.submit = submit;
    executor.pool = &modes[mode];
    executor.threads = count;
    return executor;
}

void crooked_call(void (*fn)(void *arg), void *arg)
{
    (void)pthread_mutex_lock(&lock);
    bool kept = keep(fn, arg, 0);
    (void)pthread_mutex_unlock(&lock);
    if (!kept)
        fn(arg);
}

void crooked_settle(void)
{
    (void)pthread_mutex_lock(&lock);
    while (running > 0)
        wait_a_moment();
    (void)pthread_mutex_unlock(&lock);
}

void crooked_call_late(void)
{
    (void)pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < job_count; i++)
        jobs[i].due_ns = 0;
    (void)pthread_cond_broadcast(&changed);
    while (job_count > 0 || running > 0)
        wait_a_moment();
    (void)pthread_mutex_unlock(&lock);
}

void crooked_close(void)
{
    crooked_call_late();
    (void)pthread_mutex_lock(&lock);
    closing = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    while (thread_count > 0)
        (void)pthread_join(threads[--thread_count], NULL);
}
