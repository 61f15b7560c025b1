/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that know no slots: they make tensors with the context's active allocator and put them.
 * Covered: all-declared nodes in place; mixed nodes by take, or by one counted copy where no take leads;
 * switching the allocator; HEARTH_CONTEXT_FOREIGN; borrowed and inline tensors; leases; refusals.
 * Not covered: bodies (test_body.c). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(old_kernels, .timeout = 60);

static struct hearth_allocator *exec(void)
{
    return hearth_exec_allocator(exec_of(run.rig.service));
}

static struct hearth_allocator *io(void)
{
    return hearth_io_allocator(run.rig.io);
}

static void open_with(struct hearth_plan *plan, uint32_t flags)
{
    run_open_with(&run, plan, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER),
                  CONTEXT_OPTIONS(.flags = flags));
    lend_ramp(run.context, "x");
}

static void expect_moves(const struct hearth_run_stats *stats, uint64_t copies, uint64_t bytes,
                         uint64_t taken)
{
    EXPECT_SIZE(copies, stats->payload_copies);
    EXPECT_SIZE(bytes, stats->copied_bytes);
    EXPECT_SIZE(taken, stats->taken);
    EXPECT_SIZE(copies, log_count(&run.log, HEARTH_EVENT_COPIED));
    EXPECT_SIZE(taken, log_count(&run.log, HEARTH_EVENT_TAKEN));
    log_clear(&run.log);
}

Test(old_kernels, a_node_of_outputs_only_is_in_place)
{
    static struct op both = {.outs = 2, .old = true};
    open_with(PLAN("x", "y z", OP("both", "x", "y z", &both)), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_moves(&stats, 0, 0, 0);
        cr_assert_eq(both.active, io());
        for (unsigned slot = 0; slot < 2; slot++) {
            cr_assert_eq(both.out[slot], io());
            cr_assert_eq(both.made[slot], both.out_data[slot]);
        }
        expect_value(run.context, "y", ELEMENTS, 1, 1);
        expect_value(run.context, "z", ELEMENTS, 2, 1);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), both.made[0]);
    }
    run_close(&run);
}

/* An unused optional output does not make a node mixed. */
Test(old_kernels, unused_outputs_do_not_count)
{
    static struct op only = {.old = true}, inner = {.old = true};
    open_with(PLAN("x", "y", OP("inner", "x", "t -", &inner), OP("only", "t", "y - -", &only)), 0);
    struct hearth_run_stats stats = run_once(&run);
    expect_moves(&stats, 0, 0, 0);
    cr_assert_eq(only.active, io());
    cr_assert_eq(inner.active, exec());
    cr_assert_eq(inner.out[0], exec());
    cr_assert_eq(inner.made[0], inner.out_data[0]);
    run_close(&run);
}

static void mixed(const char *outputs, unsigned declared)
{
    static struct op both, last;
    both = (struct op){.outs = 2, .old = true, .temporary = 500};
    last = (struct op){.old = true};
    open_with(PLAN("x", "y z", OP("both", "x", outputs, &both), OP("last", "t", "z", &last)), 0);
    for (unsigned i = 0; i < 5; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_moves(&stats, 0, 0, 1);
        EXPECT_SIZE(0, stats.migration_copies);
        cr_assert_eq(both.active, exec());
        cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), both.made[declared]);
        cr_assert_eq(last.in_data[0], both.made[1 - declared]);
        cr_assert_eq(last.in[0], exec());
        expect_value(run.context, "y", ELEMENTS, 1 + declared, 1);
        expect_value(run.context, "z", ELEMENTS, 3 - declared, 1);
        EXPECT_SIZE(0, hearth_exec_live_bytes(exec_of(run.rig.service)));
        EXPECT_SIZE(2 * sizeof ramp, hearth_io_live_bytes(run.rig.io));
    }
    run_close(&run);
}

Test(old_kernels, a_mixed_node_final_then_intermediate)
{
    mixed("y t", 0);
}

