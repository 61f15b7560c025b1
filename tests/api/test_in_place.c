/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs made in an input's storage.
 * Covered: each condition of the plan and of the value, what fits, what is left after a refusal; figures and
 * events. Not covered: parallel runs (the plan's answer holds for every order; stress/). */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(in_place, .timeout = 60);

/* Asks for output 0 in input `input`'s storage, and adds 1 to what is there; else makes it elsewhere. */
struct reuse {
    size_t input;
    size_t count; /* elements; 0: as the input */
    enum hearth_dtype dtype;
    bool could;
    enum hearth_status status;
    const void *before;
    const void *after;
};

static enum hearth_status reuse_op(struct hearth_context *context, void *user)
{
    struct reuse *reuse = user;
    const struct hearth_tensor *input = hearth_context_input(context, reuse->input);
    struct hearth_shape shape = *hearth_tensor_shape(input);
    struct hearth_tensor *made = NULL;
    uint32_t content[ELEMENTS];
    if (reuse->count)
        shape = shape_of(reuse->count);
    if (reuse->dtype == HEARTH_DTYPE_UNDEFINED)
        reuse->dtype = HEARTH_DTYPE_UINT32;
    memcpy(content, hearth_tensor_data(input), sizeof content);
    reuse->before = hearth_tensor_data(input);
    reuse->could = hearth_context_can_reuse(context, reuse->input, 0);
    reuse->status =
        hearth_context_make_output_in_place(context, reuse->input, 0, reuse->dtype, &shape, &made);
    if (reuse->status != HEARTH_OK) {
        cr_assert_eq(hearth_context_input(context, reuse->input), input);
        cr_assert_eq(hearth_tensor_data(input), reuse->before);
        cr_assert_eq(memcmp(hearth_tensor_data(input), content, sizeof content), 0);
        cr_assert_null(hearth_context_output(context, 0));
        return run_op(context, NULL);
    }
    reuse->after = hearth_tensor_data(made);
    cr_assert_eq(hearth_context_output(context, 0), made);
    cr_assert_eq(hearth_tensor_dtype(made), reuse->dtype);
    cr_assert_null(hearth_context_input(context, reuse->input)); /* its value is gone */
    cr_assert(!hearth_context_can_reuse(context, reuse->input, 0));
    size_t count = hearth_tensor_size(made) / 4;
    for (size_t i = 0; i < count; i++) {
        if (i < ELEMENTS)
            EXPECT_SIZE(content[i], ((uint32_t *)hearth_tensor_data(made))[i]);
        ((uint32_t *)hearth_tensor_data(made))[i] = (uint32_t)i + 2;
    }
    return HEARTH_OK;
}

#define REUSE(name_, inputs_, outputs_, reuse_)                                                    \
    NODE(name_, inputs_, outputs_, .kernel = reuse_op, .user = &(reuse_))

static void expect_reused(const struct reuse *reuse)
{
    cr_assert(reuse->could);
    EXPECT(HEARTH_OK, reuse->status);
    cr_assert_eq(reuse->before, reuse->after);
}

static void expect_refused(const struct reuse *reuse)
{
    cr_assert(!reuse->could);
    EXPECT(HEARTH_INVALID, reuse->status);
}

static struct hearth_run_stats run_plan(struct hearth_plan *plan)
{
    run_open(&run, plan);
    lend_ramp(run.context, "x");
    return run_once(&run);
}

Test(in_place, the_last_use_of_an_intermediate)
{
    static struct reuse reuse, again;
    static struct op last;
    struct hearth_run_stats stats =
        run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("reuse", "a", "b", reuse),
                      REUSE("again", "b", "c", again), OP("last", "c", "y", &last)));
    for (unsigned i = 0; i < 4; i++) {
        expect_reused(&reuse);
        expect_reused(&again);
        cr_assert_eq(last.in_data[0], reuse.before);
        EXPECT_SIZE(2, stats.reused_in_place);
        EXPECT_SIZE(sizeof ramp, stats.execution_peak_bytes);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_REUSED, "b"));
        EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_REUSED, "c"));
        EXPECT_SIZE(2, log_count(&run.log, HEARTH_EVENT_REUSED));
        EXPECT_SIZE(0, hearth_exec_live_bytes(exec_of(run.rig.service)));
        expect_value(run.context, "y", ELEMENTS, 3, 1);
        log_clear(&run.log);
        stats = run_once(&run);
    }
    run_close(&run);
}

Test(in_place, not_an_initial_input)
{
    static struct reuse borrowed;
    struct hearth_shape shape = shape_of(ELEMENTS);
    (void)run_plan(PLAN("x", "y", REUSE("reuse", "x", "a", borrowed), OP("last", "a", "y", NULL)));
    expect_refused(&borrowed);
    EXPECT(HEARTH_OK, hearth_context_stage(run.context, "x", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    (void)run_once(&run); /* owned by the context, and needed by the next run */
    expect_refused(&borrowed);
    run_close(&run);
}

Test(in_place, not_across_roles)
{
    static struct reuse reuse;
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("reuse", "a", "y", reuse)));
    expect_refused(&reuse);
    expect_value(run.context, "y", ELEMENTS, 2, 1);
    run_close(&run);
}

