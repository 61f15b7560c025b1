/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The serial order. A. B. Kahn, "Topological sorting of large networks", Communications of the ACM
 * 5(11), 1962: a node is ready when the last node it waits for has been placed. Of the ready nodes
 * the one that was added first comes next, kept in a binary heap (J. W. J. Williams, "Algorithm
 * 232: Heapsort", Communications of the ACM 7(6), 1964). So a graph that was added in an order that
 * works keeps it, and the order depends on nothing but the graph.
 *
 * Nodes wait for nodes, not for values: a pair that shares several values counts once. Cost:
 * O(nodes log nodes + uses).
 */
#include "runtime/plan_builder.h"

#include <string.h>

/* Whether the node waits for a node not seen before; then it is marked as seen. */
static bool waits_for(struct hearth__build *build, uint32_t node, uint32_t value)
{
    uint32_t producer = build->plan->values[value].producer;
    if (producer == HEARTH__NO_NODE || build->node_mark[producer] == node + 1)
        return false;
    build->node_mark[producer] = node + 1;
    return true;
}

static void connect(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    size_t mark_bytes = plan->node_count * sizeof *build->node_mark;
    for (int filling = 0; filling <= 1; filling++) {
        memset(build->node_mark, 0, mark_bytes);
        for (uint32_t i = 0; i < plan->node_count; i++) {
            struct hearth__plan_node *node = &plan->nodes[i];
            const uint32_t *uses = &plan->uses[node->uses.first];
            for (uint32_t j = 0; j < node->uses.count; j++) {
                if (!waits_for(build, i, uses[j]))
                    continue;
                struct hearth__range *next = &plan->nodes[plan->values[uses[j]].producer].next;
                if (filling)
                    plan->next[next->first + next->count] = i;
                else
                    node->waits++;
                next->count++;
            }
        }
        if (!filling)
            HEARTH__LAY_OUT(plan, next);
    }
}

static void push(uint32_t *heap, uint32_t *count, uint32_t node)
{
    uint32_t at = (*count)++;
    for (; at > 0 && heap[(at - 1) / 2] > node; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = node;
}

static uint32_t pop(uint32_t *heap, uint32_t *count)
{
    uint32_t least = heap[0];
    uint32_t moved = heap[--*count];
    size_t at = 0;
    for (size_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= moved)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return least;
}

/* A value by which a node waits for one that was not placed either. There is one, or the node
 * would have been. */
static uint32_t blocking_value(const struct hearth__build *build, uint32_t node)
{
    const struct hearth_plan *plan = build->plan;
    const uint32_t *uses = &plan->uses[plan->nodes[node].uses.first];
    uint32_t i = 0;
    for (;; i++) {
        uint32_t producer = plan->values[uses[i]].producer;
        if (producer != HEARTH__NO_NODE && build->left[producer] != 0)
            return uses[i];
    }
}

/* From a node that was not placed, backwards from one that it waits for to the next: the first
 * one that is met twice is on a cycle. */
static enum hearth_status say_cycle(struct hearth__build *build)
{
    const struct hearth_plan *plan = build->plan;
    uint32_t node = 0;
    while (build->left[node] == 0)
        node++;
    memset(build->node_mark, 0, plan->node_count * sizeof *build->node_mark);
    while (build->node_mark[node] == 0) {
        build->node_mark[node] = 1;
        node = plan->values[blocking_value(build, node)].producer;
    }
    uint32_t value = blocking_value(build, node);
    struct hearth__message *message = &build->message;
    hearth__message_add(message, "cycle: ");
    hearth__message_node(message, build->builder, node);
    hearth__message_add(message, " needs ");
    hearth__message_value(message, hearth__plan_value_name(plan, value));
    hearth__message_add(message, plan->values[value].producer == node
                                     ? ", which is its own output"
                                     : ", which is made from an output of the node");
    return HEARTH_INVALID;
}

enum hearth_status hearth__plan_order(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    connect(build);
    uint32_t ready = 0;
    uint32_t step = 0;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        build->left[i] = plan->nodes[i].waits;
        if (build->left[i] == 0)
            push(build->heap, &ready, i);
    }
    while (ready > 0) {
        uint32_t node = pop(build->heap, &ready);
        plan->order[step] = node;
        plan->nodes[node].step = step++;
        const struct hearth__range *next = &plan->nodes[node].next;
        for (uint32_t i = 0; i < next->count; i++) {
            uint32_t follower = plan->next[next->first + i];
            if (--build->left[follower] == 0)
                push(build->heap, &ready, follower);
        }
    }
    return step == plan->node_count ? HEARTH_OK : say_cycle(build);
}
