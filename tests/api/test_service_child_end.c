/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas for nested work, when their thread or their service ends.
 * Covered: detach, also from inside an operation; exit and who takes over; leak checks; forked children; close, last
 * unref and returns in any order. Not covered: races (stress/). */
#include "child_support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(service_child_end, .init = NULL, .timeout = 120);

Test(service_child_end, detach_gives_up_all)
{
    open_rig();
    nest_all(NULL);
    struct hearth_buf *out = take(child_of(3), SIZE_AT(3));
    fill(out, 0x33);
    for (size_t i = 0; i < 20; i++) {
        EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
        EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
        EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
        EXPECT_SIZE(SUM_AT - CAPACITY_AT(3), hearth_service_retained_bytes(rig.service));
        nest(0, 2);
        EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
        EXPECT_SIZE(DEPTHS, bank_acquires(&rig.bank));
    }
    cr_assert(filled(out, SIZE_AT(3), 0x33));
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(out), out));
    rig_close(&rig);
}

/* A backing that calls back. */
static enum hearth_status detached, ended_run;
static struct hearth_exec *nested;

static enum hearth_status call_back(void *context, size_t bytes, size_t alignment,
                                    struct hearth_segment *segment)
{
    void *base = aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
    (void)context;
    cr_assert_not_null(base);
    detached = hearth_service_detach(rig.service);
    ended_run = hearth_service_end_run(rig.service);
    nested = NULL;
    if (hearth_service_child_exec(rig.service, 3, &nested) != HEARTH_OK)
        nested = NULL;
    *segment = (struct hearth_segment){.base = base, .length = bytes};
    return HEARTH_OK;
}

static void give_back(void *context, const struct hearth_segment *segment)
{
    (void)context;
    free(segment->base);
}

Test(service_child_end, detach_from_inside_changes_nothing)
{
    static const struct hearth_backing_ops ops = {
        .size = sizeof(struct hearth_backing_ops),
        .name = "calls back",
        .granule = 64,
        .acquire = call_back,
        .release = give_back,
    };
    struct hearth_backing *backing = NULL;
    EXPECT(HEARTH_OK, hearth_backing_create(&ops, NULL, &backing));
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER, .exec_backing = backing));
    for (unsigned depth = 0; depth < 3; depth++) {
        struct hearth_exec *arenas[3] = {child_of(0), child_of(1), child_of(2)};
        struct hearth_buf *buf = take(child_of(depth), 1000 + depth * 10000);
        EXPECT(HEARTH_BUSY, detached);
        EXPECT(HEARTH_BUSY, ended_run);
        cr_assert_eq(nested, child_of(3), "others are attached meanwhile");
        EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
        for (unsigned other = 0; other < 3; other++)
            cr_assert_eq(arenas[other], child_of(other));
        give(child_of(depth), buf);
    }
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    hearth_service_unref(rig.service);
    EXPECT_SIZE(0, hearth_backing_footprint(backing));
    hearth_backing_unref(backing);
    bank_close(&rig.bank);
}

Test(service_child_end, threads_that_come_find_the_depths_of_those_that_went)
{
    open_rig();
    on_thread(nest_all, NULL);
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    for (size_t i = 0; i < 200; i++)
        on_thread(nest_all, NULL);
    nest_all(NULL);
    EXPECT_SIZE(DEPTHS, bank_acquires(&rig.bank));
    EXPECT_SIZE(SUM_AT, hearth_service_footprint(rig.service));
    rig_close(&rig);
}

static void use_depth_0_and_2(void *unused)
{
    (void)unused;
    warm_child(0, 100, 1);
    warm_child(2, 700 * KIB, 3);
}

static void use_depth_0(void *unused)
{
    (void)unused;
    warm_child(0, 100, 1);
}

static void find_it_at_depth_0(void *unused)
{
    (void)unused;
    EXPECT_SIZE((size_t)3 * 768 * KIB, retained_at(0));
    warm_exec(rig.service, 700 * KIB, 3);
}

static void find_it_at_depth_7(void *unused)
{
    (void)unused;
    warm_child(7, 700 * KIB, 3);
}

Test(service_child_end, a_dead_threads_arena_serves_any_depth)
{
    struct worker workers[2];
    open_rig();
    on_thread(use_depth_0_and_2, NULL);
    uint64_t acquires = bank_acquires(&rig.bank);
    worker_start(&workers[0]);
    worker_run(&workers[0], use_depth_0, NULL); /* has the one of depth 0 */
    worker_start(&workers[1]);
    worker_run(&workers[1], find_it_at_depth_0, NULL);
    EXPECT_SIZE(2, hearth_service_thread_count(rig.service));
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    worker_end(&workers[1]);
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    worker_run(&workers[0], find_it_at_depth_7, NULL);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    worker_end(&workers[0]);
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    rig_close(&rig);
}

static struct hearth_buf *left[DEPTHS];

static void leave_buffers(void *unused)
{
    (void)unused;
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        left[depth] = take(child_of(depth), SIZE_AT(depth));
        fill(left[depth], (unsigned char)(0x40 + depth));
    }
}

