/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about the service share, on top of support.h: a backing that can run out, block and
 * keep what it got back; a service on it; threads that wait for work; trims whose report adds up. */
#ifndef HEARTH_TESTS_API_SERVICE_SUPPORT_H
#define HEARTH_TESTS_API_SERVICE_SUPPORT_H

#include "io_support.h"

#include <hearth/service.h>

#include <stdatomic.h>

enum { BANK_KEPT = 512 };

/* A backing whose segments are exactly as long as asked; granule 64. */
struct bank {
    struct hearth_backing *backing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t acquires;
    uint64_t releases;
    size_t bytes;     /* lent now */
    size_t budget;    /* acquires that would lend more than this in all fail; 0: no bound */
    bool shut;        /* acquires wait until it is opened again */
    unsigned waiting; /* acquires that wait */
    bool keep;        /* what comes back stays readable until bank_close() */
    unsigned kept_count;
    struct hearth_segment kept[BANK_KEPT];
};

/* Banks whose last reference went. */
extern atomic_uint banks_ended;

void bank_open(struct bank *bank);
/* Gives up the test's reference; fails the test unless everything was given back. */
void bank_close(struct bank *bank);
void bank_shut(struct bank *bank);
void bank_unshut(struct bank *bank);
/* Returns once `count` acquires wait. */
void bank_await(struct bank *bank, unsigned count);
size_t bank_bytes(struct bank *bank);
uint64_t bank_acquires(struct bank *bank);

/* A service whose two domains share one bank. */
struct rig {
    struct bank bank;
    struct hearth_service *service;
    struct hearth_io *io;
};

#define SERVICE_OPTIONS(...)                                                                       \
    ((struct hearth_service_options){.size = sizeof(struct hearth_service_options), __VA_ARGS__})

/* Backings that are not set become the bank. */
void rig_open(struct rig *rig, struct hearth_service_options options);
/* Nothing is live: gives up the reference, and everything must be home. */
void rig_close(struct rig *rig);
/* What holds when nothing is in flight. */
void rig_identity(struct rig *rig);

/* The calling thread's arena. */
struct hearth_exec *exec_of(struct hearth_service *service);

/* Whether HEARTH_CONF says that execution arenas have this store. */
bool exec_store_is(const char *name);

/* What caps and the ceiling count of what is retained. */
size_t exec_warm(const struct hearth_exec *arena);

/* Takes `count` buffers of `size` bytes from the calling thread's arena, or from the I/O arena, and then
 * returns them all: they are retained afterwards. */
void warm_exec(struct hearth_service *service, size_t size, size_t count);
void warm_io(struct hearth_service *service, size_t size, size_t count);

struct hearth_lease lease_by(struct hearth_io *io, size_t size, uint64_t deadline_ns,
                             enum hearth_status expected);

/* One trim, with nobody else working: the report adds up. */
struct hearth_trim_report service_trim(struct hearth_service *service, size_t goal,
                                       uint64_t budget_ns);
/* Trims until no cache is called busy any more: idle caches are visited from the second pass on. Returns
 * the sum of what was released; fails the test if that takes a second. */
size_t service_trim_idle(struct hearth_service *service);

/* Refusal of the calling thread. */
struct hearth_refusal refusal_of(const struct hearth_service *service);

uint64_t now_ns(void);
/* A deadline. */
uint64_t in_ms(uint64_t milliseconds);

/* Waits up to `milliseconds` until holds(argument), and says whether it came to hold. */
bool wait_until(bool (*holds)(void *), void *argument, uint64_t milliseconds);

/* A thread that sleeps between jobs. */
struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*fn)(void *);
    void *argument;
    bool over;
};

void worker_start(struct worker *worker);
/* Hands over a job; worker_wait() returns when it is done. */
void worker_begin(struct worker *worker, void (*fn)(void *), void *argument);
void worker_wait(struct worker *worker);
void worker_run(struct worker *worker, void (*fn)(void *), void *argument);
void worker_end(struct worker *worker);

/* A request of a thread of its own, and how it went. */
struct asking {
    struct worker worker;
    struct hearth_service *service;
    size_t size;
    uint64_t deadline_ns;
    uint32_t priority;
    enum hearth_status status;
    struct hearth_lease lease;
    struct hearth_refusal refusal;
    uint64_t name; /* hearth_service_waiter() */
    uint64_t ended_ns;
};

/* A worker's job: ask for a lease. */
void ask(void *asking);
void ask_begin(struct hearth_service *service, struct asking *asking, size_t size,
               uint64_t deadline_ns);
/* Checks the answer, and drops the lease. */
void ask_end(struct asking *asking, enum hearth_status expected);
/* Returns when `count` requests wait. */
void await_waiters(struct hearth_service *service, size_t count);

#endif
