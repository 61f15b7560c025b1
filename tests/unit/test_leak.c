/* SPDX-License-Identifier: Apache-2.0 */
/* Leak checks from inside: filters, what a service has to offer, the plain paths. What is found and told is in
 * tests/api/test_leak_check.c. */
#include "concurrent/leak.h"

#include "concurrent/exec.h"
#include "concurrent/io.h"
#include "support.h"

static bool is_context(const struct hearth_allocator *arena, const void *context)
{
    return arena == context;
}

static size_t end(struct hearth_leak_check *check)
{
    size_t count = 0;
    enum hearth_status status = hearth_leak_check_end(check, NULL, NULL, &count);
    assert_status(status, count == 0 ? HEARTH_OK : HEARTH_BUSY);
    return count;
}

Test(leak, a_filter_picks_arenas)
{
    struct hearth_exec *one = exec_open(mmap_open(), 0, 0);
    struct hearth_exec *other = exec_open(mmap_open(), 0, 0);
    struct hearth_io *io = NULL;
    struct hearth_leak_check *checks[4] = {NULL};
    assert_ok(hearth_io_create(NULL, &io));
    assert_ok(hearth__leak_begin(is_context, &one->allocator, &checks[0]));
    assert_ok(hearth__leak_begin(is_context, &io->allocator, &checks[1]));
    assert_ok(hearth__leak_begin(is_context, NULL, &checks[2]));
    assert_ok(hearth__leak_begin(NULL, NULL, &checks[3]));
    for (size_t i = 0; i < 600; i++) /* more than one segment has slots for */
        (void)exec_take(one, 64);
    (void)exec_take(other, 64);
    struct hearth_lease lease;
    assert_ok(hearth_io_lease(io, 64, &lease));
    assert_size(end(checks[0]), 600);
    assert_size(end(checks[1]), 1);
    assert_size(end(checks[2]), 0);
    assert_size(end(checks[3]), 602);
}

Test(leak, plain_paths_are_closed_in_what_is_there_and_what_comes)
{
    struct hearth_exec *before = exec_open(mmap_open(), 0, 0);
    struct hearth_io *io = NULL;
    struct hearth_buf *buf = NULL;
    struct hearth_leak_check *check = NULL;
    assert_ok(hearth_io_create(NULL, &io));
    assert_ok(hearth_io_alloc(io, 64, &buf));
    assert_ok(hearth__leak_begin(NULL, NULL, &check));
    struct hearth_exec *during = exec_open(mmap_open(), 0, 0);
    struct hearth_io *later = NULL;
    assert_ok(hearth_io_create(NULL, &later));
    cr_assert(before->section.attention & HEARTH__ATTENTION_METERED);
    cr_assert(during->section.attention & HEARTH__ATTENTION_METERED);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(hearth_io_free(io, buf));
        assert_ok(hearth_io_trim(io, NULL));
        assert_ok(hearth_io_alloc(io, 64, &buf));
        cr_assert(io->caches->section.attention & HEARTH__ATTENTION_METERED);
    }
    assert_ok(hearth_io_alloc(later, 64, &buf));
    cr_assert(later->caches->section.attention & HEARTH__ATTENTION_METERED);
    assert_size(hearth__debug_checks, 1);
    (void)end(check);
    assert_size(hearth__debug_checks, 0);
    struct hearth_exec *after = exec_open(mmap_open(), 0, 0);
    cr_assert_eq(after->section.attention != 0, hearth__debug_ambient() != 0);
}

static size_t held;

static enum hearth_status hold(struct hearth_service *service)
{
    if (service == (struct hearth_service *)&held)
        return HEARTH_CLOSED;
    held++;
    return HEARTH_OK;
}

static void drop(struct hearth_service *service)
{
    (void)service;
    held--;
}

Test(leak, a_service_is_held_and_filters)
{
    static const struct hearth__leak_service offers = {hold, drop, is_context};
    struct hearth_leak_check *check = NULL;
    struct hearth_exec *arena = exec_open(mmap_open(), 0, 0);
    struct hearth_service *service = (struct hearth_service *)(void *)&arena->allocator;
    const struct hearth__leak_service *before = hearth__leak_service;
    hearth__leak_service = &offers;
    assert_status(hearth_leak_check_begin((struct hearth_service *)&held, &check), HEARTH_CLOSED);
    assert_ok(hearth_leak_check_begin(service, &check));
    assert_size(held, 1);
    (void)exec_take(arena, 100);
    (void)exec_take(exec_open(mmap_open(), 0, 0), 100);
    assert_size(end(check), 1);
    assert_size(held, 0);
    hearth__leak_service = before;
}
