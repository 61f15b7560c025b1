/* SPDX-License-Identifier: Apache-2.0 */
/* Every acquire of a scenario refused in turn, once and for good: the answers are OK or NO_MEMORY, a
 * refusal changes nothing, and in the end everything is given back. Not covered: the kernel refusing
 * memory for metadata. */
#include "core/backing.h"
#include "support.h"

#define SLOTS 24

struct scenario {
    struct hearth_exec *arena;
    struct hearth_buf *held[SLOTS];
    size_t sizes[SLOTS];
    unsigned seeds[SLOTS];
    size_t refusals;
    size_t audited; /* refusals when the contents were last looked at as a whole */
};

static size_t held_count(const struct scenario *scenario)
{
    size_t count = 0;
    for (size_t i = 0; i < SLOTS; i++)
        count += scenario->held[i] != NULL;
    return count;
}

/* The scenario's own books against the arena's figures; after a refusal all contents included. */
static void audit(struct scenario *scenario)
{
    size_t bytes = 0;
    size_t look = scenario->audited == scenario->refusals ? 256 : SIZE_MAX;
    scenario->audited = scenario->refusals;
    for (size_t i = 0; i < SLOTS; i++) {
        struct hearth_buf *found = NULL;
        if (scenario->held[i] == NULL)
            continue;
        bytes += scenario->sizes[i];
        void *data = hearth_buf_data(scenario->held[i]);
        assert_size(hearth_buf_size(scenario->held[i]), scenario->sizes[i]);
        size_t bytes_seen = scenario->sizes[i] < look ? scenario->sizes[i] : look;
        cr_assert(pattern_holds(data, bytes_seen, scenario->seeds[i]), "buffer %zu", i);
        assert_ok(hearth_buf_of(data, &found));
        cr_assert_eq(found, scenario->held[i]);
    }
    assert_size(hearth_exec_live_count(scenario->arena), held_count(scenario));
    assert_size(hearth_exec_live_bytes(scenario->arena), bytes);
    assert_sound(scenario->arena);
}

static bool answered(struct scenario *scenario, enum hearth_status status)
{
    cr_assert(status == HEARTH_OK || status == HEARTH_NO_MEMORY, "%s", hearth_status_name(status));
    scenario->refusals += status != HEARTH_OK;
    return status == HEARTH_OK;
}

static void take(struct scenario *scenario, size_t i, size_t size, size_t alignment)
{
    const struct hearth_request request = {.size = size, .alignment = alignment};
    struct hearth_buf *buf = NULL;
    if (answered(scenario, hearth_exec_alloc_ex(scenario->arena, &request, &buf))) {
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
        scenario->held[i] = buf;
        scenario->sizes[i] = size;
        scenario->seeds[i] = (unsigned)(i + size);
        pattern_write(hearth_buf_data(buf), size, scenario->seeds[i]);
    } else {
        cr_assert_null(buf);
    }
    audit(scenario);
}

static void give(struct scenario *scenario, size_t i)
{
    if (scenario->held[i] != NULL) {
        const void *data = hearth_buf_data(scenario->held[i]);
        cr_assert(pattern_holds(data, scenario->sizes[i], scenario->seeds[i]));
        assert_ok(hearth_exec_free(scenario->arena, scenario->held[i]));
    }
    scenario->held[i] = NULL;
    audit(scenario);
}

static void grow(struct scenario *scenario, size_t i, size_t size)
{
    if (scenario->held[i] == NULL)
        return;
    size_t old = scenario->sizes[i];
    if (answered(scenario, hearth_buf_resize_keep(scenario->held[i], size))) {
        void *data = hearth_buf_data(scenario->held[i]);
        cr_assert(pattern_holds(data, old < size ? old : size, scenario->seeds[i]));
        scenario->sizes[i] = size;
        pattern_write(data, size, scenario->seeds[i]);
    }
    audit(scenario);
}

static void different_sizes_and_alignments(struct scenario *scenario)
{
    static const size_t sizes[] = {0, 1, 5000, 40 * KIB, 150 * KIB, 2 * MIB + 1};
    static const size_t alignments[] = {64, 4096, 64 * KIB};
    for (size_t i = 0; i < COUNT_OF(sizes) * COUNT_OF(alignments); i++)
        take(scenario, i, sizes[i % COUNT_OF(sizes)], alignments[i / COUNT_OF(sizes)]);
}

static void growing(struct scenario *scenario)
{
    give(scenario, 2);
    give(scenario, 10);
    for (size_t i = 0; i < 9; i += 2)
        grow(scenario, i, 40 * KIB * (i + 1));
    grow(scenario, 4, 10);
    grow(scenario, 13, 9 * KIB);
}

static void caps(struct scenario *scenario)
{
    assert_ok(hearth_exec_set_retention_cap(scenario->arena, 64 * KIB));
    audit(scenario);
    give(scenario, 5); /* beyond the cap */
    give(scenario, 3);
    give(scenario, 9);
    give(scenario, 0);
    take(scenario, 0, 20 * KIB, 64);
    assert_ok(hearth_exec_set_retention_cap(scenario->arena, HEARTH_UNBOUNDED));
    size_t released = 0;
    give(scenario, 1);
    assert_ok(hearth_exec_trim(scenario->arena, &released));
    audit(scenario);
    assert_size(hearth_exec_retained_bytes(scenario->arena), 0);
}

