/* SPDX-License-Identifier: Apache-2.0 */
/* Execution storage that changes arena, and storage from outside.
 * Covered: take without a copy, stale old descriptors, the accounting of both arenas, limits, other backings,
 * owners and states; adopt's callback, its arguments, re-entry and refusals. Not covered: races. */
#include "io_support.h"

static struct memory memory;
static struct hearth_io *io;
static struct hearth_exec *exec;

static void setup(void)
{
    memory_init(&memory);
    io = io_create(&memory, 0, 0, 0);
    exec = arena_create(&memory, 0, 0, 0);
    misuse_record();
}

static void teardown(void)
{
    EXPECT(HEARTH_OK, hearth_exec_destroy(exec));
    io_finish(io, &memory);
}

TestSuite(io_take, .init = setup, .fini = teardown);

static void both_add_up(void)
{
    EXPECT_SIZE(memory.bytes, hearth_io_footprint(io) + hearth_exec_footprint(exec));
    io_identity(io, NULL);
    check_identity(exec, NULL);
}

Test(io_take, storage_moves_without_a_copy)
{
    static const size_t sizes[] = {0, 1000, 100 * KIB, 3 * MIB};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct hearth_buf *from = take(exec, sizes[i]), *buf = NULL;
        void *data = hearth_buf_data(from);
        size_t capacity = hearth_buf_capacity(from), footprint = hearth_exec_footprint(exec);
        fill(from, 0x21);
        memory_clear_log(&memory);
        EXPECT(HEARTH_OK, hearth_io_take(io, from, &buf));
        EXPECT_SIZE(0, memory.acquires + memory.releases);
        cr_assert_neq(buf, from);
        cr_assert_eq(hearth_buf_data(buf), data);
        cr_assert(filled(buf, sizes[i], 0x21));
        EXPECT_SIZE(sizes[i], hearth_buf_size(buf));
        EXPECT_SIZE(capacity, hearth_buf_capacity(buf));
        cr_assert_eq(hearth_buf_owner(buf), hearth_io_allocator(io));
        struct hearth_buf *found = NULL;
        EXPECT(HEARTH_OK, hearth_buf_of(data, &found));
        cr_assert_eq(found, buf);
        EXPECT_SIZE(0, hearth_exec_live_count(exec));
        EXPECT_SIZE(footprint - capacity, hearth_exec_footprint(exec));
        EXPECT_SIZE(capacity, hearth_io_live_capacity(io));
        EXPECT_SIZE(sizes[i], hearth_io_live_bytes(io));
        EXPECT_SIZE(1, hearth_io_owned_count(io));
        both_add_up();
        EXPECT(HEARTH_STALE, hearth_exec_free(exec, from));
        EXPECT(HEARTH_STALE, hearth_buf_resize(from, 1));
        EXPECT(HEARTH_STALE, hearth_io_take(io, from, &found));
        io_give(io, buf);
        EXPECT_SIZE(capacity, hearth_io_retained_bytes(io));
        struct hearth_lease lease = io_lease(io, sizes[i]); /* an ordinary free buffer now */
        cr_assert_eq(hearth_lease_data(lease), data);
        io_drop(lease);
        EXPECT(HEARTH_OK, hearth_io_trim(io, NULL));
        EXPECT(HEARTH_OK, hearth_exec_trim(exec, NULL));
        EXPECT_SIZE(0, memory.bytes);
    }
}

/* The arena never had one of this alignment itself. */
Test(io_take, aligned_storage_comes_home)
{
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_io_take(io, take_aligned(exec, 100 * KIB, 4096), &buf));
    const void *data = hearth_buf_data(buf);
    io_give(io, buf);
    EXPECT_SIZE(1, hearth_io_retained_count(io));
    buf = io_take_aligned(io, 100 * KIB, 4096);
    cr_assert_eq(hearth_buf_data(buf), data);
    io_give(io, buf);
    both_add_up();
}

