/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: references and questions. */
#include "runtime/plan.h"

#include <stdlib.h>

void hearth_plan_ref(struct hearth_plan *plan)
{
    if (plan != NULL)
        (void)hearth__fetch_add_relaxed(&plan->refs, 1);
}

static bool last_reference(struct hearth_plan *plan)
{
    /* EDGE plan.references, publish: this holder's use of the plan. */
    /* EDGE plan.references, observe: everybody's, before it ends. */
    return hearth__fetch_sub_acq_rel(&plan->refs, 1) == 1;
}

void hearth_plan_unref(struct hearth_plan *plan)
{
    if (plan == NULL || !last_reference(plan))
        return;
    /* A list instead of recursion: bodies may be nested as deep as memory allows. */
    plan->next_ended = NULL;
    while (plan != NULL) {
        struct hearth_plan *ended = plan->next_ended;
        for (size_t i = 0; i < plan->body_count; i++) {
            if (last_reference(plan->bodies[i])) {
                plan->bodies[i]->next_ended = ended;
                ended = plan->bodies[i];
            }
        }
        hearth__names_fini(&plan->names);
        free(plan);
        plan = ended;
    }
}

static const struct hearth__plan_node *node_of(const struct hearth_plan *plan, size_t node)
{
    return plan != NULL && node < plan->node_count ? &plan->nodes[node] : NULL;
}

static const struct hearth__plan_value *value_of(const struct hearth_plan *plan, const char *name)
{
    uint32_t value = HEARTH__NO_VALUE;
    if (plan != NULL && name != NULL)
        value = hearth__names_find(&plan->names, name);
    return value == HEARTH__NO_VALUE ? NULL : &plan->values[value];
}

static size_t node_number(uint32_t node)
{
    return node == HEARTH__NO_NODE ? HEARTH_NODE_NONE : node;
}

size_t hearth_plan_node_count(const struct hearth_plan *plan)
{
    return plan == NULL ? 0 : plan->node_count;
}

const char *hearth_plan_node_name(const struct hearth_plan *plan, size_t node)
{
    const struct hearth__plan_node *found = node_of(plan, node);
    return found == NULL ? "" : found->name;
}

size_t hearth_plan_node_at(const struct hearth_plan *plan, size_t step)
{
    return node_of(plan, step) == NULL ? HEARTH_NODE_NONE : plan->order[step];
}

size_t hearth_plan_output_count(const struct hearth_plan *plan)
{
    return plan == NULL ? 0 : plan->output_count;
}

const char *hearth_plan_output_name(const struct hearth_plan *plan, size_t index)
{
    if (plan == NULL || index >= plan->output_count)
        return NULL;
    return hearth__plan_value_name(plan, plan->declared[index]);
}

enum hearth_role hearth_plan_role(const struct hearth_plan *plan, size_t node, size_t slot)
{
    const struct hearth__plan_node *found = node_of(plan, node);
    if (found == NULL || slot >= found->outputs.count)
        return HEARTH_ROLE_NONE;
    return plan->outputs[found->outputs.first + slot].role;
}

size_t hearth_plan_producer(const struct hearth_plan *plan, const char *value)
{
    const struct hearth__plan_value *found = value_of(plan, value);
    return found == NULL ? HEARTH_NODE_NONE : node_number(found->producer);
}

size_t hearth_plan_last_use(const struct hearth_plan *plan, const char *value)
{
    const struct hearth__plan_value *found = value_of(plan, value);
    return found == NULL || found->is_output ? HEARTH_NODE_NONE : node_number(found->last_node);
}

size_t hearth_plan_use_count(const struct hearth_plan *plan, const char *value)
{
    const struct hearth__plan_value *found = value_of(plan, value);
    return found == NULL ? 0 : found->uses;
}

bool hearth_plan_may_reuse(const struct hearth_plan *plan, size_t node, size_t input_slot,
                           size_t output_slot)
{
    const struct hearth__plan_node *found = node_of(plan, node);
    if (found == NULL || input_slot >= found->inputs.count)
        return false;
    return plan->inputs[found->inputs.first + input_slot].last &&
           hearth_plan_role(plan, node, output_slot) == HEARTH_ROLE_EXECUTION;
}
