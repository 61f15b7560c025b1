/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas for nested work: hearth_service_child_exec().
 * Covered: which arena, whose, errors; figures apart, no storage obtained in the steady state; trims, ageing by runs
 * and ticks, caps, ceiling, floors, live limit. Not covered: their ends (test_service_child_end.c), signal handlers,
 * races (stress/). */
#include "child_support.h"

TestSuite(service_child, .init = NULL, .timeout = 120);

Test(service_child, an_arena_for_each_depth)
{
    struct hearth_exec *arenas[HEARTH_CHILD_DEPTH_MAX + 1];
    open_rig();
    for (unsigned depth = HEARTH_CHILD_DEPTH_MAX + 1; depth-- > 0;) {
        arenas[depth] = child_of(depth);
        EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
        for (unsigned other = HEARTH_CHILD_DEPTH_MAX; other > depth; other--) {
            cr_assert_neq(arenas[depth], arenas[other]);
            cr_assert_eq(arenas[other], child_of(other));
        }
    }
    cr_assert_eq(arenas[0], exec_of(rig.service));
    EXPECT_SIZE(0, misuse.count);
    rig_close(&rig);
}

Test(service_child, a_thread_that_works_nested_first_is_attached)
{
    open_rig();
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    struct hearth_exec *deep = child_of(5);
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    cr_assert_neq(exec_of(rig.service), deep);
    cr_assert_eq(child_of(5), deep);
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    rig_close(&rig);
}

static struct hearth_exec *seen[8][DEPTHS];

static void see(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    struct hearth_buf *none = NULL;
    for (unsigned depth = DEPTHS; depth-- > 0;) {
        seen[i][depth] = child_of(depth);
        for (size_t j = 0; j < i; j++) {
            cr_assert_neq(seen[i][depth], seen[j][depth]);
            EXPECT(HEARTH_NOT_OWNER, hearth_exec_alloc(seen[j][depth], 100, &none));
        }
    }
}

Test(service_child, threads_and_services_never_share_one)
{
    struct worker workers[COUNT_OF(seen)];
    struct rig other;
    open_rig();
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        worker_start(&workers[i]);
        worker_run(&workers[i], see, (void *)i);
        EXPECT_SIZE(i + 1, hearth_service_thread_count(rig.service));
    }
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        worker_end(&workers[i]);
        EXPECT_SIZE(COUNT_OF(seen) - i - 1, hearth_service_thread_count(rig.service));
    }
    rig_open(&other, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    struct hearth_exec *here = child_of(2), *there = NULL;
    EXPECT(HEARTH_OK, hearth_service_child_exec(other.service, 2, &there));
    cr_assert_neq(here, there);
    cr_assert_eq(child_of(2), here);
    struct hearth_buf *foreign = take(there, 100);
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(here, foreign));
    EXPECT(HEARTH_FOREIGN, hearth_service_free_bulk(rig.service, &foreign, 1, NULL));
    EXPECT(HEARTH_OK, hearth_service_free_bulk(other.service, &foreign, 1, NULL));
    rig_close(&other);
    rig_close(&rig);
}

Test(service_child, what_is_refused)
{
    struct hearth_exec *arena = NULL;
    struct hearth_buf *none = NULL;
    open_rig();
    EXPECT(HEARTH_INVALID, hearth_service_child_exec(NULL, 1, &arena));
    EXPECT(HEARTH_INVALID, hearth_service_child_exec(rig.service, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_child_exec(NULL, 0, &arena));
    EXPECT(HEARTH_INVALID, hearth_service_child_exec(rig.service, 0, NULL));
    EXPECT(HEARTH_INVALID,
           hearth_service_child_exec(rig.service, HEARTH_CHILD_DEPTH_MAX + 1, &arena));
    EXPECT(HEARTH_INVALID, hearth_service_child_exec(rig.service, ~0u, &arena));
    cr_assert_null(arena);
    EXPECT_SIZE(6, misuse.count);
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    arena = child_of(1);
    EXPECT(HEARTH_INVALID, hearth_exec_destroy(arena));
    EXPECT(HEARTH_INVALID, hearth_exec_detach(arena, NULL));
    EXPECT(HEARTH_INVALID, hearth_exec_release_owner(arena));
    cr_assert_eq(child_of(1), arena);
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    struct hearth_exec *after = NULL;
    EXPECT(HEARTH_CLOSED, hearth_service_child_exec(rig.service, 1, &after));
    EXPECT(HEARTH_CLOSED, hearth_service_child_exec(rig.service, 2, &after));
    EXPECT(HEARTH_CLOSED, hearth_service_child_exec(rig.service, 0, &after));
    cr_assert_null(after);
    EXPECT(HEARTH_CLOSED, hearth_exec_alloc(arena, 100, &none));
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    rig_close(&rig);
}

Test(service_child, the_steady_state_obtains_nothing)
{
    open_rig();
    nest_all(NULL);
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        EXPECT_SIZE(CAPACITY_AT(depth), retained_at(depth));
        EXPECT_SIZE(SIZE_AT(depth), hearth_exec_peak_bytes(child_of(depth)));
    }
    EXPECT_SIZE(SUM_AT, hearth_service_retained_bytes(rig.service));
    EXPECT_SIZE(DEPTHS, bank_acquires(&rig.bank));
    for (size_t i = 0; i < 1000; i++) {
        nest(0, i % DEPTHS);
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    }
    nest_all(NULL);
    EXPECT_SIZE(DEPTHS, bank_acquires(&rig.bank));
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    rig_close(&rig);
}

