/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_truth.h"

#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

enum { NOTHING = -2, INITIAL = -1 };

struct truth {
    const struct plan_graph *graph;
    const struct hearth_plan *plan;
    char *why;
    size_t bytes;
    int producer[GRAPH_VALUES]; /* node, INITIAL or NOTHING */
    uint32_t producer_slot[GRAPH_VALUES];
    uint32_t slots[GRAPH_NODES][GRAPH_VALUES]; /* input slots in which a node has a value */
    bool follows[GRAPH_NODES][GRAPH_NODES];    /* [a][b]: b uses an output of a */
    bool before[GRAPH_NODES][GRAPH_NODES];     /* [a][b]: a path leads from a to b */
    uint32_t step[GRAPH_NODES];
    uint32_t order[GRAPH_NODES];
};

#define MUST(condition, ...)                                                                       \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            int used_ = snprintf(truth->why, truth->bytes, "%s: ", #condition);                    \
            if (used_ >= 0 && (size_t)used_ < truth->bytes)                                        \
                (void)snprintf(truth->why + used_, truth->bytes - (size_t)used_, __VA_ARGS__);     \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

/* False: a value has two producers. */
static bool find_producers(struct truth *truth)
{
    const struct plan_graph *graph = truth->graph;
    for (uint32_t i = 0; i < GRAPH_VALUES; i++)
        truth->producer[i] = NOTHING;
    for (uint32_t i = 0; i < graph->input_count; i++)
        truth->producer[graph->inputs[i]] = INITIAL;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        for (uint32_t j = 0; j < graph->nodes[i].output_count; j++) {
            uint32_t value = graph->nodes[i].outputs[j];
            if (value == GRAPH_NO_VALUE)
                continue;
            if (truth->producer[value] != NOTHING)
                return false;
            truth->producer[value] = (int)i;
            truth->producer_slot[value] = j;
        }
    }
    return true;
}

/* False: something needs a value that nothing produces. */
static bool find_users(struct truth *truth)
{
    const struct plan_graph *graph = truth->graph;
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (truth->producer[graph->outputs[i]] == NOTHING)
            return false;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        for (uint32_t j = 0; j < graph->nodes[i].input_count; j++) {
            uint32_t value = graph->nodes[i].inputs[j];
            if (value == GRAPH_NO_VALUE)
                continue;
            if (truth->producer[value] == NOTHING)
                return false;
            truth->slots[i][value]++;
            if (truth->producer[value] != INITIAL)
                truth->follows[truth->producer[value]][i] = true;
        }
    }
    return true;
}

/* False: a cycle. */
static bool find_paths(struct truth *truth)
{
    uint32_t count = truth->graph->node_count;
    memcpy(truth->before, truth->follows, sizeof truth->before);
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = 0; j < count; j++)
                truth->before[i][j] |= truth->before[i][k] && truth->before[k][j];
    for (uint32_t i = 0; i < count; i++)
        if (truth->before[i][i])
            return false;
    return true;
}

/* The least node none of whose ancestors is missing, again and again. */
static void find_order(struct truth *truth)
{
    uint32_t count = truth->graph->node_count;
    bool placed[GRAPH_NODES] = {false};
    for (uint32_t step = 0; step < count; step++) {
        uint32_t node = 0;
        for (; node < count; node++) {
            bool ready = !placed[node];
            for (uint32_t i = 0; i < count && ready; i++)
                ready = placed[i] || !truth->before[i][node];
            if (ready)
                break;
        }
        placed[node] = true;
        truth->order[step] = node;
        truth->step[node] = step;
    }
}

static bool listed(const uint32_t *values, uint32_t count, uint32_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] == value)
            return true;
    return false;
}

static bool is_input(const struct truth *truth, uint32_t value)
{
    return truth->producer[value] == INITIAL;
}

static bool is_output(const struct truth *truth, uint32_t value)
{
    return listed(truth->graph->outputs, truth->graph->output_count, value);
}

static uint32_t number_of(const struct truth *truth, uint32_t value)
{
    char name[GRAPH_NAME];
    plan_graph_value_name(value, name);
    return value == GRAPH_NO_VALUE ? HEARTH__NO_VALUE
                                   : hearth__names_find(&truth->plan->names, name);
}

static uint32_t users(const struct truth *truth, uint32_t value)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < truth->graph->node_count; i++)
        count += truth->slots[i][value] != 0;
    return count;
}

