/* SPDX-License-Identifier: Apache-2.0 */
/* The simple allocator: slots, sizes, misuse, resize, failures; nothing is retained. */
#include "core/buf.h"
#include "core/meta.h"
#include "support.h"

#include <string.h>

static struct lender lender;
static struct hearth_backing *backing;
static struct hearth_simple *simple;
static struct hearth_allocator *allocator;

static void start(size_t slots)
{
    backing = lender_open(&lender);
    assert_ok(hearth_simple_create_on(backing, slots, &simple));
    allocator = hearth_simple_allocator(simple);
    misuse_record();
}

static struct hearth_buf *take(size_t size)
{
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_alloc(allocator, size, &buf));
    return buf;
}

Test(simple, pools_slots_and_retains_no_storage)
{
    start(2);
    assert_size(hearth_simple_slots(simple), 2);
    struct hearth_buf *a = take(100);
    struct hearth_buf *b = take(0);
    struct hearth_buf *c = NULL;
    assert_size(hearth_simple_live_count(simple), 2);
    assert_size(hearth_live_bytes(allocator), 100);
    assert_status(hearth_alloc(allocator, 1, &c), HEARTH_NO_SLOT);
    cr_assert_null(c);
    assert_size(hearth_simple_live_count(simple), 2);
    cr_assert_neq(hearth_buf_data(a), hearth_buf_data(b));
    assert_ok(hearth_free(allocator, a));
    assert_size(lender.releases, 1);
    assert_size(hearth_live_bytes(allocator), 0);
    cr_assert_eq(take(50), a, "the slot is used again");
    assert_size(lender.acquires, 3);
}

Test(simple, describes_its_buffers)
{
    start(4);
    struct hearth_buf *found = NULL;
    struct hearth_buf *buf = take(1000);
    assert_size(hearth_buf_size(buf), 1000);
    cr_assert_geq(hearth_buf_capacity(buf), 1000);
    cr_assert_eq((uintptr_t)hearth_buf_data(buf) % HEARTH_ALIGNMENT, 0);
    cr_assert_eq(hearth_buf_owner(buf), allocator);
    cr_assert_str_eq(allocator->ops->kind, "simple");
    assert_ok(hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    uint64_t generation = hearth_buf_generation(buf);
    assert_ok(hearth_free(allocator, buf));
    cr_assert_eq(hearth_buf_generation(buf), generation + 1);
    cr_assert_null(hearth_buf_data(buf));
}

TheoryDataPoints(simple, alignments) = {
    DataPoints(size_t, 0, 1, 2, 32, 64, 128, 4096, 65536, HEARTH_ALIGNMENT_MAX),
    DataPoints(size_t, 0, 1, 100, 5000),
};

Theory((size_t alignment, size_t size), simple, alignments)
{
    start(1);
    const struct hearth_request request = {.size = size, .alignment = alignment, .zero = true};
    struct hearth_buf *buf = NULL;
    assert_ok(hearth_alloc_ex(allocator, &request, &buf));
    size_t expected = alignment < HEARTH_ALIGNMENT ? HEARTH_ALIGNMENT : alignment;
    const unsigned char *data = hearth_buf_data(buf);
    cr_assert_eq((uintptr_t)data % expected, 0);
    for (size_t i = 0; i < size; i++)
        cr_assert_eq(data[i], 0, "byte %zu", i);
    assert_ok(hearth_free(allocator, buf));
    assert_ok(hearth_simple_destroy(simple));
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 1);
}

