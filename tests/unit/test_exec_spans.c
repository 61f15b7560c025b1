/* SPDX-License-Identifier: Apache-2.0 */
/* An execution arena that keeps its large blocks in spans: counts, caps, visits, resizes, returns from elsewhere, the
 * end with buffers out, and a random walk over all of it with contents checked. */
#include "concurrent/exec_spans.h"
#include "support.h"

#include <hearth/io.h>

#include <stdlib.h>
#include <string.h>

static struct lender lender;
static struct hearth_backing *backing;
static struct hearth_exec *arena;

static void open_arena(size_t cap)
{
    cr_assert_eq(setenv("HEARTH_CONF", "exec_store:spans", 1), 0);
    backing = lender_open(&lender);
    arena = exec_open(backing, 0, cap);
    misuse_record();
}

static void start(void)
{
    open_arena(0);
}

static void finish(void)
{
    assert_sound(arena);
    assert_ok(hearth_exec_destroy(arena));
    assert_size(lender.lent, 0);
    assert_size(lender.wrong_cookies, 0);
}

static void free_ok(struct hearth_buf *buf)
{
    assert_ok(hearth_exec_free(arena, buf));
}

static void assert_adds_up(void)
{
    assert_sound(arena);
    assert_size(hearth_exec_footprint(arena), lender.lent);
    assert_size(hearth_exec_live_capacity(arena) + hearth_exec_retained_bytes(arena), lender.lent);
}

Test(exec_spans, blocks_share_a_segment_and_have_what_was_asked, .init = start)
{
    struct hearth_buf *a = exec_take(arena, 100 * KIB);
    struct hearth_buf *b = exec_take(arena, 100 * KIB);
    struct hearth_buf *small = exec_take(arena, 1000);
    assert_size(hearth_buf_capacity(a), 100 * KIB);
    cr_assert_eq((char *)hearth_buf_data(b), (char *)hearth_buf_data(a) + 100 * KIB);
    assert_size(lender.acquires, 2);
    assert_size(hearth_exec_live_count(arena), 3);
    assert_size(hearth_exec_retained_count(arena), 1);
    assert_adds_up();
    struct hearth_buf *found = NULL;
    assert_ok(hearth_buf_of(hearth_buf_data(b), &found));
    cr_assert_eq(found, b);
    free_ok(a);
    free_ok(b);
    assert_adds_up();
    assert_ok(hearth_exec_reset_peak(arena)); /* what was returned last is in the store then */
    assert_size(hearth_exec_retained_count(arena), 1);
    assert_status(hearth_exec_free(arena, a), HEARTH_STALE);
    cr_assert_null(hearth_buf_data(a));
    free_ok(small);
    finish();
}

Test(exec_spans, a_block_between_others_is_reused_as_it_is, .init = start)
{
    struct hearth_buf *a = exec_take(arena, 40 * KIB);
    struct hearth_buf *b = exec_take(arena, 60 * KIB - 64);
    struct hearth_buf *c = exec_take(arena, 40 * KIB);
    void *place = hearth_buf_data(b);
    uint64_t generation = hearth_buf_generation(b);
    free_ok(b);
    assert_adds_up();
    assert_size(hearth_exec_retained_count(arena), 2);
    assert_status(hearth_exec_free(arena, b), HEARTH_STALE);
    assert_size(hearth_exec_live_count(arena), 2);
    cr_assert_eq(exec_take(arena, 58 * KIB), b);
    cr_assert_eq(hearth_buf_data(b), place);
    assert_size(hearth_buf_generation(b), generation + 1);
    free_ok(b);
    struct hearth_buf *d = exec_take(arena, 40 * KIB); /* the slot for another span */
    cr_assert_eq(d, b);
    cr_assert_eq(hearth_buf_data(d), place);
    assert_size(hearth_buf_capacity(d), 40 * KIB);
    assert_adds_up();
    free_ok(a);
    free_ok(d);
    free_ok(c);
    assert_adds_up();
    finish();
}

