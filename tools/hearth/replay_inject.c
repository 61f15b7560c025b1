/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_inject.h"

#include "mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events that a free comes later, and that an extra allocation lives. */
#define DELAY_MOST 32u

/* One of so many late frees comes in the next run. */
#define PAST_END_ONE_IN 4u

/* Of a resized allocation, in per cent. */
#define RESIZE_LEAST 10u
#define RESIZE_MOST 50u

/* Places between two events of the base trace: what is put in takes them, at random. */
#define STEP UINT64_C(0x10000)
#define HALF_STEP UINT64_C(0x8000)

/* Set in the ids of extra allocations, which no trace of today has. */
#define EXTRA_ID (UINT64_C(1) << 63)

struct placed_event {
    uint64_t place; /* The trace is in this order. */
    struct trace_event event;
    bool dropped;
    bool touched; /* One fault each. */
};

struct replay_injector {
    const struct trace *base;
    struct replay_faults faults;
    struct trace trace; /* Of the present pass. */
    struct placed_event *events;
    uint32_t count;
    uint32_t *frees;          /* By event: an allocation's free. */
    struct trace_event *owed; /* Frees that this pass does not have: they come in the next one. */
    uint32_t owed_count;
    uint64_t random;
    uint32_t pass;
    bool last;
};

static const char *const fault_names[REPLAY_FAULTS] = {
    [REPLAY_FAULT_LATE] = "late",     [REPLAY_FAULT_SWAP] = "swap",
    [REPLAY_FAULT_EXTRA] = "extra",   [REPLAY_FAULT_MISSING] = "missing",
    [REPLAY_FAULT_RESIZE] = "resize",
};

const char *replay_fault_name(enum replay_fault fault)
{
    return fault_names[fault];
}

const char *replay_fault_names(const struct replay_faults *faults, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (int fault = 0; fault < REPLAY_FAULTS && at < bytes; fault++) {
        if ((faults->kinds >> fault & 1) != 0) {
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at > 0 ? "," : "",
                                   fault_names[fault]);
        }
    }
    return text;
}

/* 0 to below - 1. */
static uint32_t draw(struct replay_injector *injector, uint32_t below)
{
    injector->random++;
    return (uint32_t)(mix64(injector->random) % below);
}

static uint64_t place_of(uint32_t event)
{
    return (uint64_t)(event + 1) * STEP;
}

/* Behind an event. */
static uint64_t place_after(struct replay_injector *injector, uint32_t event)
{
    return place_of(event) + 1 + draw(injector, HALF_STEP - 1);
}

static uint32_t last_of_run(const struct trace *base, uint32_t event)
{
    while (!base->events[event].run_last) {
        event++;
    }
    return event;
}

/* Up to DELAY_MOST events behind one, in its run. */
static uint32_t delayed(struct replay_injector *injector, uint32_t event)
{
    uint32_t last = last_of_run(injector->base, event);
    uint32_t delay = 1 + draw(injector, DELAY_MOST);
    return last - event < delay ? last : event + delay;
}

/* What lives on into the next pass, and what is new, has a slot of its own: those of even and of odd passes differ.
 * An allocation has one fault at most, so its own number tells them apart. */
static uint32_t extra_slot(const struct replay_injector *injector, uint32_t slot)
{
    return injector->base->slot_count * (1 + (injector->pass & 1)) + slot;
}

static void set_slot(struct replay_injector *injector, uint32_t alloc, uint32_t slot)
{
    injector->events[alloc].event.slot = slot;
    injector->events[injector->frees[alloc]].event.slot = slot;
}

static bool make_later_run(struct replay_injector *injector, uint32_t alloc)
{
    const struct trace *base = injector->base;
    uint32_t free_event = injector->frees[alloc];
    struct placed_event *freed = &injector->events[free_event];
    uint32_t next = last_of_run(base, free_event) + 1;
    set_slot(injector, alloc, extra_slot(injector, base->events[alloc].slot));
    if (next < base->event_count) {
        freed->event.run = base->events[next].run;
        freed->place = place_after(injector, delayed(injector, next));
        return true;
    }
    freed->dropped = true;
    injector->owed[injector->owed_count++] = freed->event;
    return true;
}