Test(io_take, the_taken_buffer_outlives_its_arena)
{
    struct hearth_exec *other = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *from = take(other, 1000), *buf = NULL;
    EXPECT(HEARTH_OK, hearth_io_take(io, from, &buf));
    EXPECT(HEARTH_OK, hearth_exec_destroy(other));
    fill(buf, 1);
    struct hearth_lease lease = io_export(io, buf);
    io_drop(lease);
}

Test(io_take, depends_on_the_backing)
{
    struct memory elsewhere;
    memory_init(&elsewhere);
    struct hearth_exec *other = arena_create(&elsewhere, 0, 0, 0);
    struct hearth_buf *from = take(other, 1000), *buf = NULL;
    cr_assert(hearth_io_can_take(io, exec));
    cr_assert_not(hearth_io_can_take(io, other));
    cr_assert_not(hearth_io_can_take(NULL, exec));
    cr_assert_not(hearth_io_can_take(io, NULL));
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_INVALID, hearth_io_take(io, from, &buf));
    cr_assert_null(buf);
    io_unchanged(&before, io);
    EXPECT_SIZE(1, hearth_exec_live_count(other));
    give(other, from);
    EXPECT(HEARTH_OK, hearth_exec_destroy(other));
    memory_fini(&elsewhere);
}

Test(io_take, wrong_buffers)
{
    struct hearth_buf *buf = NULL, *mine = io_take(io, 100), *from = take(exec, 100);
    struct hearth_lease lease = io_lease(io, 100);
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_FOREIGN, hearth_io_take(io, NULL, &buf));
    EXPECT(HEARTH_FOREIGN, hearth_io_take(io, (struct hearth_buf *)(uintptr_t)&memory, &buf));
    EXPECT(HEARTH_FOREIGN, hearth_io_take(io, mine, &buf));
    EXPECT(HEARTH_FOREIGN, hearth_io_take(io, lease.buf, &buf));
    EXPECT(HEARTH_INVALID, hearth_io_take(NULL, from, &buf));
    EXPECT(HEARTH_INVALID, hearth_io_take(io, from, NULL));
    give(exec, from);
    EXPECT(HEARTH_STALE, hearth_io_take(io, from, &buf));
    cr_assert_null(buf);
    io_unchanged(&before, io);
    io_give(io, mine);
    io_drop(lease);
    both_add_up();
}

static struct hearth_buf *theirs;

static void take_others(void *unused)
{
    struct hearth_buf *buf = NULL;
    (void)unused;
    EXPECT(HEARTH_NOT_OWNER, hearth_io_take(io, theirs, &buf));
    cr_assert_null(buf);
}

Test(io_take, only_the_owner)
{
    theirs = take(exec, 1000);
    on_thread(take_others, NULL);
    EXPECT_SIZE(1, hearth_exec_live_count(exec));
    give(exec, theirs);
}

Test(io_take, limits_hold)
{
    struct hearth_io *narrow = io_create_limited(&memory, 1024), *few = io_create(&memory, 1, 0, 0);
    struct hearth_buf *from = take(exec, 1000), *large = take(exec, 2000), *buf = NULL;
    struct hearth_buf *held = io_take(few, 64);
    struct io_figures before = io_figures(narrow);
    EXPECT(HEARTH_NO_MEMORY, hearth_io_take(narrow, large, &buf));
    io_unchanged(&before, narrow);
    EXPECT(HEARTH_NO_SLOT, hearth_io_take(few, large, &buf));
    EXPECT_SIZE(2, hearth_exec_live_count(exec));
    fill(large, 3);
    EXPECT(HEARTH_OK, hearth_io_take(narrow, from, &buf));
    EXPECT_SIZE(1024, hearth_io_live_capacity(narrow));
    io_give(narrow, buf);
    io_give(few, held);
    EXPECT(HEARTH_OK, hearth_io_close(few));
    EXPECT(HEARTH_CLOSED, hearth_io_take(few, large, &buf));
    give(exec, large);
    EXPECT(HEARTH_OK, hearth_io_destroy(few));
    EXPECT(HEARTH_OK, hearth_io_destroy(narrow));
}

