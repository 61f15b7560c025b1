/* SPDX-License-Identifier: Apache-2.0 */
/* Peaks follow what kernels do to their outputs.
 * Covered: outputs that are reshaped, up and down, by nodes before others; outputs made several times, or after they
 * left; workspaces as asked; bound outputs count with their role and are not prefilled; the bytes in events. */
#include "run_support.h"

#include <string.h>

static struct run run;

TestSuite(output_peaks, .timeout = 60);

/* Makes `made` elements, and reshapes to `left`. */
struct reshape {
    uint32_t made, left;
};

static enum hearth_status reshape(struct hearth_context *context, void *user)
{
    const struct reshape *to = user;
    const struct hearth_shape shape = shape_of(to->made), after = shape_of(to->left);
    struct hearth_tensor *output = NULL;
    EXPECT(HEARTH_OK, hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
    EXPECT(HEARTH_OK, hearth_tensor_reshape(output, &after));
    memset(hearth_tensor_data(output), 0, hearth_tensor_size(output));
    return HEARTH_OK;
}

static uint64_t bytes_about(enum hearth_event_kind kind, const char *value)
{
    for (size_t i = 0; i < run.log.count; i++)
        if (run.log.events[i].kind == kind && strcmp(run.log.events[i].value, value) == 0)
            return run.log.events[i].bytes;
    cr_assert_fail("no such event");
    return 0;
}

/* a, b = f(a), c = f(a, b): all of them live at the end of c. */
static void expect_peaks(struct reshape a, struct reshape b, size_t execution)
{
    struct reshape c = {1, 1};
    run_open(&run, PLAN("", "c", NODE("a", "", "a", .kernel = reshape, .user = &a),
                        NODE("b", "a", "b", .kernel = reshape, .user = &b),
                        NODE("c", "a b", "c", .kernel = reshape, .user = &c)));
    for (unsigned i = 0; i < 3; i++) {
        log_clear(&run.log);
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(execution, stats.execution_peak_bytes);
        EXPECT_SIZE(4, stats.io_peak_bytes);
        EXPECT_SIZE(4 * a.left, bytes_about(HEARTH_EVENT_RELEASED, "a"));
        EXPECT_SIZE(4 * b.left, bytes_about(HEARTH_EVENT_RELEASED, "b"));
        EXPECT_SIZE(0, run.log.events[run.log.count - 1].execution_live);
        EXPECT_SIZE(4, run.log.events[run.log.count - 1].io_live);
    }
    run_close(&run);
}

Test(output_peaks, outputs_that_are_reshaped)
{
    expect_peaks((struct reshape){1024, 1024}, (struct reshape){1024, 1024}, 8192);
    expect_peaks((struct reshape){1024, 1}, (struct reshape){1024, 1}, 4100);
    expect_peaks((struct reshape){1024, 1}, (struct reshape){1, 1}, 4096);
    expect_peaks((struct reshape){1024, 0}, (struct reshape){1025, 0}, 4100);
    /* Up, within the capacity of its class: 5120. */
    expect_peaks((struct reshape){1025, 1280}, (struct reshape){1, 1}, 5124);
    expect_peaks((struct reshape){1025, 1280}, (struct reshape){1025, 1280}, 10240);
    expect_peaks((struct reshape){1025, 1024}, (struct reshape){1025, 1280}, 4096 + 5120);
}

/* The declared output is reshaped. */
Test(output_peaks, declared_outputs_that_are_reshaped)
{
    static const struct {
        struct reshape to;
        size_t peak;
    } cases[] = {{{1024, 1}, 4096}, {{1025, 1280}, 5120}, {{1024, 1024}, 4096}, {{16, 0}, 64}};
    for (unsigned i = 0; i < COUNT_OF(cases); i++) {
        struct reshape to = cases[i].to;
        run_open(&run, PLAN("", "y", NODE("y", "", "y", .kernel = reshape, .user = &to)));
        for (unsigned j = 0; j < 3; j++) {
            struct hearth_run_stats stats = run_once(&run);
            EXPECT_SIZE(cases[i].peak, stats.io_peak_bytes);
            EXPECT_SIZE(0, stats.execution_peak_bytes);
            expect_value(run.context, "y", to.left, 0, 0);
        }
        run_close(&run);
    }
}

/* Makes its output over and over, each time a larger or a smaller one. */
static enum hearth_status make_often(struct hearth_context *context, void *user)
{
    const uint32_t *counts = user;
    struct hearth_tensor *output = NULL;
    for (unsigned i = 0; counts[i] != 0; i++) {
        const struct hearth_shape shape = shape_of(counts[i]);
        EXPECT(HEARTH_OK,
               hearth_context_make_output(context, 0, HEARTH_DTYPE_UINT32, &shape, &output));
        memset(hearth_tensor_data(output), 0, hearth_tensor_size(output));
    }
    return HEARTH_OK;
}

Test(output_peaks, outputs_that_are_made_again)
{
    static uint32_t counts[] = {16, 1000, 1, 500, 16, 0};
    for (unsigned declared = 0; declared < 2; declared++) {
        run_open(&run, PLAN("", declared ? "y z" : "z",
                            NODE("often", "", "y", .kernel = make_often, .user = counts),
                            NODE("copy", "y", "z", .kernel = copy_op)));
        for (unsigned i = 0; i < 3; i++) {
            struct hearth_run_stats stats = run_once(&run);
            EXPECT_SIZE(declared ? 0 : 4000, stats.execution_peak_bytes);
            EXPECT_SIZE(declared ? 4000 : 64, stats.io_peak_bytes);
            EXPECT_SIZE(6, stats.tensors);
            EXPECT_SIZE(0, stats.payload_copies);
            expect_value(run.context, "z", 16, 0, 0);
        }
        run_close(&run);
    }
}

/* As asked, whatever the kernel makes of it. */
static enum hearth_status grow_workspace(struct hearth_context *context, void *user)
{
    struct hearth_buf *buf = NULL, *other = NULL;
    EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 1000, &buf));
    EXPECT(HEARTH_OK, hearth_buf_resize(buf, MIB));
    fill(buf, 1);
    EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 100, &other));
    EXPECT(HEARTH_OK, hearth_buf_resize(other, 1));
    EXPECT(HEARTH_OK, hearth_context_free_temporary(context, buf));
    EXPECT(HEARTH_FOREIGN, hearth_context_free_temporary(context, buf));
    EXPECT(HEARTH_OK, hearth_context_make_temporary(context, 500, &buf));
    return run_op(context, user);
}

