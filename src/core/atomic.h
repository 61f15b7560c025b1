/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only door to C11 atomics: each wrapper names its order, so that a search for a name is an audit.
 * There is no sequentially consistent access and no stand-alone fence on purpose; the order belongs
 * to the access that needs it, where ThreadSanitizer models it.
 */
#ifndef HEARTH_CORE_ATOMIC_H
#define HEARTH_CORE_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(__SANITIZE_THREAD__)
#define HEARTH__THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEARTH__THREAD_SANITIZER 1
#endif
#endif

#define hearth__load_relaxed(object) atomic_load_explicit((object), memory_order_relaxed)
#define hearth__load_acquire(object) atomic_load_explicit((object), memory_order_acquire)

#define hearth__store_relaxed(object, value)                                                       \
    atomic_store_explicit((object), (value), memory_order_relaxed)
#define hearth__store_release(object, value)                                                       \
    atomic_store_explicit((object), (value), memory_order_release)

#define hearth__exchange_relaxed(object, value)                                                    \
    atomic_exchange_explicit((object), (value), memory_order_relaxed)
#define hearth__exchange_acq_rel(object, value)                                                    \
    atomic_exchange_explicit((object), (value), memory_order_acq_rel)

#define hearth__cas_weak_release(object, expected, desired)                                        \
    atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_release,   \
                                          memory_order_relaxed)
#define hearth__cas_weak_acquire(object, expected, desired)                                        \
    atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_acquire,   \
                                          memory_order_acquire)
#define hearth__cas_weak_relaxed(object, expected, desired)                                        \
    atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_relaxed,   \
                                          memory_order_relaxed)
#define hearth__cas_weak_acq_rel(object, expected, desired)                                        \
    atomic_compare_exchange_weak_explicit((object), (expected), (desired), memory_order_acq_rel,   \
                                          memory_order_acquire)
#define hearth__cas_acquire(object, expected, desired)                                             \
    atomic_compare_exchange_strong_explicit((object), (expected), (desired), memory_order_acquire, \
                                            memory_order_relaxed)
#define hearth__cas_acq_rel(object, expected, desired)                                             \
    atomic_compare_exchange_strong_explicit((object), (expected), (desired), memory_order_acq_rel, \
                                            memory_order_acquire)

#define hearth__fetch_add_relaxed(object, value)                                                   \
    atomic_fetch_add_explicit((object), (value), memory_order_relaxed)
#define hearth__fetch_add_release(object, value)                                                   \
    atomic_fetch_add_explicit((object), (value), memory_order_release)
#define hearth__fetch_add_acq_rel(object, value)                                                   \
    atomic_fetch_add_explicit((object), (value), memory_order_acq_rel)
#define hearth__fetch_or_acq_rel(object, value)                                                    \
    atomic_fetch_or_explicit((object), (value), memory_order_acq_rel)
#define hearth__fetch_or_release(object, value)                                                    \
    atomic_fetch_or_explicit((object), (value), memory_order_release)
#define hearth__fetch_and_acquire(object, value)                                                   \
    atomic_fetch_and_explicit((object), (value), memory_order_acquire)
#define hearth__fetch_and_acq_rel(object, value)                                                   \
    atomic_fetch_and_explicit((object), (value), memory_order_acq_rel)
#define hearth__fetch_sub_acq_rel(object, value)                                                   \
    atomic_fetch_sub_explicit((object), (value), memory_order_acq_rel)

/* A statistics cell: one writer, any readers, never goes back. */
typedef _Atomic(uint64_t) hearth__cell;

/* Release, so that a reader who sees an "in" cell move also sees the "out" that came before it. No
 * read-modify-write: there is one writer. */
static inline void hearth__cell_add(hearth__cell *cell, uint64_t amount)
{
#if defined(__x86_64__) && !defined(HEARTH__THREAD_SANITIZER)
    /* One instruction for load, add and store, which compilers do not make of two atomic accesses (an
     * add to memory without the lock prefix). Aligned, so readers see the old or the new value; stores
     * of this processor are seen in order, which is what release asks for. */
    __asm__ volatile("addq %1, %0" : "+m"(*cell) : "re"(amount) : "cc");
#else
    hearth__store_release(cell, hearth__load_relaxed(cell) + amount);
#endif
}

/* A function that runs for every buffer starts on a cache line: its cost should not depend on where the
 * linker happens to put it. */
#define HEARTH__HOT __attribute__((aligned(64)))

#define hearth__likely(condition) __builtin_expect(!!(condition), 1)
#define hearth__unlikely(condition) __builtin_expect(!!(condition), 0)

#endif
