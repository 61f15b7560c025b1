/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backing without a lock: blocks of a few sizes in static arrays, the unused ones of each size on a
 * stack of {tag, index}. A thread frozen in here holds one block and stops nobody, which cannot be said
 * of malloc, jemalloc or the kernel.
 *
 * The broken variant HEARTH_BROKEN_FREEZE_LOCK has what this test is there to find: a mutex, though
 * only in here, where few freezes hit.
 */
#include "../harness.h"
#include "freeze_parts.h"

#include <hearth/backing.h>

#include <stdalign.h>

#ifdef HEARTH_BROKEN_FREEZE_LOCK
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
#define LOCK() pthread_mutex_lock(&lock)
#define UNLOCK() pthread_mutex_unlock(&lock)
#else
#define LOCK() ((void)0)
#define UNLOCK() ((void)0)
#endif

#define NONE UINT32_MAX
#define BLOCKS_MAX 8192u

struct tier {
    size_t bytes;
    uint32_t count;
    char *storage;
    _Atomic(uint64_t) head; /* {tag : 32, index : 32}; the tag goes up with each pop */
    _Atomic(uint32_t) next[BLOCKS_MAX];
};

#define SMALL ((size_t)1 << 10)
#define MIDDLE ((size_t)16 << 10)
#define LARGE ((size_t)256 << 10)

static alignas(4096) char small_storage[SMALL * 8192];
static alignas(4096) char middle_storage[MIDDLE * 2048];
static alignas(4096) char large_storage[LARGE * 512];

static struct tier tiers[] = {
    {.bytes = SMALL, .count = 8192, .storage = small_storage},
    {.bytes = MIDDLE, .count = 2048, .storage = middle_storage},
    {.bytes = LARGE, .count = 512, .storage = large_storage},
};

#define TIERS (sizeof tiers / sizeof tiers[0])

static _Atomic(uint64_t) lent;
static _Thread_local volatile bool inside;

static void push(struct tier *tier, uint32_t index)
{
    uint64_t head = atomic_load_explicit(&tier->head, memory_order_relaxed);
    do {
        atomic_store_explicit(&tier->next[index], (uint32_t)head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&tier->head, &head, (head >> 32 << 32) | index,
                                                    memory_order_release, memory_order_relaxed));
}

static uint32_t pop(struct tier *tier)
{
    uint64_t head = atomic_load_explicit(&tier->head, memory_order_acquire);
    uint64_t rest;
    do {
        if ((uint32_t)head == NONE)
            return NONE;
        /* Stale if somebody else popped it meanwhile; the tag then fails the exchange. */
        rest = ((head >> 32) + 1) << 32 |
               atomic_load_explicit(&tier->next[(uint32_t)head], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&tier->head, &head, rest, memory_order_acq_rel,
                                                    memory_order_acquire));
    return (uint32_t)head;
}

static enum hearth_status acquire(void *context, size_t bytes, size_t alignment,
                                  struct hearth_segment *segment)
{
    enum hearth_status status = HEARTH_NO_MEMORY;
    (void)context;
    inside = true;
    LOCK();
    for (size_t i = 0; i < TIERS && status != HEARTH_OK; i++) {
        if (bytes > tiers[i].bytes || alignment > SMALL)
            continue;
        uint32_t index = pop(&tiers[i]);
        if (index == NONE)
            continue;
        *segment = (struct hearth_segment){.base = tiers[i].storage + tiers[i].bytes * index,
                                           .length = (bytes + 63) & ~(size_t)63,
                                           .cookie = (uint64_t)i << 32 | index};
        atomic_fetch_add_explicit(&lent, 1, memory_order_relaxed);
        status = HEARTH_OK;
    }
    UNLOCK();
    inside = false;
    return status;
}

static void release(void *context, const struct hearth_segment *segment)
{
    (void)context;
    inside = true;
    LOCK();
    atomic_fetch_sub_explicit(&lent, 1, memory_order_relaxed);
    push(&tiers[segment->cookie >> 32], (uint32_t)segment->cookie);
    UNLOCK();
    inside = false;
}

struct hearth_backing *freeze_backing_create(void)
{
    static const struct hearth_backing_ops ops = {
        .size = sizeof ops, .name = "arrays", .acquire = acquire, .release = release};
    struct hearth_backing *backing;
    for (size_t i = 0; i < TIERS; i++) {
        atomic_store_explicit(&tiers[i].head, NONE, memory_order_relaxed);
        for (uint32_t index = tiers[i].count; index > 0; index--)
            push(&tiers[i], index - 1);
    }
    stress_must(hearth_backing_create(&ops, NULL, &backing), "backing");
    return backing;
}

uint64_t freeze_backing_lent(void)
{
    return atomic_load_explicit(&lent, memory_order_relaxed);
}

bool freeze_backing_inside(void)
{
    return inside;
}
