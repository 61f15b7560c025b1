/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: subgraphs, functions and loops.
 * Covered: values cross without a copy, by handle, lent, and by take; routed outputs; loops that run a varying
 * number of times; nested bodies and two bodies in a node; parallel runs; the steady state. Not covered:
 * failures and wrong uses (test_body_misuse.c). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(body, .timeout = 120);

/* next = state + x + 2, with an intermediate in between. */
static struct op inner, outer_op;

static struct hearth_plan *step_plan(void)
{
    return PLAN("state x", "next", OP("inner", "state", "t", &inner),
                OP("outer", "t x", "next", &outer_op));
}

struct loop {
    unsigned trips;
    bool routed;
    bool shared;      /* several run at once: where values are is not looked at */
    const void *last; /* where the last state was */
};

/* A routed output is the kernel's to move, as any other. */
static enum hearth_status deliver(struct hearth_context *context, struct hearth_context *body,
                                  const char *name, const void **data)
{
    struct hearth_tensor value = HEARTH_TENSOR_INIT;
    cr_assert_null(hearth_context_output(context, 0));
    EXPECT(HEARTH_OK, hearth_context_take(body, name, &value));
    *data = hearth_tensor_data(&value);
    enum hearth_status status = hearth_context_put_output(context, 0, &value);
    hearth_tensor_cleanup(&value);
    return status;
}

/* Input 0 is the first state, input 1 is added in every trip. */
static enum hearth_status run_loop(struct hearth_context *context, void *user)
{
    struct loop *loop = user;
    struct hearth_tensor state = HEARTH_TENSOR_INIT;
    struct hearth_context *body = NULL;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    EXPECT_SIZE(0, hearth_context_count(body));
    for (unsigned trip = 0; trip < loop->trips; trip++) {
        const struct hearth_tensor *given = hearth_context_input(context, 0);
        const void *data = trip ? hearth_tensor_data(&state) : hearth_tensor_data(given);
        if (trip)
            EXPECT(HEARTH_OK, hearth_context_put(body, "state", &state));
        else
            EXPECT(HEARTH_OK, hearth_context_lend(body, "state", given));
        EXPECT(HEARTH_OK, hearth_context_lend(body, "x", hearth_context_input(context, 1)));
        if (loop->routed && trip + 1 == loop->trips)
            EXPECT(HEARTH_OK, hearth_context_route_output(body, "next", 0));
        enum hearth_status status = hearth_context_run_body(body);
        if (status != HEARTH_OK)
            return status;
        if (!loop->shared)
            cr_assert_eq(inner.in_data[0], data);
        if (trip) /* what was put is gone, what was lent is not */
            cr_assert(!has_value(body, "state"));
        cr_assert(has_value(body, "x"));
        if (trip + 1 < loop->trips)
            EXPECT(HEARTH_OK, hearth_context_take(body, "next", &state));
    }
    return deliver(context, body, "next", &loop->last);
}

#define LOOP(name_, inputs_, outputs_, loop_)                                                      \
    NODE(name_, inputs_, outputs_, .kernel = run_loop, .user = (loop_), .bodies = {step_plan()})

static const uint32_t fives[ELEMENTS] = {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};

static void open_run(struct hearth_plan *plan)
{
    run_open(&run, plan);
    lend_ramp(run.context, "x");
    lend_input(run.context, "c", fives, ELEMENTS);
}

/* The loop's output is an intermediate: the state moves there by handle. */
Test(body, an_intermediate_crosses_by_handle)
{
    static struct loop loop = {.trips = 4};
    static struct op reader;
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "t", &loop), OP("reader", "t", "y", &reader)));
    for (unsigned i = 1; i < 10; i++) {
        loop.trips = i;
        struct hearth_run_stats stats = run_once(&run);
        expect_value(run.context, "y", ELEMENTS, i * 7 + 1, 1);
        cr_assert_eq(reader.in_data[0], loop.last);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
        EXPECT_SIZE(i, stats.body_runs);
        expect_names(run.context, "x c y");
    }
    run_close(&run);
}

