/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas with plans where something is out of the ordinary: found in a review, each with what went wrong. */
#include "concurrent/exec_plan.h"
#include "concurrent/service.h"

#include "support.h"

#include <hearth/io.h>
#include <hearth/service.h>

#include <criterion/criterion.h>

#define RUN 20u

static struct hearth_service *service_open(size_t live_limit, size_t ceiling)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    struct hearth_backing *backing = mmap_open();
    struct hearth_service *service;
    options.exec_store = HEARTH_EXEC_STORE_PLANS;
    options.flags = HEARTH_SERVICE_NO_THREAD;
    options.live_limit = live_limit;
    options.ceiling = ceiling;
    options.grant = ceiling == 0 ? 0 : 64 * KIB;
    options.exec_backing = backing;
    options.io_backing = backing;
    assert_ok(hearth_service_create(&options, &service));
    hearth_backing_unref(backing);
    return service;
}

static struct hearth_exec *own_arena(struct hearth_service *service)
{
    struct hearth_exec *arena;
    assert_ok(hearth_service_exec(service, &arena));
    return arena;
}

static struct hearth_exec *arena_open(struct hearth_backing *backing, size_t slots, size_t cap)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena;
    options.store = HEARTH_EXEC_STORE_PLANS;
    options.backing = backing;
    options.slots = slots;
    options.retention_cap = cap;
    assert_ok(hearth_exec_create(&options, &arena));
    return arena;
}

/* `count` buffers, all of them live before the first one is returned. */
static void pile(struct hearth_exec *arena, size_t count, size_t size)
{
    struct hearth_buf *bufs[512];
    cr_assert_leq(count, COUNT_OF(bufs));
    for (size_t i = 0; i < count; i++)
        bufs[i] = exec_take(arena, size);
    for (size_t i = 0; i < count; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
}

static void learn(struct hearth_exec *arena, size_t count, size_t size)
{
    uint64_t hits = hearth__load_relaxed(&arena->cells.plan_hits);
    for (unsigned i = 0; i < 3; i++)
        pile(arena, count, size);
    cr_assert_geq(hearth__load_relaxed(&arena->cells.plan_hits) - hits, count);
}

/* The difference to what was reserved wrapped, and lifted the limit. */
Test(exec_plan_faults, a_small_request_at_a_large_place_is_within_the_limit)
{
    struct hearth_service *service = service_open(MIB, 0);
    struct hearth_exec *arena = own_arena(service);
    struct hearth_buf *more;
    learn(arena, RUN, 8000);
    struct hearth_buf *first = exec_take(arena, 8000);
    struct hearth_buf *smaller = exec_take(arena, 4100);
    assert_size(hearth__budget_live_capacity(&service->budget), hearth_exec_live_capacity(arena));
    assert_status(hearth_exec_alloc(arena, MIB, &more), HEARTH_NO_MEMORY);
    assert_ok(hearth_exec_free(arena, first));
    assert_ok(hearth_exec_free(arena, smaller));
    assert_size(hearth__budget_live_capacity(&service->budget), 0);
    assert_ok(hearth_exec_alloc(arena, MIB, &more));
    assert_ok(hearth_exec_free(arena, more));
    hearth_service_unref(service);
}

/* The mark beside the alignment led beyond the I/O arena's lists. */
Test(exec_plan_faults, a_moved_place_is_taken_by_an_arena_with_aligned_lists)
{
    struct hearth_service *service = service_open(0, 0);
    struct hearth_exec *arena = own_arena(service);
    struct hearth_buf *taken;
    assert_ok(hearth_exec_free(arena, exec_take_aligned(arena, 5000, 4096)));
    learn(arena, RUN, 8000);
    struct hearth_buf *buf = exec_take(arena, 8000);
    cr_assert(hearth__is_in_place(buf));
    assert_ok(hearth_buf_resize(buf, 20000));
    cr_assert(hearth__is_place(buf) && !hearth__is_in_place(buf));
    assert_ok(hearth_io_take(hearth_service_io(service), buf, &taken));
    assert_ok(hearth_io_free(hearth_service_io(service), taken));
    assert_sound(arena);
    hearth_service_unref(service);
}

static void learn_and_go_on_with_short_runs(void *argument)
{
    struct hearth_exec *arena = own_arena(argument);
    learn(arena, RUN, 64 * KIB);
    for (unsigned i = 0; i < 71; i++) /* enough for them not to be recorded any more */
        assert_ok(hearth_exec_free(arena, exec_take(arena, 100)));
}

/* The arena kept the book for a run that did not need it; no trim got at the slab. */
Test(exec_plan_faults, a_slab_is_within_reach_after_short_runs)
{
    struct hearth_service *service = service_open(0, 0);
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    on_thread(learn_and_go_on_with_short_runs, service);
    assert_ok(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report));
    assert_size(hearth_service_retained_bytes(service), 0);
    learn_and_go_on_with_short_runs(service);
    assert_ok(hearth_service_trim(service, HEARTH_UNBOUNDED, 0, &report));
    assert_size(hearth_service_retained_bytes(service), 0);
    hearth_service_unref(service);
}

