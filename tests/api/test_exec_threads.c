/* SPDX-License-Identifier: Apache-2.0 */
/* Execution arenas and several threads, one step at a time, so that every figure can be predicted.
 * Covered: queued returns, double returns from elsewhere, handing over ownership, an owner that exits,
 * destroy with buffers out, detach, handles and hearth_buf_of() from other threads. Not covered: races
 * (stress/). Other threads only record; the main thread asserts. */
#include "support.h"

static struct memory memory;
static struct hearth_exec *arena;

static void setup(void)
{
    memory_init(&memory);
    arena = arena_create(&memory, 0, 0, 0);
    misuse_record();
}

static void finish(void)
{
    check_identity(arena, &memory);
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

TestSuite(exec_threads, .init = setup);

struct returning {
    struct hearth_buf *buf;
    struct hearth_allocator *allocator; /* NULL: hearth_exec_free() on `arena` */
    enum hearth_status status;
};

static void return_it(void *argument)
{
    struct returning *it = argument;
    it->status =
        it->allocator ? hearth_free(it->allocator, it->buf) : hearth_exec_free(arena, it->buf);
}

static enum hearth_status return_elsewhere(struct hearth_buf *buf)
{
    struct returning it = {.buf = buf};
    on_thread(return_it, &it);
    return it.status;
}

Test(exec_threads, a_return_from_elsewhere_is_queued_then_reused)
{
    struct hearth_buf *a = take(arena, 1000), *b = take(arena, 5000), *kept = take(arena, 100);
    void *data = hearth_buf_data(b);
    EXPECT(HEARTH_OK, return_elsewhere(a));
    EXPECT(HEARTH_OK, return_elsewhere(b));
    EXPECT_SIZE(2, hearth_exec_pending_count(arena));
    EXPECT_SIZE(1024 + 5120, hearth_exec_pending_bytes(arena));
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    EXPECT_SIZE(100, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(128, hearth_exec_live_capacity(arena));
    EXPECT_SIZE(0, hearth_exec_retained_count(arena));
    check_identity(arena, &memory);
    struct hearth_exec_stats stats = stats_of(arena);
    cr_expect_eq(stats.remote_frees, 2u, "\"returns by other threads so far\"");
    cr_expect_eq(stats.frees, 2u, "\"returned so far, pending ones included\"");
    cr_assert(stats.consistent);

    struct hearth_buf *again = take(arena, 5000);
    cr_assert_eq(hearth_buf_data(again), data);
    EXPECT_SIZE(0, hearth_exec_pending_count(arena));
    EXPECT_SIZE(0, hearth_exec_pending_bytes(arena));
    EXPECT_SIZE(1, hearth_exec_retained_count(arena));
    EXPECT_SIZE(3, memory.acquires);
    EXPECT_SIZE(6100, hearth_exec_peak_bytes(arena));
    give(arena, kept);
    give(arena, again);
    finish();
}

Test(exec_threads, trim_takes_queued_returns_in)
{
    struct hearth_buf *a = take(arena, 1000);
    EXPECT(HEARTH_OK, return_elsewhere(a));
    size_t released = 0;
    EXPECT(HEARTH_OK, hearth_exec_trim(arena, &released));
    EXPECT_SIZE(1024, released);
    EXPECT_SIZE(0, hearth_exec_footprint(arena));
    finish();
}

Test(exec_threads, queued_returns_respect_the_cap)
{
    struct hearth_buf *bufs[4];
    for (size_t i = 0; i < 4; i++)
        bufs[i] = take(arena, 1024);
    EXPECT(HEARTH_OK, hearth_exec_set_retention_cap(arena, 2048));
    for (size_t i = 0; i < 4; i++)
        EXPECT(HEARTH_OK, return_elsewhere(bufs[i]));
    give(arena, take(arena, 64));
    EXPECT_SIZE(0, hearth_exec_pending_count(arena));
    cr_assert_leq(hearth_exec_retained_bytes(arena), 2048u);
    finish();
}

Test(exec_threads, a_second_return_is_stale_from_any_thread)
{
    struct hearth_buf *buf = take(arena, 1000);
    EXPECT(HEARTH_OK, return_elsewhere(buf));
    EXPECT(HEARTH_STALE, return_elsewhere(buf));
    cr_assert_eq(misuse.count, 1u);
    EXPECT_SIZE(1, hearth_exec_pending_count(arena) + hearth_exec_retained_count(arena));
    give(arena, take(arena, 64));
    EXPECT(HEARTH_STALE, return_elsewhere(buf));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));

    buf = take(arena, 2000);
    give(arena, buf);
    EXPECT(HEARTH_STALE, return_elsewhere(buf));
    cr_assert_eq(stats_of(arena).misuses, 3u);
    finish();
}

