/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a context by name, outside of runs.
 * Covered: set, put, get, take, remove, clear, names, count, borrow and stage, with learned names and with
 * a plan's; what each answers to wrong arguments; destroy releases. Not covered: options and runs
 * (test_context_options.c), bound outputs (test_bind.c), exports (test_export.c). */
#include "run_support.h"

#include <stdio.h>
#include <string.h>

static struct memory memory;
static struct hearth_exec *arena;
static struct hearth_allocator *exec;
static struct hearth_io *io;
static struct hearth_context *context;

static void setup(void)
{
    memory_init(&memory);
    misuse_record();
    arena = arena_create(&memory, 0, 0, 0);
    exec = hearth_exec_allocator(arena);
    io = io_create(&memory, 0, 0, 0);
    context = context_of(NULL, CONTEXT_OPTIONS(.execution = exec, .arena = io));
}

static void teardown(void)
{
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT_SIZE(0, hearth_io_live_count(io));
    EXPECT(HEARTH_OK, hearth_exec_destroy(arena));
    io_finish(io, &memory);
}

TestSuite(context, .init = setup, .fini = teardown, .timeout = 60);

static void make(struct hearth_tensor *tensor, uint32_t value)
{
    make_u32(exec, ELEMENTS, value, tensor);
}

static void set(const char *name, uint32_t value)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make(&tensor, value);
    EXPECT(HEARTH_OK, hearth_context_set(context, name, &tensor));
}

Test(context, set_moves_the_tensor)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make(&tensor, 7);
    const void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_set(context, "a", &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
    cr_assert_eq(hearth_tensor_data(value_of(context, "a")), data);
    expect_value(context, "a", ELEMENTS, 7, 0);
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
}

Test(context, set_never_replaces)
{
    set("a", 7);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make(&tensor, 8);
    EXPECT(HEARTH_BUSY, hearth_context_set(context, "a", &tensor));
    expect_u32(hearth_tensor_data(&tensor), hearth_tensor_size(&tensor), ELEMENTS, 8, 0);
    expect_value(context, "a", ELEMENTS, 7, 0);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(context, put_replaces_and_releases)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    for (uint32_t i = 0; i < 5; i++) {
        make(&tensor, i);
        EXPECT(HEARTH_OK, hearth_context_put(context, "a", &tensor));
        cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
        EXPECT_SIZE(1, hearth_exec_live_count(arena));
        expect_value(context, "a", ELEMENTS, i, 0);
        EXPECT_SIZE(1, hearth_context_count(context));
    }
}

Test(context, get_finds_or_says_that_there_is_none)
{
    const struct hearth_tensor *found = (const struct hearth_tensor *)&memory;
    EXPECT(HEARTH_INVALID, hearth_context_get(context, "a", &found));
    cr_assert_null(found);
    set("a", 1);
    EXPECT(HEARTH_OK, hearth_context_get(context, "a", &found));
    cr_assert_eq(found, value_of(context, "a"));
    found = (const struct hearth_tensor *)&memory;
    EXPECT(HEARTH_INVALID, hearth_context_get(context, "b", &found));
    cr_assert_null(found);
}

Test(context, take_moves_out)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_INVALID, hearth_context_take(context, "a", &tensor));
    set("a", 3);
    const void *data = hearth_tensor_data(value_of(context, "a"));
    EXPECT(HEARTH_OK, hearth_context_take(context, "a", &tensor));
    cr_assert_eq(hearth_tensor_data(&tensor), data);
    cr_assert(!has_value(context, "a"));
    set("a", 4);
    EXPECT(HEARTH_BUSY, hearth_context_take(context, "a", &tensor));
    expect_value(context, "a", ELEMENTS, 4, 0);
    expect_u32(hearth_tensor_data(&tensor), hearth_tensor_size(&tensor), ELEMENTS, 3, 0);
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(context, remove_releases)
{
    EXPECT(HEARTH_INVALID, hearth_context_remove(context, "a"));
    set("a", 1);
    set("b", 2);
    EXPECT(HEARTH_OK, hearth_context_remove(context, "a"));
    EXPECT(HEARTH_INVALID, hearth_context_remove(context, "a"));
    EXPECT_SIZE(1, hearth_exec_live_count(arena));
    expect_names(context, "b");
    set("a", 3);
    expect_names(context, "a b");
}

