/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest session: y = square(x), z = y + x, sum = the sum of z.
 *
 * `y` and `z` live and die in the thread's execution arena. `sum` is a declared output, so the same call in
 * the kernel puts it into the I/O arena, and it leaves as a lease without a copy.
 */
#include <hearth/runtime.h>

#include <stdio.h>

enum { ELEMENTS = 1000 };

static const float *input(struct hearth_context *context, size_t slot)
{
    return hearth_tensor_data(hearth_context_input(context, slot));
}

/* The one output of a kernel; NULL: `*status` says why. */
static float *output(struct hearth_context *context, int64_t elements, enum hearth_status *status)
{
    const struct hearth_shape shape = {.dims = {elements}, .rank = 1};
    struct hearth_tensor *tensor = NULL;
    *status = hearth_context_make_output(context, 0, HEARTH_DTYPE_FLOAT, &shape, &tensor);
    return hearth_tensor_data(tensor);
}

static enum hearth_status square(struct hearth_context *context, void *user)
{
    enum hearth_status status;
    const float *x = input(context, 0);
    float *y = output(context, ELEMENTS, &status);
    (void)user;
    for (int i = 0; y != NULL && i < ELEMENTS; i++)
        y[i] = x[i] * x[i];
    return status;
}

static enum hearth_status add(struct hearth_context *context, void *user)
{
    enum hearth_status status;
    const float *a = input(context, 0);
    const float *b = input(context, 1);
    float *sum = output(context, ELEMENTS, &status);
    (void)user;
    for (int i = 0; sum != NULL && i < ELEMENTS; i++)
        sum[i] = a[i] + b[i];
    return status;
}

static enum hearth_status total(struct hearth_context *context, void *user)
{
    enum hearth_status status;
    const float *x = input(context, 0);
    float *sum = output(context, 1, &status);
    (void)user;
    if (sum == NULL)
        return status;
    *sum = 0;
    for (int i = 0; i < ELEMENTS; i++)
        *sum += x[i];
    return HEARTH_OK;
}

/* What cannot fail here ends the program when it does. */
static bool must(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        fprintf(stderr, "quickstart: %s: %s\n", what, hearth_status_text(status));
    return status == HEARTH_OK;
}

static struct hearth_plan *make_plan(void)
{
    const char *x[] = {"x"}, *y[] = {"y"}, *both[] = {"y", "x"}, *z[] = {"z"}, *sum[] = {"sum"};
    const size_t size = sizeof(struct hearth_node);
    const struct hearth_node nodes[] = {
        {.size = size,
         .name = "square",
         .inputs = x,
         .input_count = 1,
         .outputs = y,
         .output_count = 1,
         .kernel = square},
        {.size = size,
         .name = "add",
         .inputs = both,
         .input_count = 2,
         .outputs = z,
         .output_count = 1,
         .kernel = add},
        {.size = size,
         .name = "total",
         .inputs = z,
         .input_count = 1,
         .outputs = sum,
         .output_count = 1,
         .kernel = total},
    };
    struct hearth_plan_builder *builder = NULL;
    struct hearth_plan *plan = NULL;
    char message[128] = "";
    bool ok = must(hearth_plan_builder_create(&builder), "builder") &&
              must(hearth_plan_builder_add_input(builder, "x"), "input") &&
              must(hearth_plan_builder_add_output(builder, "sum"), "output");
    for (size_t i = 0; ok && i < sizeof nodes / sizeof nodes[0]; i++)
        ok = must(hearth_plan_builder_add_node(builder, &nodes[i], NULL), "node");
    if (ok)
        (void)must(hearth_plan_builder_build(builder, &plan, message, sizeof message), message);
    hearth_plan_builder_destroy(builder);
    return plan;
}

int main(void)
{
    static float x[ELEMENTS];
    const struct hearth_shape shape = {.dims = {ELEMENTS}, .rank = 1};
    struct hearth_service *service = NULL;
    struct hearth_session *session = NULL;
    struct hearth_context *context = NULL;
    struct hearth_lease sum = HEARTH_LEASE_INIT;
    struct hearth_plan *plan = make_plan();
    struct hearth_session_options session_options = HEARTH_SESSION_OPTIONS_INIT;
    struct hearth_context_options context_options = HEARTH_CONTEXT_OPTIONS_INIT;
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)(i % 10);

    bool ok = plan != NULL && must(hearth_service_create(NULL, &service), "service");
    session_options.plan = context_options.plan = plan;
    session_options.service = service;
    ok = ok && must(hearth_session_create(&session_options, &session), "session") &&
         must(hearth_context_create(&context_options, &context), "context") &&
         must(hearth_context_borrow(context, "x", x, sizeof x, HEARTH_DTYPE_FLOAT, &shape), "x") &&
         must(hearth_session_run(session, context, NULL), "run") &&
         must(hearth_session_export_outputs(session, context, &sum, 1), "export");

    /* In any order: what was exported stays. */
    (void)hearth_context_destroy(context);
    (void)hearth_session_destroy(session);
    hearth_plan_unref(plan);
    hearth_service_unref(service);

    const float *result = hearth_lease_data(sum);
    float value = ok && result != NULL ? *result : 0;
    printf("quickstart: the sum of x * x + x is %.0f\n", (double)value);
    ok = ok && hearth_lease_release(sum) == HEARTH_OK;
    return ok && value == 33000.0F ? 0 : 1;
}
