/* SPDX-License-Identifier: Apache-2.0 */
/* What hearth_session_error() says, and what contexts answer where they cannot be used.
 * Covered: outputs that were refused, and made after all; inputs that only the graph's outputs need; long names;
 * bodies nested deeper than there are arenas; values of nobody; staged copies and their events; contexts in a run. */
#include "body_support.h"

#include <stdio.h>
#include <string.h>

static struct run run;

TestSuite(error_texts, .timeout = 60);

static const char *text(void)
{
    return hearth_session_error(run.context);
}

#define SAYS(part)                                                                                 \
    cr_assert_not_null(strstr(text(), (part)), "\"%s\" is not in: %s", (part), text())
#define SAYS_NOT(part) cr_assert_null(strstr(text(), (part)), "\"%s\" is in: %s", (part), text())

/* Is refused its output in one way, perhaps gets it in another, and then answers TIMEOUT. */
static unsigned refusal;
static bool in_the_end;

static enum hearth_status refused(struct hearth_context *context, void *user)
{
    (void)user;
    static char bytes[1 << 20];
    const struct hearth_shape all = shape_of(sizeof bytes);
    const struct hearth_shape bad = shape_of((size_t)-1), good = shape_of(ELEMENTS);
    const struct hearth_shape large = shape_of(100000);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    if (refusal == 0)
        EXPECT(HEARTH_INVALID,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &bad, NULL));
    if (refusal == 1)
        EXPECT(HEARTH_INVALID, hearth_context_make_output_in_place(
                                   context, 0, 0, HEARTH_DTYPE_UINT32, &large, NULL));
    if (refusal == 2) {
        EXPECT(HEARTH_OK,
               hearth_tensor_borrow(bytes, sizeof bytes, HEARTH_DTYPE_UINT8, &all, &tensor));
        run.rig.bank.budget = 1; /* no storage for the copy */
        EXPECT(HEARTH_NO_MEMORY, hearth_context_put_output(context, 0, &tensor));
        run.rig.bank.budget = 0;
    }
    if (in_the_end)
        EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &good, NULL));
    return HEARTH_TIMEOUT;
}

Test(error_texts, an_output_is_named_only_if_it_was_not_made)
{
    for (refusal = 0; refusal < 3; refusal++) {
        run_open(&run, PLAN("x", "z", OP("first", "x", "t", NULL),
                            NODE("picky", "t", "wanted", .kernel = refused),
                            NODE("last", "wanted", "z", .kernel = copy_op)));
        lend_ramp(run.context, "x");
        for (unsigned i = 0; i < 4; i++) {
            in_the_end = i % 2 != 0;
            (void)run_expecting(&run, HEARTH_TIMEOUT);
            SAYS("picky");
            SAYS("TIMEOUT");
            if (in_the_end)
                SAYS_NOT("wanted");
            else
                SAYS("wanted");
        }
        run_close(&run);
    }
}

Test(error_texts, an_input_that_only_the_outputs_need)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    run_open(&run, PLAN("given x", "given y", OP("node", "x", "y", NULL)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        (void)run_expecting(&run, HEARTH_INVALID);
        SAYS("\"given\"");
        SAYS_NOT("\"\"");
        SAYS_NOT("node");
        lend_ramp(run.context, "given");
        (void)run_once(&run);
        cr_assert_str_empty(text());
        io_drop(export_of(run.context, "given"));
    }
    EXPECT(HEARTH_OK, hearth_context_remove(run.context, "x"));
    (void)run_expecting(&run, HEARTH_INVALID);
    /* Nobody writes to it, so it is not bound. */
    make_u32(NULL, ELEMENTS, 0, &tensor);
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "given", &tensor));
    EXPECT_SIZE(ELEMENTS, (size_t)hearth_tensor_shape(&tensor)->dims[0]);
    hearth_tensor_cleanup(&tensor);
    run_close(&run);
}

static enum hearth_status fail(struct hearth_context *context, void *user)
{
    (void)context;
    (void)user;
    return HEARTH_TIMEOUT;
}

