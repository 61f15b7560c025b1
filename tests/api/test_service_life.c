/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a service and of its threads.
 * Covered: several services, who gets which arena, detach and thread exit hand over warm storage, calls that
 * a service's arenas refuse, flat metadata. Not covered: the end (test_service_close.c), forks, exit, plugins
 * (tests/lifecycle), races (stress/). */
#include "service_support.h"

#include <stdio.h>

static struct rig rig;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
}

TestSuite(service_life, .init = setup, .timeout = 120);

Test(service_life, an_arena_for_each_thread_and_service)
{
    struct rig other;
    rig_open(&other, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    struct hearth_exec *arena = exec_of(rig.service);
    for (size_t i = 0; i < 100; i++)
        cr_assert_eq(exec_of(rig.service), arena);
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    EXPECT_SIZE(0, hearth_service_thread_count(other.service));
    cr_assert_neq(exec_of(other.service), arena);
    cr_assert_neq(hearth_service_io(other.service), rig.io);
    cr_assert_eq(hearth_service_io(rig.service), rig.io);
    struct hearth_buf *mine = take(arena, 1000), *foreign = take(exec_of(other.service), 1000);
    cr_assert_eq(hearth_buf_owner(mine), hearth_exec_allocator(arena));
    EXPECT(HEARTH_FOREIGN, hearth_exec_free(arena, foreign));
    EXPECT(HEARTH_FOREIGN, hearth_service_free_bulk(rig.service, &foreign, 1, NULL));
    EXPECT_SIZE(1024, hearth_service_live_capacity(rig.service));
    EXPECT_SIZE(1000, hearth_service_live_bytes(other.service));
    give(arena, mine);
    give(exec_of(other.service), foreign);
    rig_close(&other);
    rig_close(&rig);
}

static struct hearth_exec *seen[8];

static void see(void *index)
{
    size_t i = (size_t)(uintptr_t)index;
    seen[i] = exec_of(rig.service);
    give(seen[i], take(seen[i], 100 + i));
    cr_assert_eq(exec_of(rig.service), seen[i]);
}

static void misuse_of_others(void *index)
{
    struct hearth_buf *none = NULL;
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        if (i != (size_t)(uintptr_t)index)
            EXPECT(HEARTH_NOT_OWNER, hearth_exec_alloc(seen[i], 100, &none));
    }
    cr_assert_eq(exec_of(rig.service), seen[(uintptr_t)index]);
}

Test(service_life, threads_never_share_an_arena)
{
    struct worker workers[COUNT_OF(seen)];
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        worker_start(&workers[i]);
        worker_run(&workers[i], see, (void *)i);
        EXPECT_SIZE(i + 1, hearth_service_thread_count(rig.service));
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(seen[i], seen[j]);
    }
    for (size_t i = 0; i < COUNT_OF(seen); i++)
        worker_run(&workers[i], misuse_of_others, (void *)i);
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        worker_end(&workers[i]);
        EXPECT_SIZE(COUNT_OF(seen) - i - 1, hearth_service_thread_count(rig.service));
    }
    rig_close(&rig);
}

Test(service_life, detach_and_attach_again_finds_the_warm_storage)
{
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service)); /* never attached */
    warm_exec(rig.service, 300 * KIB, 5);
    size_t retained = hearth_service_retained_bytes(rig.service);
    for (size_t i = 0; i < 20; i++) {
        EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
        EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
        EXPECT_SIZE(retained, hearth_service_retained_bytes(rig.service));
        EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
        warm_exec(rig.service, 300 * KIB, 5);
        EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
        EXPECT_SIZE(5, bank_acquires(&rig.bank));
    }
    rig_close(&rig);
}

Test(service_life, outstanding_buffers_survive_the_detach)
{
    struct hearth_exec *arena = exec_of(rig.service);
    struct hearth_buf *first = take(arena, 5000), *second = take(arena, 70000);
    fill(first, 0x12);
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    EXPECT_SIZE(75000, hearth_service_live_bytes(rig.service));
    cr_assert(filled(first, 5000, 0x12));
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(first), first));
    EXPECT_SIZE(70000, hearth_service_live_bytes(rig.service));
    EXPECT(HEARTH_STALE, hearth_free(hearth_exec_allocator(arena), first));
    (void)exec_of(rig.service); /* somebody's, perhaps the same */
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(second), second));
    EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
    rig_close(&rig);
}

static void warm_both(void *unused)
{
    (void)unused;
    warm_exec(rig.service, 100 * KIB, 10);
    warm_exec(rig.service, 900, 30);
    warm_io(rig.service, 100 * KIB, 10);
    warm_io(rig.service, 900, 30);
}

Test(service_life, an_ended_threads_storage_serves_the_next)
{
    on_thread(warm_both, NULL);
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    uint64_t acquires = bank_acquires(&rig.bank);
    size_t footprint = hearth_service_footprint(rig.service);
    for (size_t i = 0; i < 200; i++)
        on_thread(warm_both, NULL);
    warm_both(NULL);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    EXPECT_SIZE(footprint, hearth_service_footprint(rig.service));
    EXPECT_SIZE(footprint, hearth_service_retained_bytes(rig.service));
    rig_close(&rig);
}

/* Many at once, then again many: storage for as many as ran together, not for all that ever ran. */
Test(service_life, generations_of_threads_do_not_grow)
{
    struct worker workers[8];
    size_t footprint = 0;
    for (size_t round = 0; round < 20; round++) {
        for (size_t i = 0; i < COUNT_OF(workers); i++) {
            worker_start(&workers[i]);
            worker_run(&workers[i], warm_both, NULL);
        }
        EXPECT_SIZE(COUNT_OF(workers), hearth_service_thread_count(rig.service));
        for (size_t i = 0; i < COUNT_OF(workers); i++)
            worker_end(&workers[i]);
        if (round == 0)
            footprint = hearth_service_footprint(rig.service);
        /* Small buffers of the I/O arena may rest in caches that are not adopted. */
        cr_assert_leq(hearth_service_footprint(rig.service),
                      footprint + COUNT_OF(workers) * (size_t)30 * KIB);
    }
    rig_close(&rig);
}

