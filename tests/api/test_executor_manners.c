/* SPDX-License-Identifier: Apache-2.0 */
/* What an executor may do, and what a run makes of it.
 * Covered: storage that goes from thread to thread in place; who counts as a thread, and under which number;
 * executors that detach their threads, or call when a thread has almost exited; calls inside of each other; late
 * calls of a run with more threads. */
#include "executor_support.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct run run;

TestSuite(executor_manners, .timeout = 120);

/* A relay: node i makes v(i) in place of v(i - 1), and w(i), which leaf i reads. A thread that runs a node goes on
 * with its leaf, and another has the next node. */
enum { RELAY = 6 };

static const void *relay_data[RELAY];
static pthread_t relay_threads[RELAY];
static const unsigned relay_numbers[RELAY] = {0, 1, 2, 3, 4, 5};

static enum hearth_status relay(struct hearth_context *context, void *user)
{
    unsigned number = *(const unsigned *)user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *output = NULL;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    memcpy(hearth_tensor_data(output), ramp, sizeof ramp);
    if (number == 0) {
        EXPECT(HEARTH_OK,
               hearth_context_make_output(context, 1, HEARTH_DTYPE_UINT32, &shape, &output));
        memcpy(hearth_tensor_data(output), ramp, sizeof ramp);
    } else {
        const struct hearth_shape half = shape_of(ELEMENTS / 2);
        bool same_thread = pthread_equal(relay_threads[number - 1], pthread_self()) != 0;
        cr_assert_eq(hearth_tensor_data(hearth_context_input(context, 0)), relay_data[number - 1]);
        cr_assert(hearth_context_can_reuse(context, 0, 1));
        if (!same_thread) /* another size is for the owner */
            EXPECT(HEARTH_NOT_OWNER, hearth_context_make_output_in_place(
                                         context, 0, 1, HEARTH_DTYPE_UINT32, &half, &output));
        EXPECT(HEARTH_OK, hearth_context_make_output_in_place(context, 0, 1, HEARTH_DTYPE_UINT32,
                                                              &shape, &output));
    }
    relay_data[number] = hearth_tensor_data(output);
    cr_assert_eq(relay_data[number], relay_data[0]);
    relay_threads[number] = pthread_self();
    for (uint32_t i = 0; i < ELEMENTS; i++)
        ((uint32_t *)hearth_tensor_data(output))[i]++;
    return HEARTH_OK;
}

static struct hearth_plan *relay_plan(uint32_t flags)
{
    static char names[RELAY][5][16];
    struct row rows[2 * RELAY + 1];
    static char outputs[RELAY * 8];
    outputs[0] = '\0';
    for (unsigned i = 0; i < RELAY; i++) {
        snprintf(names[i][0], sizeof names[i][0], "v%u", i);
        snprintf(names[i][1], sizeof names[i][1], "w%u v%u", i, i);
        snprintf(names[i][2], sizeof names[i][2], "w%u", i);
        snprintf(names[i][3], sizeof names[i][3], "y%u", i);
        rows[2 * i] =
            (struct row)NODE("relay", i ? names[i - 1][0] : "", names[i][1], .kernel = relay,
                             .flags = flags, .user = (void *)(uintptr_t)&relay_numbers[i]);
        rows[2 * i + 1] = (struct row)OP("leaf", names[i][2], names[i][3], NULL);
        strcat(outputs, names[i][3]);
        strcat(outputs, " ");
    }
    strcat(outputs, "z");
    rows[2 * RELAY] = (struct row)NODE("end", names[RELAY - 1][0], "z", .kernel = copy_op);
    return plan_of("", outputs, rows, COUNT_OF(rows));
}

Test(executor_manners, storage_goes_from_thread_to_thread_in_place)
{
    struct hearth_executor executors[] = {apart_executor(2 * RELAY), inline_executor(2 * RELAY),
                                          refusing_executor(4)};
    for (uint32_t flags = 0; flags <= HEARTH_NODE_SLOT_AWARE; flags++) {
        for (unsigned which = 0; which < COUNT_OF(executors); which++) {
            run_open(&run, relay_plan(flags));
            for (unsigned i = 0; i < 5; i++) {
                struct hearth_run_stats stats = run_on(&run, &executors[which]);
                EXPECT_SIZE(RELAY - 1, stats.reused_in_place);
                EXPECT_SIZE(0, stats.payload_copies);
                EXPECT_SIZE(0, stats.taken);
                expect_value(run.context, "z", ELEMENTS, RELAY, 1);
                /* The storage is still the first thread's when it dies. */
                EXPECT_SIZE(which == 0, stats.remote_deaths);
                EXPECT_SIZE(which == 0 ? RELAY + 1 : 1, stats.threads); /* and the end's */
                for (unsigned j = 1; j < RELAY && which == 0; j++)
                    cr_assert(!pthread_equal(relay_threads[j - 1], relay_threads[j]));
            }
            run_close(&run);
        }
    }
}

