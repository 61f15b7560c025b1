/* SPDX-License-Identifier: Apache-2.0 */
/* Many at once: acquire, release, prefill; and what scrub and zero requests leave in memory.
 * Covered: all or none on each way to fail, bad entries and twins, both domains and several threads in one
 * return, prefill serves without a backing call, and touched without a fault. Not covered: waiting
 * (test_service_wait.c). */
#include "service_support.h"

static struct rig rig;

TestSuite(service_bulk, .init = NULL, .timeout = 60);

enum { MANY = 100 };

static const enum hearth_domain domains[] = {HEARTH_DOMAIN_EXEC, HEARTH_DOMAIN_IO};

static void fill_all(struct hearth_buf **bufs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fill(bufs[i], (unsigned char)i);
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(bufs[i], bufs[j]);
    }
    for (size_t i = 0; i < count; i++)
        cr_assert(filled(bufs[i], hearth_buf_size(bufs[i]), (unsigned char)i));
}

Test(service_bulk, of_each_domain)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    for (size_t d = 0; d < 2; d++) {
        struct hearth_buf *bufs[MANY];
        struct hearth_request request = {.size = 3000, .alignment = d ? 4096 : 0};
        for (size_t round = 0; round < 4; round++) {
            EXPECT(HEARTH_OK,
                   hearth_service_alloc_bulk(rig.service, domains[d], &request, MANY, bufs));
            EXPECT_SIZE(MANY * 3000, hearth_service_live_bytes(rig.service));
            fill_all(bufs, MANY);
            for (size_t i = 0; i < MANY; i++) {
                cr_assert_eq((uintptr_t)hearth_buf_data(bufs[i]) % (d ? 4096 : 64), 0u);
                cr_assert_eq(hearth_buf_owner(bufs[i]),
                             d ? hearth_io_allocator(rig.io)
                               : hearth_exec_allocator(exec_of(rig.service)));
            }
            EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, MANY, NULL));
            EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
            EXPECT_SIZE((d + 1) * MANY, bank_acquires(&rig.bank));
        }
    }
    rig_close(&rig);
}

Test(service_bulk, leases)
{
    struct hearth_lease leases[MANY];
    struct hearth_request request = {.size = 70000};
    size_t released = 7;
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    EXPECT(HEARTH_OK, hearth_service_lease_bulk(rig.service, &request, MANY, leases));
    EXPECT_SIZE(MANY, hearth_io_leased_count(rig.io));
    for (size_t i = 0; i < MANY; i++)
        EXPECT_SIZE(70000, hearth_lease_size(leases[i]));
    EXPECT(HEARTH_OK, hearth_lease_retain(leases[3]));
    EXPECT(HEARTH_OK, hearth_lease_release_bulk(leases, MANY, &released));
    EXPECT_SIZE(MANY, released);
    EXPECT_SIZE(1, hearth_io_leased_count(rig.io));
    EXPECT(HEARTH_STALE, hearth_lease_release_bulk(leases, MANY, &released));
    EXPECT_SIZE(1, released); /* every entry is tried */
    EXPECT_SIZE(0, hearth_io_leased_count(rig.io));
    rig_close(&rig);
}

/* Stale and garbage entries do not keep the others from being released; leases may be of any arenas. */
Test(service_bulk, release_counts_what_was_ok)
{
    struct rig other;
    size_t released = 0;
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    rig_open(&other, SERVICE_OPTIONS(.flags = 0));
    struct hearth_lease a = io_lease(rig.io, 100), b = io_lease(other.io, 200);
    struct hearth_lease leases[] = {a,
                                    b,
                                    HEARTH_LEASE_INIT,
                                    io_lease(rig.io, 300),
                                    a,
                                    {(struct hearth_buf *)&rig, 5},
                                    io_lease(rig.io, 400)};
    EXPECT(HEARTH_FOREIGN, hearth_lease_release_bulk(leases, COUNT_OF(leases), &released));
    EXPECT_SIZE(4, released);
    EXPECT_SIZE(0, hearth_io_leased_count(rig.io));
    EXPECT_SIZE(0, hearth_io_leased_count(other.io));
    EXPECT(HEARTH_OK, hearth_lease_release_bulk(leases, 0, &released));
    EXPECT_SIZE(0, released);
    EXPECT(HEARTH_OK, hearth_lease_release_bulk(NULL, 0, NULL));
    rig_close(&other);
    rig_close(&rig);
}