/* allocator.h: the only second return that may go unnoticed is one after the descriptor was handed out
 * again. The owner's return of a buffer that waits in its inbox is not that. */
Test(exec_threads, the_owner_cannot_return_or_resize_a_queued_buffer)
{
    struct hearth_buf *buf = take(arena, 1000), *queued = take(arena, 2000);
    EXPECT(HEARTH_OK, return_elsewhere(buf));
    EXPECT(HEARTH_OK, return_elsewhere(queued));
    cr_expect_eq(hearth_exec_free(arena, buf), HEARTH_STALE);
    cr_expect_eq(hearth_buf_resize(queued, 10), HEARTH_STALE);
    cr_expect_eq(misuse.count, 2u, "the callback heard of %u", misuse.count);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT_SIZE(0, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(2, hearth_exec_pending_count(arena) + hearth_exec_retained_count(arena));
    check_identity(arena, &memory);
    struct hearth_buf *a = take(arena, 1000), *b = take(arena, 1000);
    cr_assert_neq(hearth_buf_data(a), hearth_buf_data(b), "handed out twice");
    give(arena, a);
    give(arena, b);
    finish();
}

Test(exec_threads, foreign_pointers_from_other_threads)
{
    EXPECT(HEARTH_FOREIGN, return_elsewhere(NULL));
    EXPECT(HEARTH_FOREIGN, return_elsewhere((struct hearth_buf *)(uintptr_t)&memory));
    EXPECT_SIZE(0, hearth_exec_pending_count(arena));
    finish();
}

struct claim {
    enum hearth_status first, second, released;
    struct hearth_buf *buf;
    size_t capacity;
};

static void claim_by_alloc(void *argument)
{
    struct claim *it = argument;
    it->first = hearth_exec_alloc(arena, 5000, &it->buf);
    it->capacity = hearth_buf_capacity(it->buf);
    it->second = hearth_exec_free(arena, it->buf);
    it->released = hearth_exec_release_owner(arena);
}

static void claim_by_trim(void *argument)
{
    struct claim *it = argument;
    it->first = hearth_exec_trim(arena, NULL);
    it->second = hearth_exec_reset_peak(arena);
    it->released = hearth_exec_release_owner(arena);
}

static void claim_by_cap(void *argument)
{
    struct claim *it = argument;
    it->first = hearth_exec_set_retention_cap(arena, 64 * KIB);
    it->second = hearth_exec_alloc(arena, 10, &it->buf);
    it->released = hearth_exec_release_owner(arena);
}

Test(exec_threads, ownership_is_handed_over)
{
    struct hearth_buf *buf = take(arena, 5000), *none = NULL, *returned = take(arena, 300);
    give(arena, buf);
    EXPECT(HEARTH_OK, hearth_exec_release_owner(arena));
    EXPECT(HEARTH_NOT_OWNER, hearth_exec_release_owner(arena));
    give(arena, returned); /* nobody owns the arena: queued */
    EXPECT_SIZE(1, hearth_exec_pending_count(arena));

    struct claim claim = {0};
    on_thread(claim_by_alloc, &claim);
    EXPECT(HEARTH_OK, claim.first);
    EXPECT(HEARTH_OK, claim.second);
    EXPECT(HEARTH_OK, claim.released);
    EXPECT_SIZE(5120, claim.capacity);
    EXPECT_SIZE(2, memory.acquires);
    EXPECT_SIZE(2, hearth_exec_retained_count(arena));

    claim = (struct claim){0};
    on_thread(claim_by_trim, &claim);
    EXPECT(HEARTH_OK, claim.first);
    EXPECT(HEARTH_OK, claim.second);
    EXPECT(HEARTH_OK, claim.released);
    EXPECT_SIZE(0, hearth_exec_footprint(arena));

    on_thread(claim_by_cap, &claim);
    EXPECT(HEARTH_OK, claim.first);
    EXPECT(HEARTH_OK, claim.second);
    EXPECT_SIZE(64 * KIB, hearth_exec_retention_cap(arena));
    EXPECT_SIZE(1, hearth_exec_live_count(arena));

    buf = take(arena, 5000); /* this thread claims it back */
    give(arena, buf);
    give(arena, claim.buf);
    EXPECT(HEARTH_NOT_OWNER, (on_thread(claim_by_alloc, &claim), claim.first));
    EXPECT(HEARTH_OK, hearth_exec_alloc(arena, 1, &none));
    give(arena, none);
    finish();
}

/* exec.h: the next thread that makes any of the owner's calls becomes the owner. */
Test(exec_threads, resize_and_reset_peak_claim_too)
{
    struct hearth_buf *buf = take(arena, 100);
    EXPECT(HEARTH_OK, hearth_exec_release_owner(arena));
    cr_expect_eq(hearth_exec_release_owner(arena), HEARTH_NOT_OWNER);
    cr_expect_eq(hearth_buf_resize(buf, 10), HEARTH_OK);
    EXPECT(HEARTH_OK, hearth_exec_release_owner(arena));
    cr_expect_eq(hearth_exec_reset_peak(arena), HEARTH_OK);
    give(arena, buf);
    finish();
}

static struct hearth_exec *workers_arena;
static struct hearth_buf *workers_buf;

static void work_and_exit(void *argument)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = memory.backing;
    enum hearth_status *status = argument;
    *status = hearth_exec_create(&options, &workers_arena);
    if (*status == HEARTH_OK)
        *status = hearth_exec_alloc(workers_arena, 1000, &workers_buf);
    struct hearth_buf *buf = NULL;
    if (*status == HEARTH_OK)
        *status = hearth_exec_alloc(workers_arena, 5000, &buf);
    if (*status == HEARTH_OK)
        *status = hearth_exec_free(workers_arena, buf);
}

