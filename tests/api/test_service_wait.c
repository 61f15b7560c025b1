/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for returns.
 * Covered: deadlines, returns of other threads by every way, the close, a raised limit, order, bulk, what never
 * waits. Not covered: cancels (test_service_cancel.c), races (stress/). */
#include "service_support.h"

static struct rig rig;

static void setup(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.live_limit = MIB, .exhaustion = HEARTH_EXHAUSTION_WAIT));
}

TestSuite(service_wait, .init = setup, .timeout = 60);

Test(service_wait, what_fits_does_not_wait)
{
    for (size_t i = 0; i < 10; i++)
        io_drop(lease_by(rig.io, MIB, HEARTH_NO_WAIT, HEARTH_OK));
    io_drop(lease_by(rig.io, MIB, 1, HEARTH_OK)); /* a deadline long passed */
    io_drop(lease_by(rig.io, MIB, UINT64_MAX, HEARTH_OK));
    rig_close(&rig);
}

Test(service_wait, until_the_deadline)
{
    struct hearth_lease all = io_lease(rig.io, MIB);
    for (size_t i = 0; i < 3; i++) {
        uint64_t deadline = in_ms(60);
        (void)lease_by(rig.io, 100, deadline, HEARTH_TIMEOUT);
        cr_assert_geq(now_ns(), deadline);
        cr_assert_lt(now_ns(), deadline + 2000000000u);
        struct hearth_refusal refusal = refusal_of(rig.service);
        EXPECT_SIZE(128, refusal.asked_bytes);
        EXPECT_SIZE(MIB, refusal.live_bytes);
        EXPECT_SIZE(0, refusal.cancelled);
        EXPECT_SIZE(0, hearth_service_waiter_count(rig.service));
    }
    uint64_t began = now_ns();
    (void)lease_by(rig.io, 100, 1, HEARTH_TIMEOUT); /* passed already */
    cr_assert_lt(now_ns() - began, (uint64_t)500000000u);
    io_drop(all);
    rig_close(&rig);
}

Test(service_wait, what_never_waits)
{
    struct hearth_lease all = io_lease(rig.io, MIB), lease = HEARTH_LEASE_INIT;
    struct hearth_request request = {.size = 100, .deadline_ns = UINT64_MAX};
    struct hearth_buf *none = NULL;
    EXPECT(HEARTH_NO_MEMORY, hearth_io_alloc(rig.io, 100, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_io_lease(rig.io, 100, &lease));
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc(exec_of(rig.service), 100, &none));
    EXPECT(HEARTH_NO_MEMORY, hearth_exec_alloc_ex(exec_of(rig.service), &request, &none));
    (void)lease_by(rig.io, 100, HEARTH_NO_WAIT, HEARTH_NO_MEMORY);
    cr_assert_null(none);
    io_drop(all);
    rig_close(&rig);
}

/* Nothing can serve it, ever: waiting would not help, but it ends. */
Test(service_wait, for_more_than_the_limit)
{
    struct hearth_request request = {.size = MIB + 1, .deadline_ns = in_ms(100)};
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    enum hearth_status status = hearth_io_lease_ex(rig.io, &request, &lease);
    cr_assert(status == HEARTH_NO_MEMORY || status == HEARTH_TIMEOUT, "%s",
              hearth_status_name(status));
    rig_close(&rig);
}

enum way { RELEASE, FREE, EXEC_FREE, EXEC_FREE_REMOTE, RELEASE_ELSEWHERE };

static struct hearth_lease to_drop;

static void drop(void *unused)
{
    (void)unused;
    io_drop(to_drop);
}

static struct hearth_buf *to_free;

static void take_exec(void *unused)
{
    (void)unused;
    to_free = take(exec_of(rig.service), MIB);
}

