/* SPDX-License-Identifier: Apache-2.0 */
/* A run from its beginning to its end, and the serial one. */
#include "runtime/run.h"

static bool has_value(const struct hearth__value *value)
{
    return hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_NONE;
}

static void drop(struct hearth__run *run, struct hearth__value *value)
{
    if (value->domain == HEARTH__DOMAIN_NONE && !has_value(value))
        return;
    hearth__gauge_sub(run->gauge, (enum hearth__domain)value->domain, value->counted);
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
    (void)hearth__value_drop(run->holder, value);
}

/* Everything that nodes produced; initial inputs stay. */
static void drop_produced(struct hearth__run *run)
{
    for (uint32_t i = 0; i < run->plan->value_count; i++)
        if (!run->plan->values[i].is_input)
            drop(run, &run->holder->values[i]);
}

static void missing_input(struct hearth__run *run, uint32_t value)
{
    const struct hearth_plan *plan = run->plan;
    uint32_t node = plan->values[value].last_node;
    bool used = plan->values[value].uses != 0 && node != HEARTH__NO_NODE;
    hearth__run_fail(
        run, HEARTH_INVALID,
        "input \"%.60s\" has no value, and %s%.60s%s: set, borrow or stage it before the run",
        hearth__value_name(run, value), used ? "node \"" : "",
        used ? plan->nodes[node].name : "it is an output of the graph", used ? "\" uses it" : "");
}

enum hearth_status hearth__run_begin(struct hearth__run *run)
{
    const struct hearth_plan *plan = run->plan;
    run->holder->error[0] = '\0';
    drop_produced(run);
    for (size_t i = 0; i < plan->input_count; i++) {
        uint32_t value = plan->initial[i];
        bool needed = plan->values[value].uses != 0 || plan->values[value].is_output;
        if (!needed || has_value(&run->holder->values[value]))
            continue;
        missing_input(run, value);
        return HEARTH_INVALID;
    }
    run->begun = true;
    return HEARTH_OK;
}

void hearth__run_end(struct hearth__run *run)
{
    if (hearth__run_failed(run))
        drop_produced(run);
    bool body = run->parent != NULL;
    for (uint32_t i = 0; i < run->plan->value_count; i++) {
        struct hearth__value *value = &run->holder->values[i];
        if (!body) { /* what stays is not this run's any more */
            value->domain = HEARTH__DOMAIN_NONE;
            value->counted = 0;
        } else if (run->plan->values[i].is_input && !run->plan->values[i].is_output &&
                   has_value(value) &&
                   hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_BORROWED) {
            drop(run, value);
        }
    }
}

static void run_nodes(struct hearth__frame *frame)
{
    const struct hearth_plan *plan = frame->run->plan;
    for (size_t step = 0; step < plan->node_count; step++) {
        const struct hearth__plan_node *node = &plan->nodes[plan->order[step]];
        hearth__frame_run(frame, plan->order[step]);
        bool failed = hearth__run_failed(frame->run);
        for (uint32_t i = 0; i < node->deaths.count && !failed; i++)
            hearth__value_dies(frame, plan->deaths[node->deaths.first + i]);
        hearth__event(frame->run, frame, HEARTH_EVENT_NODE_END, NULL, 0);
        if (hearth__unlikely(failed))
            return;
    }
}

enum hearth_status hearth__run_serially(struct hearth__run *run)
{
    struct hearth__frame frame;
    enum hearth_status status = hearth__run_begin(run);
    if (status == HEARTH_OK) {
        hearth__frame_init(&frame, run, run->parent == NULL ? 0 : run->parent->thread);
        run_nodes(&frame);
        hearth__tally_add(&run->tally, &frame.tally);
    }
    hearth__run_end(run);
    return (enum hearth_status)hearth__load_relaxed(&run->status);
}
