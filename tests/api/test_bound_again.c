/* SPDX-License-Identifier: Apache-2.0 */
/* What bound storage becomes when a kernel or a caller does more with it than write.
 * Covered, for storage of every kind: leases that a kernel made of it are never written again; a tensor that
 * looks at its own storage is a value of its own; allocators whose resize moves; exports of all outputs that are
 * refused leave every binding; handlers that change the context while outputs are exported. */
#include "run_support.h"

#include <string.h>

enum kind { IO, EXEC, INLINE, BORROWED, SIMPLE, KINDS };

static struct run run;
static struct hearth_simple *simple;
static uint32_t lent[ELEMENTS];

TestSuite(bound_again, .timeout = 60);

/* Runs are told apart by what they write. */
static uint32_t first;

static void bind(const char *name, enum kind kind, const void **data)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_allocator *const from[KINDS] = {
        [IO] = hearth_io_allocator(run.rig.io),
        [EXEC] = hearth_exec_allocator(exec_of(run.rig.service)),
        [SIMPLE] = hearth_simple_allocator(simple),
    };
    if (kind == BORROWED)
        EXPECT(HEARTH_OK,
               hearth_tensor_borrow(lent, sizeof lent, HEARTH_DTYPE_UINT32, &shape, &tensor));
    else
        make_u32(from[kind], ELEMENTS, 0xDEAD, &tensor);
    *data = hearth_tensor_data(&tensor);
    EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, name, &tensor));
}

static void open_run(struct hearth_plan *plan)
{
    EXPECT(HEARTH_OK, hearth_simple_create(16, &simple));
    run_open(&run, plan);
    first = 100;
}

static void close_run(void)
{
    run_close(&run);
    EXPECT(HEARTH_OK, hearth_simple_destroy(simple));
}

static enum hearth_status write_run(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_tensor *output = NULL;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    for (uint32_t i = 0; i < ELEMENTS; i++)
        ((uint32_t *)hearth_tensor_data(output))[i] = first + i;
    return HEARTH_OK;
}

static struct hearth_run_stats run_next(const char *name)
{
    first += 100;
    struct hearth_run_stats stats = run_once(&run);
    expect_value(run.context, name, ELEMENTS, first, 1);
    return stats;
}

/* In the first run: the output's storage becomes a lease, and the output's again through it. */
static struct hearth_lease lease;

static enum hearth_status export_and_own(struct hearth_context *context, void *user)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    struct hearth_handle handle = HEARTH_HANDLE_INIT;
    EXPECT(HEARTH_OK, write_run(context, user));
    if (hearth_lease_valid(lease))
        return HEARTH_OK;
    struct hearth_tensor *output = hearth_context_output(context, 0);
    EXPECT(HEARTH_OK, hearth_tensor_export(output, run.rig.io, &lease));
    EXPECT(HEARTH_OK, hearth_lease_retain(lease));
    EXPECT(HEARTH_OK, hearth_handle_from_lease(lease, &handle));
    return hearth_tensor_from_handle(&handle, HEARTH_DTYPE_UINT32, &shape, output);
}

Test(bound_again, a_lease_that_the_kernel_made_is_never_written_again)
{
    for (enum kind kind = 0; kind <= INLINE; kind++) {
        for (uint32_t flags = 0; flags <= HEARTH_NODE_SLOT_AWARE; flags++) {
            const void *data = NULL;
            open_run(
                PLAN("", "y", NODE("node", "", "y", .kernel = export_and_own, .flags = flags)));
            bind("y", kind, &data);
            EXPECT_SIZE(0, run_next("y").payload_copies);
            cr_assert_eq(hearth_lease_data(lease), data);
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
            uint32_t exported = first;
            for (unsigned i = 0; i < 4; i++) {
                EXPECT_SIZE(0, run_next("y").payload_copies);
                cr_assert_neq(hearth_tensor_data(value_of(run.context, "y")), data);
                expect_u32(data, hearth_lease_size(lease), ELEMENTS, exported, 1);
            }
            io_drop(lease);
            lease = (struct hearth_lease)HEARTH_LEASE_INIT;
            close_run();
        }
    }
}