static bool make_late(struct replay_injector *injector, uint32_t alloc)
{
    const struct trace *base = injector->base;
    uint32_t free_event = injector->frees[alloc];
    bool has_later = !injector->last || last_of_run(base, free_event) + 1 < base->event_count;
    if (has_later && draw(injector, PAST_END_ONE_IN) == 0) {
        return make_later_run(injector, alloc);
    }
    uint32_t later = delayed(injector, free_event);
    injector->events[free_event].place = place_after(injector, later);
    return later != free_event;
}

static bool make_swap(struct replay_injector *injector, uint32_t alloc)
{
    const struct trace *base = injector->base;
    const struct trace_event *first = &base->events[alloc];
    uint32_t next = alloc + 1;
    while (next < base->event_count && base->events[next].op != TRACE_ALLOC) {
        next++;
    }
    if (next == base->event_count || injector->frees[alloc] < next) {
        return false;
    }
    const struct trace_event *second = &base->events[next];
    struct placed_event *other = &injector->events[next];
    if (second->exported || second->run != first->run || second->thread != first->thread ||
        other->touched) {
        return false;
    }
    other->place = place_of(alloc);
    injector->events[alloc].place = place_of(next);
    other->touched = true;
    return true;
}

static uint64_t resized(struct replay_injector *injector, uint64_t bytes)
{
    uint64_t per_cent = RESIZE_LEAST + draw(injector, RESIZE_MOST - RESIZE_LEAST + 1);
    uint64_t change = bytes / 100 * per_cent + bytes % 100 * per_cent / 100;
    return draw(injector, 2) == 0 ? bytes - change : bytes + change;
}

/* As large as an allocation of around here, or nearly. */
static uint64_t extra_bytes(struct replay_injector *injector, uint32_t alloc)
{
    const struct trace *base = injector->base;
    uint32_t first = alloc > 2 * DELAY_MOST ? alloc - 2 * DELAY_MOST : 0;
    const struct trace_event *like = &base->events[first + draw(injector, alloc - first + 1)];
    return draw(injector, 2) == 0 ? like->bytes : resized(injector, like->bytes);
}

static bool make_extra(struct replay_injector *injector, uint32_t alloc)
{
    struct trace_event event = injector->base->events[alloc];
    struct placed_event *taken = &injector->events[injector->count++];
    struct placed_event *freed = &injector->events[injector->count++];
    event.bytes = extra_bytes(injector, alloc);
    event.id = EXTRA_ID | alloc;
    event.slot = extra_slot(injector, event.slot);
    *taken = (struct placed_event){.place = place_of(alloc) - 1 - draw(injector, HALF_STEP - 1),
                                   .event = event};
    event.op = TRACE_FREE;
    *freed = (struct placed_event){.place = place_after(injector, delayed(injector, alloc)),
                                   .event = event};
    return true;
}

static bool make_missing(struct replay_injector *injector, uint32_t alloc)
{
    injector->events[alloc].dropped = true;
    injector->events[injector->frees[alloc]].dropped = true;
    return true;
}

static bool make_resize(struct replay_injector *injector, uint32_t alloc)
{
    uint64_t bytes = injector->base->events[alloc].bytes;
    uint64_t other = resized(injector, bytes);
    injector->events[alloc].event.bytes = other;
    injector->events[injector->frees[alloc]].event.bytes = other;
    return other != bytes;
}

/* One of the kinds at random; where it cannot be, the next one that can. */
static bool make_fault(struct replay_injector *injector, uint32_t alloc)
{
    static bool (*const makers[REPLAY_FAULTS])(struct replay_injector *, uint32_t) = {
        [REPLAY_FAULT_LATE] = make_late,     [REPLAY_FAULT_SWAP] = make_swap,
        [REPLAY_FAULT_EXTRA] = make_extra,   [REPLAY_FAULT_MISSING] = make_missing,
        [REPLAY_FAULT_RESIZE] = make_resize,
    };
    uint32_t first = draw(injector, REPLAY_FAULTS);
    for (uint32_t i = 0; i < REPLAY_FAULTS; i++) {
        uint32_t kind = (first + i) % REPLAY_FAULTS;
        if ((injector->faults.kinds >> kind & 1) != 0 && makers[kind](injector, alloc)) {
            injector->events[alloc].touched = true;
            return true;
        }
    }
    return false;
}

