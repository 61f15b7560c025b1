/* SPDX-License-Identifier: Apache-2.0 */
/* Misses, eviction, caps, slots that ran out, and what is tried before NO_MEMORY. */
#include "concurrent/exec.h"
#include "support.h"

static struct lender lender;
static struct hearth_backing *backing;
static struct hearth_exec *arena;

static void open_arena(size_t slots, size_t cap)
{
    backing = lender_open(&lender);
    arena = exec_open(backing, slots, cap);
    misuse_record();
}

static void start(void)
{
    open_arena(0, 0);
}

static void give(size_t size)
{
    assert_ok(hearth_exec_free(arena, exec_take(arena, size)));
}

Test(exec_storage, what_a_request_wants, .init = start)
{
    static const struct {
        size_t size;
        unsigned alignment_log;
        size_t bytes;
        size_t most;
    } cases[] = {
        {0, 6, 64, 256},
        {1, 6, 64, 256},
        {65, 6, 128, 512},
        {300, 6, 320, 1280},
        {1000, 7, 1024, 4096},
        {100, 8, 256, 1024},
        {1, 12, 4096, 16384},
        {1, 13, 16384, 65536},
        {20000, 16, 20480, 81920},
        {20481, 16, 24576, 98304},
        {3 * MIB, 21, 3 * MIB, 12 * MIB},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct hearth__want want;
        cr_assert(
            hearth__rounding_want(&arena->rounding, cases[i].size, cases[i].alignment_log, &want));
        assert_size(want.bytes, cases[i].bytes);
        assert_size(hearth__class_size(want.size_class), cases[i].bytes);
        assert_size(hearth__class_size(want.last_class), cases[i].most);
        cr_assert_eq(want.alignment_log, cases[i].alignment_log);
    }
    struct hearth__want want;
    cr_assert_not(hearth__rounding_want(&arena->rounding, SIZE_MAX, 6, &want));
    cr_assert_not(hearth__rounding_want(&arena->rounding, HEARTH__CLASS_SIZE_MAX + 1, 6, &want));
    cr_assert_not(hearth__rounding_want(&arena->rounding, HEARTH__CLASS_SIZE_MAX + 1, 21, &want));
    cr_assert_not(hearth__rounding_want(&arena->rounding, SIZE_MAX - 10, 12, &want));
    cr_assert(hearth__rounding_want(&arena->rounding, HEARTH__CLASS_SIZE_MAX, 6, &want));
    cr_assert_eq(want.last_class, HEARTH__CLASS_COUNT - 1);
}

Test(exec_storage, evicts_the_least_recently_freed, .init = start)
{
    static const size_t sizes[] = {64 * KIB, 64, 4 * KIB, 1 * KIB, 16 * KIB};
    struct hearth_buf *bufs[COUNT_OF(sizes)];
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        bufs[i] = exec_take(arena, sizes[i]);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    size_t left = hearth_exec_retained_bytes(arena);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_ok(hearth_exec_set_retention_cap(arena, left - 1));
        left -= sizes[i];
        assert_size(hearth_exec_retained_bytes(arena), left);
        cr_assert_null(hearth_buf_data(bufs[i]));
        assert_size(lender.lent, left);
        assert_sound(arena);
    }
}

Test(exec_storage, the_cap_holds_at_each_return)
{
    open_arena(0, 4096);
    struct hearth_buf *bufs[10];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = exec_take(arena, 1024);
    for (size_t i = 0; i < COUNT_OF(bufs); i++) {
        assert_ok(hearth_exec_free(arena, bufs[i]));
        assert_size(hearth_exec_retained_count(arena), i < 4 ? i + 1 : 4);
        assert_sound(arena);
    }
    cr_assert_eq(exec_take(arena, 1024), bufs[9]);
    cr_assert_null(hearth_buf_data(bufs[5]), "the older six went");
    cr_assert_not_null(hearth_buf_data(bufs[6]));
}

Test(exec_storage, larger_than_the_cap_evicts_nobody)
{
    open_arena(0, 4096);
    give(4096);
    struct hearth_buf *large = exec_take(arena, 5000);
    assert_ok(hearth_exec_free(arena, large));
    assert_size(hearth_exec_retained_bytes(arena), 4096);
    assert_size(lender.lent, 4096);
    cr_assert_eq(arena->cells.bypasses, 1);
    cr_assert_eq(arena->cells.evictions, 0);
}

Test(exec_storage, when_slots_ran_out_the_largest_serves)
{
    open_arena(3, 0);
    struct hearth_buf *bufs[3] = {exec_take(arena, 64 * KIB), exec_take(arena, 16 * KIB),
                                  exec_take(arena, 32 * KIB)};
    struct hearth_buf *none = NULL;
    assert_status(hearth_exec_alloc(arena, 1, &none), HEARTH_NO_SLOT);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    /* Beyond the reuse ratio, as slots ran out; then the largest that is left grows. */
    cr_assert_eq(exec_take(arena, 20 * KIB), bufs[2]);
    struct hearth_buf *any = exec_take(arena, 64);
    cr_assert(any == bufs[0] || any == bufs[1]);
    assert_size(lender.acquires, 3);
    struct hearth_buf *last = exec_take(arena, 128 * KIB);
    cr_assert_eq(last, any == bufs[0] ? bufs[1] : bufs[0]);
    assert_size(hearth_buf_capacity(last), 128 * KIB);
    assert_size(lender.lent, hearth_exec_live_capacity(arena));
    assert_sound(arena);
}

