/* SPDX-License-Identifier: Apache-2.0 */
/* Runs as sequences of allocations and frees, for bench_plans. */
#ifndef BENCH_PLANS_SEQUENCE_H
#define BENCH_PLANS_SEQUENCE_H

#include "pack_instances.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth_buf;
struct hearth_exec;

struct plans_step {
    size_t bytes;
    uint32_t buffer; /* Which one. */
    bool frees;
};

struct plans_sequence {
    char name[32];
    struct plans_step *steps; /* Each buffer is taken and given back once. */
    size_t count;
    size_t buffers;
    struct hearth_buf **live; /* By buffer. */
};

/** The first run of a recorded trace, without what was exported. */
struct plans_sequence plans_read(const char *path);

/** A made up run of inference. */
struct plans_sequence plans_make(size_t buffers, uint64_t seed);

void plans_sequence_end(struct plans_sequence *sequence);

/** A run begins. */
void plans_begin(struct hearth_exec *arena);

/** One run, from begin to end: made up ones have moments without a buffer, which are no ends. */
void plans_run(struct hearth_exec *arena, struct plans_sequence *sequence);

/** One step; ends the process when it is refused. */
void plans_do_step(struct hearth_exec *arena, struct plans_sequence *sequence,
                   const struct plans_step *step);

#endif
