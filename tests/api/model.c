/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include "support.h"

void model_init(struct model *model, size_t slots, size_t cap, size_t ratio)
{
    *model = (struct model){.slots = slots ? slots : HEARTH_EXEC_SLOTS_DEFAULT,
                            .cap = cap ? cap : HEARTH_UNBOUNDED,
                            .ratio = ratio ? ratio : HEARTH_REUSE_RATIO_DEFAULT};
}

size_t model_count(const struct model *model, int state)
{
    size_t count = 0;
    for (size_t i = 0; i < model->pieces; i++)
        count += (int)model->piece[i].state == state;
    return count;
}

size_t model_capacity(const struct model *model, int state)
{
    size_t bytes = 0;
    for (size_t i = 0; i < model->pieces; i++)
        bytes += (int)model->piece[i].state == state ? model->piece[i].capacity : 0;
    return bytes;
}

size_t model_live_bytes(const struct model *model)
{
    size_t bytes = 0;
    for (size_t i = 0; i < model->pieces; i++)
        bytes += model->piece[i].state == MODEL_LIVE ? model->piece[i].size : 0;
    return bytes;
}

static void note_peak(struct model *model)
{
    size_t bytes = model_live_bytes(model);
    model->peak = bytes > model->peak ? bytes : model->peak;
}

static void drop(struct model *model, struct model_piece *piece)
{
    *piece = model->piece[--model->pieces];
}

/* The capacity of a fresh buffer. At the default alignment that is the size class; how larger alignments
 * round is the arena's business, so another arena is asked, once for each class and alignment. */
static size_t rounded(size_t size, size_t alignment)
{
    static struct {
        size_t size, alignment, capacity;
    } known[1 << 14];
    static struct memory memory;
    static struct hearth_exec *other;
    size = class_of(size);
    if (alignment == HEARTH_ALIGNMENT)
        return size;
    size_t at = (size * 31 + alignment) * 0x9E3779B97F4A7C15u >> 50;
    if (known[at].size != size || known[at].alignment != alignment) {
        if (!other) {
            memory_init(&memory);
            other = arena_create(&memory, 0, 1, 0);
        }
        struct hearth_buf *buf = take_aligned(other, size, alignment);
        known[at].size = size;
        known[at].alignment = alignment;
        known[at].capacity = hearth_buf_capacity(buf);
        give(other, buf);
    }
    return known[at].capacity;
}

/* The smallest sufficient retained piece within the ratio; among equals the last returned. */
static struct model_piece *smallest(struct model *model, size_t need, size_t alignment,
                                    size_t ratio)
{
    struct model_piece *best = NULL;
    for (struct model_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state != MODEL_RETAINED || it->alignment != alignment || it->capacity < need ||
            it->capacity / ratio > need || (it->capacity / ratio == need && it->capacity % ratio))
            continue;
        if (!best || it->capacity < best->capacity ||
            (it->capacity == best->capacity && it->returned > best->returned))
            best = it;
    }
    return best;
}

static bool taken(const struct model_piece *piece, const void *data)
{
    struct hearth_buf *found = NULL;
    return piece->data == data || hearth_buf_of(piece->data, &found) == HEARTH_FOREIGN;
}

/* The largest retained piece; among equals the last returned one that the arena took. */
static struct model_piece *largest(struct model *model, const void *data)
{
    struct model_piece *best = NULL;
    for (struct model_piece *it = model->piece; it < model->piece + model->pieces; it++) {
        if (it->state != MODEL_RETAINED || (best && it->capacity < best->capacity))
            continue;
        if (!best || it->capacity > best->capacity || taken(it, data) > taken(best, data) ||
            (taken(it, data) == taken(best, data) && it->returned > best->returned))
            best = it;
    }
    return best;
}

enum hearth_status model_alloc_status(const struct model *model, size_t size)
{
    if (size > SIZE_MAX - 64)
        return HEARTH_OVERFLOW;
    bool full = model_count(model, MODEL_LIVE) == model->slots;
    return full ? HEARTH_NO_SLOT : HEARTH_OK;
}

