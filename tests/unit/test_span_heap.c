/* SPDX-License-Identifier: Apache-2.0 */
/* Spans on a backing: growth, rearrangement, cap, age, trim, every failure, and recorded runs. */
#include "core/span_heap.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lender lender;
static struct hearth_backing *backing;
static struct hearth__span_heap heap;

static void open_heap(size_t cap)
{
    backing = lender_open(&lender);
    lender.flags = HEARTH_SEGMENT_ZERO;
    assert_ok(hearth__span_heap_init(&heap, backing, cap));
}

static void start(void)
{
    open_heap(SIZE_MAX);
}

static void assert_rules(void)
{
    const char *violated = hearth__spans_check(heap.spans);
    cr_assert_null(violated, "%s", violated);
    assert_size(heap.spans->segment_bytes, lender.lent);
    assert_size(heap.obtained_bytes - heap.given_bytes, lender.lent);
    assert_size(heap.spans->lent_bytes + heap.spans->free_bytes, lender.lent);
    assert_size(lender.wrong_cookies, 0);
}

static void finish(void)
{
    assert_rules();
    hearth__span_heap_fini(&heap);
    assert_size(lender.lent, 0);
    hearth_backing_unref(backing);
}

static struct hearth__span *take(size_t bytes)
{
    struct hearth__span *span = NULL;
    assert_ok(hearth__span_heap_take(&heap, bytes, 6, &span));
    assert_rules();
    return span;
}

static void give(struct hearth__span *span)
{
    hearth__span_heap_give(&heap, span);
    assert_rules();
}

Test(span_heap, a_second_run_needs_one_segment_and_a_third_nothing, .init = start)
{
    for (unsigned run = 0; run < 4; run++) {
        struct hearth__span *spans[6];
        size_t acquires = lender.acquires;
        for (unsigned i = 0; i < COUNT_OF(spans); i++)
            spans[i] = take((i + 1) * 300 * KIB);
        for (unsigned i = 0; i < COUNT_OF(spans); i++)
            give(spans[i]);
        if (run == 1)
            assert_size(lender.acquires - acquires, 1);
        if (run > 1)
            assert_size(lender.acquires - acquires, 0);
    }
    assert_size(heap.rearranged_count, 1);
    assert_size(heap.spans->segment_count, 1);
    finish();
}

Test(span_heap, a_large_request_gets_a_segment_of_its_own, .init = start)
{
    struct hearth__span *small = take(64 * KIB);
    struct hearth__span *large = take(100 * MIB);
    assert_size(large->length, 100 * MIB);
    assert_size(heap.spans->segment_count, 2);
    give(large);
    assert_size(hearth__span_heap_trim(&heap, UINT64_MAX, SIZE_MAX), 100 * MIB);
    assert_rules();
    give(small);
    finish();
}

Test(span_heap, alignment_is_the_segments_too, .init = start)
{
    struct hearth__span *span = NULL;
    for (unsigned log = 6; log <= 21; log++) {
        for (size_t bytes = 40 * KIB; bytes < 4 * MIB; bytes *= 3) {
            size_t before = lender.acquires;
            assert_ok(hearth__span_heap_take(&heap, bytes, log, &span));
            cr_assert_eq((uintptr_t)span->base % ((size_t)1 << log), 0);
            assert_rules();
            cr_assert_leq(lender.acquires, before + 1);
            give(span);
        }
    }
    finish();
}

Test(span_heap, impossible_requests_change_nothing, .init = start)
{
    struct hearth__span *span = NULL;
    assert_status(hearth__span_heap_take(&heap, 0, 6, &span), HEARTH_NO_MEMORY);
    assert_status(hearth__span_heap_take(&heap, HEARTH__HELD_MAX, 6, &span), HEARTH_NO_MEMORY);
    assert_status(hearth__span_heap_take(&heap, SIZE_MAX, 6, &span), HEARTH_NO_MEMORY);
    cr_assert_null(span);
    assert_size(lender.acquires, 0);
    finish();
}

Test(span_heap, what_is_refused_as_a_large_segment_is_asked_for_alone, .init = start)
{
    struct hearth__span *a = take(8 * MIB);
    lender.budget = lender.lent + 300 * KIB;
    struct hearth__span *b = take(300 * KIB);
    assert_size(b->length, 300 * KIB);
    struct hearth__span *none = NULL;
    assert_status(hearth__span_heap_take(&heap, 300 * KIB, 6, &none), HEARTH_NO_MEMORY);
    cr_assert_null(none);
    assert_rules();
    give(b);
    b = take(300 * KIB);
    give(b);
    give(a);
    finish();
}

