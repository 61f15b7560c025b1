/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a service and HEARTH_CONF.
 * Covered: every impossible option, the boundaries that are possible, what the options set, what the variable
 * overrides. Not covered: what each limit does (test_service_limits.c and others). */
#include "service_support.h"

#include <stdlib.h>

static void setup(void)
{
    misuse_record();
}

TestSuite(service_options, .init = setup, .timeout = 60);

static void expect_create(enum hearth_status expected, struct hearth_service_options options)
{
    struct hearth_service *service = NULL;
    EXPECT(expected, hearth_service_create(&options, &service));
    if (expected == HEARTH_OK) {
        cr_assert_not_null(service);
        hearth_service_unref(service);
        return;
    }
    cr_assert_null(service, "written although the answer is not OK");
}

#define REFUSE(...) expect_create(HEARTH_INVALID, SERVICE_OPTIONS(__VA_ARGS__))
#define ACCEPT(...) expect_create(HEARTH_OK, SERVICE_OPTIONS(__VA_ARGS__))

Test(service_options, no_place_for_the_service)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    EXPECT(HEARTH_INVALID, hearth_service_create(NULL, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_create(&options, NULL));
}

Test(service_options, no_options_and_the_initializer)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct hearth_service *service = NULL;
    EXPECT_SIZE(sizeof options, options.size);
    expect_create(HEARTH_OK, options);
    EXPECT(HEARTH_OK, hearth_service_create(NULL, &service));
    EXPECT_SIZE(0, hearth_service_thread_count(service));
    EXPECT_SIZE(0, hearth_service_waiter_count(service));
    EXPECT_SIZE(0, hearth_service_live_bytes(service));
    EXPECT_SIZE(0, hearth_service_live_capacity(service));
    EXPECT_SIZE(0, hearth_service_retained_bytes(service));
    EXPECT_SIZE(0, hearth_service_stranded_bytes(service));
    EXPECT_SIZE(0, hearth_service_footprint(service));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_service_ceiling(service));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_exec_retention_cap(exec_of(service)));
    EXPECT_SIZE(HEARTH_UNBOUNDED, hearth_io_retention_cap(hearth_service_io(service)));
    EXPECT_SIZE(HEARTH_EXEC_SLOTS_DEFAULT, hearth_exec_slots(exec_of(service)));
    EXPECT_SIZE((size_t)1 << 20, hearth_io_slots(hearth_service_io(service)));
    hearth_service_unref(service);
}

Test(service_options, sizes_of_the_struct_that_no_library_knows)
{
    static const size_t sizes[] = {0,
                                   1,
                                   sizeof(size_t),
                                   sizeof(struct hearth_service_options) - 1,
                                   sizeof(struct hearth_service_options) + 1,
                                   sizeof(struct hearth_service_options) + 8,
                                   SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_service_options options = {.size = sizes[i]};
        expect_create(HEARTH_INVALID, options);
    }
}

Test(service_options, reserved_words)
{
    for (size_t i = 0; i < COUNT_OF(((struct hearth_service_options *)0)->reserved); i++) {
        struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
        options.reserved[i] = 1;
        expect_create(HEARTH_INVALID, options);
        options.reserved[i] = (uint64_t)1 << 63;
        expect_create(HEARTH_INVALID, options);
    }
}

Test(service_options, stores)
{
    REFUSE(.reserved_word = 1);
    REFUSE(.exec_store = HEARTH_EXEC_STORE_PLANS + 1);
    REFUSE(.exec_store = UINT32_MAX);
    ACCEPT(.exec_store = HEARTH_EXEC_STORE_LISTS);
    ACCEPT(.exec_store = HEARTH_EXEC_STORE_SPANS);
    ACCEPT(.exec_store = HEARTH_EXEC_STORE_PLANS);
}

Test(service_options, grant_against_the_ceiling)
{
    REFUSE(.ceiling = MIB, .grant = MIB + 1);
    REFUSE(.ceiling = 1, .grant = 2);
    REFUSE(.ceiling = 100 * MIB, .grant = SIZE_MAX);
    ACCEPT(.ceiling = MIB, .grant = MIB);
    ACCEPT(.ceiling = MIB, .grant = 64);
    ACCEPT(.grant = 64 * MIB);
    ACCEPT(.ceiling = 2 * MIB);
}

Test(service_options, reserve_against_the_limit)
{
    REFUSE(.reserve = 1);
    REFUSE(.reserve = MIB);
    REFUSE(.live_limit = MIB, .reserve = MIB + 1);
    REFUSE(.live_limit = MIB, .reserve = SIZE_MAX);
    REFUSE(.live_limit = HEARTH_UNBOUNDED, .reserve = 1);
    ACCEPT(.live_limit = MIB, .reserve = MIB);
    ACCEPT(.live_limit = MIB, .reserve = 1);
    ACCEPT(.live_limit = MIB);
}

