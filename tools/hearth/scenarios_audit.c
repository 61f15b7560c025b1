/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thread writes down its own events, with the time. Sorted by time, the events of several threads are in
 * an order in which causes come before effects: a node that waits for a value begins after the value's MADE,
 * and a value's RELEASED comes after the begin of each of its users. Only how the takes and returns of threads
 * that ran at the same moment interleave is not known, so there the peak may differ by what one thread had in
 * hand.
 */
#include "scenarios_audit.h"

#include "clock.h"
#include "prefault.h"

#include <stdlib.h>
#include <string.h>

/* Of one thread in one run: all of them, and some more. */
#define RECORDS_MAX 1024u

struct scenario_record {
    uint64_t ns;
    uint64_t bytes;
    uint64_t live; /* in execution arenas, as the event says */
    size_t node;
    uint32_t kind;
    uint32_t value;  /* SCENARIO_VALUES_MAX: no value of the graph */
    uint32_t number; /* in its thread's order */
};

static uint32_t find_value(const struct scenario_graph *graph, const char *name)
{
    for (uint32_t i = 0; name != NULL && i < graph->value_count; i++) {
        if (strcmp(graph->values[i].name, name) == 0) {
            return i;
        }
    }
    return SCENARIO_VALUES_MAX;
}

static void on_event(void *user, const struct hearth_event *event)
{
    struct scenario_audit *audit = user;
    if (audit->graph == NULL || event->thread >= audit->threads ||
        audit->counts[event->thread] == RECORDS_MAX) {
        return; /* What is missing will be noticed. */
    }
    uint32_t number = audit->counts[event->thread]++;
    audit->records[(size_t)event->thread * RECORDS_MAX + number] = (struct scenario_record){
        .ns = clock_ns(),
        .bytes = event->bytes,
        .live = event->execution_live_bytes,
        .node = event->node,
        .kind = event->kind,
        .value = find_value(audit->graph, event->value),
        .number = number,
    };
}

bool scenario_audit_init(struct scenario_audit *audit, uint32_t threads)
{
    *audit =
        (struct scenario_audit){.handler = {.fn = on_event, .user = audit}, .threads = threads};
    audit->records = prefault_alloc((size_t)threads * RECORDS_MAX, sizeof *audit->records);
    audit->counts = prefault_alloc(threads, sizeof *audit->counts);
    return audit->records != NULL && audit->counts != NULL;
}

void scenario_audit_fini(struct scenario_audit *audit)
{
    prefault_free(audit->records, (size_t)audit->threads * RECORDS_MAX, sizeof *audit->records);
    prefault_free(audit->counts, audit->threads, sizeof *audit->counts);
}

void scenario_audit_begin(struct scenario_audit *audit, const struct scenario_graph *graph)
{
    memset(audit->counts, 0, audit->threads * sizeof *audit->counts);
    audit->graph = graph;
}

/* What is known at one moment of the run. */
struct state {
    const struct scenario_graph *graph;
    bool serial;
    bool made[SCENARIO_VALUES_MAX];
    bool gone[SCENARIO_VALUES_MAX];
    bool begun[SCENARIO_NODES_MAX];
    bool ended[SCENARIO_NODES_MAX];
    uint64_t live;
    uint64_t peak;
    uint64_t most_live; /* as the events say */
    uint64_t largest;   /* value or workspace */
};

static void grow(struct state *state, uint64_t bytes)
{
    state->live += bytes;
    state->peak = state->live > state->peak ? state->live : state->peak;
    state->largest = bytes > state->largest ? bytes : state->largest;
}

static bool is_intermediate(const struct scenario_value *value)
{
    return !value->initial && !value->declared;
}

static const char *node_begins(struct state *state, const struct scenario_record *record)
{
    size_t number = record->node;
    if (number >= state->graph->node_count || state->begun[number]) {
        return "a node began twice, or there is no such node";
    }
    const struct scenario_node *node = &state->graph->nodes[number];
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t input = node->inputs[i];
        if (!state->graph->values[input].initial && (!state->made[input] || state->gone[input])) {
            return "a node began while one of its inputs was not there";
        }
    }
    if (state->serial && record->live != state->live) {
        return "the live bytes before a node are not what the events add up to";
    }
    state->begun[number] = true;
    grow(state, node->workspace);
    return NULL;
}

static const char *node_ends(struct state *state, size_t number)
{
    if (number >= state->graph->node_count || !state->begun[number] || state->ended[number]) {
        return "a node ended that did not run";
    }
    state->ended[number] = true;
    state->live -= state->graph->nodes[number].workspace;
    return NULL;
}