Test(exec_spans, what_was_returned_last_goes_with_a_trim, .init = start)
{
    bool busy;
    struct hearth_buf *a = exec_take(arena, 100 * KIB);
    free_ok(a);
    size_t released = 0;
    assert_ok(hearth_exec_trim(arena, &released));
    cr_assert_geq(released, 100 * KIB);
    assert_size(lender.lent, 0);
    free_ok(exec_take(arena, 100 * KIB));
    cr_assert_gt(visit_all(arena, &busy), 0);
    assert_size(lender.lent, 0);
    free_ok(exec_take(arena, 100 * KIB));
    assert_ok(hearth_exec_set_retention_cap(arena, 0));
    assert_size(hearth_exec_retained_bytes(arena), 0);
    finish();
}

Test(exec_spans, the_same_run_again_asks_for_nothing, .init = start)
{
    struct hearth_buf *bufs[8];
    size_t acquires = 0;
    /* Older than all that comes, and in a list: no reason to keep the pieces. */
    free_ok(exec_take(arena, 1000));
    for (unsigned run = 0; run < 5; run++) {
        if (run == 3)
            acquires = lender.acquires;
        for (size_t i = 0; i < COUNT_OF(bufs); i++)
            bufs[i] = exec_take(arena, (i + 1) * 200 * KIB);
        for (size_t i = 0; i < COUNT_OF(bufs); i++)
            free_ok(bufs[i]);
        assert_adds_up();
    }
    assert_size(lender.acquires, acquires);
    assert_size(arena->spans->segment_count, 1);
    finish();
}

Test(exec_spans, trim_gives_segments_and_pages_back, .init = start)
{
    struct hearth_buf *wall = exec_take(arena, 64 * KIB);
    struct hearth_buf *hole = exec_take(arena, 100 * KIB);
    struct hearth_buf *own = exec_take(arena, 8 * MIB);
    size_t released = 0;
    free_ok(own);
    free_ok(hole);
    assert_ok(hearth_exec_trim(arena, &released));
    assert_adds_up();
    assert_size(released, 8 * MIB + lender.discarded);
    assert_size(arena->cells.purged_bytes, lender.discarded);
    cr_assert_geq(lender.discarded, 96 * KIB);
    assert_size(hearth__exec_warm(arena), arena->spans->warm_bytes);
    free_ok(wall);
    finish();
}

Test(exec_spans, the_cap_counts_what_may_be_resident)
{
    open_arena(MIB);
    struct hearth_buf *wall = exec_take(arena, 64 * KIB);
    struct hearth_buf *bufs[16];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 200 * KIB);
    for (size_t i = 0; i < COUNT_OF(bufs); i++) {
        free_ok(bufs[i]);
        cr_assert_leq(hearth__exec_warm(arena), MIB);
        assert_adds_up();
    }
    struct hearth_buf *large = exec_take(arena, 16 * MIB);
    free_ok(large);
    assert_size(arena->cells.bypasses, 1);
    cr_assert_leq(hearth__exec_warm(arena), MIB);
    assert_ok(hearth_exec_set_retention_cap(arena, 0));
    assert_adds_up();
    assert_size(hearth__exec_warm(arena), 0);
    free_ok(wall);
    finish();
}

Test(exec_spans, visitors_take_what_is_free_as_a_whole, .init = start)
{
    bool busy = true;
    struct hearth_buf *wall = exec_take(arena, 64 * KIB);
    struct hearth_buf *far = exec_take(arena, 8 * MIB);
    struct hearth_buf *near = exec_take(arena, 100 * KIB);
    free_elsewhere(arena, &far, 1);
    free_elsewhere(arena, &near, 1);
    size_t released = visit_all(arena, &busy);
    if (!busy) {
        assert_size(released, 8 * MIB + lender.discarded);
        assert_size(arena->cells.purged_bytes, lender.discarded);
        cr_assert_geq(lender.discarded, 96 * KIB);
        assert_adds_up();
    }
    free_ok(wall);
    finish();
}