Test(error_texts, long_names_leave_room_for_the_status)
{
    char node[301], value[301];
    memset(node, 'N', 300);
    memset(value, 'v', 300);
    node[300] = value[300] = '\0';
    run_open(&run, PLAN("", value, NODE(node, "", value, .kernel = fail)));
    (void)run_expecting(&run, HEARTH_TIMEOUT);
    SAYS("TIMEOUT");
    SAYS("NNNNNNNNNN");
    run_close(&run);
    run_open(&run, PLAN(value, "y", OP(node, value, "y", NULL)));
    (void)run_expecting(&run, HEARTH_INVALID);
    SAYS("vvvvvvvvvv");
    SAYS("NNNNNNNNNN");
    SAYS("before the run");
    run_close(&run);
}

static enum hearth_status top(struct hearth_context *context, void *user)
{
    (void)user;
    return pass_body(context, false);
}

/* The cause is the innermost one, however many bodies there are around it. */
Test(error_texts, bodies_of_every_depth)
{
    misuse_record();
    for (unsigned depth = 1; depth <= HEARTH_CHILD_DEPTH_MAX + 2; depth++) {
        struct hearth_plan *body = nested_plan(depth, false, run_op, NULL);
        run_open(&run, PLAN("x", "y", NODE("top", "x", "y", .kernel = top, .bodies = {body})));
        lend_ramp(run.context, "x");
        if (depth <= HEARTH_CHILD_DEPTH_MAX) {
            EXPECT_SIZE(depth, run_once(&run).body_runs);
            expect_value(run.context, "y", ELEMENTS, 1, 1);
        } else {
            (void)run_expecting(&run, HEARTH_INVALID);
            SAYS("execution arena");
            SAYS("INVALID");
            expect_names(run.context, "x");
        }
        run_close(&run);
    }
    for (unsigned depth = 1; depth <= HEARTH_CHILD_DEPTH_MAX; depth++) {
        struct hearth_plan *body = nested_plan(depth, false, fail, NULL);
        run_open(&run, PLAN("x", "y", NODE("top", "x", "y", .kernel = top, .bodies = {body})));
        lend_ramp(run.context, "x");
        (void)run_expecting(&run, HEARTH_TIMEOUT);
        SAYS("leaf");
        SAYS("TIMEOUT");
        run_close(&run);
    }
}

/* A tensor whose owner is none of those that there are. */
Test(error_texts, a_tensor_of_nobody_is_no_value)
{
    static char bytes[64];
    struct hearth_tensor garbage = HEARTH_TENSOR_INIT;
    run_open(&run, PLAN("x", "y", OP("node", "x", "y", NULL)));
    for (uint32_t owner = HEARTH_OWNER_BORROWED + 1; owner < 100; owner += 7) {
        garbage = (struct hearth_tensor){.owner = owner, .data = bytes, .size = 4, .capacity = 4};
        EXPECT(HEARTH_INVALID, hearth_context_put(run.context, "x", &garbage));
        EXPECT(HEARTH_INVALID, hearth_context_set(run.context, "x", &garbage));
        EXPECT_SIZE(0, hearth_context_count(run.context));
    }
    run_close(&run);
}

/* A staged input with data is told as any copy, and the figures of the next run have it. */
Test(error_texts, staged_copies_are_told)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    run_open(&run, PLAN("x", "y", OP("node", "x", "y", NULL)));
    struct hearth_session *bare = session_of(run.plan, NULL);
    struct hearth_pool *pool = NULL;
    EXPECT(HEARTH_OK, hearth_pool_create(1, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    for (unsigned i = 0; i < 3; i++) {
        log_clear(&run.log);
        EXPECT(HEARTH_OK,
               hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, NULL, 0, NULL));
        EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
        EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                               sizeof ramp, NULL));
        EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_COPIED, "x"));
        EXPECT_SIZE(sizeof ramp, run.log.events[0].bytes);
        /* A run that is refused before it begins does not swallow them. */
        EXPECT(HEARTH_INVALID, hearth_session_run_on(bare, run.context, &executor, &stats));
        stats = run_once(&run);
        EXPECT_SIZE(1, stats.staged_copies);
        EXPECT_SIZE(1, stats.payload_copies);
        EXPECT_SIZE(1, log_count(&run.log, HEARTH_EVENT_COPIED));
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    EXPECT(HEARTH_OK, hearth_session_destroy(bare));
    run_close(&run);
}