static uint32_t last_node(const struct truth *truth, uint32_t value)
{
    for (uint32_t step = truth->graph->node_count; step-- > 0;)
        if (truth->slots[truth->order[step]][value] != 0)
            return truth->order[step];
    return is_input(truth, value) ? HEARTH__NO_NODE : (uint32_t)truth->producer[value];
}

static bool may_take_over(const struct truth *truth, uint32_t node, uint32_t value)
{
    if (value == GRAPH_NO_VALUE || is_input(truth, value) || is_output(truth, value) ||
        truth->slots[node][value] != 1)
        return false;
    for (uint32_t i = 0; i < truth->graph->node_count; i++)
        if (i != node && truth->slots[i][value] != 0 && !truth->before[i][node])
            return false;
    return true;
}

static bool check_value(struct truth *truth, uint32_t value)
{
    const struct hearth_plan *plan = truth->plan;
    char name[GRAPH_NAME];
    plan_graph_value_name(value, name);
    uint32_t number = number_of(truth, value);
    if (truth->producer[value] == NOTHING) {
        MUST(number == HEARTH__NO_VALUE, "%s", name);
        return true;
    }
    MUST(number < plan->value_count, "%s", name);
    const struct hearth__plan_value *is = &plan->values[number];
    uint32_t last = last_node(truth, value);
    bool input = is_input(truth, value), output = is_output(truth, value);
    MUST(is->is_input == input && is->is_output == output, "%s", name);
    MUST(input ? is->producer == HEARTH__NO_NODE : (int)is->producer == truth->producer[value],
         "%s", name);
    MUST(input || is->producer_slot == truth->producer_slot[value], "%s", name);
    MUST(is->uses == users(truth, value), "%s", name);
    MUST(is->last_node == last, "%s", name);
    MUST(output ? truth->graph->outputs[is->output_index] == value
                : is->output_index == HEARTH__NO_VALUE,
         "%s", name);
    MUST(hearth_plan_use_count(plan, name) == is->uses, "%s", name);
    MUST(hearth_plan_producer(plan, name) == (input ? HEARTH_NODE_NONE : is->producer), "%s", name);
    MUST(hearth_plan_last_use(plan, name) ==
             (output || last == HEARTH__NO_NODE ? HEARTH_NODE_NONE : last),
         "%s", name);
    for (uint32_t i = 0; i < plan->node_count; i++) {
        const struct hearth__range *deaths = &plan->nodes[i].deaths;
        bool dies = !input && !output && i == last;
        MUST(listed(&plan->deaths[deaths->first], deaths->count, number) == dies, "%s, node %u",
             name, i);
    }
    return true;
}

static bool check_slots(struct truth *truth, uint32_t number)
{
    const struct hearth_plan *plan = truth->plan;
    const struct graph_node *given = &truth->graph->nodes[number];
    const struct hearth__plan_node *node = &plan->nodes[number];
    uint32_t used = 0, io = 0;
    MUST(node->inputs.count == given->input_count, "node %u", number);
    MUST(node->outputs.count == given->output_count, "node %u", number);
    for (uint32_t i = 0; i < given->output_count; i++) {
        const struct hearth__output_slot *slot = &plan->outputs[node->outputs.first + i];
        uint32_t value = given->outputs[i];
        enum hearth_role role = HEARTH_ROLE_NONE;
        if (value != GRAPH_NO_VALUE)
            role = is_output(truth, value) ? HEARTH_ROLE_IO : HEARTH_ROLE_EXECUTION;
        used += role != HEARTH_ROLE_NONE;
        io += role == HEARTH_ROLE_IO;
        MUST(slot->value == number_of(truth, value), "node %u, output %u", number, i);
        MUST(slot->role == role, "node %u, output %u", number, i);
        MUST(hearth_plan_role(plan, number, i) == role, "node %u, output %u", number, i);
    }
    MUST(node->all_outputs_io == (used > 0 && used == io), "node %u", number);
    for (uint32_t i = 0; i < given->input_count; i++) {
        const struct hearth__input_slot *slot = &plan->inputs[node->inputs.first + i];
        bool last = may_take_over(truth, number, given->inputs[i]);
        MUST(slot->value == number_of(truth, given->inputs[i]), "node %u, input %u", number, i);
        MUST(slot->last == last, "node %u, input %u", number, i);
        for (uint32_t j = 0; j <= given->output_count; j++)
            MUST(hearth_plan_may_reuse(plan, number, i, j) ==
                     (last && hearth_plan_role(plan, number, j) == HEARTH_ROLE_EXECUTION),
                 "node %u, input %u, output %u", number, i, j);
    }
    return true;
}