Test(in_place, not_a_declared_output)
{
    static struct reuse to_output, to_intermediate;
    (void)run_plan(PLAN("x", "y z", OP("first", "x", "y", NULL),
                        REUSE("one", "y", "a", to_intermediate),
                        REUSE("two", "y a", "z", to_output)));
    expect_refused(&to_output);
    expect_refused(&to_intermediate);
    expect_value(run.context, "y", ELEMENTS, 1, 1);
    run_close(&run);
}

Test(in_place, not_while_others_need_it)
{
    static struct reuse early, late;
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("early", "a", "b", early),
                        REUSE("late", "a", "c", late), OP("last", "b c", "y", NULL)));
    expect_refused(&early);
    expect_refused(&late); /* in another order of execution it would come first */
    expect_value(run.context, "y", ELEMENTS, 5, 2);
    run_close(&run);
}

Test(in_place, when_the_others_come_before_on_every_path)
{
    static struct reuse early, late;
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("early", "a", "b", early),
                        REUSE("late", "a b", "c", late), OP("last", "c", "y", NULL)));
    expect_refused(&early);
    expect_reused(&late);
    run_close(&run);
}

Test(in_place, not_from_two_slots)
{
    static struct reuse reuse;
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("reuse", "a a", "b", reuse),
                        OP("last", "b", "y", NULL)));
    expect_refused(&reuse);
    run_close(&run);
}

Test(in_place, any_input_slot)
{
    static struct reuse reuse = {.input = 2};
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL), REUSE("reuse", "x - a", "b", reuse),
                        OP("last", "b", "y", NULL)));
    expect_reused(&reuse);
    run_close(&run);
}

Test(in_place, within_the_capacity_only)
{
    static struct reuse reuse;
    static struct op first = {.count = {200}}; /* 800 bytes, in a buffer of 896 */
    static struct op last;
    struct hearth_run_stats stats;
    reuse.count = 200;
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", &first), REUSE("reuse", "a", "b", reuse),
                        OP("last", "b", "y", &last)));
    expect_reused(&reuse);
    const size_t fits[] = {1, 7, 199, 201, 224};
    for (unsigned i = 0; i < COUNT_OF(fits); i++) {
        reuse.count = fits[i];
        stats = run_once(&run);
        expect_reused(&reuse);
        EXPECT_SIZE(fits[i] * 4, hearth_tensor_size(value_of(run.context, "y")));
        EXPECT_SIZE(fits[i] > 200 ? fits[i] * 4 : 800, stats.execution_peak_bytes);
    }
    reuse.count = 3000;
    (void)run_once(&run);
    EXPECT(HEARTH_INVALID, reuse.status);
    reuse.count = SIZE_MAX / 4;
    (void)run_once(&run);
    cr_assert(reuse.status == HEARTH_OVERFLOW || reuse.status == HEARTH_INVALID);
    reuse.count = 0;
    reuse.dtype = HEARTH_DTYPE_INT32;
    EXPECT_SIZE(1, run_once(&run).reused_in_place);
    expect_reused(&reuse);
    run_close(&run);
}

static enum hearth_status wrong_slots(struct hearth_context *context, void *user)
{
    (void)user;
    const size_t bad[][2] = {{1, 0}, {2, 0}, {SIZE_MAX, 0}, {0, 1}, {0, 2}, {0, SIZE_MAX}};
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *made = NULL;
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        cr_assert(!hearth_context_can_reuse(context, bad[i][0], bad[i][1]));
        EXPECT(HEARTH_INVALID, hearth_context_make_output_in_place(context, bad[i][0], bad[i][1],
                                                                   u32, &shape, &made));
    }
    cr_assert_null(made);
    EXPECT(HEARTH_INVALID, hearth_context_make_output_in_place(context, 0, 0, u32, NULL, &made));
    return run_op(context, NULL);
}

Test(in_place, slots_that_are_not_used)
{
    (void)run_plan(PLAN("x", "y", OP("first", "x", "a", NULL),
                        NODE("wrong", "a -", "b -", .kernel = wrong_slots),
                        OP("last", "b", "y", NULL)));
    run_close(&run);
}

/* Two outputs want the same input: one gets it. */
static enum hearth_status greedy(struct hearth_context *context, void *user)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *made = NULL;
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    (void)user;
    cr_assert(hearth_context_can_reuse(context, 0, 0));
    cr_assert(hearth_context_can_reuse(context, 0, 1));
    EXPECT(HEARTH_OK, hearth_context_make_output_in_place(context, 0, 1, u32, &shape, &made));
    cr_assert(!hearth_context_can_reuse(context, 0, 0));
    EXPECT(HEARTH_INVALID, hearth_context_make_output_in_place(context, 0, 0, u32, &shape, &made));
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, u32, &shape, &made));
    memset(hearth_tensor_data(made), 0, sizeof ramp);
    return HEARTH_OK;
}

