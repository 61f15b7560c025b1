/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds on what is live: live_limit, reserve, refusals, and what is tried before a request fails.
 * Covered: exactly reached and never passed, over both domains and many threads, by reuse, resize and take;
 * the reserve; the policy to fail; the record of a refusal; reclaiming from everybody. Not covered: waiting
 * (test_service_wait.c). */
#include "service_support.h"

static struct rig rig;

TestSuite(service_live, .init = NULL, .timeout = 120);

static void refused(void)
{
    struct hearth_buf *none = NULL;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    size_t capacity = hearth_service_live_capacity(rig.service);
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), 1, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, 1, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(rig.io, 1, &lease));
    cr_assert_null(none);
    cr_assert_null(lease.buf);
    EXPECT_SIZE(capacity, hearth_service_live_capacity(rig.service));
}

Test(service_live, exactly_reached_over_both_domains)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    struct hearth_buf *exec[4];
    struct hearth_lease leases[4];
    for (size_t round = 0; round < 5; round++) {
        for (size_t i = 0; i < 4; i++) {
            exec[i] = take(exec_of(rig.service), 128 * KIB);
            leases[i] = io_lease(rig.io, 128 * KIB);
        }
        EXPECT_SIZE(MIB, hearth_service_live_capacity(rig.service));
        refused();
        give(exec_of(rig.service), exec[0]);
        leases[0] = (io_drop(leases[0]), io_lease(rig.io, 256 * KIB));
        refused();
        for (size_t i = 1; i < 4; i++)
            give(exec_of(rig.service), exec[i]);
        for (size_t i = 0; i < 4; i++)
            io_drop(leases[i]);
        EXPECT_SIZE(0, hearth_service_live_capacity(rig.service));
    }
    rig_close(&rig);
}

static struct hearth_buf *of_worker;

static void take_half(void *unused)
{
    (void)unused;
    of_worker = take(exec_of(rig.service), 512 * KIB);
}

static void give_half(void *unused)
{
    (void)unused;
    give(exec_of(rig.service), of_worker);
}

/* What one thread does not use is there for the others: to the byte. */
Test(service_live, no_part_is_lost_to_idle_threads)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    worker_start(&worker);
    for (size_t i = 0; i < 5; i++) {
        worker_run(&worker, take_half, NULL);
        struct hearth_buf *mine = take(exec_of(rig.service), 512 * KIB);
        refused();
        give(exec_of(rig.service), mine);
        worker_run(&worker, give_half, NULL);
        struct hearth_buf *all = take(exec_of(rig.service), MIB);
        refused();
        give(exec_of(rig.service), all);
        struct hearth_lease lease = io_lease(rig.io, MIB);
        refused();
        io_drop(lease);
    }
    worker_run(&worker, take_half, NULL); /* returned by another thread: pending is not live */
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(of_worker), of_worker));
    io_drop(io_lease(rig.io, MIB));
    worker_end(&worker);
    rig_close(&rig);
}

/* A retained buffer counts with its capacity, whatever was asked. */
Test(service_live, reuse_of_larger_buffers_counts_in_full)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 300 * KIB));
    for (size_t domain = 0; domain < 2; domain++) {
        struct hearth_buf *bufs[8] = {NULL};
        warm_exec(rig.service, 128 * KIB, 2);
        warm_io(rig.service, 128 * KIB, 2);
        size_t count = 0, capacity = 0;
        for (; count < COUNT_OF(bufs); count++) {
            enum hearth_status status =
                domain ? hearth_io_alloc(rig.io, 40 * KIB, &bufs[count])
                       : hearth_exec_alloc(exec_of(rig.service), 40 * KIB, &bufs[count]);
            if (status != HEARTH_OK) {
                EXPECT(HEARTH_NO_MEMORY, status);
                break;
            }
            capacity += hearth_buf_capacity(bufs[count]);
            cr_assert_leq(capacity, 300 * KIB);
            EXPECT_SIZE(capacity, hearth_service_live_capacity(rig.service));
        }
        cr_assert_geq(count, (size_t)2);
        for (size_t i = 0; i < count; i++)
            EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(bufs[i]), bufs[i]));
    }
    rig_close(&rig);
}

