/* SPDX-License-Identifier: Apache-2.0 */
#include "io_run.h"

#include <string.h>

/* Sizes around the steps of classes, mostly small; sometimes impossible ones. */
static size_t any_size(struct io_run *run)
{
    unsigned kind = io_run_byte(run);
    size_t number = io_run_number(run, 1 << 16);
    if (kind == 255)
        return SIZE_MAX - number % 64;
    if (kind == 254)
        return run->ledger.limit + number;
    size_t most = (size_t)64 << kind % 15;
    return kind & 128 ? most - number % 3 : (most * number) >> 16;
}

struct io_piece *io_run_any_piece(struct io_run *run, enum io_state state)
{
    size_t count = io_model_count(&run->model, state), i = 0;
    if (!count)
        return NULL;
    for (size_t skip = io_run_number(run, count); run->model.piece[i].state != state || skip--; i++)
        ;
    return &run->model.piece[i];
}

/* What the backing got back since the model last looked. */
void io_run_mark_gone(struct io_run *run)
{
    struct io_model *model = &run->model;
    for (struct io_piece *it = model->piece; it < model->piece + model->pieces; it++)
        it->gone = !it->adopted && io_ledger_serial(&run->ledger, it->data) != it->serial;
}

bool io_run_settle(struct io_run *run, enum io_reason reason, size_t goal)
{
    io_run_mark_gone(run);
    for (size_t i = 0; i < run->model.pieces; i++)
        AGREE(run, !run->model.piece[i].gone || run->model.piece[i].state == IO_RETAINED,
              "storage in use was given back");
    AGREE_RULE(run, io_model_settle(&run->model, reason, goal));
    return true;
}

/* A word at both ends of the payload that names the storage. */
void io_run_sign(const struct io_piece *piece)
{
    unsigned char *data = (unsigned char *)(uintptr_t)piece->data;
    if (!piece->adopted && piece->size >= 2 * sizeof piece->serial) {
        memcpy(data, &piece->serial, sizeof piece->serial);
        memcpy(data + piece->size - sizeof piece->serial, &piece->serial, sizeof piece->serial);
    }
}

static bool check_sign(struct io_run *run, const struct io_piece *piece)
{
    const unsigned char *data = piece->data;
    size_t word = sizeof piece->serial;
    if (piece->adopted || piece->size < 2 * word)
        return true;
    AGREE(run, !memcmp(data, &piece->serial, word), "the content was overwritten");
    AGREE(run, !memcmp(data + piece->size - word, &piece->serial, word),
          "the end of the content was overwritten");
    return true;
}

struct hearth_lease io_run_lease_of(const struct io_piece *piece)
{
    return (struct hearth_lease){piece->buf, piece->generation};
}

bool io_run_now_leased(struct io_run *run, struct io_piece *piece, struct hearth_lease lease)
{
    piece->state = IO_LEASED;
    piece->references = 1;
    piece->generation = lease.generation;
    piece->buf = lease.buf;
    AGREE(run, hearth_lease_valid(lease), "a fresh lease is not valid");
    AGREE(run, hearth_lease_buf(lease) == lease.buf, "a lease names another buffer");
    AGREE(run, hearth_lease_data(lease) == piece->data, "a lease has another start");
    AGREE_SIZE(run, piece->size, hearth_lease_size(lease));
    return true;
}

static bool check_zero(struct io_run *run, const void *data, size_t size)
{
    static const unsigned char zeros[4096];
    for (size_t at = 0; at < size; at += sizeof zeros) {
        size_t part = size - at < sizeof zeros ? size - at : sizeof zeros;
        AGREE(run, !memcmp((const char *)data + at, zeros, part), "not zero as requested");
    }
    return true;
}

