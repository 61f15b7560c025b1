/* SPDX-License-Identifier: Apache-2.0 */
/* The inbox protocol, step by step in one thread: every outcome of a claim, settling, totals, closing.
 * Interleavings are the stress programs' job. */
#include "concurrent/inbox.h"
#include "core/meta.h"
#include "support.h"

static struct hearth__inbox inbox;
static struct hearth_buf *slots; /* four: 100, 200, ... bytes in 640, 1280, ... */

#define SLOTS 4

static void start(void)
{
    struct hearth__segment *segment = hearth__segment_acquire(HEARTH__SEGMENT_SLOTS);
    cr_assert_not_null(segment);
    slots = hearth__segment_slot(segment, segment->first_slot);
    hearth__inbox_open(&inbox);
    for (uint32_t i = 0; i < SLOTS; i++) {
        slots[i].index =
            segment->id * (uint32_t)HEARTH__SLOTS_PER_GRANULE + segment->first_slot + i;
        hearth__store_relaxed(&slots[i].size, 100 * (i + 1));
        hearth__store_relaxed(&slots[i].weight, hearth__weight_of(1, 640 * (i + 1)));
    }
}

/* The second word as it should be. */
static uint64_t returned_word(uint64_t generation, uint64_t overtaken, uint64_t queued)
{
    return generation << HEARTH__GENERATION_SHIFT | overtaken << HEARTH__OVERTAKEN_SHIFT | queued;
}

static void assert_settles(struct hearth_buf *buf, uint64_t generation, size_t overtaken)
{
    struct hearth__settled settled = hearth__inbox_settle(buf);
    cr_assert_eq(settled.generation, generation, "generation %zu", (size_t)settled.generation);
    assert_size(settled.overtaken, overtaken);
    cr_assert_eq(buf->returned, returned_word(generation, 0, 0));
}

static void assert_queued(struct hearth__queued queued, size_t count, size_t size, size_t capacity)
{
    assert_size(queued.count, count);
    assert_size(queued.size, size);
    assert_size(queued.capacity, capacity);
}

Test(inbox, claim_push_take_settle, .init = start)
{
    cr_assert_not(hearth__inbox_waiting(&inbox));
    cr_assert_null(hearth__inbox_take(&inbox));
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_PUSH);
    cr_assert_eq(slots[0].returned, returned_word(5, 0, 1));
    cr_assert_not(hearth__inbox_waiting(&inbox), "a claim queues nothing yet");
    cr_assert(hearth__inbox_has_claim(&slots[0], 5));
    cr_assert_not(hearth__inbox_has_claim(&slots[0], 6));
    cr_assert(hearth__inbox_push(&inbox, &slots[0]));
    cr_assert(hearth__inbox_waiting(&inbox));
    cr_assert_eq(hearth__inbox_take(&inbox), &slots[0]);
    cr_assert_null(slots[0].inbox_next);
    cr_assert_not(hearth__inbox_waiting(&inbox));
    cr_assert_eq(slots[0].returned & HEARTH__QUEUED, HEARTH__QUEUED, "taken is still queued");
    assert_settles(&slots[0], 5, 0);
}

Test(inbox, one_generation_is_returned_once, .init = start)
{
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_PUSH);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_TWIN);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 4), HEARTH__CLAIM_TWIN, "an older one too");
    cr_assert_eq(slots[0].returned, returned_word(5, 0, 1));
    (void)hearth__inbox_push(&inbox, &slots[0]);
    (void)hearth__inbox_take(&inbox);
    assert_settles(&slots[0], 5, 0);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_TWIN,
                 "also after it was settled");
    cr_assert_eq(hearth__inbox_claim(&slots[0], 6), HEARTH__CLAIM_PUSH);
}

Test(inbox, a_newer_return_rides_along, .init = start)
{
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_PUSH);
    cr_assert(hearth__inbox_push(&inbox, &slots[0]));
    /* The owner overtook: it freed generation 5 itself and handed out 6. */
    cr_assert_eq(hearth__inbox_claim(&slots[0], 6), HEARTH__CLAIM_RIDES);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 6), HEARTH__CLAIM_TWIN);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_TWIN);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 9), HEARTH__CLAIM_RIDES);
    assert_queued(hearth__queued_at(inbox.head), 1, 100, 640);
    cr_assert_eq(hearth__inbox_take(&inbox), &slots[0]);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 10), HEARTH__CLAIM_RIDES, "until it is settled");
    assert_settles(&slots[0], 10, 3);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 11), HEARTH__CLAIM_PUSH);
    assert_settles(&slots[0], 11, 0);
}

/* More overtaken returns than can be counted must not reach into the generation. */
Test(inbox, the_count_of_overtaken_returns_stays_in_its_bits, .init = start)
{
    uint64_t most = HEARTH__OVERTAKEN_MASK >> HEARTH__OVERTAKEN_SHIFT;
    hearth__store_relaxed(&slots[0].returned, returned_word(5, most, 1));
    cr_assert_eq(hearth__inbox_claim(&slots[0], 6), HEARTH__CLAIM_RIDES);
    assert_settles(&slots[0], 6, (size_t)most);
}

TheoryDataPoints(inbox, generations_of_any_size) = {
    DataPoints(uint64_t, 1, 2, UINT32_MAX, (uint64_t)1 << 40, HEARTH__GENERATION_MAX - 1,
               HEARTH__GENERATION_MAX),
};

