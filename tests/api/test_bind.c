/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs bound to storage that the caller brought.
 * Covered: written in place, by slot-aware and old-style kernels; what does not fit; a bound buffer that was
 * exported, taken or cleared is never written again; borrowed bindings; what cannot be bound. */
#include "run_support.h"

#include <string.h>

static struct run run;
static struct op producer;

static void open_run(void)
{
    producer = (struct op){0};
    run_open(&run,
             PLAN("x", "y", OP("inner", "x", "t", NULL), OP("producer", "t", "y", &producer)));
    lend_ramp(run.context, "x");
}

static void close_run(void)
{
    run_close(&run);
}

TestSuite(bind, .init = open_run, .fini = close_run, .timeout = 60);

static struct hearth_allocator *exec(void)
{
    return hearth_exec_allocator(exec_of(run.rig.service));
}

static struct hearth_allocator *io(void)
{
    return hearth_io_allocator(run.rig.io);
}

/* Binds `count` elements of `allocator`, and returns where they are. */
static const void *bind(struct hearth_allocator *allocator, size_t count)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    make_u32(allocator, count, 0xDEAD, &tensor);
    const void *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
    cr_assert_eq(hearth_tensor_owner(&tensor), HEARTH_OWNER_NONE);
    return data;
}

/* Each run with another input, so that its writes can be told apart. */
static struct hearth_run_stats run_with(uint32_t first)
{
    static uint32_t input[ELEMENTS];
    for (size_t i = 0; i < ELEMENTS; i++)
        input[i] = first + (uint32_t)i;
    lend_input(run.context, "x", input, ELEMENTS);
    struct hearth_run_stats stats = run_once(&run);
    expect_value(run.context, "y", ELEMENTS, first + 2, 1);
    return stats;
}

static void writes_in_place(struct hearth_allocator *allocator)
{
    const void *data = bind(allocator, ELEMENTS);
    for (uint32_t i = 0; i < 4; i++) {
        struct hearth_run_stats stats = run_with(i * 100);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
        cr_assert_eq(producer.out_data[0], data);
        cr_assert_null(producer.predicted[0]);
        EXPECT_SIZE(0, stats.payload_copies);
        EXPECT_SIZE(0, stats.taken);
    }
}

Test(bind, io_storage_is_written_in_place)
{
    writes_in_place(io());
}

Test(bind, execution_storage_is_written_in_place)
{
    writes_in_place(exec());
}

Test(bind, inline_storage_is_written_in_place)
{
    writes_in_place(NULL);
}

/* What an old-style kernel made elsewhere has to come to the caller's storage: that is a copy. */
Test(bind, old_kernels_write_there_too)
{
    producer.old = true;
    const void *data = bind(io(), ELEMENTS);
    for (uint32_t i = 0; i < 3; i++) {
        struct hearth_run_stats stats = run_with(i * 100);
        cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
        EXPECT_SIZE(1, stats.payload_copies);
        EXPECT_SIZE(sizeof ramp, stats.copied_bytes);
    }
    EXPECT_SIZE(sizeof ramp, hearth_io_live_bytes(run.rig.io));
}

Test(bind, larger_storage_fits)
{
    const void *data = bind(io(), 10 * ELEMENTS);
    (void)run_with(5);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
    EXPECT_SIZE(sizeof ramp, hearth_tensor_size(value_of(run.context, "y")));
    (void)run_with(6);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
}

Test(bind, too_small_is_invalid_and_named)
{
    bind(io(), 1);
    static uint32_t wide[1024];
    lend_input(run.context, "x", wide, 1024);
    (void)run_expecting(&run, HEARTH_INVALID);
    const char *error = hearth_session_error(run.context);
    cr_assert_not_null(strstr(error, "producer"), "the node is not named: %s", error);
    cr_assert_not_null(strstr(error, "y"), "the value is not named: %s", error);
    cr_assert_null(strchr(error, '\n'));
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    (void)run_with(1); /* nothing is bound any more */
}

static void intact_after_two_runs(const void *data)
{
    expect_u32(data, sizeof ramp, ELEMENTS, 1002, 1);
    for (uint32_t i = 0; i < 2; i++) {
        (void)run_with(i);
        cr_assert_neq(hearth_tensor_data(value_of(run.context, "y")), data);
        expect_u32(data, sizeof ramp, ELEMENTS, 1002, 1);
    }
}

static void exported_is_never_written_again(struct hearth_allocator *allocator)
{
    const void *data = bind(allocator, ELEMENTS);
    (void)run_with(1);
    (void)run_with(1000);
    struct hearth_lease lease = export_of(run.context, "y");
    cr_assert_eq(hearth_lease_data(lease), data);
    EXPECT_SIZE(0, log_about(&run.log, HEARTH_EVENT_COPIED, "y"));
    intact_after_two_runs(data);
    io_drop(lease);
}

