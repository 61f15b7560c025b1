/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grace periods.
 *
 * Problem. Closing an arena has to know that nobody is still between looking at the closed flag and counting
 * a return by it. Threads with a cache mark that time in their own cache (section.h), which costs them a
 * plain store; threads without one (after their exit handlers ran, in a signal handler that interrupted
 * a section, where the kernel has no membarrier) need something that works anywhere: an RCU read section.
 *
 * Picture.
 *
 *     retire ------------------> list (pushed by CAS, taken whole)
 *                                  |  one reclaimer at a time (a mutex)
 *     run:   membarrier -> wait for each object's marks -> synchronize_rcu -> after()
 *
 * Flavour bp: needs no registration, so that a foreign thread is protected at its first call, also in late
 * thread-exit destructors; with the fork hooks below a child can go on; with -z nodelete the library can
 * not be unmapped under a registered thread. No call_rcu: its worker could never be stopped. What is
 * retired is served by whoever retires it, so stress builds reclaim as eagerly as all others; only what
 * was retired inside a read section of the caller's own waits for the next one.
 *
 * ThreadSanitizer. liburcu is not instrumented. An unlock releases a token, a grace period acquires the
 * tokens that are older than itself; a lock acquires nothing, so readers get no edge between them. The
 * tokens are a ring keyed by the number of the grace period, so that sections which began after it are
 * not trusted by it.
 *
 * Progress. enter, leave: wait-free. retire: lock-free. run: blocks.
 */
#include "concurrent/reclaim.h"

#include "concurrent/membarrier.h"
#include "core/atomic.h"
#include "core/perturb.h"

#include <pthread.h>
#include <stddef.h>
#include <urcu/urcu-bp.h>

/* Those who wait, linked by next. */
static _Atomic(struct hearth__retired *) waiting;

/* Held while a list is served, so that who comes later knows that what it retired has been. */
static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER;

/* Held while a grace period is waited for (bp serialises them anyway), and for the time of a fork. Nothing is
 * called meanwhile that may take a lock, such as a backing's, which fork handlers may have taken first. */
static pthread_mutex_t grace = PTHREAD_MUTEX_INITIALIZER;

/* The reclaimer's own thread calls back: a nested run would wait for itself. */
static _Thread_local volatile bool running __attribute__((tls_model("initial-exec")));

static struct hearth__fork_hook *fork_hooks;

void hearth__reclaim_on_fork(struct hearth__fork_hook *hook)
{
    hook->next = fork_hooks;
    fork_hooks = hook;
}

#ifdef HEARTH__THREAD_SANITIZER
void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define TOKENS 64
static char tokens[TOKENS];
static _Atomic(unsigned) grace_periods;
static _Thread_local unsigned snapshot __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned nesting __attribute__((tls_model("initial-exec")));

static void section_began(void)
{
    if (nesting++ == 0)
        snapshot = hearth__load_relaxed(&grace_periods);
}

static void section_ends(void)
{
    if (--nesting == 0)
        __tsan_release(&tokens[snapshot % TOKENS]);
}

static void synchronize(void)
{
    unsigned number = hearth__fetch_add_relaxed(&grace_periods, 1);
    urcu_bp_synchronize_rcu();
    for (unsigned age = 0; age < TOKENS / 2; age++)
        __tsan_acquire(&tokens[(number - age) % TOKENS]);
}
#else
static void section_began(void)
{
}

static void section_ends(void)
{
}

static void synchronize(void)
{
    urcu_bp_synchronize_rcu();
}
#endif

void hearth__reclaim_enter(void)
{
    urcu_bp_read_lock();
    section_began();
}

void hearth__reclaim_leave(void)
{
    section_ends();
    urcu_bp_read_unlock();
}

bool hearth__reclaim_may_wait(void)
{
    return !urcu_bp_read_ongoing() && !running;
}

bool hearth__reclaim_pending(void)
{
    return hearth__load_relaxed(&waiting) != NULL;
}

bool hearth__reclaim_is_waiting(const struct hearth__retired *retired)
{
    const struct hearth__retired *first = hearth__load_relaxed(&waiting);
    while (first != NULL && first != retired)
        first = first->next;
    return first != NULL;
}

void hearth__reclaim_retire(struct hearth__retired *retired)
{
    struct hearth__retired *first = hearth__load_relaxed(&waiting);
    do {
        retired->next = first;
        /* EDGE reclaim.retire, publish: the object's callbacks, and all that its retirer did to it. */
    } while (!hearth__cas_weak_release(&waiting, &first, retired));
}

static void grace_period(struct hearth__retired *list)
{
#ifndef HEARTH_BROKEN_NO_GRACE
    if (hearth__membarrier_ready())
        (void)hearth__membarrier();
    HEARTH__PERTURB("reclaim.grace");
    for (struct hearth__retired *retired = list; retired != NULL; retired = retired->next)
        retired->wait(retired);
    (void)pthread_mutex_lock(&grace);
    synchronize();
    (void)pthread_mutex_unlock(&grace);
#else
    (void)list;
    (void)synchronize;
#endif
}

enum hearth_status hearth__reclaim_run(void)
{
    if (!hearth__reclaim_may_wait())
        return HEARTH_BUSY;
    /* Before the lock: a signal handler that comes in between must not wait for it. */
    running = true;
    (void)pthread_mutex_lock(&serving);
    /* EDGE reclaim.retire, observe: everything that was done to the objects before. */
    struct hearth__retired *list = hearth__exchange_acq_rel(&waiting, NULL);
    if (list != NULL)
        grace_period(list);
    while (list != NULL) {
        struct hearth__retired *next = list->next;
        list->after(list);
        list = next;
    }
    (void)pthread_mutex_unlock(&serving);
    running = false;
    return HEARTH_OK;
}

/* Nobody may be in the middle of a grace period when the process is copied: the child would wait for
 * threads that it does not have. */
static void before_fork(void)
{
    (void)pthread_mutex_lock(&grace);
    urcu_bp_before_fork();
}

static void after_fork_parent(void)
{
    urcu_bp_after_fork_parent();
    (void)pthread_mutex_unlock(&grace);
}

static void after_fork_child(void)
{
    urcu_bp_after_fork_child();
    (void)pthread_mutex_unlock(&grace);
    /* Whoever served is not here; what it had taken off the list is lost in this process. */
    if (!running)
        (void)pthread_mutex_init(&serving, NULL);
    for (const struct hearth__fork_hook *hook = fork_hooks; hook != NULL; hook = hook->next)
        hook->child();
}

static __attribute__((constructor)) void install_fork_hooks(void)
{
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}
