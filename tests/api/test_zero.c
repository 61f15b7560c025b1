/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for zeroed buffers, on every kind of storage. */
#include "support.h"

static struct memory memory;

static struct hearth_buf *take_zero(struct hearth_exec *arena, size_t size, size_t alignment)
{
    struct hearth_request request = {.size = size, .alignment = alignment, .zero = true};
    struct hearth_buf *buf = NULL;
    EXPECT(HEARTH_OK, hearth_exec_alloc_ex(arena, &request, &buf));
    cr_assert(filled(buf, size, 0), "%zu bytes aligned to %zu are not zero", size, alignment);
    return buf;
}

static void rounds(struct hearth_exec *arena)
{
    static const size_t sizes[] = {0, 1, 63, 64, 1000, 4096, 5000, 70000, 300000, 3 << 20};
    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (size_t alignment = 64; alignment <= 4096; alignment *= 64) {
                struct hearth_buf *buf = take_zero(arena, sizes[i], alignment);
                fill(buf, 0xFF);
                give(arena, buf);
                buf = take(arena, sizes[i]);
                fill(buf, 0xFF);
                give(arena, buf);
            }
        }
        if (round == 1)
            EXPECT(HEARTH_OK, hearth_exec_trim(arena, NULL));
    }
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
}

Test(zero, on_dirty_storage)
{
    memory_init(&memory);
    rounds(arena_create(&memory, 0, 0, 0));
    memory_fini(&memory);
}

Test(zero, on_storage_that_comes_zeroed)
{
    memory_init(&memory);
    memory.zeroed = true;
    rounds(arena_create(&memory, 0, 0, 0));
    memory_fini(&memory);
}

Test(zero, on_the_default_backing)
{
    rounds(arena_create(NULL, 0, 0, 0));
}

Test(zero, on_mmap)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_backing_create_mmap(NULL, &options.backing));
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    rounds(arena);
    EXPECT_SIZE(0, hearth_backing_footprint(options.backing));
    hearth_backing_unref(options.backing);
}

Test(zero, a_resized_buffer_is_dirty_when_it_comes_back)
{
    memory_init(&memory);
    memory.zeroed = true;
    struct hearth_exec *arena = arena_create(&memory, 0, 0, 0);
    struct hearth_buf *buf = take(arena, 10);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 5000));
    fill(buf, 1);
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, 5));
    give(arena, buf);
    give(arena, take_zero(arena, 5000, 0));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}

Test(zero, slots_that_ran_out)
{
    memory_init(&memory);
    struct hearth_exec *arena = arena_create(&memory, 1, 0, 0);
    struct hearth_buf *buf = take(arena, 100000);
    fill(buf, 1);
    give(arena, buf);
    buf = take_zero(arena, 100, 0); /* the large one serves */
    fill(buf, 1);
    give(arena, buf);
    give(arena, take_zero(arena, 200000, 0)); /* and grows */
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    memory_fini(&memory);
}
