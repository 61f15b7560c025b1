/* SPDX-License-Identifier: Apache-2.0 */
/* Books: places in the slab, which plans share, the slots they have, and what happens when slab or arena change. */
#include "pack_check.h"
#include "plan_check.h"
#include "support.h"

#include "core/book.h"

#include <stdlib.h>

static struct hearth_allocator one_arena;
static struct hearth_allocator other_arena;

/* A run of equal sizes, all live together. */
static struct hearth__plan *stack_of(uint32_t count, size_t size)
{
    struct hearth__run_record *record = plan_record(count);
    for (uint32_t i = 0; i < count; i++)
        record->requests[i] =
            (struct hearth__run_request){.size = size, .most = size, .end = count};
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    free(record);
    return plan;
}

static struct hearth__plan *random_plan(uint32_t count, uint64_t *state)
{
    struct hearth__run_record *record = plan_record(count);
    plan_random_record(record, 30, 10, state);
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    free(record);
    return plan;
}

static void give_slab(struct hearth__book *book, size_t length)
{
    book->slab = (struct hearth_segment){.base = aligned_alloc(64, length), .length = length};
    cr_assert_not_null(book->slab.base);
    hearth__store_relaxed(&book->slab_bytes, length);
}

static void add(struct hearth__book *book, struct hearth__plan *plan)
{
    book->plans[book->plan_count++] = plan;
}

static void take_slab(struct hearth__book *book)
{
    void *base = book->slab.base;
    struct hearth_segment slab = hearth__book_take_slab(book);
    cr_assert_eq(slab.base, base);
    assert_size(book->slab.length, 0);
    assert_size(book->slab_bytes, 0);
    assert_size(book->place_count, 0);
    cr_assert_eq(hearth__book_weight(book), 0);
    free(base);
}

static void check_places(const struct hearth__book *book, const struct hearth__plan *plan)
{
    cr_assert(plan->placed);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct hearth_buf *place = plan->entries[i].place;
        if (plan->units[i] == 0) {
            cr_assert_eq(place, &hearth__no_place);
            continue;
        }
        char *data = (char *)book->slab.base + (size_t)plan->offsets[i] * 64;
        cr_assert_eq(place->data, data);
        cr_assert_eq(hearth__payload_find(data), place);
        cr_assert_eq(hearth__word_state(place->state), HEARTH__FREE);
        cr_assert(hearth__is_place(place));
        assert_size(place->alignment_log & HEARTH__ALIGNMENT_LOG_MASK, HEARTH__ALIGNMENT_LOG_MIN);
        cr_assert_eq(hearth__segment_of(place)->arena, &one_arena);
    }
}

static void go_live(struct hearth_buf *place, size_t units)
{
    hearth__store_relaxed(&place->weight, hearth__weight_of(1, units * 64));
    hearth__store_relaxed(&place->state,
                          hearth__word(hearth__word_generation(place->state), HEARTH__LIVE));
}

static void come_back(struct hearth_buf *place)
{
    hearth__store_relaxed(&place->state,
                          hearth__word(hearth__word_generation(place->state) + 1, HEARTH__FREE));
}

Test(book_places, plans_share_places_by_offset)
{
    uint64_t state = 1;
    struct hearth__book *book = hearth__book_create();
    size_t offsets = 0;
    for (uint32_t k = 0; k < HEARTH__BOOK_PLANS; k++)
        add(book, random_plan(16 + 10 * k, &state));
    size_t need = hearth__book_need(book);
    cr_assert(hearth__book_is_waiting(book));
    give_slab(book, need);
    assert_ok(hearth__book_place(book, &one_arena));
    cr_assert_not(hearth__book_is_waiting(book));
    bool *seen = calloc(need / 64, sizeof *seen);
    for (uint32_t k = 0; k < HEARTH__BOOK_PLANS; k++) {
        const struct hearth__plan *plan = book->plans[k];
        check_places(book, plan);
        for (uint32_t i = 0; i < plan->count; i++)
            if (plan->units[i] != 0 && !seen[plan->offsets[i]]) {
                seen[plan->offsets[i]] = true;
                offsets++;
            }
    }
    assert_size(book->place_count, offsets);
    assert_size(hearth__weight_count(hearth__book_weight(book)), offsets);
    assert_size(hearth__weight_capacity(hearth__book_weight(book)), need);
    assert_size(hearth__book_live(book, NULL), 0);
    free(seen);
    take_slab(book);
    hearth__book_free(book);
}