/* The kernel keeps the storage for itself, and leaves a tensor that looks at it. */
static struct hearth_handle kept;

static enum hearth_status look_at_own(struct hearth_context *context, void *user)
{
    const struct hearth_shape shape = shape_of(ELEMENTS);
    EXPECT(HEARTH_OK, write_run(context, user));
    struct hearth_tensor *output = hearth_context_output(context, 0);
    void *data = hearth_tensor_data(output);
    hearth_handle_reset(&kept);
    EXPECT(HEARTH_OK, hearth_tensor_release(output, &kept));
    return hearth_tensor_borrow(data, sizeof ramp, HEARTH_DTYPE_UINT32, &shape, output);
}

/* What was kept is overwritten before the value is read. */
static enum hearth_status overwrite(struct hearth_context *context, void *user)
{
    if (hearth_handle_buf(&kept) != NULL)
        fill(hearth_handle_buf(&kept), 0xEE);
    hearth_handle_reset(&kept);
    return copy_op(context, user);
}

Test(bound_again, a_tensor_that_looks_at_its_own_storage_is_copied)
{
    /* y: declared and bound as listed, or declared, or not. */
    for (int kind = -2; kind < KINDS; kind++) {
        const void *data = NULL;
        if (kind == INLINE || kind == BORROWED) /* no handle to keep */
            continue;
        open_run(PLAN("", kind == -2 ? "z" : "y z", NODE("node", "", "y", .kernel = look_at_own),
                      NODE("next", "y", "z", .kernel = overwrite)));
        if (kind >= 0)
            bind("y", (enum kind)kind, &data);
        for (unsigned i = 0; i < 3; i++) {
            struct hearth_run_stats stats = run_next("z");
            if (kind >= -1)
                expect_value(run.context, "y", ELEMENTS, first, 1);
            EXPECT_SIZE(1, stats.payload_copies);
            EXPECT_SIZE(0, stats.migration_copies);
            EXPECT_SIZE(sizeof ramp, stats.copied_bytes);
        }
        hearth_handle_reset(&kept);
        close_run();
    }
}

/* An allocator that gives a buffer other storage whenever its size changes. */
static struct counting moving;

static enum hearth_status resize_and_move(struct hearth_allocator *self, struct hearth_buf *buf,
                                          size_t size, bool keep)
{
    struct hearth_allocator *inner = ((struct counting *)(void *)self)->inner;
    enum hearth_status status = hearth_resize(inner, buf, hearth_buf_capacity(buf) * 4, true);
    return status == HEARTH_OK ? hearth_resize(inner, buf, size, keep) : status;
}

static uint32_t count;

static enum hearth_status write_some(struct hearth_context *context, void *user)
{
    (void)user;
    const struct hearth_shape shape = shape_of(count);
    struct hearth_tensor *output = NULL;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    cr_assert_eq(hearth_tensor_data(output), hearth_buf_data(hearth_handle_buf(&output->handle)));
    EXPECT_SIZE(hearth_buf_capacity(hearth_handle_buf(&output->handle)),
                hearth_tensor_capacity(output));
    for (uint32_t i = 0; i < count; i++)
        ((uint32_t *)hearth_tensor_data(output))[i] = i;
    return HEARTH_OK;
}

Test(bound_again, bound_storage_whose_resize_moves)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        if (kind == INLINE || kind == BORROWED)
            continue;
        open_run(PLAN("", "y", NODE("node", "", "y", .kernel = write_some)));
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        struct hearth_allocator *allocator =
            counting_open(&moving, kind == IO     ? hearth_io_allocator(run.rig.io)
                                   : kind == EXEC ? hearth_exec_allocator(exec_of(run.rig.service))
                                                  : hearth_simple_allocator(simple));
        moving.ops.resize = resize_and_move;
        make_u32(allocator, ELEMENTS, 0, &tensor);
        EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
        static const uint32_t counts[] = {ELEMENTS, 3, 7, 7, 1, ELEMENTS};
        for (unsigned i = 0; i < COUNT_OF(counts); i++) {
            count = counts[i];
            EXPECT_SIZE(0, run_once(&run).payload_copies);
            expect_value(run.context, "y", count, 0, 1);
        }
        EXPECT_SIZE(1, moving.allocs); /* bound to the end */
        EXPECT(HEARTH_OK, hearth_context_clear(run.context));
        EXPECT_SIZE(1, moving.frees);
        close_run();
    }
}

