/* SPDX-License-Identifier: Apache-2.0 */
/* Values that cross the boundaries of one to three bodies.
 * Covered: by handle or take, never by a copy, whoever made them; their storage can be reused in place; bound
 * storage reaches the innermost body; what a body's context says of allocators; staged inputs; contexts of bodies
 * that are kept; error texts of bodies. */
#include "body_support.h"

#include <stdio.h>
#include <string.h>

static struct run run;

TestSuite(body_crossing, .timeout = 60);

/* Depth 0: the thread's arena. */
static struct hearth_allocator *arena_of(unsigned depth)
{
    struct hearth_exec *arena = exec_of(run.rig.service);
    if (depth != 0)
        EXPECT(HEARTH_OK, hearth_service_child_exec(run.rig.service, depth, &arena));
    return hearth_exec_allocator(arena);
}

static enum hearth_status top(struct hearth_context *context, void *user)
{
    return pass_body(context, user != NULL);
}

static char routed; /* the user of a top whose body is routed */

/* x -> y through `depth` bodies, and -> z by `reader`, if there is one; then only z is declared. */
static void open_run(unsigned depth, bool route, kernel_fn *leaf, void *user, uint32_t flags,
                     kernel_fn *reader)
{
    struct hearth_plan *body = nested_plan(depth, route, leaf, user);
    struct row rows[3] = {NODE("top", "x", "y", .kernel = top, .user = route ? &routed : NULL,
                               .flags = flags, .bodies = {body}),
                          NODE("reader", "y", "z", .kernel = reader, .flags = flags),
                          NODE("end", "z", "e", .kernel = copy_op)};
    run_open(&run, plan_of("x", reader ? "e" : "y", rows, reader ? 3 : 1));
    lend_ramp(run.context, "x");
}

/* Kernels of the innermost body: they make x + 1 in storage of `maker`. */
enum maker { OLD_STYLE, SLOT, EXECUTION, PARENT, INLINE, MAKERS };

static const void *made;

static enum hearth_status leaf(struct hearth_context *context, void *user)
{
    enum maker maker = *(const enum maker *)user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor own = HEARTH_TENSOR_INIT;
    struct hearth_tensor *output = &own;
    struct hearth_allocator *const from[MAKERS] = {
        [OLD_STYLE] = hearth_context_allocator(context),
        [EXECUTION] = hearth_context_execution_allocator(context),
        [PARENT] = arena_of(0),
    };
    EXPECT(HEARTH_OK,
           maker == SLOT
               ? hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output)
               : hearth_tensor_make(from[maker], HEARTH_DTYPE_UINT32, &shape, 0, &own));
    const uint32_t *input = hearth_tensor_data(hearth_context_input(context, 0));
    for (uint32_t i = 0; i < ELEMENTS; i++)
        ((uint32_t *)hearth_tensor_data(output))[i] = input[i] + 1;
    if (maker != SLOT)
        EXPECT(HEARTH_OK, hearth_context_put_output(context, 0, &own));
    made = hearth_tensor_data(hearth_context_output(context, 0));
    return HEARTH_OK;
}

/* The reader: y is where the leaf made it, and z takes its storage over, with fewer bytes. */
static enum hearth_status halve(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_shape half = shape_of(ELEMENTS / 2);
    struct hearth_tensor *output = NULL;
    cr_assert_eq(hearth_tensor_data(hearth_context_input(context, 0)), made);
    cr_assert(hearth_context_can_reuse(context, 0, 0));
    EXPECT(HEARTH_OK,
           hearth_context_make_output_in_place(context, 0, 0, HEARTH_DTYPE_UINT32, &half, &output));
    cr_assert_eq(hearth_tensor_data(output), made);
    expect_u32(made, hearth_tensor_size(output), ELEMENTS / 2, 1, 1);
    return HEARTH_OK;
}

static void crosses(unsigned depth, enum maker maker, bool route, uint32_t flags)
{
    open_run(depth, route, leaf, &maker, flags, halve);
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
        EXPECT_SIZE(1, stats.reused_in_place);
        EXPECT_SIZE(depth, stats.body_runs);
        expect_value(run.context, "e", ELEMENTS / 2, 1, 1);
    }
    run_close(&run);
}

Test(body_crossing, by_handle_to_an_intermediate_and_in_place)
{
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        for (enum maker maker = 0; maker < MAKERS; maker++) {
            if (maker == INLINE)
                continue;
            crosses(depth, maker, false, 0);
            crosses(depth, maker, true, 0);
            crosses(depth, maker, false, HEARTH_NODE_SLOT_AWARE);
        }
    }
}