/* One scenario with each call to the backing failing in turn. */
Test(span_heap, every_failure_of_the_backing)
{
    for (uint64_t nth = 1;; nth++) {
        struct hearth_backing *failing = NULL;
        struct hearth__span *spans[8] = {NULL};
        struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
        backing = lender_open(&lender);
        assert_ok(hearth_backing_create_failing(backing, &failing));
        assert_ok(hearth_backing_fail(failing, nth, 2)); /* the large try and the small one */
        assert_ok(hearth__span_heap_init(&heap, failing, 4 * MIB));
        unsigned refused = 0;
        for (unsigned run = 0; run < 3; run++) {
            for (unsigned i = 0; i < COUNT_OF(spans); i++) {
                spans[i] = NULL;
                refused +=
                    hearth__span_heap_take(&heap, (i + 1) * 100 * KIB, 6, &spans[i]) != HEARTH_OK;
                assert_rules();
            }
            for (unsigned i = 0; i < COUNT_OF(spans); i++) {
                if (spans[i] != NULL)
                    give(spans[i]);
            }
        }
        assert_ok(hearth_backing_stats(failing, &stats));
        hearth__span_heap_fini(&heap);
        assert_size(lender.lent, 0);
        hearth_backing_unref(failing);
        hearth_backing_unref(backing);
        cr_assert_leq(refused, 1);
        if (stats.acquire_failures == 0)
            break;
    }
}

Test(span_heap, the_cap_is_kept_by_pages_and_segments)
{
    open_heap(MIB);
    struct hearth__span *spans[8];
    for (unsigned i = 0; i < COUNT_OF(spans); i++)
        spans[i] = take(256 * KIB);
    for (unsigned i = 0; i < COUNT_OF(spans); i++) {
        give(spans[i]);
        cr_assert_leq(heap.spans->warm_bytes, MIB);
    }
    cr_assert_gt(heap.evictions, 0);
    hearth__span_heap_set_cap(&heap, 300 * KIB);
    assert_rules();
    cr_assert_leq(heap.spans->warm_bytes, 300 * KIB);
    hearth__span_heap_set_cap(&heap, 0);
    assert_rules();
    assert_size(heap.spans->warm_bytes, 0);
    finish();
}

Test(span_heap, the_cap_holds_where_pages_stay)
{
    struct hearth_backing *plain = NULL;
    hearth_backing_unref(lender_open(&lender));
    lender.ops.discard = NULL;
    assert_ok(hearth_backing_create(&lender.ops, &lender, &plain));
    backing = plain;
    assert_ok(hearth__span_heap_init(&heap, backing, MIB));
    struct hearth__span *spans[16];
    for (unsigned i = 0; i < COUNT_OF(spans); i++)
        spans[i] = take(256 * KIB);
    for (unsigned i = 0; i < COUNT_OF(spans); i++)
        give(spans[i]);
    cr_assert_leq(heap.spans->warm_bytes, MIB);
    assert_size(heap.purged_bytes, 0);
    finish();
}

Test(span_heap, larger_than_the_cap_bypasses_and_evicts_nobody)
{
    open_heap(2 * MIB);
    struct hearth__span *kept = take(MIB);
    struct hearth__span *wall = take(64 * KIB);
    struct hearth__span *large = take(16 * MIB);
    give(kept);
    size_t warm = heap.spans->warm_bytes;
    give(large);
    assert_size(heap.spans->warm_bytes, warm);
    assert_size(heap.evictions, 0);
    give(wall);
    finish();
}

Test(span_heap, age_gives_back_what_was_freed_before, .init = start)
{
    struct hearth__span *wall = take(8 * KIB);
    struct hearth__span *old = take(100 * KIB);
    struct hearth__span *wall2 = take(8 * KIB);
    struct hearth__span *young = take(64 * KIB);
    give(old);
    uint64_t before = heap.clock;
    assert_size(hearth__span_heap_trim(&heap, before - 1, SIZE_MAX), 0);
    give(young);
    /* Pages that are all its own: it begins and ends in others'. */
    size_t released = hearth__span_heap_trim(&heap, before, SIZE_MAX);
    cr_assert_geq(released, 96 * KIB);
    cr_assert_leq(released, 100 * KIB);
    assert_size(heap.purged_bytes, released);
    cr_assert_geq(heap.spans->warm_bytes, 64 * KIB);
    assert_rules();
    give(wall);
    give(wall2);
    finish();
}

