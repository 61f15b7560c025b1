/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefill: every thread of an executor gets the buffers that any order of execution may need of it.
 *
 * Which thread runs which node differs from run to run, so what a thread's arena holds after some runs says
 * little about the next. An executor cannot be told to call on each of its threads; but a call that waits until
 * all calls have come keeps its thread, so the next one comes on another.
 *
 * The state is counted: calls that come after the deadline find nothing to do, and the last one frees it.
 */
#include "runtime/session.h"

#include <stdlib.h>
#include <time.h>

struct prefill {
    struct hearth_service *service; /* referenced */
    struct hearth__needs needs;
    uint64_t deadline_ns;
    pthread_t caller;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint32_t holders; /* the caller, and calls that may still come; guarded by lock, as the rest */
    uint32_t expected;
    uint32_t arrived;
    enum hearth_status status; /* the first failure */
    bool over;
};

/* One byte in each page: storage that nobody wrote to has none. */
static void touch(struct hearth_buf *buf)
{
    volatile unsigned char *data = hearth_buf_data(buf);
    size_t capacity = hearth_buf_capacity(buf); /* not 0 */
    for (size_t at = 0; at < capacity; at += 4096)
        data[at] = 0;
    data[capacity - 1] = 0; /* it begins anywhere in a page */
}

/* Have them all out at the same time: then the arena has them all. */
static enum hearth_status fill(struct hearth_allocator *allocator,
                               const struct hearth__needs *needs)
{
    size_t total = 0;
    for (size_t i = 0; i < needs->count; i++)
        total += needs->list[i].count;
    struct hearth_buf **bufs = calloc(total + 1, sizeof(struct hearth_buf *));
    if (bufs == NULL)
        return HEARTH_NO_MEMORY;
    enum hearth_status status = HEARTH_OK;
    size_t count = 0;
    for (size_t i = 0; i < needs->count; i++) {
        for (size_t j = 0; j < needs->list[i].count && status == HEARTH_OK; j++) {
            status = hearth_alloc(allocator, needs->list[i].bytes, &bufs[count]);
            if (status == HEARTH_OK)
                touch(bufs[count++]);
        }
    }
    while (count-- > 0)
        (void)hearth_free(allocator, bufs[count]);
    free(bufs);
    return status;
}

static enum hearth_status fill_thread(struct prefill *prefill)
{
    struct hearth_exec *arena;
    enum hearth_status status = hearth_service_exec(prefill->service, &arena);
    return status == HEARTH_OK ? fill(hearth_exec_allocator(arena), &prefill->needs) : status;
}

/* The arena of outputs is shared: one thread fills it for all. */
static enum hearth_status fill_outputs(struct hearth_session *session, uint32_t threads)
{
    struct hearth__needs needs;
    enum hearth_status status =
        hearth__demand_outputs(&session->demand, session->plan, threads, &needs);
    if (status != HEARTH_OK)
        return status;
    status = fill(hearth_io_allocator(hearth_service_io(session->service)), &needs);
    free(needs.list);
    return status;
}

static void let_go(struct prefill *prefill)
{
    bool last = --prefill->holders == 0;
    (void)pthread_mutex_unlock(&prefill->lock);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&prefill->lock);
    (void)pthread_cond_destroy(&prefill->moved);
    hearth_service_unref(prefill->service);
    free(prefill->needs.list);
    free(prefill);
}

/* With the lock held: until all have come, or the deadline. */
static void wait_for_all(struct prefill *prefill)
{
    struct timespec until = {
        .tv_sec = (time_t)(prefill->deadline_ns / 1000000000u),
        .tv_nsec = (long)(prefill->deadline_ns % 1000000000u),
    };
    int failed = 0;
    while (prefill->arrived < prefill->expected && !prefill->over && failed == 0)
        failed = pthread_cond_timedwait(&prefill->moved, &prefill->lock, &until);
    if (failed != 0)
        prefill->over = true; /* who comes now may be on a thread that has left */
}

/* With the lock held: one that will not come. */
static void expect_less(struct prefill *prefill)
{
    prefill->expected--;
    (void)pthread_cond_broadcast(&prefill->moved);
}