static bool check_node(struct truth *truth, uint32_t number)
{
    const struct hearth_plan *plan = truth->plan;
    const struct hearth__plan_node *node = &plan->nodes[number];
    const uint32_t *next = &plan->next[node->next.first];
    const uint32_t *uses = &plan->uses[node->uses.first];
    uint32_t waits = 0, following = 0, used = 0;
    char name[GRAPH_NAME];
    plan_graph_node_name(number, name);
    MUST(strcmp(node->name, name) == 0, "node %u", number);
    MUST(strcmp(hearth_plan_node_name(plan, number), name) == 0, "node %u", number);
    MUST(node->user == (const void *)truth->graph && node->kernel != NULL && node->flags == 0,
         "node %u", number);
    for (uint32_t i = 0; i < plan->node_count; i++) {
        waits += truth->follows[i][number];
        following += truth->follows[number][i];
        MUST(listed(next, node->next.count, i) == truth->follows[number][i], "nodes %u, %u", number,
             i);
    }
    MUST(node->waits == waits, "node %u", number);
    MUST(node->next.count == following, "node %u", number);
    for (uint32_t i = 0; i < GRAPH_VALUES; i++) {
        bool is_used = truth->slots[number][i] != 0;
        used += is_used;
        MUST(listed(uses, node->uses.count, number_of(truth, i)) == is_used, "node %u, v%u", number,
             i);
    }
    MUST(node->uses.count == used, "node %u", number);
    MUST(node->step == truth->step[number], "node %u", number);
    MUST(plan->order[node->step] == number, "node %u", number);
    MUST(hearth_plan_node_at(plan, node->step) == number, "node %u", number);
    return check_slots(truth, number);
}

static bool check_plan(struct truth *truth)
{
    const struct hearth_plan *plan = truth->plan;
    const struct plan_graph *graph = truth->graph;
    size_t values = 0;
    MUST(plan->node_count == graph->node_count, "%zu", plan->node_count);
    MUST(plan->input_count == graph->input_count, "%zu", plan->input_count);
    MUST(plan->output_count == graph->output_count, "%zu", plan->output_count);
    MUST(hearth_plan_output_count(plan) == graph->output_count, "%zu", plan->output_count);
    MUST(plan->most_bodies == 0 && plan->body_count == 0, "%zu", plan->body_count);
    for (uint32_t i = 0; i < graph->input_count; i++)
        MUST(plan->initial[i] == number_of(truth, graph->inputs[i]), "input %u", i);
    for (uint32_t i = 0; i < graph->output_count; i++) {
        char name[GRAPH_NAME];
        plan_graph_value_name(graph->outputs[i], name);
        MUST(plan->declared[i] == number_of(truth, graph->outputs[i]), "output %u", i);
        MUST(strcmp(hearth_plan_output_name(plan, i), name) == 0, "output %u", i);
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (!check_node(truth, i))
            return false;
    for (uint32_t i = 0; i < GRAPH_VALUES; i++) {
        values += truth->producer[i] != NOTHING;
        if (!check_value(truth, i))
            return false;
    }
    MUST(plan->value_count == values && plan->names.count == values, "%zu", values);
    return true;
}

bool plan_truth_check(const struct plan_graph *graph, bool *fit, char *why, size_t bytes)
{
    static struct truth all;
    struct truth *truth = &all;
    char message[128] = "never written";
    struct hearth_plan *plan = NULL;
    memset(truth, 0, sizeof *truth);
    truth->graph = graph;
    truth->why = why;
    truth->bytes = bytes;
    bool sound = find_producers(truth) && find_users(truth) && find_paths(truth);
    if (fit != NULL)
        *fit = sound;
    enum hearth_status status = plan_graph_build(graph, &plan, message, sizeof message);
    if (!sound) {
        MUST(status == HEARTH_INVALID, "%s", hearth_status_name(status));
        MUST(plan == NULL, "unfit");
        MUST(message[0] != '\0', "unfit");
        return true;
    }
    MUST(status == HEARTH_OK, "%s: %s", hearth_status_name(status), message);
    MUST(message[0] == '\0', "%s", message);
    truth->plan = plan;
    find_order(truth);
    bool right = check_plan(truth);
    hearth_plan_unref(plan);
    return right;
}
