/* SPDX-License-Identifier: Apache-2.0 */
#include "io_driver.h"

#include "io_run.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void io_driver_random(uint64_t *state, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *state += 0x9E3779B97F4A7C15u;
        uint64_t word = *state;
        word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9u;
        word = (word ^ word >> 27) * 0x94D049BB133111EBu;
        bytes[i] = (uint8_t)(word >> 56);
    }
}

bool io_run_wrong(struct io_run *run, const char *format, ...)
{
    va_list arguments;
    int used =
        snprintf(run->message, run->message_bytes, "operation %zu (%s): ", run->step, run->what);
    va_start(arguments, format);
    if (used > 0 && (size_t)used < run->message_bytes)
        vsnprintf(run->message + used, run->message_bytes - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

unsigned io_run_byte(struct io_run *run)
{
    return run->bytes < run->end ? *run->bytes++ : 0;
}

size_t io_run_number(struct io_run *run, size_t below)
{
    size_t high = io_run_byte(run);
    return (high << 8 | io_run_byte(run)) % below;
}

static bool compare(struct io_run *run)
{
    const struct io_model *model = &run->model;
    const struct hearth_io *io = run->io;
    size_t owned = io_model_count(model, IO_LIVE), leased = io_model_count(model, IO_LEASED);
    size_t leased_bytes = io_model_size(model, IO_LEASED);
    size_t capacity = io_model_capacity(model, IO_LIVE) + io_model_capacity(model, IO_LEASED);
    size_t retained = io_model_capacity(model, IO_RETAINED);
    AGREE_SIZE(run, owned + leased, hearth_io_live_count(io));
    AGREE_SIZE(run, owned, hearth_io_owned_count(io));
    AGREE_SIZE(run, leased, hearth_io_leased_count(io));
    AGREE_SIZE(run, io_model_size(model, IO_LIVE) + leased_bytes, hearth_io_live_bytes(io));
    AGREE_SIZE(run, leased_bytes, hearth_io_leased_bytes(io));
    AGREE_SIZE(run, capacity, hearth_io_live_capacity(io));
    AGREE_SIZE(run, model->peak, hearth_io_peak_bytes(io));
    AGREE_SIZE(run, io_model_count(model, IO_RETAINED), hearth_io_retained_count(io));
    AGREE_SIZE(run, retained, hearth_io_retained_bytes(io));
    AGREE_SIZE(run, 0, hearth_io_pending_count(io));
    AGREE_SIZE(run, 0, hearth_io_pending_bytes(io));
    AGREE_SIZE(run, capacity + retained, hearth_io_footprint(io));
    AGREE_SIZE(run, model->cap, hearth_io_retention_cap(io));
    AGREE_SIZE(run, model->slots, hearth_io_slots(io));
    AGREE_SIZE(run, run->ledger.bytes - hearth_exec_footprint(run->exec), capacity + retained);
    AGREE(run, capacity <= model->live_limit, "live_limit was passed");
    for (size_t i = 0; i < IO_RUN_ADOPTED; i++)
        AGREE(run, !run->adopted[i].wrong, "an adopted release got other arguments or came twice");
    return true;
}

static bool begin(struct io_run *run)
{
    static const size_t slots[] = {0, 0, 0, 12};
    static const size_t caps[] = {0, 100000, 0, 1000000, 3000, 1, 300000, 0};
    static const uint32_t ratios[] = {0, 0, 1, 2, 16, 3, 0, 1024};
    static const size_t limits[] = {0, 0, 0, (size_t)1 << 20};
    unsigned a = io_run_byte(run), b = io_run_byte(run);
    struct hearth_io_options options = HEARTH_IO_OPTIONS_INIT;
    struct hearth_exec_options exec = HEARTH_EXEC_OPTIONS_INIT;
    run->what = "create";
    AGREE_STATUS(run, HEARTH_OK, io_ledger_init(&run->ledger, (size_t)16 << 20));
    options.slots = slots[a % 4];
    options.live_limit = limits[a / 4 % 4];
    options.retention_cap = caps[b % 8];
    options.reuse_ratio = ratios[b / 8 % 8];
    options.backing = exec.backing = run->ledger.backing;
    io_model_init(&run->model, options.slots, options.retention_cap, options.reuse_ratio,
                  options.live_limit);
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_create(&exec, &run->exec));
    AGREE_STATUS(run, HEARTH_OK, hearth_io_create(&options, &run->io));
    return true;
}

static struct io_piece *outstanding(struct io_model *model)
{
    for (size_t i = 0; i < model->pieces; i++) {
        if (model->piece[i].state != IO_RETAINED)
            return &model->piece[i];
    }
    return NULL;
}

/* Destroy, BUSY first when something is out; or the last reference first and the returns afterwards. */
static bool finish(struct io_run *run)
{
    bool orphaned = io_run_byte(run) % 2;
    struct io_piece *piece = outstanding(&run->model);
    run->what = "end";
    if (orphaned) {
        run->model.closed = true;
        hearth_io_unref(run->io);
    } else if (piece) {
        AGREE_STATUS(run, HEARTH_BUSY, hearth_io_destroy(run->io));
        TRY(compare(run));
    }
    while ((piece = outstanding(&run->model)) != NULL)
        TRY(io_run_return(run, piece));
    if (!orphaned) {
        TRY(compare(run));
        AGREE_STATUS(run, HEARTH_OK, hearth_io_destroy(run->io));
    }
    run->io = NULL;
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_destroy(run->exec));
    AGREE(run, io_ledger_fini(&run->ledger), "%zu bytes were not given back", run->ledger.bytes);
    for (size_t i = 0; i < IO_RUN_ADOPTED; i++)
        AGREE(run, run->adopted[i].calls == run->adopted[i].used && !run->adopted[i].wrong,
              "an adopted release was called %u times", run->adopted[i].calls);
    return io_run_check_stale(run);
}

static void quiet(void *context, const struct hearth_misuse *misuse)
{
    (void)context;
    (void)misuse;
}

bool io_driver_run(const uint8_t *bytes, size_t count, char *message, size_t message_bytes)
{
    static const struct hearth_misuse_handler handler = {quiet, NULL};
    (void)hearth_misuse_set_handler(&handler);
    struct io_run *run = calloc(1, sizeof *run);
    if (!run)
        return false;
    run->bytes = bytes;
    run->end = bytes + count;
    run->message = message;
    run->message_bytes = message_bytes;
    bool right = begin(run);
    while (right && run->bytes < run->end) {
        right = io_run_operate(run) && compare(run);
        run->step++;
    }
    right = right && finish(run);
    if (right)
        free(run); /* else the arenas still use its backing */
    return right;
}
