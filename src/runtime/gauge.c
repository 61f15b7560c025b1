/* SPDX-License-Identifier: Apache-2.0 */
/* Gauges of a run, its events, and its first failure. */
#include "runtime/run.h"

#include <stdarg.h>
#include <stdio.h>

/* Of several threads: each addition is one of a total order, and a peak that it made is noted after it, so the
 * largest sum is noted by whoever made it. */
static void add_shared(struct hearth__gauge *gauge, enum hearth__domain domain, size_t bytes)
{
    uint64_t live = hearth__fetch_add_relaxed(&gauge->live[domain], bytes) + bytes;
    uint64_t peak = hearth__load_relaxed(&gauge->peak[domain]);
    while (live > peak && !hearth__cas_weak_relaxed(&gauge->peak[domain], &peak, live))
        ;
}

void hearth__gauge_add(struct hearth__gauge *gauge, enum hearth__domain domain, size_t bytes)
{
    if (gauge->shared) {
        add_shared(gauge, domain, bytes);
        return;
    }
    uint64_t live = hearth__load_relaxed(&gauge->live[domain]) + bytes;
    hearth__store_relaxed(&gauge->live[domain], live);
    if (live > hearth__load_relaxed(&gauge->peak[domain]))
        hearth__store_relaxed(&gauge->peak[domain], live);
}

void hearth__gauge_sub(struct hearth__gauge *gauge, enum hearth__domain domain, size_t bytes)
{
    if (gauge->shared)
        (void)hearth__fetch_add_relaxed(&gauge->live[domain], -(uint64_t)bytes);
    else
        hearth__store_relaxed(&gauge->live[domain],
                              hearth__load_relaxed(&gauge->live[domain]) - bytes);
}

void hearth__tally_add(struct hearth__tally *sum, const struct hearth__tally *more)
{
    sum->nodes += more->nodes;
    sum->tensors += more->tensors;
    sum->temporaries += more->temporaries;
    sum->released += more->released;
    sum->reused_in_place += more->reused_in_place;
    sum->remote_deaths += more->remote_deaths;
    sum->payload_copies += more->payload_copies;
    sum->copied_bytes += more->copied_bytes;
    sum->staged_copies += more->staged_copies;
    sum->migration_copies += more->migration_copies;
    sum->taken += more->taken;
    sum->body_runs += more->body_runs;
}

static __attribute__((noinline)) void tell(const struct hearth__run *run,
                                           const struct hearth__frame *frame,
                                           enum hearth_event_kind kind, const char *value,
                                           size_t bytes)
{
    const struct hearth__gauge *gauge = run->gauge;
    struct hearth_event event = {
        .size = sizeof(event),
        .kind = (uint32_t)kind,
        .thread = frame == NULL ? 0 : frame->thread,
        .step = frame == NULL ? (size_t)hearth__load_relaxed(&gauge->steps) : (size_t)frame->step,
        .node = frame == NULL ? HEARTH_NODE_NONE : frame->index,
        .value = value,
        .bytes = bytes,
        .execution_live_bytes = hearth__load_relaxed(&gauge->live[HEARTH__DOMAIN_EXECUTION]),
        .execution_peak_bytes = hearth__load_relaxed(&gauge->peak[HEARTH__DOMAIN_EXECUTION]),
        .io_live_bytes = hearth__load_relaxed(&gauge->live[HEARTH__DOMAIN_IO]),
        .io_peak_bytes = hearth__load_relaxed(&gauge->peak[HEARTH__DOMAIN_IO]),
    };
    run->events->fn(run->events->user, &event);
}

void hearth__event(const struct hearth__run *run, const struct hearth__frame *frame,
                   enum hearth_event_kind kind, const char *value, size_t bytes)
{
    if (hearth__unlikely(run->events != NULL))
        tell(run, frame, kind, value, bytes);
}

void hearth__event_between(const struct hearth__holder *holder, enum hearth_event_kind kind,
                           const char *value, size_t bytes)
{
    if (holder->frame != NULL) { /* a body's, in a kernel */
        hearth__event(holder->frame->run, holder->frame, kind, value, bytes);
        return;
    }
    struct hearth__gauge gauge = {.shared = false};
    const struct hearth__run run = {
        .events = holder->events.fn == NULL ? NULL : &holder->events,
        .gauge = &gauge,
    };
    hearth__event(&run, NULL, kind, value, bytes);
}

void hearth__run_fail(struct hearth__run *run, enum hearth_status status, const char *format, ...)
{
    uint32_t none = HEARTH_OK;
    if (!hearth__cas_acq_rel(&run->status, &none, (uint32_t)status))
        return;
    run->holder->error_status = status;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(run->holder->error, sizeof(run->holder->error), format, arguments);
    va_end(arguments);
}
