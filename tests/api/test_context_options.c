/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a context, and who may use it when.
 * Covered: each allocator absent, alone and together, in runs without a service; allocators that wrap others;
 * impossible options; a context in a run is BUSY; slots are for kernels. */
#include "run_support.h"

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_allocator *exec;
static struct hearth_io *io;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
    arena = arena_create(&memory, 0, 0, 0);
    exec = hearth_exec_allocator(arena);
    io = io_create(&memory, 0, 0, 0);
}

static void teardown(void)
{
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT_SIZE(0, hearth_io_live_count(io));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    io_finish(io, &memory);
}

TestSuite(context_options, .init = setup, .fini = teardown, .timeout = 60);

Test(context_options, impossible_ones)
{
    struct hearth_context_options options = HEARTH_CONTEXT_OPTIONS_INIT;
    struct hearth_context *context = NULL;
    EXPECT(HEARTH_INVALID, hearth_context_create(NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_create(&options, NULL));
    options.size = 0;
    EXPECT(HEARTH_INVALID, hearth_context_create(&options, &context));
    options.size = sizeof options + 8;
    EXPECT(HEARTH_INVALID, hearth_context_create(&options, &context));
    options.size = sizeof options;
    options.flags = HEARTH_CONTEXT_FOREIGN << 7;
    EXPECT(HEARTH_INVALID, hearth_context_create(&options, &context));
    options.flags = 0;
    options.reserved = 1;
    EXPECT(HEARTH_INVALID, hearth_context_create(&options, &context));
    cr_assert_null(context);
    EXPECT(HEARTH_OK, hearth_context_create(NULL, &context));
    EXPECT_SIZE(0, hearth_context_count(context));
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
}

/* x -> t -> y, where both nodes note what they see. */
struct chain {
    struct op first;
    struct op last;
    struct hearth_plan *plan;
    struct hearth_session *session;
    struct hearth_context *context;
};

static enum hearth_status chain_run(struct chain *chain, uint32_t temporary,
                                    struct hearth_context_options options)
{
    *chain = (struct chain){.first = {.temporary = temporary}};
    chain->plan =
        PLAN("x", "y", OP("first", "x", "t", &chain->first), OP("last", "t", "y", &chain->last));
    chain->session = session_of(chain->plan, NULL);
    chain->context = context_of(chain->plan, options);
    lend_ramp(chain->context, "x");
    enum hearth_status status = hearth_session_run(chain->session, chain->context, NULL);
    if (status == HEARTH_OK) {
        expect_value(chain->context, "y", ELEMENTS, 2, 1);
        expect_names(chain->context, "x y");
    } else {
        expect_names(chain->context, "x");
    }
    return status;
}

static void chain_end(struct chain *chain)
{
    EXPECT(HEARTH_OK, hearth_context_destroy(chain->context));
    EXPECT(HEARTH_OK, hearth_session_destroy(chain->session));
    hearth_plan_unref(chain->plan);
}

static void lived(const struct chain *chain, struct hearth_allocator *intermediate,
                  struct hearth_allocator *output)
{
    cr_assert_eq(chain->first.out[0], intermediate);
    cr_assert_eq(chain->first.predicted[0], intermediate);
    cr_assert_eq(chain->first.out_kind[0],
                 intermediate ? HEARTH_OWNER_HANDLE : HEARTH_OWNER_INLINE);
    cr_assert_eq(chain->last.out[0], output);
    cr_assert_eq(chain->last.predicted[0], output);
    cr_assert_eq(chain->last.out_kind[0], output ? HEARTH_OWNER_HANDLE : HEARTH_OWNER_INLINE);
}

Test(context_options, both_allocators)
{
    struct chain chain;
    EXPECT(HEARTH_OK, chain_run(&chain, 100,
                                CONTEXT_OPTIONS(.execution = exec, .io = hearth_io_allocator(io))));
    lived(&chain, exec, hearth_io_allocator(io));
    cr_assert_eq(chain.first.temporary_owner, exec);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT_SIZE(1, hearth_io_live_count(io));
    chain_end(&chain);
}

Test(context_options, the_arena_brings_its_allocator)
{
    struct chain chain;
    EXPECT(HEARTH_OK, chain_run(&chain, 100, CONTEXT_OPTIONS(.execution = exec, .arena = io)));
    lived(&chain, exec, hearth_io_allocator(io));
    struct hearth_lease lease = export_of(chain.context, "y");
    EXPECT_SIZE(1, hearth_io_leased_count(io));
    chain_end(&chain);
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 2, 1);
    io_drop(lease);
}

