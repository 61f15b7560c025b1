/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: values by name, for whoever prepares a run or takes its results. */
#include "runtime/context.h"

#include "runtime/run.h"

#include <stdlib.h>
#include <string.h>

enum hearth_status hearth_context_create(const struct hearth_context_options *options,
                                         struct hearth_context **context)
{
    static const struct hearth_context_options none = HEARTH_CONTEXT_OPTIONS_INIT;
    if (options == NULL)
        options = &none;
    if (context == NULL || options->size != sizeof(*options) || options->reserved != 0 ||
        (options->flags & ~HEARTH_CONTEXT_FOREIGN) != 0)
        return HEARTH_INVALID;
    struct hearth__holder *holder;
    enum hearth_status status = hearth__holder_create(HEARTH__CONTEXT_USER, options->plan, &holder);
    if (status != HEARTH_OK)
        return status;
    holder->execution = options->execution;
    holder->io = options->io;
    holder->arena = options->arena;
    if (holder->arena != NULL)
        hearth_io_ref(holder->arena);
    holder->service = options->service;
    holder->service_given = options->service != NULL;
    if (holder->service != NULL)
        hearth_service_ref(holder->service);
    if (options->events != NULL)
        holder->events = *options->events;
    holder->flags = options->flags;
    *context = &holder->context;
    return HEARTH_OK;
}

enum hearth_status hearth_context_destroy(struct hearth_context *context)
{
    if (context == NULL)
        return HEARTH_OK;
    if (context->kind != HEARTH__CONTEXT_USER)
        return HEARTH_BUSY;
    struct hearth__holder *holder = hearth__holder_of(context);
    if (hearth__load_acquire(&holder->busy) != 0)
        return HEARTH_BUSY;
    hearth__holder_destroy(holder);
    return HEARTH_OK;
}

/* The holder behind a context, if its values may be touched now. */
static enum hearth_status open_holder(const struct hearth_context *context,
                                      struct hearth__holder **holder)
{
    if (context == NULL)
        return HEARTH_INVALID;
    if (!hearth__is_holder(context))
        return HEARTH_BUSY;
    *holder = hearth__holder_of((struct hearth_context *)(uintptr_t)context);
    if (context->kind == HEARTH__CONTEXT_BODY && (*holder)->frame == NULL)
        return HEARTH_INVALID; /* kept after the kernel returned */
    return hearth__load_relaxed(&(*holder)->busy) != 0 ? HEARTH_BUSY : HEARTH_OK;
}

/* As open_holder(), and the name's value, which may be NULL for a name that was never heard of. */
static enum hearth_status open_value(const struct hearth_context *context, const char *name,
                                     struct hearth__holder **holder, struct hearth__value **value)
{
    if (name == NULL || name[0] == '\0')
        return HEARTH_INVALID;
    enum hearth_status status = open_holder(context, holder);
    if (status == HEARTH_OK)
        *value = hearth__holder_find(*holder, name);
    return status;
}

static bool has_value(const struct hearth__value *value)
{
    return value != NULL && hearth_tensor_owner(&value->tensor) != HEARTH_OWNER_NONE;
}

/* A name that the plan does not have. Only the texts grow; what fails leaves a name without a value. */
static enum hearth_status learn(struct hearth__holder *holder, const char *name,
                                struct hearth__value **value)
{
    size_t count = holder->learned.count;
    struct hearth__value *fresh = calloc(1, sizeof(*fresh));
    struct hearth__value **more =
        realloc(holder->more, (count + 1) * sizeof(struct hearth__value *));
    if (more != NULL)
        holder->more = more;
    uint32_t number;
    enum hearth_status status = fresh == NULL || more == NULL
                                    ? HEARTH_NO_MEMORY
                                    : hearth__names_add(&holder->learned, name, &number);
    if (status != HEARTH_OK) {
        free(fresh);
        return status;
    }
    more[number] = fresh;
    *value = fresh;
    return HEARTH_OK;
}