Test(exec_storage, a_refused_growth_leaves_the_old_storage)
{
    open_arena(2, 0);
    struct hearth_buf *held = exec_take(arena, 64);
    give(1024);
    struct hearth_buf *none = NULL;
    lender.budget = 2048;
    assert_status(hearth_exec_alloc(arena, 1 * MIB, &none), HEARTH_NO_MEMORY);
    assert_size(hearth_exec_live_count(arena), 1);
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, held));
    assert_ok(hearth_exec_free(arena, exec_take(arena, 1024)));
    assert_sound(arena);
}

Test(exec_storage, everything_retained_is_given_back_before_no_memory, .init = start)
{
    for (size_t i = 0; i < 100; i++)
        give(64 * (i + 1));
    struct hearth_buf *held = exec_take(arena, 64);
    lender.budget = 1 * MIB + 64;
    struct hearth_buf *buf = exec_take(arena, 1 * MIB);
    assert_size(hearth_exec_retained_count(arena), 0);
    assert_size(lender.lent, 1 * MIB + 64);
    assert_size(lender.purges, 1);
    assert_sound(arena);
    assert_ok(hearth_exec_free(arena, buf));
    assert_ok(hearth_exec_free(arena, held));
}

/* exec.h: "Before NO_MEMORY is answered, what this arena retains is given back to the backing and the
 * request is tried again" - also the one that was about to grow. */
Test(exec_storage, the_largest_is_given_back_before_no_memory)
{
    open_arena(1, 0);
    give(64 * KIB);
    lender.budget = 100 * KIB;
    struct hearth_buf *buf = exec_take(arena, 80 * KIB);
    assert_size(hearth_buf_capacity(buf), 80 * KIB);
    assert_size(lender.lent, 80 * KIB);
    assert_sound(arena);
}

/* Storage that the cap sends back is on its way out: it must be back before the request fails. */
Test(exec_storage, what_the_cap_displaces_is_given_back_before_no_memory)
{
    open_arena(0, 1);
    struct hearth_buf *buf = exec_take(arena, 64 * KIB);
    lender.budget = 64 * KIB;
    free_elsewhere(arena, &buf, 1);
    (void)exec_take(arena, 64 * KIB);
    assert_size(hearth_exec_footprint(arena), 64 * KIB);
    assert_sound(arena);
}

Test(exec_storage, a_size_beyond_any_address_space_costs_nothing, .init = start)
{
    struct hearth_buf *none = NULL;
    give(1000);
    assert_status(hearth_exec_alloc(arena, SIZE_MAX, &none), HEARTH_OVERFLOW);
    lender.budget = 1 * MIB;
    assert_status(hearth_exec_alloc(arena, (size_t)1 << 50, &none), HEARTH_NO_MEMORY);
    cr_assert_null(none);
    assert_size(hearth_exec_retained_bytes(arena), 1024);
    assert_sound(arena);
}

Test(exec_storage, nor_does_it_when_slots_ran_out)
{
    struct hearth_buf *none = NULL;
    open_arena(1, 0);
    give(1000);
    assert_status(hearth_exec_alloc(arena, (size_t)1 << 50, &none), HEARTH_NO_MEMORY);
    assert_size(hearth_exec_retained_bytes(arena), 1024);
    assert_size(lender.releases, 0);
    assert_sound(arena);
}

/* The alignment that was asked for is kept by a buffer that got it from another list's storage. */
Test(exec_storage, reuse_by_address_keeps_the_alignment)
{
    open_arena(1, 0);
    lender.align_to = 4096;
    give(4096);
    lender.align_to = 0;
    struct hearth_buf *buf = exec_take_aligned(arena, 100, 4096);
    assert_size(lender.acquires, 1);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 4096, 0);
    assert_ok(hearth_buf_resize(buf, 64 * KIB));
    assert_size(lender.last_alignment, 4096);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % 4096, 0);
    assert_ok(hearth_exec_free(arena, buf));
    assert_sound(arena);
    assert_ok(hearth_exec_trim(arena, NULL));
    assert_sound(arena);
}

Test(exec_storage, trim_gives_back_many, .init = start)
{
    static struct hearth_buf *bufs[500];
    size_t released = 0;
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = i % 3 == 0 ? exec_take_aligned(arena, 100, 1024) : exec_take(arena, 100);
    struct hearth_buf *held = exec_take(arena, 100);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        assert_ok(hearth_exec_free(arena, bufs[i]));
    size_t retained = hearth_exec_retained_bytes(arena);
    assert_ok(hearth_exec_trim(arena, &released));
    assert_size(released, retained);
    assert_size(lender.lent, 128);
    assert_size(lender.purges, 1);
    assert_size(hearth_exec_footprint(arena), 128);
    assert_sound(arena);
    assert_size(hearth__slots_unused(&arena->slots), 500);
    assert_ok(hearth_exec_free(arena, held));
}
