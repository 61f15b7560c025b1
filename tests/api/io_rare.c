/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that are chosen less often: arrivals, handles, trim, settings, misuse, close. */
#include "io_run.h"

/* An execution buffer is born, and moves into the arena where that is allowed. */
bool io_run_take(struct io_run *run)
{
    struct hearth_buf *from = NULL, *buf = NULL;
    size_t size = io_run_number(run, 1 << 16) * 2;
    if (run->model.pieces + 2 > IO_MODEL_PIECES)
        return true;
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_alloc(run->exec, size, &from));
    size_t capacity = hearth_buf_capacity(from);
    const void *data = hearth_buf_data(from);
    io_answers answers = io_model_arrive_answers(&run->model, capacity);
    AGREE(run, hearth_io_can_take(run->io, run->exec), "can_take is false for one backing");
    enum hearth_status status = hearth_io_take(run->io, from, &buf);
    AGREE_ANSWER(run, answers, status);
    AGREE_STATUS(run, status == HEARTH_OK ? HEARTH_STALE : HEARTH_OK,
                 hearth_exec_free(run->exec, from));
    AGREE_STATUS(run, HEARTH_OK, hearth_exec_trim(run->exec, NULL));
    bool full = run->model.pieces >= run->model.slots;
    if (status == HEARTH_OK && io_model_exchanges(&run->model, capacity))
        TRY(io_run_settle(run, IO_BECAUSE_TAKEN, capacity)); /* and trimmed from where it went */
    else
        TRY(io_run_settle(run, full ? IO_BECAUSE_NEED : IO_BECAUSE_NOTHING, 0));
    if (status != HEARTH_OK)
        return true;
    struct io_piece *piece = io_model_arrive(&run->model, size, capacity, 64);
    piece->buf = buf;
    piece->data = data;
    piece->serial = io_ledger_serial(&run->ledger, data);
    AGREE(run, hearth_buf_data(buf) == data, "a take moved the storage");
    AGREE_SIZE(run, size, hearth_buf_size(buf));
    AGREE_SIZE(run, capacity, hearth_buf_capacity(buf));
    io_run_sign(piece);
    return true;
}

static void adopted_release(void *data, size_t size, void *context)
{
    struct io_run_adopted *adopted = context;
    adopted->wrong = adopted->wrong || !data || size != adopted->size || adopted->calls;
    adopted->calls++;
}

bool io_run_adopt(struct io_run *run)
{
    struct io_run_adopted *adopted = run->adopted;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    size_t offset = io_run_number(run, 1000), size = io_run_number(run, 3000);
    while (adopted < run->adopted + IO_RUN_ADOPTED && adopted->used)
        adopted++;
    if (adopted == run->adopted + IO_RUN_ADOPTED || run->model.pieces + 2 > IO_MODEL_PIECES)
        return true;
    io_answers answers = io_model_arrive_answers(&run->model, 0);
    bool full = run->model.pieces >= run->model.slots;
    adopted->size = size;
    enum hearth_status status =
        hearth_io_adopt(run->io, run->outside + offset, size, adopted_release, adopted, &lease);
    AGREE_ANSWER(run, answers, status);
    TRY(io_run_settle(run, full ? IO_BECAUSE_NEED : IO_BECAUSE_NOTHING, 0));
    if (status != HEARTH_OK)
        return true;
    adopted->used = true;
    struct io_piece *piece = io_model_arrive(&run->model, size, 0, 1);
    piece->adopted = true;
    piece->data = run->outside + offset;
    return io_run_now_leased(run, piece, lease);
}

bool io_run_handle(struct io_run *run)
{
    struct hearth_handle handle = HEARTH_HANDLE_INIT, moved = HEARTH_HANDLE_INIT;
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    unsigned bits = io_run_byte(run);
    struct io_piece *piece = io_run_any_piece(run, bits & 1 ? IO_LIVE : IO_LEASED);
    if (!piece)
        return true;
    size_t references = piece->references;
    if (piece->state == IO_LEASED) {
        AGREE_STATUS(run, HEARTH_OK, hearth_handle_from_lease(io_run_lease_of(piece), &handle));
    } else if (bits & 2) {
        AGREE_STATUS(run, HEARTH_OK, hearth_io_export_handle(run->io, piece->buf, &handle));
    } else {
        AGREE_STATUS(run, HEARTH_OK, hearth_handle_from_buf(piece->buf, &handle));
        AGREE_STATUS(run, HEARTH_OK, hearth_io_export_held(run->io, &handle));
    }
    AGREE_STATUS(run, HEARTH_OK, hearth_handle_move(&moved, &handle));
    AGREE(run, hearth_handle_holds_lease(&moved), "the handle owns no lease");
    AGREE(run, hearth_handle_buf(&moved) == piece->buf, "the handle owns another buffer");
    AGREE_STATUS(run, HEARTH_OK, hearth_handle_release_lease(&moved, &lease));
    TRY(io_run_now_leased(run, piece, lease));
    piece->references = references ? references : 1;
    if (bits & 4)
        return true;
    AGREE_STATUS(run, HEARTH_OK, hearth_handle_from_lease(lease, &moved));
    AGREE_STATUS(run, HEARTH_OK, hearth_handle_reset(&moved));
    if (--piece->references)
        return true;
    bool adopted = piece->adopted;
    run->stale[run->stales++ % IO_RUN_STALE] = lease;
    io_model_return(&run->model, piece);
    return io_run_settle(run, adopted ? IO_BECAUSE_NOTHING : IO_BECAUSE_CAP, 0);
}