/* The lists' credit was still charged when the slab's was asked for. */
Test(exec_plan_faults, the_first_slab_is_kept_below_the_ceiling)
{
    const size_t slab = (size_t)RUN * 64 * KIB;
    struct hearth_service *service = service_open(0, slab * 3 / 2);
    struct hearth_exec *arena = own_arena(service);
    pile(arena, RUN, 64 * KIB);
    pile(arena, RUN, 64 * KIB);
    assert_size(hearth__books_idle_bytes(&service->books), slab);
    cr_assert_leq(hearth_service_stranded_bytes(service), service->budget.grant);
    hearth_service_unref(service);
}

/* Each second run of a kind was planned again. */
Test(exec_plan_faults, what_has_no_place_is_planned_once)
{
    struct hearth_backing *backing = mmap_open();
    struct hearth_exec *few = arena_open(backing, 600, 0);
    for (unsigned i = 0; i < 50; i++)
        pile(few, 400, 4096);
    cr_assert_leq(hearth__load_relaxed(&few->cells.plans_made), 2);
    struct hearth_exec *capped = arena_open(backing, 0, 400 * 4096 - 1);
    learn(capped, RUN, 512);
    for (unsigned i = 0; i < 50; i++)
        pile(capped, 400, 4096);
    cr_assert_leq(hearth__load_relaxed(&capped->cells.plans_made), 3);
    struct hearth_exec *holding = arena_open(backing, 0, 0);
    learn(holding, RUN, 512);
    struct hearth_buf *kept = exec_take(holding, 512);
    assert_ok(hearth_exec_run_end(holding));
    for (unsigned i = 0; i < 50; i++) {
        pile(holding, 400, 4096);
        assert_ok(hearth_exec_run_end(holding));
    }
    cr_assert_leq(hearth__load_relaxed(&holding->cells.plans_made), 3);
    assert_ok(hearth_exec_free(holding, kept));
    assert_ok(hearth_exec_destroy(few));
    assert_ok(hearth_exec_destroy(capped));
    assert_ok(hearth_exec_destroy(holding));
    hearth_backing_unref(backing);
}

/* In a forked child the book may be lost with places live: counted twice when others returned them, and not at all
 * once there was another book. */
