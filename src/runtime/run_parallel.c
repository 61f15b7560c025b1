/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel run.
 *
 * Problem. Nodes run on whatever threads an executor sends, as soon as their inputs are there; each value dies
 * when its last user is through, on that user's thread; and what a late call of the executor may touch must
 * still be there.
 *
 * Picture.
 *
 *     session -> lane -> lane                  idle; one is in use for each run that is going on
 *     lane:  ready (who may start, who is at work), waits[node], the run, the threads seen
 *
 * Each node has a counter of the distinct nodes it waits for; whoever counts it down to 0 makes the node ready.
 * Each value has a counter of the distinct nodes that use it; whoever counts it down to 0 returns the storage, to
 * the arena it is from. Deaths come before the successors are made ready: when a node starts, everything that its
 * ancestors let die is on its way to the arena it came from.
 *
 * A thread that completes a node goes on with the first of the nodes that this made ready, in the serial order,
 * and lets others have the rest.
 *
 * Lanes. A lane has the calls that it asked an executor for and that have not left (ready.c); it can be used by the
 * next run, which those calls then help, but not with another executor, since a pool that died without calling
 * would otherwise count for one that lives, nor with another bound on its threads. At the session's end the last of them frees the lane.
 *
 * Ordering. run.waits: what a node did happens before the nodes that wait for it. run.uses: what the users of a
 * value did happens before its storage is returned. The rest is in ready.c.
 *
 * Progress. Lock-free between nodes, but for one lock of the session at a run's beginning and end, and one of
 * the lane for the figures of a chain of nodes. A thread that stops inside a kernel stops the run.
 */
#include "runtime/session.h"

#include "core/perturb.h"
#include "runtime/ready.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Threads of a run that are told apart; others are counted as the last one. */
#define THREADS_KNOWN 256u

struct hearth__lane {
    struct hearth__ready ready;
    struct hearth__run *run; /* while one is going on; read by who claimed a step of it */
    struct hearth_executor executor;
    uint32_t limit;                          /* helpers at a time */
    _Atomic(uint32_t) *waits;                /* by node; writer: the nodes it waits for */
    struct hearth__lane *next;               /* idle ones of the session */
    pthread_mutex_t lock;                    /* of the run's tally and of worked */
    uint64_t worked[THREADS_KNOWN / 64 + 1]; /* by number of thread: it ran a node */
    _Atomic(uint32_t) thread_count;          /* writer: each thread for itself */
    _Atomic(uintptr_t) threads[THREADS_KNOWN];
};

static void lane_free(struct hearth__lane *lane)
{
    hearth__ready_fini(&lane->ready);
    (void)pthread_mutex_destroy(&lane->lock);
    free(lane->waits);
    free(lane);
}

static struct hearth__lane *lane_create(const struct hearth_plan *plan)
{
    struct hearth__lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL)
        return NULL;
    lane->waits = calloc(plan->node_count + 1, sizeof(*lane->waits));
    if (lane->waits != NULL && pthread_mutex_init(&lane->lock, NULL) == 0) {
        if (hearth__ready_init(&lane->ready, (uint32_t)plan->node_count) == HEARTH_OK)
            return lane;
        (void)pthread_mutex_destroy(&lane->lock);
    }
    free(lane->waits);
    free(lane);
    return NULL;
}

uint32_t hearth__executor_threads(const struct hearth_executor *executor)
{
    long threads = executor->threads;
    if (threads == 0)
        threads = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads < 1)
        threads = 1;
    return threads < (long)HEARTH__HELPERS_MAX ? (uint32_t)threads : HEARTH__HELPERS_MAX;
}

/* A lane that this executor may be sent to. */
static struct hearth__lane *lane_take(struct hearth_session *session,
                                      const struct hearth_executor *executor)
{
    uint32_t limit = hearth__executor_threads(executor) - 1;
    (void)pthread_mutex_lock(&session->lock);
    struct hearth__lane **link = &session->lanes;
    struct hearth__lane *lane;
    for (; (lane = *link) != NULL; link = &lane->next)
        if ((lane->executor.submit == executor->submit && lane->executor.pool == executor->pool &&
             lane->limit == limit) ||
            !hearth__ready_expects(&lane->ready))
            break;
    if (lane != NULL)
        *link = lane->next;
    (void)pthread_mutex_unlock(&session->lock);
    return lane != NULL ? lane : lane_create(session->plan);
}

static void lane_return(struct hearth_session *session, struct hearth__lane *lane)
{
    (void)pthread_mutex_lock(&session->lock);
    lane->next = session->lanes;
    session->lanes = lane;
    (void)pthread_mutex_unlock(&session->lock);
}

bool hearth__lanes_create(struct hearth_session *session, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hearth__lane *lane = lane_create(session->plan);
        if (lane == NULL)
            return false;
        lane_return(session, lane);
    }
    return true;
}