Test(exec_threads, main_ends_the_arena_of_a_worker_that_is_gone)
{
    enum hearth_status status = HEARTH_INVALID;
    on_thread(work_and_exit, &status);
    EXPECT(HEARTH_OK, status);
    EXPECT_SIZE(1, hearth_exec_live_count(workers_arena));
    struct hearth_buf *none = NULL;
    EXPECT(HEARTH_NOT_OWNER, hearth_exec_alloc(workers_arena, 1, &none));
    EXPECT(HEARTH_BUSY, hearth_exec_destroy(workers_arena));
    EXPECT_SIZE(1, hearth_exec_live_count(workers_arena));
    EXPECT(HEARTH_OK, hearth_exec_free(workers_arena, workers_buf));
    EXPECT(HEARTH_STALE, hearth_exec_free(workers_arena, workers_buf));
    EXPECT(HEARTH_OK, hearth_exec_destroy(workers_arena));
    finish();
}

Test(exec_threads, destroy_with_buffers_out_is_busy_and_changes_nothing)
{
    struct hearth_buf *a = take(arena, 100), *b = take(arena, 200);
    give(arena, take(arena, 5000));
    fill(a, 1);
    EXPECT(HEARTH_BUSY, hearth_exec_destroy(arena));
    EXPECT_SIZE(2, hearth_exec_live_count(arena));
    cr_assert(filled(a, 100, 1));
    EXPECT(HEARTH_OK, return_elsewhere(a));
    EXPECT(HEARTH_BUSY, hearth_exec_destroy(arena));
    struct hearth_buf *more = take(arena, 5000);
    give(arena, more);
    EXPECT(HEARTH_OK, return_elsewhere(b)); /* destroy takes it in */
    finish();
}

