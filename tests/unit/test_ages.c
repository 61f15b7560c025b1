/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ages against a model that remembers the moment of every return: nothing younger than the age is
 * ever below the answer, and what is older than 5/4 of it and one period of notes always is. Not
 * covered: threads, as the caller excludes them.
 */
#include "core/ages.h"
#include "support.h"

static struct hearth__ages ages;

static void start(void)
{
    hearth__ages_init(&ages);
}

Test(ages, nothing_is_old_without_samples, .init = start)
{
    cr_assert_eq(hearth__ages_before(&ages, 0, 0), 0);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, 1), 0);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, HEARTH__AGE_NEVER), 0);
}

Test(ages, a_sample_is_old_after_exactly_the_age, .init = start)
{
    hearth__ages_note(&ages, 1000, 7, 100);
    cr_assert_eq(hearth__ages_before(&ages, 1099, 100), 0);
    cr_assert_eq(hearth__ages_before(&ages, 1100, 100), 7);
    cr_assert_eq(hearth__ages_before(&ages, 999, 100), 0, "before the sample was taken");
    hearth__ages_note(&ages, 1025, 9, 100);
    cr_assert_eq(hearth__ages_before(&ages, 1124, 100), 7);
    cr_assert_eq(hearth__ages_before(&ages, 1125, 100), 9);
}

Test(ages, samples_are_a_quarter_apart, .init = start)
{
    hearth__ages_note(&ages, 0, 1, 100);
    hearth__ages_note(&ages, 24, 2, 100);
    cr_assert_eq(hearth__ages_before(&ages, 1000, 100), 1, "too early");
    hearth__ages_note(&ages, 25, 3, 100);
    cr_assert_eq(hearth__ages_before(&ages, 1000, 100), 3);
    hearth__ages_note(&ages, 25, 4, 100);
    cr_assert_eq(hearth__ages_before(&ages, 1000, 100), 4, "the same moment counts");
    cr_assert_eq(ages.count, 2);
}

Test(ages, age_zero_is_the_newest_sample, .init = start)
{
    for (uint64_t i = 1; i <= 100; i++) {
        hearth__ages_note(&ages, i / 3, i, 0);
        cr_assert_eq(hearth__ages_before(&ages, i / 3, 0), i);
    }
    cr_assert_eq(hearth__ages_before(&ages, 0, 0), 100);
}

Test(ages, never_is_never, .init = start)
{
    hearth__ages_note(&ages, 0, 5, HEARTH__AGE_NEVER);
    hearth__ages_note(&ages, 1000, 6, HEARTH__AGE_NEVER);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, HEARTH__AGE_NEVER), 0);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, HEARTH__AGE_NEVER - 1), 5);
}

Test(ages, the_ends_of_the_range, .init = start)
{
    hearth__ages_note(&ages, UINT64_MAX - 10, 3, 100);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, 11), 0, "no wrap");
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, 10), 3);
    hearth__ages_note(&ages, UINT64_MAX, 4, 2);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, 0), 4);
    cr_assert_eq(hearth__ages_before(&ages, UINT64_MAX, UINT64_MAX - 1), 0);
}

Test(ages, what_goes_back_is_ignored, .init = start)
{
    hearth__ages_note(&ages, 100, 50, 4);
    hearth__ages_note(&ages, 90, 60, 4);
    hearth__ages_note(&ages, 110, 40, 4);
    cr_assert_eq(hearth__ages_before(&ages, 1000, 0), 50);
    cr_assert_eq(ages.count, 1);
}

Test(ages, a_longer_age_is_answered_for_in_time, .init = start)
{
    for (uint64_t at = 0; at < 100; at++)
        hearth__ages_note(&ages, at, at, 4);
    cr_assert_eq(hearth__ages_before(&ages, 100, 40), 0, "not known");
    for (uint64_t at = 100; at < 200; at++) {
        hearth__ages_note(&ages, at, at, 40);
        if (at >= 160)
            cr_assert_geq(hearth__ages_before(&ages, at, 40), at - 50);
    }
}

/* The model: the return stamped `i` happened at freed_at[i]. */
#define RETURNS 4000u

static uint64_t freed_at[RETURNS];

static void agree(uint64_t age, uint64_t period, uint64_t random)
{
    uint64_t clock = 0;
    uint64_t noted = 0;
    uint64_t at = random_next(&random) % 1000;
    hearth__ages_init(&ages);
    while (clock < RETURNS - 8) {
        uint64_t step = random_next(&random) % (period + 1);
        at += step;
        for (uint64_t returns = random_next(&random) % 4; returns > 0; returns--)
            freed_at[clock++] = at;
        if (at - noted >= period || noted == 0) {
            /* Between the period and twice of it, as the steps are no longer than that. */
            hearth__ages_note(&ages, at, clock, age);
            noted = at;
        }
        uint64_t before = hearth__ages_before(&ages, at, age);
        cr_assert_leq(before, clock);
        for (uint64_t i = before; i-- > 0 && at - freed_at[i] < 2 * age + 1;)
            cr_assert_geq(at - freed_at[i], age, "age %zu, period %zu", (size_t)age,
                          (size_t)period);
        uint64_t latest = age + (age / 4 != 0 ? age / 4 : 1) + 2 * period;
        if (before < clock)
            cr_assert_leq(at - freed_at[before], latest, "age %zu, period %zu: kept for %zu",
                          (size_t)age, (size_t)period, (size_t)(at - freed_at[before]));
    }
}

Test(ages, agree_with_a_model)
{
    static const uint64_t lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 100, 255, 10000};
    static const uint64_t periods[] = {1, 3, 10, 250, 5000, 70000};
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        for (size_t j = 0; j < COUNT_OF(periods); j++)
            agree(lengths[i], periods[j], 11 * (i + 1) + j);
    }
}
