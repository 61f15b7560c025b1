/* SPDX-License-Identifier: Apache-2.0 */
/* Where values live and how long.
 * Covered: declared outputs in the I/O arena, intermediates and workspaces in the execution arena, by owner
 * and by the arenas' figures; mixed nodes in both orders; optional slots; remade and sized outputs; sub-byte
 * types; release at the last use; values nobody uses; outputs that are read, inputs that are outputs.
 * Not covered: old-style kernels, bound outputs, bodies, in-place (programs of their own). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(routing, .timeout = 60);

static struct hearth_allocator *exec(void)
{
    return hearth_exec_allocator(exec_of(run.rig.service));
}

static struct hearth_allocator *io(void)
{
    return hearth_io_allocator(run.rig.io);
}

static void expect_live(size_t execution, size_t outputs)
{
    EXPECT_SIZE(execution, hearth_exec_live_bytes(exec_of(run.rig.service)));
    EXPECT_SIZE(outputs, hearth_io_live_bytes(run.rig.io));
}

Test(routing, each_role_has_its_arena)
{
    static struct op first = {.temporary = 1000}, last = {.temporary = 3000};
    run_open(&run, PLAN("x", "y", OP("first", "x", "t", &first), OP("last", "t", "y", &last)));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    cr_assert_eq(first.in_kind[0], HEARTH_OWNER_BORROWED);
    cr_assert_eq(first.in_data[0], ramp);
    cr_assert_eq(first.predicted[0], exec());
    cr_assert_eq(first.out[0], exec());
    cr_assert_eq(first.temporary_owner, exec());
    cr_assert_eq(last.in[0], exec());
    cr_assert_eq(last.in_data[0], first.out_data[0]);
    cr_assert_eq(last.predicted[0], io());
    cr_assert_eq(last.out[0], io());
    cr_assert_eq(last.temporary_owner, exec());
    expect_value(run.context, "y", ELEMENTS, 2, 1);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), last.out_data[0]);
    cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_buf_of(last.out_data[0], &buf));
    cr_assert_eq(hearth_buf_owner(buf), io());
    expect_names(run.context, "x y");
    expect_live(0, 64);
    EXPECT_SIZE(0, stats.payload_copies);
    EXPECT_SIZE(0, stats.taken);
    run_close(&run);
}

static void mixed(const char *outputs, bool first_is_declared)
{
    static struct op both, last;
    both = (struct op){.outs = 2, .count = {1000, 300}, .temporary = 5000};
    run_open(&run, PLAN("x", "y z", OP("both", "x", outputs, &both), OP("last", "t", "z", &last)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 4; i++) {
        struct hearth_run_stats stats = run_once(&run);
        unsigned declared = first_is_declared ? 0 : 1;
        cr_assert_eq(both.out[declared], io());
        cr_assert_eq(both.predicted[declared], io());
        cr_assert_eq(both.out[1 - declared], exec());
        cr_assert_eq(both.predicted[1 - declared], exec());
        cr_assert_eq(both.temporary_owner, exec());
        cr_assert_eq(last.in_data[0], both.out_data[1 - declared]);
        EXPECT_SIZE(0, stats.payload_copies + stats.taken + stats.migration_copies);
        EXPECT_SIZE(3, stats.tensors);
        EXPECT_SIZE(1, stats.temporaries);
        EXPECT_SIZE(1, stats.released);
        EXPECT_SIZE(both.count[declared] * 4 + both.count[1 - declared] * 4,
                    hearth_io_live_bytes(run.rig.io));
        EXPECT_SIZE(0, hearth_exec_live_bytes(exec_of(run.rig.service)));
        EXPECT_SIZE(both.count[1 - declared] * 4 + 5000, stats.execution_peak_bytes);
        EXPECT_SIZE(both.count[0] * 4 + both.count[1] * 4, stats.io_peak_bytes);
    }
    run_close(&run);
}

Test(routing, a_mixed_node_final_then_intermediate)
{
    mixed("y t", true);
}

Test(routing, a_mixed_node_intermediate_then_final)
{
    mixed("t y", false);
}

/* The workspace is taken after both outputs, and one before is returned early. */
static enum hearth_status workspaces(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_buf *early = NULL, *late = NULL, *own = NULL;
    struct hearth_exec *arena = exec_of(run.rig.service);
    EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 4096, &early));
    cr_assert_eq(hearth_buf_owner(early), exec());
    EXPECT(HEARTH_OK, run_op(context, NULL));
    EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 0, &late));
    cr_assert_neq(early, late);
    EXPECT_SIZE(0, hearth_buf_size(late));
    size_t live = hearth_exec_live_bytes(arena);
    EXPECT(HEARTH_OK, hearth_context_free_temporary(context, early));
    EXPECT_SIZE(live - 4096, hearth_exec_live_bytes(arena));
    EXPECT(HEARTH_FOREIGN, hearth_context_free_temporary(context, early));
    EXPECT(HEARTH_FOREIGN, hearth_context_free_temporary(context, NULL));
    EXPECT(HEARTH_OK, hearth_exec_alloc(arena, 10, &own));
    EXPECT(HEARTH_FOREIGN, hearth_context_free_temporary(context, own));
    EXPECT(HEARTH_OK, hearth_exec_free(arena, own));
    for (unsigned i = 0; i < 100; i++)
        EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 100, &late));
    EXPECT(HEARTH_INVALID, hearth_context_make_temporary(context, 100, NULL));
    EXPECT(HEARTH_OVERFLOW, hearth_context_make_temporary(context, SIZE_MAX, &late));
    return HEARTH_OK;
}

