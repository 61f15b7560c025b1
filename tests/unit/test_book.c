/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Books: which recorded runs come to be plans, when nothing is recorded, which plans are dropped, and which one a run
 * follows. The places are in test_book_places.c. Not covered: failing memory.
 */
#include "plan_check.h"
#include "support.h"

#include "core/book.h"

#include <stdlib.h>

#define COUNT HEARTH__RUN_LEAST

static struct hearth__book *open_book(void)
{
    struct hearth__book *book = hearth__book_create();
    cr_assert_not_null(book);
    return book;
}

/* Record a run of `count` requests: the first of size `first`, all others of 64, each returned before the next. */
static void record(struct hearth__book *book, uint64_t key, uint32_t count, size_t first)
{
    cr_assert(hearth__book_record_begin(book, key));
    for (uint32_t i = 0; i < count; i++) {
        assert_size(hearth__book_record_request(book, i == 0 ? first : 64), i);
        hearth__book_request(book, i)->end = i + 1;
    }
    cr_assert_null(hearth__book_request(book, count));
    hearth__book_record_end(book);
}

static void plan_all(struct hearth__book *book)
{
    while (book->planning != NULL)
        (void)hearth__book_plan_some(book, 1000);
}

/* Two runs, and the plan that comes of them. It has no places, but says so for tests of what is chosen. */
static struct hearth__plan *learn(struct hearth__book *book, uint64_t key, uint32_t count,
                                  size_t first)
{
    uint64_t made = book->plans_made;
    record(book, key, count, first);
    record(book, key, count, first);
    plan_all(book);
    cr_assert_eq(book->plans_made, made + 1);
    struct hearth__plan *plan = book->plans[book->plan_count - 1];
    plan->placed = true;
    return plan;
}

Test(book, the_second_run_makes_a_plan)
{
    struct hearth__book *book = open_book();
    cr_assert_not(hearth__book_plan_some(book, 1000));
    record(book, 7, COUNT, 1000);
    cr_assert_null(book->planning);
    assert_size(book->past_count, 1);
    record(book, 7, COUNT, 1000);
    cr_assert_not_null(book->planning);
    assert_size(book->past_count, 0);
    size_t slices = 0;
    while (!hearth__book_plan_some(book, 0))
        slices++;
    cr_assert_gt(slices, 10);
    cr_assert_not(hearth__book_plan_some(book, 0));
    assert_size(book->plan_count, 1);
    assert_size(book->plans_made, 1);
    cr_assert_eq(book->plans[0]->key, 7);
    assert_size(book->plans[0]->sizes[0], 1000);
    assert_size(hearth__book_need(book), 1024);
    hearth__book_free(book);
}

Test(book, lives_are_united)
{
    struct hearth__book *book = open_book();
    struct hearth__run_record *both = plan_record(COUNT);
    for (uint32_t i = 0; i < COUNT; i++)
        both->requests[i].end = i + 1;
    both->requests[3].end = 7;
    both->requests[5].end = 9;
    both->requests[6].taken = true;
    for (uint32_t run = 0; run < 2; run++) {
        cr_assert(hearth__book_record_begin(book, 0));
        for (uint32_t i = 0; i < COUNT; i++) {
            (void)hearth__book_record_request(book, 64);
            hearth__book_request(book, i)->end = i + 1;
        }
        hearth__book_request(book, 3)->end = run == 0 ? 7 : 5;
        hearth__book_request(book, 5)->end = run == 0 ? 6 : 9;
        hearth__book_request(book, 6)->taken = run == 1;
        hearth__book_record_end(book);
    }
    plan_all(book);
    plan_check(book->plans[0], both);
    free(both);
    hearth__book_free(book);
}

Test(book, any_of_the_last_eight)
{
    struct hearth__book *book = open_book();
    for (size_t k = 1; k <= HEARTH__BOOK_PAST; k++)
        record(book, 0, COUNT, k);
    record(book, 0, COUNT, 1);
    cr_assert_not_null(book->planning, "the eighth from behind");
    plan_all(book);
    assert_size(book->plans[0]->sizes[0], 1);
    assert_size(book->past_count, HEARTH__BOOK_PAST - 1);
    record(book, 0, COUNT, 100);
    record(book, 0, COUNT, 101);
    record(book, 0, COUNT, 2);
    cr_assert_null(book->planning, "the ninth from behind");
    assert_size(book->past_count, HEARTH__BOOK_PAST);
    record(book, 9, COUNT, 2);
    cr_assert_null(book->planning, "another key");
    hearth__book_free(book);
}