void hearth__lanes_end(struct hearth_session *session)
{
    while (session->lanes != NULL) {
        struct hearth__lane *lane = session->lanes;
        session->lanes = lane->next;
        if (hearth__ready_disband(&lane->ready))
            lane_free(lane);
    }
}

/* The calling thread's number in this run, from 1. */
static uint32_t thread_number(struct hearth__lane *lane)
{
    uintptr_t self = (uintptr_t)pthread_self();
    uint32_t count = hearth__load_relaxed(&lane->thread_count);
    for (uint32_t i = 0; i < count && i < THREADS_KNOWN; i++)
        if (hearth__load_relaxed(&lane->threads[i]) == self)
            return i;
    count = hearth__fetch_add_relaxed(&lane->thread_count, 1);
    if (count >= THREADS_KNOWN)
        return THREADS_KNOWN;
    hearth__store_relaxed(&lane->threads[count], self);
    return count;
}

static void help(void *arg);

/* The lane that this thread is asking an executor for. A call that comes inside of that leaves: the thread will
 * run the steps when it is back, and not as deep as there are calls. */
static _Thread_local const struct hearth__lane *asking;

/* Ask the executor for helpers that count already; those it refuses do not. Whoever asks is a helper or the
 * caller of a run, so the lane stays. */
static void ask(struct hearth__lane *lane, const struct hearth_executor *executor, uint32_t count)
{
    const struct hearth__lane *outer = asking;
    asking = lane;
    while (count-- > 0)
        if (executor->submit(executor->pool, help, lane) != HEARTH_OK)
            hearth__ready_excuse(&lane->ready);
    asking = outer;
}

/* One user of a value less; the last one returns it. */
static void use(struct hearth__frame *frame, uint32_t number)
{
    const struct hearth__plan_value *plan = &frame->run->plan->values[number];
    if (plan->is_input || plan->is_output)
        return;
    struct hearth__value *value = &frame->run->holder->values[number];
    HEARTH__PERTURB("run.uses");
#ifdef HEARTH_BROKEN_USES_NO_RMW
    uint32_t left = hearth__load_acquire(&value->uses);
    HEARTH__PERTURB("run.uses");
    hearth__store_release(&value->uses, left - 1);
#else
    /* EDGE run.uses, publish: what this user did with the value.
     * EDGE run.uses, observe: what all its users did, before it is returned. */
    uint32_t left = hearth__fetch_sub_acq_rel(&value->uses, 1);
#endif
    if (left == 1)
        hearth__value_dies(frame, number);
}

static void let_die(struct hearth__frame *frame)
{
    const struct hearth_plan *plan = frame->run->plan;
    for (uint32_t i = 0; i < frame->node->uses.count; i++)
        use(frame, plan->uses[frame->node->uses.first + i]);
    for (uint32_t i = 0; i < frame->node->outputs.count; i++) {
        const struct hearth__output_slot *slot = &plan->outputs[frame->node->outputs.first + i];
        if (slot->value != HEARTH__NO_VALUE && slot->role == HEARTH_ROLE_EXECUTION &&
            plan->values[slot->value].uses == 0)
            hearth__value_dies(frame, slot->value);
    }
}

/* Make the nodes ready that waited for this one last. *kept is the step of one that was not put, the first;
 * returns how many were put. */
static uint32_t make_ready(struct hearth__lane *lane, const struct hearth__frame *frame,
                           uint32_t *kept)
{
    const struct hearth_plan *plan = frame->run->plan;
    uint32_t count = 0;
    *kept = HEARTH__NO_NODE;
    for (uint32_t i = 0; i < frame->node->next.count; i++) {
        uint32_t node = plan->next[frame->node->next.first + i];
        HEARTH__PERTURB("run.waits");
#ifdef HEARTH_BROKEN_WAITS_RELAXED
        if (hearth__fetch_add_relaxed(&lane->waits[node], UINT32_MAX) != 1)
            continue;
#else
        /* EDGE run.waits, publish: what this node did.
         * EDGE run.waits, observe: what all did that the node waited for. */
        if (hearth__fetch_sub_acq_rel(&lane->waits[node], 1) != 1)
            continue;
#endif
        uint32_t step = plan->nodes[node].step;
        uint32_t put = step;
        if (*kept == HEARTH__NO_NODE || step < *kept) {
            put = *kept;
            *kept = step;
        }
        if (put == HEARTH__NO_NODE)
            continue;
        hearth__ready_put(&lane->ready, put);
        count++;
    }
    return count;
}

static void add_figures(struct hearth__lane *lane, struct hearth__frame *frame)
{
    (void)pthread_mutex_lock(&lane->lock);
    hearth__tally_add(&frame->run->tally, &frame->tally);
    if (frame->tally.nodes != 0)
        lane->worked[frame->thread / 64] |= (uint64_t)1 << (frame->thread % 64);
    (void)pthread_mutex_unlock(&lane->lock);
}

