/* SPDX-License-Identifier: Apache-2.0 */
/* What is tried before a request is refused, and what is told about it.
 * Covered: retained storage of everybody is given back first, a cache inside an operation is not waited for,
 * the record of each thread's last refusal. Not covered: waiting (test_service_wait.c). */
#include "service_support.h"

static struct rig rig;

TestSuite(service_refusal, .init = NULL, .timeout = 60);

static void warm_this(void *unused)
{
    (void)unused;
    warm_exec(rig.service, MIB, 2);
    warm_exec(rig.service, 2000, 20);
    warm_io(rig.service, 2000, 20);
}

/* The backing has no more: what idle threads, ended ones, the caller and the I/O arena retain goes first. */
static void reclaims_for(enum hearth_domain domain)
{
    struct worker idle[2];
    struct hearth_buf *buf = NULL;
    struct hearth_request request = {.size = 15 * MIB};
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
    for (size_t i = 0; i < 2; i++) {
        worker_start(&idle[i]);
        worker_run(&idle[i], warm_this, NULL);
    }
    on_thread(warm_this, NULL);
    warm_this(NULL);
    warm_io(rig.service, MIB, 4);
    cr_assert_geq(bank_bytes(&rig.bank), 10 * MIB);
    rig.bank.budget = 16 * MIB;
    (void)service_trim(rig.service, 0, 0);
    io_pause(5);
    EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domain, &request, 1, &buf));
    cr_assert_leq(hearth_service_retained_bytes(rig.service), MIB);
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, &buf, 1, NULL));
    rig_identity(&rig);
    for (size_t i = 0; i < 2; i++)
        worker_end(&idle[i]);
    rig_close(&rig);
}

Test(service_refusal, everybodys_storage_goes_before_an_exec_request_fails)
{
    reclaims_for(HEARTH_DOMAIN_EXEC);
}

Test(service_refusal, everybodys_storage_goes_before_an_io_request_fails)
{
    reclaims_for(HEARTH_DOMAIN_IO);
}

/* Not only large requests: the one acquire that fails may be any. */
Test(service_refusal, one_failing_acquire_is_not_seen)
{
    struct bank bank;
    struct hearth_backing *failing = NULL;
    bank_open(&bank);
    EXPECT(HEARTH_OK, hearth_backing_create_failing(bank.backing, &failing));
    rig_open(&rig, SERVICE_OPTIONS(.exec_backing = failing, .io_backing = failing));
    for (size_t i = 0; i < 6; i++) {
        warm_exec(rig.service, 100 * KIB, 2);
        warm_io(rig.service, 100 * KIB, 2);
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, 1, 1));
        size_t size = (size_t)1000 << i;
        struct hearth_buf *buf = i % 2 ? take(exec_of(rig.service), size) : io_take(rig.io, size);
        EXPECT(HEARTH_OK, hearth_backing_fail(failing, 0, 0));
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
    }
    hearth_service_unref(rig.service);
    bank_close(&rig.bank);
    hearth_backing_unref(failing);
    bank_close(&bank);
}

static void take_and_give(void *unused)
{
    (void)unused;
    struct hearth_exec *arena = exec_of(rig.service);
    give(arena, take(arena, 5 * MIB));
}

/* One thread is inside an operation: its storage cannot be reached, and the record says how much that is. */
Test(service_refusal, what_is_inside_an_operation_is_told)
{
    struct worker worker;
    struct bank other;
    struct hearth_buf *none = NULL;
    bank_open(&other);
    rig_open(&rig, SERVICE_OPTIONS(.io_backing = other.backing));
    worker_start(&worker);
    worker_run(&worker, warm_this, NULL);
    bank_shut(&rig.bank);
    worker_begin(&worker, take_and_give, NULL);
    bank_await(&rig.bank, 1);
    other.budget = 64;
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, MIB, &none));
    struct hearth_refusal refusal = refusal_of(rig.service);
    cr_assert_neq(refusal.backing_refused, 0u);
    cr_assert_geq(refusal.busy_bytes, (uint64_t)(2 * MIB));
    EXPECT_SIZE(MIB, refusal.asked_bytes);
    other.budget = 0;
    bank_unshut(&rig.bank);
    worker_end(&worker);
    hearth_service_unref(rig.service);
    bank_close(&rig.bank);
    bank_close(&other);
}

static void has_no_refusal(void *unused)
{
    (void)unused;
    struct hearth_refusal refusal = refusal_of(rig.service), zero = HEARTH_REFUSAL_INIT;
    cr_assert_eq(memcmp(&refusal, &zero, sizeof zero), 0);
}

Test(service_refusal, the_record_of_a_limit)
{
    struct hearth_buf *none = NULL;
    struct rig other;
    rig_open(&other, SERVICE_OPTIONS(.live_limit = 64));
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    has_no_refusal(NULL);
    struct hearth_buf *live = take(exec_of(rig.service), 500 * KIB);
    warm_exec(rig.service, 100 * KIB, 2);
    has_no_refusal(NULL);
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, 600 * KIB, &none));
    struct hearth_refusal refusal = refusal_of(rig.service);
    EXPECT_SIZE(640 * KIB, refusal.asked_bytes);
    EXPECT_SIZE(MIB, refusal.live_limit);
    EXPECT_SIZE(512 * KIB, refusal.live_bytes);
    EXPECT_SIZE(0, refusal.reserved_bytes);
    EXPECT_SIZE(0, refusal.backing_refused);
    EXPECT_SIZE(0, refusal.cancelled);
    on_thread(has_no_refusal, NULL);
    EXPECT_SIZE(0, refusal_of(other.service).asked_bytes);
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(other.io, 100, &none));
    EXPECT_SIZE(128, refusal_of(other.service).asked_bytes);
    EXPECT_SIZE(0, refusal_of(rig.service).asked_bytes); /* the last one was not by this service */
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), 890 * KIB, &none));
    EXPECT_SIZE(MIB - 128 * KIB, refusal_of(rig.service).asked_bytes);
    give(exec_of(rig.service), live);
    warm_exec(rig.service, 100, 1);
    EXPECT_SIZE(MIB - 128 * KIB, refusal_of(rig.service).asked_bytes); /* a success leaves it */
    rig_close(&rig);
    rig_close(&other);
}

Test(service_refusal, the_record_of_a_backing)
{
    struct hearth_buf *none = NULL;
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    rig.bank.budget = 300 * KIB;
    warm_exec(rig.service, 100 * KIB, 2);
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), MIB, &none));
    struct hearth_refusal refusal = refusal_of(rig.service);
    EXPECT_SIZE(MIB, refusal.asked_bytes);
    cr_assert_eq(refusal.live_limit, UINT64_MAX);
    cr_assert_neq(refusal.backing_refused, 0u);
    EXPECT_SIZE(2 * 112 * KIB, refusal.reclaimed_bytes);
    EXPECT_SIZE(0, refusal.busy_bytes);
    EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    rig_close(&rig);
}

Test(service_refusal, members_beyond_the_record_are_not_written)
{
    struct hearth_buf *none = NULL;
    struct hearth_refusal refusal;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = 64));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, 100, &none));
    memset(&refusal, 0xEE, sizeof refusal);
    refusal.size = offsetof(struct hearth_refusal, live_limit);
    EXPECT(HEARTH_OK, hearth_service_refusal(rig.service, &refusal));
    EXPECT_SIZE(128, refusal.asked_bytes);
    cr_assert_eq(refusal.live_limit, 0xEEEEEEEEEEEEEEEEu);
    rig_close(&rig);
}
