/* SPDX-License-Identifier: Apache-2.0 */
#include "io_model.h"

#include <hearth/exec.h>

#define LARGE ((size_t)64 << 10) /* from here on reuse is last in, first out */

void io_model_init(struct io_model *model, size_t slots, size_t cap, size_t ratio,
                   size_t live_limit)
{
    *model = (struct io_model){.slots = slots ? slots : (size_t)1 << 20,
                               .cap = cap ? cap : HEARTH_UNBOUNDED,
                               .ratio = ratio ? ratio : HEARTH_REUSE_RATIO_DEFAULT,
                               .live_limit = live_limit ? live_limit : HEARTH_UNBOUNDED};
}

#define SUM(name, amount)                                                                          \
    size_t io_model_##name(const struct io_model *model, enum io_state state)                      \
    {                                                                                              \
        size_t sum = 0;                                                                            \
        for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++)    \
            sum += it->state == state ? (amount) : 0;                                              \
        return sum;                                                                                \
    }
SUM(count, 1)
SUM(capacity, it->capacity)
SUM(size, it->size)
#undef SUM

static size_t live_bytes(const struct io_model *model)
{
    return io_model_size(model, IO_LIVE) + io_model_size(model, IO_LEASED);
}

static size_t live_capacity(const struct io_model *model)
{
    return io_model_capacity(model, IO_LIVE) + io_model_capacity(model, IO_LEASED);
}

void io_model_note_peak(struct io_model *model)
{
    size_t bytes = live_bytes(model);
    model->peak = bytes > model->peak ? bytes : model->peak;
}

/* 64, 128, 192, 256, then four per doubling. Up to a page an alignment rounds its size; beyond it a buffer
 * has at least 16 KiB, and whole pages. */
size_t io_model_rounded(size_t size, size_t alignment)
{
    if (alignment > 4096 && size < (size_t)16 << 10)
        size = (size_t)16 << 10;
    size_t unit = alignment < 4096 ? alignment : 4096;
    if (unit > 64)
        size = ((size ? size : 1) + unit - 1) / unit * unit;
    size_t step = 64, limit = 256;
    while (size > limit) {
        step = limit / 4;
        limit *= 2;
    }
    size_t rounded = (size + step - 1) / step * step;
    return rounded ? rounded : 64;
}

static void drop(struct io_model *model, struct io_piece *piece)
{
    *piece = model->piece[--model->pieces];
}

/* Whether `a` is to serve before `b`: smaller; among equals returned later, where that is promised. */
static bool before(const struct io_piece *a, const struct io_piece *b)
{
    if (a->capacity != b->capacity)
        return a->capacity < b->capacity;
    return a->capacity >= LARGE && a->returned > b->returned;
}

/* The retained piece that must serve; among equally good ones the one at `data`. */
static struct io_piece *smallest(const struct io_model *model, size_t need, size_t alignment,
                                 size_t ratio, const void *data)
{
    const struct io_piece *best = NULL;
    for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state != IO_RETAINED || it->alignment != alignment || it->capacity < need ||
            (it->capacity + ratio - 1) / ratio > need)
            continue;
        if (!best || before(it, best) || (!before(best, it) && it->data == data))
            best = it;
    }
    return (struct io_piece *)(uintptr_t)best;
}

static bool out_of_slots(const struct io_model *model)
{
    return model->pieces >= model->slots;
}

static bool all_in_use(const struct io_model *model)
{
    return out_of_slots(model) && io_model_count(model, IO_RETAINED) == 0;
}

io_answers io_model_alloc_answers(const struct io_model *model, size_t size, size_t alignment)
{
    io_answers closed = model->closed ? IO_ANSWER(HEARTH_CLOSED) : 0;
    if (size > SIZE_MAX / 2)
        return IO_ANSWER(HEARTH_OVERFLOW) | closed;
    if (closed)
        return closed;
    size_t need = io_model_rounded(size, alignment);
    size_t room = model->live_limit - live_capacity(model);
    if (all_in_use(model))
        return IO_ANSWER(HEARTH_NO_SLOT) | (need > room ? IO_ANSWER(HEARTH_NO_MEMORY) : 0);
    if (need > room)
        return IO_ANSWER(HEARTH_NO_MEMORY);
    const struct io_piece *best = smallest(model, need, alignment, model->ratio, NULL);
    bool tight = model->live_limit != HEARTH_UNBOUNDED &&
                 (out_of_slots(model) || (best && best->capacity > room));
    return IO_ANSWER(HEARTH_OK) | (tight ? IO_ANSWER(HEARTH_NO_MEMORY) : 0);
}