Test(exec_spans, resizes_move_between_lists_and_spans, .init = start)
{
    static const size_t sizes[] = {1000, 40 * KIB, 30 * KIB, 5 * MIB, 6 * MIB, 100, 7 * MIB};
    struct hearth_buf *buf = exec_take(arena, 500);
    size_t kept = 100;
    pattern_write(hearth_buf_data(buf), kept, 7);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_ok(hearth_buf_resize_keep(buf, sizes[i]));
        cr_assert_geq(hearth_buf_capacity(buf), sizes[i]);
        cr_assert(pattern_holds(hearth_buf_data(buf), kept, 7));
        assert_adds_up();
    }
    free_ok(buf);
    finish();
}

Test(exec_spans, zero_is_zero_where_memory_was_used, .init = start)
{
    lender.flags = 0;
    for (unsigned i = 0; i < 3; i++) {
        const struct hearth_request request = {.size = 100 * KIB, .zero = 1};
        struct hearth_buf *buf = NULL;
        assert_ok(hearth_exec_alloc_ex(arena, &request, &buf));
        const unsigned char *data = hearth_buf_data(buf);
        cr_assert_eq(data[0], 0);
        cr_assert_eq(memcmp(data, data + 1, 100 * KIB - 1), 0);
        memset(hearth_buf_data(buf), 0xa5, 100 * KIB);
        free_ok(buf);
    }
    finish();
}

Test(exec_spans, alignment_is_kept, .init = start)
{
    for (unsigned log = 6; log <= 21; log++) {
        struct hearth_buf *buf = exec_take_aligned(arena, 70 * KIB, (size_t)1 << log);
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % ((size_t)1 << log), 0);
        assert_ok(hearth_buf_resize_keep(buf, 400 * KIB));
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % ((size_t)1 << log), 0);
        assert_adds_up();
        free_ok(buf);
    }
    finish();
}

Test(exec_spans, refusals_leave_it_sound, .init = start)
{
    struct hearth_buf *a = exec_take(arena, 300 * KIB);
    struct hearth_buf *none = NULL;
    lender.budget = lender.lent;
    assert_status(hearth_exec_alloc(arena, MIB, &none), HEARTH_NO_MEMORY);
    assert_adds_up();
    free_ok(a);
    lender.budget = MIB;
    struct hearth_buf *b = exec_take(arena, MIB);
    assert_size(lender.lent, MIB);
    assert_adds_up();
    free_ok(b);
    finish();
}

Test(exec_spans, buffers_that_outlive_the_arena_come_home, .init = start)
{
    struct hearth_buf *bufs[3];
    size_t outstanding = 0;
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, (i + 1) * 100 * KIB);
    struct hearth_buf *home = exec_take(arena, 4 * MIB);
    free_ok(home);
    assert_ok(hearth_exec_detach(arena, &outstanding));
    assert_size(outstanding, 3);
    cr_assert_gt(lender.lent, 0);
    free_elsewhere(arena, bufs, COUNT_OF(bufs));
    assert_size(lender.lent, 0);
}

Test(exec_spans, what_is_taken_is_copied, .init = start)
{
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_io *io = NULL;
    options.backing = backing;
    assert_ok(hearth_io_create(&options, &io));
    cr_assert(hearth_io_can_take(io, arena));
    struct hearth_buf *wall = exec_take(arena, 64 * KIB);
    struct hearth_buf *buf = exec_take_aligned(arena, 100 * KIB, 4096);
    void *place = hearth_buf_data(buf);
    memset(place, 7, 100 * KIB);
    struct hearth_buf *taken = NULL;
    assert_ok(hearth_io_take(io, buf, &taken));
    assert_size(hearth_buf_size(taken), 100 * KIB);
    cr_assert_neq(hearth_buf_data(taken), place);
    assert_size((uintptr_t)hearth_buf_data(taken) % 4096, 0);
    assert_size(((unsigned char *)hearth_buf_data(taken))[100 * KIB - 1], 7);
    assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_size(hearth_exec_footprint(arena) + hearth_io_footprint(io), lender.lent);
    cr_assert_null(hearth__exec_check(arena));
    assert_ok(hearth_io_free(io, taken));
    free_ok(wall);
    hearth_io_unref(io);
    finish();
}