Test(book, one_planning_at_a_time)
{
    struct hearth__book *book = open_book();
    record(book, 0, COUNT, 1);
    record(book, 0, COUNT, 1);
    const struct hearth__planning *planning = book->planning;
    record(book, 0, COUNT, 2);
    record(book, 0, COUNT, 2);
    cr_assert_eq(book->planning, planning);
    assert_size(book->past_count, 1);
    plan_all(book);
    record(book, 0, COUNT, 2);
    cr_assert_not_null(book->planning, "the third comes in time");
    plan_all(book);
    assert_size(book->plan_count, 2);
    hearth__book_free(book);
}

Test(book, short_runs_are_not_looked_at)
{
    struct hearth__book *book = open_book();
    for (uint32_t i = 0; i < 40; i++)
        record(book, 0, COUNT - 1, 1);
    assert_size(book->past_count, 0);
    assert_size(book->fruitless, 0);
    cr_assert_null(book->planning);
    hearth__book_free(book);
}

Test(book, runs_too_long_to_record)
{
    struct hearth__book *book = open_book();
    for (uint32_t run = 0; run < 2; run++) {
        uint32_t runs = 1;
        while (!hearth__book_record_begin(book, 0)) /* none is for a while after such a one */
            cr_assert_lt(runs++, 2000);
        cr_assert(run == 0 ? runs == 1 : runs > 1000);
        for (uint32_t i = 0; i < HEARTH__RUN_MOST; i++)
            assert_size(hearth__book_record_request(book, 64), i);
        cr_assert_not(book->record->overflow);
        assert_size(hearth__book_record_request(book, 64), HEARTH__RUN_MOST);
        cr_assert(book->record->overflow);
        cr_assert_null(hearth__book_request(book, HEARTH__RUN_MOST));
        hearth__book_record_end(book);
        assert_size(book->fruitless, run + 1);
    }
    assert_size(book->past_count, 0);
    cr_assert_null(book->planning);
    hearth__book_free(book);
}

Test(book, runs_like_none_before_are_recorded_less)
{
    struct hearth__book *book = open_book();
    size_t size = 1;
    for (uint32_t run = 0; run < 2 * HEARTH__BOOK_PAST; run++)
        record(book, 0, COUNT, size++);
    assert_size(book->rest, 0);
    for (uint32_t times = 1; times < 14; times++) {
        record(book, 0, COUNT, size++);
        uint32_t rests = 0;
        while (!hearth__book_record_begin(book, 0))
            rests++;
        assert_size(rests, times < 10 ? 1u << times : 1024);
    }
    record(book, 0, COUNT, size - 1);
    assert_size(book->fruitless, 0);
    assert_size(book->rest, 0);
    hearth__book_free(book);
}

Test(book, nothing_to_plan)
{
    struct hearth__book *book = open_book();
    for (uint32_t run = 0; run < 2; run++) {
        cr_assert(hearth__book_record_begin(book, 0));
        for (uint32_t i = 0; i < COUNT; i++)
            (void)hearth__book_record_request(book, 64);
        hearth__book_record_end(book);
    }
    cr_assert_null(book->planning);
    assert_size(book->rest, 1024);
    assert_size(book->past_count, 0);
    hearth__book_free(book);
}

Test(book, poor_is_below_nine_tenths)
{
    struct hearth__book *book = open_book();
    struct hearth__plan *plan = learn(book, 0, COUNT, 5);
    const struct {
        uint64_t served, bytes;
        bool poor;
    } cases[] = {{89, 100, true}, {90, 100, false}, {0, 1, true}, {0, 0, false}, {899, 1000, true}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        hearth__book_run_end(book, plan, cases[i].served, cases[i].bytes);
        cr_assert_eq(plan->poor, cases[i].poor);
    }
    assert_size(book->plan_count, 1);
    hearth__book_free(book);
}

Test(book, poor_runs_raise_doubts)
{
    struct hearth__book *book = open_book();
    struct hearth__plan *plan = learn(book, 0, COUNT, 5);
    cr_assert_not(hearth__book_doubts(book));
    for (uint32_t times = 0; times < 12; times++) {
        hearth__book_run_end(book, plan, 0, 100);
        hearth__book_run_end(book, plan, 100, 100);
        hearth__book_run_end(book, plan, 0, 100);
        uint32_t trusted = 0;
        while (!hearth__book_doubts(book))
            trusted++;
        assert_size(trusted, times == 0 ? 0 : times < 7 ? 24u << (times - 1) : 1024);
        cr_assert(hearth__book_doubts(book), "two runs");
        assert_size(book->rest, 0);
    }
    hearth__book_free(book);
}

Test(book, one_plan_for_each_kind_of_run)
{
    struct hearth__book *book = open_book();
    struct hearth__plan *plan = learn(book, 0, COUNT, 5);
    record(book, 0, COUNT, 5);
    record(book, 0, COUNT, 5);
    cr_assert_null(book->planning, "it is good as it is");
    hearth__book_run_end(book, plan, 0, 100);
    record(book, 0, COUNT, 5);
    record(book, 0, COUNT, 5);
    cr_assert(book->planning != NULL, "lives may have changed");
    plan_all(book);
    assert_size(book->plan_count, 1);
    assert_size(book->plans_made, 2);
    hearth__book_free(book);
}

