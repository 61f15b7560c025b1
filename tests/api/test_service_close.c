/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a service.
 * Covered: calls after the close, references, the last return from anywhere after the last unref, threads that
 * are attached then. Not covered: exit and forks (tests/lifecycle), waiters (test_service_wait.c). */
#include "service_support.h"

static struct rig rig;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
}

TestSuite(service_close, .init = setup, .timeout = 120);

static void warm_both(void *unused)
{
    (void)unused;
    warm_exec(rig.service, 100 * KIB, 10);
    warm_exec(rig.service, 900, 30);
    warm_io(rig.service, 100 * KIB, 10);
    warm_io(rig.service, 900, 30);
}

static void nothing(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    (void)context;
}

static void refused_on_a_new_thread(void *unused)
{
    struct hearth_exec *arena = NULL;
    (void)unused;
    EXPECT(HEARTH_CLOSED, hearth_service_exec(rig.service, &arena));
    cr_assert_null(arena);
}

Test(service_close, after_the_close)
{
    struct hearth_exec *arena = exec_of(rig.service);
    struct hearth_buf *exec = take(arena, 3000), *second = take(arena, 3000),
                      *bare = io_take(rig.io, 4000), *none = NULL, *bufs[2] = {NULL, NULL};
    struct hearth_lease lease = io_lease(rig.io, 6000), refused = HEARTH_LEASE_INIT;
    struct hearth_request request = {.size = 100};
    struct hearth_view view;
    char outside[64];
    warm_exec(rig.service, 10000, 3);
    warm_io(rig.service, 100000, 3);
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    EXPECT(HEARTH_CLOSED, hearth_service_close(rig.service));
    on_thread(refused_on_a_new_thread, NULL);
    EXPECT(HEARTH_CLOSED, hearth_exec_alloc(arena, 10000, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_alloc(rig.io, 100000, &none));
    EXPECT(HEARTH_CLOSED, hearth_io_lease(rig.io, 100000, &refused));
    EXPECT(HEARTH_CLOSED, hearth_io_take(rig.io, exec, &none));
    EXPECT(HEARTH_CLOSED,
           hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_IO, &request, 2, bufs));
    EXPECT(HEARTH_CLOSED,
           hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_EXEC, &request, 2, bufs));
    EXPECT(HEARTH_CLOSED, hearth_service_lease_bulk(rig.service, &request, 1, &refused));
    EXPECT(HEARTH_CLOSED, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, 1, 0));
    EXPECT(HEARTH_CLOSED, hearth_service_prefill(rig.service, HEARTH_DOMAIN_EXEC, &request, 1, 0));
    EXPECT(HEARTH_CLOSED, hearth_service_end_run(rig.service));
    cr_assert_null(bufs[0]);
    cr_assert_null(none);
    cr_assert_null(refused.buf);
    EXPECT(HEARTH_CLOSED, hearth_io_adopt(rig.io, outside, 64, nothing, NULL, &refused));
    EXPECT(HEARTH_OK, hearth_service_tick(rig.service));
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(2 * 3072 + 4096 + 6144, bank_bytes(&rig.bank));
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    EXPECT(HEARTH_OK, hearth_lease_view(lease, 10, 20, &view));
    io_drop(lease);
    io_drop(view.lease);
    io_drop(lease);
    EXPECT_SIZE(2 * 3072 + 4096, bank_bytes(&rig.bank));
    lease = io_export(rig.io, bare);
    io_drop(lease);
    EXPECT_SIZE(2 * 3072, bank_bytes(&rig.bank));
    give(arena, exec);
    EXPECT_SIZE(3072, bank_bytes(&rig.bank));
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, &second, 1, NULL));
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    EXPECT(HEARTH_OK, hearth_service_detach(rig.service));
    rig_close(&rig);
}

Test(service_close, references_keep_it_open)
{
    hearth_service_ref(rig.service);
    hearth_service_ref(rig.service);
    hearth_service_unref(rig.service);
    warm_exec(rig.service, 1000, 1);
    hearth_service_unref(rig.service);
    warm_io(rig.service, 1000, 1);
    rig_close(&rig);
}

