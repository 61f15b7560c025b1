/* SPDX-License-Identifier: Apache-2.0 */
/* The state word, and attaching, detaching and exchanging storage. */
#include "core/buf.h"
#include "core/meta.h"
#include "core/size_class.h"
#include "support.h"

TheoryDataPoints(buf, word_packs) = {
    DataPoints(uint64_t, 0, 1, 2, 1000, UINT32_MAX, HEARTH__GENERATION_MAX - 1,
               HEARTH__GENERATION_MAX),
    DataPoints(int, HEARTH__UNUSED, HEARTH__LIVE, HEARTH__LEASED, HEARTH__RETURNING, HEARTH__CACHED,
               HEARTH__FREE, HEARTH__EVICTED),
};

Theory((uint64_t generation, int state), buf, word_packs)
{
    uint64_t word = hearth__word(generation, (enum hearth__state)state);
    cr_assert_eq(hearth__word_generation(word), generation);
    cr_assert_eq((int)hearth__word_state(word), state);
    cr_assert_eq(word & ((1u << HEARTH__COUNT_BITS) - 1), 0, "the count starts at 0");
    uint64_t counted = word + ((1u << HEARTH__COUNT_BITS) - 1);
    cr_assert_eq(hearth__word_generation(counted), generation, "a full count stays in its bits");
    cr_assert_eq((int)hearth__word_state(counted), state);
}

Test(buf, generations_have_room)
{
    cr_assert_geq(HEARTH__GENERATION_MAX, ((uint64_t)1 << 40) - 1);
    cr_assert_eq(hearth__word(0, HEARTH__UNUSED), 0, "fresh memory is an unused slot");
    cr_assert_eq(sizeof(struct hearth_buf), 128);
}

TheoryDataPoints(buf, weights_pack) = {
    DataPoints(size_t, 0, 1, 2, 1000, ((size_t)1 << 26) - 1),
    DataPoints(size_t, 0, 64, 128, 4096, (size_t)1 << 40, HEARTH__HELD_MAX & ~(size_t)63),
};

Theory((size_t count, size_t capacity), buf, weights_pack)
{
    hearth__weight weight = hearth__weight_of(count, capacity);
    assert_size(hearth__weight_count(weight), count);
    assert_size(hearth__weight_capacity(weight), capacity);
    /* A difference is right whatever came before. */
    hearth__weight far = hearth__weight_of(12345, (size_t)3 << 40) * 999;
    assert_size(hearth__weight_count(far + weight - far), count);
    assert_size(hearth__weight_capacity(far + weight - far), capacity);
}

/* Static storage that looks like a backing's segment. */
static char storage[4][4096] __attribute__((aligned(4096)));

static struct hearth_segment segment_at(unsigned i, size_t length, uint32_t flags)
{
    return (struct hearth_segment){storage[i], length, 500 + i, flags, 0};
}

static struct hearth_buf *slot_number(uint32_t n)
{
    static struct hearth__segment *segment;
    if (segment == NULL)
        segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
    cr_assert_not_null(segment);
    struct hearth_buf *slot = hearth__segment_slot(segment, n);
    slot->index = segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + n;
    hearth__store_relaxed(&slot->state, hearth__word(9, HEARTH__UNUSED));
    return slot;
}

Test(buf, attach_describes_the_storage)
{
    struct hearth_buf *slot = slot_number(1);
    struct hearth_segment segment = segment_at(0, 1152, HEARTH_SEGMENT_ZERO);
    assert_ok(hearth__buf_attach(slot, &segment, 12));
    cr_assert_eq(hearth_buf_data(slot), (void *)storage[0]);
    assert_size(hearth_buf_capacity(slot), 1152);
    cr_assert_eq(slot->size_class, hearth__class_of(1024), "the class is rounded down");
    cr_assert_eq(slot->alignment_log, 12);
    cr_assert_eq(slot->flags, HEARTH__BUF_ZERO);
    cr_assert_eq(slot->offset, 0);
    cr_assert_eq(hearth__payload_find(storage[0]), slot);
    cr_assert_eq(hearth_buf_generation(slot), 9, "attaching is no return");
}

Test(buf, attach_without_the_zero_flag)
{
    struct hearth_buf *slot = slot_number(1);
    struct hearth_segment segment = segment_at(0, 64, 0);
    slot->flags = HEARTH__BUF_ZERO;
    assert_ok(hearth__buf_attach(slot, &segment, 6));
    cr_assert_eq(slot->flags, 0);
    cr_assert_eq(slot->size_class, 0);
}

Test(buf, attach_refuses_what_cannot_be_found)
{
    struct hearth_buf *slot = slot_number(1);
    struct hearth_segment ours = {slot_number(2), 64, 0, 0, 0};
    struct hearth_segment beyond = {(void *)((uintptr_t)1 << 50), 64, 0, 0, 0};
    assert_status(hearth__buf_attach(slot, &ours, 6), HEARTH_NO_MEMORY);
    assert_status(hearth__buf_attach(slot, &beyond, 6), HEARTH_NO_MEMORY);
    cr_assert_null(hearth_buf_data(slot));
    assert_size(hearth_buf_capacity(slot), 0);
}