/* Fill every slot with small buffers, free some, and ask for large ones: they have to grow; with all
 * slots live, a resize has to do without a slot. */
static void out_of_slots(struct scenario *scenario)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (scenario->held[i] == NULL)
            take(scenario, i, 100 + i, 64);
    }
    for (size_t i = 18; i < 22; i++)
        give(scenario, i);
    take(scenario, 18, 200 * KIB, 64);
    take(scenario, 19, 2 * MIB, 64 * KIB);
    take(scenario, 20, 50, 4096);
    take(scenario, 21, 70 * KIB, 64);
    grow(scenario, 22, 500 * KIB);
    grow(scenario, 23, 64 * KIB);
}

static void run(struct scenario *scenario, struct hearth_backing *backing)
{
    *scenario = (struct scenario){.arena = exec_open(backing, SLOTS, 0)};
    different_sizes_and_alignments(scenario);
    growing(scenario);
    caps(scenario);
    out_of_slots(scenario);
    for (size_t i = 0; i < SLOTS; i++)
        give(scenario, i);
    assert_ok(hearth_exec_destroy(scenario->arena));
}

static void assert_all_given_back(const struct hearth_backing *backing)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    assert_ok(hearth_backing_stats(backing, &stats));
    assert_size(hearth_backing_footprint(backing), 0);
    cr_assert_eq(stats.acquired_bytes, stats.released_bytes);
    cr_assert_eq(stats.mapped_bytes, stats.unmapped_bytes);
}

/* Refuse `count` acquires from the nth on, for every n that the scenario reaches. */
static void sweep(uint64_t count, size_t least_rounds)
{
    struct hearth_backing *inner = mmap_open();
    struct hearth_backing *backing = NULL;
    uint64_t nth = 1;
    size_t refused_rounds = 0;
    misuse_record();
    assert_ok(hearth_backing_create_failing(inner, &backing));
    for (bool reached = true; reached; nth++) {
        struct scenario scenario;
        struct hearth_backing_stats before = HEARTH_BACKING_STATS_INIT;
        struct hearth_backing_stats after = HEARTH_BACKING_STATS_INIT;
        assert_ok(hearth_backing_stats(backing, &before));
        assert_ok(hearth_backing_fail(backing, nth, count));
        run(&scenario, backing);
        assert_ok(hearth_backing_stats(backing, &after));
        assert_all_given_back(backing);
        reached = after.acquire_failures > before.acquire_failures;
        refused_rounds += scenario.refusals > 0;
        cr_assert(reached || scenario.refusals == 0);
    }
    cr_assert_geq(nth, least_rounds, "the scenario made only %zu acquires", (size_t)nth);
    cr_assert_geq(refused_rounds, 10, "refusals must reach the caller");
    assert_size(misuse_seen.count, 0);
    hearth_backing_unref(backing);
    assert_all_given_back(inner);
    hearth_backing_unref(inner);
}

Test(failure_sweep, one_refusal, .timeout = 200)
{
    sweep(1, 30);
}

Test(failure_sweep, two_refusals_so_that_the_second_try_fails_too, .timeout = 200)
{
    sweep(2, 30);
}

Test(failure_sweep, refusals_from_there_on, .timeout = 200)
{
    sweep(UINT64_MAX, 30);
}

/* The simple allocator has no second try: each refusal is answered. */
Test(failure_sweep, simple)
{
    struct hearth_backing *inner = mmap_open();
    struct hearth_backing *backing = NULL;
    assert_ok(hearth_backing_create_failing(inner, &backing));
    for (uint64_t nth = 1; nth <= 5; nth++) {
        struct hearth_simple *simple = NULL;
        struct hearth_buf *bufs[4] = {NULL, NULL, NULL, NULL};
        assert_ok(hearth_simple_create_on(backing, 4, &simple));
        struct hearth_allocator *allocator = hearth_simple_allocator(simple);
        assert_ok(hearth_backing_fail(backing, nth, 1));
        for (size_t i = 0; i < COUNT_OF(bufs); i++) {
            enum hearth_status expected = nth == i + 1 ? HEARTH_NO_MEMORY : HEARTH_OK;
            assert_status(hearth_alloc(allocator, 1000 * i, &bufs[i]), expected);
        }
        assert_size(hearth_simple_live_count(simple), nth <= 4 ? 3 : 4);
        if (nth == 5) {
            assert_status(hearth_buf_resize_keep(bufs[0], 9000), HEARTH_NO_MEMORY);
            assert_size(hearth_buf_size(bufs[0]), 0);
        }
        for (size_t i = 0; i < COUNT_OF(bufs); i++) {
            if (bufs[i] != NULL)
                assert_ok(hearth_free(allocator, bufs[i]));
        }
        assert_ok(hearth_simple_destroy(simple));
        assert_all_given_back(backing);
    }
    hearth_backing_unref(backing);
    hearth_backing_unref(inner);
}
