/* SPDX-License-Identifier: Apache-2.0 */
/* Exported outputs outlive everything.
 * Covered: clear, the next runs and the end of context, session, plan and service in all 24 orders; exports
 * and releases on other threads; borrowed, staged, taken and inline values; all or none; kept outputs.
 * Not covered: bound outputs (test_bind.c). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(exports, .timeout = 120);

enum { WIDE = 5000 };

static struct hearth_plan *two_outputs(void)
{
    static struct op both = {.outs = 2, .count = {WIDE, 33}};
    return PLAN("x", "y z", OP("inner", "x", "t", NULL), OP("both", "t", "y z", &both));
}

static void open_run(void)
{
    run_open(&run, two_outputs());
    lend_ramp(run.context, "x");
}

/* What y is when x is the ramp. */
static void expect_y(struct hearth_lease lease)
{
    cr_assert(hearth_lease_valid(lease));
    EXPECT_SIZE(WIDE * 4, hearth_lease_size(lease));
    const uint32_t *data = hearth_lease_data(lease);
    for (uint32_t i = 0; i < WIDE; i++)
        cr_assert_eq(data[i], 2 + i % ELEMENTS);
}

static void expect_z(struct hearth_lease lease)
{
    EXPECT_SIZE(33 * 4, hearth_lease_size(lease));
    const uint32_t *data = hearth_lease_data(lease);
    for (uint32_t i = 0; i < 33; i++)
        cr_assert_eq(data[i], 3 + i % ELEMENTS);
}

static void end_one(unsigned which)
{
    if (which == 0)
        EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    else if (which == 1)
        EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    else if (which == 2)
        hearth_plan_unref(run.plan);
    else
        hearth_service_unref(run.rig.service);
}

static void drop_lease(void *lease)
{
    io_drop(*(struct hearth_lease *)lease);
}

static void survives(const unsigned *order, bool keep_one_inside)
{
    struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    open_run();
    (void)run_once(&run);
    EXPECT(HEARTH_OK, hearth_context_export(run.context, "y", &leases[0], NULL));
    if (!keep_one_inside)
        EXPECT(HEARTH_OK, hearth_context_export(run.context, "z", &leases[1], NULL));
    for (unsigned i = 0; i < 4; i++) {
        end_one(order[i]);
        expect_y(leases[0]);
        if (!keep_one_inside)
            expect_z(leases[1]);
    }
    on_thread(drop_lease, &leases[0]);
    cr_assert(!hearth_lease_valid(leases[0]));
    if (!keep_one_inside)
        io_drop(leases[1]);
    bank_close(&run.rig.bank);
}

static void all_orders(bool keep_one_inside)
{
    unsigned tried = 0;
    for (unsigned code = 0; code < 256; code++) {
        unsigned order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6};
        if ((1u << order[0] | 1u << order[1] | 1u << order[2] | 1u << order[3]) != 15)
            continue;
        survives(order, keep_one_inside);
        tried++;
    }
    EXPECT_SIZE(24, tried);
}

Test(exports, outputs_survive_the_end_of_everything_in_every_order)
{
    all_orders(false);
}

/* One output is still the context's when the others end. */
Test(exports, values_that_were_not_exported_end_in_every_order)
{
    all_orders(true);
}

Test(exports, outputs_survive_clear_and_the_next_runs)
{
    uint32_t other[ELEMENTS] = {9, 9, 9};
    open_run();
    (void)run_once(&run);
    struct hearth_lease y = export_of(run.context, "y");
    struct hearth_lease z = export_of(run.context, "z");
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    expect_y(y);
    for (unsigned i = 0; i < 5; i++) {
        lend_input(run.context, "x", other, ELEMENTS);
        (void)run_once(&run);
        cr_assert_neq(hearth_tensor_data(value_of(run.context, "y")), hearth_lease_data(y));
        expect_y(y);
        expect_z(z);
    }
    io_drop(y);
    io_drop(z);
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    run_close(&run);
}

