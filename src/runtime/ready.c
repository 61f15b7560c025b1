/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ready set and crew of a parallel run.
 *
 * Problem. Threads that nobody knows beforehand run the nodes of a graph, each node once and after those it
 * waits for. An executor may call late, at once, or never; it may call after the run has ended, or after the
 * session has. The thread that called run must neither spin nor miss the end.
 *
 * Picture.
 *
 *     steps:  [ 0 1 1 0 | 0 0 1 0 | ... ]     one bit for each step of the serial order
 *     crew:   { disbanded:1 | asleep:1 | helpers:15 | running:15 | queued:32 }
 *
 * queued: steps that were put and not claimed. running: steps claimed and not completed. helpers: calls asked
 * of the executor that have not left. asleep: the caller waits for its semaphore.
 *
 * States of a step: not put; put (its bit is set); counted (in queued); claimed (in running, its bit cleared a
 * moment later); complete. Whoever takes one from `queued` has the right to one bit, not to a certain one: as
 * bits are set before they are counted and cleared after they are claimed, there are never fewer bits than
 * rights, and a search that finds none was overtaken by another that found one. The search begins at the
 * first step, so that a run stays near the serial order, whose peak the plan knows.
 *
 * No ABA. A claim moves a number, not a pointer, and a bit that is set again names the same step of the next
 * run, which is as good. A helper that was asked for in one run and comes in the next helps there.
 *
 * End. The run is over when nothing is queued and nothing is running, both in one word, so no step can be
 * between the two. The caller goes to sleep by a compare-and-swap on that word, so it cannot miss the change that
 * should wake it; whoever clears `asleep` posts once, and the caller consumes exactly that. `helpers` keeps the
 * memory: what a call asked for may touch exists until it has left, also after the session (disbanded).
 *
 * Ordering. By ready.step, what led to a step happens before it is run (and run.waits in run_parallel.c joins
 * the others that it waited for). By ready.crew, what a run did happens before its caller returns, and
 * what helpers did before the memory is freed.
 *
 * Progress. put, announce, complete, help, excuse: lock-free. The caller waits for running steps.
 *
 * Cost. Two compare-and-swaps and one bit for a step; one compare-and-swap for a step that is kept. The search
 * reads a word for every 64 steps.
 */
#include "runtime/ready.h"

#include "core/perturb.h"

#include <errno.h>
#include <stdlib.h>

#define QUEUED ((uint64_t)1)
#define RUNNING ((uint64_t)1 << 32)
#define HELPER ((uint64_t)1 << 47)
#define ASLEEP ((uint64_t)1 << 62)
#define DISBANDED ((uint64_t)1 << 63)

static uint32_t queued(uint64_t crew)
{
    return (uint32_t)crew;
}

static uint32_t running(uint64_t crew)
{
    return (uint32_t)(crew >> 32) & 0x7fff;
}

static uint32_t helpers(uint64_t crew)
{
    return (uint32_t)(crew >> 47) & 0x7fff;
}

enum hearth_status hearth__ready_init(struct hearth__ready *ready, uint32_t steps)
{
    ready->words = steps / 64 + 1;
    ready->steps = calloc(ready->words, sizeof(*ready->steps));
    if (ready->steps == NULL)
        return HEARTH_NO_MEMORY;
    hearth__store_relaxed(&ready->crew, 0);
    if (sem_init(&ready->wake, 0, 0) != 0) {
        free(ready->steps);
        return HEARTH_NO_MEMORY;
    }
    return HEARTH_OK;
}

void hearth__ready_fini(struct hearth__ready *ready)
{
    (void)sem_destroy(&ready->wake);
    free(ready->steps);
}

void hearth__ready_put(struct hearth__ready *ready, uint32_t step)
{
    HEARTH__PERTURB("ready.step");
    /* EDGE ready.step, publish: everything that the step waited for. */
    (void)hearth__fetch_or_acq_rel(&ready->steps[step / 64], (uint64_t)1 << (step % 64));
}

/* A step for a claimant: there is a bit for every right to one. */
static uint32_t take_step(struct hearth__ready *ready)
{
    for (uint32_t word = 0;; word = word + 1 < ready->words ? word + 1 : 0) {
        uint64_t bits = hearth__load_relaxed(&ready->steps[word]);
        while (bits != 0) {
            uint64_t bit = bits & -bits;
#ifdef HEARTH_BROKEN_READY_NO_CAS
            HEARTH__PERTURB("ready.step");
            bits = hearth__load_acquire(&ready->steps[word]);
            HEARTH__PERTURB("ready.step");
            hearth__store_release(&ready->steps[word], bits & ~bit);
#else
            /* EDGE ready.step, observe: everything that the step waited for. */
            bits = hearth__fetch_and_acq_rel(&ready->steps[word], ~bit);
#endif
            if ((bits & bit) != 0)
                return word * 64 + (uint32_t)__builtin_ctzll(bit);
            HEARTH__PERTURB("ready.step");
        }
    }
}

