/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, their JSON, and page figures. Covered: snapshot against getters and against what was done,
 * structs of other sizes, JSON text of every length, page faults after touching pages.
 * Not covered: readings during operations (stress/). */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_buf *live;

static void return_it(void *buf)
{
    (void)hearth_exec_free(arena, buf);
}

/* 6 allocs, 1 hit; 5 frees of which 1 remote and pending, 1 bypass, 1 eviction; 1 misuse. */
static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 100, 4096, 0);
    misuse_record();
    struct hearth_buf *a = take(arena, 1000), *b = take(arena, 4000), *c = take(arena, 9000),
                      *d = take(arena, 500);
    live = take(arena, 700);
    give(arena, a);
    a = take(arena, 900);
    give(arena, a);
    give(arena, b); /* evicts a */
    give(arena, c); /* bypasses */
    (void)hearth_exec_free(arena, NULL);
    on_thread(return_it, d);
}

static void teardown(void)
{
    give(arena, live);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(stats, .init = setup, .fini = teardown);

Test(stats, a_snapshot_equals_the_getters)
{
    struct hearth_exec_stats stats = stats_of(arena);
    cr_expect(stats.consistent);
    EXPECT_SIZE(sizeof stats, stats.size);
    EXPECT_SIZE(hearth_exec_live_count(arena), stats.live_count);
    EXPECT_SIZE(hearth_exec_live_bytes(arena), stats.live_bytes);
    EXPECT_SIZE(hearth_exec_live_capacity(arena), stats.live_capacity);
    EXPECT_SIZE(hearth_exec_peak_bytes(arena), stats.peak_bytes);
    EXPECT_SIZE(hearth_exec_retained_count(arena), stats.retained_count);
    EXPECT_SIZE(hearth_exec_retained_bytes(arena), stats.retained_bytes);
    EXPECT_SIZE(hearth_exec_pending_count(arena), stats.pending_count);
    EXPECT_SIZE(hearth_exec_pending_bytes(arena), stats.pending_bytes);
    EXPECT_SIZE(hearth_exec_footprint(arena), stats.footprint);
    EXPECT_SIZE(hearth_exec_retention_cap(arena), stats.retention_cap);
    EXPECT_SIZE(hearth_exec_slots(arena), stats.slots);
    EXPECT_SIZE(stats.live_capacity + stats.retained_bytes + stats.pending_bytes, stats.footprint);
}

Test(stats, a_snapshot_counts_what_was_done)
{
    struct hearth_exec_stats stats = stats_of(arena);
    cr_expect_eq(stats.live_count, 1u);
    cr_expect_eq(stats.live_bytes, 700u);
    cr_expect_eq(stats.live_capacity, 768u);
    cr_expect_eq(stats.peak_bytes, 15200u);
    cr_expect_eq(stats.retained_count, 1u);
    cr_expect_eq(stats.retained_bytes, 4096u);
    cr_expect_eq(stats.pending_count, 1u);
    cr_expect_eq(stats.pending_bytes, 512u);
    cr_expect_eq(stats.slots, 100u);
    cr_expect_eq(stats.allocs, 6u);
    cr_expect_eq(stats.frees, 5u, "frees is %llu", (unsigned long long)stats.frees);
    cr_expect_eq(stats.remote_frees, 1u, "remote_frees is %llu",
                 (unsigned long long)stats.remote_frees);
    cr_expect_eq(stats.hits, 1u);
    cr_expect_eq(stats.misses, 5u);
    cr_expect_eq(stats.backing_acquires, memory.acquires);
    cr_expect_eq(stats.backing_releases, memory.releases);
    cr_expect_eq(stats.evictions, 1u);
    cr_expect_eq(stats.bypasses, 1u);
    cr_expect_eq(stats.trims, 0u);
    cr_expect_eq(stats.misuses, 1u);
}

static bool untouched(const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (from[i] != 0xEE)
            return false;
    }
    return true;
}