Test(exec_plan_faults, places_of_a_lost_book_come_home)
{
    struct hearth_backing *backing = mmap_open();
    struct hearth_exec *arena = arena_open(backing, 0, 0);
    struct hearth_buf *bufs[RUN];
    learn(arena, RUN, 4096);
    for (size_t i = 0; i < RUN; i++)
        bufs[i] = exec_take(arena, 4096);
    hearth__exec_lose(arena, true, true);
    assert_ok(hearth_exec_free(arena, bufs[0]));
    assert_sound(arena);
    free_elsewhere(arena, &bufs[1], 1);
    assert_ok(hearth_exec_reset_peak(arena));
    assert_sound(arena);
    struct hearth_buf *other = exec_take(arena, 100); /* with another book from here on */
    assert_ok(hearth_exec_free(arena, bufs[2]));
    assert_sound(arena);
    for (size_t i = 3; i < RUN; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    assert_ok(hearth_exec_free(arena, other));
    assert_sound(arena);
    /* What is lost stays lost: the arena is not ended. */
}

/* A run that waited to be over was planned, and its slab obtained, to be given back at once. */
Test(exec_plan_faults, the_end_obtains_nothing)
{
    struct lender lender;
    struct hearth_backing *backing = lender_open(&lender);
    struct hearth_exec *arena = arena_open(backing, 0, 0);
    struct hearth_buf *bufs[RUN];
    pile(arena, RUN, 4096);
    for (size_t i = 0; i < RUN; i++)
        bufs[i] = exec_take(arena, 4096);
    for (size_t i = 1; i < RUN; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    free_elsewhere(arena, &bufs[0], 1);
    size_t acquires = lender.acquires;
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.acquires, acquires);
    hearth_backing_unref(backing);
}

/* Recorded up to where it is too long, at each run again. */
Test(exec_plan_faults, runs_that_are_too_long_are_not_recorded_for_ever)
{
    struct hearth_backing *backing = mmap_open();
    struct hearth_exec *arena = arena_open(backing, 0, 0);
    unsigned recorded = 0;
    for (unsigned i = 0; i < 40; i++) {
        struct hearth_buf *first = exec_take(arena, 64);
        recorded += arena->run.mode == HEARTH__RUN_RECORD;
        for (unsigned k = 0; k < HEARTH__RUN_MOST + 10; k++)
            assert_ok(hearth_exec_free(arena, exec_take(arena, 4096)));
        assert_ok(hearth_exec_free(arena, first));
    }
    cr_assert_leq(recorded, 24);
    assert_ok(hearth_exec_destroy(arena));
    hearth_backing_unref(backing);
}

/* The lists were emptied for a plan, and what they are to keep came back the other way round. */
Test(exec_plan_faults, aligned_storage_keeps_its_order_when_a_plan_is_made)
{
    struct hearth_backing *backing = mmap_open();
    struct hearth_exec *arena = arena_open(backing, 0, 0);
    struct hearth_buf *bufs[4];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take_aligned(arena, 5000, 4096);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    learn(arena, RUN, 512);
    uint64_t oldest = hearth__load_relaxed(&bufs[0]->stamp);
    assert_size(arena->store->ops->oldest(arena->store), oldest);
    assert_ok(hearth_exec_destroy(arena));
    hearth_backing_unref(backing);
}

/* Numbers of runs and generations of places are used up. */
Test(exec_plan_faults, numbers_and_generations_end)
{
    struct hearth_backing *backing = mmap_open();
    struct hearth_exec *arena = arena_open(backing, 0, 0);
    struct hearth_buf *bufs[RUN];
    learn(arena, RUN, 4096);
    arena->run.book->number = UINT32_MAX - 1;
    for (size_t i = 0; i < RUN; i++)
        bufs[i] = exec_take(arena, 4096);
    for (size_t i = 1; i < RUN; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    assert_ok(hearth_exec_run_end(arena));
    pile(arena, RUN, 4096); /* there is no number as long as something of before is live */
    assert_ok(hearth_exec_run_end(arena));
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, bufs[0]));
    assert_ok(hearth_exec_run_end(arena));
    pile(arena, RUN, 4096);
    assert_sound(arena);
    for (size_t i = 0; i < RUN; i++) {
        bufs[i] = exec_take(arena, 4096);
        cr_assert(hearth__is_in_place(bufs[i]));
        hearth__store_relaxed(&bufs[i]->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__LIVE));
    }
    for (size_t i = 0; i < RUN; i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    assert_sound(arena);
    for (size_t i = 0; i < RUN; i++) {
        struct hearth_buf *buf = exec_take(arena, 4096);
        for (size_t k = 0; k < RUN; k++)
            cr_assert_neq(buf, bufs[k]);
        assert_ok(hearth_exec_free(arena, buf));
    }
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_sound(arena);
    assert_ok(hearth_exec_destroy(arena));
    hearth_backing_unref(backing);
}