Test(old_kernels, a_mixed_node_intermediate_then_final)
{
    mixed("t y", 1);
}

Test(old_kernels, takes_do_not_pile_up)
{
    static struct op both = {.outs = 2, .old = true, .count = {100000, 10}};
    open_with(PLAN("x", "y", OP("both", "x", "y t", &both)), 0);
    for (unsigned i = 0; i < 5; i++)
        (void)run_once(&run);
    size_t footprint = hearth_service_footprint(run.rig.service);
    for (unsigned i = 0; i < 60; i++)
        EXPECT_SIZE(1, run_once(&run).taken);
    cr_assert_leq(hearth_service_footprint(run.rig.service), footprint + 400000);
    run_close(&run);
}

Test(old_kernels, where_no_take_leads_there_is_one_copy)
{
    static struct op both = {.outs = 2, .old = true, .count = {700, 700}};
    struct hearth_service_options options = SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER);
    EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &options.exec_backing));
    run_open_with(&run, PLAN("x", "y z", OP("both", "x", "t y", &both), OP("last", "t", "z", NULL)),
                  options, CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(run.context, "x");
    cr_assert(!hearth_io_can_take(run.rig.io, exec_of(run.rig.service)));
    for (unsigned i = 0; i < 4; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_moves(&stats, 1, 2800, 0);
        EXPECT_SIZE(1, stats.migration_copies);
        EXPECT_SIZE(0, stats.staged_copies);
        const struct hearth_tensor *y = value_of(run.context, "y");
        cr_assert_eq(hearth_tensor_allocator(y), io());
        cr_assert_neq(hearth_tensor_data(y), both.made[1]);
        cr_assert_eq(both.out[0], exec());
        for (size_t j = 0; j < 700; j++)
            EXPECT_SIZE(2 + j % ELEMENTS, ((uint32_t *)hearth_tensor_data(y))[j]);
        EXPECT_SIZE(0, hearth_exec_live_bytes(exec_of(run.rig.service)));
    }
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    hearth_plan_unref(run.plan);
    EXPECT_SIZE(0, hearth_service_live_bytes(run.rig.service));
    hearth_service_unref(run.rig.service);
    EXPECT_SIZE(0, hearth_backing_footprint(options.exec_backing));
    hearth_backing_unref(options.exec_backing);
    bank_close(&run.rig.bank);
}

/* The context brings the execution arena, on a backing of another kind than the service's. */
Test(old_kernels, an_own_execution_arena_that_cannot_be_taken_from)
{
    static struct op both = {.outs = 2, .old = true};
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &options.backing));
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    run_open_with(&run, PLAN("x", "y z", OP("both", "x", "y t", &both), OP("last", "t", "z", NULL)),
                  SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER),
                  CONTEXT_OPTIONS(.execution = hearth_exec_allocator(arena)));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    expect_moves(&stats, 1, sizeof ramp, 0);
    EXPECT_SIZE(1, stats.migration_copies);
    cr_assert_eq(both.active, hearth_exec_allocator(arena));
    cr_assert_eq(both.out[1], hearth_exec_allocator(arena));
    cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
    expect_value(run.context, "y", ELEMENTS, 1, 1);
    run_close(&run);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    hearth_backing_unref(options.backing);
}

/* Which allocator the kernel switches to before it makes its outputs, for the whole node. */
static struct hearth_allocator *chosen;

static enum hearth_status switching(struct hearth_context *context, void *user)
{
    struct hearth_allocator *given = hearth_context_allocator(context);
    EXPECT(HEARTH_OK, hearth_context_set_allocator(context, chosen));
    cr_assert_eq(hearth_context_allocator(context), chosen);
    enum hearth_status status = run_op(context, user);
    EXPECT(HEARTH_OK, hearth_context_set_allocator(context, NULL));
    cr_assert_eq(hearth_context_allocator(context), given);
    EXPECT(HEARTH_OK, hearth_context_set_allocator(context, chosen));
    return status;
}