/* Nothing is copied: the lease is where the kernel wrote. */
Test(exports, an_export_is_no_copy)
{
    struct hearth_tensor view = HEARTH_TENSOR_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    open_run();
    (void)run_once(&run);
    const void *data = hearth_tensor_data(value_of(run.context, "y"));
    log_clear(&run.log);
    EXPECT(HEARTH_OK, hearth_context_export(run.context, "y", &lease, &view));
    cr_assert_eq(hearth_lease_data(lease), data);
    cr_assert_eq(hearth_tensor_data(&view), data);
    cr_assert_eq(hearth_tensor_owner(&view), HEARTH_OWNER_BORROWED);
    cr_assert_eq(hearth_tensor_dtype(&view), HEARTH_DTYPE_UINT32);
    EXPECT_SIZE(1, hearth_tensor_shape(&view)->rank);
    EXPECT_SIZE(WIDE, (size_t)hearth_tensor_shape(&view)->dims[0]);
    EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_EXPORTED, "y"));
    EXPECT_SIZE(1, hearth_io_leased_count(run.rig.io));
    struct hearth_lease again = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_INVALID, hearth_context_export(run.context, "y", &again, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_export(run.context, "t", &again, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_export(run.context, "", &again, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_export(run.context, NULL, &again, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_export(run.context, "z", NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_export(NULL, "z", &again, NULL));
    cr_assert_neq(hearth_context_export(run.context, "z", &again, &view), HEARTH_OK);
    cr_assert_null(again.buf);
    cr_assert(has_value(run.context, "z"));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&view));
    io_drop(lease);
    run_close(&run);
}

Test(exports, a_borrowed_value_is_copied_once)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    run_open(&run, PLAN("x", "x y", OP("n", "x", "y", NULL)));
    lend_ramp(run.context, "x");
    EXPECT_SIZE(0, run_once(&run).payload_copies);
    log_clear(&run.log);
    EXPECT(HEARTH_OK, hearth_context_export(run.context, "x", &lease, NULL));
    cr_assert_neq(hearth_lease_data(lease), ramp);
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 0, 1);
    EXPECT_SIZE(1, log_count(&run.log, HEARTH_EVENT_COPIED));
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_COPIED, "x"));
    EXPECT_SIZE(1, hearth_io_leased_count(run.rig.io));
    expect_names(run.context, "y");
    io_drop(lease);
    run_close(&run);
}

Test(exports, a_staged_value_is_not_copied_again)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    run_open(&run, PLAN("x", "x y", OP("n", "x", "y", NULL)));
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    run.context =
        context_of(run.plan, CONTEXT_OPTIONS(.arena = run.rig.io, .events = &run.log.handler));
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    const void *data = hearth_tensor_data(value_of(run.context, "x"));
    (void)run_once(&run);
    log_clear(&run.log);
    struct hearth_lease lease = export_of(run.context, "x");
    cr_assert_eq(hearth_lease_data(lease), data);
    EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
    io_drop(lease);
    run_close(&run);
}

Test(exports, execution_and_inline_storage_become_leases_without_a_copy)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    open_run();
    (void)run_once(&run); /* the session's service is known from now on */
    struct hearth_allocator *allocators[] = {hearth_exec_allocator(exec_of(run.rig.service)), NULL,
                                             hearth_io_allocator(run.rig.io)};
    log_clear(&run.log);
    for (unsigned i = 0; i < COUNT_OF(allocators); i++) {
        make_u32(allocators[i], WIDE, i, &tensor);
        const void *data = hearth_tensor_data(&tensor);
        EXPECT(HEARTH_OK, hearth_context_put(run.context, "y", &tensor));
        struct hearth_lease lease = export_of(run.context, "y");
        cr_assert_eq(hearth_lease_data(lease), data);
        expect_u32(data, hearth_lease_size(lease), WIDE, i, 0);
        io_drop(lease);
    }
    EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
    run_close(&run);
}

static void export_both(void *leases)
{
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 2));
}