Test(service_options, exhaustion)
{
    REFUSE(.exhaustion = 3);
    REFUSE(.exhaustion = UINT32_MAX);
    ACCEPT(.exhaustion = HEARTH_EXHAUSTION_GROW);
    ACCEPT(.exhaustion = HEARTH_EXHAUSTION_FAIL);
    ACCEPT(.exhaustion = HEARTH_EXHAUSTION_WAIT);
    ACCEPT(.exhaustion = HEARTH_EXHAUSTION_WAIT, .live_limit = MIB);
}

Test(service_options, percentage)
{
    REFUSE(.ceiling_percent = 101);
    REFUSE(.ceiling_percent = UINT32_MAX);
    ACCEPT(.ceiling_percent = 1);
    ACCEPT(.ceiling_percent = 100);
    ACCEPT(.ceiling_percent = 50, .ceiling = 64 * MIB);
}

Test(service_options, flags)
{
    REFUSE(.flags = 4);
    REFUSE(.flags = 0x80000000u);
    REFUSE(.flags = UINT32_MAX);
    ACCEPT(.flags = HEARTH_SERVICE_NO_THREAD);
    ACCEPT(.flags = HEARTH_SERVICE_SCRUB);
    ACCEPT(.flags = HEARTH_SERVICE_NO_THREAD | HEARTH_SERVICE_SCRUB);
}

Test(service_options, ageing)
{
    ACCEPT(.age_runs = 1, .age_ms = 1);
    ACCEPT(.age_runs = HEARTH_AGE_NEVER, .age_ms = HEARTH_AGE_NEVER);
}

Test(service_options, more_slots_than_can_exist)
{
    expect_create(HEARTH_OVERFLOW, SERVICE_OPTIONS(.exec_slots = SIZE_MAX));
    expect_create(HEARTH_OVERFLOW, SERVICE_OPTIONS(.io_slots = SIZE_MAX));
    expect_create(HEARTH_OVERFLOW, SERVICE_OPTIONS(.io_slots = (size_t)1 << 40));
    ACCEPT(.exec_slots = 1, .io_slots = 1);
}

/* After all these refusals nothing is left behind: the backing ends with the test's reference. */
Test(service_options, a_refused_service_keeps_no_backing)
{
    struct bank bank;
    bank_open(&bank);
    REFUSE(.exec_backing = bank.backing, .io_backing = bank.backing, .exhaustion = 9);
    expect_create(HEARTH_OVERFLOW,
                  SERVICE_OPTIONS(.exec_backing = bank.backing, .io_backing = bank.backing,
                                  .exec_slots = SIZE_MAX));
    expect_create(HEARTH_OVERFLOW,
                  SERVICE_OPTIONS(.exec_backing = bank.backing, .io_backing = bank.backing,
                                  .io_slots = SIZE_MAX));
    bank_close(&bank);
}

Test(service_options, the_arenas_have_what_the_options_say)
{
    struct rig rig;
    rig_open(&rig, SERVICE_OPTIONS(.exec_cap = 3 * MIB, .io_cap = 5 * MIB, .exec_slots = 7,
                                   .io_slots = 9, .ceiling = 64 * MIB, .reuse_ratio = 1));
    EXPECT_SIZE(3 * MIB, hearth_exec_retention_cap(exec_of(rig.service)));
    EXPECT_SIZE(5 * MIB, hearth_io_retention_cap(rig.io));
    EXPECT_SIZE(7, hearth_exec_slots(exec_of(rig.service)));
    EXPECT_SIZE(9, hearth_io_slots(rig.io));
    EXPECT_SIZE(64 * MIB, hearth_service_ceiling(rig.service));
    warm_exec(rig.service, 128 * KIB, 1); /* another class: ratio 1 forbids it */
    warm_io(rig.service, 128 * KIB, 1);
    warm_exec(rig.service, 64 * KIB, 1);
    warm_io(rig.service, 64 * KIB, 1);
    EXPECT_SIZE(4, bank_acquires(&rig.bank));
    cr_assert(hearth_io_can_take(rig.io, exec_of(rig.service)));
    rig_close(&rig);
}

/* Storage of each domain comes from its own backing. */
Test(service_options, a_backing_for_each_domain)
{
    struct rig rig;
    struct bank exec;
    bank_open(&exec);
    rig_open(&rig, SERVICE_OPTIONS(.exec_backing = exec.backing));
    warm_exec(rig.service, 64 * KIB, 3);
    warm_io(rig.service, 128 * KIB, 5);
    EXPECT_SIZE(3 * 64 * KIB, bank_bytes(&exec));
    EXPECT_SIZE(5 * 128 * KIB, bank_bytes(&rig.bank));
    EXPECT_SIZE(bank_bytes(&exec) + bank_bytes(&rig.bank), hearth_service_footprint(rig.service));
    (void)service_trim_idle(rig.service);
    EXPECT_SIZE(0, bank_bytes(&exec));
    rig_close(&rig);
    bank_close(&exec);
}