static bool makes(const struct state *state, size_t number, uint32_t value)
{
    if (number >= state->graph->node_count || !state->begun[number]) {
        return false;
    }
    const struct scenario_node *node = &state->graph->nodes[number];
    return node->outputs[0] == value || (node->output_count > 1 && node->outputs[1] == value);
}

static const char *value_made(struct state *state, const struct scenario_record *record)
{
    const struct scenario_value *value = &state->graph->values[record->value];
    if (!makes(state, record->node, record->value) || state->made[record->value]) {
        return "a value was made twice, or by another node than its own";
    }
    if (record->bytes != value->bytes) {
        return "a value was made with other bytes than it has";
    }
    state->made[record->value] = true;
    const struct scenario_node *node = &state->graph->nodes[record->node];
    bool reuses = record->value == node->outputs[0] && scenario_reuses(state->graph, node);
    if (reuses != (record->kind == HEARTH_EVENT_REUSED)) {
        return "a value was made in the wrong storage: its own, or its input's";
    }
    if (reuses) {
        state->gone[node->inputs[0]] = true;
    } else if (is_intermediate(value)) {
        grow(state, value->bytes);
    }
    return NULL;
}

static const char *value_released(struct state *state, const struct scenario_record *record)
{
    const struct scenario_value *value = &state->graph->values[record->value];
    if (!is_intermediate(value) || !state->made[record->value] || state->gone[record->value]) {
        return "a value died that was not to die, or died twice";
    }
    for (uint32_t i = 0; i < state->graph->node_count; i++) {
        const struct scenario_node *node = &state->graph->nodes[i];
        for (uint32_t slot = 0; slot < node->input_count; slot++) {
            if (node->inputs[slot] == record->value && !state->begun[i]) {
                return "a value died before its last use";
            }
        }
    }
    state->gone[record->value] = true;
    state->live -= value->bytes;
    return NULL;
}

static const char *follow(struct state *state, const struct scenario_record *record)
{
    bool known = record->value < state->graph->value_count;
    state->most_live = record->live > state->most_live ? record->live : state->most_live;
    switch (record->kind) {
    case HEARTH_EVENT_NODE_BEGIN:
        return node_begins(state, record);
    case HEARTH_EVENT_NODE_END:
        return node_ends(state, record->node);
    case HEARTH_EVENT_MADE:
    case HEARTH_EVENT_REUSED:
        return known ? value_made(state, record) : "a value was made that the graph has not";
    case HEARTH_EVENT_RELEASED:
        return known ? value_released(state, record) : "a value died that the graph has not";
    case HEARTH_EVENT_COPIED:
        return "a payload was copied";
    case HEARTH_EVENT_TAKEN:
        return "storage changed its arena";
    default:
        return NULL;
    }
}

static int compare(const void *a, const void *b)
{
    const struct scenario_record *x = a;
    const struct scenario_record *y = b;
    if (x->ns != y->ns) {
        return x->ns < y->ns ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

static const char *judge_end(const struct state *state, uint64_t peak, uint32_t threads)
{
    for (uint32_t i = 0; i < state->graph->node_count; i++) {
        if (!state->ended[i]) {
            return "a node did not run";
        }
    }
    for (uint32_t i = 0; i < state->graph->value_count; i++) {
        const struct scenario_value *value = &state->graph->values[i];
        if (!value->initial && (!state->made[i] || state->gone[i] == value->declared)) {
            return "a value was not made, or did not die";
        }
    }
    uint64_t slack = state->serial ? 0 : state->largest * threads;
    if (state->live != 0 || state->most_live > peak || peak > state->peak + slack ||
        state->peak > peak + slack) {
        return "the peak is not what the events add up to";
    }
    return NULL;
}

const char *scenario_audit_end(struct scenario_audit *audit, uint64_t peak, bool serial)
{
    struct state state = {.graph = audit->graph, .serial = serial};
    const char *wrong = NULL;
    uint32_t count = 0;
    audit->graph = NULL;
    for (uint32_t thread = 0; thread < audit->threads; thread++) {
        memmove(&audit->records[count], &audit->records[(size_t)thread * RECORDS_MAX],
                audit->counts[thread] * sizeof *audit->records);
        count += audit->counts[thread];
    }
    qsort(audit->records, count, sizeof *audit->records, compare);
    for (uint32_t i = 0; i < count && wrong == NULL; i++) {
        wrong = follow(&state, &audit->records[i]);
    }
    return wrong != NULL ? wrong : judge_end(&state, peak, audit->threads);
}
