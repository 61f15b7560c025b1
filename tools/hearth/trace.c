/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling a trace: checks events against each other and derives segments and peaks. */
#include "trace.h"

#include "trace_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a trace leaves live dies at the end of a pass, on the thread that took it. */
static bool free_leftovers(struct trace *trace)
{
    uint32_t recorded = trace->event_count;
    uint32_t left = 0;
    bool *live = calloc(trace->slot_count, sizeof *live);
    if (live == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < recorded; i++) {
        live[trace->events[i].slot] = trace->events[i].op == TRACE_ALLOC;
    }
    for (uint32_t slot = 0; slot < trace->slot_count; slot++) {
        left += live[slot] ? 1 : 0;
    }
    struct trace_event *events = trace->events;
    if (left > 0) {
        events = realloc(events, ((size_t)recorded + left) * sizeof *events);
    }
    if (events == NULL) {
        free(live);
        return false;
    }
    trace->events = events;
    for (uint32_t i = 0; i < recorded && left > 0; i++) {
        if (events[i].op == TRACE_ALLOC && live[events[i].slot]) {
            struct trace_event *event = &events[trace->event_count++];
            *event = events[i];
            event->op = TRACE_FREE;
            event->line = 0;
            event->run = trace->run_count - 1;
        }
    }
    free(live);
    return true;
}

static bool starts_segment(const struct trace *trace, uint32_t event)
{
    return event == 0 || trace->events[event].thread != trace->events[event - 1].thread;
}

static bool make_segments(struct trace *trace)
{
    uint32_t count = 1;
    free(trace->segments);
    trace->segment_count = 0;
    for (uint32_t i = 1; i < trace->event_count; i++) {
        count += starts_segment(trace, i) ? 1 : 0;
    }
    trace->segments = calloc(count, sizeof *trace->segments);
    if (trace->segments == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        if (starts_segment(trace, i)) {
            trace->segments[trace->segment_count++] =
                (struct trace_segment){.first = i, .thread = trace->events[i].thread};
        }
        trace->segments[trace->segment_count - 1].count++;
    }
    return true;
}

/* Sizes come from a file: a sum of them may wrap. */
static uint64_t add_saturated(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t trace_peak_below(const struct trace *trace, uint64_t limit)
{
    uint64_t live = 0;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->bytes > limit) {
            continue;
        }
        if (event->op == TRACE_FREE) {
            live = live > event->bytes ? live - event->bytes : 0;
            continue;
        }
        live = add_saturated(live, event->bytes);
        peak = live > peak ? live : peak;
    }
    return peak;
}

static uint64_t exec_peak(const struct trace *trace)
{
    uint64_t live = 0;
    uint64_t peak = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->exported) {
            continue;
        }
        if (event->op == TRACE_FREE) {
            live = live > event->bytes ? live - event->bytes : 0;
            continue;
        }
        live = add_saturated(live, event->bytes);
        peak = live > peak ? live : peak;
    }
    return peak;
}

/* Marks the event with the highest live bytes of each run, where footprint is sampled. */
static void mark_run_peaks(struct trace *trace)
{
    uint64_t live = 0;
    uint64_t best_live = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        trace->events[i].run_peak = false;
        trace->events[i].run_last = false;
    }
    for (uint32_t i = 0; i < trace->event_count; i++) {
        struct trace_event *event = &trace->events[i];
        if (event->op == TRACE_FREE) {
            live = live > event->bytes ? live - event->bytes : 0;
        } else {
            live = add_saturated(live, event->bytes);
        }
        if (i == 0 || event->run != trace->events[i - 1].run || live > best_live) {
            best = i;
            best_live = live;
        }
        if (i + 1 == trace->event_count || trace->events[i + 1].run != event->run) {
            trace->events[best].run_peak = true;
            event->run_last = true;
        }
        if (event->bytes > trace->largest_bytes) {
            trace->largest_bytes = event->bytes;
        }
    }
}

/* What a run gives up that somebody else may hold on to. */
static void count_outputs(struct trace *trace)
{
    uint32_t count = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct trace_event *event = &trace->events[i];
        if (event->op == TRACE_FREE && event->exported) {
            count++;
            bytes = add_saturated(bytes, event->bytes);
        }
        if (event->run_last) {
            trace->run_outputs = count > trace->run_outputs ? count : trace->run_outputs;
            trace->run_outputs_bytes =
                bytes > trace->run_outputs_bytes ? bytes : trace->run_outputs_bytes;
            count = 0;
            bytes = 0;
        }
    }
}

bool trace_derive(struct trace *trace)
{
    if (!make_segments(trace)) {
        return false;
    }
    trace->peak_live_bytes = trace_peak_below(trace, UINT64_MAX);
    trace->exec_peak_bytes = exec_peak(trace);
    mark_run_peaks(trace);
    count_outputs(trace);
    return true;
}

bool trace_load(const char *path, struct trace *trace, char message[TRACE_MESSAGE_BYTES])
{
    *trace = (struct trace){.path = path};
    if (!trace_read(trace, message)) {
        trace_destroy(trace);
        return false;
    }
    /* Every event follows from an alloc, so nothing but the header was there. */
    if (trace->event_count == 0) {
        snprintf(message, TRACE_MESSAGE_BYTES, "%s:1: no events after the header", path);
        trace_destroy(trace);
        return false;
    }
    if (!free_leftovers(trace) || !trace_derive(trace)) {
        snprintf(message, TRACE_MESSAGE_BYTES, "%s: out of memory", path);
        trace_destroy(trace);
        return false;
    }
    return true;
}

void trace_destroy(struct trace *trace)
{
    free(trace->events);
    free(trace->segments);
    *trace = (struct trace){0};
}

void trace_name(const struct trace *trace, char *name, size_t bytes)
{
    const char *slash = strrchr(trace->path, '/');
    snprintf(name, bytes, "%s", slash != NULL ? slash + 1 : trace->path);
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".csv") == 0) {
        name[length - 4] = '\0';
    }
}