/* In a kernel: the context of the run and the kernel's own are busy; lending is for bodies. */
static enum hearth_status busy_all(struct hearth_context *context, void *user)
{
    struct hearth_context *both[] = {run.context, context};
    const struct hearth_tensor *found = NULL;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    for (unsigned i = 0; i < 2; i++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        struct hearth_lease lease = HEARTH_LEASE_INIT;
        const char *names[4];
        size_t count = 99;
        make_u32(NULL, 1, 0, &tensor);
        EXPECT(HEARTH_BUSY, hearth_context_get(both[i], "x", &found));
        EXPECT(HEARTH_BUSY, hearth_context_put(both[i], "x", &tensor));
        EXPECT(HEARTH_BUSY, hearth_context_set(both[i], "x", &tensor));
        EXPECT(HEARTH_BUSY, hearth_context_remove(both[i], "x"));
        EXPECT(HEARTH_BUSY, hearth_context_clear(both[i]));
        EXPECT(HEARTH_BUSY, hearth_context_destroy(both[i]));
        EXPECT(HEARTH_BUSY, hearth_context_bind_output(both[i], "y", &tensor));
        EXPECT(HEARTH_BUSY, hearth_context_stage(both[i], "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                                 sizeof ramp, NULL));
        EXPECT(HEARTH_BUSY,
               hearth_context_borrow(both[i], "x", ramp, sizeof ramp, HEARTH_DTYPE_UINT32, &shape));
        EXPECT(HEARTH_INVALID, hearth_context_lend(both[i], "x", &tensor));
        EXPECT(HEARTH_BUSY, hearth_context_names(both[i], names, 4, &count));
        EXPECT_SIZE(0, count);
        EXPECT_SIZE(0, hearth_context_count(both[i]));
        EXPECT(HEARTH_BUSY, hearth_context_export(both[i], "x", &lease, NULL));
        EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
        EXPECT(HEARTH_BUSY, hearth_context_take(both[i], "x", &tensor));
        EXPECT(HEARTH_BUSY, hearth_session_run(run.session, both[i], NULL));
        EXPECT(HEARTH_BUSY, hearth_session_export_outputs(run.session, both[i], &lease, 1));
    }
    EXPECT(HEARTH_BUSY, hearth_session_destroy(run.session));
    return run_op(context, user);
}

Test(error_texts, contexts_in_a_run_are_busy)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    run_open(&run, PLAN("x", "y", NODE("node", "x", "y", .kernel = busy_all)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_SIZE(0, run_once(&run).payload_copies);
        expect_value(run.context, "y", ELEMENTS, 1, 1);
    }
    make_u32(NULL, 1, 0, &tensor);
    EXPECT(HEARTH_INVALID, hearth_context_lend(run.context, "x", &tensor));
    hearth_tensor_cleanup(&tensor);
    run_close(&run);
}

/* The figures of a run that is refused: BUSY writes them, INVALID does not. */
static enum hearth_status run_again(struct hearth_context *context, void *user)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    stats.nodes = stats.tensors = stats.elapsed_ns = 77;
    EXPECT(HEARTH_BUSY, hearth_session_run(run.session, run.context, &stats));
    EXPECT_SIZE(77, stats.nodes); /* a run that did not begin has none */
    EXPECT_SIZE(77, stats.tensors);
    EXPECT_SIZE(sizeof stats, stats.size);
    return run_op(context, user);
}

Test(error_texts, figures_of_a_refused_run)
{
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    run_open(&run, PLAN("x", "y", NODE("node", "x", "y", .kernel = run_again)));
    stats.nodes = stats.tensors = 77;
    EXPECT(HEARTH_INVALID, hearth_session_run(run.session, run.context, &stats));
    EXPECT_SIZE(77, stats.nodes);
    EXPECT_SIZE(77, stats.tensors);
    lend_ramp(run.context, "x");
    EXPECT_SIZE(1, run_once(&run).nodes);
    run_close(&run);
}
