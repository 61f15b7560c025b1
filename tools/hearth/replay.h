/* SPDX-License-Identifier: Apache-2.0 */
/* One measurement: a trace, an allocator, a number of clones. */
#ifndef HEARTH_TOOL_REPLAY_H
#define HEARTH_TOOL_REPLAY_H

#include "replay_allocator.h"
#include "replay_inject.h"
#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Clones of a trace side by side, and OS threads in all: enough for any machine of today. */
#define REPLAY_CLONES_MAX 256u
#define REPLAY_THREADS_MAX 1024u

/* Threads that outputs are handed to, and runs that they hold them. */
#define REPLAY_CONSUMERS_MAX 64u
#define REPLAY_HOLD_MAX 64u

/* Passes of warm-up beyond the runs that outputs are held. */
#define REPLAY_WARMUP_BEYOND_HOLD 3u

/* Passes of each kind: their samples are kept in memory. */
#define REPLAY_PASSES_MAX 10000u

/* Distances of the marks in a buffer. */
#define REPLAY_STRIDE_PAGES ((size_t)4096)
#define REPLAY_STRIDE_LINES ((size_t)64)

struct replay_job {
    const struct trace *trace;
    struct replay_allocator *allocator;
    uint32_t clones;
    uint32_t warmup;             /* Passes over the file before anything counts. */
    uint32_t runs;               /* Measured passes over the file. */
    uint32_t consumers;          /* Threads that exported allocations are handed to; 0: none. */
    uint32_t hold;               /* Runs for which they keep them; 0 without consumers. */
    size_t stride;               /* Distance of the marks in a buffer, see pattern.h. */
    size_t touch_limit;          /* Larger buffers are taken and returned but not written. */
    struct replay_faults faults; /* Put into the measured passes. Without consumers. */
    bool tell_runs;              /* Say to the arenas where a run begins and ends. */
    bool fresh_threads;          /* A new thread for each run. The trace has one thread. */
    bool progress;               /* Say on stderr how far it is. */
};

/* What the arenas say of the measured passes and, in bytes and buffers, at their end. */
struct replay_arenas {
    uint64_t io_created; /* Storage that the I/O arena obtained. */
    uint64_t io_footprint_bytes;
    uint64_t io_peak_bytes;
    uint64_t io_retained_bytes;
    uint64_t io_leased;    /* Buffers that consumers hold. */
    uint64_t io_reserved;  /* Buffers taken and returned before the first pass. */
    uint64_t exec_created; /* Storage that the execution arenas obtained. */
    uint64_t exec_footprint_bytes;
    uint64_t exec_peak_footprint_bytes; /* The largest reading from the measured passes on. */
    double exec_footprint_over_peak_live;
};

/* What the plans of all execution arenas did in the measured passes. */
struct replay_plans {
    uint64_t requests; /* To execution arenas, planned or not. */
    uint64_t hits;     /* Served by a plan. */
    uint64_t misses;   /* In planned runs, served by the lists. */
    uint64_t blocked;  /* Of these: the place was not free. */
    uint64_t made;     /* In all passes. */
    /* At the end of the measured passes. */
    uint64_t plans;           /* Of the slab with most of them. */
    uint64_t slab_bytes;      /* Of the largest slab. */
    uint64_t idle_exec_bytes; /* In no arena: idle slabs, and what ended threads left. */
    double over_bound;        /* Bytes of a plan over its bound; the worst arena. */
};

/* "Run" is an engine run: each pass makes trace.run_count of them in every clone. */
struct replay_result {
    uint64_t errors;
    double faults_per_run;
    double backing_calls_per_run;
    double page_events_per_run;
    double ops_per_run;
    double ms_per_run;        /* Median over the passes, the slowest clone of each. */
    double ns_per_op;         /* Median over the passes and clones. */
    uint64_t footprint_bytes; /* Of all clones together. */
    double footprint_over_peak_live;
    uint64_t faults_injected; /* In the measured passes. */
    uint64_t rss_bytes;       /* Most resident bytes in the measured passes; 0: not told. */
    /* Passes before the first one without a fault and without a backing call; -1: there was
     * none. */
    int64_t warmup_passes_needed;
    struct replay_arenas arenas; /* 0 unless replay_allocator.has_arenas. */
    struct replay_plans plans;   /* Likewise. */
};

/**
 * Measure. On false the job could not be run, and `message` says why. Errors that the replay found
 * are counted in the result, and the first few are explained on stderr.
 */
bool replay_run(const struct replay_job *job, struct replay_result *result,
                char message[REPLAY_MESSAGE_BYTES]);

#endif