Test(context, clear_releases_everything_and_the_context_goes_on)
{
    EXPECT(HEARTH_OK, hearth_context_clear(context));
    for (unsigned round = 0; round < 3; round++) {
        set("a", 1);
        set("b", 2);
        lend_ramp(context, "c");
        EXPECT_SIZE(3, hearth_context_count(context));
        EXPECT(HEARTH_OK, hearth_context_clear(context));
        EXPECT_SIZE(0, hearth_context_count(context));
        EXPECT_SIZE(0, hearth_exec_live_count(arena));
        cr_assert(!has_value(context, "a"));
    }
}

Test(context, names_are_listed_as_far_as_there_is_room)
{
    const char *names[4] = {"!", "!", "!", "!"};
    size_t count = 9;
    EXPECT(HEARTH_OK, hearth_context_names(context, names, 4, &count));
    EXPECT_SIZE(0, count);
    EXPECT(HEARTH_OK, hearth_context_names(context, NULL, 0, &count));
    set("one", 1);
    set("two", 2);
    set("three", 3);
    EXPECT(HEARTH_OK, hearth_context_remove(context, "two"));
    set("four", 4);
    EXPECT(HEARTH_OK, hearth_context_names(context, names, 4, &count));
    EXPECT_SIZE(3, count);
    unsigned seen = 0;
    for (size_t i = 0; i < 3; i++)
        seen += strcmp(names[i], "one") == 0     ? 1
                : strcmp(names[i], "three") == 0 ? 10
                : strcmp(names[i], "four") == 0  ? 100
                                                 : 1000;
    EXPECT_SIZE(111, seen);
    cr_assert_str_eq(names[3], "!");
    const char *few[3] = {"!", "!", "!"};
    count = 0;
    EXPECT(HEARTH_OVERFLOW, hearth_context_names(context, few, 2, &count));
    EXPECT_SIZE(3, count);
    cr_assert_str_eq(few[2], "!");
    count = 0;
    EXPECT(HEARTH_OVERFLOW, hearth_context_names(context, NULL, 0, &count));
    EXPECT_SIZE(3, count);
}

Test(context, names_are_learned_as_they_come)
{
    char name[32];
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "name %u \xC3\xA4", i);
        set(name, i);
        memset(name, 'z', sizeof name - 1); /* the context has its own copy */
    }
    EXPECT_SIZE(2000, hearth_context_count(context));
    for (uint32_t i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "name %u \xC3\xA4", i);
        expect_value(context, name, ELEMENTS, i, 0);
    }
    EXPECT(HEARTH_OK, hearth_context_clear(context));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
}

