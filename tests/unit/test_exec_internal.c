/* SPDX-License-Identifier: Apache-2.0 */
/* The execution arena from inside: the invariant check after every step of random sequences, re-entry,
 * the store behind it. Its parts have files of their own: exec_remote, exec_life, exec_storage,
 * exec_resize; what users see is in tests/api. */
#include "concurrent/exec.h"
#include "support.h"

#include <hearth/handle.h>

#define HELD_MAX 48

struct walk {
    struct hearth_exec *arena;
    struct hearth_buf *held[HELD_MAX];
    size_t sizes[HELD_MAX];
    size_t count;
    uint64_t random;
};

static size_t below(struct walk *walk, size_t limit)
{
    return (size_t)(random_next(&walk->random) % limit);
}

static size_t some_size(struct walk *walk)
{
    size_t bits = below(walk, 16);
    return below(walk, (size_t)2 << bits);
}

static void hold(struct walk *walk, struct hearth_buf *buf, size_t size)
{
    assert_size(hearth_buf_size(buf), size);
    pattern_write(hearth_buf_data(buf), size, (unsigned)size);
    walk->held[walk->count] = buf;
    walk->sizes[walk->count++] = size;
}

static struct hearth_buf *let_go(struct walk *walk)
{
    size_t i = below(walk, walk->count);
    struct hearth_buf *buf = walk->held[i];
    cr_assert(pattern_holds(hearth_buf_data(buf), walk->sizes[i], (unsigned)walk->sizes[i]));
    walk->count--;
    walk->held[i] = walk->held[walk->count];
    walk->sizes[i] = walk->sizes[walk->count];
    return buf;
}

static void change_size(struct walk *walk)
{
    size_t i = below(walk, walk->count);
    size_t old = walk->sizes[i];
    size_t size = some_size(walk);
    assert_ok(hearth_buf_resize_keep(walk->held[i], size));
    cr_assert(
        pattern_holds(hearth_buf_data(walk->held[i]), old < size ? old : size, (unsigned)old));
    pattern_write(hearth_buf_data(walk->held[i]), size, (unsigned)size);
    walk->sizes[i] = size;
}

static void one_step(struct walk *walk)
{
    size_t size = some_size(walk);
    size_t choice = below(walk, 100);
    if (walk->count == 0 || (choice < 40 && walk->count < HELD_MAX)) {
        hold(walk, exec_take(walk->arena, size), size);
    } else if (choice < 45 && walk->count < HELD_MAX) {
        size_t alignment = (size_t)64 << below(walk, 8);
        struct hearth_buf *buf = exec_take_aligned(walk->arena, size, alignment);
        cr_assert_eq((uintptr_t)hearth_buf_data(buf) % alignment, 0);
        hold(walk, buf, size);
    } else if (choice < 70) {
        assert_ok(hearth_exec_free(walk->arena, let_go(walk)));
    } else if (choice < 83) {
        assert_ok(hearth__exec_free_remote(walk->arena, let_go(walk), 0, "test"));
    } else if (choice < 95) {
        change_size(walk);
    } else if (choice < 97) {
        assert_ok(hearth_exec_set_retention_cap(walk->arena, below(walk, 256 * KIB)));
    } else if (choice < 98) {
        assert_ok(hearth_exec_set_retention_cap(walk->arena, HEARTH_UNBOUNDED));
    } else {
        assert_ok(hearth_exec_trim(walk->arena, NULL));
    }
}

static void assert_agrees(const struct walk *walk)
{
    size_t bytes = 0;
    for (size_t i = 0; i < walk->count; i++)
        bytes += walk->sizes[i];
    assert_sound(walk->arena);
    assert_size(hearth_exec_live_count(walk->arena), walk->count);
    assert_size(hearth_exec_live_bytes(walk->arena), bytes);
    cr_assert_leq(hearth__exec_warm(walk->arena), hearth_exec_retention_cap(walk->arena));
    cr_assert_geq(hearth_exec_peak_bytes(walk->arena), bytes);
}

