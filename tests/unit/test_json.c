/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of both statistics: exact text, cutting, lengths. */
#include "support.h"

#include <hearth/stats.h>

#include <string.h>

static const char exec_text[] =
    "{\"live_count\":1,\"live_bytes\":2,\"live_capacity\":3,\"peak_bytes\":4,\"retained_count\":5,"
    "\"retained_bytes\":6,\"pending_count\":7,\"pending_bytes\":8,\"footprint\":9,"
    "\"retention_cap\":18446744073709551615,\"slots\":11,\"allocs\":12,\"frees\":13,"
    "\"remote_frees\":14,\"hits\":15,\"misses\":16,\"backing_acquires\":17,\"backing_releases\":18,"
    "\"evictions\":19,\"bypasses\":20,\"trims\":21,\"misuses\":22,\"purged_bytes\":23,"
    "\"rearrangements\":24,\"runs\":25,\"planned_runs\":26,\"plan_hits\":27,\"plan_misses\":28,"
    "\"plan_blocked\":29,\"plans_made\":30,\"plans\":31,\"slab_bytes\":32,\"plan_bytes\":33,\"plan_"
    "bound\":34,\"cold_bytes\":35,\"consistent\":true}";

static struct hearth_exec_stats exec_stats(void)
{
    struct hearth_exec_stats stats = {.size = sizeof stats, .consistent = true};
    uint64_t value = 0;
#define NUMBER(name, unit, text) stats.name = ++value;
    HEARTH_EXEC_STATS_MAP(NUMBER)
#undef NUMBER
    stats.retention_cap = UINT64_MAX;
    return stats;
}

Test(json, exec_exactly)
{
    char text[2048];
    size_t needed = 0;
    struct hearth_exec_stats stats = exec_stats();
    assert_ok(hearth_exec_stats_json(&stats, text, sizeof text, &needed));
    cr_assert_str_eq(text, exec_text);
    assert_size(needed, sizeof exec_text - 1);
    stats.consistent = false;
    assert_ok(hearth_exec_stats_json(&stats, text, sizeof text, NULL));
    cr_assert_not_null(strstr(text, ",\"consistent\":false}"));
}

Test(json, backing_exactly)
{
    static const char expected[] =
        "{\"acquire_calls\":1,\"acquire_failures\":2,\"release_calls\":3,\"purge_calls\":4,"
        "\"acquired_bytes\":5,\"released_bytes\":6,\"page_events\":7,\"mapped_bytes\":8,"
        "\"unmapped_bytes\":9,\"purged_bytes\":10}";
    char text[1024];
    size_t needed = 0;
    const struct hearth_backing_stats stats = {sizeof stats, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    assert_ok(hearth_backing_stats_json(&stats, text, sizeof text, &needed));
    cr_assert_str_eq(text, expected);
    assert_size(needed, sizeof expected - 1);
    assert_ok(hearth_backing_stats_json(&stats, text, sizeof expected, NULL));
    assert_status(hearth_backing_stats_json(&stats, text, sizeof expected - 1, NULL),
                  HEARTH_OVERFLOW);
}

/* Every size of the buffer: what fits is a prefix, terminated, and nothing beyond is written. */
Test(json, cut_at_every_length)
{
    struct hearth_exec_stats stats = exec_stats();
    char text[sizeof exec_text + 16];
    for (size_t bytes = 0; bytes <= sizeof exec_text + 8; bytes++) {
        size_t needed = 0;
        memset(text, '#', sizeof text);
        bool fits = bytes >= sizeof exec_text;
        assert_status(hearth_exec_stats_json(&stats, text, bytes, &needed),
                      fits ? HEARTH_OK : HEARTH_OVERFLOW);
        assert_size(needed, sizeof exec_text - 1);
        cr_assert_eq(text[bytes], '#', "a byte too many at %zu", bytes);
        if (bytes == 0)
            continue;
        size_t length = fits ? sizeof exec_text - 1 : bytes - 1;
        assert_size(strlen(text), length);
        cr_assert_eq(memcmp(text, exec_text, length), 0);
    }
}

Test(json, length_without_text)
{
    struct hearth_exec_stats stats = exec_stats();
    size_t needed = 0;
    assert_status(hearth_exec_stats_json(&stats, NULL, 0, &needed), HEARTH_OVERFLOW);
    assert_size(needed, sizeof exec_text - 1);
}

Test(json, impossible_arguments)
{
    char text[64];
    struct hearth_exec_stats stats = exec_stats();
    struct hearth_backing_stats backing = HEARTH_BACKING_STATS_INIT;
    assert_status(hearth_exec_stats_json(NULL, text, sizeof text, NULL), HEARTH_INVALID);
    assert_status(hearth_exec_stats_json(&stats, NULL, 1, NULL), HEARTH_INVALID);
    stats.size = 8;
    assert_status(hearth_exec_stats_json(&stats, text, sizeof text, NULL), HEARTH_INVALID);
    assert_status(hearth_backing_stats_json(NULL, text, sizeof text, NULL), HEARTH_INVALID);
    assert_status(hearth_backing_stats_json(&backing, NULL, 1, NULL), HEARTH_INVALID);
    backing.size = 0;
    assert_status(hearth_backing_stats_json(&backing, text, sizeof text, NULL), HEARTH_INVALID);
}