Test(output_peaks, workspaces_count_as_asked)
{
    run_open(&run, PLAN("x", "y", NODE("node", "x", "y", .kernel = grow_workspace)));
    lend_ramp(run.context, "x");
    for (unsigned i = 0; i < 3; i++) {
        log_clear(&run.log);
        struct hearth_run_stats stats = run_once(&run);
        EXPECT_SIZE(1100, stats.execution_peak_bytes);
        EXPECT_SIZE(3, stats.temporaries);
        EXPECT_SIZE(0, run.log.events[run.log.count - 1].execution_live);
    }
    run_close(&run);
}

/* With their role, whoever owns the storage. */
Test(output_peaks, bound_outputs_count)
{
    static uint32_t memory[64];
    for (unsigned kind = 0; kind < 4; kind++) {
        struct reshape to = {16, 8};
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        const struct hearth_shape shape = shape_of(64);
        run_open(&run, PLAN("", "y", NODE("y", "", "y", .kernel = reshape, .user = &to)));
        struct hearth_allocator *allocators[] = {NULL, hearth_io_allocator(run.rig.io),
                                                 hearth_exec_allocator(exec_of(run.rig.service))};
        if (kind == 3)
            EXPECT(HEARTH_OK, hearth_tensor_borrow(memory, sizeof memory, HEARTH_DTYPE_UINT32,
                                                   &shape, &tensor));
        else
            make_u32(allocators[kind], 64, 0, &tensor);
        EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
        for (unsigned i = 0; i < 3; i++) {
            struct hearth_run_stats stats = run_once(&run);
            EXPECT_SIZE(64, stats.io_peak_bytes);
            EXPECT_SIZE(0, stats.execution_peak_bytes);
            expect_value(run.context, "y", 8, 0, 0);
        }
        EXPECT(HEARTH_OK, hearth_context_clear(run.context));
        /* No run needed the I/O arena for it. */
        size_t retained = hearth_io_retained_bytes(run.rig.io);
        EXPECT(HEARTH_OK, hearth_session_prefill(run.session, NULL, 0, NULL));
        EXPECT_SIZE(retained, hearth_io_retained_bytes(run.rig.io));
        run_close(&run);
    }
}

/* A finished tensor put into an output that is bound elsewhere: the copy is a migration, unless it is borrowed. */
static enum hearth_status put(struct hearth_context *context, void *user)
{
    struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
    const struct hearth_shape shape = shape_of(ELEMENTS);
    if (user != NULL)
        EXPECT(HEARTH_OK,
               hearth_tensor_borrow(user, sizeof ramp, HEARTH_DTYPE_UINT32, &shape, &tensor));
    else
        make_u32(hearth_context_io_allocator(context), ELEMENTS, 3, &tensor);
    return hearth_context_put_output(context, 0, &tensor);
}

Test(output_peaks, copies_into_bound_storage)
{
    static uint32_t threes[ELEMENTS] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3};
    for (unsigned borrowed = 0; borrowed < 2; borrowed++) {
        struct hearth_tensor tensor = HEARTH_TENSOR_INIT;
        run_open(&run, PLAN("", "y",
                            NODE("put", "", "y", .kernel = put, .user = borrowed ? threes : NULL)));
        make_u32(hearth_io_allocator(run.rig.io), 100, 0, &tensor);
        const void *data = hearth_tensor_data(&tensor);
        EXPECT(HEARTH_OK, hearth_context_bind_output(run.context, "y", &tensor));
        for (unsigned i = 0; i < 3; i++) {
            log_clear(&run.log);
            struct hearth_run_stats stats = run_once(&run);
            EXPECT_SIZE(1, stats.payload_copies);
            EXPECT_SIZE(!borrowed, stats.migration_copies);
            EXPECT_SIZE(0, stats.staged_copies);
            EXPECT_SIZE(64, stats.copied_bytes);
            EXPECT_SIZE(1, log_about(&run.log, HEARTH_EVENT_COPIED, "y"));
            expect_value(run.context, "y", ELEMENTS, 3, 0);
            cr_assert_eq(hearth_tensor_data(value_of(run.context, "y")), data);
        }
        run_close(&run);
    }
}