Test(stats, members_beyond_the_given_size_are_not_written)
{
    struct hearth_exec_stats whole = stats_of(arena), part;
    for (size_t size = offsetof(struct hearth_exec_stats, live_count); size < sizeof part;
         size += 8) {
        memset(&part, 0xEE, sizeof part);
        part.size = size;
        EXPECT(HEARTH_OK, hearth_exec_stats(arena, &part));
        cr_assert(untouched((unsigned char *)&part + size, sizeof part - size), "size %zu", size);
        size_t first = offsetof(struct hearth_exec_stats, live_count);
        cr_assert_arr_eq((unsigned char *)&part + first, (unsigned char *)&whole + first,
                         size - first);
        cr_assert(part.consistent);
    }
    part.size = 0;
    EXPECT(HEARTH_INVALID, hearth_exec_stats(arena, &part));
}

Test(stats, a_struct_from_a_later_header_is_filled_as_far_as_known)
{
    struct {
        struct hearth_exec_stats known;
        uint64_t later[4];
    } stats = {.known = {.size = sizeof stats}};
    EXPECT(HEARTH_OK, hearth_exec_stats(arena, &stats.known));
    cr_assert_eq(stats.known.live_bytes, 700u);
}

Test(stats, backing_figures_of_other_sizes)
{
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_backing_stats(memory.backing, &stats));
    EXPECT_SIZE(memory.acquires, stats.acquire_calls);
    EXPECT_SIZE(memory.releases, stats.release_calls);
    EXPECT_SIZE(0, stats.acquire_failures);
    EXPECT_SIZE(memory.bytes, stats.acquired_bytes - stats.released_bytes);
    EXPECT_SIZE(memory.bytes, hearth_backing_footprint(memory.backing));
    for (size_t size = 8; size < sizeof stats; size += 8) {
        memset(&stats, 0xEE, sizeof stats);
        stats.size = size;
        EXPECT(HEARTH_OK, hearth_backing_stats(memory.backing, &stats));
        cr_assert(untouched((unsigned char *)&stats + size, sizeof stats - size), "size %zu", size);
    }
    stats.size = 0;
    EXPECT(HEARTH_INVALID, hearth_backing_stats(memory.backing, &stats));
    EXPECT(HEARTH_INVALID, hearth_backing_stats(memory.backing, NULL));
}

/* Reads one flat object of names and unsigned numbers or booleans; true if it is well formed.
 * `pairs` receives how many there are. */
static bool read_object(const char *text, size_t *pairs)
{
    *pairs = 0;
    int used = 0;
    if (sscanf(text, " {%n", &used) < 0 || !used)
        return false;
    for (text += used;; text++) {
        char name[64];
        unsigned long long value;
        used = 0;
        if (sscanf(text, " \"%63[a-z0-9_]\" :%n", name, &used) != 1 || !used)
            return false;
        text += used;
        text += strspn(text, " \n\t");
        if (!strncmp(text, "true", 4) || !strncmp(text, "false", 5))
            used = text[0] == 't' ? 4 : 5;
        else if (text[0] < '0' || text[0] > '9' || sscanf(text, "%llu%n", &value, &used) != 1)
            return false;
        text += used;
        text += strspn(text, " \n\t");
        ++*pairs;
        if (*text != ',')
            break;
    }
    if (*text++ != '}')
        return false;
    return text[strspn(text, " \n\t")] == '\0';
}

/* The number behind "name": in `text`. */
static unsigned long long number(const char *text, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = strstr(text, key);
    cr_assert_not_null(at, "no %s in %s", key, text);
    at = strchr(at + strlen(key), ':') + 1;
    char *end = NULL;
    unsigned long long value = strtoull(at, &end, 10);
    cr_assert_neq(end, at, "%s has no number", key);
    return value;
}

