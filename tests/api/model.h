/* SPDX-License-Identifier: Apache-2.0 */
/* A single-threaded model of the execution arena's contract, on a backing whose segments are exactly as
 * long as asked. It scans lists instead of keeping bins, so that it can be checked by reading.
 *
 * Where the contract leaves a choice (which of several largest free buffers of different alignments
 * serves or grows once slots ran out), the model follows the arena: it asks hearth_buf_of() whose storage
 * is gone. Everything else must match exactly. */
#ifndef HEARTH_TESTS_API_MODEL_H
#define HEARTH_TESTS_API_MODEL_H

#include <hearth/allocator.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MODEL_PIECES = 4096 };

/* One piece of storage: live, retained or queued. */
struct model_piece {
    struct hearth_buf *buf; /* last holder; NULL when a resize left the storage behind */
    const void *data;
    size_t size;
    size_t capacity;
    size_t alignment;
    uint64_t returned; /* order of return */
    enum { MODEL_LIVE, MODEL_RETAINED, MODEL_PENDING } state;
};

struct model {
    size_t slots;
    size_t cap;
    size_t ratio;
    size_t peak;
    uint64_t clock;
    uint64_t evictions;
    uint64_t bypasses;
    size_t pieces; /* in use: piece[0 .. pieces - 1], in no order */
    struct model_piece piece[MODEL_PIECES];
};

void model_init(struct model *model, size_t slots, size_t cap, size_t ratio);

/* What an alloc answers, called before the arena's. */
enum hearth_status model_alloc_status(const struct model *model, size_t size);

/* Follow a successful alloc that gave `data`; returns the piece now live, NULL when the arena should
 * have handed out other storage. */
struct model_piece *model_alloc(struct model *model, size_t size, size_t alignment,
                                struct hearth_buf *buf, const void *data);

/* Follow a successful resize of a live piece; false when the arena should have done otherwise. */
bool model_resize(struct model *model, struct model_piece *piece, size_t size, const void *data);

void model_free(struct model *model, struct model_piece *piece);
void model_free_remote(struct model *model, struct model_piece *piece);
void model_drain(struct model *model);

/* Queued returns are taken in first; those that the cap refuses count among the bytes given back. */
size_t model_trim(struct model *model);
void model_set_cap(struct model *model, size_t cap);

/* Sums over the pieces in one state. */
size_t model_count(const struct model *model, int state);
size_t model_capacity(const struct model *model, int state);
size_t model_live_bytes(const struct model *model);

#endif
