/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies that fail, and bodies used wrongly.
 * Covered: a body's kernel fails, lacks an input or makes no output; who may end a body's context; wrong
 * indexes, names and slots; a body asked for twice; sessions without a service. */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(body_misuse, .timeout = 60);

static struct op inside;

static struct hearth_plan *simple_body(void)
{
    return PLAN("in", "out", OP("first", "in", "t", NULL), OP("inside", "t", "out", &inside));
}

#define WITH_BODY(kernel_) NODE("parent", "x", "y", .kernel = (kernel_), .bodies = {simple_body()})

static enum hearth_status run_simple(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_context *body = NULL;
    struct hearth_tensor value = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "in", hearth_context_input(context, 0)));
    enum hearth_status status = hearth_context_run_body(body);
    if (status != HEARTH_OK) {
        cr_assert(!has_value(body, "out"));
        return status;
    }
    EXPECT(HEARTH_OK, hearth_context_take(body, "out", &value));
    return hearth_context_put_output(context, 0, &value);
}

Test(body_misuse, a_failure_inside_is_the_nodes)
{
    run_open(&run, PLAN("x", "y", WITH_BODY(run_simple)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 4; i++) {
        inside.fail = i % 2 ? HEARTH_TIMEOUT : HEARTH_OK;
        (void)run_expecting(&run, inside.fail);
        if (i % 2) {
            expect_names(run.context, "x");
            cr_assert_not_null(strstr(hearth_session_error(run.context), "parent"));
            EXPECT_SIZE(0, hearth_service_live_bytes(run.rig.service));
        } else {
            expect_value(run.context, "y", ELEMENTS, 2, 1);
        }
    }
    run_close(&run);
}

static enum hearth_status lacking(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_context *body = NULL;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    return hearth_context_run_body(body);
}

Test(body_misuse, a_missing_input_is_invalid)
{
    run_open(&run, PLAN("x", "y", WITH_BODY(lacking)));
    lend_ramp(run.context, "x");
    (void)run_expecting(&run, HEARTH_INVALID);
    cr_assert_gt(strlen(hearth_session_error(run.context)), 0);
    run_close(&run);
}

static enum hearth_status wrongly(struct hearth_context *context, void *user)
{
    struct hearth_context *body = NULL, *again = NULL;
    const struct hearth_tensor *input = hearth_context_input(context, 0);
    struct hearth_tensor empty = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_context_body(context, 1, &body));
    EXPECT(HEARTH_INVALID, hearth_context_body(context, SIZE_MAX, &body));
    EXPECT(HEARTH_INVALID, hearth_context_body(context, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_body(NULL, 0, &body));
    cr_assert_null(body);
    EXPECT(HEARTH_INVALID, hearth_context_run_body(context));
    EXPECT(HEARTH_INVALID, hearth_context_run_body(NULL));
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    EXPECT(HEARTH_BUSY, hearth_context_destroy(body));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(body, "t", 0));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(body, "none", 0));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(body, NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(body, "out", 1));
    EXPECT(HEARTH_INVALID, hearth_context_route_output(NULL, "out", 0));
    EXPECT(HEARTH_INVALID, hearth_context_lend(body, "in", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_lend(body, "in", &empty));
    EXPECT(HEARTH_INVALID, hearth_context_lend(body, "", input));
    EXPECT(HEARTH_INVALID, hearth_context_lend(NULL, "in", input));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "in", input));
    EXPECT_SIZE(1, hearth_context_count(body));
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &again)); /* clears it */
    cr_assert_eq(again, body);
    EXPECT_SIZE(0, hearth_context_count(body));
    return run_simple(context, user);
}

Test(body_misuse, wrong_arguments)
{
    run_open(&run, PLAN("x", "y", WITH_BODY(wrongly)));
    lend_ramp(run.context, "x");
    (void)run_once(&run);
    expect_value(run.context, "y", ELEMENTS, 2, 1);
    run_close(&run);
}

static enum hearth_status run_twice(struct hearth_context *context, void *user)
{
    struct hearth_context *body = NULL;
    EXPECT(HEARTH_OK, run_simple(context, user));
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    for (unsigned i = 0; i < 3; i++) { /* outputs of the run before are released */
        EXPECT(HEARTH_OK, hearth_context_lend(body, "in", hearth_context_input(context, 0)));
        EXPECT(HEARTH_OK, hearth_context_run_body(body));
        expect_value(body, "out", ELEMENTS, 2, 1);
        EXPECT_SIZE(2, hearth_context_count(body));
    }
    return HEARTH_OK; /* and what is left in the body dies with the node */
}

Test(body_misuse, values_left_in_a_body_die_with_the_node)
{
    run_open(&run, PLAN("x", "y", WITH_BODY(run_twice)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 4; i++) {
        EXPECT_SIZE(4, run_once(&run).body_runs);
        EXPECT_SIZE(sizeof ramp, hearth_service_live_bytes(run.rig.service));
        EXPECT_SIZE(0, hearth_live_bytes(inside.out[0]));
    }
    run_close(&run);
}

static enum hearth_status no_body(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_context *body = NULL;
    return hearth_context_body(context, 0, &body);
}

Test(body_misuse, bodies_need_a_service)
{
    run_open(&run, PLAN("x", "y", WITH_BODY(no_body)));
    struct hearth_session *bare = session_of(run.plan, NULL);
    struct hearth_context *outer = context_of(run.plan, CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(outer, "x");
    EXPECT(HEARTH_INVALID, hearth_session_run(bare, outer, NULL));
    EXPECT(HEARTH_OK, hearth_context_destroy(outer));
    EXPECT(HEARTH_OK, hearth_session_destroy(bare));
    run_close(&run);
}
