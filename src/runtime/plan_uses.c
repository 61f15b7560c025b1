/* SPDX-License-Identifier: Apache-2.0 */
/* Uses, roles and deaths. A node uses a value once, in however many slots it has it. */
#include "runtime/plan_builder.h"

static void find_roles(struct hearth_plan *plan, struct hearth__plan_node *node)
{
    uint32_t used = 0;
    uint32_t io = 0;
    for (uint32_t i = 0; i < node->outputs.count; i++) {
        struct hearth__output_slot *slot = &plan->outputs[node->outputs.first + i];
        slot->role = HEARTH_ROLE_NONE;
        if (slot->value == HEARTH__NO_VALUE)
            continue;
        bool declared = plan->values[slot->value].is_output;
        slot->role = declared ? HEARTH_ROLE_IO : HEARTH_ROLE_EXECUTION;
        used++;
        io += declared;
    }
    node->all_outputs_io = used != 0 && io == used;
}

void hearth__plan_find_uses(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    uint32_t total = 0;
    for (uint32_t i = 0; i < plan->node_count; i++) {
        struct hearth__plan_node *node = &plan->nodes[i];
        find_roles(plan, node);
        node->uses.first = total;
        for (uint32_t j = 0; j < node->inputs.count; j++) {
            uint32_t value = plan->inputs[node->inputs.first + j].value;
            if (value == HEARTH__NO_VALUE || build->value_mark[value] == i + 1)
                continue;
            build->value_mark[value] = i + 1;
            plan->values[value].uses++;
            plan->uses[total++] = value;
        }
        node->uses.count = total - node->uses.first;
    }
}

void hearth__plan_find_deaths(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    for (uint32_t step = 0; step < plan->node_count; step++) {
        uint32_t node = plan->order[step];
        const struct hearth__range *uses = &plan->nodes[node].uses;
        for (uint32_t i = 0; i < uses->count; i++)
            plan->values[plan->uses[uses->first + i]].last_node = node;
    }
    for (int filling = 0; filling <= 1; filling++) {
        for (uint32_t i = 0; i < plan->value_count; i++) {
            const struct hearth__plan_value *value = &plan->values[i];
            if (value->is_input || value->is_output)
                continue;
            struct hearth__range *deaths = &plan->nodes[value->last_node].deaths;
            if (filling)
                plan->deaths[deaths->first + deaths->count] = i;
            deaths->count++;
        }
        if (!filling)
            HEARTH__LAY_OUT(plan, deaths);
    }
}