/* What the executor calls. On the caller's own thread there is nothing to fill and nobody to wait for. */
static void come(void *arg)
{
    struct prefill *prefill = arg;
    (void)pthread_mutex_lock(&prefill->lock);
    if (pthread_equal(prefill->caller, pthread_self()) != 0) {
        expect_less(prefill);
    } else if (!prefill->over) {
        (void)pthread_mutex_unlock(&prefill->lock);
        enum hearth_status status = fill_thread(prefill);
        (void)pthread_mutex_lock(&prefill->lock);
        if (prefill->status == HEARTH_OK)
            prefill->status = status;
        prefill->arrived++;
        (void)pthread_cond_broadcast(&prefill->moved);
        wait_for_all(prefill);
    }
    let_go(prefill);
}

static enum hearth_status make(struct hearth_session *session, uint64_t deadline_ns,
                               struct prefill **made)
{
    struct prefill *prefill = calloc(1, sizeof(*prefill));
    if (prefill == NULL)
        return HEARTH_NO_MEMORY;
    enum hearth_status status =
        hearth__demand_needs(&session->demand, session->plan, &prefill->needs);
    if (status != HEARTH_OK) {
        free(prefill);
        return status;
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&prefill->lock, NULL);
    (void)pthread_cond_init(&prefill->moved, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    prefill->service = session->service;
    hearth_service_ref(prefill->service);
    prefill->deadline_ns = deadline_ns;
    prefill->caller = pthread_self();
    prefill->holders = 1;
    *made = prefill;
    return HEARTH_OK;
}

/* With the lock held. Those that the executor refuses are not waited for. */
static void call_all(struct prefill *prefill, const struct hearth_executor *executor,
                     uint32_t count)
{
    /* All are expected before the first one comes: else it would not wait for the second. */
    prefill->holders += count;
    prefill->expected += count;
    for (uint32_t i = 0; i < count; i++) {
        (void)pthread_mutex_unlock(&prefill->lock);
        enum hearth_status status = executor->submit(executor->pool, come, prefill);
        (void)pthread_mutex_lock(&prefill->lock);
        if (status != HEARTH_OK) {
            prefill->holders--;
            expect_less(prefill);
        }
    }
}

static enum hearth_status prefill_on(struct hearth_session *session,
                                     const struct hearth_executor *executor, uint64_t deadline_ns,
                                     size_t *threads)
{
    uint32_t calls = executor == NULL ? 0 : hearth__executor_threads(executor) - 1;
    struct prefill *prefill;
    enum hearth_status status = fill_outputs(session, calls);
    if (status == HEARTH_OK)
        status = make(session, deadline_ns, &prefill);
    if (status != HEARTH_OK)
        return status;
    (void)pthread_mutex_lock(&prefill->lock);
    call_all(prefill, executor, calls);
    (void)pthread_mutex_unlock(&prefill->lock);
    status = fill_thread(prefill);
    (void)pthread_mutex_lock(&prefill->lock);
    wait_for_all(prefill);
    if (status == HEARTH_OK)
        status = prefill->status;
    if (status == HEARTH_OK && prefill->arrived < prefill->expected)
        status = HEARTH_TIMEOUT;
    if (threads != NULL)
        *threads = prefill->arrived + 1;
    prefill->over = true;
    (void)pthread_cond_broadcast(&prefill->moved);
    let_go(prefill);
    return status;
}

enum hearth_status hearth_session_prefill(struct hearth_session *session,
                                          const struct hearth_executor *executor,
                                          uint64_t deadline_ns, size_t *threads)
{
    if (threads != NULL)
        *threads = 0;
    if (session == NULL || session->service == NULL ||
        (executor != NULL && (executor->size != sizeof(*executor) || executor->submit == NULL ||
                              executor->reserved != 0)))
        return HEARTH_INVALID;
    hearth__session_enter(session);
    enum hearth_status status = prefill_on(session, executor, deadline_ns, threads);
    hearth__session_leave(session);
    return status;
}
