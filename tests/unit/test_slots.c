/* SPDX-License-Identifier: Apache-2.0 */
/* An arena's supply of slots: the limit, recycling, growth, retirement at the last generation. */
#include "core/slots.h"
#include "support.h"

#define CORE_SLOTS (HEARTH__SLOTS_PER_GRANULE - HEARTH__CORE_BYTES / HEARTH__SLOT_BYTES)
#define SEGMENT_SLOTS (HEARTH__SLOTS_PER_GRANULE - HEARTH__HEADER_BYTES / HEARTH__SLOT_BYTES)

static struct hearth__slots slots;

static struct hearth__segment *start(size_t limit)
{
    struct hearth__segment *first = hearth__segment_acquire(HEARTH__SEGMENT_EXEC);
    cr_assert_not_null(first);
    hearth__slots_init(&slots, first, limit);
    return first;
}

static struct hearth_buf *take(void)
{
    bool grow = true;
    struct hearth_buf *slot = hearth__slots_take(&slots, &grow);
    cr_assert_not_null(slot);
    cr_assert_not(grow);
    cr_assert_eq(hearth__word_state(slot->state), HEARTH__UNUSED);
    return slot;
}

Test(slots, the_limit_holds)
{
    bool grow = true;
    start(3);
    struct hearth_buf *a = take();
    struct hearth_buf *b = take();
    struct hearth_buf *c = take();
    cr_assert(a != b && b != c && a != c);
    cr_assert_null(hearth__slots_take(&slots, &grow));
    cr_assert_not(grow, "the limit is no reason to grow");
    assert_size(slots.made, 3);
    assert_size(hearth__slots_unused(&slots), 0);
    hearth__slots_put(&slots, b);
    assert_size(hearth__slots_unused(&slots), 1);
    cr_assert_eq(take(), b);
    cr_assert_null(hearth__slots_take(&slots, &grow));
}

Test(slots, first_generation_is_one)
{
    struct hearth__segment *first = start(10);
    struct hearth_buf *slot = take();
    cr_assert_eq(hearth__word_generation(slot->state), 1);
    cr_assert_eq(slot->index, first->id * HEARTH__SLOTS_PER_GRANULE + first->first_slot);
    cr_assert_eq(slot, hearth__segment_slot(first, first->first_slot));
}

Test(slots, put_keeps_the_generation)
{
    start(10);
    struct hearth_buf *slot = take();
    hearth__store_relaxed(&slot->state, hearth__word(41, HEARTH__FREE));
    hearth__slots_put(&slots, slot);
    cr_assert_eq(slot->state, hearth__word(41, HEARTH__UNUSED));
    cr_assert_eq(take(), slot);
    cr_assert_eq(hearth__word_generation(slot->state), 41);
}

Test(slots, grows_by_segments)
{
    bool grow = false;
    struct hearth_allocator arena = {NULL};
    struct hearth__segment *first = start(SIZE_MAX);
    for (size_t i = 0; i < CORE_SLOTS; i++)
        cr_assert_eq(hearth__segment_of(take()), first);
    cr_assert_null(hearth__slots_take(&slots, &grow));
    cr_assert(grow);
    struct hearth__segment *second = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
    hearth__slots_add(&slots, second, &arena);
    for (size_t i = 0; i < SEGMENT_SLOTS; i++) {
        struct hearth_buf *slot = take();
        cr_assert_eq(hearth__segment_of(slot), second);
        cr_assert(hearth__slot_in(slot, &arena));
    }
    cr_assert_null(hearth__slots_take(&slots, &grow));
    cr_assert(grow);
    assert_size(slots.made, CORE_SLOTS + SEGMENT_SLOTS);
}

Test(slots, release_pools_every_segment)
{
    struct hearth_allocator arena = {NULL};
    struct hearth__segment *first = start(SIZE_MAX);
    struct hearth__segment *second = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
    hearth__slots_add(&slots, second, &arena);
    uint32_t count = hearth__segment_count();
    hearth__slots_release(&slots);
    cr_assert_null(hearth__load_relaxed(&second->arena));
    cr_assert_eq(hearth__segment_acquire(HEARTH__SEGMENT_EXEC), first);
    cr_assert_eq(hearth__segment_acquire(HEARTH__SEGMENT_SLOTS), second);
    cr_assert_eq(hearth__segment_count(), count);
}

Test(slots, the_last_generation_retires)
{
    start(1);
    struct hearth_buf *slot = take();
    hearth__store_relaxed(&slot->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__FREE));
    hearth__slots_put(&slots, slot);
    cr_assert_eq(slot->state, hearth__word(HEARTH__GENERATION_MAX, HEARTH__UNUSED));
    assert_size(slots.made, 0);
    assert_size(hearth__slots_unused(&slots), 0);
    struct hearth_buf *other = take();
    cr_assert_neq(other, slot, "a retired slot is not handed out");
    assert_size(slots.made, 1);
}

Test(slots, retired_slots_stay_so_in_later_lives)
{
    struct hearth__segment *first = start(SIZE_MAX);
    struct hearth_buf *retired[] = {take(), take()};
    struct hearth_buf *kept = take();
    hearth__store_relaxed(&kept->state, hearth__word(HEARTH__GENERATION_MAX - 1, HEARTH__UNUSED));
    for (size_t i = 0; i < COUNT_OF(retired); i++) {
        hearth__store_relaxed(&retired[i]->state,
                              hearth__word(HEARTH__GENERATION_MAX, HEARTH__FREE));
        hearth__slots_put(&slots, retired[i]);
    }
    hearth__slots_put(&slots, kept);
    hearth__slots_release(&slots);
    cr_assert_eq(start(SIZE_MAX), first);
    cr_assert_eq(take(), kept, "the first slots are skipped");
    cr_assert_eq(hearth__word_generation(kept->state), HEARTH__GENERATION_MAX - 1);
    assert_size(slots.made, 1);
}

Test(slots, a_segment_of_retired_slots_asks_for_another)
{
    bool grow = false;
    struct hearth__segment *first = start(SIZE_MAX);
    for (uint32_t n = first->first_slot; n < HEARTH__SLOTS_PER_GRANULE; n++)
        hearth__store_relaxed(&hearth__segment_slot(first, n)->state,
                              hearth__word(HEARTH__GENERATION_MAX, HEARTH__UNUSED));
    cr_assert_null(hearth__slots_take(&slots, &grow));
    cr_assert(grow);
    assert_size(slots.made, 0);
}
