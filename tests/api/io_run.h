/* SPDX-License-Identifier: Apache-2.0 */
/* Between io_driver.c, which runs a sequence, and io_operations.c and io_rare.c, which have its operations. */
#ifndef HEARTH_TESTS_API_IO_RUN_H
#define HEARTH_TESTS_API_IO_RUN_H

#include "io_ledger.h"
#include "io_model.h"

#include <hearth/exec.h>
#include <hearth/io.h>

#include <stdio.h>

enum { IO_RUN_STALE = 64, IO_RUN_ADOPTED = 16, IO_RUN_LIVE_MOST = 120 };

struct io_run_adopted {
    size_t size;
    unsigned calls; /* of its release */
    bool wrong;     /* other arguments than promised */
    bool used;
};

struct io_run {
    const uint8_t *bytes, *end;
    struct io_ledger ledger;
    struct hearth_io *io;
    struct hearth_exec *exec;
    struct io_model model;
    struct hearth_lease stale[IO_RUN_STALE]; /* what was returned last, a ring */
    size_t stales;
    struct io_run_adopted adopted[IO_RUN_ADOPTED];
    unsigned char outside[4096]; /* storage to adopt */
    size_t step;
    const char *what;
    char *message;
    size_t message_bytes;
};

/* Says why the run failed; returns false. */
bool io_run_wrong(struct io_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define AGREE(run, condition, ...)                                                                 \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return io_run_wrong((run), __VA_ARGS__);                                               \
    } while (0)

#define AGREE_SIZE(run, modelled, real)                                                            \
    do {                                                                                           \
        size_t model_ = (modelled), real_ = (real);                                                \
        AGREE(run, model_ == real_, "%s is %zu instead of %zu", #real, real_, model_);             \
    } while (0)

#define AGREE_STATUS(run, modelled, real)                                                          \
    do {                                                                                           \
        enum hearth_status model_ = (modelled), real_ = (real);                                    \
        AGREE(run, model_ == real_, "%s answers %s instead of %s", #real,                          \
              hearth_status_name(real_), hearth_status_name(model_));                              \
    } while (0)

#define AGREE_RULE(run, call)                                                                      \
    do {                                                                                           \
        const char *wrong_ = (call);                                                               \
        AGREE(run, !wrong_, "%s", wrong_);                                                         \
    } while (0)

/* The answer is one of a set. */
#define AGREE_ANSWER(run, answers, real)                                                           \
    do {                                                                                           \
        enum hearth_status real_ = (real);                                                         \
        AGREE(run, ((answers)&IO_ANSWER(real_)) != 0, "answers %s, not one of the set %#x",        \
              hearth_status_name(real_), (answers));                                               \
    } while (0)

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if (!(call))                                                                               \
            return false;                                                                          \
    } while (0)

/* The next byte, and a number below `below` from the next two; 0 when there are no more. */
unsigned io_run_byte(struct io_run *run);
size_t io_run_number(struct io_run *run, size_t below);

/* A random piece in one state; NULL if there is none. */
struct io_piece *io_run_any_piece(struct io_run *run, enum io_state state);

/* Mark what the backing got back since the model last looked; and judge it. */
void io_run_mark_gone(struct io_run *run);
bool io_run_settle(struct io_run *run, enum io_reason reason, size_t goal);

/* Write a word to both ends of the payload that names the storage. */
void io_run_sign(const struct io_piece *piece);

struct hearth_lease io_run_lease_of(const struct io_piece *piece);

/* A live piece got its first lease. */
bool io_run_now_leased(struct io_run *run, struct io_piece *piece, struct hearth_lease lease);

/* One operation, chosen and parametrized by the next bytes. */
bool io_run_operate(struct io_run *run);

/* io_rare.c */
bool io_run_take(struct io_run *run);
bool io_run_adopt(struct io_run *run);
bool io_run_handle(struct io_run *run);
bool io_run_trim(struct io_run *run);
bool io_run_cap(struct io_run *run);
bool io_run_reset_peak(struct io_run *run);
bool io_run_misuse(struct io_run *run);
bool io_run_close(struct io_run *run);

/* Give up one right to a live or leased piece; the last one returns it. */
bool io_run_return(struct io_run *run, struct io_piece *piece);

/* All of the ring is STALE, whatever happened to the slots and the arena. */
bool io_run_check_stale(struct io_run *run);

#endif