static void refused(enum hearth_status expected, size_t size, size_t count)
{
    struct hearth_request request = {.size = size};
    struct hearth_buf *bufs[MANY] = {NULL};
    struct hearth_lease leases[MANY] = {{NULL, 0}};
    size_t live = hearth_service_live_capacity(rig.service);
    for (size_t d = 0; d < 2; d++) {
        EXPECT(expected, hearth_service_alloc_bulk(rig.service, domains[d], &request, count, bufs));
        for (size_t i = 0; i < MANY; i++)
            cr_assert_null(bufs[i], "entry %zu was written", i);
    }
    EXPECT(expected, hearth_service_lease_bulk(rig.service, &request, count, leases));
    cr_assert_null(leases[0].buf);
    EXPECT_SIZE(live, hearth_service_live_capacity(rig.service));
    rig_identity(&rig);
}

Test(service_bulk, all_or_none_at_the_limit)
{
    struct hearth_buf *bufs[10];
    struct hearth_request request = {.size = 64 * KIB};
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 10 * 64 * KIB));
    for (size_t d = 0; d < 2; d++) {
        refused(HEARTH_NO_MEMORY, 64 * KIB, 11);
        EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domains[d], &request, 10, bufs));
        refused(HEARTH_NO_MEMORY, 64 * KIB, 1);
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 10, NULL));
    }
    rig_close(&rig);
}

Test(service_bulk, all_or_none_when_the_backing_fails)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    rig.bank.budget = 10 * 64 * KIB;
    refused(HEARTH_NO_MEMORY, 64 * KIB, 11);
    refused(HEARTH_NO_MEMORY, 64 * KIB, MANY);
    rig_close(&rig);
}

Test(service_bulk, all_or_none_when_slots_ran_out)
{
    rig_open(&rig, SERVICE_OPTIONS(.exec_slots = 10, .io_slots = 10));
    refused(HEARTH_NO_SLOT, 1000, 11);
    refused(HEARTH_NO_SLOT, 200 * KIB, MANY);
    rig_close(&rig);
}

Test(service_bulk, impossible_arguments)
{
    struct hearth_request request = {.size = 100}, odd = {.size = 100, .alignment = 96};
    struct hearth_buf *bufs[2] = {NULL, NULL};
    struct hearth_lease leases[2];
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    refused(HEARTH_OVERFLOW, SIZE_MAX, 2);
    EXPECT(HEARTH_INVALID,
           hearth_service_alloc_bulk(rig.service, (enum hearth_domain)0, &request, 1, bufs));
    EXPECT(HEARTH_INVALID,
           hearth_service_alloc_bulk(rig.service, (enum hearth_domain)3, &request, 1, bufs));
    EXPECT(HEARTH_INVALID, hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_IO, NULL, 1, bufs));
    EXPECT(HEARTH_INVALID,
           hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_IO, &request, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_IO, &odd, 1, bufs));
    EXPECT(HEARTH_INVALID,
           hearth_service_alloc_bulk(rig.service, HEARTH_DOMAIN_EXEC, &odd, 1, bufs));
    EXPECT(HEARTH_INVALID, hearth_service_lease_bulk(rig.service, NULL, 1, leases));
    EXPECT(HEARTH_INVALID, hearth_service_lease_bulk(rig.service, &request, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_free_bulk(rig.service, NULL, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_lease_release_bulk(NULL, 1, NULL));
    EXPECT(HEARTH_INVALID,
           hearth_service_prefill(rig.service, (enum hearth_domain)0, &request, 1, 0));
    EXPECT(HEARTH_INVALID, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, NULL, 1, 0));
    EXPECT(HEARTH_INVALID, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &odd, 1, 0));
    EXPECT(HEARTH_INVALID, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, 1, 2));
    for (size_t d = 0; d < 2; d++) {
        EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domains[d], &request, 0, bufs));
        EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, 0, 0));
    }
    EXPECT(HEARTH_OK, hearth_service_lease_bulk(rig.service, &request, 0, leases));
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 0, NULL));
    EXPECT_SIZE(0, bank_acquires(&rig.bank));
    rig_close(&rig);
}

static struct hearth_buf *elsewhere[4];

static void take_elsewhere(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < 4; i++)
        elsewhere[i] = take(exec_of(rig.service), 5000);
}