Test(context_options, without_an_io_allocator_outputs_are_execution_storage)
{
    struct chain chain;
    EXPECT(HEARTH_OK, chain_run(&chain, 100, CONTEXT_OPTIONS(.execution = exec)));
    lived(&chain, exec, exec);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_INVALID, hearth_context_export(chain.context, "y", &lease, NULL)); /* no arena */
    expect_value(chain.context, "y", ELEMENTS, 2, 1);
    chain_end(&chain);
}

Test(context_options, without_an_execution_allocator_intermediates_are_inline)
{
    struct chain chain;
    EXPECT(HEARTH_OK, chain_run(&chain, 0, CONTEXT_OPTIONS(.io = hearth_io_allocator(io))));
    lived(&chain, NULL, hearth_io_allocator(io));
    chain_end(&chain);
    EXPECT(HEARTH_OK, chain_run(&chain, 0, CONTEXT_OPTIONS(.arena = io)));
    lived(&chain, NULL, hearth_io_allocator(io));
    chain_end(&chain);
}

Test(context_options, without_any_everything_is_inline_and_there_are_no_workspaces)
{
    struct chain chain;
    EXPECT(HEARTH_OK, chain_run(&chain, 0, CONTEXT_OPTIONS(.flags = 0)));
    lived(&chain, NULL, NULL);
    cr_assert_null(chain.first.active);
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_INVALID, hearth_context_export(chain.context, "y", &lease, NULL));
    chain_end(&chain);
    EXPECT(HEARTH_INVALID, chain_run(&chain, 100, CONTEXT_OPTIONS(.flags = 0)));
    chain_end(&chain);
    EXPECT(HEARTH_INVALID, chain_run(&chain, 100, CONTEXT_OPTIONS(.arena = io)));
    chain_end(&chain);
}

/* What an arena of the I/O kind gives when it is the allocator for both. */
Test(context_options, any_allocator_may_serve)
{
    struct chain chain;
    struct hearth_simple *simple = NULL;
    EXPECT(HEARTH_OK, hearth_simple_create_on(memory.backing, 8, &simple));
    struct hearth_allocator *plain = hearth_simple_allocator(simple);
    EXPECT(HEARTH_OK, chain_run(&chain, 100, CONTEXT_OPTIONS(.execution = plain, .io = plain)));
    lived(&chain, plain, plain);
    cr_assert_eq(chain.first.temporary_owner, plain);
    EXPECT_SIZE(1, hearth_simple_live_count(simple));
    chain_end(&chain);
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
    EXPECT(HEARTH_OK, chain_run(&chain, 100,
                                CONTEXT_OPTIONS(.execution = hearth_io_allocator(io), .io = exec)));
    lived(&chain, hearth_io_allocator(io), exec);
    chain_end(&chain);
}

Test(context_options, everything_goes_through_a_wrapper)
{
    struct chain chain;
    struct counting inside, outside;
    EXPECT(HEARTH_OK,
           chain_run(&chain, 100,
                     CONTEXT_OPTIONS(.execution = counting_open(&inside, exec),
                                     .io = counting_open(&outside, hearth_io_allocator(io)))));
    cr_assert_eq(chain.first.predicted[0], &inside.allocator);
    cr_assert_eq(chain.first.out[0], &inside.allocator);
    cr_assert_eq(chain.last.out[0], &outside.allocator);
    EXPECT_SIZE(2, inside.allocs);
    EXPECT_SIZE(2, inside.frees);
    EXPECT_SIZE(1, outside.allocs);
    EXPECT_SIZE(0, outside.frees);
    EXPECT(HEARTH_OK, hearth_session_run(chain.session, chain.context, NULL));
    EXPECT_SIZE(4, inside.frees);
    EXPECT_SIZE(2, outside.allocs);
    EXPECT_SIZE(1, outside.frees);
    chain_end(&chain);
    EXPECT_SIZE(2, outside.frees);
}