static struct hearth_buf *left[10];

static void leave_buffers(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(left); i++)
        left[i] = take(exec_of(rig.service), 50 * KIB);
}

static void return_left(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < COUNT_OF(left); i++)
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(left[i]), left[i]));
    EXPECT(HEARTH_STALE, hearth_service_free_bulk(rig.service, left, COUNT_OF(left), NULL));
}

Test(service_life, buffers_outlive_their_thread)
{
    for (size_t i = 0; i < 5; i++) {
        on_thread(leave_buffers, NULL);
        EXPECT_SIZE(COUNT_OF(left) * 50 * KIB, hearth_service_live_bytes(rig.service));
        if (i % 2)
            on_thread(return_left, NULL);
        else
            return_left(NULL);
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        EXPECT_SIZE(COUNT_OF(left), bank_acquires(&rig.bank));
    }
    rig_close(&rig);
}

Test(service_life, what_a_services_arenas_refuse)
{
    struct hearth_exec *arena = exec_of(rig.service);
    size_t outstanding = 99;
    warm_exec(rig.service, 5000, 2);
    EXPECT(HEARTH_INVALID, hearth_exec_destroy(arena));
    EXPECT(HEARTH_INVALID, hearth_exec_detach(arena, &outstanding));
    EXPECT(HEARTH_INVALID, hearth_exec_release_owner(arena));
    EXPECT(HEARTH_INVALID, hearth_io_close(rig.io));
    EXPECT(HEARTH_INVALID, hearth_io_destroy(rig.io));
    EXPECT_SIZE(99, outstanding);
    cr_assert_eq(exec_of(rig.service), arena);
    warm_exec(rig.service, 5000, 2);
    warm_io(rig.service, 5000, 2);
    EXPECT_SIZE(4, bank_acquires(&rig.bank));
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    EXPECT(HEARTH_INVALID, hearth_io_close(rig.io));
    EXPECT(HEARTH_INVALID, hearth_io_destroy(rig.io));
    EXPECT(HEARTH_INVALID, hearth_exec_destroy(arena));
    rig_close(&rig);
}

Test(service_life, the_owner_may_trim_and_cap_its_arena)
{
    struct hearth_exec *arena = exec_of(rig.service);
    size_t released = 0;
    warm_exec(rig.service, 64 * KIB, 4);
    warm_io(rig.service, 64 * KIB, 4);
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, &released));
    EXPECT_SIZE(4 * 64 * KIB, released);
    EXPECT(HEARTH_OK, hearth_io_trim(rig.io, &released));
    EXPECT_SIZE(4 * 64 * KIB, released);
    EXPECT_SIZE(0, hearth_service_footprint(rig.service));
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 128 * KIB));
    warm_exec(rig.service, 64 * KIB, 4);
    EXPECT_SIZE(128 * KIB, hearth_service_retained_bytes(rig.service));
    EXPECT(HEARTH_OK, hearth_exec_reset_peak(arena));
    EXPECT(HEARTH_OK, hearth_io_reset_peak(rig.io));
    rig_close(&rig);
}

static void kilobytes_mapped(size_t *mapped)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    cr_assert_not_null(status);
    while (fgets(line, sizeof line, status)) {
        if (sscanf(line, "VmSize: %zu", mapped) == 1)
            break;
    }
    fclose(status);
}

static struct worker attached;

static void use_service(void *service)
{
    warm_exec(service, 2000, 5);
    warm_io(service, 2000, 5);
}

/* A service's memory is used again: the process's address space is what it was. */
Test(service_life, a_thousand_services_one_after_the_other)
{
    size_t before = 0, after = 0;
    rig_close(&rig);
    worker_start(&attached);
    for (size_t i = 0; i < 1000; i++) {
        struct hearth_service_options options = SERVICE_OPTIONS(.flags = HEARTH_SERVICE_NO_THREAD);
        struct hearth_service *service = NULL;
        EXPECT(HEARTH_OK, hearth_service_create(&options, &service));
        use_service(service);
        if (i % 3 == 0)
            worker_run(&attached, use_service, service);
        if (i % 50 == 0)
            on_thread(use_service, service);
        hearth_service_unref(service);
        if (i == 200)
            kilobytes_mapped(&before);
    }
    kilobytes_mapped(&after);
    worker_end(&attached);
    cr_assert_leq(after, before + 1024, "%zu kB were mapped after 200, %zu after 1000", before,
                  after);
}

/* Many services at once, of which each thread has an arena. */
Test(service_life, many_services_at_once)
{
    enum { MANY = 40 };
    struct hearth_service *services[MANY] = {NULL};
    worker_start(&attached);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < MANY; i++) {
            EXPECT(HEARTH_OK, hearth_service_create(NULL, &services[i]));
            use_service(services[i]);
            worker_run(&attached, use_service, services[i]);
        }
        for (size_t i = 0; i < MANY; i++) {
            EXPECT_SIZE(2, hearth_service_thread_count(services[i]));
            for (size_t j = 0; j < i; j++)
                cr_assert_neq(exec_of(services[i]), exec_of(services[j]));
        }
        for (size_t i = 0; i < MANY; i++)
            hearth_service_unref(services[(i * 7) % MANY]);
    }
    worker_end(&attached);
    rig_close(&rig);
}
