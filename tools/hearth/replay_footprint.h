/* SPDX-License-Identifier: Apache-2.0 */
/* What is held: read between passes and, while all clones stand still, in the sampling pass. */
#ifndef HEARTH_TOOL_REPLAY_FOOTPRINT_H
#define HEARTH_TOOL_REPLAY_FOOTPRINT_H

#include <stdint.h>

struct replay_engine;

/* The largest readings since replay_footprint_restart(). */
struct replay_footprint {
    uint64_t base; /* Held before the first pass. */
    uint64_t peak;
    uint64_t exec_peak; /* Storage of execution arenas, idle slabs included. */
    uint64_t rss_base;
    uint64_t rss_peak; /* 0: the kernel does not tell. */
};

/** Before anything that is measured exists. */
void replay_footprint_begin(struct replay_engine *engine);

/** Forget what was read: the measured passes begin. */
void replay_footprint_restart(struct replay_engine *engine);

/** Take the snapshot of that number, while only the controller runs. */
void replay_footprint_snapshot(struct replay_engine *engine, uint32_t number);

/** Read once more, while all clones stand still. */
void replay_footprint_sample(struct replay_engine *engine);

/** The measured passes that touch buffers are over: how many pages were resident? */
void replay_footprint_touched(struct replay_engine *engine);

#endif