static void cycle(struct hearth_context *of, const char *name)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make(&tensor, 1);
    EXPECT(HEARTH_OK, hearth_context_set(of, name, &tensor));
    make(&tensor, 2);
    EXPECT(HEARTH_OK, hearth_context_put(of, name, &tensor));
    EXPECT(HEARTH_OK, hearth_context_take(of, name, &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(context, a_known_name_allocates_nothing)
{
    struct hearth_plan *plan = PLAN("x z", "y", OP("n", "x z", "y", NULL));
    struct hearth_context *planned =
        context_of(plan, CONTEXT_OPTIONS(.execution = exec, .arena = io));
    cycle(planned, "y"); /* storage becomes warm */
    cycle(context, "learned");
    size_t before = heap_bytes();
    for (unsigned i = 0; i < 10; i++) {
        cycle(planned, i % 2 ? "x" : "z");
        cycle(context, "learned");
        lend_ramp(planned, "x");
        EXPECT(HEARTH_OK, hearth_context_clear(planned));
    }
    EXPECT_SIZE(before, heap_bytes());
    EXPECT(HEARTH_OK, hearth_context_destroy(planned));
    hearth_plan_unref(plan);
}

Test(context, borrowed_bytes_stay_the_callers)
{
    static uint32_t mine[ELEMENTS];
    struct hearth_shape shape = shape_of(ELEMENTS);
    set("a", 1);
    lend_input(context, "a", mine, ELEMENTS);
    EXPECT_SIZE(0, hearth_exec_live_count(arena)); /* the value before was released */
    EXPECT_SIZE(0, hearth_io_live_count(io));
    const struct hearth_tensor *tensor = value_of(context, "a");
    cr_assert_eq(hearth_tensor_data(tensor), mine);
    cr_assert_eq(hearth_tensor_owner(tensor), HEARTH_OWNER_BORROWED);
    EXPECT_SIZE(sizeof mine, hearth_tensor_size(tensor));
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    EXPECT(HEARTH_INVALID, hearth_context_borrow(context, "a", mine, sizeof mine - 1, u32, &shape));
    EXPECT(HEARTH_INVALID, hearth_context_borrow(context, "a", NULL, sizeof mine, u32, &shape));
    EXPECT(HEARTH_INVALID, hearth_context_borrow(context, "a", mine, sizeof mine, u32, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_borrow(context, "", mine, sizeof mine, u32, &shape));
    cr_assert_eq(hearth_tensor_data(value_of(context, "a")), mine);
    EXPECT(HEARTH_OK, hearth_context_remove(context, "a"));
}

Test(context, a_staged_input_is_room_in_the_io_arena)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *room = NULL;
    set("a", 1);
    EXPECT(HEARTH_OK,
           hearth_context_stage(context, "a", HEARTH_DTYPE_UINT32, &shape, NULL, 0, &room));
    cr_assert_eq(room, value_of(context, "a"));
    cr_assert_eq(hearth_tensor_allocator(room), hearth_io_allocator(io));
    EXPECT_SIZE(sizeof ramp, hearth_tensor_size(room));
    EXPECT_SIZE(0, hearth_exec_live_count(arena));
    EXPECT_SIZE(1, hearth_io_owned_count(io));
    memcpy(hearth_tensor_data(room), ramp, sizeof ramp);
    expect_value(context, "a", ELEMENTS, 0, 1);
}

Test(context, staged_bytes_are_copied)
{
    uint32_t mine[ELEMENTS];
    struct hearth_shape shape = shape_of(ELEMENTS);
    memcpy(mine, ramp, sizeof mine);
    EXPECT(HEARTH_OK, hearth_context_stage(context, "a", HEARTH_DTYPE_UINT32, &shape, mine,
                                           sizeof mine, NULL));
    memset(mine, 0, sizeof mine);
    expect_value(context, "a", ELEMENTS, 0, 1);
    cr_assert_eq(hearth_tensor_allocator(value_of(context, "a")), hearth_io_allocator(io));
    struct hearth_tensor *text = NULL;
    struct hearth_shape one = shape_of(1);
    EXPECT(HEARTH_OK,
           hearth_context_stage(context, "s", HEARTH_DTYPE_STRING, &one, "hearth", 7, &text));
    EXPECT_SIZE(7, hearth_tensor_size(text));
    cr_assert_str_eq(hearth_tensor_data(text), "hearth");
    EXPECT_SIZE(2, hearth_io_owned_count(io));
}

Test(context, staging_refuses_what_cannot_be)
{
    struct hearth_shape shape = shape_of(ELEMENTS), bad = {.dims = {-1}, .rank = 1};
    struct hearth_shape huge = {.dims = {INT64_MAX, INT64_MAX}, .rank = 2};
    enum hearth_dtype u32 = HEARTH_DTYPE_UINT32;
    set("a", 5);
    EXPECT(HEARTH_INVALID, hearth_context_stage(context, "a", u32, &bad, NULL, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_stage(context, "a", u32, NULL, NULL, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_stage(context, "", u32, &shape, NULL, 0, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_stage(context, NULL, u32, &shape, NULL, 0, NULL));
    EXPECT(HEARTH_INVALID,
           hearth_context_stage(context, "a", u32, &shape, ramp, sizeof ramp - 4, NULL));
    EXPECT(HEARTH_INVALID,
           hearth_context_stage(context, "a", HEARTH_DTYPE_STRING, &shape, NULL, 0, NULL));
    EXPECT(HEARTH_OVERFLOW, hearth_context_stage(context, "a", u32, &huge, NULL, 0, NULL));
    expect_value(context, "a", ELEMENTS, 5, 0);
    EXPECT_SIZE(0, hearth_io_live_count(io));
}

Test(context, a_refused_stage_keeps_the_value)
{
    struct hearth_shape large = shape_of(64 * MIB);
    set("a", 5);
    memory.limit = MIB;
    EXPECT(HEARTH_NO_MEMORY,
           hearth_context_stage(context, "a", HEARTH_DTYPE_UINT32, &large, NULL, 0, NULL));
    memory.limit = 0;
    expect_value(context, "a", ELEMENTS, 5, 0);
}

Test(context, wrong_arguments)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, empty = HEARTH_TENSOR_INIT;
    size_t count = 0;
    make(&tensor, 1);
    EXPECT(HEARTH_INVALID, hearth_context_set(context, "", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_set(context, NULL, &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_set(context, "a", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_set(context, "a", &empty));
    EXPECT(HEARTH_INVALID, hearth_context_set(NULL, "a", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_put(context, "", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_put(context, NULL, &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_put(context, "a", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_put(context, "a", &empty));
    EXPECT(HEARTH_INVALID, hearth_context_put(NULL, "a", &tensor));
    EXPECT(HEARTH_OK, hearth_context_set(context, "a", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_put(context, "a", &empty));
    expect_value(context, "a", ELEMENTS, 1, 0);
    const struct hearth_tensor *found = NULL;
    EXPECT(HEARTH_INVALID, hearth_context_get(context, NULL, &found));
    EXPECT(HEARTH_INVALID, hearth_context_get(context, "a", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_get(NULL, "a", &found));
    EXPECT(HEARTH_INVALID, hearth_context_take(context, "a", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_take(context, NULL, &empty));
    EXPECT(HEARTH_INVALID, hearth_context_take(NULL, "a", &empty));
    EXPECT(HEARTH_INVALID, hearth_context_remove(context, NULL));
    EXPECT(HEARTH_INVALID, hearth_context_remove(context, ""));
    EXPECT(HEARTH_INVALID, hearth_context_remove(NULL, "a"));
    EXPECT(HEARTH_INVALID, hearth_context_clear(NULL));
    EXPECT(HEARTH_INVALID, hearth_context_names(NULL, NULL, 0, &count));
    EXPECT(HEARTH_INVALID, hearth_context_names(context, NULL, 1, &count));
    EXPECT(HEARTH_INVALID, hearth_context_names(context, NULL, 0, NULL));
    EXPECT_SIZE(0, hearth_context_count(NULL));
    EXPECT(HEARTH_OK, hearth_context_destroy(NULL));
    expect_names(context, "a");
}

Test(context, destroy_releases_everything)
{
    struct hearth_shape shape = shape_of(ELEMENTS);
    set("a", 1);
    lend_ramp(context, "b");
    EXPECT(HEARTH_OK, hearth_context_stage(context, "c", HEARTH_DTYPE_UINT32, &shape, ramp,
                                           sizeof ramp, NULL));
    struct hearth_tensor text = HEARTH_TENSOR_INIT;
    make_u32(NULL, 5, 1, &text); /* inline */
    EXPECT(HEARTH_OK, hearth_context_set(context, "d", &text));
    EXPECT(HEARTH_OK, hearth_context_destroy(context));
    context = NULL; /* the teardown sees that nothing is live */
}