Test(service_child, a_trim_reaches_the_callers_own)
{
    open_rig();
    nest_all(NULL);
    struct hearth_buf *live = take(child_of(2), SIZE_AT(2));
    fill(live, 0x2a);
    struct hearth_trim_report report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
    EXPECT_SIZE(SUM_AT - CAPACITY_AT(2), report.released_exec_bytes);
    EXPECT_SIZE(CAPACITY_AT(2), report.kept_live);
    EXPECT_SIZE(0, report.kept_busy + report.kept_unreached);
    EXPECT_SIZE(CAPACITY_AT(2), bank_bytes(&rig.bank));
    cr_assert(filled(live, SIZE_AT(2), 0x2a));
    give(child_of(2), live);
    nest_all(NULL);
    report = service_trim(rig.service, CAPACITY_AT(3), 0);
    cr_assert_geq(report.released_bytes, CAPACITY_AT(3));
    rig_close(&rig);
}

static void trim_elsewhere(void *unused)
{
    (void)unused;
    (void)service_trim_idle(rig.service);
}

Test(service_child, a_trim_reaches_idle_and_ended_threads)
{
    struct worker workers[3];
    open_rig();
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        worker_start(&workers[i]);
        worker_run(&workers[i], nest_all, NULL);
    }
    nest_all(NULL);
    on_thread(nest_all, NULL);
    EXPECT_SIZE(5 * SUM_AT, hearth_service_retained_bytes(rig.service));
    on_thread(trim_elsewhere, NULL);
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        worker_run(&workers[i], nest_all, NULL); /* usable as before */
        worker_end(&workers[i]);
    }
    rig_close(&rig);
}

static void take_slowly(void *unused)
{
    (void)unused;
    give(child_of(1), take(child_of(1), 5 * MIB));
}

/* What is inside an operation stays, and the thread's other arenas are reached all the same. */
Test(service_child, one_inside_an_operation_does_not_keep_the_others)
{
    struct worker worker;
    open_rig();
    worker_start(&worker);
    worker_run(&worker, nest_all, NULL);
    bank_shut(&rig.bank);
    worker_begin(&worker, take_slowly, NULL);
    bank_await(&rig.bank, 1);
    struct hearth_trim_report report = {0};
    for (size_t i = 0; i < 100 && hearth_service_retained_bytes(rig.service) != CAPACITY_AT(1);
         i++) {
        report = service_trim(rig.service, HEARTH_UNBOUNDED, 0);
        io_pause(2);
    }
    EXPECT_SIZE(CAPACITY_AT(1), hearth_service_retained_bytes(rig.service));
    EXPECT_SIZE(CAPACITY_AT(1), report.kept_busy + report.kept_unreached);
    bank_unshut(&rig.bank);
    worker_end(&worker);
    rig_close(&rig);
}

/* The clock is the thread's, whatever depth its runs used. */
Test(service_child, ages_by_the_threads_runs)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_runs = 8, .age_ms = HEARTH_AGE_NEVER,
                                   .flags = HEARTH_SERVICE_NO_THREAD));
    nest_all(NULL);
    for (size_t i = 0; i < 6; i++) {
        nest(0, 1);
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    }
    EXPECT_SIZE(SUM_AT, hearth_service_retained_bytes(rig.service));
    for (size_t i = 0; i < 60; i++) {
        nest(0, 1);
        EXPECT(HEARTH_OK, hearth_service_end_run(rig.service));
    }
    for (unsigned depth = 0; depth < DEPTHS; depth++)
        EXPECT_SIZE(depth < 2 ? CAPACITY_AT(depth) : 0, retained_at(depth));
    EXPECT_SIZE(DEPTHS, bank_acquires(&rig.bank));
    rig_close(&rig);
}

static bool nothing_retained(void *unused)
{
    (void)unused;
    EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    return bank_bytes(&rig.bank) == 0;
}

Test(service_child, ages_by_ticks)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = 30, .flags = HEARTH_SERVICE_NO_THREAD));
    worker_start(&worker);
    worker_run(&worker, nest_all, NULL);
    on_thread(nest_all, NULL);
    nest_all(NULL);
    cr_assert(wait_until(nothing_retained, NULL, 10000));
    worker_end(&worker);
    rig_close(&rig);
}