/* The caller waits inside of submit, and comes back when all is done. */
static pthread_t caller;
static atomic_uint on_caller, elsewhere;
static enum hearth_status answer;

static enum hearth_status where(struct hearth_context *context, void *user)
{
    atomic_fetch_add(pthread_equal(caller, pthread_self()) ? &on_caller : &elsewhere, 1);
    enum hearth_status status = run_op(context, user);
    return status == HEARTH_OK ? answer : status;
}

Test(executor_manners, a_caller_that_ran_no_node_is_no_thread_of_the_run)
{
    struct hearth_executor executor = apart_executor(4);
    caller = pthread_self();
    run_open(&run,
             PLAN("x", "a b c", NODE("a", "x", "a", .kernel = where),
                  NODE("b", "x", "b", .kernel = where), NODE("c", "x", "c", .kernel = where)));
    lend_ramp(run.context, "x");
    for (unsigned i = 1; i <= 5; i++) {
        log_clear(&run.log);
        EXPECT_SIZE(1, run_on(&run, &executor).threads);
        EXPECT_SIZE(0, on_caller);
        EXPECT_SIZE(3 * i, elsewhere);
        for (size_t j = 0; j < run.log.count; j++)
            EXPECT_SIZE(1, run.log.events[j].thread);
    }
    answer = HEARTH_TIMEOUT; /* others find that the run has failed */
    for (unsigned i = 0; i < 5; i++) {
        struct hearth_run_stats stats = HEARTH_RUN_STATS_INIT;
        EXPECT(HEARTH_TIMEOUT, hearth_session_run_on(run.session, run.context, &executor, &stats));
        EXPECT_SIZE(1, stats.threads);
        EXPECT_SIZE(1, stats.nodes);
        EXPECT_SIZE(0, on_caller);
    }
    run_close(&run);
}

/* Which thread has which number, in one run. */
struct numbers {
    struct hearth_event_handler handler;
    pthread_mutex_t lock;
    pthread_t caller;
    bool seen[64];
    pthread_t threads[64];
};

static void note_number(void *user, const struct hearth_event *event)
{
    struct numbers *numbers = user;
    pthread_mutex_lock(&numbers->lock);
    cr_assert_lt(event->thread, COUNT_OF(numbers->seen));
    cr_assert_eq(event->thread == 0, pthread_equal(numbers->caller, pthread_self()) != 0);
    for (uint32_t i = 0; i < COUNT_OF(numbers->seen); i++)
        if (numbers->seen[i])
            cr_assert_eq(i == event->thread,
                         pthread_equal(numbers->threads[i], pthread_self()) != 0);
    numbers->seen[event->thread] = true;
    numbers->threads[event->thread] = pthread_self();
    pthread_mutex_unlock(&numbers->lock);
}

Test(executor_manners, each_thread_has_one_number)
{
    struct numbers numbers = {.handler = {note_number, &numbers}, .caller = pthread_self()};
    struct hearth_pool *pool = NULL;
    struct hearth_executor executor = HEARTH_EXECUTOR_INIT;
    pthread_mutex_init(&numbers.lock, NULL);
    run_open_with(&run, layers(), SERVICE_OPTIONS(.flags = 0),
                  CONTEXT_OPTIONS(.events = &numbers.handler));
    lend_ramp(run.context, "x");
    EXPECT(HEARTH_OK, hearth_pool_create(6, &pool));
    EXPECT(HEARTH_OK, hearth_pool_executor(pool, &executor));
    for (unsigned i = 0; i < 200; i++) {
        size_t seen = 0;
        memset(numbers.seen, 0, sizeof numbers.seen);
        struct hearth_run_stats stats = run_on(&run, &executor);
        for (uint32_t j = 0; j < COUNT_OF(numbers.seen); j++)
            seen += numbers.seen[j];
        EXPECT_SIZE(seen, stats.threads);
        expect_layers(&run);
    }
    EXPECT(HEARTH_OK, hearth_pool_destroy(pool));
    run_close(&run);
    pthread_mutex_destroy(&numbers.lock);
}

/* Pools that detach their threads from the service after each call. */
static bool elsewhere_too;

static void call_and_detach(void *argument)
{
    struct call *call = argument;
    call->fn(call->arg);
    EXPECT(HEARTH_OK, hearth_service_detach(run.rig.service));
}

static enum hearth_status submit_detaching(void *pool, void (*fn)(void *), void *arg)
{
    struct call call = {fn, arg};
    (void)pool;
    if (elsewhere_too)
        on_thread(call_and_detach, &call);
    else
        call_and_detach(&call);
    return HEARTH_OK;
}

