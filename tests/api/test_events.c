/* SPDX-License-Identifier: Apache-2.0 */
/* Events of runs.
 * Covered: every event of a small run with all its numbers against a list by hand; staged inputs, takes,
 * exports, failures; callbacks that call the library; contexts without a handler. Not covered: reuse
 * (test_in_place.c), several threads (test_session_parallel.c). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(events, .timeout = 60);

/* x -> a (64 bytes) -> t (400), y (40, declared), workspace (1000) -> z (80, declared). */
static struct op both = {.outs = 2, .count = {100, 10}, .temporary = 1000}, last = {.count = {20}};

static void open_run(void)
{
    run_open(&run, PLAN("x", "y z", OP("first", "x", "a", NULL), OP("both", "a", "t y", &both),
                        OP("last", "t", "z", &last)));
    lend_ramp(run.context, "x");
}

#define NONE HEARTH_NODE_NONE
/* Where the end of a node stands among the deaths after it is left open; see ends_are_in_place(). */
static const struct logged by_hand[] = {
    {HEARTH_EVENT_NODE_BEGIN, 0, 0, 0, "(null)", 0, 0, 0, 0, 0},
    {HEARTH_EVENT_MADE, 0, 0, 0, "a", 64, 64, 64, 0, 0},
    {HEARTH_EVENT_NODE_BEGIN, 0, 1, 1, "(null)", 0, 64, 64, 0, 0},
    {HEARTH_EVENT_MADE, 0, 1, 1, "t", 400, 1464, 1464, 0, 0},
    {HEARTH_EVENT_MADE, 0, 1, 1, "y", 40, 1464, 1464, 40, 40},
    {HEARTH_EVENT_RELEASED, 0, 1, 1, "a", 64, 400, 1464, 40, 40},
    {HEARTH_EVENT_NODE_BEGIN, 0, 2, 2, "(null)", 0, 400, 1464, 40, 40},
    {HEARTH_EVENT_MADE, 0, 2, 2, "z", 80, 400, 1464, 120, 120},
    {HEARTH_EVENT_RELEASED, 0, 2, 2, "t", 400, 0, 1464, 120, 120},
};

static void ends_are_in_place(void)
{
    size_t node = SIZE_MAX, ended = SIZE_MAX;
    for (size_t i = 0; i < run.log.count; i++) {
        const struct logged *event = &run.log.events[i];
        if (event->kind == HEARTH_EVENT_NODE_BEGIN) {
            cr_assert_eq(ended, node, "a node begins before the one before ended");
            node = event->node;
        } else if (event->kind == HEARTH_EVENT_NODE_END) {
            EXPECT_SIZE(node, event->node);
            cr_assert_neq(ended, node, "a node ended twice");
            cr_assert_str_eq(event->value, "(null)");
            ended = node;
        } else if (event->kind == HEARTH_EVENT_MADE) {
            cr_assert_neq(ended, node, "something was made after the end");
        }
    }
    cr_assert_eq(ended, node);
}

#define SAME_NUMBER(member)                                                                        \
    cr_assert_eq(got->member, wanted->member, "event %zu (%s): " #member " is %llu, not %llu", at, \
                 got->value, (unsigned long long)got->member, (unsigned long long)wanted->member)

static void expect_event(const struct logged *got, const struct logged *wanted, size_t at)
{
    SAME_NUMBER(kind);
    cr_assert_str_eq(got->value, wanted->value);
    SAME_NUMBER(thread);
    SAME_NUMBER(step);
    SAME_NUMBER(node);
    SAME_NUMBER(bytes);
    SAME_NUMBER(execution_live);
    SAME_NUMBER(execution_peak);
    SAME_NUMBER(io_live);
    SAME_NUMBER(io_peak);
}

Test(events, a_run_against_a_list_by_hand)
{
    open_run();
    for (unsigned round = 0; round < 3; round++) {
        struct hearth_run_stats stats = run_once(&run);
        ends_are_in_place();
        size_t at = 0;
        for (size_t i = 0; i < run.log.count; i++) {
            if (run.log.events[i].kind == HEARTH_EVENT_NODE_END)
                continue;
            cr_assert_lt(at, COUNT_OF(by_hand));
            expect_event(&run.log.events[i], &by_hand[at], at);
            at++;
        }
        EXPECT_SIZE(COUNT_OF(by_hand), at);
        EXPECT_SIZE(3, log_count(&run.log, HEARTH_EVENT_NODE_END));
        EXPECT_SIZE(1464, stats.execution_peak_bytes);
        EXPECT_SIZE(120, stats.io_peak_bytes);
        log_clear(&run.log);
    }
    run_close(&run);
}

