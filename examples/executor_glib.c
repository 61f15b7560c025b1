/* SPDX-License-Identifier: Apache-2.0 */
/* An executor on GLib's GThreadPool, which calls one function with one pointer per task: so the pointer is to
 * the function and argument that hearth asked for. */
#include "graph.h"

#include <glib.h>

enum { THREADS = 4 };

struct call {
    void (*fn)(void *arg);
    void *arg;
};

static void run_call(gpointer data, gpointer user)
{
    struct call call = *(struct call *)data;
    (void)user;
    g_free(data);
    call.fn(call.arg);
}

static enum hearth_status submit(void *pool, void (*fn)(void *arg), void *arg)
{
    struct call *call = g_try_new(struct call, 1);
    if (call == NULL)
        return HEARTH_NO_MEMORY;
    *call = (struct call){fn, arg};
    /* It fails only when a thread could not be started; the call is in the queue nevertheless. */
    (void)g_thread_pool_push(pool, call, NULL);
    return HEARTH_OK;
}

int main(void)
{
    GThreadPool *pool = g_thread_pool_new(run_call, NULL, THREADS, FALSE, NULL);
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    executor.submit = submit;
    executor.pool = pool;
    executor.threads = THREADS;
    bool right = graph_run("executor_glib", &executor);
    g_thread_pool_free(pool, FALSE, TRUE); /* after all calls that came too late */
    return right ? 0 : 1;
}