/* From a claimed step on, as long as each node leads to another. */
static void run_chain(struct hearth__lane *lane, uint32_t step)
{
    struct hearth__run *run = lane->run;
    struct hearth_executor executor = lane->executor;
    uint32_t limit = lane->limit;
    struct hearth__frame frame;
    hearth__frame_init(&frame, run, thread_number(lane));
    for (bool more = true; more;) {
        uint32_t count = 0;
        uint32_t kept = HEARTH__NO_NODE;
        if (!hearth__run_failed(run)) {
            hearth__frame_run(&frame, run->plan->order[step]);
            bool failed = hearth__run_failed(run);
            if (!failed)
                let_die(&frame);
            hearth__event(run, &frame, HEARTH_EVENT_NODE_END, NULL, 0);
            if (!failed)
                count = make_ready(lane, &frame, &kept);
        }
        more = kept != HEARTH__NO_NODE;
        if (!more)
            add_figures(lane, &frame);
        /* Without another step the run may be over after this. */
        ask(lane, &executor, hearth__ready_complete(&lane->ready, count, more, limit));
        step = kept;
    }
}

/* A thread whose exit has gone too far, for one, gets none; the run goes on without it. */
static bool has_arena(const struct hearth__run *run)
{
    struct hearth_exec *arena;
    return hearth_service_exec(run->service, &arena) == HEARTH_OK;
}

/* A helper that cannot run what it claimed leaves. True: it was the last. */
static bool no_use(struct hearth__lane *lane, uint32_t step)
{
    hearth__ready_give_back(&lane->ready, step);
    return hearth__ready_leave(&lane->ready);
}

/* What an executor calls. */
static void help(void *arg)
{
    struct hearth__lane *lane = arg;
    uint32_t step;
    if (asking == lane) {
        hearth__ready_excuse(&lane->ready);
        return;
    }
    enum hearth__claim claim = hearth__ready_help(&lane->ready, &step);
    while (claim == HEARTH__CLAIM_STEP && hearth__likely(has_arena(lane->run))) {
        run_chain(lane, step);
        claim = hearth__ready_help(&lane->ready, &step);
    }
    if (claim == HEARTH__CLAIM_LAST || (claim == HEARTH__CLAIM_STEP && no_use(lane, step)))
        lane_free(lane);
}

/* Nobody else works on this run yet. Returns how many nodes wait for nothing. */
static uint32_t set_counters(struct hearth__lane *lane, struct hearth__run *run)
{
    const struct hearth_plan *plan = run->plan;
    uint32_t count = 0;
    for (size_t i = 0; i < plan->value_count; i++)
        hearth__store_relaxed(&run->holder->values[i].uses, plan->values[i].uses);
    for (size_t i = 0; i < plan->node_count; i++)
        hearth__store_relaxed(&lane->waits[i], plan->nodes[i].waits);
    lane->run = run;
    /* A number that is given out and not yet noted must match nobody. */
    for (uint32_t i = hearth__load_relaxed(&lane->thread_count); i-- > 0;)
        if (i < THREADS_KNOWN)
            hearth__store_relaxed(&lane->threads[i], 0);
    hearth__store_relaxed(&lane->threads[0], (uintptr_t)pthread_self());
    hearth__store_relaxed(&lane->thread_count, 1);
    memset(lane->worked, 0, sizeof(lane->worked));
    for (size_t i = 0; i < plan->node_count; i++) {
        if (plan->nodes[i].waits != 0)
            continue;
        hearth__ready_put(&lane->ready, plan->nodes[i].step);
        count++;
    }
    return count;
}

static void run_nodes(struct hearth__lane *lane, struct hearth__run *run)
{
    uint32_t count = set_counters(lane, run);
    struct hearth_executor executor = lane->executor;
    ask(lane, &executor, hearth__ready_announce(&lane->ready, count, lane->limit));
    uint32_t step;
    while (hearth__ready_claim(&lane->ready, &step) == HEARTH__CLAIM_STEP)
        run_chain(lane, step);
}

enum hearth_status hearth__run_parallel(struct hearth__run *run,
                                        const struct hearth_executor *executor, uint32_t *threads)
{
    struct hearth__lane *lane = lane_take(run->session, executor);
    if (lane == NULL) {
        run->holder->error[0] = '\0';
        hearth__run_fail(run, HEARTH_NO_MEMORY, "no memory for a parallel run");
        hearth__run_end(run);
        return HEARTH_NO_MEMORY;
    }
    lane->executor = *executor;
    lane->limit = hearth__executor_threads(executor) - 1; /* and the caller */
    if (hearth__run_begin(run) == HEARTH_OK)
        run_nodes(lane, run);
    hearth__run_end(run);
    *threads = 0;
    for (size_t i = 0; i < sizeof(lane->worked) / sizeof(lane->worked[0]); i++)
        *threads += (uint32_t)__builtin_popcountll(lane->worked[i]);
    lane_return(run->session, lane);
    return (enum hearth_status)hearth__load_relaxed(&run->status);
}