/* A body's values count in the run that its node is part of. */
static void count_in(struct hearth__holder *holder, struct hearth__value *value)
{
    if (holder->frame == NULL || hearth_tensor_owner(&value->tensor) == HEARTH_OWNER_BORROWED)
        return;
    struct hearth__run *run = holder->frame->run;
    struct hearth_allocator *allocator = hearth_tensor_allocator(&value->tensor);
    enum hearth__domain domain =
        allocator != NULL && allocator == run->io && allocator != holder->frame->execution
            ? HEARTH__DOMAIN_IO
            : HEARTH__DOMAIN_EXECUTION;
    value->domain = (unsigned char)domain;
    value->counted = hearth_tensor_size(&value->tensor);
    hearth__adrift_land(holder->frame, domain, value->counted);
    hearth__gauge_add(run->gauge, domain, value->counted);
}

static enum hearth_status give(struct hearth_context *context, const char *name,
                               struct hearth_tensor *tensor, bool replace)
{
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    enum hearth_owner owner = hearth_tensor_owner(tensor);
    if (owner < HEARTH_OWNER_INLINE || owner > HEARTH_OWNER_BORROWED)
        return HEARTH_INVALID;
    if (!replace && has_value(value))
        return HEARTH_BUSY;
    if (value == NULL)
        status = learn(holder, name, &value);
    if (status != HEARTH_OK || tensor == &value->tensor)
        return status;
    (void)hearth__value_drop(holder, value);
    (void)hearth_tensor_move(&value->tensor, tensor);
    count_in(holder, value);
    return HEARTH_OK;
}

enum hearth_status hearth_context_set(struct hearth_context *context, const char *name,
                                      struct hearth_tensor *tensor)
{
    return give(context, name, tensor, false);
}

enum hearth_status hearth_context_put(struct hearth_context *context, const char *name,
                                      struct hearth_tensor *tensor)
{
    return give(context, name, tensor, true);
}

enum hearth_status hearth_context_get(const struct hearth_context *context, const char *name,
                                      const struct hearth_tensor **tensor)
{
    if (tensor == NULL)
        return HEARTH_INVALID;
    *tensor = NULL;
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    if (!has_value(value))
        return HEARTH_INVALID;
    *tensor = &value->tensor;
    return HEARTH_OK;
}

enum hearth_status hearth_context_take(struct hearth_context *context, const char *name,
                                       struct hearth_tensor *tensor)
{
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    if (tensor == NULL || !has_value(value))
        return HEARTH_INVALID;
    if (hearth_tensor_owner(tensor) != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    if (holder->frame !=
        NULL) /* it still counts, until it is given to something or the kernel returns */
        holder->frame->adrift[value->domain] += value->counted;
    value->domain = HEARTH__DOMAIN_NONE;
    value->counted = 0;
    value->bound = false; /* what left is not written again */
    return hearth_tensor_move(tensor, &value->tensor);
}

enum hearth_status hearth_context_remove(struct hearth_context *context, const char *name)
{
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    return has_value(value) ? hearth__value_drop(holder, value) : HEARTH_INVALID;
}

enum hearth_status hearth_context_clear(struct hearth_context *context)
{
    struct hearth__holder *holder;
    enum hearth_status status = open_holder(context, &holder);
    if (status == HEARTH_OK)
        hearth__holder_clear(holder);
    return status;
}

size_t hearth_context_count(const struct hearth_context *context)
{
    size_t count = 0;
    (void)hearth_context_names(context, NULL, 0, &count);
    return count;
}

enum hearth_status hearth_context_names(const struct hearth_context *context, const char **names,
                                        size_t room, size_t *count)
{
    if (count == NULL)
        return HEARTH_INVALID;
    *count = 0;
    struct hearth__holder *holder;
    enum hearth_status status = open_holder(context, &holder);
    if (status != HEARTH_OK)
        return status;
    if (names == NULL && room != 0)
        return HEARTH_INVALID;
    size_t at = 0;
    const char *name;
    const struct hearth__value *value;
    while ((value = hearth__holder_next(holder, &at, &name)) != NULL) {
        if (!has_value(value))
            continue;
        if (*count < room)
            names[*count] = name;
        ++*count;
    }
    return *count > room ? HEARTH_OVERFLOW : HEARTH_OK;
}

enum hearth_status hearth_context_borrow(struct hearth_context *context, const char *name,
                                         const void *data, size_t bytes, enum hearth_dtype dtype,
                                         const struct hearth_shape *shape)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    /* Inputs are handed to kernels as const. */
    enum hearth_status status =
        hearth_tensor_borrow((void *)(uintptr_t)data, bytes, dtype, shape, &tensor);
    return status == HEARTH_OK ? give(context, name, &tensor, true) : status;
}

