/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a request impossible, and the alignment it asks for. */
#include "core/request.h"

#include "support.h"

static bool possible(struct hearth_request request, unsigned *log)
{
    return hearth__request_alignment(&request, log);
}

Test(request, every_alignment)
{
    unsigned log = 99;
    cr_assert_not(hearth__request_alignment(NULL, &log));
    cr_assert_eq(log, 99);
    for (unsigned bit = 0; bit < 64; bit++) {
        size_t alignment = (size_t)1 << bit;
        bool can = possible((struct hearth_request){.alignment = alignment}, &log);
        cr_assert_eq(can, bit <= HEARTH__ALIGNMENT_LOG_MAX, "2^%u", bit);
        if (can)
            cr_assert_eq(log, bit < HEARTH__ALIGNMENT_LOG_MIN ? HEARTH__ALIGNMENT_LOG_MIN : bit);
        if (bit > 1) {
            cr_assert_not(possible((struct hearth_request){.alignment = alignment + 1}, &log));
            cr_assert_not(possible((struct hearth_request){.alignment = alignment - 1}, &log));
        }
    }
    cr_assert(possible((struct hearth_request)HEARTH_REQUEST_INIT, &log));
    cr_assert_eq(log, HEARTH__ALIGNMENT_LOG_MIN);
    assert_size((size_t)1 << HEARTH__ALIGNMENT_LOG_MIN, HEARTH_ALIGNMENT);
    assert_size((size_t)1 << HEARTH__ALIGNMENT_LOG_MAX, HEARTH_ALIGNMENT_MAX);
}

Test(request, priorities_and_reserved_words)
{
    unsigned log;
    cr_assert(possible((struct hearth_request){.priority = HEARTH_PRIORITY_HIGH}, &log));
    cr_assert_not(possible((struct hearth_request){.priority = HEARTH_PRIORITY_HIGH + 1}, &log));
    cr_assert_not(possible((struct hearth_request){.priority = UINT32_MAX}, &log));
    for (unsigned i = 0; i < 4; i++) {
        struct hearth_request request = HEARTH_REQUEST_INIT;
        request.reserved[i] = (uint64_t)1 << 63;
        cr_assert_not(hearth__request_alignment(&request, &log), "word %u", i);
    }
}

/* What says nothing about possible and impossible. */
Test(request, the_other_members_are_free)
{
    unsigned log;
    const struct hearth_request request = {
        .size = SIZE_MAX, .deadline_ns = UINT64_MAX, .zero = UINT32_MAX};
    cr_assert(hearth__request_alignment(&request, &log));
}