Test(events, the_last_one_tells_what_is_left)
{
    open_run();
    (void)run_once(&run);
    const struct logged *event = &run.log.events[run.log.count - 1];
    EXPECT_SIZE(0, event->execution_live);
    EXPECT_SIZE(120, event->io_live);
    run_close(&run);
}

static const struct logged *only(enum hearth_event_kind kind)
{
    const struct logged *found = NULL;
    EXPECT_SIZE(1, log_count(&run.log, kind));
    for (size_t i = 0; i < run.log.count; i++) {
        if (run.log.events[i].kind == (uint32_t)kind)
            found = &run.log.events[i];
    }
    return found;
}

Test(events, before_and_after_a_run)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    open_run();
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    const struct logged *copied = only(HEARTH_EVENT_COPIED);
    cr_assert_str_eq(copied->value, "x");
    EXPECT_SIZE(NONE, copied->node);
    EXPECT_SIZE(sizeof ramp, copied->bytes);
    (void)run_once(&run);
    log_clear(&run.log);
    struct hearth_lease lease = export_of(run.context, "z");
    const struct logged *exported = only(HEARTH_EVENT_EXPORTED);
    cr_assert_str_eq(exported->value, "z");
    EXPECT_SIZE(NONE, exported->node);
    EXPECT_SIZE(80, exported->bytes);
    EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
    io_drop(lease);
    run_close(&run);
}

Test(events, session_export_tells_each_output)
{
    struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
    open_run();
    (void)run_once(&run);
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 2));
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_EXPORTED, "y"));
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_EXPORTED, "z"));
    io_drop(leases[0]);
    io_drop(leases[1]);
    run_close(&run);
}

Test(events, a_take_moves_the_bytes_to_the_other_side)
{
    open_run();
    both.old = true;
    struct hearth_run_stats stats = run_once(&run);
    const struct logged *taken = only(HEARTH_EVENT_TAKEN);
    cr_assert_str_eq(taken->value, "y");
    EXPECT_SIZE(1, taken->node);
    EXPECT_SIZE(40, taken->bytes);
    EXPECT_SIZE(40, taken->io_live);
    EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_RELEASED, "a"));
    const struct logged *event = &run.log.events[run.log.count - 1];
    EXPECT_SIZE(0, event->execution_live);
    EXPECT_SIZE(120, event->io_live);
    EXPECT_SIZE(120, stats.io_peak_bytes);
    both.old = false;
    run_close(&run);
}

Test(events, a_failed_run_ends_its_node)
{
    open_run();
    both.fail = HEARTH_TIMEOUT;
    (void)run_expecting(&run, HEARTH_TIMEOUT);
    EXPECT_SIZE(2, log_count(&run.log, HEARTH_EVENT_NODE_BEGIN));
    ends_are_in_place();
    EXPECT_SIZE(3, log_count(&run.log, HEARTH_EVENT_MADE));
    both.fail = HEARTH_OK;
    run_close(&run);
}

static unsigned heard;

static void calling_back(void *user, const struct hearth_event *event)
{
    struct hearth_buf *buf = NULL;
    cr_assert_eq(user, &heard);
    EXPECT_SIZE(sizeof *event, event->size);
    heard++;
    EXPECT(HEARTH_OK, hearth_exec_alloc(exec_of(run.rig.service), 123, &buf));
    EXPECT(HEARTH_OK, hearth_exec_free(exec_of(run.rig.service), buf));
    io_drop(io_lease(run.rig.io, 1234));
}

Test(events, the_callback_may_call_the_library)
{
    static const struct hearth_event_handler handler = {calling_back, &heard};
    run_open_with(&run, PLAN("x", "y", OP("first", "x", "a", NULL), OP("last", "a", "y", NULL)),
                  SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER), CONTEXT_OPTIONS(.events = &handler));
    lend_ramp(run.context, "x");
    struct hearth_run_stats stats = run_once(&run);
    EXPECT_SIZE(7, heard); /* begin, made, end, begin, made, end, released */
    EXPECT_SIZE(sizeof ramp, stats.execution_peak_bytes); /* the run's bytes alone */
    EXPECT_SIZE(sizeof ramp, stats.io_peak_bytes);
    run_close(&run);
}

Test(events, nobody_has_to_listen)
{
    open_run();
    struct hearth_context *quiet = context_of(run.plan, CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(quiet, "x");
    struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_session_run(run.session, quiet, &stats));
    EXPECT_SIZE(1464, stats.execution_peak_bytes);
    EXPECT_SIZE(4, stats.tensors);
    EXPECT_SIZE(0, run.log.count);
    EXPECT(HEARTH_OK, hearth_context_destroy(quiet));
    run_close(&run);
}
