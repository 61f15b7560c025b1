/* SPDX-License-Identifier: Apache-2.0 */
/* What loops over bodies cost: peaks to the byte, for any number of trips and one to three bodies deep.
 * Covered: states that are put, taken, dropped; outputs that are routed or not, declared or not; routes that
 * outlive a clear; nothing is live in the end. */
#include "body_support.h"

#include <string.h>

static struct run run;

TestSuite(body_peaks, .timeout = 120);

enum style {
    KEEP_STATE,  /* what was taken is the next trip's state */
    DROP_STATE,  /* it is reset */
    GIVE_OUTPUT, /* it is put into the node's output, each trip anew */
    LEAVE_STATE, /* it stays in the body, to be replaced by the next trip's */
};

struct loop {
    enum style style;
    unsigned trips;
    bool route;
    bool clear; /* the body, before each trip */
};

static enum hearth_status trip(struct hearth_context *context, struct hearth_context *body,
                               struct loop *loop, struct hearth_tensor *state)
{
    if (loop->clear)
        EXPECT(HEARTH_OK, hearth_context_clear(body));
    if (hearth_tensor_owner(state) == HEARTH_OWNER_NONE)
        EXPECT(HEARTH_OK, hearth_context_lend(body, "s", hearth_context_input(context, 0)));
    else
        EXPECT(HEARTH_OK, hearth_context_put(body, "s", state));
    EXPECT(HEARTH_OK, hearth_context_run_body(body));
    if (loop->style == LEAVE_STATE)
        return HEARTH_OK;
    EXPECT(HEARTH_OK, hearth_context_take(body, "n", state));
    if (loop->style == DROP_STATE)
        EXPECT(HEARTH_OK, hearth_tensor_reset(state));
    return loop->style == GIVE_OUTPUT ? hearth_context_put_output(context, 0, state) : HEARTH_OK;
}

