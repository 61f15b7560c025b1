/* SPDX-License-Identifier: Apache-2.0 */
/* Interned names: numbers in the order of arrival, across growth, with texts that never move.
 * Refused allocations are in test_plan_memory.c. */
#include "runtime/names.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

static struct hearth__names names;

static void finish(void)
{
    hearth__names_fini(&names);
}

static uint32_t add(const char *name)
{
    uint32_t number = HEARTH__NO_NAME;
    assert_ok(hearth__names_add(&names, name, &number));
    return number;
}

Test(names, empty_finds_nothing)
{
    assert_size(hearth__names_find(&names, "a"), HEARTH__NO_NAME);
    assert_size(hearth__names_find(&names, ""), HEARTH__NO_NAME);
    hearth__names_fini(&names);
    hearth__names_fini(&names);
}

Test(names, numbers_in_order_of_arrival, .fini = finish)
{
    assert_size(add("b"), 0);
    assert_size(add("a"), 1);
    assert_size(add("b"), 0);
    assert_size(add(""), 2);
    assert_size(names.count, 3);
    assert_size(hearth__names_find(&names, "a"), 1);
    assert_size(hearth__names_find(&names, "c"), HEARTH__NO_NAME);
    cr_assert_str_eq(hearth__names_text(&names, 0), "b");
}

Test(names, the_text_is_copied, .fini = finish)
{
    char text[] = "value";
    add(text);
    text[0] = 'V';
    assert_size(hearth__names_find(&names, "value"), 0);
    assert_size(hearth__names_find(&names, "Value"), HEARTH__NO_NAME);
}

Test(names, bytes_above_127_and_long_names, .fini = finish)
{
    char longest[5000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_size(add("\xC3\xA9\xE2\x82\xAC"), 0);
    assert_size(add(longest), 1);
    longest[sizeof longest - 2] = 'y';
    assert_size(add(longest), 2);
    assert_size(hearth__names_find(&names, "\xC3\xA9\xE2\x82\xAC"), 0);
}

Test(names, growth_keeps_numbers_and_texts, .fini = finish)
{
    enum { COUNT = 20000 };
    static const char *texts[COUNT];
    char name[32];
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "layer.%u/output", i);
        assert_size(add(name), i);
        texts[i] = hearth__names_text(&names, i);
        assert_size(hearth__names_find(&names, "layer"), HEARTH__NO_NAME);
        cr_assert_lt((uint64_t)names.count * 4, (uint64_t)names.table_len * 3 + 1);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(name, sizeof name, "layer.%u/output", i);
        assert_size(hearth__names_find(&names, name), i);
        assert_size(add(name), i);
        cr_assert_eq(hearth__names_text(&names, i), texts[i], "text %u moved", i);
        cr_assert_str_eq(texts[i], name);
    }
    assert_size(names.count, COUNT);
}

Test(names, used_again_after_the_end, .fini = finish)
{
    add("a");
    hearth__names_fini(&names);
    assert_size(names.count, 0);
    assert_size(hearth__names_find(&names, "a"), HEARTH__NO_NAME);
    assert_size(add("b"), 0);
}

Test(names, numbers_run_out)
{
    struct hearth__names full = {.count = UINT32_MAX - 1};
    uint32_t number = 7;
    assert_status(hearth__names_add(&full, "a", &number), HEARTH_OVERFLOW);
    assert_size(number, 7);
    assert_size(full.count, UINT32_MAX - 1);
}