io_answers io_model_arrive_answers(const struct io_model *model, size_t capacity)
{
    if (model->closed)
        return IO_ANSWER(HEARTH_CLOSED);
    io_answers answers = 0;
    if (capacity > model->live_limit - live_capacity(model))
        answers |= IO_ANSWER(HEARTH_NO_MEMORY);
    if (out_of_slots(model))
        answers |= IO_ANSWER(HEARTH_NO_SLOT);
    if (!answers || (answers == IO_ANSWER(HEARTH_NO_SLOT) && !all_in_use(model)))
        answers |= IO_ANSWER(HEARTH_OK); /* it may give up a free buffer for its slot */
    return answers;
}

static struct io_piece *add(struct io_model *model)
{
    if (model->pieces == IO_MODEL_PIECES)
        __builtin_trap(); /* the caller sees to it that this does not happen */
    struct io_piece *piece = &model->piece[model->pieces++];
    *piece = (struct io_piece){.state = IO_LIVE};
    return piece;
}

/* When slots ran out: the largest retained piece serves or gives up its storage, and nothing else. */
static const char *grow(struct io_model *model, const void *data)
{
    size_t most = 0, gone = 0, taken = 0;
    for (struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state == IO_RETAINED && it->capacity > most)
            most = it->capacity;
        gone += it->gone;
    }
    for (struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        taken = it->gone ? it->capacity : taken;
        if (it->state == IO_RETAINED && it->data == data && !it->gone)
            return it->capacity == most ? NULL : "slots ran out, but not the largest served";
    }
    if (gone != 1 || taken != most)
        return "slots ran out, but not exactly the largest gave up its storage";
    return io_model_settle(model, IO_BECAUSE_NEED, 0);
}

static struct io_piece *with_serial(struct io_model *model, uint64_t serial)
{
    for (size_t i = 0; i < model->pieces; i++) {
        if (model->piece[i].serial == serial && !model->piece[i].adopted)
            return &model->piece[i];
    }
    return NULL;
}

/* Which piece has to serve; NULL: fresh storage. */
static const char *choose(struct io_model *model, size_t need, size_t alignment, const void *data,
                          uint64_t serial, struct io_piece **chosen)
{
    struct io_piece *piece = smallest(model, need, alignment, model->ratio, data);
    if (!piece && out_of_slots(model))
        piece = smallest(model, need, alignment, SIZE_MAX, data);
    if (piece || !out_of_slots(model)) {
        *chosen = piece;
        return NULL;
    }
    const char *wrong = grow(model, data);
    *chosen = wrong ? NULL : with_serial(model, serial);
    return wrong;
}

/* As choose(), where a limit makes the arena's choice less certain: what it took, if that was retained. */
static void accept(struct io_model *model, uint64_t serial, struct io_piece **chosen)
{
    (void)io_model_settle(model, IO_BECAUSE_NEED, 0);
    *chosen = with_serial(model, serial);
}

/* The piece that serves becomes live. */
static const char *serve(struct io_model *model, size_t need, size_t alignment, const void *data,
                         uint64_t serial, bool lenient, struct io_piece **served)
{
    struct io_piece *piece = NULL;
    const char *wrong = NULL;
    if (lenient)
        accept(model, serial, &piece);
    else
        wrong = choose(model, need, alignment, data, serial, &piece);
    if (wrong)
        return wrong;
    if (piece && piece->serial != serial)
        return "other storage than the smallest sufficient (large: last returned) one";
    if (!piece) {
        if (with_serial(model, serial))
            return "storage that is in use, or does not suit the request";
        piece = add(model);
        *piece = (struct io_piece){
            .data = data, .serial = serial, .capacity = need, .alignment = alignment};
    } else if (piece->state != IO_RETAINED || piece->capacity < need) {
        return "storage that is in use or too small";
    }
    if (piece->alignment < alignment)
        piece->alignment = alignment; /* served by its address: from now on it has to be */
    piece->state = IO_LIVE;
    *served = piece;
    return NULL;
}

const char *io_model_alloc(struct io_model *model, size_t size, size_t alignment, const void *data,
                           uint64_t serial, struct io_piece **piece)
{
    const char *wrong = serve(model, io_model_rounded(size, alignment), alignment, data, serial,
                              model->live_limit != HEARTH_UNBOUNDED, piece);
    if (wrong)
        return wrong;
    (*piece)->size = size;
    (*piece)->references = 0;
    io_model_note_peak(model);
    return io_model_settle(model, IO_BECAUSE_NOTHING, 0);
}

struct io_piece *io_model_arrive(struct io_model *model, size_t size, size_t capacity,
                                 size_t alignment)
{
    struct io_piece *piece = add(model);
    piece->size = size;
    piece->capacity = capacity;
    piece->alignment = alignment;
    io_model_note_peak(model);
    return piece;
}