Test(old_kernels, the_active_allocator_can_be_switched)
{
    static struct op both = {.outs = 2, .old = true}, last = {.old = true};
    open_with(PLAN("x", "y z", NODE("both", "x", "t y", .kernel = switching, .user = &both),
                   OP("last", "t", "z", &last)),
              0);
    chosen = io();
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        /* The intermediate does not belong there, and nothing but a copy leads back. */
        expect_moves(&stats, 1, sizeof ramp, 0);
        EXPECT_SIZE(1, stats.migration_copies);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), both.made[1]);
        cr_assert_eq(last.in[0], exec());
        cr_assert_neq(last.in_data[0], both.made[0]);
        cr_assert_eq(last.active, io()); /* by its own outputs, not by the kernel before */
        expect_value(run.context, "y", ELEMENTS, 2, 1);
        expect_value(run.context, "z", ELEMENTS, 2, 1);
        EXPECT_SIZE(2 * sizeof ramp, hearth_io_live_bytes(run.rig.io));
    }
    run_close(&run);
}

Test(old_kernels, an_output_node_may_switch_to_execution_storage)
{
    static struct op only = {.old = true};
    open_with(PLAN("x", "y", NODE("only", "x", "y", .kernel = switching, .user = &only)), 0);
    chosen = exec();
    struct hearth_run_stats stats = run_once(&run);
    expect_moves(&stats, 0, 0, 1);
    cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), only.made[0]);
    run_close(&run);
}

Test(old_kernels, foreign_values_stay_where_they_are)
{
    static struct op both = {.outs = 2, .old = true}, last = {.old = true};
    open_with(PLAN("x", "y z", NODE("both", "x", "t y", .kernel = switching, .user = &both),
                   OP("last", "t", "z", &last)),
              HEARTH_CONTEXT_FOREIGN);
    struct hearth_simple *simple = NULL;
    EXPECT(HEARTH_OK, hearth_simple_create_on(run.rig.bank.backing, 16, &simple));
    chosen = hearth_simple_allocator(simple);
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_moves(&stats, 0, 0, 0);
        cr_assert_eq(last.in[0], chosen);
        cr_assert_eq(last.in_data[0], both.made[0]);
        cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), chosen);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), both.made[1]);
        cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "z")), io());
        EXPECT_SIZE(1, hearth_simple_live_count(simple));
    }
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    run_close(&run);
}

Test(old_kernels, without_the_option_foreign_values_are_copied)
{
    static struct op both = {.outs = 2, .old = true}, last = {.old = true};
    open_with(PLAN("x", "y z", NODE("both", "x", "t y", .kernel = switching, .user = &both),
                   OP("last", "t", "z", &last)),
              0);
    struct hearth_simple *simple = NULL;
    EXPECT(HEARTH_OK, hearth_simple_create_on(run.rig.bank.backing, 16, &simple));
    chosen = hearth_simple_allocator(simple);
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(0, hearth_simple_live_count(simple));
    expect_moves(&stats, 2, 2 * sizeof ramp, 0);
    cr_assert_eq(last.in[0], exec());
    cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
    expect_value(run.context, "y", ELEMENTS, 2, 1);
    expect_value(run.context, "z", ELEMENTS, 2, 1);
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    run_close(&run);
}

static uint32_t reused_by_the_kernel[ELEMENTS];

static enum hearth_status borrowing(struct hearth_context *context, void *user)
{
    const unsigned *outs = user;
    struct hearth_shape shape = shape_of(ELEMENTS);
    for (unsigned slot = 0; slot < *outs; slot++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        memcpy(reused_by_the_kernel, ramp, sizeof ramp);
        EXPECT(HEARTH_OK, hearth_tensor_borrow(reused_by_the_kernel, sizeof ramp,
                                               HEARTH_DTYPE_UINT32, &shape, &tensor));
        EXPECT(HEARTH_OK, hearth_context_put_output(context, slot, &tensor));
        cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
    }
    return HEARTH_OK;
}