/* Two outputs, a and b; b's storage cannot become a lease. */
Test(bound_again, a_refused_export_of_all_leaves_every_binding)
{
    for (enum kind kind = 0; kind < KINDS; kind++) {
        struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
        const void *data[2];
        open_run(PLAN("", "a b", NODE("node", "", "a", .kernel = write_run),
                      NODE("other", "", "b", .kernel = write_run)));
        bind("a", kind, &data[0]);
        bind("b", SIMPLE, &data[1]);
        for (unsigned i = 0; i < 4; i++) {
            EXPECT_SIZE(0, run_next("a").payload_copies);
            expect_value(run.context, "b", ELEMENTS, first, 1);
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "a")), data[0]);
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "b")), data[1]);
            log_clear(&run.log);
            EXPECT(HEARTH_INVALID,
                   hearth_session_export_outputs(run.session, run.context, leases, 2));
            cr_assert(!hearth_lease_valid(leases[0]) && !hearth_lease_valid(leases[1]));
            EXPECT_SIZE(0, hearth_io_leased_count(run.rig.io));
            EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_COPIED));
            EXPECT_SIZE(0, log_count(&run.log, HEARTH_EVENT_EXPORTED));
            expect_value(run.context, "a", ELEMENTS, first, 1);
        }
        close_run();
    }
}

/* A handler that does what it can to the context while outputs are exported. */
struct meddler {
    struct hearth_event_handler handler;
    unsigned exported;
};

static void meddle(void *user, const struct hearth_event *event)
{
    struct meddler *meddler = user;
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    struct hearth_lease other = HEARTH_LEASE_INIT;
    if (event->kind != HEARTH_EVENT_EXPORTED && event->kind != HEARTH_EVENT_COPIED)
        return;
    meddler->exported += event->kind == HEARTH_EVENT_EXPORTED;
    EXPECT(HEARTH_BUSY, hearth_context_clear(run.context));
    EXPECT(HEARTH_BUSY, hearth_context_destroy(run.context));
    EXPECT(HEARTH_BUSY, hearth_context_remove(run.context, "b"));
    EXPECT(HEARTH_BUSY, hearth_context_take(run.context, "b", &tensor));
    EXPECT(HEARTH_BUSY, hearth_context_export(run.context, "b", &other, NULL));
    EXPECT(HEARTH_BUSY, hearth_session_run(run.session, run.context, NULL));
    EXPECT_SIZE(0, hearth_context_count(run.context));
}

Test(bound_again, a_context_whose_outputs_are_exported_is_busy)
{
    for (enum kind kind = 0; kind <= BORROWED; kind++) {
        struct meddler meddler = {.handler = {meddle, &meddler}};
        struct hearth_lease leases[2] = {HEARTH_LEASE_INIT, HEARTH_LEASE_INIT};
        const void *data = NULL;
        open_run(PLAN("", "a b", NODE("node", "", "a", .kernel = write_run),
                      NODE("other", "", "b", .kernel = write_run)));
        EXPECT(HEARTH_OK, hearth_context_destroy(run.context));
        run.context = context_of(run.plan, CONTEXT_OPTIONS(.events = &meddler.handler));
        bind("a", kind, &data);
        (void)run_next("a");
        EXPECT(HEARTH_OK, hearth_session_export_outputs(run.session, run.context, leases, 2));
        EXPECT_SIZE(2, meddler.exported);
        EXPECT_SIZE(0, hearth_context_count(run.context));
        for (unsigned i = 0; i < 2; i++) {
            expect_u32(hearth_lease_data(leases[i]), hearth_lease_size(leases[i]), ELEMENTS, first,
                       1);
            io_drop(leases[i]);
        }
        bind("a", kind, &data);
        (void)run_next("a");
        io_drop(export_of(run.context, "a"));
        EXPECT_SIZE(3, meddler.exported);
        close_run();
    }
}
