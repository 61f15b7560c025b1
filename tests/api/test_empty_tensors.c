/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors without elements, of every type, STRING among them: they are made, put, bound, staged, copied, exported
 * and reused in place as any. Not covered: their addresses. */
#include "run_support.h"

static struct run run;
static enum hearth_dtype dtype;
static char nothing[1];

static const enum hearth_dtype dtypes[] = {
#define DTYPE_OF(name, value, bits, text) HEARTH_DTYPE_##name,
    HEARTH_DTYPE_MAP(DTYPE_OF)
#undef DTYPE_OF
};

static const struct hearth_shape empties[] = {
    {.dims = {0}, .rank = 1},
    {.dims = {3, 0, 5}, .rank = 3},
    {.dims = {INT64_MAX, INT64_MAX, 0}, .rank = 3},
};
static const struct hearth_shape *empty;

TestSuite(empty_tensors, .timeout = 60);

/* The calls of a test for every type that has elements, and every shape that has none. */
static void for_all(void (*test)(void))
{
    for (unsigned i = 0; i < COUNT_OF(dtypes); i++) {
        dtype = dtypes[i];
        if (dtype == HEARTH_DTYPE_UNDEFINED)
            continue;
        for (unsigned j = 0; j < COUNT_OF(empties); j++) {
            empty = &empties[j];
            test();
        }
    }
}

static void expect_empty(const struct hearth_tensor *tensor)
{
    cr_assert_not_null(tensor);
    cr_assert_neq(hearth_tensor_owner(tensor), HEARTH_OWNER_NONE);
    cr_assert_eq(hearth_tensor_dtype(tensor), dtype, "%s", hearth_dtype_name(dtype));
    EXPECT_SIZE(0, hearth_tensor_size(tensor));
    EXPECT_SIZE(empty->rank, hearth_tensor_shape(tensor)->rank);
}

static void expect_export(const char *name)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearth_tensor view = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_export(run.context, name, &lease, &view));
    EXPECT_SIZE(0, hearth_lease_size(lease));
    expect_empty(&view);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&view));
    io_drop(lease);
}

static void make_everywhere(void)
{
    struct hearth_allocator *allocators[] = {NULL, hearth_io_allocator(run.rig.io),
                                             hearth_exec_allocator(exec_of(run.rig.service))};
    for (unsigned i = 0; i < COUNT_OF(allocators); i++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT, moved = HEARTH_TENSOR_INIT;
        EXPECT(HEARTH_OK, hearth_tensor_make(allocators[i], dtype, empty, 0, &tensor));
        expect_empty(&tensor);
        EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, &empties[0]));
        EXPECT(HEARTH_OK, hearth_tensor_reshape(&tensor, empty));
        EXPECT(HEARTH_OK, hearth_tensor_move(&moved, &tensor));
        expect_empty(&moved);
        struct hearth_lease lease = HEARTH_LEASE_INIT;
        EXPECT(HEARTH_OK, hearth_tensor_export(&moved, run.rig.io, &lease));
        EXPECT_SIZE(0, hearth_lease_size(lease));
        io_drop(lease);
    }
    struct hearth_tensor borrowed = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_tensor_borrow(nothing, 0, dtype, empty, &borrowed));
    expect_empty(&borrowed);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&borrowed));
}

Test(empty_tensors, they_are_made_and_exported)
{
    run_open(&run, PLAN("", "y", OP("node", "", "y", NULL)));
    for_all(make_everywhere);
    run_close(&run);
}

/* Ways to give an output; the last one is in place of the input. */
enum way { MAKE, MAKE_SIZED, PUT_INLINE, PUT_BORROWED, PUT_IO, PUT_EXECUTION, WAYS };

static enum hearth_status give_output(struct hearth_context *context, void *user)
{
    enum way way = *(const enum way *)user;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_tensor *made = NULL;
    if (way == MAKE)
        EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, dtype, empty, &made));
    else if (way == MAKE_SIZED)
        EXPECT(HEARTH_OK, hearth_context_make_output_sized(context, 0, dtype, empty, 0, &made));
    else if (way == PUT_BORROWED)
        EXPECT(HEARTH_OK, hearth_tensor_borrow(nothing, 0, dtype, empty, &tensor));
    else
        EXPECT(HEARTH_OK, hearth_tensor_make(way == PUT_IO ? hearth_io_allocator(run.rig.io)
                                             : way == PUT_EXECUTION
                                                 ? hearth_context_execution_allocator(context)
                                                 : NULL,
                                             dtype, empty, 0, &tensor));
    if (way >= PUT_INLINE)
        EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, &tensor));
    expect_empty(hearth_context_output(context, 0));
    return HEARTH_OK;
}