static void woken_by(enum way way)
{
    struct asking asking;
    struct worker owner;
    struct hearth_buf *buf = NULL;
    worker_start(&owner);
    if (way == FREE)
        buf = io_take(rig.io, MIB);
    else if (way == EXEC_FREE)
        buf = take(exec_of(rig.service), MIB);
    else if (way == EXEC_FREE_REMOTE)
        worker_run(&owner, take_exec, NULL);
    else
        to_drop = io_lease(rig.io, MIB);
    ask_begin(rig.service, &asking, 200 * KIB, way % 2 ? UINT64_MAX : in_ms(20000));
    await_waiters(rig.service, 1);
    io_pause(20);
    uint64_t returned = now_ns();
    if (way == EXEC_FREE_REMOTE)
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(to_free), to_free));
    else if (buf)
        EXPECT(HEARTH_OK, hearth_free(hearth_buf_owner(buf), buf));
    else if (way == RELEASE_ELSEWHERE)
        on_thread(drop, NULL);
    else
        drop(NULL);
    worker_wait(&asking.worker);
    cr_assert_geq(asking.ended_ns, returned);
    cr_assert_lt(asking.ended_ns - returned, (uint64_t)2000000000u);
    EXPECT_SIZE(200 * KIB, hearth_lease_size(asking.lease));
    ask_end(&asking, HEARTH_OK);
    EXPECT_SIZE(0, hearth_service_waiter_count(rig.service));
    worker_end(&owner);
    rig_close(&rig);
}

Test(service_wait, woken_by_a_release)
{
    woken_by(RELEASE);
}

Test(service_wait, woken_by_a_free)
{
    woken_by(FREE);
}

Test(service_wait, woken_by_an_execution_buffer)
{
    woken_by(EXEC_FREE);
}

Test(service_wait, woken_by_a_return_to_another_threads_arena)
{
    woken_by(EXEC_FREE_REMOTE);
}

Test(service_wait, woken_by_a_thread_that_is_not_attached)
{
    woken_by(RELEASE_ELSEWHERE);
}

/* Small returns add up to what a large request waits for. */
Test(service_wait, until_enough_came_back)
{
    struct hearth_lease leases[16];
    struct asking asking;
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        leases[i] = io_lease(rig.io, 64 * KIB);
    ask_begin(rig.service, &asking, 640 * KIB, UINT64_MAX);
    await_waiters(rig.service, 1);
    for (size_t i = 0; i < 9; i++)
        io_drop(leases[i]);
    io_pause(30);
    EXPECT_SIZE(1, hearth_service_waiter_count(rig.service));
    io_drop(leases[9]);
    worker_wait(&asking.worker);
    EXPECT(HEARTH_OK, asking.status);
    for (size_t i = 10; i < 16; i++)
        io_drop(leases[i]);
    ask_end(&asking, HEARTH_OK);
    rig_close(&rig);
}

Test(service_wait, woken_by_a_higher_limit)
{
    struct asking asking;
    struct hearth_lease all = io_lease(rig.io, MIB);
    ask_begin(rig.service, &asking, 100 * KIB, UINT64_MAX);
    await_waiters(rig.service, 1);
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, 2 * MIB, 0));
    ask_end(&asking, HEARTH_OK);
    io_drop(all);
    rig_close(&rig);
}

Test(service_wait, the_close_wakes_all)
{
    struct asking asking[4];
    struct hearth_lease all = io_lease(rig.io, MIB);
    for (size_t i = 0; i < COUNT_OF(asking); i++) {
        ask_begin(rig.service, &asking[i], 100 * KIB, i % 2 ? UINT64_MAX : in_ms(30000));
        await_waiters(rig.service, i + 1);
    }
    EXPECT(HEARTH_OK, hearth_service_close(rig.service));
    for (size_t i = 0; i < COUNT_OF(asking); i++)
        ask_end(&asking[i], HEARTH_CLOSED);
    io_drop(all);
    rig_close(&rig);
}

Test(service_wait, in_the_order_of_asking)
{
    struct asking asking[5];
    struct hearth_lease leases[4];
    for (size_t i = 0; i < COUNT_OF(leases); i++)
        leases[i] = io_lease(rig.io, 256 * KIB);
    for (size_t i = 0; i < COUNT_OF(asking); i++) {
        ask_begin(rig.service, &asking[i], 256 * KIB, UINT64_MAX);
        await_waiters(rig.service, i + 1);
    }
    for (size_t i = 0; i < COUNT_OF(asking); i++) {
        if (i < COUNT_OF(leases))
            io_drop(leases[i]);
        else
            io_drop(asking[0].lease);
        await_waiters(rig.service, COUNT_OF(asking) - i - 1);
        worker_wait(&asking[i].worker);
        EXPECT(HEARTH_OK, asking[i].status);
    }
    worker_end(&asking[0].worker);
    for (size_t i = 1; i < COUNT_OF(asking); i++)
        ask_end(&asking[i], HEARTH_OK);
    rig_close(&rig);
}