TheoryDataPoints(exec_internal, sound_after_every_step) = {
    DataPoints(uint64_t, 1, 2, 3, 4, 5, 6, 7, 8),
    DataPoints(size_t, HELD_MAX, HELD_MAX + 4, 10000),
};

/* With as many slots as are held at most, with a few more, and with plenty. */
Theory((uint64_t seed, size_t slots), exec_internal, sound_after_every_step)
{
    struct lender lender;
    struct hearth_backing *backing = lender_open(&lender);
    struct walk walk = {.arena = exec_open(backing, slots, 0), .random = seed * 0x9e3779b97f4a7c15};
    misuse_record();
    for (unsigned step = 0; step < 1500; step++) {
        one_step(&walk);
        assert_agrees(&walk);
        assert_size(hearth_exec_footprint(walk.arena), lender.lent);
        assert_size(hearth_backing_footprint(backing), lender.lent);
        cr_assert_leq(walk.arena->slots.made, slots);
    }
    while (walk.count > 0)
        assert_ok(hearth_exec_free(walk.arena, let_go(&walk)));
    assert_ok(hearth_exec_destroy(walk.arena));
    assert_size(lender.lent, 0);
    assert_size(lender.wrong_cookies, 0);
    assert_size(misuse_seen.count, 0);
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 1);
}

Test(exec_internal, re_entry_is_busy_and_changes_nothing)
{
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_buf *buf = exec_take(arena, 100);
    struct hearth_buf *none = NULL;
    misuse_record();
    /* As a signal handler finds it in the middle of an operation. */
    hearth__section_resume(&arena->section);
    assert_status(hearth_exec_alloc(arena, 10, &none), HEARTH_BUSY);
    assert_status(hearth_alloc(hearth_exec_allocator(arena), 10, &none), HEARTH_BUSY);
    assert_status(hearth_buf_resize(buf, 10), HEARTH_BUSY);
    assert_status(hearth_buf_resize_keep(buf, 100000), HEARTH_BUSY);
    assert_status(hearth_exec_reset_peak(arena), HEARTH_BUSY);
    assert_status(hearth_exec_trim(arena, NULL), HEARTH_BUSY);
    assert_status(hearth_exec_set_retention_cap(arena, 0), HEARTH_BUSY);
    assert_status(hearth_exec_release_owner(arena), HEARTH_BUSY);
    cr_assert_null(none);
    /* Counted, but a signal handler is not the place to call the user back. */
    cr_assert_eq(hearth_misuse_count(), 8);
    assert_size(misuse_seen.count, 0);
    assert_size(hearth_buf_size(buf), 100);
    assert_size(hearth_exec_retention_cap(arena), HEARTH_UNBOUNDED);
    cr_assert(hearth__section_busy(&arena->section));
    /* A return takes the way of other threads. */
    assert_ok(hearth_exec_free(arena, buf));
    assert_status(hearth_exec_free(arena, buf), HEARTH_STALE);
    assert_size(hearth_exec_pending_count(arena), 1);
    hearth__exec_leave(arena);
    cr_assert_eq(exec_take(arena, 100), buf);
    assert_sound(arena);
}

/* Every public call leaves the section, whatever it answers. */
Test(exec_internal, no_call_stays_inside)
{
    struct lender lender;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 1, 0);
    struct hearth_buf *none = NULL;
    const struct hearth_request odd = {.size = 1, .alignment = 3};
    misuse_record();
#define LEAVES(call)                                                                               \
    do {                                                                                           \
        (void)(call);                                                                              \
        cr_assert_not(hearth__section_busy(&arena->section), "after %s", #call);                   \
    } while (0)
    struct hearth_buf *buf = exec_take(arena, 100);
    LEAVES(hearth_exec_alloc_ex(arena, &odd, &none) == HEARTH_OK);
    LEAVES(hearth_exec_alloc(arena, SIZE_MAX, &none) == HEARTH_OK);
    LEAVES(hearth_exec_alloc(arena, 1, &none) == HEARTH_OK);
    LEAVES(hearth_buf_resize(buf, 50) == HEARTH_OK);
    LEAVES(hearth_buf_resize(buf, 5000) == HEARTH_OK);
    LEAVES(hearth_buf_resize(buf, SIZE_MAX) == HEARTH_OK);
    LEAVES(hearth_exec_reset_peak(arena));
    LEAVES(hearth_exec_free(arena, NULL));
    LEAVES(hearth_exec_free(arena, buf));
    LEAVES(hearth_exec_free(arena, buf));
    lender.budget = 0;
    LEAVES(hearth_exec_alloc(arena, 1 * MIB, &none) == HEARTH_OK);
    LEAVES(hearth_exec_trim(arena, NULL));
    LEAVES(hearth_exec_alloc(arena, 1, &none) == HEARTH_OK);
    LEAVES(hearth_exec_set_retention_cap(arena, 10));
#undef LEAVES
}

