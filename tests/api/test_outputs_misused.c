/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that treat their outputs otherwise than most.
 * Covered, for outputs that are intermediates, declared, and bound to storage of every kind: impossible shapes;
 * layouts of the kernel's own; a refusal leaves what was made; storage that a kernel moves out, exports or lends
 * behind the slot's back. */
#include "run_support.h"

#include <string.h>

enum kind { INTERMEDIATE, DECLARED, IO, EXEC, INLINE, BORROWED, SIMPLE, KINDS };

static struct run run;
static struct hearth_simple *simple;
static enum kind kind;
static uint32_t lent[64];
static const void *bound_data;

TestSuite(outputs_misused, .timeout = 60);

static bool is_bound(void)
{
    return kind >= IO;
}

static void bind(size_t count)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_shape shape = shape_of(count);
    struct hearth_allocator *const from[KINDS] = {
        [IO] = hearth_io_allocator(run.rig.io),
        [EXEC] = hearth_exec_allocator(exec_of(run.rig.service)),
        [SIMPLE] = hearth_simple_allocator(simple),
    };
    if (kind == BORROWED)
        EXPECT(HEARTH_OK, hearth_tensor_borrow(lent, count * sizeof *lent, HEARTH_DTYPE_UINT32,
                                               &shape, &tensor));
    else
        make_u32(from[kind], count, 0xDEAD, &tensor);
    bound_data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
}

/* The kernel's output is y, which is declared, or goes through a copy. Bound storage has `count` elements. */
static void open_run(kernel_fn *kernel, size_t count)
{
    EXPECT(HEARTH_OK, hearth_simple_create(8, &simple));
    run_open(&run, kind == INTERMEDIATE ? PLAN("", "z", NODE("node", "", "y", .kernel = kernel),
                                               NODE("copy", "y", "z", .kernel = copy_op))
                                        : PLAN("", "y", NODE("node", "", "y", .kernel = kernel)));
    if (is_bound())
        bind(count);
}

static void close_run(void)
{
    run_close(&run);
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
}

static const char *name(void)
{
    return kind == INTERMEDIATE ? "z" : "y";
}

static struct hearth_shape shapes[] = {
    {.dims = {-1}, .rank = 1},
    {.dims = {4, -4}, .rank = 2},
    {.dims = {0, -4}, .rank = 2},
    {.dims = {INT64_MIN}, .rank = 1},
    {.dims = {1, 1, 1, 1, 1, 1, 1, 1}, .rank = HEARTH_RANK_MAX + 1},
    {.dims = {4}, .rank = 1, .reserved = 1},
    {.dims = {INT64_MAX, INT64_MAX}, .rank = 2},
    {.dims = {(int64_t)1 << 62}, .rank = 1},
    {.dims = {(int64_t)1 << 32, (int64_t)1 << 32}, .rank = 2},
    {.dims = {17}, .rank = 1}, /* more than the bytes given */
};

/* They are refused as hearth_tensor_make() refuses them, and the slot stays usable. */
static enum hearth_status make_impossible(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape possible = shape_of(ELEMENTS);
    struct hearth_tensor *tensor = NULL;
    for (unsigned made = 0; made < 2; made++) {
        for (unsigned i = 0; i < COUNT_OF(shapes); i++) {
            size_t room[] = {0, 1, 64};
            for (unsigned j = i + 1 == COUNT_OF(shapes); j < COUNT_OF(room); j++) {
                struct hearth_tensor own = HEARTH_TENSOR_INIT;
                enum hearth_status status =
                    hearth_tensor_make(NULL, HEARTH_DTYPE_UINT32, &shapes[i], room[j], &own);
                cr_assert(status == (i < 6 || i == 9 ? HEARTH_INVALID : HEARTH_OVERFLOW),
                          "shape %u: %s", i, hearth_status_name(status));
                EXPECT(status, hearth_context_make_output_sized(context, 0, HEARTH_DTYPE_UINT32,
                                                                &shapes[i], room[j], &tensor));
                if (room[j] == 0)
                    EXPECT(status, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32,
                                                              &shapes[i], &tensor));
            }
        }
        EXPECT(HEARTH_INVALID,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_STRING, &possible, &tensor));
        EXPECT(HEARTH_INVALID,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_UNDEFINED, &possible, &tensor));
        if (made == 0) { /* again, on what is there */
            cr_assert_null(hearth_context_output(context, 0));
            EXPECT(HEARTH_OK,
                   hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &possible, &tensor));
            memcpy(hearth_tensor_data(tensor), ramp, sizeof ramp);
        }
    }
    expect_u32(hearth_tensor_data(tensor), hearth_tensor_size(tensor), ELEMENTS, 0, 1);
    return HEARTH_OK;
}

