/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An executor on libuv's thread pool. Work may only be queued on the loop's own thread, while hearth submits
 * from any: so submit() puts the call on a list and wakes the loop, which queues what it finds there. The
 * loop runs on the main thread, the graph on another one, as in a program that serves requests.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { THREADS = 4 }; /* the default of UV_THREADPOOL_SIZE */

struct call {
    uv_work_t work; /* first: libuv gives back its address */
    void (*fn)(void *arg);
    void *arg;
    struct call *next;
};

struct uv_executor {
    uv_loop_t loop;
    uv_async_t wake;
    uv_mutex_t lock;
    /* Guarded by the lock. */
    struct call *first;
    struct call **last; /* where the next one is linked */
    bool closed;        /* the loop takes no more */
    bool right;         /* what the graph said; read after the thread was joined */
};

static enum hearth_status submit(void *pool, void (*fn)(void *arg), void *arg)
{
    struct uv_executor *self = pool;
    struct call *call = malloc(sizeof *call);
    if (call == NULL)
        return HEARTH_NO_MEMORY;
    call->fn = fn;
    call->arg = arg;
    call->next = NULL;
    uv_mutex_lock(&self->lock);
    bool closed = self->closed;
    if (!closed) {
        *self->last = call;
        self->last = &call->next;
        (void)uv_async_send(&self->wake); /* under the lock: the loop may not close it in between */
    }
    uv_mutex_unlock(&self->lock);
    if (closed)
        free(call);
    return closed ? HEARTH_CLOSED : HEARTH_OK;
}

/* On a thread of the pool. */
static void work(uv_work_t *work)
{
    struct call *call = (struct call *)(void *)work;
    call->fn(call->arg);
}

/* On the loop's thread. */
static void after_work(uv_work_t *work, int status)
{
    (void)status;
    free(work);
}

/* On the loop's thread: one wake may stand for many. */
static void queue_calls(uv_async_t *wake)
{
    struct uv_executor *self = wake->data;
    uv_mutex_lock(&self->lock);
    struct call *call = self->first;
    self->first = NULL;
    self->last = &self->first;
    bool closed = self->closed;
    uv_mutex_unlock(&self->lock);
    while (call != NULL) {
        struct call *next = call->next;
        /* It answers other than 0 for no function only. */
        (void)uv_queue_work(&self->loop, &call->work, work, after_work);
        call = next;
    }
    if (closed) /* the loop ends when what was queued is done */
        uv_close((uv_handle_t *)wake, NULL);
}

static void run_graph(void *argument)
{
    struct uv_executor *self = argument;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    executor.submit = submit;
    executor.pool = self;
    executor.threads = THREADS;
    self->right = graph_run("executor_libuv", &executor);
    uv_mutex_lock(&self->lock);
    self->closed = true;
    (void)uv_async_send(&self->wake);
    uv_mutex_unlock(&self->lock);
}

int main(void)
{
    static struct uv_executor self;
    uv_thread_t thread;
    self.last = &self.first;
    if (uv_loop_init(&self.loop) != 0 || uv_mutex_init(&self.lock) != 0 ||
        uv_async_init(&self.loop, &self.wake, queue_calls) != 0)
        return 1;
    self.wake.data = &self;
    if (uv_thread_create(&thread, run_graph, &self) != 0)
        return 1;
    (void)uv_run(&self.loop, UV_RUN_DEFAULT);
    (void)uv_thread_join(&thread);
    bool clean = uv_loop_close(&self.loop) == 0;
    uv_mutex_destroy(&self.lock);
    uv_library_shutdown(); /* joins the pool's threads */
    return clean && self.right ? 0 : 1;
}
