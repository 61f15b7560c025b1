/* SPDX-License-Identifier: Apache-2.0 */
/* Building: one allocation for the plan and its arrays, one for the room that the stages need,
 * and the stages in their order. */
#include "runtime/plan_builder.h"

#include <stdlib.h>
#include <string.h>

/* Arrays are cut out of a block one after the other. Without a base they are only measured. */
struct block {
    unsigned char *base;
    size_t used;
};

static void *carve(struct block *block, size_t count, size_t size)
{
    size_t at = block->used;
    block->used += (count * size + 7) & ~(size_t)7;
    return block->base == NULL ? NULL : block->base + at;
}

static size_t value_count(const struct hearth_plan_builder *builder)
{
    /* Every value has one producer, else there is no plan. */
    return builder->inputs.count + builder->used_outputs;
}

/* Returns the place of the nodes' names. */
static char *place_plan(struct hearth_plan *plan, struct block *block,
                        const struct hearth_plan_builder *builder)
{
    size_t nodes = builder->count;
    size_t values = value_count(builder);
    plan->nodes = carve(block, nodes, sizeof *plan->nodes);
    plan->values = carve(block, values, sizeof *plan->values);
    plan->bodies = carve(block, builder->body_count, sizeof(struct hearth_plan *));
    plan->inputs = carve(block, builder->input_slots, sizeof *plan->inputs);
    plan->outputs = carve(block, builder->output_slots, sizeof *plan->outputs);
    plan->order = carve(block, nodes, sizeof *plan->order);
    plan->initial = carve(block, builder->inputs.count, sizeof *plan->initial);
    plan->declared = carve(block, builder->outputs.count, sizeof *plan->declared);
    /* Each pair of nodes comes from an input slot, and so does each use. */
    plan->next = carve(block, builder->input_slots, sizeof *plan->next);
    plan->uses = carve(block, builder->input_slots, sizeof *plan->uses);
    plan->deaths = carve(block, values, sizeof *plan->deaths);
    return carve(block, builder->name_bytes, 1);
}

/* Nodes and their slots, as far as no name needs to be looked up. */
static void fill_nodes(struct hearth_plan *plan, const struct hearth_plan_builder *builder,
                       char *names)
{
    struct hearth__range inputs = {0}, outputs = {0}, bodies = {0};
    for (size_t i = 0; i < builder->count; i++) {
        const struct hearth__node_record *record = builder->records[i];
        const struct hearth_node *given = &record->node;
        struct hearth__plan_node *node = &plan->nodes[i];
        node->name = "";
        if (record->name_bytes != 0) {
            memcpy(names, given->name, record->name_bytes);
            node->name = names;
            names += record->name_bytes;
        }
        node->kernel = given->kernel;
        node->user = given->user;
        node->flags = given->flags;
        inputs.count = (uint32_t)given->input_count;
        outputs.count = (uint32_t)given->output_count;
        bodies.count = (uint32_t)given->body_count;
        node->inputs = inputs;
        node->outputs = outputs;
        node->bodies = bodies;
        for (uint32_t j = 0; j < bodies.count; j++) {
            hearth_plan_ref(given->bodies[j]);
            plan->bodies[bodies.first + j] = given->bodies[j];
        }
        if (bodies.count > plan->most_bodies)
            plan->most_bodies = bodies.count;
        inputs.first += inputs.count;
        outputs.first += outputs.count;
        bodies.first += bodies.count;
    }
}

static struct hearth_plan *make_plan(const struct hearth_plan_builder *builder)
{
    struct hearth_plan measured;
    struct block block = {NULL, sizeof measured};
    (void)place_plan(&measured, &block, builder);
    struct hearth_plan *plan = calloc(1, block.used);
    if (plan == NULL)
        return NULL;
    block = (struct block){(unsigned char *)plan, sizeof *plan};
    char *names = place_plan(plan, &block, builder);
    hearth__store_relaxed(&plan->refs, 1);
    plan->node_count = builder->count;
    plan->value_count = value_count(builder);
    plan->input_count = builder->inputs.count;
    plan->output_count = builder->outputs.count;
    plan->body_count = builder->body_count;
    fill_nodes(plan, builder, names);
    return plan;
}

static void place_scratch(struct hearth__build *build, struct block *block,
                          const struct hearth_plan_builder *builder)
{
    size_t nodes = builder->count;
    size_t values = value_count(builder);
    build->node_mark = carve(block, nodes, sizeof *build->node_mark);
    build->left = carve(block, nodes, sizeof *build->left);
    build->heap = carve(block, nodes, sizeof *build->heap);
    build->reached = carve(block, nodes, sizeof *build->reached);
    build->value_mark = carve(block, values, sizeof *build->value_mark);
    build->first_step = carve(block, values, sizeof *build->first_step);
    build->question = carve(block, values, sizeof *build->question);
}

static bool make_scratch(struct hearth__build *build)
{
    struct block block = {NULL, 0};
    place_scratch(build, &block, build->builder);
    build->scratch = calloc(1, block.used + 1); /* NULL must mean failure */
    if (build->scratch == NULL)
        return false;
    block = (struct block){build->scratch, 0};
    place_scratch(build, &block, build->builder);
    return true;
}

/* Numbers must fit; UINT32_MAX is none. */
static bool too_many(const struct hearth_plan_builder *builder)
{
    return builder->count > UINT32_MAX || value_count(builder) > UINT32_MAX - 1 ||
           builder->input_slots > UINT32_MAX || builder->output_slots > UINT32_MAX ||
           builder->body_count > UINT32_MAX;
}

static enum hearth_status run_stages(struct hearth__build *build)
{
    build->plan = make_plan(build->builder);
    if (build->plan == NULL || !make_scratch(build))
        return HEARTH_NO_MEMORY;
    enum hearth_status status = hearth__plan_number_values(build);
    if (status != HEARTH_OK)
        return status;
    hearth__plan_find_uses(build);
    status = hearth__plan_order(build);
    if (status != HEARTH_OK)
        return status;
    hearth__plan_find_deaths(build);
    hearth__plan_find_last(build);
    return HEARTH_OK;
}

enum hearth_status hearth_plan_builder_build(const struct hearth_plan_builder *builder,
                                             struct hearth_plan **plan, char *message, size_t bytes)
{
    struct hearth__build build = {
        .builder = builder,
        .message = {.text = message, .bytes = message == NULL ? 0 : bytes},
    };
    hearth__message_add(&build.message, "");
    if (builder == NULL || plan == NULL) {
        hearth__message_add(&build.message, builder == NULL ? "the builder is NULL"
                                                            : "the place for the plan is NULL");
        return HEARTH_INVALID;
    }
    if (too_many(builder)) {
        hearth__message_add(&build.message, "more nodes, values or slots than a plan can number");
        return HEARTH_OVERFLOW;
    }
    enum hearth_status status = run_stages(&build);
    free(build.scratch);
    if (status == HEARTH_OK) {
        *plan = build.plan;
        return HEARTH_OK;
    }
    if (status == HEARTH_NO_MEMORY)
        hearth__message_add(&build.message, "no memory for the plan");
    hearth_plan_unref(build.plan);
    return status;
}