/* The piece that must serve; it is live afterwards. NULL when the arena used another one. */
static struct model_piece *serve(struct model *model, size_t size, size_t alignment,
                                 const void *data)
{
    size_t need = rounded(size, alignment);
    struct model_piece *piece = smallest(model, need, alignment, model->ratio);
    if (!piece && model->pieces >= model->slots)
        piece = smallest(model, need, alignment, SIZE_MAX);
    if (!piece && model->pieces >= model->slots) {
        piece = largest(model, data);
        if (piece && (piece->capacity < need || (uintptr_t)piece->data % alignment)) {
            drop(model, piece);
            piece = NULL;
        }
    }
    if (piece) {
        if (piece->alignment < alignment)
            piece->alignment = alignment; /* served by its address: from now on it has to be */
        piece->state = MODEL_LIVE;
        return piece->data == data ? piece : NULL;
    }
    for (size_t i = 0; i < model->pieces; i++) {
        if (model->piece[i].data == data)
            return NULL;
    }
    cr_assert_lt(model->pieces, (size_t)MODEL_PIECES);
    piece = &model->piece[model->pieces++];
    *piece = (struct model_piece){
        .data = data, .capacity = need, .alignment = alignment, .state = MODEL_LIVE};
    return piece;
}

struct model_piece *model_alloc(struct model *model, size_t size, size_t alignment,
                                struct hearth_buf *buf, const void *data)
{
    struct model_piece *piece = serve(model, size, alignment < 64 ? 64 : alignment, data);
    if (piece) {
        piece->buf = buf;
        piece->size = size;
        note_peak(model);
    }
    return piece;
}

static void enforce_cap(struct model *model)
{
    while (model_capacity(model, MODEL_RETAINED) > model->cap) {
        struct model_piece *oldest = NULL;
        for (struct model_piece *it = model->piece; it < model->piece + model->pieces; it++) {
            if (it->state == MODEL_RETAINED && (!oldest || it->returned < oldest->returned))
                oldest = it;
        }
        drop(model, oldest);
        model->evictions++;
    }
}

void model_free(struct model *model, struct model_piece *piece)
{
    piece->returned = ++model->clock;
    piece->state = MODEL_RETAINED;
    if (piece->capacity > model->cap) {
        drop(model, piece);
        model->bypasses++;
    }
    enforce_cap(model);
}

bool model_resize(struct model *model, struct model_piece *piece, size_t size, const void *data)
{
    if (size <= piece->capacity) {
        piece->size = size;
        note_peak(model);
        return piece->data == data;
    }
    struct model_piece old = *piece;
    bool full = model_count(model, MODEL_LIVE) == model->slots;
    if (full) /* new storage first, then the old one is given back: no slot is needed */
        drop(model, piece);
    struct model_piece *moved = serve(model, size, old.alignment, data);
    if (!moved)
        return false;
    moved->buf = old.buf;
    moved->size = size;
    for (size_t i = 0; i < model->pieces && !full; i++) {
        if (model->piece[i].data == old.data) {
            model->piece[i].buf = NULL;
            model_free(model, &model->piece[i]);
            break;
        }
    }
    note_peak(model);
    return true;
}

void model_free_remote(struct model *model, struct model_piece *piece)
{
    (void)model;
    piece->state = MODEL_PENDING;
}

void model_drain(struct model *model)
{
    for (size_t i = 0; i < model->pieces; i++) {
        if (model->piece[i].state == MODEL_PENDING) {
            model_free(model, &model->piece[i]);
            i = (size_t)-1; /* pieces moved */
        }
    }
}

size_t model_trim(struct model *model)
{
    size_t bytes = model_capacity(model, MODEL_RETAINED) + model_capacity(model, MODEL_PENDING);
    model_drain(model);
    for (size_t i = model->pieces; i-- > 0;) {
        if (model->piece[i].state == MODEL_RETAINED)
            drop(model, &model->piece[i]);
    }
    return bytes;
}

void model_set_cap(struct model *model, size_t cap)
{
    model->cap = cap;
    enforce_cap(model);
}
