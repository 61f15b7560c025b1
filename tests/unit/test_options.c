/* SPDX-License-Identifier: Apache-2.0 */
/* What all arenas' options go through: defaults, what HEARTH_CONF overrides, impossible slots. */
#include "core/options.h"

#include "core/meta.h"
#include "support.h"

static struct lender lender;
static size_t cap;
static size_t slots;
static uint32_t ratio;
static struct hearth_backing *backing;
static const struct hearth__common_options options = {&cap, &slots, &ratio, &backing};

static void start(void)
{
    misuse_record();
    cap = 0;
    slots = 0;
    ratio = 0;
    backing = lender_open(&lender);
}

static enum hearth_status complete(const char *text)
{
    struct hearth__conf conf;
    char message[256];
    assert_ok(hearth__conf_parse(text, &conf, message, sizeof message));
    return hearth__options_complete(&options, &conf, 1234);
}

Test(options, zero_is_the_default, .init = start)
{
    const struct hearth_backing *given = backing;
    assert_ok(complete(NULL));
    assert_size(cap, HEARTH_UNBOUNDED);
    assert_size(slots, 1234);
    cr_assert_eq(ratio, HEARTH_REUSE_RATIO_DEFAULT);
    cr_assert_eq(backing, given);
}

Test(options, what_was_given_stays, .init = start)
{
    cap = HEARTH_RETAIN_NOTHING;
    slots = HEARTH__SLOTS_MAX;
    ratio = 1;
    assert_ok(complete(NULL));
    assert_size(cap, HEARTH_RETAIN_NOTHING);
    assert_size(slots, HEARTH__SLOTS_MAX);
    cr_assert_eq(ratio, 1);
}

Test(options, the_environment_overrides, .init = start)
{
    const struct hearth_backing *given = backing;
    slots = 5;
    ratio = 1;
    assert_ok(complete("slots:77,reuse_ratio:8,backing:mmap"));
    assert_size(slots, 77);
    cr_assert_eq(ratio, 8);
    cr_assert_neq(backing, given, "a named backing stands for the process's default");
    struct hearth_backing *shared = NULL;
    assert_ok(hearth_backing_default(&shared));
    cr_assert_eq(backing, shared);
}

Test(options, no_backing_is_the_default_one, .init = start)
{
    struct hearth_backing *shared = NULL;
    backing = NULL;
    assert_ok(complete(NULL));
    assert_ok(hearth_backing_default(&shared));
    cr_assert_eq(backing, shared);
}

Test(options, more_slots_than_can_exist, .init = start)
{
    slots = HEARTH__SLOTS_MAX + 1;
    assert_status(complete(NULL), HEARTH_OVERFLOW);
    assert_ok(complete("slots:8"));
}

Test(options, another_version_is_told, .init = start)
{
    int given = 0;
    cr_assert(hearth__options_known("some_call", &given, true));
    assert_size(misuse_seen.count, 0);
    cr_assert_not(hearth__options_known("some_call", &given, false));
    assert_size(misuse_seen.count, 1);
    cr_assert_str_eq(misuse_seen.call, "some_call");
    cr_assert_eq(misuse_seen.slot, &given);
}
