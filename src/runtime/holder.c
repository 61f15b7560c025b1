/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders: values by name. Names of the plan are numbers into one array; others are learned, and their values
 * are allocated one by one, so that a pointer to a value stays good while more names come.
 */
#include "runtime/context.h"

#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

static size_t plan_values(const struct hearth__holder *holder)
{
    return holder->plan == NULL ? 0 : holder->plan->value_count;
}

static size_t plan_outputs(const struct hearth__holder *holder)
{
    return holder->plan == NULL ? 0 : holder->plan->output_count;
}

static bool make_room(struct hearth__holder *holder)
{
    size_t outputs = plan_outputs(holder);
    holder->values = calloc(plan_values(holder) + 1, sizeof(*holder->values));
    holder->bindings = calloc(outputs + 1, sizeof(*holder->bindings));
    if (holder->context.kind == HEARTH__CONTEXT_BODY)
        holder->routes = malloc((outputs + 1) * sizeof(*holder->routes));
    return holder->values != NULL && holder->bindings != NULL &&
           (holder->routes != NULL || holder->context.kind != HEARTH__CONTEXT_BODY);
}

static void free_memory(struct hearth__holder *holder)
{
    for (uint32_t i = 0; i < holder->learned.count; i++)
        free(holder->more[i]);
    free(holder->more);
    hearth__names_fini(&holder->learned);
    free(holder->routes);
    free(holder->bindings);
    free(holder->values);
    free(holder);
}

enum hearth_status hearth__holder_create(enum hearth__context_kind kind, struct hearth_plan *plan,
                                         struct hearth__holder **holder)
{
    struct hearth__holder *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return HEARTH_NO_MEMORY;
    made->context.kind = kind;
    made->plan = plan;
    if (!make_room(made)) {
        free_memory(made);
        return HEARTH_NO_MEMORY;
    }
    if (made->routes != NULL)
        hearth__holder_forget_routes(made);
    hearth_plan_ref(plan);
    *holder = made;
    return HEARTH_OK;
}

void hearth__holder_destroy(struct hearth__holder *holder)
{
    hearth__holder_clear(holder);
    hearth_plan_unref(holder->plan);
    if (holder->arena != NULL)
        hearth_io_unref(holder->arena);
    if (holder->service != NULL)
        hearth_service_unref(holder->service);
    free_memory(holder);
}

void hearth__holder_clear(struct hearth__holder *holder)
{
    size_t at = 0;
    struct hearth__value *value;
    while ((value = hearth__holder_next(holder, &at, NULL)) != NULL)
        (void)hearth__value_drop(holder, value);
    for (size_t i = 0; i < plan_outputs(holder); i++)
        (void)hearth_tensor_reset(&holder->bindings[i]);
}

void hearth__holder_forget_routes(struct hearth__holder *holder)
{
    for (size_t i = 0; i < plan_outputs(holder); i++)
        holder->routes[i] = HEARTH__NO_VALUE;
}

struct hearth__value *hearth__holder_find(const struct hearth__holder *holder, const char *name)
{
    uint32_t number = HEARTH__NO_NAME;
    if (holder->plan != NULL)
        number = hearth__names_find(&holder->plan->names, name);
    if (number != HEARTH__NO_NAME)
        return &holder->values[number];
    number = hearth__names_find(&holder->learned, name);
    return number == HEARTH__NO_NAME ? NULL : holder->more[number];
}

struct hearth__value *hearth__holder_next(const struct hearth__holder *holder, size_t *at,
                                          const char **name)
{
    size_t i = (*at)++;
    if (i < plan_values(holder)) {
        if (name != NULL)
            *name = hearth__plan_value_name(holder->plan, (uint32_t)i);
        return &holder->values[i];
    }
    i -= plan_values(holder);
    if (i >= holder->learned.count)
        return NULL;
    if (name != NULL)
        *name = hearth__names_text(&holder->learned, (uint32_t)i);
    return holder->more[i];
}

enum hearth_status hearth__value_drop(struct hearth__holder *holder, struct hearth__value *value)
{
    if (value->domain != HEARTH__DOMAIN_NONE && holder->frame != NULL)
        hearth__gauge_sub(holder->frame->run->gauge, (enum hearth__domain)value->domain,
                          value->counted);
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
    bool bound = value->bound;
    value->bound = false;
    /* What left through a lease meanwhile is not written again. */
    if (!bound || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_NONE ||
        hearth_handle_holds_lease(&value->tensor.handle))
        return hearth_tensor_reset(&value->tensor);
    uint32_t output = holder->plan->values[value - holder->values].output_index;
    return hearth_tensor_move(&holder->bindings[output], &value->tensor);
}

struct hearth_io *hearth__holder_arena(const struct hearth__holder *holder)
{
    if (holder->frame != NULL)
        return holder->frame->run->arena;
    return holder->arena != NULL ? holder->arena : hearth_service_io(holder->service);
}

struct hearth_allocator *hearth__holder_io(const struct hearth__holder *holder)
{
    if (holder->frame != NULL)
        return holder->frame->run->io;
    if (holder->io != NULL)
        return holder->io;
    struct hearth_io *arena = hearth__holder_arena(holder);
    return arena != NULL ? hearth_io_allocator(arena) : holder->execution;
}

struct hearth_allocator *hearth__holder_execution(const struct hearth__holder *holder)
{
    if (holder->frame == NULL)
        return holder->execution;
    struct hearth_exec *child = NULL;
    const struct hearth__run *run = holder->frame->run;
    if (hearth_service_child_exec(run->service, run->depth + 1, &child) != HEARTH_OK)
        return NULL;
    return hearth_exec_allocator(child);
}