Test(routing, workspaces_go_back_early_or_when_the_kernel_returns)
{
    run_open(&run, PLAN("x", "y", NODE("n", "x", "y", .kernel = workspaces)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(102, run_once(&run).temporaries);
        expect_live(0, 64);
    }
    run_close(&run);
}

static enum hearth_status optional(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *made = NULL, own = HEARTH_TENSOR_INIT;
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    cr_assert_null(hearth_context_input(context, 0));
    cr_assert_not_null(hearth_context_input(context, 1));
    cr_assert_null(hearth_context_input(context, 2));
    cr_assert_null(hearth_context_input(context, 3));
    cr_assert_null(hearth_context_input(context, SIZE_MAX));
    for (size_t slot = 0; slot < 5; slot++) {
        cr_assert_null(hearth_context_output(context, slot));
        if (slot == 1)
            continue;
        cr_assert_null(hearth_context_allocator_for_output(context, slot));
        EXPECT(HEARTH_INVALID, hearth_context_make_output(context, slot, u32, &shape, &made));
        make_u32(exec(), ELEMENTS, 1, &own);
        EXPECT(HEARTH_INVALID, hearth_context_put_output(context, slot, &own));
        EXPECT(HEARTH_OK, hearth_tensor_reset(&own));
    }
    EXPECT(HEARTH_INVALID, hearth_context_make_output(context, SIZE_MAX, u32, &shape, &made));
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 1, u32, &shape, &made));
    memcpy(hearth_tensor_data(made), ramp, sizeof ramp);
    cr_assert_eq(hearth_context_output(context, 1), made);
    return HEARTH_OK;
}

Test(routing, optional_slots_may_be_empty)
{
    run_open(&run, PLAN("x", "y", NODE("n", "- x -", "- y -", .kernel = optional)));
    lend_ramp(run.context, "x");
    EXPECT_SIZE(1, run_once(&run).tensors);
    expect_value(run.context, "y", ELEMENTS, 0, 1);
    run_close(&run);
}