static bool do_obtain(struct io_run *run, bool lease)
{
    static const size_t alignments[] = {0, 0, 0, 0, 64, 128, 4096, 65536};
    unsigned bits = io_run_byte(run);
    struct hearth_request request = {.size = any_size(run), .alignment = alignments[bits % 8]};
    request.zero = bits >= 250;
    size_t alignment = request.alignment < 64 ? 64 : request.alignment;
    if (io_model_count(&run->model, IO_LIVE) + io_model_count(&run->model, IO_LEASED) >
            IO_RUN_LIVE_MOST ||
        run->model.pieces + 2 > IO_MODEL_PIECES)
        return true;
    io_answers answers = io_model_alloc_answers(&run->model, request.size, alignment);
    run->ledger.refuse = bits == 249;
    if (request.size >= run->ledger.limit || run->ledger.refuse)
        answers |= IO_ANSWER(HEARTH_NO_MEMORY);
    struct hearth_lease leased = HEARTH_LEASE_INIT;
    struct hearth_buf *buf = NULL;
    bool plain = request.alignment == 0 && !request.zero;
    enum hearth_status status = lease   ? plain ? hearth_io_lease(run->io, request.size, &leased)
                                                : hearth_io_lease_ex(run->io, &request, &leased)
                                  : plain ? hearth_io_alloc(run->io, request.size, &buf)
                                        : hearth_io_alloc_ex(run->io, &request, &buf);
    run->ledger.refuse = false;
    AGREE_ANSWER(run, answers, status);
    if (status != HEARTH_OK)
        return io_run_settle(run, status == HEARTH_NO_MEMORY ? IO_BECAUSE_NEED : IO_BECAUSE_NOTHING,
                             0);
    buf = lease ? leased.buf : buf;
    const void *data = hearth_buf_data(buf);
    AGREE(run, (uintptr_t)data % alignment == 0, "not aligned to %zu", alignment);
    AGREE_SIZE(run, request.size, hearth_buf_size(buf));
    uint64_t serial = io_ledger_serial(&run->ledger, data);
    AGREE(run, serial, "storage that the backing did not lend");
    io_run_mark_gone(run);
    struct io_piece *piece = NULL;
    AGREE_RULE(run, io_model_alloc(&run->model, request.size, alignment, data, serial, &piece));
    AGREE_SIZE(run, piece->capacity, hearth_buf_capacity(buf));
    piece->buf = buf;
    if (request.zero)
        TRY(check_zero(run, data, request.size));
    io_run_sign(piece);
    return !lease || io_run_now_leased(run, piece, leased);
}

bool io_run_check_stale(struct io_run *run)
{
    for (size_t i = 0; i < IO_RUN_STALE && i < run->stales; i++) {
        struct hearth_lease lease = run->stale[i];
        struct hearth_handle handle = HEARTH_HANDLE_INIT;
        struct hearth_view view;
        AGREE_STATUS(run, HEARTH_STALE, hearth_lease_retain(lease));
        AGREE_STATUS(run, HEARTH_STALE, hearth_lease_release(lease));
        AGREE_STATUS(run, HEARTH_STALE, hearth_lease_view(lease, 0, 0, &view));
        AGREE_STATUS(run, HEARTH_STALE, hearth_handle_from_lease(lease, &handle));
        AGREE(run,
              !hearth_lease_valid(lease) && !hearth_lease_data(lease) && !hearth_lease_buf(lease) &&
                  !hearth_lease_size(lease),
              "a stale lease answers questions");
    }
    return true;
}

bool io_run_return(struct io_run *run, struct io_piece *piece)
{
    struct hearth_lease lease = io_run_lease_of(piece);
    bool leased = piece->state == IO_LEASED, adopted = piece->adopted;
    TRY(check_sign(run, piece));
    if (!leased) {
        lease.generation = hearth_buf_generation(piece->buf);
        AGREE_STATUS(run, HEARTH_OK, hearth_io_free(run->io, piece->buf));
    } else {
        AGREE_STATUS(run, HEARTH_OK, hearth_lease_release(lease));
        if (--piece->references)
            return true;
    }
    run->stale[run->stales++ % IO_RUN_STALE] = lease;
    io_model_return(&run->model, piece);
    return io_run_settle(run, adopted ? IO_BECAUSE_NOTHING : IO_BECAUSE_CAP, 0);
}

static bool do_return(struct io_run *run, enum io_state state)
{
    struct io_piece *piece = io_run_any_piece(run, state);
    return !piece || io_run_return(run, piece);
}

/* Interfaces that keep nothing but the data pointer. */
static bool do_deleter(struct io_run *run)
{
    struct io_piece *piece = io_run_any_piece(run, IO_LEASED);
    uint64_t misuses = hearth_misuse_count();
    if (!piece)
        return true;
    if (piece->adopted) {
        hearth_lease_deleter((void *)(uintptr_t)piece->data);
        AGREE_SIZE(run, misuses + 1, hearth_misuse_count());
        return true;
    }
    if (piece->references == 1) {
        AGREE_STATUS(run, HEARTH_OK, hearth_lease_retain(io_run_lease_of(piece)));
        piece->references++;
    }
    hearth_lease_deleter((void *)(uintptr_t)piece->data);
    AGREE_SIZE(run, misuses, hearth_misuse_count());
    piece->references--;
    return true;
}