Test(simple, impossible_requests)
{
    start(2);
    struct hearth_buf *buf = NULL;
    const struct hearth_request odd = {.size = 1, .alignment = 96};
    const struct hearth_request wide = {.size = 1, .alignment = 2 * HEARTH_ALIGNMENT_MAX};
    const struct hearth_request unknown = {.size = 1, .reserved = {0, 1, 0}};
    assert_status(hearth_alloc_ex(allocator, &odd, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(allocator, &wide, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(allocator, &unknown, &buf), HEARTH_INVALID);
    assert_size(misuse_seen.count, 3);
    assert_status(hearth_alloc(allocator, SIZE_MAX, &buf), HEARTH_OVERFLOW);
    assert_status(hearth_alloc(allocator, (size_t)PTRDIFF_MAX + 1, &buf), HEARTH_OVERFLOW);
    assert_status(hearth_alloc_ex(NULL, &odd, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc_ex(allocator, NULL, &buf), HEARTH_INVALID);
    assert_status(hearth_alloc(allocator, 1, NULL), HEARTH_INVALID);
    cr_assert_null(buf);
    assert_size(lender.acquires, 0);
    assert_size(hearth_simple_live_count(simple), 0);
    assert_ok(hearth_simple_destroy(simple));
}

Test(simple, wrong_returns)
{
    start(4);
    int local = 0;
    struct hearth_buf *buf = take(10);
    struct hearth_buf *other = take(10);
    assert_status(hearth_free(allocator, NULL), HEARTH_FOREIGN);
    assert_status(hearth_free(allocator, (struct hearth_buf *)(void *)&local), HEARTH_FOREIGN);
    assert_status(hearth_free(allocator, (struct hearth_buf *)((uintptr_t)buf + 64)),
                  HEARTH_FOREIGN);
    assert_status(hearth_free(allocator, hearth_buf_data(buf)), HEARTH_FOREIGN);
    assert_ok(hearth_free(allocator, buf));
    assert_status(hearth_free(allocator, buf), HEARTH_STALE);
    assert_status(hearth_buf_resize(buf, 5), HEARTH_STALE);
    assert_status(hearth_buf_resize(NULL, 5), HEARTH_FOREIGN);
    assert_size(misuse_seen.count, 7);
    assert_size(hearth_simple_live_count(simple), 1);
    assert_size(hearth_live_bytes(allocator), 10);
    assert_ok(hearth_free(allocator, other));
}

Test(simple, buffers_of_another_allocator_are_foreign)
{
    start(1);
    struct hearth_simple *other = NULL;
    assert_ok(hearth_simple_create_on(backing, 1, &other));
    struct hearth_buf *buf = take(10);
    assert_status(hearth_free(hearth_simple_allocator(other), buf), HEARTH_FOREIGN);
    assert_ok(hearth_free(allocator, buf));
    assert_ok(hearth_simple_destroy(other));
}

Test(simple, resize_moves_only_when_it_must)
{
    start(1);
    struct hearth_buf *buf = take(100);
    struct hearth_buf *found = NULL;
    size_t capacity = hearth_buf_capacity(buf);
    void *data = hearth_buf_data(buf);
    pattern_write(data, 100, 1);
    uint64_t generation = hearth_buf_generation(buf);
    assert_ok(hearth_buf_resize(buf, 10));
    assert_size(hearth_live_bytes(allocator), 10);
    assert_ok(hearth_buf_resize(buf, capacity));
    cr_assert_eq(hearth_buf_data(buf), data);
    assert_size(hearth_buf_capacity(buf), capacity);
    assert_size(lender.acquires, 1);
    assert_ok(hearth_buf_resize(buf, 100));
    assert_ok(hearth_buf_resize_keep(buf, 5000));
    cr_assert_neq(hearth_buf_data(buf), data);
    cr_assert(pattern_holds(hearth_buf_data(buf), 100, 1));
    assert_size(hearth_buf_size(buf), 5000);
    assert_size(hearth_live_bytes(allocator), 5000);
    assert_size(hearth_peak_bytes(allocator), 5000);
    cr_assert_eq(hearth_buf_generation(buf), generation);
    assert_ok(hearth_buf_of(hearth_buf_data(buf), &found));
    cr_assert_eq(found, buf);
    assert_status(hearth_buf_of(data, &found), HEARTH_FOREIGN);
    assert_size(lender.acquires, 2);
    assert_size(lender.releases, 1);
    assert_status(hearth_buf_resize(buf, SIZE_MAX), HEARTH_OVERFLOW);
    assert_size(hearth_buf_size(buf), 5000);
}

Test(simple, a_refusal_changes_nothing)
{
    start(4);
    struct hearth_buf *buf = take(100);
    struct hearth_buf *none = NULL;
    pattern_write(hearth_buf_data(buf), 100, 3);
    lender.budget = 200;
    assert_status(hearth_alloc(allocator, 5000, &none), HEARTH_NO_MEMORY);
    assert_status(hearth_buf_resize_keep(buf, 5000), HEARTH_NO_MEMORY);
    cr_assert_null(none);
    assert_size(hearth_simple_live_count(simple), 1);
    assert_size(hearth_buf_size(buf), 100);
    cr_assert(pattern_holds(hearth_buf_data(buf), 100, 3));
    lender.budget = SIZE_MAX;
    for (unsigned i = 0; i < 3; i++)
        (void)take(1);
    assert_size(hearth_simple_live_count(simple), 4);
}

Test(simple, peak_and_its_reset)
{
    start(4);
    struct hearth_buf *a = take(100);
    struct hearth_buf *b = take(50);
    assert_ok(hearth_free(allocator, a));
    assert_size(hearth_peak_bytes(allocator), 150);
    hearth_reset_peak(allocator);
    assert_size(hearth_peak_bytes(allocator), 50);
    assert_ok(hearth_free(allocator, b));
    assert_size(hearth_peak_bytes(allocator), 50);
}

Test(simple, destroy_waits_for_its_buffers_and_recycles)
{
    start(1000);
    struct hearth_buf *bufs[1000];
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        bufs[i] = take(i);
    assert_status(hearth_simple_destroy(simple), HEARTH_BUSY);
    for (size_t i = 0; i < COUNT_OF(bufs); i++)
        assert_ok(hearth_free(allocator, bufs[i]));
    uint32_t segments = hearth__segment_count();
    assert_ok(hearth_simple_destroy(simple));
    assert_ok(hearth_simple_destroy(NULL));
    assert_size(lender.lent, 0);
    assert_size(lender.destroys, 0);
    for (unsigned round = 0; round < 1000; round++) {
        assert_ok(hearth_simple_create_on(backing, 1, &simple));
        assert_ok(hearth_simple_destroy(simple));
    }
    cr_assert_eq(hearth__segment_count(), segments);
    hearth_backing_unref(backing);
    assert_size(lender.destroys, 1);
}

Test(simple, impossible_creations)
{
    start(1);
    struct hearth_simple *none = NULL;
    assert_status(hearth_simple_create(0, &none), HEARTH_INVALID);
    assert_status(hearth_simple_create(1, NULL), HEARTH_INVALID);
    assert_status(hearth_simple_create_on(NULL, 1, &none), HEARTH_INVALID);
    assert_status(hearth_simple_create(SIZE_MAX, &none), HEARTH_OVERFLOW);
    assert_status(hearth_simple_create(HEARTH__SLOTS_MAX + 1, &none), HEARTH_OVERFLOW);
    cr_assert_null(none);
    cr_assert_null(hearth_simple_allocator(NULL));
    assert_size(hearth_simple_slots(NULL), 0);
    assert_size(hearth_simple_live_count(NULL), 0);
}

Test(simple, the_last_generation_retires)
{
    start(1);
    struct hearth_buf *buf = take(10);
    hearth__store_relaxed(&buf->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__LIVE));
    assert_ok(hearth_free(allocator, buf));
    assert_status(hearth_free(allocator, buf), HEARTH_STALE);
    cr_assert_neq(take(10), buf);
}