/* A random walk. */

#define OUT_MOST 40u

static struct hearth_buf *out[OUT_MOST];
static unsigned seeds[OUT_MOST];
static size_t out_count;

static size_t marked(const struct hearth_buf *buf)
{
    size_t size = hearth_buf_size(buf);
    return size < 256 ? size : 256;
}

static char *last_of(const struct hearth_buf *buf)
{
    return (char *)hearth_buf_data(buf) + hearth_buf_size(buf) - marked(buf);
}

static void mark(size_t i)
{
    pattern_write(hearth_buf_data(out[i]), marked(out[i]), seeds[i]);
    pattern_write(last_of(out[i]), marked(out[i]), seeds[i] + 1);
}

static void assert_marked(size_t i)
{
    if (hearth_buf_size(out[i]) >= 512)
        cr_assert(pattern_holds(hearth_buf_data(out[i]), marked(out[i]), seeds[i]));
    cr_assert(pattern_holds(last_of(out[i]), marked(out[i]), seeds[i] + 1));
}

static void walk_take(uint64_t *random)
{
    size_t size = 1 + random_next(random) % ((size_t)1 << (6 + random_next(random) % 15));
    unsigned log = random_next(random) % 8 == 0 ? 6 + (unsigned)(random_next(random) % 8) : 6;
    out[out_count] = exec_take_aligned(arena, size, (size_t)1 << log);
    seeds[out_count] = (unsigned)(random_next(random) % 100000);
    mark(out_count++);
}

static void walk_give(uint64_t *random)
{
    size_t i = random_next(random) % out_count;
    struct hearth_buf *buf = out[i];
    assert_marked(i);
    out[i] = out[--out_count];
    seeds[i] = seeds[out_count];
    if (random_next(random) % 64 == 0)
        free_elsewhere(arena, &buf, 1);
    else
        free_ok(buf);
}

static void walk_other(uint64_t *random)
{
    bool busy;
    size_t i = out_count == 0 ? 0 : random_next(random) % out_count;
    switch (random_next(random) % 8) {
    case 0:
        assert_ok(hearth_exec_trim(arena, NULL));
        break;
    case 1:
        assert_ok(hearth_exec_set_retention_cap(arena, random_next(random) % (8 * MIB)));
        break;
    case 2:
        assert_ok(hearth_exec_set_retention_cap(arena, HEARTH_UNBOUNDED));
        break;
    case 3:
        (void)visit_all(arena, &busy);
        break;
    default:
        if (out_count == 0)
            return;
        assert_marked(i);
        assert_ok(hearth_buf_resize(out[i], 1 + random_next(random) % (2 * MIB)));
        mark(i);
        break;
    }
}

ParameterizedTestParameters(exec_spans, random_walk)
{
    static uint64_t cases[] = {3, 50, 700};
    return cr_make_param_array(uint64_t, cases, COUNT_OF(cases));
}

ParameterizedTest(uint64_t *seed, exec_spans, random_walk, .init = start)
{
    uint64_t random = *seed;
    for (unsigned step = 0; step < 20000; step++) {
        unsigned what = (unsigned)(random_next(&random) % 32);
        unsigned takes = step / 256 % 2 == 0 ? 20 : 10;
        if (what == 31)
            walk_other(&random);
        else if (what < takes && out_count < OUT_MOST)
            walk_take(&random);
        else if (out_count != 0)
            walk_give(&random);
        const char *violated = step % 4 == 0 ? hearth__exec_check(arena) : NULL;
        cr_assert_null(violated, "step %u: %s", step, violated);
        assert_size(hearth_exec_footprint(arena), lender.lent);
    }
    while (out_count != 0)
        walk_give(&random);
    assert_ok(hearth_exec_trim(arena, NULL));
    finish();
}