/* A small request goes before a large one that does not fit, but not for ever. */
Test(service_wait, a_large_request_is_not_starved)
{
    enum { SMALL = 64 };
    struct asking large;
    struct hearth_lease leases[16];
    size_t bypassed = 0;
    for (size_t i = 0; i < 16; i++)
        leases[i] = io_lease(rig.io, 64 * KIB);
    ask_begin(rig.service, &large, 512 * KIB, UINT64_MAX);
    await_waiters(rig.service, 1);
    /* Others take what comes back, again and again; each return is of an eighth of what is asked. */
    for (size_t i = 0; i < 20000 && hearth_service_waiter_count(rig.service); i++) {
        struct hearth_request request = {.size = 64 * KIB, .deadline_ns = in_ms(1)};
        struct hearth_lease again = HEARTH_LEASE_INIT;
        if (leases[i % 16].buf)
            io_drop(leases[i % 16]);
        enum hearth_status status = hearth_io_lease_ex(rig.io, &request, &again);
        bypassed += status == HEARTH_OK;
        leases[i % 16] = again;
    }
    cr_assert_eq(hearth_service_waiter_count(rig.service), 0u, "bypassed %zu times", bypassed);
    for (size_t i = 0; i < 16; i++) {
        if (leases[i].buf)
            io_drop(leases[i]);
    }
    ask_end(&large, HEARTH_OK);
    rig_close(&rig);
}

/* The reserve serves a waiting request of high priority while normal ones wait on. */
Test(service_wait, priority)
{
    struct asking normal, high;
    EXPECT(HEARTH_OK, hearth_service_set_live_limit(rig.service, MIB, 256 * KIB));
    struct hearth_lease lease = io_lease(rig.io, 768 * KIB);
    struct hearth_request request = {.size = 256 * KIB, .priority = HEARTH_PRIORITY_HIGH};
    struct hearth_lease reserve = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_lease_ex(rig.io, &request, &reserve));
    ask_begin(rig.service, &normal, 256 * KIB, UINT64_MAX);
    await_waiters(rig.service, 1);
    high = (struct asking){.service = rig.service,
                           .size = 256 * KIB,
                           .deadline_ns = UINT64_MAX,
                           .priority = HEARTH_PRIORITY_HIGH};
    worker_start(&high.worker);
    worker_begin(&high.worker, ask, &high);
    await_waiters(rig.service, 2);
    io_drop(reserve);
    worker_wait(&high.worker);
    EXPECT(HEARTH_OK, high.status);
    EXPECT_SIZE(1, hearth_service_waiter_count(rig.service));
    io_drop(lease);
    ask_end(&normal, HEARTH_OK);
    ask_end(&high, HEARTH_OK);
    rig_close(&rig);
}

static void ask_for_four(void *argument)
{
    struct asking *asking = argument;
    struct hearth_request request = {.size = 128 * KIB, .deadline_ns = asking->deadline_ns};
    struct hearth_lease leases[4] = {{NULL, 0}};
    asking->status = hearth_service_lease_bulk(rig.service, &request, 4, leases);
    if (asking->status == HEARTH_OK)
        (void)hearth_lease_release_bulk(leases, 4, NULL);
}

/* A bulk request waits for all of its buffers, and holds none meanwhile. */
Test(service_wait, for_many_together)
{
    struct asking asking = {.deadline_ns = UINT64_MAX};
    struct hearth_lease leases[8];
    for (size_t i = 0; i < 8; i++)
        leases[i] = io_lease(rig.io, 128 * KIB);
    worker_start(&asking.worker);
    worker_begin(&asking.worker, ask_for_four, &asking);
    await_waiters(rig.service, 1);
    for (size_t i = 0; i < 3; i++) {
        io_drop(leases[i]);
        io_pause(10);
        EXPECT_SIZE(1, hearth_service_waiter_count(rig.service));
        EXPECT_SIZE((7 - i) * 128 * KIB, hearth_service_live_capacity(rig.service));
    }
    io_drop(leases[3]);
    worker_wait(&asking.worker);
    EXPECT(HEARTH_OK, asking.status);
    struct hearth_lease more = io_lease(rig.io, 512 * KIB);
    asking.deadline_ns = in_ms(50);
    worker_run(&asking.worker, ask_for_four, &asking);
    EXPECT(HEARTH_TIMEOUT, asking.status);
    io_drop(more);
    for (size_t i = 4; i < 8; i++)
        io_drop(leases[i]);
    worker_end(&asking.worker);
    rig_close(&rig);
}
