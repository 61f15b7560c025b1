/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK's packet buffers (mbufs) as a subject, without huge pages, devices or rights.
 *
 * A pool is fast where the thread has a cache in it, and only threads that DPDK knows have one:
 * the one that starts the environment, and those that register. thread_begin checks it.
 */
#include "measure.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <sched.h>
#include <stdio.h>

#define CACHE 256u
/* A thread's cache holds up to one and a half times its size; handed-over buffers come on top. */
#define BUFFERS_PER_THREAD 512u
/* The pool's and the mbuf's own headers, generously. */
#define OVERHEAD ((size_t)512)
#define MIB ((size_t)1 << 20)

struct item {
    struct rte_mbuf *mbuf;
};

static inline struct item take(void *pool, size_t bytes)
{
    (void)bytes;
    struct item item = {rte_pktmbuf_alloc(pool)};
    if (__builtin_expect(item.mbuf == NULL, 0)) {
        bench_die("rte_pktmbuf_alloc", "the pool is empty");
    }
    return item;
}

static inline struct item again(struct item item)
{
    rte_mbuf_refcnt_update(item.mbuf, 1);
    return item;
}

static inline void give(void *pool, struct item item)
{
    (void)pool;
    rte_pktmbuf_free(item.mbuf);
}

#include "io_loops.h"

static void start_environment(size_t mebibytes)
{
    static char lcores[32];
    static char memory[32];
    static char program[] = "bench";
    static char *arguments[] = {program,          "--lcores",       lcores,          "-m",
                                memory,           "--no-huge",      "--no-shconf",   "--no-pci",
                                "--iova-mode=va", "--no-telemetry", "--log-level=1", NULL};
    /* The environment pins the thread that starts it: to where it runs already. */
    snprintf(lcores, sizeof(lcores), "0@%d", sched_getcpu());
    snprintf(memory, sizeof(memory), "%zu", mebibytes);
    if (rte_eal_init(sizeof(arguments) / sizeof(arguments[0]) - 1, arguments) < 0) {
        bench_die("rte_eal_init", rte_strerror(rte_errno));
    }
}

static void check_cache(struct rte_mempool *pool)
{
    const struct rte_mempool_cache *cache = rte_mempool_default_cache(pool, rte_lcore_id());
    if (cache == NULL || cache->size != CACHE) {
        bench_die("rte_mempool_default_cache", "the thread has no cache");
    }
}

static void *open_pool(size_t bytes, unsigned threads)
{
    unsigned buffers = (threads + 2) * BUFFERS_PER_THREAD;
    size_t room = bytes + RTE_PKTMBUF_HEADROOM;
    room = room < UINT16_MAX ? room : UINT16_MAX;
    start_environment(buffers * (room + OVERHEAD) / MIB + 64);
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("bench", buffers, CACHE, 0, (uint16_t)room, SOCKET_ID_ANY);
    if (pool == NULL) {
        bench_die("rte_pktmbuf_pool_create", rte_strerror(rte_errno));
    }
    check_cache(pool);
    return pool;
}

/* The environment goes with the process. */
static void close_pool(void *pool)
{
    rte_mempool_free(pool);
}

static void register_thread(void *pool)
{
    if (rte_thread_register() != 0) {
        bench_die("rte_thread_register", rte_strerror(rte_errno));
    }
    check_cache(pool);
}

const struct bench_io_subject bench_io_subject = {
    .bytes_max = UINT16_MAX, /* the headroom is used when there is no room for both */
    .open = open_pool,
    .close = close_pool,
    .thread_begin = register_thread,
    .thread_end = rte_thread_unregister,
    .loops = {loop_acquire_release, loop_acquire_release, loop_retain_release},
    .produce = loop_produce,
    .consume = loop_consume,
};
