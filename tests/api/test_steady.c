/* SPDX-License-Identifier: Apache-2.0 */
/* The steady state: after the warm-up runs of a mixed sequence no backing call, no page event and no
 * minor fault. One warm-up run is enough where buffers serve their own class only (reuse ratio 1); with
 * the default ratio the promise is at most three, because later runs may pair buffers and requests
 * otherwise. Faults are not counted under sanitizers, whose own memory faults. */
#include "support.h"

#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define FAULTS_COUNT 0
#else
#define FAULTS_COUNT 1
#endif

enum { STEPS = 400, HELD = 40 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The same requests each time; writes every page it gets. */
static enum hearth_status run(struct hearth_exec *arena)
{
    struct hearth_buf *held[HELD] = {NULL};
    uint64_t state = 0x9E3779B97F4A7C15u;
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < STEPS && status == HEARTH_OK; i++) {
        uint64_t dice = next(&state);
        struct hearth_buf **at = &held[dice % HELD];
        if (*at) {
            status = hearth_exec_free(arena, *at);
            *at = NULL;
            continue;
        }
        struct hearth_request request = {
            .size = (dice >> 8) % ((size_t)64 << (dice >> 40) % 15),
            .alignment = dice % 16 == 0 ? 4096 : 0,
            .zero = dice % 32 == 1,
        };
        status = hearth_exec_alloc_ex(arena, &request, at);
        if (status == HEARTH_OK && dice % 8 == 3)
            status = hearth_buf_resize(*at, request.size / 2);
        if (status == HEARTH_OK)
            memset(hearth_buf_data(*at), (int)i, hearth_buf_capacity(*at));
    }
    for (size_t i = 0; i < HELD; i++) {
        if (held[i])
            (void)hearth_exec_free(arena, held[i]);
    }
    return status;
}

static void check_steady(struct hearth_backing *backing, uint32_t ratio, unsigned warm_up)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = backing;
    options.reuse_ratio = ratio;
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    for (unsigned i = 0; i < warm_up; i++)
        EXPECT(HEARTH_OK, run(arena));

    struct hearth_backing_stats before = HEARTH_BACKING_STATS_INIT, after = before;
    struct hearth_page_stats faults_before = HEARTH_PAGE_STATS_INIT, faults_after = faults_before;
    uint64_t misses = stats_of(arena).misses;
    EXPECT(HEARTH_OK, hearth_page_stats(HEARTH_SCOPE_THREAD, &faults_after));
    EXPECT(HEARTH_OK, hearth_backing_stats(backing, &after));
    EXPECT(HEARTH_OK, hearth_backing_stats(backing, &before));
    EXPECT(HEARTH_OK, hearth_page_stats(HEARTH_SCOPE_THREAD, &faults_before));
    enum hearth_status status = HEARTH_OK;
    for (size_t i = 0; i < 10 && status == HEARTH_OK; i++)
        status = run(arena);
    EXPECT(HEARTH_OK, hearth_page_stats(HEARTH_SCOPE_THREAD, &faults_after));
    EXPECT(HEARTH_OK, hearth_backing_stats(backing, &after));
    EXPECT(HEARTH_OK, status);

    cr_expect_eq(stats_of(arena).misses, misses);
    cr_expect_eq(after.acquire_calls, before.acquire_calls);
    cr_expect_eq(after.release_calls, before.release_calls);
    cr_expect_eq(after.purge_calls, before.purge_calls);
    cr_expect_eq(after.page_events, before.page_events);
    if (FAULTS_COUNT)
        cr_expect_eq(faults_after.minor_faults, faults_before.minor_faults, "%llu minor faults",
                     (unsigned long long)(faults_after.minor_faults - faults_before.minor_faults));
    cr_expect_eq(faults_after.major_faults, faults_before.major_faults);
    check_identity(arena, NULL);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(steady, on_the_default_backing)
{
    struct hearth_backing *backing = NULL;
    EXPECT(HEARTH_OK, hearth_backing_default(&backing));
    check_steady(backing, 1, 1);
    check_steady(backing, 0, 3);
}

Test(steady, on_mmap)
{
    struct hearth_backing *backing = NULL;
    EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &backing));
    check_steady(backing, 1, 1);
    check_steady(backing, 0, 3);
    hearth_backing_unref(backing);
}

Test(steady, on_jemalloc)
{
    struct hearth_backing *backing = NULL;
    enum hearth_status status = hearth_backing_create_jemalloc(NULL, &backing);
    if (status == HEARTH_INVALID)
        cr_skip_test("built without jemalloc");
    EXPECT(HEARTH_OK, status);
    check_steady(backing, 1, 1);
    check_steady(backing, 0, 3);
    EXPECT_SIZE(0, hearth_backing_footprint(backing));
    hearth_backing_unref(backing);
}
