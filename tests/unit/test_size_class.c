/* SPDX-License-Identifier: Apache-2.0 */
/* Size classes: the whole range by its edges, and every class. Nothing is left out. */
#include "core/size_class.h"
#include "support.h"

TheoryDataPoints(size_class, smallest_sufficient) = {
    DataPoints(unsigned, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 24, 31, 32,
               33, 40, 47, 48, 55, 61, 62),
    DataPoints(int, -2, -1, 0, 1, 2),
};

/* 2^k and its neighbours get the smallest class that holds them, and the next smaller does not. */
Theory((unsigned power, int offset), size_class, smallest_sufficient)
{
    size_t bytes = ((size_t)1 << power) + (size_t)offset;
    cr_assume(power > 1 || offset >= -1);
    unsigned found = hearth__class_of(bytes);
    cr_assert_lt(found, HEARTH__CLASS_COUNT);
    cr_assert_geq(hearth__class_size(found), bytes, "%zu in class %u", bytes, found);
    if (found > 0)
        cr_assert_lt(hearth__class_size(found - 1), bytes, "%zu fits class %u", bytes, found - 1);
}

Test(size_class, exact_values_of_the_contract)
{
    static const struct {
        size_t bytes;
        size_t class_bytes;
    } cases[] = {
        {0, 64},      {1, 64},        {63, 64},       {64, 64},           {65, 128},
        {128, 128},   {129, 192},     {192, 192},     {193, 256},         {256, 256},
        {257, 320},   {320, 320},     {321, 384},     {385, 448},         {449, 512},
        {512, 512},   {513, 640},     {641, 768},     {769, 896},         {897, 1024},
        {1025, 1280}, {4096, 4096},   {4097, 5120},   {5121, 6144},       {6145, 7168},
        {7169, 8192}, {65536, 65536}, {65537, 81920}, {1 << 20, 1 << 20}, {(1 << 20) + 1, 5 << 18},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_size(hearth__class_size(hearth__class_of(cases[i].bytes)), cases[i].class_bytes);
    cr_assert_eq(hearth__class_of(0), 0);
    cr_assert_eq(hearth__class_of(257), HEARTH__CLASS_LINEAR);
}

Test(size_class, the_last_class_is_the_maximum)
{
    cr_assert_eq(hearth__class_of(HEARTH__CLASS_SIZE_MAX), HEARTH__CLASS_COUNT - 1);
    cr_assert_eq(hearth__class_of(HEARTH__CLASS_SIZE_MAX - 1), HEARTH__CLASS_COUNT - 1);
    assert_size(hearth__class_size(HEARTH__CLASS_COUNT - 1), HEARTH__CLASS_SIZE_MAX);
    cr_assert_leq(HEARTH__CLASS_SIZE_MAX, (size_t)PTRDIFF_MAX);
    cr_assert_gt(hearth__class_size(HEARTH__CLASS_COUNT), (size_t)PTRDIFF_MAX,
                 "one more class would be beyond any object");
}

Test(size_class, every_class_is_its_own_size)
{
    for (unsigned i = 0; i < HEARTH__CLASS_COUNT; i++) {
        size_t bytes = hearth__class_size(i);
        cr_assert_eq(bytes % 64, 0, "class %u is %zu bytes", i, bytes);
        cr_assert_eq(hearth__class_of(bytes), i, "class %u", i);
        cr_assert_eq(hearth__class_floor(bytes), i, "floor of class %u", i);
        if (i == 0)
            continue;
        size_t smaller = hearth__class_size(i - 1);
        cr_assert_gt(bytes, smaller, "class %u does not grow", i);
        cr_assert_eq(hearth__class_of(smaller + 1), i, "one above class %u", i - 1);
        cr_assert_eq(hearth__class_of(bytes - 1), i, "one below class %u", i);
        cr_assert_eq(hearth__class_floor(bytes - 1), i - 1, "floor of one below class %u", i);
        cr_assert_eq(hearth__class_floor(smaller + 1), i - 1, "floor of one above class %u", i - 1);
    }
}

Test(size_class, monotone_over_all_small_sizes)
{
    unsigned last = hearth__class_of(0);
    for (size_t bytes = 1; bytes <= 4 * MIB; bytes++) {
        unsigned found = hearth__class_of(bytes);
        cr_assert(found == last || found == last + 1, "%zu jumps from %u to %u", bytes, last,
                  found);
        last = found;
    }
}

/* Beyond the four linear classes the waste stays below a fifth of the class. */
Test(size_class, waste_is_bounded)
{
    for (unsigned i = HEARTH__CLASS_LINEAR; i < HEARTH__CLASS_COUNT; i++) {
        size_t least = hearth__class_size(i - 1) + 1;
        size_t waste = hearth__class_size(i) - least;
        cr_assert_lt(waste, least / 4 + (least % 4 != 0), "class %u wastes %zu for %zu", i, waste,
                     least);
    }
    for (unsigned i = 0; i < HEARTH__CLASS_LINEAR; i++)
        assert_size(hearth__class_size(i), (i + 1) * 64);
}

Test(size_class, sizes_beyond_the_last_class_have_no_class)
{
    static const size_t beyond[] = {HEARTH__CLASS_SIZE_MAX + 1, (size_t)1 << 63,
                                    ((size_t)1 << 63) + 1, SIZE_MAX - 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(beyond); i++) {
        cr_assert_geq(hearth__class_of(beyond[i]), HEARTH__CLASS_COUNT, "%zu", beyond[i]);
        cr_assert_lt(hearth__class_of(beyond[i]), HEARTH__CLASS_LIMIT, "%zu", beyond[i]);
    }
}

Test(size_class, floor_beyond_the_last_class)
{
    cr_assert_eq(hearth__class_floor(64), 0);
    cr_assert_eq(hearth__class_floor(127), 0);
    cr_assert_eq(hearth__class_floor(HEARTH__CLASS_SIZE_MAX), HEARTH__CLASS_COUNT - 1);
    cr_assert_eq(hearth__class_floor(HEARTH__CLASS_SIZE_MAX + 1), HEARTH__CLASS_COUNT - 1);
    cr_assert_eq(hearth__class_floor(SIZE_MAX), HEARTH__CLASS_COUNT - 1);
}
