/* SPDX-License-Identifier: Apache-2.0 */
/* A single-threaded model of the I/O arena's contract, on a backing whose segments are exactly as long as
 * asked. It scans one list of pieces instead of keeping free lists, so that it can be checked by reading.
 *
 * It judges: the caller says what the arena did (which storage it handed out, which retained storage is
 * gone) and the model says whether the contract allows that. Where the contract leaves a choice the model
 * follows the arena; everything else must match exactly. It knows nothing of Criterion, so that the fuzz
 * target can use it as its oracle. */
#ifndef HEARTH_TESTS_API_IO_MODEL_H
#define HEARTH_TESTS_API_IO_MODEL_H

#include <hearth/allocator.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IO_MODEL_PIECES = 512 };

enum io_state { IO_LIVE, IO_LEASED, IO_RETAINED };

/* One piece of storage: owned, leased or retained. */
struct io_piece {
    struct hearth_buf *buf; /* last holder; NULL when a resize left the storage behind */
    const void *data;
    uint64_t serial; /* of the acquisition: tells storage from later storage at the same place */
    size_t size;     /* logical, now */
    size_t capacity; /* 0 for adopted storage */
    size_t alignment;
    uint64_t generation; /* of the lease */
    size_t references;   /* of the lease */
    uint64_t returned;   /* order of return */
    enum io_state state;
    bool adopted;
    bool gone; /* set by the caller: the backing got it back */
};

struct io_model {
    size_t slots, cap, ratio, live_limit;
    bool closed;
    size_t peak;
    uint64_t clock;
    size_t pieces; /* in use: piece[0 .. pieces - 1], in no order */
    struct io_piece piece[IO_MODEL_PIECES];
};

/* Answers that the contract allows: a set of (1u << status). */
typedef unsigned io_answers;
#define IO_ANSWER(status) (1u << (unsigned)(status))

/* 0 means default, as in the arena's options. */
void io_model_init(struct io_model *model, size_t slots, size_t cap, size_t ratio,
                   size_t live_limit);

/* Capacity of a fresh buffer. */
size_t io_model_rounded(size_t size, size_t alignment);

/* What an alloc or lease may answer, called before the arena's. */
io_answers io_model_alloc_answers(const struct io_model *model, size_t size, size_t alignment);

/* What a take or an adopt may answer; capacity 0 for an adopt. */
io_answers io_model_arrive_answers(const struct io_model *model, size_t capacity);

/* Follow a successful alloc; what is no longer retained is marked gone. NULL, or what is wrong. */
const char *io_model_alloc(struct io_model *model, size_t size, size_t alignment, const void *data,
                           uint64_t serial, struct io_piece **piece);

/* Whether a take of this capacity, at default alignment, has something to give in exchange. */
bool io_model_exchanges(const struct io_model *model, size_t capacity);

/* Storage that came by take or adopt. */
struct io_piece *io_model_arrive(struct io_model *model, size_t size, size_t capacity,
                                 size_t alignment);

/* Follow a successful resize of a live piece to the storage it has now. */
const char *io_model_resize(struct io_model *model, struct io_piece *piece, size_t size,
                            const void *data, uint64_t serial);

/* The last right to a piece was given up. The next settle decides whether it is retained. */
void io_model_return(struct io_model *model, struct io_piece *piece);

/* Judge and forget the pieces marked gone. */
enum io_reason {
    IO_BECAUSE_NOTHING, /* nothing may be gone */
    IO_BECAUSE_CAP,     /* a return: least recently freed first, no more than needed */
    IO_BECAUSE_LOWERED, /* another cap: the same */
    IO_BECAUSE_TRIM,    /* everything must be gone */
    IO_BECAUSE_GOAL,    /* least recently freed first, until `goal` */
    IO_BECAUSE_NEED,    /* anything may be gone: something failed for want of storage or slots */
    IO_BECAUSE_TAKEN,   /* one of `goal` bytes and default alignment went the other way */
};
const char *io_model_settle(struct io_model *model, enum io_reason reason, size_t goal);

void io_model_note_peak(struct io_model *model);

/* Sums over the pieces in one state. */
size_t io_model_count(const struct io_model *model, enum io_state state);
size_t io_model_capacity(const struct io_model *model, enum io_state state);
size_t io_model_size(const struct io_model *model, enum io_state state);

#endif