static enum hearth_status in_place(struct hearth_context *context, void *user)
{
    (void)user;
    expect_empty(hearth_context_input(context, 0));
    cr_assert(hearth_context_can_reuse(context, 0, 0));
    if (dtype == HEARTH_DTYPE_STRING) /* it has no size of its own to compare */
        return copy_op(context, user);
    return hearth_context_make_output_in_place(context, 0, 0, dtype, empty, NULL);
}

static enum way way;

static void run_all(void)
{
    log_clear(&run.log);
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(0, stats.execution_peak_bytes);
    EXPECT_SIZE(0, stats.io_peak_bytes);
    EXPECT_SIZE(0, stats.copied_bytes);
    expect_empty(value_of(run.context, "y"));
    expect_empty(value_of(run.context, "w"));
    expect_export("y");
    expect_export("w");
    cr_assert(!has_value(run.context, "y"));
}

Test(empty_tensors, they_are_outputs_and_intermediates)
{
    for (way = 0; way < WAYS; way++) {
        run_open(&run, PLAN("", "y w", NODE("a", "", "y", .kernel = give_output, .user = &way),
                            NODE("b", "", "t", .kernel = give_output, .user = &way),
                            NODE("c", "t", "u", .kernel = in_place),
                            NODE("d", "u", "w", .kernel = copy_op)));
        for_all(run_all);
        run_close(&run);
    }
}

enum { BIND_INLINE, BIND_IO, BIND_EXECUTION, BIND_BORROWED, BINDINGS };
static unsigned binding;

static void run_bound(void)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_allocator *allocators[] = {NULL, hearth_io_allocator(run.rig.io),
                                             hearth_exec_allocator(exec_of(run.rig.service))};
    if (binding == BIND_BORROWED)
        EXPECT(HEARTH_OK, hearth_tensor_borrow(nothing, 0, dtype, empty, &tensor));
    else
        EXPECT(HEARTH_OK, hearth_tensor_make(allocators[binding], dtype, empty, 0, &tensor));
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
    for (unsigned i = 0; i < 2; i++) {
        log_clear(&run.log); /* the export of a borrowed one is in the next run's figures */
        (void)run_once(&run);
        EXPECT_SIZE(way >= PUT_INLINE, log_count(&run.log, HEARTH_EVENT_COPIED));
        expect_empty(value_of(run.context, "y"));
    }
    expect_export("y");
}

Test(empty_tensors, they_can_be_bound)
{
    for (way = 0; way < WAYS; way++) {
        for (binding = 0; binding < BINDINGS; binding++) {
            run_open(&run, PLAN("", "y", NODE("a", "", "y", .kernel = give_output, .user = &way)));
            for_all(run_bound);
            run_close(&run);
        }
    }
}

static void stage_and_borrow(void)
{
    struct hearth_lease leases[3];
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "s", dtype, empty, nothing, 0, NULL));
    expect_empty(value_of(run.context, "s"));
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "s", dtype, empty, NULL, 0, NULL));
    EXPECT(HEARTH_OK, hearth_context_borrow(run.context, "b", nothing, 0, dtype, empty));
    (void)run_once(&run);
    for (unsigned i = 0; i < 3; i++)
        expect_empty(value_of(run.context, (const char *[]){"s", "b", "y"}[i]));
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 3));
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(0, hearth_lease_size(leases[i]));
        io_drop(leases[i]);
    }
}

/* Inputs that are outputs: a borrowed one is copied when it is exported. */
Test(empty_tensors, they_are_staged_borrowed_and_exported)
{
    run_open(&run, PLAN("s b", "s b y", NODE("n", "b s", "y", .kernel = copy_op)));
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    run.context = context_of(run.plan, CONTEXT_OPTIONS(.service = run.rig.service));
    for_all(stage_and_borrow);
    run_close(&run);
}

/* With elements, a type without a fixed size needs a byte size. */
static enum hearth_status strings(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_shape one = shape_of(1);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_tensor_make(NULL, HEARTH_DTYPE_STRING, &one, 0, &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_make_output(context, 0, HEARTH_DTYPE_STRING, &one, NULL));
    EXPECT(HEARTH_INVALID,
           hearth_context_make_output_sized(context, 0, HEARTH_DTYPE_STRING, &one, 0, NULL));
    return hearth_context_make_output_sized(context, 0, HEARTH_DTYPE_STRING, &one, 5, NULL);
}

Test(empty_tensors, strings_with_elements_need_a_size)
{
    run_open(&run, PLAN("", "y", NODE("n", "", "y", .kernel = strings)));
    (void)run_once(&run);
    EXPECT_SIZE(5, hearth_tensor_size(value_of(run.context, "y")));
    run_close(&run);
}