Test(book, the_least_recently_used_goes)
{
    struct hearth__book *book = open_book();
    struct hearth__plan_run run = {.number = 1};
    for (size_t k = 1; k <= HEARTH__BOOK_PLANS; k++)
        (void)learn(book, 0, COUNT, k);
    for (uint32_t i = 0; i < HEARTH__BOOK_PLANS; i++)
        if (i != 4)
            assert_size(hearth__book_follow(book, book->plans[i], 0, &run), 0);
    (void)learn(book, 0, COUNT, 1000);
    assert_size(book->plan_count, HEARTH__BOOK_PLANS);
    for (size_t k = 1; k <= HEARTH__BOOK_PLANS; k++)
        cr_assert_eq(hearth__book_choose(book, 0, k) == NULL, k == 5, "%zu", k);
    cr_assert_not_null(hearth__book_choose(book, 0, 1000));
    assert_size(hearth__book_need(book), 1024);
    hearth__book_free(book);
}

Test(book, the_plan_used_last_is_chosen)
{
    struct hearth__book *book = open_book();
    struct hearth__plan_run run = {.number = 1};
    struct hearth__plan *shorter = learn(book, 0, COUNT, 5);
    struct hearth__plan *longer = learn(book, 0, COUNT + 1, 5);
    struct hearth__plan *keyed = learn(book, 3, COUNT, 5);
    cr_assert_eq(hearth__book_choose(book, 0, 5), longer);
    (void)hearth__book_follow(book, shorter, 0, &run);
    cr_assert_eq(hearth__book_choose(book, 0, 5), shorter);
    cr_assert_eq(hearth__book_choose(book, 3, 5), keyed);
    cr_assert_null(hearth__book_choose(book, 0, 6));
    cr_assert_null(hearth__book_choose(book, 4, 5));
    shorter->placed = false;
    cr_assert_eq(hearth__book_choose(book, 0, 5), longer);
    hearth__book_free(book);
}

Test(book, another_plan_goes_on_alike)
{
    struct hearth__book *book = open_book();
    struct hearth__plan *a = learn(book, 0, COUNT, 5);
    struct hearth__plan *b = learn(book, 0, COUNT + 4, 5);
    struct hearth__plan *keyed = learn(book, 3, COUNT + 4, 5);
    (void)learn(book, 0, COUNT + 8, 6);
    b->sizes[10] = 128;
    cr_assert_eq(hearth__book_other(book, a, 10, 128), b);
    cr_assert_eq(hearth__book_other(book, b, 10, 64), a);
    cr_assert_null(hearth__book_other(book, a, 9, 128));
    cr_assert_null(hearth__book_other(book, a, 11, 64), "not alike up to there");
    cr_assert_null(hearth__book_other(book, keyed, 10, 128));
    b->sizes[10] = 64;
    cr_assert_eq(hearth__book_other(book, a, COUNT, 64), b, "beyond the end");
    cr_assert_null(hearth__book_other(book, a, COUNT + 1, 64), "and further");
    cr_assert_null(hearth__book_other(book, b, COUNT, 64), "none is that long");
    b->placed = false;
    cr_assert_null(hearth__book_other(book, a, COUNT, 64));
    hearth__book_free(book);
}

Test(book, numbers_wrap)
{
    struct hearth__book *book = open_book();
    assert_size(hearth__book_next_number(book, true), 1);
    assert_size(hearth__book_next_number(book, false), 2);
    struct hearth__plan *plan = learn(book, 0, COUNT, 5);
    book->number = UINT32_MAX - 1;
    assert_size(hearth__book_next_number(book, true), UINT32_MAX);
    plan->entries[3].over = 1;
    plan->entries[COUNT - 1].over = UINT32_MAX;
    assert_size(hearth__book_next_number(book, true), 0);
    assert_size(hearth__book_next_number(book, true), 0);
    assert_size(plan->entries[3].over, 1);
    assert_size(hearth__book_next_number(book, false), 1);
    assert_size(plan->entries[3].over, 0);
    assert_size(plan->entries[COUNT - 1].over, 0);
    hearth__book_free(book);
}

Test(book, freed_at_any_time)
{
    hearth__book_free(NULL);
    struct hearth__book *book = open_book();
    (void)learn(book, 0, COUNT, 1);
    record(book, 0, COUNT, 2);
    record(book, 0, COUNT, 3);
    record(book, 0, COUNT, 3);
    (void)hearth__book_plan_some(book, 0);
    hearth__book_free(book);
}