Test(body_crossing, by_take_to_a_declared_output)
{
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        for (enum maker maker = 0; maker < MAKERS; maker++) {
            for (unsigned route = 0; route < 2; route++) {
                if (maker == INLINE)
                    continue;
                open_run(depth, route, leaf, &maker, 0, NULL);
                for (unsigned i = 0; i < 3; i++) {
                    struct hearth_run_stats stats = run_once(&run);
                    EXPECT_SIZE(0, stats.payload_copies);
                    EXPECT_SIZE(route == 0 || maker >= EXECUTION, stats.taken);
                    const struct hearth_tensor *y = value_of(run.context, "y");
                    cr_assert_eq(hearth_tensor_data(y), made);
                    cr_assert_eq(hearth_tensor_allocator(y), hearth_io_allocator(run.rig.io));
                    expect_value(run.context, "y", ELEMENTS, 1, 1);
                }
                io_drop(export_of(run.context, "y"));
                run_close(&run);
            }
        }
    }
}

/* Storage that is bound outside is what the innermost body writes to. */
enum binding { BIND_IO, BIND_EXECUTION, BIND_INLINE, BIND_BORROWED, BINDINGS };

static uint32_t lent[ELEMENTS];

static const void *bind(enum binding binding)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    if (binding == BIND_BORROWED)
        EXPECT(HEARTH_OK,
               hearth_tensor_borrow(lent, sizeof lent, HEARTH_DTYPE_UINT32, &shape, &tensor));
    else
        make_u32(binding == BIND_IO          ? hearth_io_allocator(run.rig.io)
                 : binding == BIND_EXECUTION ? arena_of(0)
                                             : NULL,
                 ELEMENTS, 0, &tensor);
    const void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
    return data;
}

/* A loop makes its output many times, so bound storage stays out of bodies: the last value comes by one copy. */
Test(body_crossing, bound_storage_gets_a_copy_of_what_a_body_made)
{
    enum maker maker = SLOT;
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        for (enum binding binding = 0; binding < BINDINGS; binding++) {
            open_run(depth, true, leaf, &maker, 0, NULL);
            const void *data = bind(binding);
            for (unsigned i = 0; i < 4; i++) {
                struct hearth_run_stats stats = run_once(&run);
                cr_assert_neq(made, data);
                cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
                expect_value(run.context, "y", ELEMENTS, 1, 1);
                EXPECT_SIZE(1, stats.payload_copies);
                EXPECT_SIZE(sizeof ramp, stats.copied_bytes);
                EXPECT_SIZE(0, stats.taken);
                EXPECT_SIZE(0, stats.execution_peak_bytes);
            }
            run_close(&run);
        }
    }
}

/* A kernel that drops what its body made, and makes its output by itself. */
static enum hearth_status make_by_itself(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_context *body = NULL;
    struct hearth_tensor taken = HEARTH_TENSOR_INIT;
    struct hearth_tensor *output = NULL;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "s", hearth_context_input(context, 0)));
    EXPECT(HEARTH_OK, hearth_context_route_output(body, "n", 0));
    EXPECT(HEARTH_OK, hearth_context_run_body(body));
    EXPECT(HEARTH_OK, hearth_context_take(body, "n", &taken));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&taken));
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    memset(hearth_tensor_data(output), 0, hearth_tensor_size(output));
    return HEARTH_OK;
}

Test(body_crossing, bound_storage_is_the_nodes_own_beside_a_body)
{
    enum maker maker = SLOT;
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        for (enum binding binding = 0; binding < BINDINGS; binding++) {
            struct hearth_plan *body = nested_plan(depth, true, leaf, &maker);
            run_open(&run,
                     PLAN("x", "y",
                          NODE("keeper", "x", "y", .kernel = make_by_itself, .bodies = {body})));
            lend_ramp(run.context, "x");
            const void *data = bind(binding);
            for (unsigned i = 0; i < 3; i++) {
                memset(lent, 7, sizeof lent);
                EXPECT_SIZE(0, run_once(&run).payload_copies);
                cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
                expect_value(run.context, "y", ELEMENTS, 0, 0);
            }
            run_close(&run);
        }
    }
}

/* What a body's context says of allocators, between its node and its kernels. */
static enum hearth_status look(struct hearth_context *context, void *user)
{
    unsigned depth = *(const unsigned *)user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_allocator *io = hearth_io_allocator(run.rig.io);
    struct hearth_context *body = NULL;
    struct hearth_tensor *staged = NULL;
    struct hearth_tensor taken = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    cr_assert_eq(hearth_context_execution_allocator(body), arena_of(depth + 1));
    cr_assert_eq(hearth_context_io_allocator(body), io);
    cr_assert_eq(hearth_context_allocator(body), arena_of(depth + 1));
    EXPECT(HEARTH_OK, hearth_context_route_output(body, "n", 0)); /* a take costs an acquire */
    EXPECT(HEARTH_OK, hearth_context_stage(body, "s", HEARTH_DTYPE_UINT32, &shape, NULL, 0,
                                           &staged)); /* replaced */
    cr_assert_eq(hearth_tensor_allocator(staged), io);
    EXPECT(HEARTH_OK, hearth_context_stage(body, "s", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, &staged));
    cr_assert_eq(hearth_tensor_allocator(staged), io);
    EXPECT(HEARTH_OK, hearth_context_run_body(body));
    EXPECT(HEARTH_OK, hearth_context_take(body, "n", &taken));
    return hearth_context_put_output(context, 0, &taken);
}