Test(in_place, one_output_per_input)
{
    struct hearth_run_stats stats =
        run_plan(PLAN("x", "y", OP("first", "x", "a", NULL),
                      NODE("greedy", "a", "b c", .kernel = greedy), OP("last", "b c", "y", NULL)));
    EXPECT_SIZE(1, stats.reused_in_place);
    EXPECT_SIZE(2 * sizeof ramp, stats.execution_peak_bytes);
    expect_value(run.context, "y", ELEMENTS, 2, 1);
    run_close(&run);
}

/* Puts a tensor that owns a lease, or another thread's buffer, or that borrows. */
enum odd { ODD_LEASE, ODD_ELSEWHERE, ODD_BORROWED };
static struct hearth_exec *elsewhere;
static struct hearth_buf *elsewheres;
static uint32_t lent[ELEMENTS];

static enum hearth_status odd_op(struct hearth_context *context, void *user)
{
    const enum odd *odd = user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    if (*odd == ODD_BORROWED) {
        EXPECT(HEARTH_OK, hearth_tensor_borrow(lent, sizeof lent, u32, &shape, &tensor));
    } else {
        if (*odd == ODD_LEASE)
            EXPECT(HEARTH_OK, hearth_handle_from_lease(io_lease(run.rig.io, sizeof ramp), &handle));
        else
            EXPECT(HEARTH_OK, hearth_handle_from_buf(elsewheres, &handle));
        EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, u32, &shape, &tensor));
    }
    memcpy(hearth_tensor_data(&tensor), ramp, sizeof ramp);
    return hearth_context_put_output(context, 0, &tensor);
}

static void open_odd(enum odd *odd, struct reuse *reuse, uint32_t flags)
{
    run_open_with(&run,
                  PLAN("x", "y", NODE("odd", "x", "a", .kernel = odd_op, .user = odd),
                       REUSE("reuse", "a", "b", *reuse), OP("last", "b", "y", NULL)),
                  SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER), CONTEXT_OPTIONS(.flags = flags));
    lend_ramp(run.context, "x");
}

Test(in_place, not_a_lease)
{
    static enum odd odd = ODD_LEASE;
    static struct reuse reuse;
    open_odd(&odd, &reuse, HEARTH_CONTEXT_FOREIGN);
    EXPECT_SIZE(0, run_once(&run).payload_copies);
    expect_refused(&reuse);
    EXPECT_SIZE(0, hearth_io_leased_count(run.rig.io));
    run_close(&run);
}

Test(in_place, a_borrowed_value_was_materialized)
{
    static enum odd odd = ODD_BORROWED;
    static struct reuse reuse;
    open_odd(&odd, &reuse, 0);
    EXPECT_SIZE(1, run_once(&run).payload_copies);
    expect_reused(&reuse);
    cr_assert_neq(reuse.before, lent);
    cr_assert_eq(memcmp(lent, ramp, sizeof ramp), 0);
    run_close(&run);
}

static void take_elsewhere(void *unused)
{
    (void)unused;
    if (elsewhere == NULL)
        EXPECT(HEARTH_OK, hearth_exec_create(NULL, &elsewhere));
    EXPECT(HEARTH_OK, hearth_exec_alloc(elsewhere, sizeof ramp, &elsewheres));
}

/* Another thread owns its arena: it stays, unless the byte size is to change. */
static void use_elsewhere(void *worker)
{
    static enum odd odd = ODD_ELSEWHERE;
    static struct reuse reuse;
    open_odd(&odd, &reuse, HEARTH_CONTEXT_FOREIGN);
    worker_run(worker, take_elsewhere, NULL);
    (void)run_once(&run);
    expect_reused(&reuse);
    worker_run(worker, take_elsewhere, NULL);
    reuse.count = ELEMENTS - 1;
    (void)run_once(&run);
    cr_assert(reuse.could);
    EXPECT(HEARTH_NOT_OWNER, reuse.status);
    EXPECT_SIZE(0, hearth_exec_live_count(elsewhere));
    run_close(&run);
}

Test(in_place, another_threads_buffer_keeps_its_size)
{
    struct worker worker;
    worker_start(&worker);
    use_elsewhere(&worker);
    worker_end(&worker);
    EXPECT(HEARTH_OK, hearth_exec_destroy(elsewhere));
}

Test(in_place, inline_values)
{
    static struct reuse reuse;
    struct hearth_plan *plan = PLAN("x", "y", OP("first", "x", "a", NULL),
                                    REUSE("reuse", "a", "b", reuse), OP("last", "b", "y", NULL));
    struct hearth_session *session = session_of(plan, NULL);
    struct hearth_context *context = context_of(plan, CONTEXT_OPTIONS(.flags = 0));
    lend_ramp(context, "x");
    EXPECT(HEARTH_OK, hearth_session_run(session, context, NULL));
    expect_reused(&reuse);
    expect_value(context, "y", ELEMENTS, 3, 1);
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    EXPECT(HEARTH_OK, hearth_session_destroy(session));
    hearth_plan_unref(plan);
}