Test(book_places, later_plans_find_the_places)
{
    struct hearth__book *book = hearth__book_create();
    add(book, stack_of(20, 64));
    give_slab(book, (size_t)100 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    assert_size(book->place_count, 20);
    /* Also one that is live. */
    struct hearth_buf *live = book->plans[0]->entries[3].place;
    go_live(live, 1);
    add(book, stack_of(40, 64));
    add(book, stack_of(16, 640));
    assert_ok(hearth__book_place(book, &one_arena));
    assert_size(book->place_count, 40);
    cr_assert_not(book->plans[2]->placed, "the slab is too small");
    cr_assert(hearth__book_is_waiting(book));
    cr_assert_eq(hearth__word_state(live->state), HEARTH__LIVE);
    come_back(live);
    check_places(book, book->plans[0]);
    check_places(book, book->plans[1]);
    take_slab(book);
    hearth__book_free(book);
}

Test(book_places, another_slab)
{
    struct hearth__book *book = hearth__book_create();
    add(book, stack_of(20, 64));
    give_slab(book, (size_t)20 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    struct hearth_buf *place = book->plans[0]->entries[7].place;
    void *data = place->data;
    for (uint32_t i = 0; i < 5; i++) {
        go_live(place, 1);
        come_back(place);
    }
    uint64_t generation = hearth__word_generation(place->state);
    size_t made = book->slots.made;
    void *hold = aligned_alloc(64, 64); /* so that the next slab lies elsewhere */
    take_slab(book);
    cr_assert_null(hearth__payload_find(data));
    cr_assert_null(place->data);
    cr_assert_not(hearth__is_place(place));
    cr_assert_eq(hearth__word_state(place->state), HEARTH__UNUSED);
    cr_assert_eq(hearth__word_generation(place->state), generation);
    assert_size(hearth__slots_unused(&book->slots), 20);
    cr_assert_not(book->plans[0]->placed);
    cr_assert(hearth__book_is_waiting(book));
    cr_assert_null(hearth__book_choose(book, 0, 64));
    give_slab(book, (size_t)64 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    check_places(book, book->plans[0]);
    assert_size(book->slots.made, made);
    cr_assert_eq(hearth__word_generation(place->state), generation);
    free(hold);
    take_slab(book);
    hearth__book_free(book);
}

/* What somebody else's slot has at an address of the slab is old. */
Test(book_places, only_slots_of_its_own)
{
    struct hearth__book *book = hearth__book_create();
    struct hearth__book *other = hearth__book_create();
    add(book, stack_of(16, 64));
    add(other, stack_of(16, 64));
    give_slab(book, (size_t)16 * 64);
    other->slab = book->slab;
    assert_ok(hearth__book_place(other, &other_arena));
    struct hearth_buf *strange = hearth__payload_find(book->slab.base);
    cr_assert_not_null(strange);
    assert_ok(hearth__book_place(book, &one_arena));
    assert_size(book->place_count, 16);
    check_places(book, book->plans[0]);
    cr_assert_neq(book->plans[0]->entries[0].place, strange);
    (void)hearth__book_take_slab(other);
    hearth__book_free(other);
    take_slab(book);
    hearth__book_free(book);
}

#define MANY 2000u /* of several segments */

Test(book_places, all_segments_are_looked_at)
{
    struct hearth__book *book = hearth__book_create();
    struct hearth__plan_run run = {.number = 1};
    hearth__weight in_place = 7;
    add(book, stack_of(MANY, 64));
    give_slab(book, (size_t)MANY * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    assert_size(book->place_count, MANY);
    cr_assert_gt(MANY, 3 * HEARTH__SLOTS_PER_GRANULE);
    struct hearth__plan *plan = book->plans[0];
    assert_size(hearth__book_live(book, &in_place), 0);
    cr_assert_eq(in_place, 0);
    for (uint32_t i = 0; i < MANY; i++)
        go_live(plan->entries[i].place, 1);
    assert_size(hearth__book_live(book, &in_place), MANY);
    cr_assert_eq(in_place, MANY * hearth__weight_of(1, 64));
    for (uint32_t i = 0; i < MANY; i += 2)
        come_back(plan->entries[i].place);
    assert_size(hearth__book_live(book, &in_place), MANY / 2);
    assert_size(hearth__book_follow(book, plan, 0, &run), MANY / 2);
    assert_size(plan->blocked, MANY / 2);
    for (uint32_t i = 1; i < MANY; i += 2)
        come_back(plan->entries[i].place);
    hearth__book_run_end(book, plan, 0, 0);
    hearth__book_serve(book, &other_arena);
    for (uint32_t i = 0; i < MANY; i++)
        cr_assert_eq(hearth__segment_of(plan->entries[i].place)->arena, &other_arena);
    take_slab(book);
    hearth__book_free(book);
}

Test(book_places, what_is_carried_blocks_all_it_touches)
{
    struct hearth__book *book = hearth__book_create();
    struct hearth__plan_run run = {.number = 1};
    add(book, stack_of(16, 640)); /* 10 units each */
    add(book, stack_of(40, 256)); /* 4 units each */
    give_slab(book, (size_t)160 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    struct hearth__plan *wide = book->plans[0];
    struct hearth__plan *narrow = book->plans[1];
    for (uint32_t i = 0; i < wide->count; i++) {
        struct hearth_buf *place = wide->entries[i].place;
        uint32_t begin = wide->offsets[i];
        go_live(place, wide->units[i]);
        assert_size(hearth__book_follow(book, narrow, 0, &run), 1);
        for (uint32_t k = 0; k < narrow->count; k++) {
            uint32_t at = narrow->offsets[k];
            bool touches = at < begin + 10 && begin < at + 4;
            cr_assert_eq(narrow->entries[k].size, touches ? HEARTH__PLAN_OFF : 256);
        }
        assert_size(narrow->blocked, 3);
        hearth__book_run_end(book, narrow, 0, 0);
        assert_size(narrow->blocked, 0);
        /* With other storage the slot is live, and its bytes are free. */
        place->flags = HEARTH__BUF_MOVED;
        assert_size(hearth__book_follow(book, narrow, 0, &run), 1);
        assert_size(narrow->blocked, 0);
        hearth__weight in_place;
        assert_size(hearth__book_live(book, &in_place), 1);
        cr_assert_eq(in_place, 0);
        come_back(place);
        hearth__book_restore(place, (char *)book->slab.base + (size_t)begin * 64);
    }
    check_places(book, wide);
    take_slab(book);
    hearth__book_free(book);
}

Test(book_places, restored_after_a_move)
{
    struct hearth__book *book = hearth__book_create();
    static char elsewhere[64];
    add(book, stack_of(16, 64));
    give_slab(book, (size_t)16 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    struct hearth_buf *place = book->plans[0]->entries[5].place;
    void *home = place->data;
    go_live(place, 1);
    hearth__payload_clear(home);
    place->storage = (struct hearth__storage){elsewhere, 64, 5};
    place->offset = 3;
    place->size_class = 4;
    place->flags = HEARTH__BUF_MOVED;
    hearth__store_relaxed(&place->data, elsewhere);
    cr_assert_null(hearth__payload_find(home));
    come_back(place);
    hearth__book_restore(place, home);
    check_places(book, book->plans[0]);
    assert_size(place->flags, 0);
    assert_size(place->offset, 0);
    assert_size(place->size_class, 0);
    cr_assert_eq(place->storage.base, home);
    assert_size(place->storage.length, 0);
    take_slab(book);
    hearth__book_free(book);
}

Test(book_places, follow_from_the_middle)
{
    struct hearth__book *book = hearth__book_create();
    struct hearth__plan_run run = {.number = 9, .strayed = 5};
    add(book, stack_of(16, 64));
    give_slab(book, (size_t)16 * 64);
    assert_ok(hearth__book_place(book, &one_arena));
    struct hearth__plan *plan = book->plans[0];
    assert_size(hearth__book_follow(book, plan, 6, &run), 0);
    for (uint32_t i = 0; i < 16; i++)
        assert_size(plan->entries[i].over, i < 6 ? 9 : 0);
    cr_assert_eq(run.cursor, &plan->entries[6]);
    assert_size(run.strayed, 0);
    cr_assert_eq(hearth__plan_step(&run, 64), plan->entries[6].place);
    cr_assert_null(hearth__plan_step(&run, 65));
    cr_assert_eq(run.cursor, &plan->entries[7]);
    take_slab(book);
    hearth__book_free(book);
}