enum hearth_status hearth_context_lend(struct hearth_context *body, const char *name,
                                       const struct hearth_tensor *tensor)
{
    if (body == NULL || body->kind != HEARTH__CONTEXT_BODY ||
        hearth_tensor_owner(tensor) == HEARTH_OWNER_NONE)
        return HEARTH_INVALID;
    struct hearth_tensor lent = HEARTH_TENSOR_INIT;
    enum hearth_status status =
        hearth_tensor_borrow(hearth_tensor_data(tensor), hearth_tensor_size(tensor),
                             hearth_tensor_dtype(tensor), hearth_tensor_shape(tensor), &lent);
    return status == HEARTH_OK ? give(body, name, &lent, true) : status;
}

enum hearth_status hearth_context_stage(struct hearth_context *context, const char *name,
                                        enum hearth_dtype dtype, const struct hearth_shape *shape,
                                        const void *data, size_t bytes,
                                        struct hearth_tensor **tensor)
{
    if (tensor != NULL)
        *tensor = NULL;
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    struct hearth_tensor staged = HEARTH_TENSOR_INIT;
    status = hearth_tensor_make(hearth__holder_io(holder), dtype, shape, bytes, &staged);
    if (status != HEARTH_OK)
        return status;
    if (data != NULL) {
        size_t size = hearth_tensor_size(&staged);
        memcpy(hearth_tensor_data(&staged), data, size);
        holder->between.payload_copies++;
        holder->between.staged_copies++;
        holder->between.copied_bytes += size;
    }
    size_t size = hearth_tensor_size(&staged);
    status = give(context, name, &staged, true);
    if (status != HEARTH_OK) {
        (void)hearth_tensor_reset(&staged);
        return status;
    }
    if (data != NULL)
        hearth__event_between(holder, HEARTH_EVENT_COPIED, name, size);
    if (tensor != NULL)
        *tensor = &hearth__holder_find(holder, name)->tensor;
    return HEARTH_OK;
}

enum hearth_status hearth_context_bind_output(struct hearth_context *context, const char *name,
                                              struct hearth_tensor *tensor)
{
    struct hearth__holder *holder;
    struct hearth__value *value = NULL;
    enum hearth_status status = open_value(context, name, &holder, &value);
    if (status != HEARTH_OK)
        return status;
    if (context->kind != HEARTH__CONTEXT_USER || holder->plan == NULL || value == NULL ||
        hearth_tensor_owner(tensor) < HEARTH_OWNER_INLINE ||
        hearth_tensor_owner(tensor) > HEARTH_OWNER_BORROWED)
        return HEARTH_INVALID;
    uint32_t number = hearth__names_find(&holder->plan->names, name);
    if (number == HEARTH__NO_NAME || !holder->plan->values[number].is_output ||
        holder->plan->values[number].is_input)
        return HEARTH_INVALID;
    if (hearth_handle_holds_lease(&tensor->handle))
        return HEARTH_LEASED;
    struct hearth_tensor *binding = &holder->bindings[holder->plan->values[number].output_index];
    if (value->bound || hearth_tensor_owner(binding) != HEARTH_OWNER_NONE)
        return HEARTH_BUSY;
    return hearth_tensor_move(binding, tensor);
}