Test(executor_manners, threads_may_be_detached_between_nodes)
{
    struct hearth_executor executor = refusing_executor(4);
    executor.submit = submit_detaching;
    for (unsigned way = 0; way < 2; way++) {
        elsewhere_too = way != 0;
        run_open(&run, layers());
        lend_ramp(run.context, "x");
        for (unsigned i = 0; i < 5; i++) {
            EXPECT_SIZE(0, run_on(&run, &executor).payload_copies);
            expect_layers(&run);
        }
        run_close(&run);
        run_open(&run, relay_plan(0));
        for (unsigned i = 0; i < 5; i++) {
            EXPECT_SIZE(0, run_on(&run, &executor).payload_copies);
            expect_value(run.context, "z", ELEMENTS, RELAY, 1);
        }
        run_close(&run);
    }
}

/* Calls in the last round of a thread's exit, when it gets no arena any more. */
static pthread_key_t at_exit;

struct last_call {
    struct call call;
    unsigned round;
};

static void exit_round(void *argument)
{
    struct last_call *last = argument;
    struct hearth_exec *arena = NULL;
    if (++last->round < PTHREAD_DESTRUCTOR_ITERATIONS) {
        if (hearth_service_exec(run.rig.service, &arena) == HEARTH_OK) /* attached once more */
            cr_assert_not_null(arena);
        pthread_setspecific(at_exit, last);
        return;
    }
    last->call.fn(last->call.arg);
}

static void exit_with(void *argument)
{
    (void)exec_of(run.rig.service);
    pthread_setspecific(at_exit, argument);
}

static enum hearth_status submit_at_exit(void *pool, void (*fn)(void *), void *arg)
{
    struct last_call last = {{fn, arg}, 0};
    (void)pool;
    on_thread(exit_with, &last);
    EXPECT_SIZE(PTHREAD_DESTRUCTOR_ITERATIONS, last.round);
    return HEARTH_OK;
}

Test(executor_manners, calls_of_threads_that_have_almost_exited)
{
    struct hearth_executor executor = refusing_executor(4);
    executor.submit = submit_at_exit;
    pthread_key_create(&at_exit, exit_round);
    run_open(&run, layers());
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 5; i++) {
        EXPECT_SIZE(LAYER_NODES, run_on(&run, &executor).nodes);
        expect_layers(&run);
    }
    run_close(&run);
    pthread_key_delete(at_exit);
}

Test(executor_manners, calls_inside_of_submit_are_never_inside_of_each_other)
{
    static const uint32_t threads[] = {1, 2, 8, 4096, UINT32_MAX};
    for (unsigned i = 0; i < COUNT_OF(threads); i++) {
        struct hearth_executor executor = inline_executor(threads[i]);
        inline_deepest = 0;
        run_open(&run, layers());
        lend_ramp(run.context, "x");
        EXPECT_SIZE(1, run_on(&run, &executor).threads);
        expect_layers(&run);
        EXPECT_SIZE(threads[i] > 1, inline_deepest);
        run_close(&run);
    }
}

/* Calls that one run left come in the middle of the next one, on another thread. */
static struct keeper late;
static bool late_wanted;

static void call_late(void *unused)
{
    (void)unused;
    keeper_call(&late);
}

static enum hearth_status let_them_come(struct hearth_context *context, void *user)
{
    if (late_wanted) {
        late_wanted = false;
        on_thread(call_late, NULL);
    }
    return where(context, user);
}

static void run_after_many(uint32_t threads, bool may_help)
{
    struct hearth_executor executor = keeper_executor(&late, 8);
    late.count = 0;
    answer = HEARTH_OK;
    run_open(&run, PLAN("x", "a b c d", NODE("a", "x", "a", .kernel = let_them_come),
                        NODE("b", "x", "b", .kernel = let_them_come),
                        NODE("c", "x", "c", .kernel = let_them_come),
                        NODE("d", "x", "d", .kernel = let_them_come)));
    lend_ramp(run.context, "x");
    EXPECT_SIZE(1, run_on(&run, &executor).threads);
    cr_assert_gt(late.count, 0);
    late_wanted = true;
    atomic_store(&elsewhere, 0);
    executor.threads = threads;
    struct hearth_run_stats stats = run_on(&run, &executor);
    EXPECT_SIZE(may_help ? 2 : 1, stats.threads);
    EXPECT_SIZE(may_help ? 3 : 0, elsewhere);
    keeper_call(&late);
    run_close(&run);
}

Test(executor_manners, late_calls_help_a_run_with_as_many_threads_only)
{
    caller = pthread_self();
    run_after_many(8, true);
    run_after_many(1, false);
}
