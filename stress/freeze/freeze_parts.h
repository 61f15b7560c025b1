/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the freeze test share: the kinds of operations, the threads that make them, the
 * backing they all draw from, and the signal that stops one of them.
 */
#ifndef HEARTH_STRESS_FREEZE_PARTS_H
#define HEARTH_STRESS_FREEZE_PARTS_H

#include <hearth/allocator.h>
#include <hearth/exec.h>
#include <hearth/io.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(NAME, text, weight): every kind, and how often of 64 times it is chosen. */
#define FREEZE_KIND_MAP(X)                                                                         \
    X(LEASE, "io_lease", 7)                                                                        \
    X(RELEASE, "lease_release", 7)                                                                 \
    X(RETAIN, "lease_retain", 4)                                                                   \
    X(VIEW, "lease_view", 3)                                                                       \
    X(ALLOC, "io_alloc", 6)                                                                        \
    X(EXPORT, "io_export", 4)                                                                      \
    X(FREE, "io_free", 4)                                                                          \
    X(RESIZE, "io resize", 3)                                                                      \
    X(TAKE, "io_take", 2)                                                                          \
    X(ADOPT, "io_adopt", 2)                                                                        \
    X(STATS, "io_stats", 2)                                                                        \
    X(TRIM, "io_trim_ex", 2)                                                                       \
    X(EXEC_ALLOC, "exec_alloc", 6)                                                                 \
    X(EXEC_FREE, "exec_free", 6)                                                                   \
    X(EXEC_REMOTE, "exec_free remote", 4)                                                          \
    X(EXEC_TRIM, "exec_trim", 2)

enum freeze_kind {
#define FREEZE_KIND_ENUM(name, text, weight) FREEZE_##name,
    FREEZE_KIND_MAP(FREEZE_KIND_ENUM)
#undef FREEZE_KIND_ENUM
        FREEZE_KINDS,
    FREEZE_OUTSIDE = FREEZE_KINDS /* in no call of the library */
};

#define FREEZE_THREADS_MAX 16
#define FREEZE_BOXES 32
#define FREEZE_HELD 16
#define FREEZE_ARENAS 2

/* References that one thread has to one leased buffer. */
struct freeze_lease {
    struct hearth_lease lease;
    uint64_t tag; /* 0: adopted storage, which is not looked at */
    unsigned references;
};

struct freeze_buf {
    struct hearth_buf *buf;
    struct hearth_io *io; /* NULL: of the thread's execution arena */
    uint64_t tag;
};

struct freeze_thread {
    unsigned number;
    uint64_t random;
    uint64_t tags;
    struct hearth_exec *exec;
    struct hearth_exec *spare; /* without an owner most of the time; see do_fetch() */
    struct freeze_lease leases[FREEZE_HELD];
    struct freeze_buf bares[FREEZE_HELD], execs[FREEZE_HELD];
    unsigned lease_count, bare_count, exec_count;
    /* What others may come and take. Writers: any, by exchange. */
    _Atomic(uintptr_t) boxes[FREEZE_BOXES];
    /* The kind it leans to, or FREEZE_KINDS. Writer: the controller. */
    _Atomic(unsigned) focus;
    /* Writer: the thread. Readers: the handler and the controller, relaxed. */
    _Atomic(unsigned) current; /* the kind of the call it is in, or FREEZE_OUTSIDE */
    _Atomic(uint64_t) done[FREEZE_KINDS];
    _Atomic(uint64_t) steps;
};

/* What all threads use; set before they start. */
struct freeze_world {
    unsigned threads;
    struct freeze_thread thread[FREEZE_THREADS_MAX];
    struct hearth_backing *backing;
    struct hearth_io *io[FREEZE_ARENAS];
    _Atomic(uint64_t) adopted, disowned;
    _Atomic(bool) finished;
};

extern struct freeze_world freeze_world;
extern const char *const freeze_kind_name[FREEZE_KINDS + 1];

/* freeze_backing.c: storage from arrays; no lock, no system call, no malloc. */
struct hearth_backing *freeze_backing_create(void);
/* Blocks lent at present. */
uint64_t freeze_backing_lent(void);
/* Whether the calling thread is inside the backing; for the signal handler. */
bool freeze_backing_inside(void);

/* freeze_held.c. */
void freeze_enter(struct freeze_thread *self, enum freeze_kind kind);
/* Any answer but OK ends the program. */
void freeze_leave(struct freeze_thread *self, enum freeze_kind kind, enum hearth_status status);
/* Below `bound`, which is below 2^32. */
uint64_t freeze_pick(struct freeze_thread *self, uint64_t bound);
size_t freeze_size(struct freeze_thread *self);
/* Write a new tag into a buffer. */
uint64_t freeze_mark(struct freeze_thread *self, void *data, size_t size);
void freeze_mark_buf(struct freeze_thread *self, struct freeze_buf *held);
void freeze_check_buf(const struct freeze_buf *held, const char *what);
void freeze_check_lease(const struct freeze_lease *held);
struct freeze_buf *freeze_add(struct freeze_buf *list, unsigned *count, struct hearth_buf *buf,
                              struct hearth_io *io);
/* Take any one off a list that is not empty. */
struct freeze_buf freeze_remove(struct freeze_thread *self, struct freeze_buf *list,
                                unsigned *count);

/* freeze_work.c. Make one operation at random. */
void freeze_step(struct freeze_thread *self);
/* Return all that the thread holds, and what is in its boxes. */
void freeze_give_back(struct freeze_thread *self);

/* freeze_signal.c: stop `victim` until freeze_thaw(). */
struct freeze_hit {
    unsigned kind;
    bool in_backing;
    uintptr_t pc; /* 0 where this is not known */
};

void freeze_install(struct freeze_thread *victim);
/* Send the signal; true once the victim stands still, false if it does not within `limit_ns`. */
bool freeze_stop(pthread_t thread, uint64_t limit_ns, struct freeze_hit *hit);
void freeze_thaw(void);

uint64_t freeze_now_ns(void);
void freeze_nap(uint64_t nanoseconds);

#endif