/* Buffers of both domains, of this thread, of an idle one and of an ended one in one return. */
Test(service_bulk, return_of_everything_together)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    (void)exec_of(rig.service); /* an arena of its own, not the ended thread's */
    worker_start(&worker);
    for (size_t round = 0; round < 10; round++) {
        struct hearth_buf *bufs[16];
        worker_run(&worker, take_elsewhere, NULL);
        memcpy(bufs, elsewhere, sizeof elsewhere);
        on_thread(take_elsewhere, NULL);
        memcpy(bufs + 4, elsewhere, sizeof elsewhere);
        for (size_t i = 8; i < 16; i++)
            bufs[i] = i % 2 ? take(exec_of(rig.service), 5000) : io_take(rig.io, 5000);
        EXPECT_SIZE(16 * 5000, hearth_service_live_bytes(rig.service));
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 16, NULL));
        EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        EXPECT(HEARTH_STALE, hearth_service_free_bulk(rig.service, bufs, 16, NULL));
    }
    EXPECT_SIZE(16, bank_acquires(&rig.bank));
    worker_end(&worker);
    rig_close(&rig);
}

/* The entry that cannot be returned may be anywhere. */
static void bad_entry(enum hearth_status expected, struct hearth_buf *entry)
{
    for (size_t at = 0; at < 9; at++) {
        struct hearth_buf *bufs[9];
        size_t bad = 99;
        for (size_t i = 0; i < 9; i++)
            bufs[i] = i % 2 ? take(exec_of(rig.service), 1000) : io_take(rig.io, 1000);
        struct hearth_buf *good = bufs[at];
        size_t live = hearth_service_live_bytes(rig.service);
        bufs[at] = entry;
        EXPECT(expected, hearth_service_free_bulk(rig.service, bufs, 9, &bad));
        EXPECT_SIZE(at, bad);
        EXPECT(expected, hearth_service_free_bulk(rig.service, bufs, 9, NULL));
        EXPECT_SIZE(live, hearth_service_live_bytes(rig.service));
        bufs[at] = good;
        fill_all(bufs, 9);
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 9, NULL));
        EXPECT_SIZE(live - 9000, hearth_service_live_bytes(rig.service));
    }
}

Test(service_bulk, a_bad_entry_leaves_all_as_they_were)
{
    struct rig other;
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    rig_open(&other, SERVICE_OPTIONS(.flags = 0));
    struct hearth_lease lease = io_lease(rig.io, 500);
    struct hearth_buf *foreign = io_take(other.io, 500),
                      *foreign_exec = take(exec_of(other.service), 9);
    struct hearth_buf *stale = take(exec_of(rig.service), 300 * KIB);
    struct hearth_buf *stale_io = io_take(rig.io, 300 * KIB);
    give(exec_of(rig.service), stale);
    io_give(rig.io, stale_io);
    bad_entry(HEARTH_LEASED, lease.buf);
    bad_entry(HEARTH_FOREIGN, foreign);
    bad_entry(HEARTH_FOREIGN, foreign_exec);
    bad_entry(HEARTH_STALE, stale);
    bad_entry(HEARTH_STALE, stale_io);
    bad_entry(HEARTH_FOREIGN, NULL);
    bad_entry(HEARTH_FOREIGN, (struct hearth_buf *)&rig);
    bad_entry(HEARTH_FOREIGN, (struct hearth_buf *)(uintptr_t)0xDEADBEEF);
    bad_entry(HEARTH_FOREIGN, (struct hearth_buf *)((char *)stale + 1));
    io_drop(lease);
    io_give(other.io, foreign);
    give(exec_of(other.service), foreign_exec);
    rig_close(&other);
    rig_close(&rig);
}

Test(service_bulk, twins_leave_all_as_they_were)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    for (size_t first = 0; first < 6; first++) {
        for (size_t second = first + 1; second < 6; second++) {
            struct hearth_buf *bufs[6];
            size_t bad = 99;
            for (size_t i = 0; i < 6; i++)
                bufs[i] = i % 2 ? take(exec_of(rig.service), 1000) : io_take(rig.io, 1000);
            struct hearth_buf *good = bufs[second];
            bufs[second] = bufs[first];
            enum hearth_status status = hearth_service_free_bulk(rig.service, bufs, 6, &bad);
            EXPECT(HEARTH_STALE, status);
            cr_assert(bad == first || bad == second, "%zu is not one of the twins", bad);
            EXPECT_SIZE(6000, hearth_service_live_bytes(rig.service));
            bufs[second] = good;
            fill_all(bufs, 6);
            EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 6, NULL));
            EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
        }
    }
    rig_close(&rig);
}
