/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of plans share: one builder, one plan, nodes from texts. */
#ifndef HEARTH_TESTS_API_PLAN_SUPPORT_H
#define HEARTH_TESTS_API_PLAN_SUPPORT_H

#include "support.h"

#include <hearth/plan.h>

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

static struct hearth_plan_builder *builder;
static struct hearth_plan *plan;
static char message[256];

static inline enum hearth_status idle(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_OK;
}

static inline void start(void)
{
    EXPECT(HEARTH_OK, hearth_plan_builder_create(&builder));
}

static inline void finish(void)
{
    hearth_plan_builder_destroy(builder);
    hearth_plan_unref(plan);
}

static inline void input(const char *name)
{
    EXPECT(HEARTH_OK, hearth_plan_builder_add_input(builder, name));
}

static inline void output(const char *name)
{
    EXPECT(HEARTH_OK, hearth_plan_builder_add_output(builder, name));
}

/* Splits "a b - c" at blanks; "-" is the empty name. */
static inline size_t split(char *text, const char **names)
{
    size_t count = 0;
    for (char *name = strtok(text, " "); name != NULL; name = strtok(NULL, " "))
        names[count++] = strcmp(name, "-") == 0 ? "" : name;
    return count;
}

static inline size_t node(const char *name, const char *inputs, const char *outputs)
{
    char texts[2][256];
    const char *names[2][64];
    struct hearth_node added = HEARTH_NODE_INIT;
    (void)snprintf(texts[0], sizeof texts[0], "%s", inputs);
    (void)snprintf(texts[1], sizeof texts[1], "%s", outputs);
    added.name = name;
    added.inputs = names[0];
    added.input_count = split(texts[0], names[0]);
    added.outputs = names[1];
    added.output_count = split(texts[1], names[1]);
    added.kernel = idle;
    size_t index = SIZE_MAX;
    EXPECT(HEARTH_OK, hearth_plan_builder_add_node(builder, &added, &index));
    return index;
}

static inline void build(void)
{
    memset(message, 'x', sizeof message);
    enum hearth_status status = hearth_plan_builder_build(builder, &plan, message, sizeof message);
    cr_assert_eq(status, HEARTH_OK, "%s: %.200s", hearth_status_name(status), message);
    cr_assert_str_eq(message, "");
}

#endif
