/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes of a parallel run that may start, and the crew that runs them. See the essay in ready.c.
 *
 * One thread, the caller, owns the run; helpers are calls that an executor makes. All may claim nodes.
 */
#ifndef HEARTH_RUNTIME_READY_H
#define HEARTH_RUNTIME_READY_H

#include "core/atomic.h"

#include <hearth/status.h>

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

/* Most helpers at a time. */
#define HEARTH__HELPERS_MAX 4095u

struct hearth__ready {
    _Atomic(uint64_t) crew;   /* see ready.c; writer: any, by compare-and-swap */
    _Atomic(uint64_t) *steps; /* one bit for each step: its node may start */
    uint32_t words;           /* const: of steps */
    sem_t wake;               /* for the caller */
};

/* What a claim came to. */
enum hearth__claim {
    HEARTH__CLAIM_STEP = 1, /* *step is the claimant's to run and to complete */
    HEARTH__CLAIM_NONE = 2, /* nothing to do: a helper has left, a caller's run has ended */
    HEARTH__CLAIM_LAST = 3, /* as NONE, and the crew was disbanded: the claimant frees it */
};

enum hearth_status hearth__ready_init(struct hearth__ready *ready, uint32_t steps);
void hearth__ready_fini(struct hearth__ready *ready);

/* Let a step start. Nobody knows before hearth__ready_announce() or hearth__ready_complete() counts it. */
void hearth__ready_put(struct hearth__ready *ready, uint32_t step);

/* The caller begins: `count` steps were put. Returns the helpers to ask the executor for, so that there are
 * at most `limit`; they count from now on. */
uint32_t hearth__ready_announce(struct hearth__ready *ready, uint32_t count, uint32_t limit);

/* A step was run and `count` steps were put; with `keep` the thread goes on with one more of its own that was
 * not put. Returns as hearth__ready_announce(). Without `keep` the run may be over: touch nothing of it. */
uint32_t hearth__ready_complete(struct hearth__ready *ready, uint32_t count, bool keep,
                                uint32_t limit);

/* A helper wants a step. Not for a thread that has one. Lock-free. */
enum hearth__claim hearth__ready_help(struct hearth__ready *ready, uint32_t *step);

/* The caller wants a step, and waits while all are taken and not all complete. */
enum hearth__claim hearth__ready_claim(struct hearth__ready *ready, uint32_t *step);

/* A helper cannot run the step that it claimed: it goes to the others. */
void hearth__ready_give_back(struct hearth__ready *ready, uint32_t step);

/* A helper leaves. True: the crew was disbanded, and it was the last. */
bool hearth__ready_leave(struct hearth__ready *ready);

/* A helper that was asked for does not come. For one that counts, or the caller. */
void hearth__ready_excuse(struct hearth__ready *ready);

/* Whether helpers that were asked for have not left yet. */
bool hearth__ready_expects(const struct hearth__ready *ready);

/* No run will use it any more. True: there are no helpers, free it; else the last one to leave is told. */
bool hearth__ready_disband(struct hearth__ready *ready);

#endif