Test(service_live, resize_and_take_count)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    struct hearth_exec *arena = exec_of(rig.service);
    struct hearth_buf *exec = take(arena, 256 * KIB), *io = io_take(rig.io, 256 * KIB),
                      *moved = NULL;
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize(exec, MIB));
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize_keep(io, 896 * KIB));
    EXPECT_SIZE(256 * KIB, hearth_buf_size(exec));
    EXPECT_SIZE(256 * KIB, hearth_buf_size(io));
    EXPECT_SIZE(512 * KIB, hearth_service_live_capacity(rig.service));
    EXPECT(HEARTH_OK, hearth_buf_resize(exec, 100)); /* keeps its capacity */
    EXPECT_SIZE(512 * KIB, hearth_service_live_capacity(rig.service));
    EXPECT(HEARTH_OK, hearth_buf_resize(io, 320 * KIB)); /* old and new are within the limit */
    EXPECT_SIZE(576 * KIB, hearth_service_live_capacity(rig.service));
    struct hearth_lease rest = io_lease(rig.io, 448 * KIB);
    refused();
    EXPECT(HEARTH_OK, hearth_io_take(rig.io, exec, &moved)); /* no more than before */
    EXPECT_SIZE(MIB, hearth_service_live_capacity(rig.service));
    refused();
    io_drop(rest);
    io_give(rig.io, moved);
    EXPECT_SIZE(320 * KIB, hearth_service_live_capacity(rig.service));
    io_give(rig.io, io);
    io_drop(io_lease(rig.io, MIB));
    rig_close(&rig);
}

static void nothing(void *data, size_t size, void *context)
{
    (void)data;
    (void)size;
    (void)context;
}

Test(service_live, adopted_storage_is_free_of_it)
{
    static char outside[4096];
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 64));
    struct hearth_buf *all = take(exec_of(rig.service), 64);
    EXPECT(HEARTH_OK, hearth_io_adopt(rig.io, outside, sizeof outside, nothing, NULL, &lease));
    EXPECT_SIZE(64, hearth_service_live_capacity(rig.service));
    EXPECT_SIZE(64 + sizeof outside, hearth_service_live_bytes(rig.service));
    io_drop(lease);
    give(exec_of(rig.service), all);
    rig_close(&rig);
}

enum { LIMIT = 4 * 1024 * 1024, CROWD = 8 };
static atomic_size_t held, peak, served;

static void claim(size_t bytes)
{
    size_t now = atomic_fetch_add(&held, bytes) + bytes;
    size_t seen = atomic_load(&peak);
    while (now > seen && !atomic_compare_exchange_weak(&peak, &seen, now))
        ;
}

/* Counts after it got a buffer and before it returns it, so what it counts is never more than what is live. */
static void crowd(void *seed)
{
    uint64_t dice = (uint64_t)(uintptr_t)seed * 77 + 1;
    struct hearth_buf *bufs[16] = {NULL};
    for (size_t i = 0; i < 20000; i++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        struct hearth_buf **at = &bufs[dice >> 60];
        if (*at) {
            atomic_fetch_sub(&held, hearth_buf_capacity(*at));
            EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(*at), *at));
            *at = NULL;
            continue;
        }
        size_t size = (dice >> 33) % (200 * KIB);
        enum hearth_status status = dice & 1 << 20
                                        ? hearth_exec_alloc(exec_of(rig.service), size, at)
                                        : hearth_io_alloc(rig.io, size, at);
        if (status == HEARTH_OK) {
            claim(hearth_buf_capacity(*at));
            atomic_fetch_add(&served, 1);
        } else {
            EXPECT(HEARTH_NO_MEMORY, status);
        }
    }
    for (size_t i = 0; i < COUNT_OF(bufs); i++) {
        if (bufs[i]) {
            atomic_fetch_sub(&held, hearth_buf_capacity(bufs[i]));
            EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(bufs[i]), bufs[i]));
        }
    }
}