static enum hearth_status run_loop(struct hearth_context *context, void *user)
{
    struct loop *loop = user;
    struct hearth_tensor state = HEARTH_TENSOR_INIT;
    struct hearth_context *body = NULL;
    EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
    if (loop->route)
        EXPECT(HEARTH_OK, hearth_context_route_output(body, "n", 0));
    for (unsigned i = 0; i < loop->trips; i++)
        EXPECT(HEARTH_OK, trip(context, body, loop, &state));
    if (loop->style == LEAVE_STATE)
        EXPECT(HEARTH_OK, hearth_context_take(body, "n", &state));
    if (loop->style == GIVE_OUTPUT)
        return HEARTH_OK;
    if (loop->style == DROP_STATE) {
        struct hearth_tensor *output = NULL;
        const struct hearth_shape shape = shape_of(ELEMENTS);
        EXPECT(HEARTH_OK,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
        for (uint32_t i = 0; i < ELEMENTS; i++)
            ((uint32_t *)hearth_tensor_data(output))[i] = i + 1;
        return HEARTH_OK;
    }
    return hearth_context_put_output(context, 0, &state);
}

/* All values are of this size. */
#define ONE sizeof ramp

static void expect_nothing_left(void)
{
    const struct logged *last = &run.log.events[run.log.count - 1];
    cr_assert_leq(run.log.count, LOG_EVENTS);
    cr_assert_eq(last->kind, HEARTH_EVENT_NODE_END);
    EXPECT_SIZE(0, last->execution_live);
    EXPECT_SIZE(ONE, last->io_live);
}

struct costs {
    size_t execution, io, copies, taken;
};

/* The loop's output is y, which is declared, or is copied to z. The figures of three runs. */
static void expect_costs(struct loop loop, bool declared, struct costs costs)
{
    for (unsigned depth = 1; depth <= DEEPEST; depth++) {
        struct hearth_plan *body = nested_plan(depth, loop.route, run_op, NULL);
        run_open(
            &run,
            declared
                ? PLAN("x", "y",
                       NODE("loop", "x", "y", .kernel = run_loop, .user = &loop, .bodies = {body}))
                : PLAN("x", "z",
                       NODE("loop", "x", "y", .kernel = run_loop, .user = &loop, .bodies = {body}),
                       NODE("copy", "y", "z", .kernel = copy_op)));
        lend_ramp(run.context, "x");
        for (unsigned i = 0; i < 3; i++) {
            log_clear(&run.log);
            struct hearth_run_stats stats = run_once(&run);
            cr_assert_eq(stats.execution_peak_bytes, costs.execution,
                         "style %d, %u trips, route %d, declared %d, depth %u: execution peak %zu "
                         "instead of %zu",
                         (int)loop.style, loop.trips, loop.route, declared, depth,
                         (size_t)stats.execution_peak_bytes, costs.execution);
            cr_assert_eq(stats.io_peak_bytes, costs.io,
                         "style %d, %u trips, route %d, declared %d, depth %u: I/O peak %zu "
                         "instead of %zu",
                         (int)loop.style, loop.trips, loop.route, declared, depth,
                         (size_t)stats.io_peak_bytes, costs.io);
            EXPECT_SIZE(costs.copies, stats.payload_copies);
            EXPECT_SIZE(costs.taken, stats.taken);
            EXPECT_SIZE((size_t)loop.trips * depth, stats.body_runs);
            expect_value(run.context, declared ? "y" : "z", ELEMENTS,
                         loop.style == KEEP_STATE ? loop.trips : 1, 1);
            expect_nothing_left();
        }
        run_close(&run);
    }
}

static const unsigned trips[] = {1, 2, 3, 10};

Test(body_peaks, a_state_that_goes_round)
{
    for (unsigned i = 0; i < COUNT_OF(trips); i++) {
        struct loop loop = {.style = KEEP_STATE, .trips = trips[i]};
        size_t most = trips[i] == 1 ? ONE : 2 * ONE; /* the state and the next one */
        expect_costs(loop, false, (struct costs){most, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){most, ONE, 0, 1});
        loop.clear = true;
        expect_costs(loop, true, (struct costs){most, ONE, 0, 1});
    }
}

Test(body_peaks, a_routed_state_that_goes_round)
{
    for (unsigned i = 0; i < COUNT_OF(trips); i++) {
        struct loop loop = {.style = KEEP_STATE, .trips = trips[i], .route = true};
        size_t most = trips[i] == 1 ? ONE : 2 * ONE;
        expect_costs(loop, false, (struct costs){most, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){0, most, 0, 0});
        loop.clear = true;
        expect_costs(loop, true, (struct costs){0, most, 0, 0});
    }
}

Test(body_peaks, a_state_that_is_dropped)
{
    for (unsigned i = 0; i < COUNT_OF(trips); i++) {
        struct loop loop = {.style = DROP_STATE, .trips = trips[i]};
        /* What was taken last counts until the kernel returns. */
        expect_costs(loop, false, (struct costs){2 * ONE, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){ONE, ONE, 0, 0});
        loop.route = true;
        expect_costs(loop, false, (struct costs){2 * ONE, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){0, 2 * ONE, 0, 0});
    }
}

Test(body_peaks, an_output_that_is_given_in_each_trip)
{
    for (unsigned i = 0; i < COUNT_OF(trips); i++) {
        struct loop loop = {.style = GIVE_OUTPUT, .trips = trips[i]};
        size_t most = trips[i] == 1 ? ONE : 2 * ONE; /* the output and its successor */
        expect_costs(loop, false, (struct costs){most, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){ONE, ONE, 0, trips[i]});
        loop.route = true;
        expect_costs(loop, false, (struct costs){most, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){0, most, 0, 0});
    }
}

Test(body_peaks, a_state_that_stays_in_the_body)
{
    for (unsigned i = 0; i < COUNT_OF(trips); i++) {
        struct loop loop = {.style = LEAVE_STATE, .trips = trips[i]};
        expect_costs(loop, false, (struct costs){ONE, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){ONE, ONE, 0, 1});
        loop.route = true;
        expect_costs(loop, false, (struct costs){ONE, ONE, 0, 0});
        expect_costs(loop, true, (struct costs){0, ONE, 0, 0});
    }
}

/* Several values taken out of a body at once, of several sizes, given back in another order. */
static enum hearth_status shuffle(struct hearth_context *context, void *user)
{
    (void)user;
    struct hearth_tensor taken[2] = {HEARTH_TENSOR_INIT, HEARTH_TENSOR_INIT};
    struct hearth_context *body = NULL;
    for (unsigned i = 0; i < 10; i++) {
        EXPECT(HEARTH_OK, hearth_context_body(context, 0, &body));
        EXPECT(HEARTH_OK, hearth_context_lend(body, "s", hearth_context_input(context, 0)));
        EXPECT(HEARTH_OK, hearth_context_route_output(body, "b", 1));
        EXPECT(HEARTH_OK, hearth_context_run_body(body));
        EXPECT(HEARTH_OK, hearth_context_take(body, "a", &taken[0]));
        EXPECT(HEARTH_OK, hearth_context_take(body, "b", &taken[1]));
        for (unsigned slot = 2; slot-- > 0;)
            EXPECT(HEARTH_OK, hearth_context_put_output(context, slot, &taken[slot]));
    }
    return HEARTH_OK;
}

Test(body_peaks, several_values_at_once)
{
    static struct op two = {.outs = 2, .count = {16, 48}};
    struct hearth_plan *body = PLAN("s", "a b", OP("two", "s", "a b", &two));
    run_open(&run, PLAN("x", "b z", NODE("node", "x", "a b", .kernel = shuffle, .bodies = {body}),
                        NODE("copy", "a", "z", .kernel = copy_op)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(128, stats.execution_peak_bytes); /* a, and the one before it */
        EXPECT_SIZE(384, stats.io_peak_bytes);        /* b, and the one before it */
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
    }
    run_close(&run);
}