static enum hearth_status remake(struct hearth_context *context, void *user)
{
    const size_t *live = user; /* slot 0 is declared */
    struct hearth_shape bad = {.dims = {3, -1}, .rank = 2};
    struct hearth_shape huge = {.dims = {INT64_MAX, 4}, .rank = 2};
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    struct hearth_tensor *made = NULL;
    for (size_t count = 1; count < 3000; count *= 3) {
        struct hearth_shape shape = shape_of(count);
        EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, u32, &shape, &made));
        EXPECT(HEARTH_OK, hearth_context_make_output(context, 1, u32, &shape, &made));
        EXPECT_SIZE(count * 4, hearth_tensor_size(made));
        expect_live(count * 4, count * 4 + *live);
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)hearth_tensor_data(hearth_context_output(context, 0)))[i] = 5;
    }
    EXPECT(HEARTH_INVALID, hearth_context_make_output(context, 0, u32, &bad, &made));
    EXPECT(HEARTH_INVALID, hearth_context_make_output(context, 0, u32, NULL, &made));
    EXPECT(HEARTH_OVERFLOW, hearth_context_make_output(context, 0, u32, &huge, &made));
    return HEARTH_OK;
}

Test(routing, making_a_slot_twice_releases_the_first)
{
    static size_t none = 0;
    run_open(&run, PLAN("x", "y", NODE("n", "x", "y t", .kernel = remake, .user = &none)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(0, run_once(&run).payload_copies);
        expect_live(0, 2187 * 4);
    }
    run_close(&run);
}

/* Each element type: declared and intermediate, with a shape of 3 x 7 elements and no elements at all. */
static enum hearth_status typed(struct hearth_context *context, void *user)
{
    const uint32_t *dtype = user;
    struct hearth_shape shape = {.dims = {3, 7}, .rank = 2}, empty = {.dims = {0}, .rank = 1};
    struct hearth_tensor *made = NULL;
    size_t bytes = 0;
    EXPECT(HEARTH_OK, hearth_shape_bytes(*dtype, &shape, &bytes));
    EXPECT_SIZE((21 * hearth_dtype_bits(*dtype) + 7) / 8, bytes);
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, *dtype, &shape, &made));
    EXPECT_SIZE(bytes, hearth_tensor_size(made));
    memset(hearth_tensor_data(made), 0x21, bytes);
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 1, *dtype, &empty, &made));
    EXPECT_SIZE(0, hearth_tensor_size(made));
    return HEARTH_OK;
}

Test(routing, all_element_types)
{
    static uint32_t dtype;
    run_open(&run, PLAN("", "y z", NODE("typed", "", "t z", .kernel = typed, .user = &dtype),
                        NODE("copy", "t", "y", .kernel = copy_op)));
#define HAS_BITS(name, value, bits, text) (bits) ? (value) : 0,
    const uint32_t dtypes[] = {HEARTH_DTYPE_MAP(HAS_BITS)};
#undef HAS_BITS
    unsigned tried = 0;
    for (size_t i = 0; i < COUNT_OF(dtypes); i++) {
        dtype = dtypes[i];
        if (dtype == HEARTH_DTYPE_UNDEFINED)
            continue;
        (void)run_once(&run);
        const struct hearth_tensor *y = value_of(run.context, "y");
        cr_assert_eq(hearth_tensor_dtype(y), dtype);
        EXPECT_SIZE((21 * hearth_dtype_bits(dtype) + 7) / 8, hearth_tensor_size(y));
        for (size_t j = 0; j < hearth_tensor_size(y); j++)
            cr_assert_eq(((unsigned char *)hearth_tensor_data(y))[j], 0x21);
        tried++;
    }
    EXPECT_SIZE(25, tried);
    run_close(&run);
}

static enum hearth_status text(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_shape shape = shape_of(2);
    struct hearth_tensor *made = NULL;
    enum hearth_dtype string = HEARTH_DTYPE_STRING, u32 = HEARTH_DTYPE_UINT32;
    EXPECT(HEARTH_INVALID, hearth_context_make_output(context, 0, string, &shape, &made));
    EXPECT(HEARTH_INVALID, hearth_context_make_output_sized(context, 1, u32, &shape, 7, &made));
    EXPECT(HEARTH_OK, hearth_context_make_output_sized(context, 0, string, &shape, 4, &made));
    memcpy(hearth_tensor_data(made), "a\0b", 4);
    EXPECT(HEARTH_OK, hearth_context_make_output_sized(context, 1, u32, &shape, 1000, &made));
    EXPECT_SIZE(1000, hearth_tensor_size(made));
    return HEARTH_OK;
}

