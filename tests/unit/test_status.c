/* SPDX-License-Identifier: Apache-2.0 */
/* Names, texts and pinned values of the answers; the version. */
#include "support.h"

#include <hearth/version.h>

#include <stdio.h>
#include <string.h>

static const struct {
    enum hearth_status status;
    int value;
    const char *name;
} pinned[] = {
    {HEARTH_OK, 0, "OK"},
    {HEARTH_NO_MEMORY, 1, "NO_MEMORY"},
    {HEARTH_NO_SLOT, 2, "NO_SLOT"},
    {HEARTH_INVALID, 3, "INVALID"},
    {HEARTH_OVERFLOW, 4, "OVERFLOW"},
    {HEARTH_FOREIGN, 5, "FOREIGN"},
    {HEARTH_STALE, 6, "STALE"},
    {HEARTH_LEASED, 7, "LEASED"},
    {HEARTH_BUSY, 8, "BUSY"},
    {HEARTH_CLOSED, 9, "CLOSED"},
    {HEARTH_TIMEOUT, 10, "TIMEOUT"},
    {HEARTH_NOT_OWNER, 11, "NOT_OWNER"},
};

Test(status, values_and_names_are_pinned)
{
    for (size_t i = 0; i < COUNT_OF(pinned); i++) {
        cr_assert_eq((int)pinned[i].status, pinned[i].value);
        cr_assert_str_eq(hearth_status_name(pinned[i].status), pinned[i].name);
    }
}

Test(status, texts_are_distinct_lines)
{
    for (size_t i = 0; i < COUNT_OF(pinned); i++) {
        const char *text = hearth_status_text(pinned[i].status);
        cr_assert_gt(strlen(text), 3);
        cr_assert_null(strchr(text, '\n'));
        for (size_t j = 0; j < i; j++)
            cr_assert_str_neq(text, hearth_status_text(pinned[j].status));
    }
}

TheoryDataPoints(status, unknown_values_have_a_name) = {
    DataPoints(int, -1, 12, 13, 255, 100000),
};

Theory((int value), status, unknown_values_have_a_name)
{
    cr_assert_str_eq(hearth_status_name((enum hearth_status)value), "UNKNOWN");
    cr_assert_not_null(strstr(hearth_status_text((enum hearth_status)value), "does not know"));
}

Test(status, version_agrees_with_the_headers)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d.%d", HEARTH_VERSION_MAJOR, HEARTH_VERSION_MINOR,
                   HEARTH_VERSION_PATCH);
    cr_assert_str_eq(hearth_version_string(), text);
    cr_assert_eq(hearth_version(), HEARTH_VERSION_MAJOR * 1000000 + HEARTH_VERSION_MINOR * 1000 +
                                       HEARTH_VERSION_PATCH);
}