struct adopted {
    unsigned calls;
    void *data;
    size_t size;
};

static void release(void *data, size_t size, void *context)
{
    struct adopted *adopted = context;
    adopted->calls++;
    adopted->data = data;
    adopted->size = size;
}

Test(io_take, adopted_storage_is_released_once_with_its_arguments)
{
    static unsigned char outside[1000];
    struct adopted first = {.calls = 0}, second = {.calls = 0};
    struct hearth_lease a = HEARTH_LEASE_INIT, b = HEARTH_LEASE_INIT;
    struct hearth_view view;
    struct hearth_buf *found = NULL;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside + 3, 900, release, &first, &a));
    EXPECT(HEARTH_OK, hearth_io_adopt(io, outside + 3, 900, release, &second, &b));
    cr_assert_eq(hearth_lease_data(a), outside + 3);
    EXPECT_SIZE(900, hearth_lease_size(a));
    EXPECT(HEARTH_FOREIGN, hearth_buf_of(outside + 3, &found));
    EXPECT(HEARTH_LEASED, hearth_io_free(io, a.buf));
    EXPECT(HEARTH_OK, hearth_lease_view(a, 100, 800, &view));
    cr_assert_eq(view.data, outside + 103);
    io_drop(a);
    EXPECT_SIZE(0, first.calls);
    io_drop(view.lease);
    EXPECT_SIZE(1, first.calls);
    cr_assert_eq(first.data, outside + 3);
    EXPECT_SIZE(900, first.size);
    io_is_stale(a);
    EXPECT_SIZE(0, second.calls);
    cr_assert(hearth_lease_valid(b));
    io_drop(b);
    EXPECT_SIZE(1, second.calls);
    EXPECT_SIZE(1, first.calls);
    EXPECT_SIZE(0, hearth_io_retained_count(io));
    EXPECT_SIZE(0, memory.acquires);
}

Test(io_take, refused_adoptions_are_not_taken_over)
{
    struct adopted adopted = {.calls = 0};
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct io_figures before = io_figures(io);
    EXPECT(HEARTH_INVALID, hearth_io_adopt(io, NULL, 1, release, &adopted, &lease));
    EXPECT(HEARTH_INVALID, hearth_io_adopt(io, &adopted, 1, NULL, &adopted, &lease));
    EXPECT(HEARTH_INVALID, hearth_io_adopt(NULL, &adopted, 1, release, &adopted, &lease));
    EXPECT(HEARTH_INVALID, hearth_io_adopt(io, &adopted, 1, release, &adopted, NULL));
    cr_assert_null(lease.buf);
    io_unchanged(&before, io);
    EXPECT_SIZE(0, adopted.calls);
    EXPECT(HEARTH_OK, hearth_io_adopt(io, NULL, 0, release, &adopted, &lease));
    cr_assert(hearth_lease_valid(lease));
    io_drop(lease);
    EXPECT_SIZE(1, adopted.calls);
    cr_assert_null(adopted.data);
}

static void release_and_use(void *data, size_t size, void *context)
{
    struct hearth_lease lease = io_lease(io, 1000);
    memset(hearth_lease_data(lease), 1, 1000);
    io_drop(lease);
    io_drop(*(struct hearth_lease *)data);
    release(data, size, context);
}

Test(io_take, the_callback_may_use_the_arena)
{
    struct adopted adopted = {.calls = 0};
    struct hearth_lease inner = io_lease(io, 100 * KIB), lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &inner, sizeof inner, release_and_use, &adopted, &lease));
    io_drop(lease);
    EXPECT_SIZE(1, adopted.calls);
    EXPECT_SIZE(0, hearth_io_live_count(io));
}

static void drop_it(void *lease)
{
    io_drop(*(struct hearth_lease *)lease);
}

Test(io_take, the_callback_runs_where_the_last_reference_goes)
{
    struct adopted adopted = {.calls = 0};
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_io_adopt(io, &adopted, 1, release, &adopted, &lease));
    on_thread(drop_it, &lease);
    EXPECT_SIZE(1, adopted.calls);
}