static void return_left(void *unused)
{
    (void)unused;
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        cr_assert(filled(left[depth], SIZE_AT(depth), (unsigned char)(0x40 + depth)));
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(left[depth]), left[depth]));
    }
}

Test(service_child_end, buffers_outlive_their_thread)
{
    open_rig();
    for (size_t i = 0; i < 6; i++) {
        on_thread(leave_buffers, NULL);
        if (i % 3 == 0)
            on_thread(nest_all, NULL); /* has those arenas meanwhile */
        if (i % 2 == 0)
            on_thread(return_left, NULL);
        else
            return_left(NULL);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    }
    cr_assert_leq(bank_acquires(&rig.bank), (uint64_t)2 * DEPTHS);
    rig_close(&rig);
}

static void count_leak(void *context, const struct hearth_leak *leak)
{
    *(size_t *)context += leak->bytes;
}

Test(service_child_end, a_leak_check_finds_what_is_out)
{
    struct hearth_leak_check *check = NULL;
    size_t bytes = 0, count = 0;
    open_rig();
    EXPECT(HEARTH_OK, hearth_leak_check_begin(rig.service, &check));
    struct hearth_buf *out = take(child_of(2), 12345);
    nest_all(NULL);
    EXPECT(HEARTH_BUSY, hearth_leak_check_end(check, count_leak, &bytes, &count));
    EXPECT_SIZE(1, count);
    EXPECT_SIZE(12345, bytes);
    give(child_of(2), out);
    rig_close(&rig);
}

/* In a forked child: own arenas go on, another thread's serve whoever attaches. */
static struct hearth_exec *own_before[DEPTHS];
static size_t took;

static void take_over_all(void *unused)
{
    (void)unused;
    struct hearth_buf *buf = NULL;
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        struct hearth_exec *arena = NULL;
        took += hearth_service_child_exec(rig.service, depth, &arena) == HEARTH_OK &&
                hearth_exec_alloc(arena, SIZE_AT(depth), &buf) == HEARTH_OK &&
                hearth_exec_free(arena, buf) == HEARTH_OK;
    }
}

static bool forked(void)
{
    bool right = hearth_service_thread_count(rig.service) == 1;
    uint64_t acquires = bank_acquires(&rig.bank);
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        struct hearth_exec *arena = NULL;
        right = right && hearth_service_child_exec(rig.service, depth, &arena) == HEARTH_OK &&
                arena == own_before[depth];
    }
    take_over_all(NULL);
    on_thread(take_over_all, NULL);
    right = right && took == (size_t)2 * DEPTHS && bank_acquires(&rig.bank) == acquires;
    right = right && hearth_service_detach(rig.service) == HEARTH_OK;
    right = right && hearth_service_thread_count(rig.service) == 0;
    hearth_service_unref(rig.service);
    return right && bank_bytes(&rig.bank) == 0;
}

Test(service_child_end, in_a_forked_child)
{
    struct worker worker;
    int status = 0;
    open_rig();
    worker_start(&worker);
    worker_run(&worker, nest_all, NULL);
    nest_all(NULL);
    for (unsigned depth = 0; depth < DEPTHS; depth++)
        own_before[depth] = child_of(depth);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0)
        _exit(forked() ? 0 : 1);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status), "the child was ended by signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    EXPECT_SIZE(2, hearth_service_thread_count(rig.service));
    nest_all(NULL);
    worker_end(&worker);
    rig_close(&rig);
}

/* Close, last unref, end of the thread and returns, in any order. */
enum { CLOSE, UNREF, END_THREAD, RETURN, STEPS };

static void in_order(const unsigned *order)
{
    struct worker worker;
    bool returned_by_worker = order[0] % 2 == 0;
    bool running = true;
    bool open = true;
    open_rig();
    worker_start(&worker);
    worker_run(&worker, nest_all, NULL);
    nest_all(NULL);
    worker_run(&worker, leave_buffers, NULL);
    for (unsigned i = 0; i < STEPS; i++) {
        if (order[i] == CLOSE && open)
            EXPECT(HEARTH_OK, hearth_service_close(rig.service));
        else if (order[i] == UNREF)
            hearth_service_unref(rig.service);
        else if (order[i] == END_THREAD)
            worker_end(&worker);
        else if (order[i] == RETURN && running && returned_by_worker)
            worker_run(&worker, return_left, NULL);
        else if (order[i] == RETURN)
            return_left(NULL);
        open = open && order[i] != UNREF;
        running = running && order[i] != END_THREAD;
    }
    bank_close(&rig.bank);
}

Test(service_child_end, ends_in_any_order)
{
    for (unsigned a = 0; a < STEPS; a++) {
        for (unsigned b = 0; b < STEPS; b++) {
            for (unsigned c = 0; c < STEPS; c++) {
                unsigned order[STEPS] = {a, b, c, 6 - a - b - c};
                if (a != b && b != c && a != c)
                    in_order(order);
            }
        }
    }
}