Test(stats, json_has_every_figure)
{
    char text[4096];
    size_t needed = 0, pairs = 0;
    struct hearth_exec_stats stats = stats_of(arena);
    EXPECT(HEARTH_OK, hearth_exec_stats_json(&stats, text, sizeof text, &needed));
    EXPECT_SIZE(strlen(text), needed);
    cr_assert(read_object(text, &pairs), "not a flat object: %s", text);
#define SAME(name, unit, comment)                                                                  \
    cr_assert_eq(number(text, #name), stats.name, #name " in %s", text);
    HEARTH_EXEC_STATS_MAP(SAME)
#undef SAME
    cr_assert_geq(pairs, 22u);
    EXPECT(HEARTH_OK, hearth_exec_stats_json(&stats, text, sizeof text, NULL));
}

Test(stats, json_that_does_not_fit_is_cut_and_terminated)
{
    char whole[4096], text[4096];
    size_t length = 0, needed = 0;
    struct hearth_exec_stats stats = stats_of(arena);
    EXPECT(HEARTH_OK, hearth_exec_stats_json(&stats, whole, sizeof whole, &length));
    for (size_t bytes = 0; bytes <= length + 1; bytes++) {
        memset(text, 0xEE, sizeof text);
        needed = 0;
        EXPECT(bytes > length ? HEARTH_OK : HEARTH_OVERFLOW,
               hearth_exec_stats_json(&stats, text, bytes, &needed));
        EXPECT_SIZE(length, needed);
        cr_assert(untouched((unsigned char *)text + bytes, sizeof text - bytes));
        if (bytes) {
            EXPECT_SIZE(bytes - 1, strlen(text));
            cr_assert_arr_eq(text, whole, bytes - 1);
        }
    }
    EXPECT(HEARTH_OVERFLOW, hearth_exec_stats_json(&stats, NULL, 0, &needed));
    EXPECT_SIZE(length, needed);
    EXPECT(HEARTH_INVALID, hearth_exec_stats_json(NULL, text, sizeof text, &needed));
    EXPECT(HEARTH_INVALID, hearth_exec_stats_json(&stats, NULL, 10, &needed));
}

Test(stats, json_of_a_backing)
{
    char text[4096];
    size_t needed = 0, pairs = 0;
    struct hearth_backing_stats stats = HEARTH_BACKING_STATS_INIT;
    EXPECT(HEARTH_OK, hearth_backing_stats(memory.backing, &stats));
    EXPECT(HEARTH_OK, hearth_backing_stats_json(&stats, text, sizeof text, &needed));
    EXPECT_SIZE(strlen(text), needed);
    cr_assert(read_object(text, &pairs), "not a flat object: %s", text);
    cr_assert_eq(number(text, "acquire_calls"), stats.acquire_calls);
    cr_assert_eq(number(text, "released_bytes"), stats.released_bytes);
    cr_assert_geq(pairs, 10u);
    EXPECT(HEARTH_OVERFLOW, hearth_backing_stats_json(&stats, text, 10, &needed));
    EXPECT_SIZE(9, strlen(text));
}

Test(stats, page_figures_move_when_pages_are_touched)
{
    enum { PAGES = 512 };
    struct hearth_page_stats before = HEARTH_PAGE_STATS_INIT, after = HEARTH_PAGE_STATS_INIT;
    for (int scope = HEARTH_SCOPE_THREAD; scope <= HEARTH_SCOPE_PROCESS; scope++) {
        char *pages =
            mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(pages, MAP_FAILED);
        madvise(pages, PAGES * 4096, MADV_NOHUGEPAGE);
        EXPECT(HEARTH_OK, hearth_page_stats((enum hearth_scope)scope, &before));
        EXPECT(HEARTH_OK, hearth_page_stats((enum hearth_scope)scope, &before));
        for (size_t i = 0; i < PAGES; i++)
            ((volatile char *)pages)[i * 4096] = 1;
        EXPECT(HEARTH_OK, hearth_page_stats((enum hearth_scope)scope, &after));
        cr_assert_geq(after.minor_faults, before.minor_faults + PAGES);
        cr_assert_geq(after.resident_bytes, before.resident_bytes);
        munmap(pages, PAGES * 4096);
    }
    EXPECT(HEARTH_INVALID, hearth_page_stats(HEARTH_SCOPE_THREAD, NULL));
    EXPECT(HEARTH_INVALID, hearth_page_stats((enum hearth_scope)7, &after));
    after.size = 0;
    EXPECT(HEARTH_INVALID, hearth_page_stats(HEARTH_SCOPE_THREAD, &after));
}
