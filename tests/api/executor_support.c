/* SPDX-License-Identifier: Apache-2.0 */
#include "executor_support.h"

static struct hearth_executor executor_of(enum hearth_status (*submit)(void *, void (*)(void *),
                                                                       void *),
                                          void *pool, uint32_t threads)
{
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    executor.submit = submit;
    executor.pool = pool;
    executor.threads = threads;
    return executor;
}

static enum hearth_status keep(void *pool, void (*fn)(void *), void *arg)
{
    struct keeper *keeper = pool;
    cr_assert_lt(keeper->count, CALLS_KEPT);
    keeper->calls[keeper->count++] = (struct call){fn, arg};
    return HEARTH_OK;
}

struct hearth_executor keeper_executor(struct keeper *keeper, uint32_t threads)
{
    return executor_of(keep, keeper, threads);
}

void keeper_call(struct keeper *keeper)
{
    for (unsigned i = 0; i < keeper->count; i++)
        keeper->calls[i].fn(keeper->calls[i].arg);
    keeper->count = 0;
}

static enum hearth_status apart(void *pool, void (*fn)(void *), void *arg)
{
    (void)pool;
    on_thread(fn, arg);
    return HEARTH_OK;
}

struct hearth_executor apart_executor(uint32_t threads)
{
    return executor_of(apart, NULL, threads);
}

unsigned inline_deepest;

static enum hearth_status at_once(void *pool, void (*fn)(void *), void *arg)
{
    static _Thread_local unsigned depth;
    (void)pool;
    if (++depth > inline_deepest)
        inline_deepest = depth;
    fn(arg);
    depth--;
    return HEARTH_OK;
}

struct hearth_executor inline_executor(uint32_t threads)
{
    return executor_of(at_once, NULL, threads);
}

static enum hearth_status refuse(void *pool, void (*fn)(void *), void *arg)
{
    (void)pool;
    (void)fn;
    (void)arg;
    return HEARTH_BUSY;
}

struct hearth_executor refusing_executor(uint32_t threads)
{
    return executor_of(refuse, NULL, threads);
}

struct hearth_run_stats run_on(struct run *run, const struct hearth_executor *executor)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    enum hearth_status status = hearth_session_run_on(run->session, run->context, executor, &stats);
    cr_assert_eq(status, HEARTH_OK, "%s: %s", hearth_status_name(status),
                 hearth_session_error(run->context));
    return stats;
}
