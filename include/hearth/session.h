/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file session.h
 * Sessions: a plan that runs on contexts, serially or on an executor.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_SESSION_H
#define HEARTH_SESSION_H

#include <hearth/context.h>
#include <hearth/executor.h>
#include <hearth/export.h>
#include <hearth/io.h>
#include <hearth/plan.h>
#include <hearth/service.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_context;
struct hearth_plan;
struct hearth_session;

/** The one list of a run's figures: X(name, unit, text). New figures are added at the end. */
#define HEARTH_RUN_STATS_MAP(X)                                                                    \
    X(runs, "count", "runs of the session so far, this one included")                              \
    X(nodes, "count", "nodes run")                                                                 \
    X(threads, "count", "threads that ran at least one node")                                      \
    X(tensors, "count", "output tensors made")                                                     \
    X(temporaries, "count", "workspaces made")                                                     \
    X(released, "count", "values that died at their last use")                                     \
    X(reused_in_place, "count", "outputs made in an input's storage")                              \
    X(remote_deaths, "count", "intermediates that died on another thread than they were made on")  \
    X(payload_copies, "count", "payload copies made by the runtime")                               \
    X(copied_bytes, "bytes", "bytes of these copies")                                              \
    X(staged_copies, "count", "the part of payload_copies from staged inputs")                     \
    X(migration_copies, "count", "the part of payload_copies from outputs in the wrong arena")     \
    X(taken, "count", "execution buffers taken by the I/O arena without a copy")                   \
    X(body_runs, "count", "runs of bodies")                                                        \
    X(backing_acquires, "count", "storage obtained from the service's backings in the time")       \
    X(backing_releases, "count", "storage given back to them in the time")                         \
    X(execution_peak_bytes, "bytes",                                                               \
      "largest logical bytes of values and workspaces that the run made with the execution role, " \
      "as asked")                                                                                  \
    X(io_peak_bytes, "bytes",                                                                      \
      "largest logical bytes of values that the run made with the I/O role, bound ones included")  \
    X(elapsed_ns, "nanoseconds", "time the run took")

/** The figures of one run. Peaks are exact for a serial run; in a parallel run within the sizes of
 *  the operations in flight. The backing's figures include what others did in the same time. */
struct hearth_run_stats {
    size_t size; /**< sizeof(struct hearth_run_stats), set by the caller. */
#define HEARTH_RUN_STATS_MEMBER(name, unit, text) uint64_t name;
    HEARTH_RUN_STATS_MAP(HEARTH_RUN_STATS_MEMBER)
#undef HEARTH_RUN_STATS_MEMBER
};

#define HEARTH_RUN_STATS_INIT                                                                      \
    {                                                                                              \
        sizeof(struct hearth_run_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0   \
    }

/** Options of a session. Zero means default everywhere. */
struct hearth_session_options {
    size_t size; /**< Set by HEARTH_SESSION_OPTIONS_INIT. */
    /** What to run; required. Referenced. */
    struct hearth_plan *plan;
    /** Serves contexts that bring no allocators of their own; needed for parallel runs and for
     *  bodies. Referenced. NULL: none. */
    struct hearth_service *service;
    /** Parallel runs that may go on at the same time without an allocation of the session's; 0: 1, after
     *  the first one. More than that work, and are remembered. */
    uint32_t concurrent_runs;
    uint32_t reserved;
};

#define HEARTH_SESSION_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_session_options), NULL, NULL, 0, 0                                    \
    }

/** Create a session. Thread: any. Ownership: hearth_session_destroy() ends it.
 *  Returns INVALID (no plan, wrong size), NO_MEMORY. */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_create(const struct hearth_session_options *options,
                      struct hearth_session **session);

/** End a session; tasks that an executor has not called yet stay safe to call. BUSY, and nothing
 *  changes, while a run is going on. NULL is OK. */
HEARTH_API enum hearth_status hearth_session_destroy(struct hearth_session *session);