Theory((uint64_t generation), inbox, generations_of_any_size)
{
    start();
    cr_assert_eq(hearth__inbox_claim(&slots[0], generation), HEARTH__CLAIM_PUSH);
    cr_assert_eq(hearth__inbox_claim(&slots[0], generation), HEARTH__CLAIM_TWIN);
    assert_settles(&slots[0], generation, 0);
}

Test(inbox, the_chain_is_last_in_first_out_with_totals, .init = start)
{
    assert_queued(hearth__queued_at(inbox.head), 0, 0, 0);
    static const size_t sizes[] = {100, 300, 600, 1000};
    for (size_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(hearth__inbox_claim(&slots[i], 1), HEARTH__CLAIM_PUSH);
        cr_assert(hearth__inbox_push(&inbox, &slots[i]));
        assert_queued(hearth__queued_at(inbox.head), i + 1, sizes[i], sizes[i] / 10 * 64);
    }
    struct hearth_buf *chain = hearth__inbox_take(&inbox);
    assert_queued(hearth__queued_at(inbox.head), 0, 0, 0);
    for (size_t i = SLOTS; i-- > 0; chain = chain->inbox_next) {
        cr_assert_eq(chain, &slots[i]);
        assert_queued(hearth__queued_from(chain), i + 1, sizes[i], sizes[i] / 10 * 64);
    }
    cr_assert_null(chain);
    assert_queued(hearth__queued_from(NULL), 0, 0, 0);
}

Test(inbox, totals_start_again_after_a_take, .init = start)
{
    (void)hearth__inbox_claim(&slots[0], 1);
    (void)hearth__inbox_push(&inbox, &slots[0]);
    (void)hearth__inbox_take(&inbox);
    (void)hearth__inbox_claim(&slots[3], 1);
    cr_assert(hearth__inbox_push(&inbox, &slots[3]));
    assert_queued(hearth__queued_at(inbox.head), 1, 400, 2560);
    cr_assert_null(slots[3].inbox_next);
}

Test(inbox, closing_takes_the_rest_and_refuses_more, .init = start)
{
    (void)hearth__inbox_claim(&slots[0], 1);
    (void)hearth__inbox_push(&inbox, &slots[0]);
    (void)hearth__inbox_claim(&slots[1], 1);
    (void)hearth__inbox_push(&inbox, &slots[1]);
    cr_assert_eq(hearth__inbox_close(&inbox), &slots[1]);
    cr_assert_not(hearth__inbox_waiting(&inbox));
    assert_queued(hearth__queued_at(inbox.head), 0, 0, 0);
    cr_assert_eq(hearth__inbox_claim(&slots[2], 1), HEARTH__CLAIM_PUSH);
    cr_assert_not(hearth__inbox_push(&inbox, &slots[2]), "the caller settles it himself");
    assert_settles(&slots[2], 1, 0);
    cr_assert_null(hearth__inbox_close(&inbox), "closing twice finds nothing");
    cr_assert_not(hearth__inbox_push(&inbox, &slots[3]), "and it stays closed");
}

Test(inbox, opens_again_after_it_was_closed, .init = start)
{
    cr_assert_not(hearth__inbox_closed(&inbox));
    uint64_t first = inbox.head;
    (void)hearth__inbox_close(&inbox);
    cr_assert(hearth__inbox_closed(&inbox));
    hearth__inbox_open(&inbox);
    cr_assert_not(hearth__inbox_closed(&inbox));
    cr_assert_not(hearth__inbox_waiting(&inbox));
    cr_assert_neq(inbox.head, first, "an old head must not look current");
    (void)hearth__inbox_claim(&slots[0], 1);
    cr_assert(hearth__inbox_push(&inbox, &slots[0]));
    cr_assert_eq(hearth__inbox_take(&inbox), &slots[0]);
}

/* A push that stalled before its exchange must fail after the chain was taken. */
Test(inbox, each_take_changes_the_head, .init = start)
{
    uint64_t seen[8];
    for (size_t i = 0; i < COUNT_OF(seen); i++) {
        (void)hearth__inbox_claim(&slots[0], i + 1);
        cr_assert(hearth__inbox_push(&inbox, &slots[0]));
        seen[i] = inbox.head;
        cr_assert_eq(hearth__inbox_take(&inbox), &slots[0]);
        assert_settles(&slots[0], i + 1, 0);
        for (size_t j = 0; j < i; j++)
            cr_assert_neq(seen[j], seen[i]);
    }
}

Test(inbox, a_stray_is_claimed_again, .init = start)
{
    (void)hearth__inbox_claim(&slots[0], 5);
    (void)hearth__inbox_push(&inbox, &slots[0]);
    (void)hearth__inbox_take(&inbox);
    assert_settles(&slots[0], 5, 0);
    cr_assert(hearth__inbox_reclaim(&slots[0], 5));
    cr_assert_eq(slots[0].returned, returned_word(5, 0, 1));
    cr_assert_eq(hearth__inbox_claim(&slots[0], 5), HEARTH__CLAIM_TWIN);
    cr_assert_eq(hearth__inbox_claim(&slots[0], 6), HEARTH__CLAIM_RIDES);
    cr_assert(hearth__inbox_push(&inbox, &slots[0]));
    assert_settles(&slots[0], 6, 1);
}