bool io_run_trim(struct io_run *run)
{
    struct hearth_trim_report report = HEARTH_TRIM_REPORT_INIT;
    struct io_model *model = &run->model;
    size_t retained = io_model_capacity(model, IO_RETAINED), released = 0;
    size_t goal = io_run_number(run, 1 << 16) * 16;
    if (goal % 5 == 0) {
        AGREE_STATUS(run, HEARTH_OK, hearth_io_trim(run->io, &released));
        AGREE_SIZE(run, retained, released);
        return io_run_settle(run, IO_BECAUSE_TRIM, 0);
    }
    AGREE_STATUS(run, HEARTH_OK, hearth_io_trim_ex(run->io, goal, 0, &report));
    TRY(io_run_settle(run, IO_BECAUSE_GOAL, goal));
    size_t left = io_model_capacity(model, IO_RETAINED);
    AGREE_SIZE(run, retained - left, report.released_bytes);
    AGREE_SIZE(run, retained - left, report.released_io_bytes);
    AGREE_SIZE(run, io_model_capacity(model, IO_LIVE), report.kept_live);
    AGREE_SIZE(run, io_model_capacity(model, IO_LEASED), report.kept_leased);
    AGREE_SIZE(run, left, report.kept_unreached + report.kept_busy);
    AGREE_SIZE(run, 0, report.released_exec_bytes + report.kept_pending + report.kept_lost);
    return true;
}

bool io_run_cap(struct io_run *run)
{
    static const size_t units[] = {64, 1, 256, 4096};
    size_t kind = io_run_byte(run);
    size_t cap = kind < 64 ? HEARTH_UNBOUNDED : io_run_number(run, 1 << 10) * units[kind % 4];
    AGREE_STATUS(run, HEARTH_OK, hearth_io_set_retention_cap(run->io, cap));
    run->model.cap = cap;
    return io_run_settle(run, IO_BECAUSE_LOWERED, 0);
}

bool io_run_reset_peak(struct io_run *run)
{
    AGREE_STATUS(run, HEARTH_OK, hearth_io_reset_peak(run->io));
    run->model.peak = hearth_io_live_bytes(run->io);
    return true;
}

static bool in_use(const struct io_model *model, const struct hearth_buf *buf)
{
    for (size_t i = 0; i < model->pieces; i++) {
        if (model->piece[i].buf == buf && model->piece[i].state != IO_RETAINED)
            return true;
    }
    return false;
}

bool io_run_misuse(struct io_run *run)
{
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    struct io_piece *piece = io_run_any_piece(run, IO_LEASED);
    uint64_t misuses = hearth_misuse_count();
    TRY(io_run_check_stale(run));
    AGREE_STATUS(run, HEARTH_FOREIGN, hearth_lease_release(lease));
    AGREE_STATUS(run, HEARTH_FOREIGN, hearth_io_free(run->io, NULL));
    if (piece) {
        struct hearth_buf *inside =
            (struct hearth_buf *)(uintptr_t)((char *)piece->buf + 1 + io_run_number(run, 63));
        AGREE_STATUS(run, HEARTH_LEASED, hearth_io_free(run->io, piece->buf));
        AGREE_STATUS(run, HEARTH_LEASED, hearth_io_export(run->io, piece->buf, &lease));
        AGREE_STATUS(run, HEARTH_LEASED, hearth_buf_resize(piece->buf, 1));
        AGREE_STATUS(run, HEARTH_FOREIGN, hearth_io_free(run->io, inside));
        AGREE_STATUS(run, HEARTH_FOREIGN,
                     hearth_lease_release((struct hearth_lease){inside, piece->generation}));
    }
    if (run->stales) {
        struct hearth_buf *buf = run->stale[(run->stales - 1) % IO_RUN_STALE].buf;
        if (!in_use(&run->model, buf)) {
            AGREE_STATUS(run, HEARTH_STALE, hearth_io_free(run->io, buf));
            AGREE_STATUS(run, HEARTH_STALE, hearth_io_export(run->io, buf, &lease));
            AGREE_STATUS(run, HEARTH_STALE, hearth_buf_resize(buf, 1));
        }
    }
    AGREE(run, hearth_misuse_count() >= misuses + 2, "misuses were not counted");
    return true;
}

bool io_run_close(struct io_run *run)
{
    if (io_run_byte(run) > 3)
        return true;
    AGREE_STATUS(run, run->model.closed ? HEARTH_CLOSED : HEARTH_OK, hearth_io_close(run->io));
    run->model.closed = true;
    return io_run_settle(run, IO_BECAUSE_NEED, 0);
}