static bool do_export(struct io_run *run)
{
    struct io_piece *piece = io_run_any_piece(run, IO_LIVE);
    struct hearth_lease lease = HEARTH_LEASE_INIT;
    if (!piece)
        return true;
    AGREE_STATUS(run, HEARTH_OK, hearth_io_export(run->io, piece->buf, &lease));
    AGREE(run, lease.buf == piece->buf, "an export changes the buffer");
    return io_run_now_leased(run, piece, lease);
}

static bool do_retain(struct io_run *run)
{
    struct io_piece *piece = io_run_any_piece(run, IO_LEASED);
    struct hearth_view view = {.size = 0};
    if (!piece)
        return true;
    size_t offset = io_run_number(run, 1 << 16), size = io_run_number(run, 1 << 16);
    if (offset % 2) {
        AGREE_STATUS(run, HEARTH_OK, hearth_lease_retain(io_run_lease_of(piece)));
        piece->references++;
        return true;
    }
    bool inside = offset <= piece->size && size <= piece->size - offset;
    AGREE_STATUS(run, inside ? HEARTH_OK : HEARTH_INVALID,
                 hearth_lease_view(io_run_lease_of(piece), offset, size, &view));
    if (!inside)
        return true;
    piece->references++;
    AGREE(run, view.data == (const char *)piece->data + offset && view.size == size,
          "a view of another part");
    return true;
}

static bool do_resize(struct io_run *run)
{
    struct io_piece *piece = io_run_any_piece(run, IO_LIVE);
    size_t size = any_size(run);
    if (!piece || run->model.pieces + 2 > IO_MODEL_PIECES)
        return true;
    bool keep = size % 2, grows = size > piece->capacity;
    size_t before = piece->size;
    struct hearth_buf *buf = piece->buf;
    uint64_t old = piece->serial;
    enum hearth_status status =
        keep ? hearth_buf_resize_keep(buf, size) : hearth_buf_resize(buf, size);
    io_answers answers = IO_ANSWER(size > SIZE_MAX / 2         ? HEARTH_OVERFLOW
                                   : size >= run->ledger.limit ? HEARTH_NO_MEMORY
                                                               : HEARTH_OK);
    if (grows && run->model.live_limit != HEARTH_UNBOUNDED)
        answers |= IO_ANSWER(HEARTH_NO_MEMORY); /* for a moment both storages may count */
    if (grows && run->model.closed)
        answers = IO_ANSWER(HEARTH_CLOSED) | (answers & IO_ANSWER(HEARTH_OVERFLOW));
    AGREE_ANSWER(run, answers, status);
    if (status != HEARTH_OK)
        return io_run_settle(run, status == HEARTH_NO_MEMORY ? IO_BECAUSE_NEED : IO_BECAUSE_NOTHING,
                             0);
    const void *data = hearth_buf_data(buf);
    if (keep && before >= 2 * sizeof old && size >= before)
        AGREE(run, !memcmp(data, &old, sizeof old), "the content was not kept");
    io_run_mark_gone(run);
    AGREE_RULE(
        run, io_model_resize(&run->model, piece, size, data, io_ledger_serial(&run->ledger, data)));
    for (piece = run->model.piece; piece->buf != buf || piece->state != IO_LIVE; piece++)
        ;
    AGREE_SIZE(run, size, hearth_buf_size(buf));
    AGREE_SIZE(run, piece->capacity, hearth_buf_capacity(buf));
    io_run_sign(piece);
    return true;
}

bool io_run_operate(struct io_run *run)
{
    unsigned operation = io_run_byte(run) % 64;
#define CHOOSE(limit, call)                                                                        \
    if (operation < (limit)) {                                                                     \
        run->what = #call;                                                                         \
        return call;                                                                               \
    }
    CHOOSE(12, do_obtain(run, false))
    CHOOSE(22, do_obtain(run, true))
    CHOOSE(30, do_return(run, IO_LIVE))
    CHOOSE(42, do_return(run, IO_LEASED))
    CHOOSE(46, do_export(run))
    CHOOSE(49, do_retain(run))
    CHOOSE(53, do_resize(run))
    CHOOSE(54, do_deleter(run))
    CHOOSE(56, io_run_take(run))
    CHOOSE(57, io_run_adopt(run))
    CHOOSE(59, io_run_handle(run))
    CHOOSE(60, io_run_trim(run))
    CHOOSE(61, io_run_cap(run))
    CHOOSE(62, io_run_reset_peak(run))
    CHOOSE(63, io_run_misuse(run))
    run->what = "io_run_close(run)";
    return io_run_close(run);
#undef CHOOSE
}
