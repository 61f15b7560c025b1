/* SPDX-License-Identifier: Apache-2.0 */
#include "body_support.h"

enum hearth_status pass_body(struct hearth_context *context, bool route)
{
    struct hearth_context *body = NULL;
    struct hearth_tensor made = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    EXPECT_SIZE(0, hearth_context_count(body));
    EXPECT(HEARTH_OK, hearth_context_lend(body, "s", hearth_context_input(context, 0)));
    if (route)
        EXPECT(HEARTH_OK, hearth_context_route_output(body, "n", 0));
    enum hearth_status status = hearth_context_run_body(body);
    if (status != HEARTH_OK)
        return status;
    EXPECT(HEARTH_OK, hearth_context_take(body, "n", &made));
    status = hearth_context_put_output(context, 0, &made);
    hearth_tensor_cleanup(&made);
    return status;
}

static enum hearth_status pass(struct hearth_context *context, void *user)
{
    (void)user;
    return pass_body(context, false);
}

static enum hearth_status pass_routed(struct hearth_context *context, void *user)
{
    (void)user;
    return pass_body(context, true);
}

struct hearth_plan *nested_plan(unsigned depth, bool route, kernel_fn *leaf, void *user)
{
    if (depth == 1)
        return PLAN("s", "n", NODE("leaf", "s", "n", .kernel = leaf, .user = user));
    return PLAN("s", "n",
                NODE("middle", "s", "n", .kernel = route ? pass_routed : pass,
                     .bodies = {nested_plan(depth - 1, route, leaf, user)}));
}