Test(outputs_misused, impossible_shapes)
{
    for (kind = 0; kind < KINDS; kind++) {
        open_run(make_impossible, ELEMENTS);
        struct hearth_run_stats stats = run_once(&run);
        expect_value(run.context, name(), ELEMENTS, 0, 1);
        EXPECT_SIZE(0, stats.payload_copies);
        if (is_bound())
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), bound_data);
        if (kind != SIMPLE)
            io_drop(export_of(run.context, name()));
        close_run();
    }
}

/* 16 elements by shape, in 96 bytes. */
enum { LAYOUT = 24 };

static void make_layout(struct hearth_allocator *allocator, struct hearth_tensor *tensor)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    EXPECT(HEARTH_OK, hearth_tensor_make(allocator, HEARTH_DTYPE_UINT32, &shape,
                                         LAYOUT * sizeof(uint32_t), tensor));
    for (uint32_t i = 0; i < LAYOUT; i++)
        ((uint32_t *)hearth_tensor_data(tensor))[i] = i + 7;
}

static enum hearth_status put_layout(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make_layout(NULL, &tensor);
    EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
    const struct hearth_tensor *output = hearth_context_output(context, 0);
    expect_u32(hearth_tensor_data(output), hearth_tensor_size(output), LAYOUT, 7, 1);
    EXPECT_SIZE(ELEMENTS, (size_t)hearth_tensor_shape(output)->dims[0]);
    return HEARTH_OK;
}

Test(outputs_misused, a_layout_of_the_kernels_own_arrives_whole)
{
    for (kind = 0; kind < KINDS; kind++) {
        open_run(put_layout, LAYOUT);
        for (unsigned i = 0; i < 3; i++) {
            struct hearth_run_stats stats = run_once(&run);
            expect_value(run.context, name(), LAYOUT, 7, 1);
            if (is_bound()) {
                cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), bound_data);
                EXPECT_SIZE(1, stats.payload_copies);
                EXPECT_SIZE(LAYOUT * sizeof(uint32_t), stats.copied_bytes);
                EXPECT_SIZE(1, stats.migration_copies);
            }
        }
        close_run();
    }
}

/* What is there stays when what comes next does not fit, whether it was made or put. */
static enum hearth_status put_too_much(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *output = NULL;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    memcpy(hearth_tensor_data(output), ramp, sizeof ramp);
    const void *data = hearth_tensor_data(output);
    size_t capacity = hearth_tensor_capacity(output);
    make_u32(NULL, capacity / 4 + 1, 99, &tensor);
    struct hearth_tensor before = tensor;
    EXPECT(HEARTH_INVALID, hearth_context_put_output(context, 0, &tensor));
    cr_assert_eq(memcmp(&before, &tensor, sizeof tensor), 0);
    shape = shape_of(capacity / 4 + 1);
    EXPECT(HEARTH_INVALID,
           hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, NULL));
    shape = shape_of(ELEMENTS);
    EXPECT(HEARTH_INVALID,
           hearth_context_make_output(context, 0, HEARTH_DTYPE_FLOAT, &shape, NULL));
    cr_assert_eq(hearth_context_output(context, 0), output);
    cr_assert_eq(hearth_tensor_data(output), data);
    expect_u32(data, hearth_tensor_size(output), ELEMENTS, 0, 1);
    hearth_tensor_cleanup(&tensor);
    return HEARTH_OK;
}

Test(outputs_misused, a_refusal_leaves_what_is_bound)
{
    for (kind = IO; kind < KINDS; kind++) {
        open_run(put_too_much, ELEMENTS);
        for (unsigned i = 0; i < 3; i++) {
            EXPECT_SIZE(0, run_once(&run).payload_copies);
            expect_value(run.context, "y", ELEMENTS, 0, 1);
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), bound_data);
        }
        close_run();
    }
}

/* The same where nothing is bound, and the allocator refuses. */
static struct counting counting;

static enum hearth_status put_when_refused(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *output = NULL;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    memcpy(hearth_tensor_data(output), ramp, sizeof ramp);
    EXPECT(HEARTH_OK,
           hearth_tensor_borrow(lent, sizeof lent, HEARTH_DTYPE_UINT32, &shape, &tensor));
    counting.fail_at = 1;
    EXPECT(HEARTH_NO_MEMORY, hearth_context_put_output(context, 0, &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_BORROWED);
    counting.fail_at = 1;
    EXPECT(HEARTH_NO_MEMORY,
           hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, NULL));
    counting.fail_at = 0;
    expect_u32(hearth_tensor_data(output), hearth_tensor_size(output), ELEMENTS, 0, 1);
    return HEARTH_OK;
}