static int compare_places(const void *a, const void *b)
{
    const struct placed_event *x = a;
    const struct placed_event *y = b;
    if (x->place != y->place) {
        return x->place < y->place ? -1 : 1;
    }
    /* An allocation before a free, else by slot: the order does not depend on the sort. */
    if (x->event.op != y->event.op) {
        return x->event.op < y->event.op ? -1 : 1;
    }
    return x->event.slot < y->event.slot ? -1 : x->event.slot > y->event.slot;
}

/* The base trace again, with the frees that the pass before owes. */
static void start_over(struct replay_injector *injector)
{
    const struct trace *base = injector->base;
    injector->count = base->event_count;
    for (uint32_t i = 0; i < base->event_count; i++) {
        injector->events[i] = (struct placed_event){.place = place_of(i), .event = base->events[i]};
    }
    for (uint32_t i = 0; i < injector->owed_count; i++) {
        struct placed_event *freed = &injector->events[injector->count++];
        *freed = (struct placed_event){.event = injector->owed[i]};
        freed->event.run = 0;
        freed->place = place_after(injector, delayed(injector, 0));
    }
    injector->owed_count = 0;
}

static bool finish(struct replay_injector *injector)
{
    struct trace *trace = &injector->trace;
    qsort(injector->events, injector->count, sizeof *injector->events, compare_places);
    trace->event_count = 0;
    for (uint32_t i = 0; i < injector->count; i++) {
        if (!injector->events[i].dropped) {
            trace->events[trace->event_count++] = injector->events[i].event;
        }
    }
    return trace_derive(trace);
}

const struct trace *replay_inject(struct replay_injector *injector, bool last, uint64_t *made)
{
    const struct trace *base = injector->base;
    *made = 0;
    injector->pass++;
    injector->last = last;
    start_over(injector);
    for (uint32_t i = 0; i < base->event_count; i++) {
        const struct trace_event *event = &base->events[i];
        if (event->op == TRACE_ALLOC && !event->exported && !injector->events[i].touched &&
            draw(injector, REPLAY_RATE_WHOLE) < injector->faults.rate) {
            *made += make_fault(injector, i) ? 1 : 0;
        }
    }
    return finish(injector) ? &injector->trace : NULL;
}

uint32_t replay_injected_slots(const struct trace *base)
{
    return 3 * base->slot_count;
}

static void find_frees(struct replay_injector *injector, uint32_t *allocs)
{
    const struct trace *base = injector->base;
    for (uint32_t i = 0; i < base->event_count; i++) {
        const struct trace_event *event = &base->events[i];
        if (event->op == TRACE_ALLOC) {
            allocs[event->slot] = i;
        } else {
            injector->frees[allocs[event->slot]] = i;
        }
    }
}

struct replay_injector *replay_injector_create(const struct trace *base,
                                               const struct replay_faults *faults)
{
    struct replay_injector *injector = calloc(1, sizeof *injector);
    uint32_t *allocs = calloc(base->slot_count, sizeof *allocs);
    /* Each allocation may bring two more events, and be owed by the pass before. */
    size_t most = (size_t)base->event_count + 3 * (size_t)base->slot_count;
    if (injector == NULL || allocs == NULL) {
        free(injector);
        free(allocs);
        return NULL;
    }
    injector->base = base;
    injector->faults = *faults;
    injector->random = mix64(faults->seed);
    injector->events = calloc(most, sizeof *injector->events);
    injector->frees = calloc(base->event_count, sizeof *injector->frees);
    injector->owed = calloc(base->slot_count, sizeof *injector->owed);
    injector->trace = *base;
    injector->trace.segments = NULL;
    injector->trace.events = calloc(most, sizeof *injector->trace.events);
    bool ok = injector->events != NULL && injector->frees != NULL && injector->owed != NULL &&
              injector->trace.events != NULL;
    if (ok) {
        find_frees(injector, allocs);
    }
    free(allocs);
    if (!ok) {
        replay_injector_destroy(injector);
        return NULL;
    }
    return injector;
}

void replay_injector_destroy(struct replay_injector *injector)
{
    if (injector != NULL) {
        trace_destroy(&injector->trace);
        free(injector->events);
        free(injector->frees);
        free(injector->owed);
        free(injector);
    }
}
