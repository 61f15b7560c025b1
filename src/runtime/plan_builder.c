/* SPDX-License-Identifier: Apache-2.0 */
/* Builders: records of what a plan is to be made of. Nothing is looked up before the plan is
 * built, so nodes come in any order and a call that fails has left nothing behind. */
#include "runtime/plan_builder.h"

#include <stdlib.h>
#include <string.h>

#define RECORDS_FIRST 16u

enum hearth_status hearth_plan_builder_create(struct hearth_plan_builder **builder)
{
    if (builder == NULL)
        return HEARTH_INVALID;
    struct hearth_plan_builder *made = calloc(1, sizeof *made);
    if (made == NULL)
        return HEARTH_NO_MEMORY;
    *builder = made;
    return HEARTH_OK;
}

void hearth_plan_builder_destroy(struct hearth_plan_builder *builder)
{
    if (builder == NULL)
        return;
    for (size_t i = 0; i < builder->count; i++) {
        const struct hearth_node *node = &builder->records[i]->node;
        for (size_t j = 0; j < node->body_count; j++)
            hearth_plan_unref(node->bodies[j]);
        free(builder->records[i]);
    }
    free(builder->records);
    hearth__names_fini(&builder->inputs);
    hearth__names_fini(&builder->outputs);
    free(builder);
}

static enum hearth_status declare(struct hearth__names *names, const char *name)
{
    if (name == NULL || name[0] == '\0' || hearth__names_find(names, name) != HEARTH__NO_NAME)
        return HEARTH_INVALID;
    uint32_t number;
    enum hearth_status status = hearth__names_add(names, name, &number);
    /* Too many to number would not fit any memory either. */
    return status == HEARTH_OVERFLOW ? HEARTH_NO_MEMORY : status;
}

enum hearth_status hearth_plan_builder_add_input(struct hearth_plan_builder *builder,
                                                 const char *name)
{
    return builder == NULL ? HEARTH_INVALID : declare(&builder->inputs, name);
}

enum hearth_status hearth_plan_builder_add_output(struct hearth_plan_builder *builder,
                                                  const char *name)
{
    return builder == NULL ? HEARTH_INVALID : declare(&builder->outputs, name);
}

static bool valid(const struct hearth_node *node)
{
    if (node == NULL || node->size != sizeof *node || node->kernel == NULL ||
        (node->flags & ~HEARTH_NODE_SLOT_AWARE) != 0 || node->reserved != 0)
        return false;
    if ((node->inputs == NULL && node->input_count != 0) ||
        (node->outputs == NULL && node->output_count != 0) ||
        (node->bodies == NULL && node->body_count != 0))
        return false;
    for (size_t i = 0; i < node->body_count; i++)
        if (node->bodies[i] == NULL)
            return false;
    return true;
}

static size_t text_bytes(const char *text)
{
    return text == NULL || text[0] == '\0' ? 0 : strlen(text) + 1;
}

/* Adds what an array of names takes; false when that is more than any memory. */
static bool measure(const char *const *names, size_t count, size_t *bytes)
{
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(*bytes, text_bytes(names[i]), bytes))
            return false;
    return !__builtin_add_overflow(*bytes, count * sizeof *names, bytes);
}

static const char *copy_text(const char *text, char **place)
{
    size_t bytes = text_bytes(text);
    if (bytes == 0)
        return "";
    char *copy = *place;
    memcpy(copy, text, bytes);
    *place += bytes;
    return copy;
}

static struct hearth__node_record *make_record(const struct hearth_node *node)
{
    size_t bytes = sizeof(struct hearth__node_record) + text_bytes(node->name);
    if (!measure(node->inputs, node->input_count, &bytes) ||
        !measure(node->outputs, node->output_count, &bytes) ||
        __builtin_add_overflow(bytes, node->body_count * sizeof(struct hearth_plan *), &bytes))
        return NULL;
    struct hearth__node_record *record = malloc(bytes);
    if (record == NULL)
        return NULL;
    const char **inputs = record->slots;
    const char **outputs = inputs + node->input_count;
    struct hearth_plan **bodies = (struct hearth_plan **)(outputs + node->output_count);
    char *texts = (char *)(bodies + node->body_count);
    record->node = *node;
    record->name_bytes = text_bytes(node->name);
    record->node.name = copy_text(node->name, &texts);
    for (size_t i = 0; i < node->input_count; i++)
        inputs[i] = copy_text(node->inputs[i], &texts);
    record->used_outputs = 0;
    for (size_t i = 0; i < node->output_count; i++) {
        outputs[i] = copy_text(node->outputs[i], &texts);
        record->used_outputs += outputs[i][0] != '\0';
    }
    for (size_t i = 0; i < node->body_count; i++)
        bodies[i] = node->bodies[i];
    record->node.inputs = inputs;
    record->node.outputs = outputs;
    record->node.bodies = bodies;
    return record;
}

static bool make_room(struct hearth_plan_builder *builder)
{
    if (builder->count < builder->room)
        return true;
    size_t room = builder->room == 0 ? RECORDS_FIRST : builder->room * 2;
    void *records = realloc(builder->records, room * sizeof(struct hearth__node_record *));
    if (records == NULL)
        return false;
    builder->records = records;
    builder->room = room;
    return true;
}

enum hearth_status hearth_plan_builder_add_node(struct hearth_plan_builder *builder,
                                                const struct hearth_node *node, size_t *index)
{
    if (builder == NULL || !valid(node))
        return HEARTH_INVALID;
    struct hearth__node_record *record = make_room(builder) ? make_record(node) : NULL;
    if (record == NULL)
        return HEARTH_NO_MEMORY;
    for (size_t i = 0; i < node->body_count; i++)
        hearth_plan_ref(node->bodies[i]);
    if (index != NULL)
        *index = builder->count;
    builder->records[builder->count++] = record;
    builder->input_slots += node->input_count;
    builder->output_slots += node->output_count;
    builder->used_outputs += record->used_outputs;
    builder->body_count += node->body_count;
    builder->name_bytes += record->name_bytes;
    return HEARTH_OK;
}
