/* SPDX-License-Identifier: Apache-2.0 */
/* Storage ahead of need, and what is in it: prefill, zero on request, scrub on return.
 * Covered: as many as asked are served at once without a backing call, and after a touch without a fault; all
 * or nothing; caps and the ceiling; zeros; nothing of a returned buffer's bytes is left. Not covered: bulk
 * acquire (test_service_bulk.c). */
#include "service_support.h"

#include <sys/resource.h>

static struct rig rig;

TestSuite(service_prefill, .init = NULL, .timeout = 60);

enum { MANY = 50 };

static const enum hearth_domain domains[] = {HEARTH_DOMAIN_EXEC, HEARTH_DOMAIN_IO};

static void serves(enum hearth_domain domain, const struct hearth_request *request, size_t count)
{
    struct hearth_buf *bufs[2 * MANY];
    uint64_t acquires = bank_acquires(&rig.bank);
    for (size_t i = 0; i < count; i++)
        EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domain, request, 1, &bufs[i]));
    EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, count, NULL));
}

Test(service_prefill, serves_without_the_backing)
{
    static const size_t sizes[] = {0, 1, 1000, 40 * KIB, 64 * KIB, 100 * KIB, MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        for (size_t d = 0; d < 2; d++) {
            struct hearth_request request = {.size = sizes[i], .alignment = i % 2 ? 4096 : 0};
            rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
            EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, MANY, 0));
            EXPECT_SIZE(0, hearth_service_live_bytes(rig.service));
            EXPECT_SIZE(hearth_service_footprint(rig.service),
                        hearth_service_retained_bytes(rig.service));
            serves(domains[d], &request, MANY);
            uint64_t acquires = bank_acquires(&rig.bank); /* what is there counts */
            EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, MANY, 0));
            EXPECT_SIZE(acquires, bank_acquires(&rig.bank));
            EXPECT(HEARTH_OK,
                   hearth_service_prefill(rig.service, domains[d], &request, 2 * MANY, 0));
            serves(domains[d], &request, 2 * MANY);
            rig_close(&rig);
        }
    }
}

static void use_io(void *unused)
{
    struct hearth_request request = {.size = 2000};
    (void)unused;
    serves(HEARTH_DOMAIN_IO, &request, MANY);
}

/* Prefilled I/O storage serves any thread. */
Test(service_prefill, serves_other_threads)
{
    struct hearth_request request = {.size = 2000};
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, MANY, 0));
    on_thread(use_io, NULL);
    rig_close(&rig);
}

static long faults(void)
{
    struct rusage usage;
    cr_assert_eq(getrusage(RUSAGE_THREAD, &usage), 0);
    return usage.ru_minflt;
}

Test(service_prefill, touched_storage_does_not_fault)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the sanitizer's own memory faults");
#endif
    for (size_t d = 0; d < 2; d++) {
        struct hearth_backing *pages = NULL;
        struct hearth_buf *bufs[16];
        struct hearth_request request = {.size = 300 * KIB};
        EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &pages));
        rig_open(&rig, SERVICE_OPTIONS(.exec_backing = pages, .io_backing = pages));
        EXPECT(HEARTH_OK,
               hearth_service_prefill(rig.service, domains[d], &request, 16, HEARTH_PREFILL_TOUCH));
        EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domains[d], &request, 16, bufs));
        long before = faults();
        before = faults();
        for (size_t i = 0; i < 16; i++)
            memset(hearth_buf_data(bufs[i]), (int)i, hearth_buf_size(bufs[i]));
        long after = faults();
        cr_assert_leq(after - before, 2L, "%ld faults", after - before);
        EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 16, NULL));
        hearth_service_unref(rig.service);
        bank_close(&rig.bank);
        hearth_backing_unref(pages);
    }
}

Test(service_prefill, all_or_nothing)
{
    struct hearth_request request = {.size = 64 * KIB};
    for (size_t d = 0; d < 2; d++) {
        rig_open(&rig, SERVICE_OPTIONS(.exec_slots = 20, .io_slots = 20));
        rig.bank.budget = 10 * 64 * KIB;
        EXPECT(HEARTH_NO_MEMORY, hearth_service_prefill(rig.service, domains[d], &request, 11, 0));
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
        EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, 10, 0));
        rig.bank.budget = 0;
        EXPECT(HEARTH_NO_SLOT, hearth_service_prefill(rig.service, domains[d], &request, 21, 0));
        EXPECT_SIZE(10 * 64 * KIB, hearth_service_retained_bytes(rig.service));
        request.size = SIZE_MAX;
        EXPECT(HEARTH_OVERFLOW, hearth_service_prefill(rig.service, domains[d], &request, 1, 0));
        request.size = 64 * KIB;
        rig_close(&rig);
    }
}

Test(service_prefill, within_caps_and_ceiling)
{
    struct hearth_request request = {.size = 64 * KIB};
    for (size_t d = 0; d < 2; d++) {
        rig_open(&rig, SERVICE_OPTIONS(.exec_cap = 10 * 64 * KIB, .io_cap = 10 * 64 * KIB));
        EXPECT(HEARTH_NO_MEMORY, hearth_service_prefill(rig.service, domains[d], &request, 11, 0));
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
        EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, 10, 0));
        serves(domains[d], &request, 10);
        rig_close(&rig);
        rig_open(&rig, SERVICE_OPTIONS(.ceiling = 10 * 64 * KIB, .grant = 64));
        EXPECT(HEARTH_NO_MEMORY, hearth_service_prefill(rig.service, domains[d], &request, 11, 0));
        EXPECT_SIZE(0, bank_bytes(&rig.bank));
        EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, domains[d], &request, 10, 0));
        serves(domains[d], &request, 10);
        rig_close(&rig);
    }
}

