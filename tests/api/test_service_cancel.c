/* SPDX-License-Identifier: Apache-2.0 */
/* Ending waits.
 * Covered: cancels by name and of all, before and during the wait, and what they leave for the next one. Not
 * covered: cancels against returns and deadlines (stress/). */
#include "service_support.h"

static struct rig rig;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB, .exhaustion = HEARTH_EXHAUSTION_WAIT));
}

TestSuite(service_cancel, .init = setup, .timeout = 60);

Test(service_cancel, cancelled_by_name)
{
    struct asking asking[3];
    struct hearth_lease all = io_lease(rig.io, MIB);
    size_t count = 99;
    for (size_t i = 0; i < COUNT_OF(asking); i++) {
        ask_begin(rig.service, &asking[i], 100, UINT64_MAX);
        await_waiters(rig.service, i + 1);
        cr_assert_neq(asking[i].name, 0u);
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(asking[i].name, asking[j].name);
    }
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, asking[1].name, &count));
    EXPECT_SIZE(1, count);
    worker_wait(&asking[1].worker);
    cr_assert_neq(asking[1].refusal.cancelled, 0u);
    ask_end(&asking[1], HEARTH_TIMEOUT);
    EXPECT_SIZE(2, hearth_service_waiter_count(rig.service));
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, 0, &count));
    EXPECT_SIZE(2, count);
    ask_end(&asking[0], HEARTH_TIMEOUT);
    ask_end(&asking[2], HEARTH_TIMEOUT);
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, 0, &count));
    EXPECT_SIZE(0, count);
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, 0, NULL));
    io_drop(all);
    rig_close(&rig);
}

/* A cancel that comes just before the wait is not lost; several end one wait. */
Test(service_cancel, cancelled_before_it_waits)
{
    struct hearth_lease all = io_lease(rig.io, MIB);
    size_t count = 99;
    uint64_t name = hearth_service_waiter(rig.service);
    cr_assert_neq(name, 0u);
    cr_assert_eq(hearth_service_waiter(rig.service), name);
    for (size_t i = 0; i < 3; i++) {
        EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, name, &count));
        EXPECT_SIZE(0, count);
    }
    uint64_t began = now_ns();
    (void)lease_by(rig.io, 100, in_ms(20000), HEARTH_TIMEOUT);
    cr_assert_lt(now_ns() - began, (uint64_t)5000000000u);
    cr_assert_neq(refusal_of(rig.service).cancelled, 0u);
    uint64_t deadline = in_ms(50);
    (void)lease_by(rig.io, 100, deadline, HEARTH_TIMEOUT); /* the next one waits in full */
    cr_assert_geq(now_ns(), deadline);
    cr_assert_eq(refusal_of(rig.service).cancelled, 0u);
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, 0, NULL)); /* all that wait now: none */
    deadline = in_ms(50);
    (void)lease_by(rig.io, 100, deadline, HEARTH_TIMEOUT);
    cr_assert_geq(now_ns(), deadline);
    io_drop(all);
    rig_close(&rig);
}

/* A request that is served at once has not waited: the cancel stays for the next wait. */
Test(service_cancel, a_cancel_is_for_a_wait)
{
    EXPECT(HEARTH_OK, hearth_service_cancel(rig.service, hearth_service_waiter(rig.service), NULL));
    struct hearth_lease all = lease_by(rig.io, MIB, UINT64_MAX, HEARTH_OK);
    (void)lease_by(rig.io, 100, UINT64_MAX, HEARTH_TIMEOUT);
    io_drop(all);
    rig_close(&rig);
}
