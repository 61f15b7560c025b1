/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded ring between one producer and one consumer, for handing buffers over. Each side owns
 * one index, on a cache line of its own, and keeps the last value it saw of the other's there too.
 */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <sched.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define BENCH_RING_ENTRIES ((size_t)256)

struct bench_ring {
    alignas(128) atomic_size_t pushed; /* Writer: producer. */
    size_t taken_seen;                 /* producer only */
    alignas(128) atomic_size_t taken;  /* Writer: consumer. */
    size_t pushed_seen;                /* consumer only */
    alignas(128) atomic_bool closed;   /* Writer: producer, once. */
    alignas(128) void *entries[BENCH_RING_ENTRIES];
};

/* Two cores at most, shared with others: spin shortly, then let somebody else run. */
static inline void bench_ring_wait(unsigned *spins)
{
    if (++*spins % 256 == 0) {
        sched_yield();
    }
}

static inline void bench_ring_push(struct bench_ring *ring, void *entry)
{
    size_t pushed = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    unsigned spins = 0;
    while (pushed - ring->taken_seen == BENCH_RING_ENTRIES) {
        ring->taken_seen = atomic_load_explicit(&ring->taken, memory_order_acquire);
        if (pushed - ring->taken_seen == BENCH_RING_ENTRIES) {
            bench_ring_wait(&spins);
        }
    }
    ring->entries[pushed % BENCH_RING_ENTRIES] = entry;
    atomic_store_explicit(&ring->pushed, pushed + 1, memory_order_release);
}

/** The oldest entry, or NULL once the ring is closed and empty. bench_ring_done() must follow. */
static inline void *bench_ring_peek(struct bench_ring *ring)
{
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    unsigned spins = 0;
    while (taken == ring->pushed_seen) {
        /* closed is read first: what was pushed before closing is then seen below. */
        bool closed = atomic_load_explicit(&ring->closed, memory_order_acquire);
        ring->pushed_seen = atomic_load_explicit(&ring->pushed, memory_order_acquire);
        if (taken == ring->pushed_seen) {
            if (closed) {
                return NULL;
            }
            bench_ring_wait(&spins);
        }
    }
    return ring->entries[taken % BENCH_RING_ENTRIES];
}

/** The entry that was peeked at has been dealt with. */
static inline void bench_ring_done(struct bench_ring *ring)
{
    size_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
    atomic_store_explicit(&ring->taken, taken + 1, memory_order_release);
}

/** Producer: wait until the consumer has dealt with everything pushed so far. */
static inline void bench_ring_flush(struct bench_ring *ring)
{
    size_t pushed = atomic_load_explicit(&ring->pushed, memory_order_relaxed);
    unsigned spins = 0;
    while (atomic_load_explicit(&ring->taken, memory_order_acquire) != pushed) {
        bench_ring_wait(&spins);
    }
}

static inline void bench_ring_close(struct bench_ring *ring)
{
    atomic_store_explicit(&ring->closed, true, memory_order_release);
}

#endif