Test(buf, detach_hands_the_segment_back)
{
    struct hearth_buf *slot = slot_number(1);
    struct hearth_segment in = segment_at(1, 2048, HEARTH_SEGMENT_ZERO);
    struct hearth_segment out = {0};
    struct hearth_buf *found = NULL;
    assert_ok(hearth__buf_attach(slot, &in, 6));
    hearth__store_relaxed(&slot->size, 2000);
    hearth__buf_detach(slot, &out);
    cr_assert_eq(out.base, in.base);
    assert_size(out.length, 2048);
    cr_assert_eq(out.cookie, 501);
    cr_assert_null(hearth_buf_data(slot));
    assert_size(hearth_buf_capacity(slot), 0);
    assert_size(hearth_buf_size(slot), 0);
    cr_assert_eq(slot->flags, 0);
    cr_assert_null(hearth__payload_find(storage[1]));
    assert_status(hearth_buf_of(storage[1], &found), HEARTH_FOREIGN);
    cr_assert_eq(hearth_buf_generation(slot), 9);
}

Test(buf, swap_exchanges_storage_and_nothing_else)
{
    struct hearth_buf *a = slot_number(1);
    struct hearth_buf *b = slot_number(2);
    struct hearth_segment first = segment_at(2, 1024, 0);
    struct hearth_segment second = segment_at(3, 4096, HEARTH_SEGMENT_ZERO);
    struct hearth_segment out = {0};
    hearth__store_relaxed(&b->state, hearth__word(20, HEARTH__LIVE));
    assert_ok(hearth__buf_attach(a, &first, 6));
    assert_ok(hearth__buf_attach(b, &second, 10));
    hearth__store_relaxed(&a->size, 1000);
    hearth__store_relaxed(&b->size, 4000);
    uint32_t index = a->index;

    hearth__buf_swap_storage(a, b);

    cr_assert_eq(hearth_buf_data(a), (void *)storage[3]);
    cr_assert_eq(hearth_buf_data(b), (void *)storage[2]);
    assert_size(hearth_buf_capacity(a), 4096);
    assert_size(hearth_buf_capacity(b), 1024);
    cr_assert_eq(a->size_class, hearth__class_of(4096));
    cr_assert_eq(b->size_class, hearth__class_of(1024));
    cr_assert_eq(a->alignment_log, 10);
    cr_assert_eq(b->alignment_log, 6);
    cr_assert_eq(a->flags, HEARTH__BUF_ZERO);
    cr_assert_eq(b->flags, 0);
    cr_assert_eq(hearth__payload_find(storage[3]), a);
    cr_assert_eq(hearth__payload_find(storage[2]), b);
    assert_size(hearth_buf_size(a), 1000);
    assert_size(hearth_buf_size(b), 4000);
    cr_assert_eq(hearth_buf_generation(a), 9);
    cr_assert_eq(hearth_buf_generation(b), 20);
    cr_assert_eq(a->index, index);
    hearth__buf_detach(a, &out);
    cr_assert_eq(out.cookie, 503, "the cookie moves with the storage");
}

Test(buf, buf_of_tells_live_from_returned)
{
    struct hearth_buf *slot = slot_number(1);
    struct hearth_buf *found = NULL;
    struct hearth_segment segment = segment_at(0, 4096, 0);
    assert_ok(hearth__buf_attach(slot, &segment, 6));
    static const struct {
        enum hearth__state state;
        enum hearth_status answer;
    } cases[] = {
        {HEARTH__LIVE, HEARTH_OK},         {HEARTH__LEASED, HEARTH_OK},
        {HEARTH__FREE, HEARTH_STALE},      {HEARTH__UNUSED, HEARTH_STALE},
        {HEARTH__EVICTED, HEARTH_STALE},   {HEARTH__CACHED, HEARTH_STALE},
        {HEARTH__RETURNING, HEARTH_STALE},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        found = NULL;
        hearth__store_relaxed(&slot->state, hearth__word(3, cases[i].state));
        assert_status(hearth_buf_of(storage[0], &found), cases[i].answer);
        cr_assert_eq(found, cases[i].answer == HEARTH_OK ? slot : NULL, "state %d", cases[i].state);
    }
    assert_status(hearth_buf_of(storage[0] + 64, &found), HEARTH_FOREIGN);
    assert_status(hearth_buf_of(NULL, &found), HEARTH_FOREIGN);
    assert_status(hearth_buf_of(storage[0], NULL), HEARTH_INVALID);
}

Test(buf, not_live_is_leased_or_stale)
{
    cr_assert_eq(hearth__buf_not_live(hearth__word(5, HEARTH__LEASED)), HEARTH_LEASED);
    cr_assert_eq(hearth__buf_not_live(hearth__word(5, HEARTH__FREE)), HEARTH_STALE);
    cr_assert_eq(hearth__buf_not_live(hearth__word(5, HEARTH__UNUSED)), HEARTH_STALE);
}
