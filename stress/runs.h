/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stress programs of run plans share: scripts, which say what a run takes and returns and in which
 * order, changed copies of them, and blocks: buffers whose every unit of 64 bytes says whose it is.
 */
#ifndef HEARTH_STRESS_RUNS_H
#define HEARTH_STRESS_RUNS_H

#include "harness.h"

#include <hearth/exec.h>
#include <hearth/io.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STRESS_SCRIPTS 6
#define STRESS_TAKES_MOST 400u
#define STRESS_PLACES 1024u /* in a changed script, which may have some of two */
#define STRESS_SIZE_MOST ((size_t)1 << 20)
#define STRESS_PEAK_MOST ((size_t)3 << 20)

struct stress_step {
    uint32_t place;
    uint32_t size; /* 0: what is in the place is returned */
};

struct stress_script {
    unsigned count;
    unsigned places;
    unsigned takes;
    struct stress_step steps[2 * STRESS_PLACES];
};

/* A run of so many buffers of 64 to `size_most` bytes, of which at most `peak` are live at a time. */
void stress_script_make(struct stress_script *script, uint64_t *random, unsigned takes,
                        size_t size_most, size_t peak);

/* A set of STRESS_SCRIPTS of all kinds. */
void stress_scripts_make(struct stress_script *scripts, uint64_t seed);

/* A copy that was cut off, joined to a part of `other`, or has steps inserted, left out, exchanged, or sizes
 * changed. It returns all it takes. */
void stress_script_vary(struct stress_script *copy, const struct stress_script *of,
                        const struct stress_script *other, uint64_t *random);

struct stress_block {
    struct hearth_buf *buf;   /* NULL: nothing */
    struct hearth_exec *exec; /* where it came from; NULL: from `io` */
    struct hearth_io *io;
    void *data;
    size_t size;
    uint64_t owner; /* no two blocks have the same */
};

/* Take a block from an arena that the calling thread owns, look at it, and write its owner into it. Anything
 * but OK is a violation, and false. */
bool stress_block_take(struct hearth_exec *exec, const struct hearth_request *request,
                       uint64_t owner, struct stress_block *block);

/* The same for a buffer that was taken otherwise. */
void stress_block_begin(struct hearth_exec *exec, struct hearth_buf *buf, size_t size,
                        uint64_t owner, struct stress_block *block);

/* It is still what it was, in every unit. */
void stress_block_check(const struct stress_block *block);

/* Return it, from any thread, one way or the other, and sometimes a second time, which has to be refused.
 * `own`: the calling thread owns the arena, so that nobody got the buffer in between. Nothing for none. */
void stress_block_return(struct stress_block *block, bool own, uint64_t draw);

/* For the thread that owns the arena of the block, which is one of an execution arena. */
void stress_block_resize(struct stress_block *block, size_t size, bool keep);
void stress_block_move(struct stress_block *block, struct hearth_io *io);

/* Put it into a box; what was there, if anything, is in *block then. */
void stress_block_post(struct stress_block *block, uint64_t draw);

/* Capacity of what lies in boxes, and return it, while nobody posts. */
size_t stress_blocks_posted(void);
void stress_blocks_clear(void);

#endif