/* It is a declared output: the I/O arena takes the state. */
Test(body, a_declared_output_is_taken)
{
    static struct loop loop = {.trips = 3};
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    for (unsigned i = 0; i < 5; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_value(run.context, "y", ELEMENTS, 21, 1);
        const struct hearth_tensor *y = value_of(run.context, "y");
        cr_assert_eq(hearth_tensor_data(y), loop.last);
        cr_assert_eq(hearth_tensor_allocator(y), hearth_io_allocator(run.rig.io));
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(1, stats.taken);
        EXPECT_SIZE(3, stats.body_runs);
    }
    struct hearth_lease lease = export_of(run.context, "y");
    EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
    EXPECT(HEARTH_OK, hearth_session_destroy(run.session));
    hearth_plan_unref(run.plan);
    hearth_service_unref(run.rig.service);
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 21, 1);
    io_drop(lease);
    bank_close(&run.rig.bank);
}

Test(body, a_routed_output_is_written_straight_to_its_role)
{
    static struct loop loop = {.trips = 3, .routed = true};
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    for (unsigned i = 0; i < 5; i++) {
        struct hearth_run_stats stats = run_once(&run);
        expect_value(run.context, "y", ELEMENTS, 21, 1);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), outer_op.out_data[0]);
        cr_assert_eq(outer_op.out[0], hearth_io_allocator(run.rig.io));
        cr_assert_eq(outer_op.predicted[0], hearth_io_allocator(run.rig.io));
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
    }
    run_close(&run);
}

/* A routed output of a bound slot comes to the bound storage by a copy, whatever the number of turns. */
Test(body, a_routed_output_is_copied_to_bound_storage)
{
    static struct loop loop = {.trips = 2, .routed = true};
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    make_u32(hearth_io_allocator(run.rig.io), ELEMENTS, 0, &tensor);
    const void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(1, run_once(&run).payload_copies);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
        expect_value(run.context, "y", ELEMENTS, 14, 1);
    }
    run_close(&run);
}

Test(body, its_intermediates_have_an_arena_of_their_own)
{
    static struct loop loop = {.trips = 2};
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    inner.temporary = 3000;
    (void)run_once(&run);
    struct hearth_allocator *parent = hearth_exec_allocator(exec_of(run.rig.service));
    cr_assert_not_null(inner.out[0]);
    cr_assert_neq(inner.out[0], parent);
    cr_assert_neq(inner.out[0], hearth_io_allocator(run.rig.io));
    cr_assert_eq(inner.temporary_owner, inner.out[0]);
    cr_assert_eq(inner.predicted[0], inner.out[0]);
    cr_assert_eq(inner.active, inner.out[0]);
    EXPECT_SIZE(0, hearth_live_bytes(inner.out[0]));
    EXPECT_SIZE(0, hearth_live_bytes(parent));
    struct hearth_allocator *child = inner.out[0];
    (void)run_once(&run);
    cr_assert_eq(inner.out[0], child); /* kept for the next run */
    run_close(&run);
}

static void expect_steady(struct loop *loop)
{
    for (unsigned i = 0; i < 3; i++) {
        loop->trips = 50;
        (void)run_once(&run);
    }
    size_t heap = heap_bytes();
    for (unsigned i = 1; i < 60; i++) {
        uint64_t acquires = bank_acquires(&run.rig.bank), releases = run.rig.bank.releases;
        loop->trips = i;
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(loop->trips, stats.body_runs);
        EXPECT_SIZE(0, stats.backing_acquires + stats.backing_releases);
        EXPECT_SIZE(acquires, bank_acquires(&run.rig.bank));
        EXPECT_SIZE(releases, run.rig.bank.releases);
        EXPECT_SIZE(0, stats.payload_copies);
        expect_value(run.context, "y", ELEMENTS, loop->trips * 7, 1);
        log_clear(&run.log);
    }
    EXPECT_SIZE(heap, heap_bytes());
}

Test(body, the_steady_state_holds_for_any_number_of_trips)
{
    static struct loop loop = {.routed = true};
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    expect_steady(&loop);
    run_close(&run);
}