Test(body_crossing, staged_inputs_and_allocators_of_a_body)
{
    static const unsigned depths[] = {0, 1, 2};
    struct hearth_plan *inner = PLAN("s", "n", OP("leaf", "s", "n", NULL));
    struct hearth_plan *body = inner;
    for (unsigned i = COUNT_OF(depths); i-- > 1;)
        body = PLAN("s", "n",
                    NODE("middle", "s", "n", .kernel = look, .bodies = {body},
                         .user = (void *)(uintptr_t)&depths[i]));
    run_open(&run, PLAN("x", "y",
                        NODE("top", "x", "y", .kernel = look, .bodies = {body},
                             .user = (void *)(uintptr_t)&depths[0])));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++)
        (void)run_once(&run);
    size_t heap = heap_bytes();
    for (unsigned i = 0; i < 10; i++) {
        log_clear(&run.log);
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(3, stats.payload_copies);
        EXPECT_SIZE(3, stats.staged_copies);
        EXPECT_SIZE(3 * sizeof ramp, stats.copied_bytes);
        EXPECT_SIZE(0, stats.taken);
        expect_value(run.context, "y", ELEMENTS, 1, 1);
    }
    EXPECT_SIZE(heap, heap_bytes());
    run_close(&run);
}

/* A kernel that keeps its body's context. */
static struct hearth_context *kept;

static enum hearth_status keeper(struct hearth_context *context, void *user)
{
    (void)user;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &kept));
    EXPECT_SIZE(0, hearth_context_count(kept));
    return pass_body(context, false);
}

Test(body_crossing, a_bodys_context_is_of_no_use_once_the_kernel_returned)
{
    enum maker maker = SLOT;
    struct hearth_plan *body = nested_plan(1, false, leaf, &maker);
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    run_open(&run, PLAN("x", "y", NODE("keeper", "x", "y", .kernel = keeper, .bodies = {body})));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(1, run_once(&run).body_runs);
        EXPECT(HEARTH_INVALID, hearth_context_run_body(kept));
        EXPECT(HEARTH_INVALID, hearth_context_route_output(kept, "n", 0));
        make_u32(NULL, ELEMENTS, 0, &tensor);
        EXPECT(HEARTH_INVALID, hearth_context_put(kept, "s", &tensor));
        EXPECT(HEARTH_INVALID, hearth_context_set(kept, "s", &tensor));
        EXPECT(HEARTH_INVALID, hearth_context_lend(kept, "s", &tensor));
        EXPECT(HEARTH_INVALID,
               hearth_context_borrow(kept, "s", ramp, sizeof ramp, HEARTH_DTYPE_UINT32, &shape));
        EXPECT(HEARTH_INVALID, hearth_context_stage(kept, "s", HEARTH_DTYPE_UINT32, &shape, ramp,
                                                    sizeof ramp, NULL));
        EXPECT_SIZE(0, hearth_context_count(kept));
        hearth_tensor_cleanup(&tensor);
    }
    run_close(&run);
}

/* Fails in its body in the first run, and for another reason in the second. */
static enum hearth_status innermost_answer;

static enum hearth_status failing(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return innermost_answer;
}

static enum hearth_status without_its_body(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_context *body = NULL;
    if (innermost_answer != HEARTH_OK)
        return pass_body(context, false);
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    return HEARTH_LEASED;
}

Test(body_crossing, the_innermost_cause_is_named_and_only_of_this_run)
{
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        struct hearth_plan *body = nested_plan(depth, false, failing, NULL);
        run_open(&run,
                 PLAN("x", "y",
                      NODE("outermost", "x", "y", .kernel = without_its_body, .bodies = {body})));
        lend_ramp(run.context, "x");
        const char *text = hearth_session_error(run.context);
        innermost_answer = HEARTH_TIMEOUT;
        (void)run_expecting(&run, HEARTH_TIMEOUT);
        cr_assert_not_null(strstr(text, "leaf"), "%s", text);
        cr_assert_not_null(strstr(text, "TIMEOUT"), "%s", text);
        cr_assert_not_null(strstr(text, "outermost"), "%s", text);
        innermost_answer = HEARTH_OK;
        (void)run_expecting(&run, HEARTH_LEASED);
        cr_assert_null(strstr(text, "leaf"), "%s", text);
        cr_assert_null(strstr(text, "TIMEOUT"), "%s", text);
        cr_assert_not_null(strstr(text, "LEASED"), "%s", text);
        run_close(&run);
    }
}