/* A reference to the I/O arena outlives the service, which is closed then. */
Test(service_close, a_reference_to_the_io_arena)
{
    struct hearth_buf *none = NULL, *bare = io_take(rig.io, 5000);
    struct hearth_io *io = rig.io;
    hearth_io_ref(io);
    hearth_service_unref(rig.service);
    EXPECT(HEARTH_CLOSED, hearth_io_alloc(io, 100, &none));
    EXPECT_SIZE(1, hearth_io_live_count(io));
    io_drop(io_export(io, bare));
    EXPECT_SIZE(0, hearth_io_live_count(io));
    hearth_io_unref(io);
    bank_close(&rig.bank);
}

static struct hearth_buf *exec_bufs[20], *io_bufs[20];
static struct hearth_lease io_leases[20];
static struct hearth_handle handle;
static struct hearth_io *io_of_bufs;

static void take_all(void *unused)
{
    (void)unused;
    warm_both(NULL);
    for (size_t i = 0; i < 20; i++) {
        exec_bufs[i] = take(exec_of(rig.service), i * 3000);
        io_bufs[i] = io_take(rig.io, i * 3000);
        io_leases[i] = io_lease(rig.io, i * 10000);
    }
    struct hearth_buf *buf = take(exec_of(rig.service), 4321);
    EXPECT(HEARTH_OK, hearth_handle_from_buf(buf, &handle));
    io_of_bufs = rig.io;
}

static void return_all(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 20; i++) {
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(exec_bufs[i]), exec_bufs[i]));
        EXPECT(HEARTH_STALE, hearth_lease_release((struct hearth_lease){
                                 io_leases[i].buf, io_leases[i].generation - 1}));
        io_drop(io_leases[i]);
        if (i % 2)
            EXPECT(HEARTH_OK, hearth_io_free(io_of_bufs, io_bufs[i]));
        else
            io_drop(io_export(io_of_bufs, io_bufs[i]));
    }
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
}

static void unref(void *unused)
{
    (void)unused;
    hearth_service_unref(rig.service);
}

/* The last unref and the last returns, on the thread that took them or on one that was never attached. */
static void everything_comes_home(bool foreign_unref, bool foreign_return)
{
    take_all(NULL);
    if (foreign_unref)
        on_thread(unref, NULL);
    else
        unref(NULL);
    size_t live = 0;
    for (size_t i = 0; i < 20; i++)
        live += hearth_buf_capacity(exec_bufs[i]) + hearth_buf_capacity(io_bufs[i]) +
                hearth_buf_capacity(io_leases[i].buf);
    live += hearth_handle_capacity(&handle);
    EXPECT_SIZE(live, bank_bytes(&rig.bank)); /* what was retained is home already */
    if (foreign_return)
        on_thread(return_all, NULL);
    else
        return_all(NULL);
    bank_close(&rig.bank);
}

Test(service_close, after_the_last_unref)
{
    everything_comes_home(false, false);
}

Test(service_close, after_the_last_unref_from_a_thread_never_attached)
{
    everything_comes_home(false, true);
}

Test(service_close, unref_by_a_thread_never_attached)
{
    everything_comes_home(true, false);
}

Test(service_close, unref_and_returns_by_threads_never_attached)
{
    everything_comes_home(true, true);
}

/* The backing ends with the service, though the thread that used it goes on: its context is the user's. */
Test(service_close, the_backing_ends)
{
    warm_both(NULL);
    hearth_service_unref(rig.service);
    bank_close(&rig.bank);
    cr_assert_eq(atomic_load(&banks_ended), 1u);
}

Test(service_close, the_backing_ends_with_the_last_lease)
{
    on_thread(warm_both, NULL);
    struct hearth_lease lease = io_lease(rig.io, 5000);
    hearth_service_unref(rig.service);
    cr_assert_eq(atomic_load(&banks_ended), 0u);
    io_drop(lease);
    bank_close(&rig.bank);
    cr_assert_eq(atomic_load(&banks_ended), 1u);
}

/* Threads that are attached and idle when the service ends, and go on living. */
Test(service_close, idle_threads_do_not_keep_storage)
{
    struct worker workers[4];
    for (size_t i = 0; i < COUNT_OF(workers); i++) {
        worker_start(&workers[i]);
        worker_run(&workers[i], warm_both, NULL);
    }
    io_pause(5);
    hearth_service_unref(rig.service);
    bank_close(&rig.bank);
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        worker_run(&workers[i], warm_both, NULL);
    EXPECT_SIZE(COUNT_OF(workers), hearth_service_thread_count(rig.service));
    cr_assert_geq(hearth_service_retained_bytes(rig.service), COUNT_OF(workers) * 10 * 112 * KIB);
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        worker_end(&workers[i]);
    rig_close(&rig);
}