/* Storage that is taken leaves the execution arena in exchange for what came home from the run before. */
Test(body, the_steady_state_holds_with_takes)
{
    static struct loop loop;
    open_run(PLAN("x c", "y", LOOP("loop", "x c", "y", &loop)));
    expect_steady(&loop);
    run_close(&run);
}

/* A node whose body has a node with a body. */
static enum hearth_status call_body(struct hearth_context *context, void *user)
{
    const unsigned *which = user;
    struct hearth_context *body = NULL;
    const void *data = NULL;
    EXPECT(HEARTH_OK, hearth_context_body(context, which ? *which : 0, &body));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "x", hearth_context_input(context, 0)));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "c", hearth_context_input(context, 1)));
    EXPECT(HEARTH_OK, hearth_context_route_output(body, "y", 0));
    enum hearth_status status = hearth_context_run_body(body);
    return status == HEARTH_OK ? deliver(context, body, "y", &data) : status;
}

Test(body, bodies_nest)
{
    static struct loop loop = {.trips = 3};
    struct hearth_plan *middle =
        PLAN("x c", "y", LOOP("loop", "x c", "t", &loop), OP("more", "t", "y", NULL));
    struct hearth_plan *upper =
        PLAN("x c", "y", OP("before", "x", "b", NULL),
             NODE("call", "b c", "y", .kernel = call_body, .bodies = {middle}));
    open_run(PLAN("x c", "y", NODE("call", "x c", "y", .kernel = call_body, .bodies = {upper})));
    for (unsigned i = 0; i < 6; i++) {
        uint64_t acquires = bank_acquires(&run.rig.bank);
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(5, stats.body_runs);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
        expect_value(run.context, "y", ELEMENTS, 23, 1);
        cr_assert_eq(hearth_tensor_allocator(value_of(run.context, "y")),
                     hearth_io_allocator(run.rig.io));
        if (i >= 3)
            EXPECT_SIZE(acquires, bank_acquires(&run.rig.bank));
    }
    run_close(&run);
}

Test(body, a_node_may_have_two)
{
    static unsigned which;
    static struct loop loop = {.trips = 2};
    struct hearth_plan *then = PLAN("x c", "y", OP("then", "x", "y", NULL));
    struct hearth_plan *otherwise = PLAN("x c", "y", LOOP("loop", "x c", "y", &loop));
    open_run(PLAN(
        "x c", "y",
        NODE("if", "x c", "y", .kernel = call_body, .user = &which, .bodies = {then, otherwise})));
    for (unsigned i = 0; i < 8; i++) {
        which = i / 2 % 2;
        (void)run_once(&run);
        expect_value(run.context, "y", ELEMENTS, which ? 14 : 1, 1);
    }
    run_close(&run);
}

Test(body, bodies_run_in_parallel_runs)
{
    static struct loop loops[4] = {{.trips = 1}, {.trips = 5}, {.trips = 9}, {.trips = 30}};
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    uint64_t trips = 0;
    struct row rows[5];
    static const char *const names[] = {"a", "b", "c1", "d"};
    for (unsigned i = 0; i < 4; i++) {
        struct hearth_plan *plan =
            PLAN("state x", "next", OP("inner", "state", "t", NULL), OP("o", "t x", "next", NULL));
        loops[i].shared = true;
        trips += loops[i].trips;
        rows[i] = (struct row)NODE(names[i], "x c", names[i], .kernel = run_loop, .user = &loops[i],
                                   .bodies = {plan});
    }
    rows[4] = (struct row)OP("sum", "a b c1 d", "y", NULL);
    open_run(plan_of("x c", "y", rows, 5));
    EXPECT(HEARTH_OK, hearth_pool_create(4, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    for (unsigned i = 0; i < 200; i++) {
        struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
        EXPECT(HEARTH_OK, hearth_session_run_on(run.session, run.context, &executor, &stats));
        EXPECT_SIZE(trips, stats.body_runs);
        EXPECT_SIZE(0, stats.payload_copies);
        expect_value(run.context, "y", ELEMENTS, (uint32_t)trips * 7 + 1, 4);
        EXPECT_SIZE(sizeof ramp, hearth_io_live_bytes(run.rig.io));
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
}