/**
 * Run the plan once, node after node in the plan's order, on the calling thread.
 *
 * The context must have a value for every initial input that a node uses, and have been created for
 * this plan. Declared outputs and initial inputs are its values afterwards, intermediates are gone.
 * Outputs of the run before are released first; those that were exported are untouched. A declared
 * output that is an initial input is that value itself.
 *
 * `stats` may be NULL; stats->size must be set (HEARTH_RUN_STATS_INIT), members beyond it are not
 * written; it is written, as far as the run came, unless the run did not begin.
 * Thread: any; the owner of the execution allocator, where it has one.
 * Progress: after at most three runs with the same shapes no system call and no metadata
 * allocation.
 * Returns INVALID (a missing input, another plan; hearth_session_error() names it), BUSY (the
 * context is in a run), what a kernel answered, what an allocator answered. After a run that failed
 * the context keeps its inputs, and nothing else.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_session_run(struct hearth_session *session,
                                                                  struct hearth_context *context,
                                                                  struct hearth_run_stats *stats);

/**
 * Run the plan once with an executor: a node starts as soon as its inputs are there. The calling
 * thread works too, so the run ends even if the executor never calls anything. Outputs and
 * workspaces with the execution role come from the arena of the thread that runs the node, and may
 * die on another. After a kernel's failure no new node starts.
 * Thread: any, also a thread of the executor.
 * Progress: waits for the nodes that other threads run.
 * A binding of an execution arena's tensor is for serial runs: its byte size changes on its owner's
 * thread only. A process that forks while another thread is in a run does not use that session in the
 * child.
 * Returns as hearth_session_run(); INVALID without a service, or when the context has an execution
 * allocator of its own.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_run_on(struct hearth_session *session, struct hearth_context *context,
                      const struct hearth_executor *executor, struct hearth_run_stats *stats);

/**
 * Bring the calling thread's arena, and those of an executor's threads (NULL: none), to what any
 * order of execution may need, as far as the session's runs so far have shown its sizes: for plans
 * whose parallel runs must not obtain storage. Which thread runs which node differs from run to run,
 * so without it a thread may meet a node it never ran, and obtain storage for it, at any time.
 *
 * For each size it is as many buffers as values of that size can be alive at the same time in any
 * order, and the workspaces of one node, for each thread. It counts as retained, and ages as any.
 * The I/O arena gets room for the declared outputs of one run, and for what each thread may keep of
 * outputs below 64 KiB that one thread makes and another returns. Bodies are not part of it. An
 * executor is asked for one call less than it has threads; each call keeps its thread until all
 * have come or the deadline has passed, and *threads, if not NULL, receives how many threads were
 * filled, the caller among them.
 * `deadline_ns`: absolute CLOCK_MONOTONIC time in nanoseconds.
 * Thread: any, one at a time on an executor, since two would keep each other's threads; on a thread
 * of the executor's own, and where submit waits for the call, it waits for the whole deadline, since
 * one call cannot come. Progress: allocates, makes system calls, waits.
 * Returns TIMEOUT (not all calls came in time; what was filled stays), OVERFLOW (a plan of more than
 * 16,384 nodes), NO_MEMORY, INVALID (no service), and what hearth_service_exec() answers.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_prefill(struct hearth_session *session, const struct hearth_executor *executor,
                       uint64_t deadline_ns, size_t *threads);

/**
 * Export every declared output of a context after a run: leases[i] is the output that was declared
 * as number i. All or none; `count` must be the plan's number of outputs. What was not in the I/O
 * arena (inline, taken) may be there already after a refusal, still a value of the context, but bound no
 * more.
 * Ownership: the caller holds one reference of each lease; they outlive everything else.
 * Returns as hearth_context_export().
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_session_export_outputs(struct hearth_session *session, struct hearth_context *context,
                              struct hearth_lease *leases, size_t count);

/**
 * What went wrong in the context's last run: one line that names the node and the value, "" after
 * OK.
 * Ownership: the context's; valid until its next run. Thread: the context's user.
 */
HEARTH_API const char *hearth_session_error(const struct hearth_context *context);

HEARTH_END_DECLS

#endif
