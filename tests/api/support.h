/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of this folder share: a backing whose segments are exactly as long as asked, so
 * that capacities can be predicted; short verbs; a recorder of misuses; a thread that is waited for. */
#ifndef HEARTH_TESTS_API_SUPPORT_H
#define HEARTH_TESTS_API_SUPPORT_H

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/handle.h>
#include <hearth/stats.h>
#include <hearth/status.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Evaluates `call` once and names both answers when they differ. */
#define EXPECT(expected, call)                                                                     \
    do {                                                                                           \
        enum hearth_status got_ = (call);                                                          \
        cr_assert_eq(got_, (expected), "%s answers %s instead of %s", #call,                       \
                     hearth_status_name(got_), hearth_status_name(expected));                      \
    } while (0)

#define EXPECT_SIZE(expected, value)                                                               \
    do {                                                                                           \
        size_t got_ = (value), want_ = (expected);                                                 \
        cr_assert_eq(got_, want_, "%s is %zu instead of %zu", #value, got_, want_);                \
    } while (0)

#define KIB ((size_t)1024)
#define MIB ((size_t)1024 * 1024)

enum { MEMORY_LOG = 256 };

/* A backing on aligned_alloc(): segment length = bytes asked, granule 64. */
struct memory {
    struct hearth_backing *backing;
    pthread_mutex_t lock;
    uint64_t acquires;
    uint64_t releases;
    size_t bytes;                /* lent now */
    size_t limit;                /* larger requests fail; 0: 1 GiB */
    size_t released[MEMORY_LOG]; /* lengths given back, in order, modulo MEMORY_LOG */
    bool destroyed;
    bool zeroed; /* hand out zeroed storage and say so; otherwise storage is filled with 0xA5 */
};

void memory_init(struct memory *memory);

/* Forget the log, keep what is lent. */
void memory_clear_log(struct memory *memory);

/* Gives up the test's reference; fails the test unless everything was given back. */
void memory_fini(struct memory *memory);

/* An arena on `memory`; 0 means default everywhere. */
struct hearth_exec *arena_create(struct memory *memory, size_t slots, size_t cap, uint32_t ratio);

struct hearth_buf *take(struct hearth_exec *arena, size_t size);
struct hearth_buf *take_aligned(struct hearth_exec *arena, size_t size, size_t alignment);
void give(struct hearth_exec *arena, struct hearth_buf *buf);

/* Capacity of a fresh buffer on a `memory`: 64, 128, 192, 256, then 4 per doubling. */
size_t class_of(size_t size);

/* The accounting identity, between the getters and against the backing. `memory` may be NULL. */
void check_identity(const struct hearth_exec *arena, const struct memory *memory);

struct hearth_exec_stats stats_of(const struct hearth_exec *arena);

/* Every figure equal, but for `misuses`. */
void check_unchanged(const struct hearth_exec_stats *before, const struct hearth_exec *arena);

/* The last misuse told to the callback, and how many there were since misuse_record(). */
struct misuse_record {
    unsigned count;
    enum hearth_status status;
    const struct hearth_allocator *arena;
    const void *slot;
    char call[64];
    char detail[256];
};
extern struct misuse_record misuse;

/* Installs the recorder and clears it. */
void misuse_record(void);

/* Runs fn(argument) on a thread of its own and joins it. */
void on_thread(void (*fn)(void *), void *argument);

void fill(struct hearth_buf *buf, unsigned char value);
bool filled(const struct hearth_buf *buf, size_t bytes, unsigned char value);

#endif