Test(outputs_misused, a_refusal_leaves_what_was_made)
{
    for (kind = INTERMEDIATE; kind <= DECLARED; kind++) {
        open_run(put_when_refused, ELEMENTS);
        struct hearth_allocator *inner = kind == INTERMEDIATE
                                             ? hearth_exec_allocator(exec_of(run.rig.service))
                                             : hearth_io_allocator(run.rig.io);
        struct hearth_allocator *allocator = counting_open(&counting, inner);
        struct hearth_context_options options = CONTEXT_OPTIONS(.flags = 0);
        *(kind == INTERMEDIATE ? &options.execution : &options.io) = allocator;
        EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
        run.context = context_of(run.plan, options);
        EXPECT_SIZE(0, run_once(&run).payload_copies);
        expect_value(run.context, name(), ELEMENTS, 0, 1);
        close_run();
    }
}

/* The kernel takes its output's storage away, in one way or another, and then makes the output again. */
static unsigned way, runs;

enum { WAY_RESET, WAY_MOVE, WAY_RELEASE, WAY_EXPORT, WAYS };

static void take_away(struct hearth_tensor *output)
{
    struct hearth_tensor moved = HEARTH_TENSOR_INIT;
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    if (way == WAY_RESET)
        EXPECT(HEARTH_OK, hearth_tensor_reset(output));
    if (way == WAY_MOVE)
        EXPECT(HEARTH_OK, hearth_tensor_move(&moved, output));
    if (way == WAY_RELEASE && hearth_tensor_release(output, &handle) != HEARTH_OK)
        EXPECT(HEARTH_OK, hearth_tensor_reset(output)); /* it is no handle */
    if (way == WAY_EXPORT && hearth_tensor_export(output, run.rig.io, &lease) != HEARTH_OK)
        EXPECT(HEARTH_OK, hearth_tensor_reset(output)); /* it cannot become a lease */
    hearth_tensor_cleanup(&moved);
    hearth_handle_reset(&handle);
    if (hearth_lease_valid(lease))
        io_drop(lease);
}

static enum hearth_status make_after_leaving(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_tensor *output = NULL;
    struct hearth_shape shape = shape_of(ELEMENTS);
    for (unsigned i = 0; i < 10 && runs == 0; i++) {
        EXPECT(HEARTH_OK,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
        take_away(output);
        cr_assert_null(hearth_context_output(context, 0));
    }
    size_t count = runs == 0 ? ELEMENTS : 1000;
    shape = shape_of(count);
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    memset(hearth_tensor_data(output), 0, count * 4);
    return HEARTH_OK;
}

/* Nothing is bound any more, so a larger output is welcome; and what left does not count. */
Test(outputs_misused, what_the_kernel_took_away_is_not_bound)
{
    for (way = 0; way < WAYS; way++) {
        for (kind = 0; kind < KINDS; kind++) {
            open_run(make_after_leaving, ELEMENTS);
            runs = 0;
            struct hearth_run_stats stats = run_once(&run);
            EXPECT_SIZE(sizeof ramp,
                        kind == INTERMEDIATE ? stats.execution_peak_bytes : stats.io_peak_bytes);
            EXPECT_SIZE(0, stats.payload_copies);
            expect_value(run.context, name(), ELEMENTS, 0, 0);
            for (runs = 1; runs < 3; runs++) {
                stats = run_once(&run);
                expect_value(run.context, name(), 1000, 0, 0);
                EXPECT_SIZE(4000, kind == INTERMEDIATE ? stats.execution_peak_bytes
                                                       : stats.io_peak_bytes);
            }
            close_run();
        }
    }
}

/* An output that became another's by hearth_context_put_output(). */
static enum hearth_status pass_on(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *output = NULL;
    for (unsigned i = 0; i < 10; i++) {
        EXPECT(HEARTH_OK,
               hearth_context_make_output(context, 1, HEARTH_DTYPE_UINT32, &shape, &output));
        memcpy(hearth_tensor_data(output), ramp, sizeof ramp);
        EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, output));
        cr_assert_null(hearth_context_output(context, 1));
        /* Its own place is nothing new. */
        EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, hearth_context_output(context, 0)));
    }
    return hearth_context_make_output(context, 1, HEARTH_DTYPE_UINT32, &shape, NULL);
}

Test(outputs_misused, an_output_may_become_anothers)
{
    static const struct {
        const char *declared;
        size_t execution, io, copies, taken;
    } cases[] = {{"z", 128, 64, 0, 0},
                 {"a z", 64, 128, 0, 10},
                 {"b z", 64, 128, 10, 0},
                 {"a b z", 0, 192, 0, 0}};
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        run_open(&run, PLAN("", cases[i].declared, NODE("node", "", "a b", .kernel = pass_on),
                            OP("add", "a b", "z", NULL)));
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(cases[i].execution, stats.execution_peak_bytes);
        EXPECT_SIZE(cases[i].io, stats.io_peak_bytes);
        EXPECT_SIZE(cases[i].copies, stats.payload_copies);
        EXPECT_SIZE(cases[i].taken, stats.taken);
        run_close(&run);
    }
}
