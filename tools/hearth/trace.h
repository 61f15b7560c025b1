/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation traces: read from CSV, checked strictly, and compiled into what a replay needs.
 *
 * File format: a header line `run,op,id,bytes,thread`, then one event a line in program order.
 * `run` counts engine runs from 0, `op` is alloc, free or export, `id` names an allocation, `bytes`
 * is the size asked for and is repeated on free and export, `thread` counts from 0.
 */
#ifndef HEARTH_TOOL_TRACE_H
#define HEARTH_TOOL_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each trace thread becomes an OS thread per clone; real engines use a few dozen. */
#define TRACE_THREAD_MAX 255u

/* Room for one message; a path that does not fit is cut. */
#define TRACE_MESSAGE_BYTES 512u

enum trace_op {
    TRACE_ALLOC,
    TRACE_FREE,
    TRACE_EXPORT, /* In files only: compiled traces carry it as trace_event.exported. */
};

/* One event of a compiled trace. */
struct trace_event {
    uint64_t bytes;
    uint64_t id;
    uint32_t slot; /* Dense number of the allocation, for tables. */
    uint32_t line; /* Where the event stands in the file; 0: added, the trace never frees it. */
    uint32_t run;
    uint16_t thread;
    uint8_t op;    /* TRACE_ALLOC or TRACE_FREE. */
    bool exported; /* The allocation is exported: it does not die inside its run. */
    bool run_peak; /* Live bytes are at their highest of the run after this event. */
    bool run_last; /* The run's last event. */
};

/* Consecutive events of one thread. Within a clone one segment runs at a time, in order. */
struct trace_segment {
    uint32_t first;
    uint32_t count;
    uint16_t thread;
};

struct trace {
    const char *path;
    struct trace_event *events;
    struct trace_segment *segments;
    uint32_t event_count;
    uint32_t segment_count;
    uint32_t slot_count;
    uint32_t run_count;
    uint32_t thread_count;
    uint64_t peak_live_bytes;   /* Logical bytes over all threads at the worst moment; saturates. */
    uint64_t exec_peak_bytes;   /* The same of allocations that are not exported. */
    uint64_t largest_bytes;     /* The largest single allocation. */
    uint64_t run_outputs_bytes; /* Most bytes of exported allocations given up in one run. */
    uint32_t run_outputs;       /* Most exported allocations given up in one run. */
};

/**
 * Read and compile a trace. On false `message` names the file, the line and the reason, and nothing
 * needs to be destroyed. `path` must outlive the trace.
 */
bool trace_load(const char *path, struct trace *trace, char message[TRACE_MESSAGE_BYTES]);

/**
 * Find segments, peaks and the ends of runs in a trace whose events are there. False: no memory.
 */
bool trace_derive(struct trace *trace);

void trace_destroy(struct trace *trace);

/** The file's name without folders and without ".csv", cut to `bytes`. */
void trace_name(const struct trace *trace, char *name, size_t bytes);

/**
 * Live bytes at the worst moment when allocations larger than `limit` are left out: they will not
 * be touched, so they cost no memory.
 */
uint64_t trace_peak_below(const struct trace *trace, uint64_t limit);

#endif