/* The word after `count` steps were put; *wanted helpers are in it, and *wake says that the caller was woken. */
static uint64_t advanced(uint64_t crew, uint32_t count, uint32_t limit, uint32_t *wanted,
                         bool *wake)
{
    crew += count * QUEUED;
    bool over = queued(crew) == 0 && running(crew) == 0;
    *wake = (crew & ASLEEP) != 0 && (count != 0 || over);
    if (*wake) {
        crew &= ~ASLEEP;
        count -= count != 0;
    }
    uint32_t room = helpers(crew) < limit ? limit - helpers(crew) : 0;
    *wanted = count < room ? count : room;
    return crew + *wanted * HELPER;
}

uint32_t hearth__ready_announce(struct hearth__ready *ready, uint32_t count, uint32_t limit)
{
    uint32_t wanted;
    bool wake;
    uint64_t crew = hearth__load_relaxed(&ready->crew);
    /* The caller stays awake: it counts as one of those who come for the steps. */
    uint32_t others = count == 0 ? 0 : count - 1;
    uint64_t next;
    do {
        next = advanced(crew, others, limit, &wanted, &wake) + (count - others) * QUEUED;
        HEARTH__PERTURB("ready.crew");
        /* EDGE ready.crew, publish: the run, for helpers that were expected already. */
    } while (!hearth__cas_weak_acq_rel(&ready->crew, &crew, next));
    return wanted;
}

uint32_t hearth__ready_complete(struct hearth__ready *ready, uint32_t count, bool keep,
                                uint32_t limit)
{
    if (count == 0 && keep)
        return 0;
    uint32_t wanted;
    bool wake;
    uint64_t crew = hearth__load_relaxed(&ready->crew);
    uint64_t next;
    do {
        next = advanced(crew - (keep ? 0 : RUNNING), count, limit, &wanted, &wake);
        HEARTH__PERTURB("ready.crew");
        /* EDGE ready.crew, publish: what the step did. */
    } while (!hearth__cas_weak_acq_rel(&ready->crew, &crew, next));
    if (wake)
        (void)sem_post(&ready->wake);
    return wanted;
}

enum hearth__claim hearth__ready_help(struct hearth__ready *ready, uint32_t *step)
{
    uint64_t crew = hearth__load_acquire(&ready->crew);
    for (;;) {
        bool some = queued(crew) != 0;
        uint64_t next = some ? crew - QUEUED + RUNNING : crew - HELPER;
        HEARTH__PERTURB("ready.crew");
        /* EDGE ready.crew, observe: the run that the step belongs to.
         * EDGE ready.crew, publish: that this helper touches nothing any more. */
        if (!hearth__cas_weak_acq_rel(&ready->crew, &crew, next))
            continue;
        if (!some)
            return (next & DISBANDED) != 0 && helpers(next) == 0 ? HEARTH__CLAIM_LAST
                                                                 : HEARTH__CLAIM_NONE;
        *step = take_step(ready);
        return HEARTH__CLAIM_STEP;
    }
}

static void sleep_until_woken(struct hearth__ready *ready)
{
    while (sem_wait(&ready->wake) != 0 && errno == EINTR)
        ;
}

enum hearth__claim hearth__ready_claim(struct hearth__ready *ready, uint32_t *step)
{
    /* EDGE ready.crew, observe: everything that the run did. */
    uint64_t crew = hearth__load_acquire(&ready->crew);
    for (;;) {
        bool some = queued(crew) != 0;
        if (!some && running(crew) == 0)
            return HEARTH__CLAIM_NONE;
        HEARTH__PERTURB("ready.crew");
        if (!hearth__cas_weak_acq_rel(&ready->crew, &crew,
                                      some ? crew - QUEUED + RUNNING : crew | ASLEEP))
            continue;
        if (some) {
            *step = take_step(ready);
            return HEARTH__CLAIM_STEP;
        }
        sleep_until_woken(ready);
        crew = hearth__load_acquire(&ready->crew);
    }
}

void hearth__ready_give_back(struct hearth__ready *ready, uint32_t step)
{
    hearth__ready_put(ready, step);
    (void)hearth__ready_complete(ready, 1, false, 0);
}

bool hearth__ready_leave(struct hearth__ready *ready)
{
    /* EDGE ready.crew, publish: that this helper touches nothing any more. */
    uint64_t crew = hearth__fetch_sub_acq_rel(&ready->crew, HELPER) - HELPER;
    return (crew & DISBANDED) != 0 && helpers(crew) == 0;
}

void hearth__ready_excuse(struct hearth__ready *ready)
{
    (void)hearth__fetch_sub_acq_rel(&ready->crew, HELPER);
}

bool hearth__ready_expects(const struct hearth__ready *ready)
{
    return helpers(hearth__load_acquire(&ready->crew)) != 0;
}

bool hearth__ready_disband(struct hearth__ready *ready)
{
#ifdef HEARTH_BROKEN_LATE_HELPER
    (void)ready;
    return true;
#else
    /* EDGE ready.crew, observe: that no helper touches anything any more. */
    return helpers(hearth__fetch_or_acq_rel(&ready->crew, DISBANDED)) == 0;
#endif
}