/* The old storage is left behind as if it had been returned, unless slots ran out. */
static const char *move(struct io_model *model, struct io_piece *from, size_t size,
                        const void *data, uint64_t serial)
{
    struct io_piece old = *from, *moved = NULL;
    bool full = out_of_slots(model);
    drop(model, from);
    const char *wrong = serve(model, io_model_rounded(size, old.alignment), old.alignment, data,
                              serial, full || model->live_limit != HEARTH_UNBOUNDED, &moved);
    if (wrong)
        return wrong;
    moved->buf = old.buf;
    moved->size = size;
    io_model_note_peak(model);
    if (old.gone && full)
        return NULL;
    old.buf = NULL;
    struct io_piece *left = add(model);
    *left = old;
    io_model_return(model, left);
    return io_model_settle(model, IO_BECAUSE_CAP, 0);
}

const char *io_model_resize(struct io_model *model, struct io_piece *piece, size_t size,
                            const void *data, uint64_t serial)
{
    if (piece->serial != serial)
        return size <= piece->capacity ? "moved although the capacity was enough"
                                       : move(model, piece, size, data, serial);
    if (size > piece->capacity)
        return "too small and did not move";
    piece->size = size;
    io_model_note_peak(model);
    return io_model_settle(model, IO_BECAUSE_NOTHING, 0);
}

void io_model_return(struct io_model *model, struct io_piece *piece)
{
    piece->returned = ++model->clock;
    piece->state = IO_RETAINED;
    piece->references = 0;
    if (piece->adopted)
        drop(model, piece);
}

/* Among the retained: least recently freed first, and when something is gone, at least `must` bytes but not
 * a whole further buffer beyond `may`. */
static const char *in_order(const struct io_model *model, size_t must, size_t may)
{
    size_t bytes = 0;
    const struct io_piece *newest = NULL;
    for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state == IO_RETAINED && it->gone) {
            bytes += it->capacity;
            newest = !newest || it->returned > newest->returned ? it : newest;
        }
    }
    for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (newest && it->state == IO_RETAINED && !it->gone && it->returned < newest->returned)
            return "not the least recently freed was given back first";
    }
    if (bytes < must)
        return "too little was given back";
    if (newest && bytes - newest->capacity >= may)
        return "more was given back than was needed";
    return NULL;
}

/* One buffer above the cap goes alone. Else, when there is more than the cap, it is brought down to the
 * cap, and at most to an eighth below it (evictions come in batches). */
static const char *by_cap(const struct io_model *model, bool lowered)
{
    size_t retained = io_model_capacity(model, IO_RETAINED), gone = 0;
    const struct io_piece *large = NULL;
    for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state == IO_RETAINED && it->capacity > model->cap && it->returned == model->clock)
            large = it;
        gone += it->gone;
    }
    if (large && !lowered && retained - large->capacity <= model->cap)
        return gone == 1 && large->gone ? NULL : "not only the buffer above the cap was given back";
    if (retained <= model->cap)
        return gone ? "given back although the cap allowed to retain it" : NULL;
    size_t over = retained - model->cap;
    return in_order(model, over, over + model->cap / 8);
}

static bool is_for_exchange(const struct io_piece *piece, size_t capacity)
{
    return piece->state == IO_RETAINED && piece->capacity == capacity && piece->alignment == 64;
}

bool io_model_exchanges(const struct io_model *model, size_t capacity)
{
    for (size_t i = 0; i < model->pieces; i++)
        if (is_for_exchange(&model->piece[i], capacity))
            return true;
    return false;
}

static const char *by_exchange(const struct io_model *model, size_t capacity)
{
    size_t gone = 0;
    for (const struct io_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->gone && !is_for_exchange(it, capacity))
            return "something else than the taken buffer's like was given for it";
        gone += it->gone;
    }
    return gone == 1 ? NULL : "a taken buffer was not exchanged for one other";
}

const char *io_model_settle(struct io_model *model, enum io_reason reason, size_t goal)
{
    size_t retained = io_model_capacity(model, IO_RETAINED);
    const char *wrong = NULL;
    size_t gone = 0;
    for (size_t i = 0; i < model->pieces; i++)
        gone += model->piece[i].gone;
    if (reason == IO_BECAUSE_NOTHING && gone)
        wrong = "retained storage was given back without a reason";
    if (reason == IO_BECAUSE_CAP && !model->closed)
        wrong = by_cap(model, false);
    if (reason == IO_BECAUSE_LOWERED && !model->closed)
        wrong = by_cap(model, true);
    if (reason == IO_BECAUSE_TRIM)
        wrong = in_order(model, retained, SIZE_MAX);
    if (reason == IO_BECAUSE_GOAL)
        wrong = in_order(model, goal < retained ? goal : retained, goal);
    if (reason == IO_BECAUSE_TAKEN)
        wrong = by_exchange(model, goal);
    for (size_t i = model->pieces; i-- > 0 && !wrong;) {
        if (model->piece[i].gone)
            drop(model, &model->piece[i]);
    }
    return wrong;
}