Test(span_heap, trim_takes_segments_then_pages_up_to_a_goal, .init = start)
{
    struct hearth__span *first = take(MIB);
    struct hearth__span *second = take(8 * MIB);
    struct hearth__span *wall = take(64 * KIB);
    struct hearth__span *third = take(256 * KIB);
    give(second);
    give(third);
    assert_size(hearth__span_heap_trim(&heap, UINT64_MAX, 1), 8 * MIB);
    assert_rules();
    assert_size(heap.purged_bytes, 0);
    size_t released = hearth__span_heap_trim(&heap, UINT64_MAX, 64 * KIB);
    assert_size(released, 64 * KIB);
    released = hearth__span_heap_trim(&heap, UINT64_MAX, SIZE_MAX);
    cr_assert_geq(released, 188 * KIB);
    assert_size(hearth__span_heap_trim(&heap, UINT64_MAX, SIZE_MAX), 0);
    assert_rules();
    give(first);
    give(wall);
    assert_size(lender.lent, 0); /* it lay in two segments */
    finish();
}

/* Recorded runs. */

struct event {
    unsigned run;
    bool is_alloc;
    size_t id, bytes;
};

#define EVENTS_MOST 10000u
#define IDS_MOST 8192u
#define LARGE (32 * KIB)

static struct event events[EVENTS_MOST];
static size_t event_count;
static bool is_export[IDS_MOST];

static void read_trace(const char *name)
{
    char path[4096];
    char line[256];
    (void)snprintf(path, sizeof path, "%s/traces/%s.csv", HEARTH_TEST_DATA, name);
    FILE *file = fopen(path, "re");
    cr_assert_not_null(file, "%s", path);
    event_count = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = line;
        char *fields[4] = {NULL};
        for (unsigned i = 0; i < COUNT_OF(fields); i++)
            fields[i] = strsep(&rest, ",");
        cr_assert_not_null(fields[3]);
        if (strcmp(fields[0], "run") == 0)
            continue;
        size_t id = strtoull(fields[2], NULL, 10);
        cr_assert_lt(id, IDS_MOST);
        if (strcmp(fields[1], "export") == 0) {
            is_export[id] = true;
            continue;
        }
        cr_assert_lt(event_count, EVENTS_MOST);
        events[event_count++] = (struct event){
            .run = (unsigned)strtoul(fields[0], NULL, 10),
            .is_alloc = strcmp(fields[1], "alloc") == 0,
            .id = id,
            .bytes = strtoull(fields[3], NULL, 10),
        };
    }
    (void)fclose(file);
}

struct trace_case {
    char name[32];
    double most;
};

static struct hearth__span *by_id[IDS_MOST];
static size_t live;
static size_t peak;

static void replay_event(const struct event *event)
{
    if (is_export[event->id])
        return;
    if (event->is_alloc && event->bytes >= LARGE) {
        by_id[event->id] = take(event->bytes);
        live += event->bytes;
        peak = live > peak ? live : peak;
    } else if (!event->is_alloc && by_id[event->id] != NULL) {
        live -= event->bytes;
        give(by_id[event->id]);
        by_id[event->id] = NULL;
    }
}

ParameterizedTestParameters(span_heap, recorded_runs)
{
    static struct trace_case cases[] = {
        {"det640", 1.30}, {"det320", 1.30}, {"det640_parallel", 1.30},
        {"rec", 1.30},    {"detvar", 1.30}, {"cls", 1.35},
    };
    return cr_make_param_array(struct trace_case, cases, COUNT_OF(cases));
}

ParameterizedTest(struct trace_case *given, span_heap, recorded_runs, .init = start)
{
    size_t acquires = 0;
    read_trace(given->name);
    unsigned passes = strcmp(given->name, "detvar") == 0 ? 3 : 5;
    for (unsigned pass = 0; pass < passes; pass++) {
        if (pass == passes - 1)
            acquires = lender.acquires;
        for (size_t i = 0; i < event_count; i++)
            replay_event(&events[i]);
    }
    assert_size(heap.spans->lent_count, 0);
    assert_size(lender.acquires, acquires);
    double ratio = (double)lender.lent / (double)peak;
    cr_assert_leq(ratio, given->most, "%s: %.3f", given->name, ratio);
    finish();
}