Test(exec_threads, detach_leaves_outstanding_buffers_usable)
{
    struct hearth_allocator *allocator = hearth_exec_allocator(arena);
    struct hearth_buf *bufs[5];
    for (size_t i = 0; i < 5; i++)
        bufs[i] = take(arena, 1000 * (i + 1));
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(bufs[4], &handle));
    give(arena, take(arena, MIB));
    EXPECT(HEARTH_OK, return_elsewhere(bufs[0]));
    size_t outstanding = 0;
    EXPECT(HEARTH_OK, hearth_exec_detach(arena, &outstanding));
    EXPECT_SIZE(4, outstanding);
    EXPECT_SIZE(class_of(2000) + class_of(3000) + class_of(4000) + class_of(5000), memory.bytes);
    for (size_t i = 1; i < 5; i++) {
        fill(bufs[i], (unsigned char)i);
        cr_assert(filled(bufs[i], 1000 * (i + 1), (unsigned char)i));
    }

    EXPECT(HEARTH_OK, return_elsewhere(bufs[1]));
    struct returning it = {bufs[2], allocator, HEARTH_INVALID};
    on_thread(return_it, &it);
    EXPECT(HEARTH_OK, it.status);
    EXPECT_SIZE(class_of(4000) + class_of(5000), memory.bytes);
    EXPECT(HEARTH_STALE, hearth_exec_free(arena, bufs[1]));
    EXPECT(HEARTH_OK, hearth_free(allocator, bufs[3]));
    EXPECT_SIZE(class_of(5000), memory.bytes);
    EXPECT(HEARTH_OK, hearth_handle_reset(&handle));
    memory_fini(&memory);
}

Test(exec_threads, detach_with_nothing_out_ends_the_arena)
{
    give(arena, take(arena, 1000));
    size_t outstanding = 7;
    EXPECT(HEARTH_OK, hearth_exec_detach(arena, &outstanding));
    EXPECT_SIZE(0, outstanding);
    memory_fini(&memory);
}

struct handle_job {
    struct hearth_handle *handle;
    enum hearth_status status;
};

static void reset_it(void *argument)
{
    struct handle_job *it = argument;
    it->status = hearth_handle_reset(it->handle);
}

Test(exec_threads, a_handle_is_reset_elsewhere)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, twin;
    EXPECT(HEARTH_OK, hearth_handle_from_buf(take(arena, 1000), &handle));
    twin = handle;
    struct handle_job job = {&handle, HEARTH_INVALID};
    on_thread(reset_it, &job);
    EXPECT(HEARTH_OK, job.status);
    cr_assert_null(hearth_handle_buf(&handle));
    EXPECT_SIZE(1, hearth_exec_pending_count(arena));
    struct hearth_buf *again = take(arena, 1000); /* the same slot, a new generation */
    job.handle = &twin;
    on_thread(reset_it, &job);
    EXPECT(HEARTH_STALE, job.status);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    give(arena, again);
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    finish();
}

struct lookup {
    const void *data;
    enum hearth_status status;
    struct hearth_buf *buf;
    size_t size;
};

static void look_up(void *argument)
{
    struct lookup *it = argument;
    it->status = hearth_buf_of(it->data, &it->buf);
    it->size = hearth_buf_size(it->buf);
}

Test(exec_threads, buffers_are_found_from_other_threads)
{
    struct hearth_buf *buf = take(arena, 777);
    struct lookup lookup = {hearth_buf_data(buf), HEARTH_INVALID, NULL, 0};
    on_thread(look_up, &lookup);
    EXPECT(HEARTH_OK, lookup.status);
    cr_assert_eq(lookup.buf, buf);
    EXPECT_SIZE(777, lookup.size);
    EXPECT(HEARTH_OK, return_elsewhere(buf));
    give(arena, take(arena, 10));
    on_thread(look_up, &lookup);
    EXPECT(HEARTH_STALE, lookup.status);
    finish();
}
