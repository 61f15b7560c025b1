/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all stress programs share: options, a seeded generator, the pattern that buffers carry, and the
 * verdict. Each program prints its seed and counts even on success, and exits 1 when its oracle was
 * violated, 2 for wrong usage.
 */
#ifndef HEARTH_STRESS_HARNESS_H
#define HEARTH_STRESS_HARNESS_H

#include <hearth/allocator.h>
#include <hearth/backing.h>
#include <hearth/io.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stress_options {
    unsigned threads;
    unsigned seconds;
    uint64_t seed;
    bool smoke; /* a bounded number of rounds instead of a time */
};

/* Parse --threads, --seconds, --seed, --smoke; exits on wrong usage. */
struct stress_options stress_parse(int argc, char **argv, const char *name, unsigned threads);

/* A generator of its own for each thread. Never 0. */
uint64_t stress_seed(const struct stress_options *options, unsigned thread);
uint64_t stress_next(uint64_t *state);

/* True until the time is over or, in a smoke run, until `rounds` reaches `smoke_rounds` or a few seconds
 * have passed. */
bool stress_goes_on(const struct stress_options *options, uint64_t rounds, uint64_t smoke_rounds);

/* Count and describe a violation; the first few are printed. */
void stress_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t stress_now_ns(void);

/* Violations so far: for forked children, which start with their parent's. */
uint64_t stress_found(void);

/* Print the counts that were named and the verdict. The exit code of the program. */
int stress_verdict(const char *name, const struct stress_options *options, const char *counts);

/* Write a pattern that names the buffer's owner and round into a buffer, and check it. */
void stress_fill(struct hearth_buf *buf, uint64_t tag);
bool stress_check(const struct hearth_buf *buf, uint64_t tag);

/* The same for the first and the last words of `size` bytes: cheap for large payloads. */
void stress_mark(void *data, size_t size, uint64_t tag);
bool stress_marked(const void *data, size_t size, uint64_t tag);

/* A backing on the heap that watches over what it lent: each segment comes back once, as it was lent, and
 * is overwritten then, so that who still uses it finds a wrong pattern. Zero-initialise it. */
struct stress_lender {
    _Atomic(uint64_t) acquires, releases, destroys;
    _Atomic(bool) child; /* set in a forked child: not all has to come back */
};

struct hearth_backing *stress_lender_open(struct stress_lender *lender);

/* Create an arena; `lender` may be NULL for the process's backing. */
struct hearth_io *stress_io_open(struct stress_lender *lender, struct hearth_io_options options);

/* No figure of the arena is below zero or above what can be: at most `count` buffers, `bytes` bytes. */
void stress_io_look(const struct hearth_io *io, size_t count, size_t bytes);

/* Nobody works, and nothing is out: the figures say so and add up, and trim finds all that is retained. */
void stress_io_home(struct hearth_io *io);

/* Abort with a message when a call that cannot fail here does. */
void stress_must(enum hearth_status status, const char *what);

#endif