Test(exports, on_another_thread)
{
    struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    open_run();
    for (unsigned i = 0; i < 5; i++) {
        (void)run_once(&run);
        on_thread(export_both, leases);
        expect_y(leases[0]);
        expect_z(leases[1]);
        expect_names(run.context, "x");
        on_thread(drop_lease, &leases[1]);
        io_drop(leases[0]);
    }
    run_close(&run);
}

Test(exports, the_session_exports_all)
{
    struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    open_run();
    (void)run_once(&run);
    const void *y = hearth_tensor_data(value_of(run.context, "y"));
    const void *z = hearth_tensor_data(value_of(run.context, "z"));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, run.context, leases, 1));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, run.context, leases, 3));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, run.context, NULL, 2));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, NULL, leases, 2));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(NULL, run.context, leases, 2));
    expect_names(run.context, "x y z");
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 2));
    cr_assert_eq(hearth_lease_data(leases[0]), y);
    cr_assert_eq(hearth_lease_data(leases[1]), z);
    io_drop(leases[0]);
    io_drop(leases[1]);
    run_close(&run);
}

Test(exports, the_session_exports_all_or_none)
{
    struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    open_run();
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, run.context, leases, 2));
    (void)run_once(&run);
    EXPECT(HEARTH_OK, hearth_context_remove(run.context, "z"));
    EXPECT(HEARTH_INVALID, hearth_session_export_outputs(run.session, run.context, leases, 2));
    expect_names(run.context, "x y");
    EXPECT_SIZE(0, hearth_io_leased_count(run.rig.io));
    cr_assert_null(leases[0].buf);
    run_close(&run);
}

/* The first output can be exported, the second one needs a copy for which there is no storage. */
Test(exports, a_refusal_undoes_the_exports_before_it)
{
    enum { LARGE = 1 << 20 };
    static uint32_t large[LARGE];
    struct hearth_lease leases[3] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    static struct op both = {.outs = 2, .count = {10, 10}};
    run_open(&run, PLAN("x", "y x z", OP("n", "x", "y z", &both)));
    lend_input(run.context, "x", large, LARGE);
    (void)run_once(&run);
    const void *y = hearth_tensor_data(value_of(run.context, "y"));
    run.rig.bank.budget = bank_bytes(&run.rig.bank) + KIB;
    EXPECT(HEARTH_NO_MEMORY, hearth_session_export_outputs(run.session, run.context, leases, 3));
    expect_names(run.context, "x y z");
    EXPECT_SIZE(0, hearth_io_leased_count(run.rig.io));
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "x")), large);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), y);
    run.rig.bank.budget = 0;
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 3));
    cr_assert_eq(hearth_lease_data(leases[0]), y);
    for (unsigned i = 0; i < 3; i++)
        io_drop(leases[i]);
    run_close(&run);
}

Test(exports, every_output_can_be_kept)
{
    enum { KEPT = 40 };
    struct hearth_lease kept[KEPT][2];
    uint32_t input[ELEMENTS];
    open_run();
    for (uint32_t i = 0; i < KEPT; i++) {
        for (uint32_t j = 0; j < ELEMENTS; j++)
            input[j] = i * 1000;
        lend_input(run.context, "x", input, ELEMENTS);
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(0, stats.payload_copies);
        if (i >= 3)
            cr_assert_leq(stats.backing_acquires, 2); /* the outputs, and nothing else */
        EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, kept[i], 2));
        for (uint32_t j = 0; j <= i; j++) {
            expect_u32(hearth_lease_data(kept[j][0]), WIDE * 4, WIDE, j * 1000 + 2, 0);
            expect_u32(hearth_lease_data(kept[j][1]), 33 * 4, 33, j * 1000 + 3, 0);
        }
    }
    EXPECT_SIZE(2 * KEPT, hearth_io_leased_count(run.rig.io));
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    for (uint32_t i = 0; i < KEPT; i++) {
        io_drop(kept[i][0]);
        io_drop(kept[i][1]);
    }
    run_close(&run);
}