Test(service_live, never_passed_by_many_threads)
{
    struct worker workers[CROWD];
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = LIMIT, .ceiling = 2 * MIB, .grant = 64 * KIB));
    for (size_t i = 0; i < CROWD; i++) {
        worker_start(&workers[i]);
        worker_begin(&workers[i], crowd, (void *)(uintptr_t)i);
    }
    for (size_t i = 0; i < CROWD; i++)
        worker_wait(&workers[i]);
    cr_assert_leq(atomic_load(&peak), (size_t)LIMIT);
    cr_assert_gt(atomic_load(&served), (size_t)1000);
    EXPECT_SIZE(0, hearth_service_live_capacity(rig.service));
    struct hearth_lease all = io_lease(rig.io, LIMIT); /* every byte of it came back */
    io_drop(all);
    for (size_t i = 0; i < CROWD; i++)
        worker_end(&workers[i]);
    rig_close(&rig);
}

Test(service_live, changes_while_running)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    struct hearth_lease lease = io_lease(rig.io, MIB);
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, 512 * KIB, 0));
    EXPECT_SIZE(MIB, hearth_service_live_capacity(rig.service)); /* stays */
    refused();
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, 2 * MIB, 0));
    struct hearth_lease second = io_lease(rig.io, MIB);
    refused();
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, 512 * KIB, 0));
    io_drop(lease);
    refused();
    io_drop(second);
    lease = io_lease(rig.io, 512 * KIB);
    refused();
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, HEARTH_UNBOUNDED, 0));
    second = io_lease(rig.io, 8 * MIB);
    io_drop(lease);
    io_drop(second);
    rig_close(&rig);
}

Test(service_live, the_reserve_is_for_requests_of_high_priority)
{
    struct hearth_request high = {.size = 128 * KIB, .priority = HEARTH_PRIORITY_HIGH};
    struct hearth_lease leases[8], none = HEARTH_LEASE_INIT;
    struct hearth_buf *buf = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB, .reserve = 256 * KIB));
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 6; i++)
            leases[i] = io_lease(rig.io, 128 * KIB);
        refused();
        EXPECT_SIZE(256 * KIB, refusal_of(rig.service).reserved_bytes);
        /* An execution arena knows no priority. */
        EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc_ex(exec_of(rig.service), &high, &buf));
        for (size_t i = 6; i < 8; i++)
            EXPECT(HEARTH_OK, hearth_io_lease_ex(rig.io, &high, &leases[i]));
        EXPECT(HEARTH_NO_MEMORY, hearth_io_lease_ex(rig.io, &high, &none));
        EXPECT_SIZE(MIB, hearth_service_live_capacity(rig.service));
        io_drop(leases[0]);
        refused(); /* the reserve comes first */
        EXPECT(HEARTH_OK, hearth_io_lease_ex(rig.io, &high, &leases[0]));
        for (size_t i = 0; i < 8; i++)
            io_drop(leases[i]);
    }
    rig_close(&rig);
}

Test(service_live, to_fail_is_to_obtain_nothing)
{
    struct hearth_request request = {.size = 10 * KIB};
    struct hearth_lease leases[4], none = HEARTH_LEASE_INIT;
    struct hearth_buf *buf = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.exhaustion = HEARTH_EXHAUSTION_FAIL));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, 10 * KIB, &buf));
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), 10 * KIB, &buf));
    EXPECT_SIZE(0, bank_acquires(&rig.bank));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, 4, 0));
    uint64_t acquires = bank_acquires(&rig.bank);
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < 4; i++)
            leases[i] = io_lease(rig.io, 10 * KIB);
        EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(rig.io, 10 * KIB, &none));
        EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(rig.io, MIB, &none));
        for (size_t i = 0; i < 4; i++)
            io_drop(leases[i]);
    }
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), 10 * KIB, &buf));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_EXEC, &request, 1, 0));
    acquires++;
    buf = take(exec_of(rig.service), 10 * KIB);
    EXPECT(HEARTH_NO_MEMORY, hearth_buf_resize(buf, MIB));
    give(exec_of(rig.service), buf);
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    rig_close(&rig);
}
