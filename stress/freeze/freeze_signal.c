/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping a thread wherever it is: the handler of SIGUSR1 does not return until it is told to. It uses
 * lock-free atomics and nanosleep only, which are allowed in a handler.
 */
#include "freeze_parts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <ucontext.h>

#define POLL_NS 30000

static struct freeze_thread *target;
static struct freeze_hit seen; /* published by `frozen` */
/* Numbers of freezes: asked for by the controller, reached by the victim, ended by the controller. */
static _Atomic(uint64_t) asked, frozen, thawed;

uint64_t freeze_now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void freeze_nap(uint64_t nanoseconds)
{
    struct timespec nap = {.tv_sec = (time_t)(nanoseconds / 1000000000u),
                           .tv_nsec = (long)(nanoseconds % 1000000000u)};
    (void)nanosleep(&nap, NULL);
}

static uintptr_t interrupted_at(const void *context)
{
#if defined(__x86_64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

static void stand_still(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    (void)number;
    (void)info;
    uint64_t freeze = atomic_load_explicit(&asked, memory_order_acquire);
    seen.kind = atomic_load_explicit(&target->current, memory_order_relaxed);
    seen.in_backing = freeze_backing_inside();
    seen.pc = interrupted_at(context);
    atomic_store_explicit(&frozen, freeze, memory_order_release);
    while (atomic_load_explicit(&thawed, memory_order_acquire) < freeze)
        freeze_nap(POLL_NS);
    errno = saved;
}

void freeze_install(struct freeze_thread *victim)
{
    struct sigaction action = {.sa_sigaction = stand_still, .sa_flags = SA_SIGINFO | SA_RESTART};
    target = victim;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGUSR1, &action, NULL) != 0) {
        perror("sigaction");
        exit(2);
    }
}

bool freeze_stop(pthread_t thread, uint64_t limit_ns, struct freeze_hit *hit)
{
    uint64_t freeze = atomic_load_explicit(&asked, memory_order_relaxed) + 1;
    atomic_store_explicit(&asked, freeze, memory_order_release);
    if (pthread_kill(thread, SIGUSR1) != 0)
        return false;
    uint64_t began = freeze_now_ns();
    while (atomic_load_explicit(&frozen, memory_order_acquire) != freeze) {
        if (freeze_now_ns() - began > limit_ns)
            return false;
        freeze_nap(POLL_NS);
    }
    *hit = seen;
    return true;
}

void freeze_thaw(void)
{
    atomic_store_explicit(&thawed, atomic_load_explicit(&asked, memory_order_relaxed),
                          memory_order_release);
}