Test(routing, sized_outputs)
{
    run_open(&run, PLAN("", "y", NODE("n", "", "y t", .kernel = text)));
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(4, hearth_tensor_size(value_of(run.context, "y")));
    cr_assert_eq(memcmp(hearth_tensor_data(value_of(run.context, "y")), "a\0b", 4), 0);
    EXPECT_SIZE(1000, stats.execution_peak_bytes);
    EXPECT_SIZE(4, stats.io_peak_bytes);
    run_close(&run);
}

/* Live execution bytes seen by each node of a chain when it starts. */
struct seen {
    size_t execution;
    size_t count;
};

static enum hearth_status look(struct hearth_context *context, void *user)
{
    struct seen *seen = user;
    struct op op = {.count = {(uint32_t)seen->count}};
    seen->execution = hearth_exec_live_bytes(exec_of(run.rig.service));
    return run_op(context, &op);
}

#define LOOK(name, inputs, outputs, seen_)                                                         \
    NODE(name, inputs, outputs, .kernel = look, .user = &(seen_))

Test(routing, a_value_is_released_after_its_last_use)
{
    static struct seen a = {.count = 100}, b = {.count = 200}, c = {.count = 300}, d = {.count = 9};
    run_open(&run, PLAN("x", "y", LOOK("a", "x", "a", a), LOOK("b", "a", "b", b),
                        LOOK("c", "b", "c", c), LOOK("d", "c a", "y", d)));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(0, a.execution);
    EXPECT_SIZE(400, b.execution);        /* a */
    EXPECT_SIZE(400 + 800, c.execution);  /* a, b */
    EXPECT_SIZE(400 + 1200, d.execution); /* a, c: b is gone */
    expect_live(0, 36);
    EXPECT_SIZE(3, stats.released);
    EXPECT_SIZE(400 + 800 + 1200, stats.execution_peak_bytes);
    EXPECT_SIZE(3, log_count(&run.log, HEARTH_EVENT_RELEASED));
    const char *dying[] = {"b", "a", "c"};
    for (size_t i = 0; i < COUNT_OF(dying); i++)
        EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_RELEASED, dying[i]));
    run_close(&run);
}

Test(routing, a_value_that_nobody_uses_dies_with_its_node)
{
    static struct op both = {.outs = 2, .count = {100, 100}};
    static struct seen last = {.count = 1};
    run_open(&run,
             PLAN("x", "y", OP("both", "x", "t unused", &both), LOOK("last", "t", "y", last)));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(400, last.execution);
    EXPECT_SIZE(800, stats.execution_peak_bytes);
    EXPECT_SIZE(2, stats.released);
    expect_names(run.context, "x y");
    expect_live(0, 4);
    run_close(&run);
}

Test(routing, a_declared_output_may_be_read)
{
    static struct op reader;
    run_open(&run, PLAN("x", "y z", OP("first", "x", "y", NULL), OP("last", "y", "z", &reader)));
    lend_ramp(run.context, "x");
    EXPECT_SIZE(0, run_once(&run).released);
    cr_assert_eq(reader.in[0], io());
    cr_assert_eq(reader.in_data[0], hearth_tensor_data(value_of(run.context, "y")));
    expect_value(run.context, "y", ELEMENTS, 1, 1);
    expect_value(run.context, "z", ELEMENTS, 2, 1);
    run_close(&run);
}

Test(routing, an_input_may_be_an_output)
{
    run_open(&run, PLAN("x", "x y", OP("n", "x", "y", NULL)));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(0, stats.payload_copies);
    EXPECT_SIZE(1, stats.tensors);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "x")), ramp);
    (void)run_once(&run); /* it is an input again, and is not released */
    expect_value(run.context, "y", ELEMENTS, 1, 1);
    expect_names(run.context, "x y");
    run_close(&run);
}