Test(service_options, nothing_is_retained_if_asked)
{
    struct rig rig;
    rig_open(&rig,
             SERVICE_OPTIONS(.exec_cap = HEARTH_RETAIN_NOTHING, .io_cap = HEARTH_RETAIN_NOTHING));
    for (size_t i = 0; i < 10; i++) {
        warm_exec(rig.service, i * 1000, 3);
        warm_io(rig.service, i * 1000, 3);
        EXPECT_SIZE(0, hearth_service_retained_bytes(rig.service));
    }
    EXPECT_SIZE(0, bank_bytes(&rig.bank));
    rig_close(&rig);
}

Test(service_options, the_variable_overrides)
{
    struct rig rig;
    cr_assert_eq(setenv("HEARTH_CONF", "exec_cap:2M,io_cap:1M", 1), 0);
    rig_open(&rig, SERVICE_OPTIONS(.exec_cap = 777, .io_cap = 778, .exec_slots = 5));
    EXPECT_SIZE(2 * MIB, hearth_exec_retention_cap(exec_of(rig.service)));
    EXPECT_SIZE(1 * MIB, hearth_io_retention_cap(rig.io));
    EXPECT_SIZE(5, hearth_exec_slots(exec_of(rig.service)));
    rig_close(&rig);
}

Test(service_options, a_variable_that_cannot_be_parsed)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_kap:2G", 1), 0);
    REFUSE(.flags = 0);
    cr_assert_eq(misuse.count, 1u);
    cr_assert_eq(misuse.status, HEARTH_INVALID);
    cr_assert_str_eq(misuse.call, "hearth_service_create");
    cr_assert_not_null(strstr(misuse.detail, "exec_kap"), "%s", misuse.detail);
}

Test(service_options, null_everywhere)
{
    struct hearth_exec *arena = NULL;
    struct hearth_request request = {.size = 1};
    struct hearth_buf *buf = NULL;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct hearth_refusal refusal = HEARTH_REFUSAL_INIT;
    hearth_service_ref(NULL);
    hearth_service_unref(NULL);
    EXPECT(HEARTH_INVALID, hearth_service_close(NULL));
    EXPECT(HEARTH_INVALID, hearth_service_exec(NULL, &arena));
    EXPECT(HEARTH_INVALID, hearth_service_detach(NULL));
    EXPECT(HEARTH_INVALID, hearth_service_end_run(NULL));
    EXPECT(HEARTH_INVALID, hearth_service_trim(NULL, 0, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_tick(NULL));
    EXPECT(HEARTH_INVALID, hearth_service_set_ceiling(NULL, 0));
    EXPECT(HEARTH_INVALID, hearth_service_set_retention_cap(NULL, HEARTH_DOMAIN_EXEC, 0));
    EXPECT(HEARTH_INVALID, hearth_service_set_live_limit(NULL, 0, 0));
    EXPECT(HEARTH_INVALID, hearth_service_set_ageing(NULL, 0, 0));
    EXPECT(HEARTH_INVALID, hearth_service_refusal(NULL, &refusal));
    EXPECT(HEARTH_INVALID, hearth_service_cancel(NULL, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_prefill(NULL, HEARTH_DOMAIN_IO, &request, 1, 0));
    EXPECT(HEARTH_INVALID, hearth_service_alloc_bulk(NULL, HEARTH_DOMAIN_IO, &request, 1, &buf));
    EXPECT(HEARTH_INVALID, hearth_service_free_bulk(NULL, &buf, 1, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_lease_bulk(NULL, &request, 1, &lease));
    cr_assert_null(hearth_service_io(NULL));
    EXPECT_SIZE(0, hearth_service_thread_count(NULL));
    EXPECT_SIZE(0, hearth_service_waiter_count(NULL));
    EXPECT_SIZE(0, hearth_service_live_bytes(NULL));
    EXPECT_SIZE(0, hearth_service_live_capacity(NULL));
    EXPECT_SIZE(0, hearth_service_retained_bytes(NULL));
    EXPECT_SIZE(0, hearth_service_stranded_bytes(NULL));
    EXPECT_SIZE(0, hearth_service_ceiling(NULL));
    EXPECT_SIZE(0, hearth_service_footprint(NULL));
    cr_assert_null(arena);
}

Test(service_options, null_and_impossible_arguments_of_a_service)
{
    struct rig rig;
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB));
    struct hearth_refusal refusal = {.size = 0};
    EXPECT(HEARTH_INVALID, hearth_service_exec(rig.service, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_refusal(rig.service, NULL));
    EXPECT(HEARTH_INVALID, hearth_service_refusal(rig.service, &refusal));
    EXPECT(HEARTH_INVALID, hearth_service_set_retention_cap(rig.service, 0, MIB));
    EXPECT(HEARTH_INVALID, hearth_service_set_retention_cap(rig.service, 4, MIB));
    EXPECT(HEARTH_INVALID, hearth_service_set_retention_cap(rig.service, 7, MIB));
    EXPECT(HEARTH_INVALID, hearth_service_set_live_limit(rig.service, MIB, MIB + 1));
    EXPECT(HEARTH_INVALID, hearth_service_set_live_limit(rig.service, HEARTH_UNBOUNDED, 1));
    rig_close(&rig);
}