Test(service_child, a_cap_bounds_each)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_cap = MIB, .age_ms = HEARTH_AGE_NEVER));
    for (unsigned depth = 0; depth < DEPTHS; depth++) {
        EXPECT_SIZE(MIB, hearth_exec_retention_cap(child_of(depth)));
        warm_child(depth, 256 * KIB, 8);
        EXPECT_SIZE(MIB, retained_at(depth));
    }
    EXPECT_SIZE(DEPTHS * MIB, hearth_service_retained_bytes(rig.service));
    EXPECT(HEARTH_OK, hearth_service_set_retention_cap(rig.service, HEARTH_DOMAIN_EXEC, 512 * KIB));
    for (unsigned depth = 0; depth < DEPTHS; depth++)
        EXPECT_SIZE(512 * KIB, retained_at(depth));
    EXPECT_SIZE(512 * KIB, hearth_exec_retention_cap(child_of(DEPTHS)));
    rig_close(&rig);
}

enum { GRANT = 64 * 1024 };

static void check_ceiling(size_t children)
{
    cr_assert_leq(hearth_service_retained_bytes(rig.service), hearth_service_ceiling(rig.service));
    cr_assert_leq(hearth_service_stranded_bytes(rig.service), GRANT + children * GRANT / 2);
    rig_identity(&rig);
}

Test(service_child, all_share_the_ceiling)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = GRANT));
    uint64_t dice = 7;
    for (size_t round = 0; round < 20; round++) {
        struct hearth_buf *bufs[DEPTHS][32];
        for (size_t i = 0; i < 32; i++) {
            for (unsigned depth = 0; depth < DEPTHS; depth++) {
                dice = dice * 6364136223846793005u + 1442695040888963407u;
                bufs[depth][i] = take(child_of(depth), (dice >> 33) % (128 * KIB));
            }
        }
        for (size_t i = 0; i < 32; i++) {
            for (unsigned depth = 0; depth < DEPTHS; depth++) {
                give(child_of(depth), bufs[depth][i]);
                check_ceiling(DEPTHS - 1);
            }
        }
    }
    EXPECT(HEARTH_OK, hearth_service_set_ceiling(rig.service, MIB));
    check_ceiling(DEPTHS - 1);
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    EXPECT_SIZE(0, hearth_service_stranded_bytes(rig.service));
    rig_close(&rig);
}

/* Whichever works: the thread's other arenas, which do not, give way to it. */
Test(service_child, an_idle_depth_makes_room_for_another)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = GRANT));
    for (unsigned depth = 0; depth < 3; depth++) {
        for (size_t i = 0; i < 50; i++) {
            warm_child(depth, MIB, 4);
            check_ceiling(depth);
            io_pause(3);
        }
        uint64_t acquires = bank_acquires(&rig.bank);
        warm_child(depth, MIB, 3);
        EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    }
    rig_close(&rig);
}

/* Outer work that goes on keeps most of what it uses when an inner spike reaches the ceiling. */
Test(service_child, what_is_used_at_both_depths_stays)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = GRANT));
    for (size_t i = 0; i < 200; i++) {
        warm_child(0, MIB, 1);
        warm_child(1, MIB, 2);
    }
    uint64_t acquires = bank_acquires(&rig.bank);
    for (size_t i = 0; i < 200; i++) {
        warm_child(0, MIB, 1);
        warm_child(1, MIB, 2);
        if (i % 10 == 0)
            io_pause(2);
    }
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    rig_close(&rig);
}

Test(service_child, the_floor_is_all_depths_together)
{
    rig_open(&rig, SERVICE_OPTIONS(.ceiling = 4 * MIB, .grant = GRANT, .exec_floor = 2 * MIB));
    warm_child(0, 512 * KIB, 2);
    warm_child(1, 512 * KIB, 3);
    warm_child(3, 512 * KIB, 3);
    io_pause(3);
    for (size_t i = 0; i < 20; i++) {
        warm_io(rig.service, (i % 4 + 1) * 512 * KIB, 3);
        check_ceiling(2);
        cr_assert_geq(retained_at(0) + retained_at(1) + retained_at(3), 2 * MIB);
        io_pause(2);
    }
    cr_assert_gt(hearth_io_retained_bytes(rig.io), (size_t)0);
    rig_close(&rig);
}

/* A request that would be refused finds what the thread's other arenas retain. */
Test(service_child, before_a_refusal_the_others_give_back)
{
    struct hearth_buf *none = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 8 * MIB, .age_ms = HEARTH_AGE_NEVER));
    rig.bank.budget = 4 * MIB;
    warm_child(0, MIB, 4);
    struct hearth_buf *buf = take(child_of(1), 3 * MIB);
    EXPECT_SIZE(0, retained_at(0));
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(child_of(2), 6 * MIB, &none));
    EXPECT_SIZE(3 * MIB, hearth_service_live_capacity(rig.service));
    give(child_of(1), buf);
    rig_close(&rig);
}