Test(service_prefill, attaches_the_thread_only_for_execution)
{
    struct hearth_request request = {.size = 100};
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, 1, 0));
    EXPECT_SIZE(0, hearth_service_thread_count(rig.service));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_EXEC, &request, 1, 0));
    EXPECT_SIZE(1, hearth_service_thread_count(rig.service));
    rig_close(&rig);
}

/* Members that say how to take a buffer mean nothing here. */
Test(service_prefill, ignores_deadline_priority_and_zero)
{
    struct hearth_request request = {
        .size = 100, .deadline_ns = UINT64_MAX, .priority = HEARTH_PRIORITY_HIGH, .zero = 1};
    rig_open(&rig, SERVICE_OPTIONS(.exhaustion = HEARTH_EXHAUSTION_WAIT));
    EXPECT(HEARTH_OK, hearth_service_prefill(rig.service, HEARTH_DOMAIN_IO, &request, 5, 0));
    request = (struct hearth_request){.size = 100};
    serves(HEARTH_DOMAIN_IO, &request, 5);
    rig_close(&rig);
}

Test(service_prefill, zero_requests)
{
    rig_open(&rig, SERVICE_OPTIONS(.flags = 0));
    for (size_t d = 0; d < 2; d++) {
        for (size_t round = 0; round < 4; round++) {
            for (size_t size = 1; size < 300 * KIB; size = size * 7 + 1) {
                struct hearth_request request = {.size = size, .zero = 1};
                struct hearth_buf *bufs[4];
                EXPECT(HEARTH_OK,
                       hearth_service_alloc_bulk(rig.service, domains[d], &request, 4, bufs));
                for (size_t i = 0; i < 4; i++) {
                    cr_assert(filled(bufs[i], size, 0), "%zu bytes are not all zero", size);
                    memset(hearth_buf_data(bufs[i]), 0xFF, hearth_buf_capacity(bufs[i]));
                }
                EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs, 4, NULL));
            }
        }
    }
    rig_close(&rig);
}

static bool zeros(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != 0)
            return false;
    }
    return true;
}

/* Looks at what the backing got back: the buffers' logical bytes, 300 and 70000 of them, are zero. */
static void scrubbed(enum hearth_domain domain, bool retained)
{
    struct hearth_request request = {.size = 300};
    struct hearth_buf *bufs[8];
    struct hearth_service_options options = SERVICE_OPTIONS(.flags = HEARTH_SERVICE_SCRUB);
    if (!retained)
        options.exec_cap = options.io_cap = HEARTH_RETAIN_NOTHING;
    rig_open(&rig, options);
    rig.bank.keep = true;
    for (size_t i = 0; i < 8; i++) {
        request.size = i % 2 ? 300 : 70000;
        EXPECT(HEARTH_OK, hearth_service_alloc_bulk(rig.service, domain, &request, 1, &bufs[i]));
        fill(bufs[i], 0x77);
    }
    for (size_t i = 0; i < 4; i++)
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(bufs[i]), bufs[i]));
    if (domain == HEARTH_DOMAIN_IO)
        io_drop(io_export(rig.io, bufs[4]));
    else
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(bufs[4]), bufs[4]));
    EXPECT(HEARTH_OK, hearth_service_free_bulk(rig.service, bufs + 5, 3, NULL));
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(8, rig.bank.kept_count);
    for (size_t i = 0; i < 8; i++) {
        const struct hearth_segment *segment = &rig.bank.kept[i];
        cr_assert(zeros(segment->base, segment->length < 1000 ? 300 : 70000),
                  "bytes of a buffer were left behind");
    }
    rig_close(&rig);
}

Test(service_prefill, scrub)
{
    scrubbed(HEARTH_DOMAIN_EXEC, true);
    scrubbed(HEARTH_DOMAIN_IO, true);
}

Test(service_prefill, scrub_of_what_is_not_retained)
{
    scrubbed(HEARTH_DOMAIN_EXEC, false);
    scrubbed(HEARTH_DOMAIN_IO, false);
}

static struct hearth_buf *of_another;

static void take_dirty(void *unused)
{
    (void)unused;
    of_another = take(exec_of(rig.service), 5000);
    fill(of_another, 0x77);
}

/* Returned by another thread, by the end of the service, and what the next holder sees. */
Test(service_prefill, scrub_on_every_way_back)
{
    struct worker worker;
    rig_open(&rig, SERVICE_OPTIONS(.flags = HEARTH_SERVICE_SCRUB));
    rig.bank.keep = true;
    worker_start(&worker);
    worker_run(&worker, take_dirty, NULL);
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(of_another), of_another));
    struct hearth_buf *buf = take(exec_of(rig.service), 5000);
    void *data = hearth_buf_data(buf);
    fill(buf, 0x77);
    give(exec_of(rig.service), buf);
    buf = take(exec_of(rig.service), 5000);
    cr_assert_eq(hearth_buf_data(buf), data);
    cr_assert(filled(buf, 5000, 0));
    fill(buf, 0x77);
    struct hearth_lease lease = io_lease(rig.io, 5000);
    fill(lease.buf, 0x77);
    hearth_service_unref(rig.service);
    EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
    io_drop(lease);
    worker_end(&worker);
    EXPECT_SIZE(3, rig.bank.kept_count);
    for (size_t i = 0; i < rig.bank.kept_count; i++)
        cr_assert(zeros(rig.bank.kept[i].base, 5000));
    bank_close(&rig.bank);
}
