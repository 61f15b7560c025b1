/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that are not quite as they were: a trace with faults put in at random, another one for each pass, the same
 * ones for the same seed. Exported allocations are left alone.
 */
#ifndef HEARTH_TOOL_REPLAY_INJECT_H
#define HEARTH_TOOL_REPLAY_INJECT_H

#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum replay_fault {
    REPLAY_FAULT_LATE,    /* The free comes up to 32 events later, or early in the next run. */
    REPLAY_FAULT_SWAP,    /* Two allocations in a row change places. */
    REPLAY_FAULT_EXTRA,   /* One more allocation before this one, freed up to 32 events later. */
    REPLAY_FAULT_MISSING, /* Neither allocated nor freed. */
    REPLAY_FAULT_RESIZE,  /* 10 to 50 per cent larger or smaller. */
    REPLAY_FAULTS,
};

/* Most parts of REPLAY_RATE_WHOLE: every allocation. */
#define REPLAY_RATE_WHOLE UINT32_C(1000000)

struct replay_faults {
    uint64_t seed;
    uint32_t rate;  /* Faults in REPLAY_RATE_WHOLE allocations; 0: none at all. */
    uint32_t kinds; /* Bits 1 << enum replay_fault. */
};

/** "late" and the like. */
const char *replay_fault_name(enum replay_fault fault);

/** The names of all kinds, separated by commas. Returns `text`. */
const char *replay_fault_names(const struct replay_faults *faults, char *text, size_t bytes);

struct replay_injector;

/** NULL: no memory. `base` must outlive it. */
struct replay_injector *replay_injector_create(const struct trace *base,
                                               const struct replay_faults *faults);

/** NULL is fine. */
void replay_injector_destroy(struct replay_injector *injector);

/** Slots that its traces use, for tables. */
uint32_t replay_injected_slots(const struct trace *base);

/** The trace of the next pass, valid until the next call; NULL: no memory. In the last pass every free comes
 *  before the end. `made` receives the number of faults. */
const struct trace *replay_inject(struct replay_injector *injector, bool last, uint64_t *made);

#endif