/* What a backing sees while it is called. */
static struct hearth_exec *watched;
static size_t calls_inside;
static enum hearth_status (*lender_acquire)(void *, size_t, size_t, struct hearth_segment *);
static void (*lender_release)(void *, const struct hearth_segment *);

static enum hearth_status watch_acquire(void *context, size_t bytes, size_t alignment,
                                        struct hearth_segment *segment)
{
    calls_inside += watched != NULL && hearth__section_busy(&watched->section);
    return lender_acquire(context, bytes, alignment, segment);
}

static void watch_release(void *context, const struct hearth_segment *segment)
{
    calls_inside += watched != NULL && hearth__section_busy(&watched->section);
    lender_release(context, segment);
}

Test(exec_internal, the_section_is_left_around_backing_calls)
{
    struct lender lender;
    struct hearth_backing *plain = lender_open(&lender);
    struct hearth_backing *backing = NULL;
    struct hearth_backing_ops ops = lender.ops;
    lender_acquire = ops.acquire;
    lender_release = ops.release;
    ops.acquire = watch_acquire;
    ops.release = watch_release;
    assert_ok(hearth_backing_create(&ops, &lender, &backing));
    struct walk walk = {.arena = exec_open(backing, HELD_MAX, 0), .random = 99};
    watched = walk.arena;
    for (unsigned step = 0; step < 3000; step++)
        one_step(&walk);
    while (walk.count > 0)
        assert_ok(hearth_exec_free(walk.arena, let_go(&walk)));
    assert_ok(hearth_exec_trim(walk.arena, NULL));
    cr_assert_gt(lender.acquires, 100);
    assert_size(calls_inside, 0);
    assert_ok(hearth_exec_destroy(walk.arena));
    hearth_backing_unref(plain);
}

Test(exec_internal, the_store_holds_what_is_retained)
{
    struct lender lender;
    size_t slots = 0;
    size_t bytes = 0;
    struct hearth_exec *arena = exec_open(lender_open(&lender), 0, 0);
    struct hearth_buf *small = exec_take(arena, 100);
    struct hearth_buf *large = exec_take(arena, 1000);
    struct hearth_buf *aligned = exec_take_aligned(arena, 500, 256);
    const struct hearth__store_ops *ops = arena->store->ops;
    ops->count(arena->store, &slots, &bytes);
    assert_size(slots, 0);
    assert_ok(hearth_exec_free(arena, small));
    assert_ok(hearth_exec_free(arena, large));
    assert_ok(hearth_exec_free(arena, aligned));
    ops->count(arena->store, &slots, &bytes);
    assert_size(slots, 3);
    assert_size(bytes, 128 + 1024 + 512);
    struct hearth__want want;
    cr_assert(hearth__rounding_want(&arena->rounding, 100, HEARTH__ALIGNMENT_LOG_MIN, &want));
    assert_size(want.bytes, 128);
    cr_assert_eq(hearth__class_size(want.last_class), 512, "four times the rounded request");
    cr_assert_eq(ops->take(arena->store, &want), small);
    ops->give(arena->store, small);
    cr_assert_eq(ops->evict(arena->store, UINT64_MAX), small, "its stamp is the oldest");
    ops->give(arena->store, small);
    cr_assert_eq(ops->take_largest(arena->store), large);
    ops->give(arena->store, large);
    cr_assert(small->stamp < large->stamp && large->stamp < aligned->stamp);
    assert_sound(arena);
}