/* Scribbles over what the first kernel lent, and then reads its input. */
static enum hearth_status scribbling(struct hearth_context *context, void *user)
{
    memset(reused_by_the_kernel, 0xEE, sizeof reused_by_the_kernel);
    return run_op(context, user);
}

Test(old_kernels, a_borrowed_value_becomes_a_value_of_its_own)
{
    static unsigned outs = 2;
    static struct op last;
    open_with(PLAN("x", "y z", NODE("both", "x", "t y", .kernel = borrowing, .user = &outs),
                   NODE("last", "t", "z", .kernel = scribbling, .user = &last)),
              0);
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_moves(&stats, 2, 2 * sizeof ramp, 0);
        cr_assert_eq(last.in[0], exec());
        cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")), io());
        expect_value(run.context, "y", ELEMENTS, 0, 1);
        expect_value(run.context, "z", ELEMENTS, 1, 1);
        EXPECT_SIZE(0, hearth_exec_live_bytes(exec_of(run.rig.service)));
    }
    run_close(&run);
}

static enum hearth_status inlining(struct hearth_context *context, void *user)
{
    (void)user;
    for (unsigned slot = 0; slot < 2; slot++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        make_u32(NULL, ELEMENTS, 40 + slot, &tensor);
        EXPECT(HEARTH_OK, hearth_context_put_output(context, slot, &tensor));
        cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
    }
    return HEARTH_OK;
}

/* Inline storage is no allocator's: it may stay, or be copied and counted. */
Test(old_kernels, inline_tensors_are_values_too)
{
    static struct op last;
    open_with(
        PLAN("x", "y z", NODE("both", "x", "t y", .kernel = inlining), OP("last", "t", "z", &last)),
        0);
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        const struct hearth_tensor *y = value_of(run.context, "y");
        unsigned copies = (last.in_kind[0] != HEARTH_OWNER_INLINE ? 1u : 0u) +
                          (hearth_tensor_owner(y) != HEARTH_OWNER_INLINE ? 1u : 0u);
        EXPECT_SIZE(copies, stats.payload_copies);
        expect_value(run.context, "y", ELEMENTS, 41, 0);
        expect_value(run.context, "z", ELEMENTS, 41, 0);
    }
    struct hearth_lease lease = export_of(run.context, "y");
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 41, 0);
    io_drop(lease);
    run_close(&run);
}

static enum hearth_status putting_twice(struct hearth_context *context, void *user)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, empty = HEARTH_TENSOR_INIT;
    for (uint32_t i = 0; i < 3; i++) {
        make_u32(hearth_context_allocator(context), ELEMENTS, i, &tensor);
        EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, &tensor));
    }
    EXPECT(HEARTH_INVALID, hearth_context_put_output(context, 0, &empty));
    EXPECT(HEARTH_INVALID, hearth_context_put_output(context, 0, NULL));
    EXPECT_SIZE(sizeof ramp, hearth_live_bytes(hearth_context_allocator(context)));
    return *(enum hearth_status *)user;
}

Test(old_kernels, the_last_of_several_outputs_counts)
{
    static enum hearth_status answer = HEARTH_OK;
    open_with(PLAN("x", "y", NODE("n", "x", "y", .kernel = putting_twice, .user = &answer)), 0);
    struct hearth_run_stats stats = run_once(&run);
    expect_moves(&stats, 0, 0, 0);
    expect_value(run.context, "y", ELEMENTS, 2, 0);
    answer = HEARTH_TIMEOUT;
    EXPECT(HEARTH_OK, hearth_context_remove(run.context, "y"));
    (void)run_expecting(&run, HEARTH_TIMEOUT);
    EXPECT_SIZE(0, hearth_io_live_bytes(run.rig.io));
    run_close(&run);
}