Test(context_options, a_refusal_of_an_allocator_ends_the_run)
{
    struct chain chain;
    struct counting inside, outside;
    for (unsigned at = 1; at <= 3; at++) {
        counting_open(&inside, exec);
        counting_open(&outside, hearth_io_allocator(io));
        *(at <= 2 ? &inside.fail_at : &outside.fail_at) = at <= 2 ? at : 1;
        EXPECT(HEARTH_NO_MEMORY, chain_run(&chain, 100,
                                           CONTEXT_OPTIONS(.execution = &inside.allocator,
                                                           .io = &outside.allocator)));
        EXPECT_SIZE(0, hearth_exec_live_count(arena));
        EXPECT_SIZE(0, hearth_io_live_count(io));
        EXPECT_SIZE(inside.allocs, inside.frees);
        EXPECT(HEARTH_OK, hearth_session_run(chain.session, chain.context, NULL));
        chain_end(&chain);
    }
}

static struct hearth_context *outer;
static struct hearth_session *session;

static enum hearth_status try_everything(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, none = HEARTH_TENSOR_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearth_shape shape = shape_of(ELEMENTS);
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    make_u32(exec, ELEMENTS, 1, &tensor);
    EXPECT(HEARTH_BUSY, hearth_context_set(outer, "z", &tensor));
    EXPECT(HEARTH_BUSY, hearth_context_put(outer, "x", &tensor));
    EXPECT(HEARTH_BUSY, hearth_context_bind_output(outer, "y", &tensor));
    EXPECT(HEARTH_BUSY, hearth_context_take(outer, "x", &none));
    EXPECT(HEARTH_BUSY, hearth_context_remove(outer, "x"));
    EXPECT(HEARTH_BUSY, hearth_context_clear(outer));
    EXPECT(HEARTH_BUSY, hearth_context_borrow(outer, "x", ramp, sizeof ramp, u32, &shape));
    EXPECT(HEARTH_BUSY, hearth_context_stage(outer, "x", u32, &shape, NULL, 0, NULL));
    EXPECT(HEARTH_BUSY, hearth_context_export(outer, "x", &lease, NULL));
    EXPECT(HEARTH_BUSY, hearth_session_export_outputs(session, outer, &lease, 1));
    EXPECT(HEARTH_BUSY, hearth_context_destroy(outer));
    EXPECT(HEARTH_BUSY, hearth_context_destroy(context));
    EXPECT(HEARTH_BUSY, hearth_session_run(session, outer, NULL));
    EXPECT(HEARTH_BUSY, hearth_session_destroy(session));
    EXPECT_SIZE(sizeof ramp, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    cr_assert_eq(hearth_tensor_data(hearth_context_input(context, 0)), ramp);
    return run_op(context, NULL);
}

Test(context_options, a_context_in_a_run_is_busy)
{
    struct hearth_plan *plan = PLAN("x", "y", NODE("n", "x", "y", .kernel = try_everything));
    session = session_of(plan, NULL);
    outer = context_of(plan, CONTEXT_OPTIONS(.execution = exec, .arena = io));
    for (unsigned i = 0; i < 3; i++) {
        lend_ramp(outer, "x");
        EXPECT(HEARTH_OK, hearth_session_run(session, outer, NULL));
        expect_value(outer, "y", ELEMENTS, 1, 1);
    }
    EXPECT(HEARTH_OK, hearth_context_destroy(outer));
    EXPECT(HEARTH_OK, hearth_session_destroy(session));
    hearth_plan_unref(plan);
}

Test(context_options, slots_are_for_kernels)
{
    struct chain chain;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, *made = NULL;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_context *body = NULL;
    struct hearth_buf *buf = NULL;
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    EXPECT(HEARTH_OK, chain_run(&chain, 0, CONTEXT_OPTIONS(.execution = exec, .arena = io)));
    make_u32(exec, ELEMENTS, 1, &tensor);
    cr_assert_null(hearth_context_input(chain.context, 0));
    cr_assert_null(hearth_context_output(chain.context, 0));
    cr_assert_null(hearth_context_allocator_for_output(chain.context, 0));
    cr_assert(!hearth_context_can_reuse(chain.context, 0, 0));
    EXPECT(HEARTH_INVALID, hearth_context_make_output(chain.context, 0, u32, &shape, &made));
    EXPECT(HEARTH_INVALID,
           hearth_context_make_output_in_place(chain.context, 0, 0, u32, &shape, &made));
    EXPECT(HEARTH_INVALID, hearth_context_put_output(chain.context, 0, &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_make_temporary(chain.context, 10, &buf));
    EXPECT(HEARTH_INVALID, hearth_context_body(chain.context, 0, &body));
    EXPECT(HEARTH_INVALID, hearth_context_run_body(chain.context));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(chain.context, "y", 0));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
    cr_assert_eq(hearth_context_allocator(chain.context), exec);
    EXPECT(HEARTH_INVALID, hearth_context_set_allocator(chain.context, hearth_io_allocator(io)));
    EXPECT(HEARTH_INVALID, hearth_context_set_allocator(chain.context, NULL));
    cr_assert_eq(hearth_context_allocator(chain.context), exec);
    EXPECT(HEARTH_INVALID, hearth_context_set_allocator(NULL, exec));
    cr_assert_null(hearth_context_allocator(NULL));
    chain_end(&chain);
}

/* A service of the context's own serves before any session is known, and in place of the session's. */
Test(context_options, its_service_serves_what_is_left_open)
{
    struct rig own, other;
    struct hearth_shape shape = shape_of(ELEMENTS);
    static struct op first = {.temporary = 50}, last;
    struct hearth_plan *plan =
        PLAN("x", "y", OP("first", "x", "t", &first), OP("last", "t", "y", &last));
    rig_open(&own, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    rig_open(&other, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    struct hearth_context *context = context_of(plan, CONTEXT_OPTIONS(.service = own.service));
    struct hearth_allocator *inner = hearth_exec_allocator(exec_of(own.service));
    struct hearth_service *services[] = {other.service, NULL, own.service};
    EXPECT(HEARTH_OK, hearth_context_stage(context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    cr_assert_eq(hearth_tensor_allocator(value_of(context, "x")), hearth_io_allocator(own.io));
    for (unsigned i = 0; i < COUNT_OF(services); i++) {
        session = session_of(plan, services[i]);
        EXPECT(HEARTH_OK, hearth_session_run(session, context, NULL));
        cr_assert_eq(first.out[0], inner);
        cr_assert_eq(first.temporary_owner, inner);
        cr_assert_eq(last.out[0], hearth_io_allocator(own.io));
        EXPECT(HEARTH_OK, hearth_session_destroy(session));
        io_drop(export_of(context, "y"));
    }
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    hearth_plan_unref(plan);
    rig_close(&own);
    rig_close(&other);
}

/* Before the first run a context without allocators has none; then the session's. */
Test(context_options, the_sessions_service_is_known_from_the_first_run_on)
{
    struct rig rig;
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_plan *plan = PLAN("x", "y", OP("n", "x", "y", NULL));
    struct hearth_tensor *staged = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    struct hearth_context *context = context_of(plan, CONTEXT_OPTIONS(.flags = 0));
    session = session_of(plan, rig.service);
    EXPECT(HEARTH_OK,
           hearth_context_stage(context, "x", HEARTH_DTYPE_UINT32, &shape, ramp, 64, &staged));
    cr_assert_eq(hearth_tensor_owner(staged), HEARTH_OWNER_INLINE);
    EXPECT(HEARTH_OK, hearth_session_run(session, context, NULL));
    EXPECT(HEARTH_OK, hearth_session_destroy(session));
    cr_assert_eq(hearth_tensor_allocator(value_of(context, "y")), hearth_io_allocator(rig.io));
    EXPECT(HEARTH_OK,
           hearth_context_stage(context, "x", HEARTH_DTYPE_UINT32, &shape, ramp, 64, &staged));
    cr_assert_eq(hearth_tensor_allocator(staged), hearth_io_allocator(rig.io));
    io_drop(export_of(context, "y"));
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    hearth_plan_unref(plan);
    rig_close(&rig);
}

Test(context_options, the_arena_and_the_plan_are_referenced)
{
    struct hearth_plan *plan = PLAN("x", "y", OP("n", "x", "y", NULL));
    struct hearth_io *own = io_create(&memory, 0, 0, 0);
    struct hearth_context *context = context_of(plan, CONTEXT_OPTIONS(.arena = own));
    session = session_of(plan, NULL);
    hearth_plan_unref(plan);
    hearth_io_unref(own);
    lend_ramp(context, "x");
    EXPECT(HEARTH_OK, hearth_session_run(session, context, NULL));
    struct hearth_lease lease = export_of(context, "y");
    EXPECT(HEARTH_OK, hearth_session_destroy(session));
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 1, 1);
    io_drop(lease);
}
