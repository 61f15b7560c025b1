/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which inputs an output may take over, in every order of execution: the node must be the only one
 * left that uses the value, so every other user has to be its ancestor. Ancestors come before it in
 * any order that works, so only the value's last user in serial order can be that node: there is
 * one question per value, and none if it is the only user.
 *
 * The questions are answered 64 at a time, one bit each, by a sweep backwards over the serial
 * order:
 *
 *     at the node that asks     its bit is set
 *     at each node              the bits go on to the nodes that produce what it uses
 *     at each other user        a bit that is missing means no
 *
 * A node's bits are complete when the sweep arrives, since everything that waits for the node has a
 * later step. The sweep ends at the earliest user of any of its values, and questions are taken in
 * serial order, so the residual connections of a long chain make short sweeps. Whatever the graph,
 * there are at most values / 64 + 1 sweeps of at most all uses each: 10,000 nodes with 20,000 uses
 * cost at most 3.2 million steps, where a search per value could visit 200 million.
 *
 * Sharing one traversal among many sources is from M. Then et al., "The More the Merrier: Efficient
 * Multi-Source Graph Traversal", Proceedings of the VLDB Endowment 8(4), 2014.
 */
#include "runtime/plan_builder.h"

#include <string.h>

#define QUESTIONS 64u

struct sweep {
    struct hearth__input_slot *slots[QUESTIONS];
    uint32_t count;
    uint32_t low;  /* steps */
    uint32_t high; /* of the last question, which is the latest */
    uint64_t refused;
};

static void visit(struct hearth__build *build, struct sweep *sweep, uint32_t step)
{
    const struct hearth_plan *plan = build->plan;
    const struct hearth__range *uses = &plan->nodes[plan->order[step]].uses;
    uint64_t bits = build->reached[step];
    for (uint32_t i = 0; i < uses->count; i++) {
        uint32_t value = plan->uses[uses->first + i];
        uint32_t question = build->question[value];
        if (question != 0)
            sweep->refused |= ~bits & UINT64_C(1) << (question - 1);
        uint32_t producer = plan->values[value].producer;
        if (producer != HEARTH__NO_NODE && plan->nodes[producer].step >= sweep->low)
            build->reached[plan->nodes[producer].step] |= bits;
    }
}

static void answer(struct hearth__build *build, struct sweep *sweep)
{
    if (sweep->count == 0)
        return;
    struct hearth_plan *plan = build->plan;
    memset(&build->reached[sweep->low], 0, (sweep->high - sweep->low + 1) * sizeof *build->reached);
    for (uint32_t i = 0; i < sweep->count; i++) {
        uint32_t value = sweep->slots[i]->value;
        build->question[value] = (uint8_t)(i + 1);
        build->reached[plan->nodes[plan->values[value].last_node].step] |= UINT64_C(1) << i;
    }
    for (uint32_t step = sweep->high + 1; step-- > sweep->low;)
        visit(build, sweep, step);
    for (uint32_t i = 0; i < sweep->count; i++) {
        build->question[sweep->slots[i]->value] = 0;
        sweep->slots[i]->last = (sweep->refused >> i & 1) == 0;
    }
    *sweep = (struct sweep){.low = UINT32_MAX};
}

/* The number of slots in which the last user has each value, and the step of the first user. */
static void prepare(struct hearth__build *build)
{
    const struct hearth_plan *plan = build->plan;
    memset(build->value_mark, 0, plan->value_count * sizeof *build->value_mark);
    memset(build->first_step, 0xFF, plan->value_count * sizeof *build->first_step);
    for (uint32_t step = 0; step < plan->node_count; step++) {
        uint32_t node = plan->order[step];
        const struct hearth__range *inputs = &plan->nodes[node].inputs;
        for (uint32_t i = 0; i < inputs->count; i++) {
            uint32_t value = plan->inputs[inputs->first + i].value;
            if (value == HEARTH__NO_VALUE)
                continue;
            if (build->first_step[value] == UINT32_MAX)
                build->first_step[value] = step;
            build->value_mark[value] += plan->values[value].last_node == node;
        }
    }
}

void hearth__plan_find_last(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    struct sweep sweep = {.low = UINT32_MAX};
    prepare(build);
    for (uint32_t step = 0; step < plan->node_count; step++) {
        uint32_t node = plan->order[step];
        const struct hearth__range *inputs = &plan->nodes[node].inputs;
        for (uint32_t i = 0; i < inputs->count; i++) {
            struct hearth__input_slot *slot = &plan->inputs[inputs->first + i];
            if (slot->value == HEARTH__NO_VALUE)
                continue;
            const struct hearth__plan_value *value = &plan->values[slot->value];
            if (value->is_input || value->is_output || value->last_node != node ||
                build->value_mark[slot->value] != 1)
                continue;
            if (value->uses == 1) {
                slot->last = true;
                continue;
            }
            sweep.slots[sweep.count++] = slot;
            sweep.high = step;
            if (build->first_step[slot->value] < sweep.low)
                sweep.low = build->first_step[slot->value];
            if (sweep.count == QUESTIONS)
                answer(build, &sweep);
        }
    }
    answer(build, &sweep);
}