Test(bind, exported_io_storage_is_never_written_again)
{
    exported_is_never_written_again(io());
}

Test(bind, exported_execution_storage_is_never_written_again)
{
    exported_is_never_written_again(exec());
}

Test(bind, exported_inline_storage_is_never_written_again)
{
    exported_is_never_written_again(NULL);
}

Test(bind, exported_by_the_session_is_never_written_again)
{
    const void *data = bind(io(), ELEMENTS);
    (void)run_with(1000);
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, &lease, 1));
    cr_assert_eq(hearth_lease_data(lease), data);
    intact_after_two_runs(data);
    io_drop(lease);
}

Test(bind, taken_storage_is_never_written_again)
{
    const void *data = bind(io(), ELEMENTS);
    (void)run_with(1000);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK, hearth_context_take(run.context, "y", &tensor));
    cr_assert_eq(hearth_tensor_data(&tensor), data);
    intact_after_two_runs(data);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor)); /* and once more */
    (void)run_with(7);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
}

Test(bind, clear_ends_the_binding)
{
    struct counting counting;
    counting_open(&counting, io());
    const void *data = bind(&counting.allocator, ELEMENTS);
    EXPECT(HEARTH_OK, hearth_context_clear(run.context)); /* before a run */
    EXPECT_SIZE(1, counting.frees);
    data = bind(&counting.allocator, ELEMENTS);
    (void)run_with(3);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
    EXPECT_SIZE(2, counting.frees);
    EXPECT_SIZE(0, hearth_io_live_bytes(run.rig.io));
    (void)run_with(4);
    EXPECT_SIZE(2, counting.allocs);
}

Test(bind, a_borrowed_binding_is_written_by_every_run)
{
    uint32_t mine[ELEMENTS] = {0};
    struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    EXPECT(HEARTH_OK,
           hearth_tensor_borrow(mine, sizeof mine, HEARTH_DTYPE_UINT32, &shape, &tensor));
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
    for (uint32_t i = 0; i < 4; i++) {
        EXPECT_SIZE(0, run_with(i * 10).payload_copies);
        expect_u32(mine, sizeof mine, ELEMENTS, i * 10 + 2, 1);
        EXPECT_SIZE(0, hearth_io_live_bytes(run.rig.io));
    }
    struct hearth_lease lease = export_of(run.context, "y");
    cr_assert_neq(hearth_lease_data(lease), mine);
    EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_COPIED, "y"));
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 32, 1);
    (void)run_with(500); /* the binding ended */
    expect_u32(mine, sizeof mine, ELEMENTS, 32, 1);
    expect_u32(hearth_lease_data(lease), hearth_lease_size(lease), ELEMENTS, 32, 1);
    io_drop(lease);
    EXPECT(HEARTH_OK, hearth_context_clear(run.context));
}

Test(bind, a_lease_left_already)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_shape shape = shape_of(ELEMENTS);
    EXPECT(HEARTH_OK, hearth_handle_from_lease(io_lease(run.rig.io, sizeof ramp), &handle));
    EXPECT(HEARTH_OK, hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT32, &shape, &tensor));
    EXPECT(HEARTH_LEASED, hearth_context_bind_output(run.context, "y", &tensor));
    EXPECT_SIZE(sizeof ramp, hearth_tensor_size(&tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(bind, what_cannot_be_bound)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT, empty = HEARTH_TENSOR_INIT;
    make_u32(io(), ELEMENTS, 1, &tensor);
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "x", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "t", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "none", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "", &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, NULL, &tensor));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "y", NULL));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(run.context, "y", &empty));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(NULL, "y", &tensor));
    struct hearth_context *unplanned = context_of(NULL, CONTEXT_OPTIONS(.flags = 0));
    EXPECT(HEARTH_INVALID, hearth_context_bind_output(unplanned, "y", &tensor));
    EXPECT(HEARTH_OK, hearth_context_destroy(unplanned));
    const void *bound = bind(io(), ELEMENTS);
    EXPECT(HEARTH_BUSY, hearth_context_bind_output(run.context, "y", &tensor));
    EXPECT_SIZE(sizeof ramp, hearth_tensor_size(&tensor));
    (void)run_with(1);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), bound);
    EXPECT(HEARTH_BUSY, hearth_context_bind_output(run.context, "y", &tensor));
    EXPECT(HEARTH_OK, hearth_tensor_reset(&tensor));
}

Test(bind, a_failed_run_keeps_the_binding)
{
    const void *bound = bind(io(), ELEMENTS);
    producer.fail = HEARTH_TIMEOUT;
    (void)run_expecting(&run, HEARTH_TIMEOUT);
    cr_assert(!has_value(run.context, "y"));
    producer.fail = HEARTH_OK;
    (void)run_with(1);
    cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), bound);
}
