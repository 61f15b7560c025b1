/* SPDX-License-Identifier: Apache-2.0 */
/* What the unit tests share: a recording misuse handler, a backing that does as it is told, threads. */
#ifndef HEARTH_TESTS_UNIT_SUPPORT_H
#define HEARTH_TESTS_UNIT_SUPPORT_H

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/status.h>

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <criterion/theories.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* The call's answer, by name when it is another one. */
#define assert_status(call, expected)                                                              \
    do {                                                                                           \
        enum hearth_status answered = (call);                                                      \
        cr_assert_eq(answered, (expected), "%s answered %s", #call, hearth_status_name(answered)); \
    } while (0)

#define assert_ok(call) assert_status(call, HEARTH_OK)

#define assert_size(expression, expected)                                                          \
    do {                                                                                           \
        size_t is = (size_t)(expression);                                                          \
        size_t should_be = (size_t)(expected);                                                     \
        cr_assert_eq(is, should_be, "%s is %zu, not %zu", #expression, is, should_be);             \
    } while (0)

/* The last misuse that was reported, and how many there were since misuse_record(). */
struct misuse_record {
    size_t count;
    enum hearth_status status;
    const char *call;
    const struct hearth_allocator *arena;
    const void *slot;
    char detail[512];
};

extern struct misuse_record misuse_seen;

/* Record misuses instead of printing them; forgets what was recorded before. */
void misuse_record(void);

/* A backing of the test's own: malloc storage within a budget, bent as the members say. */
struct lender {
    struct hearth_backing_ops ops;
    size_t budget;   /* most bytes lent at a time; SIZE_MAX at first */
    size_t shorten;  /* lend this much less than asked */
    size_t misplace; /* lend this far off the alignment */
    size_t lengthen; /* lend this much more than asked */
    size_t align_to; /* lend aligned to this even if less is asked */
    uint32_t flags;  /* of the segments lent */
    bool lend_null;  /* answer OK and lend nothing */
    uint64_t cookie; /* of the next segment; counts up */
    size_t lent;     /* bytes out */
    size_t acquires; /* calls */
    size_t releases;
    size_t wrong_cookies; /* segments that came back changed */
    size_t purges;
    size_t discards;
    size_t discarded; /* bytes */
    size_t destroys;
    size_t last_bytes; /* asked last */
    size_t last_alignment;
};

/* A backing over `lender`, which is set to its defaults; the caller holds a reference. */
struct hearth_backing *lender_open(struct lender *lender);

/* A new mmap backing; the caller holds a reference. */
struct hearth_backing *mmap_open(void);

/* An arena with these properties (0: default) on `backing`, whose reference stays the caller's. */
struct hearth_exec *exec_open(struct hearth_backing *backing, size_t slots, size_t cap);

/* Allocate or fail the test. */
struct hearth_buf *exec_take(struct hearth_exec *arena, size_t size);
struct hearth_buf *exec_take_aligned(struct hearth_exec *arena, size_t size, size_t alignment);

/* Run `fn` on a thread of its own and wait for it. */
void on_thread(void (*fn)(void *), void *argument);

/* Return buffers from another thread; all must be accepted. */
void free_elsewhere(struct hearth_exec *arena, struct hearth_buf **bufs, size_t count);

/* The figures of an arena agree with a walk over all it has. */
void assert_sound(const struct hearth_exec *arena);

/* Visit an arena until nothing is left or the owner was inside, as *busy then says. Returns bytes. */
size_t visit_all(struct hearth_exec *arena, bool *busy);

/* Fill and check a pattern that depends on `seed`. */
void pattern_write(void *data, size_t bytes, unsigned seed);
bool pattern_holds(const void *data, size_t bytes, unsigned seed);

/* A small reproducible random sequence. */
uint64_t random_next(uint64_t *state);

/* Bytes of address space and of resident memory of this process. */
size_t mapped_now(void);
size_t resident_now(void);

#endif
