/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values: every name gets a number from whatever produces it, so a number that is new when an input
 * or a declared output is looked up means that nothing does, and one that is not new when a
 * producer brings it means that there are two.
 */
#include "runtime/plan_builder.h"

static const char ADD_PRODUCER[] =
    ", which nothing produces: add a node or an initial input that does";

/* Numbers the value of a producer. *fresh: it had none before. */
static enum hearth_status number_value(struct hearth_plan *plan, const char *name, uint32_t *value,
                                       bool *fresh)
{
    uint32_t before = plan->names.count;
    enum hearth_status status = hearth__names_add(&plan->names, name, value);
    *fresh = plan->names.count != before;
    if (status != HEARTH_OK || !*fresh)
        return status;
    plan->values[*value] = (struct hearth__plan_value){
        .producer = HEARTH__NO_NODE,
        .last_node = HEARTH__NO_NODE,
        .output_index = HEARTH__NO_VALUE,
    };
    return HEARTH_OK;
}

static enum hearth_status number_initial(struct hearth_plan *plan,
                                         const struct hearth_plan_builder *builder)
{
    for (uint32_t i = 0; i < builder->inputs.count; i++) {
        bool fresh;
        const char *name = hearth__names_text(&builder->inputs, i);
        enum hearth_status status = number_value(plan, name, &plan->initial[i], &fresh);
        if (status != HEARTH_OK)
            return status;
        plan->values[plan->initial[i]].is_input = true;
    }
    return HEARTH_OK;
}

static enum hearth_status say_two_producers(struct hearth__build *build, uint32_t value,
                                            uint32_t node)
{
    struct hearth__message *message = &build->message;
    const struct hearth__plan_value *of = &build->plan->values[value];
    hearth__message_value(message, hearth__plan_value_name(build->plan, value));
    hearth__message_add(message, " has two producers: ");
    if (of->producer == node) {
        hearth__message_add(message, "two output slots of ");
    } else {
        if (of->is_input)
            hearth__message_add(message, "the initial input");
        else
            hearth__message_node(message, build->builder, of->producer);
        hearth__message_add(message, " and ");
    }
    hearth__message_node(message, build->builder, node);
    return HEARTH_INVALID;
}

static enum hearth_status number_outputs(struct hearth__build *build, uint32_t node)
{
    struct hearth_plan *plan = build->plan;
    const struct hearth_node *given = &build->builder->records[node]->node;
    struct hearth__output_slot *slots = &plan->outputs[plan->nodes[node].outputs.first];
    for (uint32_t i = 0; i < given->output_count; i++) {
        slots[i].value = HEARTH__NO_VALUE;
        if (given->outputs[i][0] == '\0')
            continue;
        bool fresh;
        enum hearth_status status = number_value(plan, given->outputs[i], &slots[i].value, &fresh);
        if (status != HEARTH_OK)
            return status;
        struct hearth__plan_value *value = &plan->values[slots[i].value];
        if (!fresh)
            return say_two_producers(build, slots[i].value, node);
        value->producer = node;
        value->producer_slot = i;
        value->last_node = node;
    }
    return HEARTH_OK;
}

static enum hearth_status find_inputs(struct hearth__build *build, uint32_t node)
{
    struct hearth_plan *plan = build->plan;
    const struct hearth_node *given = &build->builder->records[node]->node;
    struct hearth__input_slot *slots = &plan->inputs[plan->nodes[node].inputs.first];
    for (uint32_t i = 0; i < given->input_count; i++) {
        slots[i].value = HEARTH__NO_VALUE;
        if (given->inputs[i][0] == '\0')
            continue;
        slots[i].value = hearth__names_find(&plan->names, given->inputs[i]);
        if (slots[i].value != HEARTH__NO_VALUE)
            continue;
        hearth__message_node(&build->message, build->builder, node);
        hearth__message_add(&build->message, " needs ");
        hearth__message_value(&build->message, given->inputs[i]);
        hearth__message_add(&build->message, ADD_PRODUCER);
        return HEARTH_INVALID;
    }
    return HEARTH_OK;
}

static enum hearth_status find_declared(struct hearth__build *build)
{
    struct hearth_plan *plan = build->plan;
    for (uint32_t i = 0; i < plan->output_count; i++) {
        const char *name = hearth__names_text(&build->builder->outputs, i);
        plan->declared[i] = hearth__names_find(&plan->names, name);
        if (plan->declared[i] == HEARTH__NO_VALUE) {
            hearth__message_add(&build->message, "the declared outputs have ");
            hearth__message_value(&build->message, name);
            hearth__message_add(&build->message, ADD_PRODUCER);
            return HEARTH_INVALID;
        }
        struct hearth__plan_value *value = &plan->values[plan->declared[i]];
        value->is_output = true;
        value->output_index = i;
    }
    return HEARTH_OK;
}

enum hearth_status hearth__plan_number_values(struct hearth__build *build)
{
    uint32_t nodes = (uint32_t)build->plan->node_count;
    enum hearth_status status = number_initial(build->plan, build->builder);
    for (uint32_t i = 0; i < nodes && status == HEARTH_OK; i++)
        status = number_outputs(build, i);
    for (uint32_t i = 0; i < nodes && status == HEARTH_OK; i++)
        status = find_inputs(build, i);
    return status == HEARTH_OK ? find_declared(build) : status;
}
