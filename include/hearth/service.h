/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file service.h
 * The service: one I/O arena and, per thread, one execution arena for each depth of its work, under
 * common limits.
 *
 * A service attaches threads by itself, gives memory back by itself, and may be ended in any order
 * with respect to its threads and leases. Several services may live in one process; they share
 * nothing but descriptors' memory.
 *
 *     struct hearth_service *service = NULL;
 *     struct hearth_exec *arena = NULL;
 *     if (hearth_service_create(NULL, &service) == HEARTH_OK &&
 *         hearth_service_exec(service, &arena) == HEARTH_OK)
 *         ... hearth_exec_alloc(arena, ...), hearth_io_lease(hearth_service_io(service), ...) ...
 *     hearth_service_unref(service);   // outstanding buffers and leases stay valid
 *
 * Limits, all in bytes of capacity:
 *
 *     exec_cap, io_cap   retained in one arena. A burst in one domain never evicts the other's.
 *     ceiling            retained in all threads' caches and the I/O arena together.
 *     live_limit         live and leased in all arenas together.
 *
 * The ceiling works by grants. A cache retains within the credit it was granted with plain stores
 * and reserves more by compare-and-swap before it retains more. It keeps at most one grant of
 * credit that it does not fill: a buffer larger than that takes credit for its own capacity, and
 * gives it back when it is handed out. So with N threads that used the service and have not exited
 *
 *     overshoot        = 0:  nothing is retained above the ceiling as it was at that moment; bytes
 *                            retained before it was lowered stay until they are reached
 *     stranded credit <= N * grant:  retention may stop at ceiling - N * grant (half of it is for a
 *                            thread's execution arena, half for its part of the I/O arena). Each
 *                            further execution arena of a thread adds half a grant; see
 *                            hearth_service_child_exec()
 *
 * The service takes from the domain that wants to retain first, then from the other one down to its
 * floor. Storage pending in inboxes is charged when it is taken in; storage that gets no credit
 * goes back to the backing. live_limit is reserved by compare-and-swap before a buffer is handed
 * out, so its overshoot is 0 as well.
 *
 * While there is a ceiling or a live_limit, alloc and free take the general path: about nine times
 * the instructions of the plain one (some 50 ns a pair). Retention caps cost the same for free alone, no limit costs
 * nothing.
 *
 * Before a live request is refused, retained storage is reclaimed from every thread that is not
 * inside an operation at that moment; hearth_service_refusal() says what could not be reached.
 *
 * In a forked child the service goes on working. Caches of the parent's other threads that were
 * idle are taken over; those found inside an operation are abandoned and counted (kept_lost). The
 * maintenance thread is started anew when it is needed.
 *
 * Who may do what: every call may be made from any thread at any time, attached or not, from
 * thread-exit destructors, atexit handlers and in a forked child, as long as the caller holds a
 * reference to the service. trim without a budget, tick, create, the setters of retention and the
 * last unref may wait for a grace period; they answer BUSY (unref defers the work) when called
 * inside an RCU read section of the caller's own.
 */
#ifndef HEARTH_SERVICE_H
#define HEARTH_SERVICE_H

#include <hearth/allocator.h>
#include <hearth/exec.h>
#include <hearth/export.h>
#include <hearth/io.h>
#include <hearth/status.h>
#include <hearth/trim.h>

#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

struct hearth_backing;
struct hearth_service;

/** The two lifetimes. Values are bits, so that they can be joined where a call takes both. */
enum hearth_domain {
    HEARTH_DOMAIN_EXEC = 1, /**< Buffers that die inside a run. */
    HEARTH_DOMAIN_IO = 2,   /**< Buffers that leave the runtime. */
};

/** What becomes of a request that no retained buffer serves. */
enum hearth_exhaustion {
    /** Obtain storage from the backing; NO_MEMORY when it refuses or live_limit would be passed. */
    HEARTH_EXHAUSTION_GROW = 0,
    /** Never obtain storage: NO_MEMORY at once. For services filled by hearth_service_prefill(). */
    HEARTH_EXHAUSTION_FAIL = 1,
    /** As GROW, but an I/O request that would be refused waits for returns up to its deadline
     *  (UINT64_MAX: without one) and is then TIMEOUT. hearth_io_alloc() and hearth_io_lease() never
     *  wait. Waiters are served first in first out among those that fit; a large one is bypassed a
     *  bounded number of times. Execution arenas never wait: for them this is GROW. */
    HEARTH_EXHAUSTION_WAIT = 2,
};

/** Deepest nesting that hearth_service_child_exec() has an arena for. */
#define HEARTH_CHILD_DEPTH_MAX 16u

/** Default of hearth_service_options.grant: 1 MiB. */
#define HEARTH_GRANT_DEFAULT ((size_t)1 << 20)

/** Default of hearth_service_options.age_runs. */
#define HEARTH_AGE_RUNS_DEFAULT 256u

/** Default of hearth_service_options.age_ms: ten seconds. */
#define HEARTH_AGE_MS_DEFAULT 10000u

/** For age_runs and age_ms: storage does not age by this measure. */
#define HEARTH_AGE_NEVER UINT32_MAX

/** Default of hearth_service_options.maintenance_bytes: 8 MiB. */
#define HEARTH_MAINTENANCE_BYTES_DEFAULT ((size_t)8 << 20)

/** Never start a maintenance thread. Ageing in an idle process then needs hearth_service_tick(). */
#define HEARTH_SERVICE_NO_THREAD 1u

/** Overwrite a returned buffer's logical bytes with zeros before its storage can be reused. */
#define HEARTH_SERVICE_SCRUB 2u

/** Options of a service. Zero means default everywhere. */
struct hearth_service_options {
    size_t size; /**< Set by HEARTH_SERVICE_OPTIONS_INIT. */
    /** Most bytes retained in each execution arena; 0: HEARTH_UNBOUNDED. See
     *  HEARTH_RETAIN_NOTHING. */
    size_t exec_cap;
    /** Most bytes retained in the I/O arena; 0: HEARTH_UNBOUNDED. See HEARTH_RETAIN_NOTHING. */
    size_t io_cap;
    /** Most bytes retained in all arenas together; 0: HEARTH_UNBOUNDED. */
    size_t ceiling;
    /** Credit in bytes taken from the ceiling at a time; 0: HEARTH_GRANT_DEFAULT. A buffer larger
     *  than this takes credit for its own capacity, and gives it back when it is handed out.
     *  INVALID when above an explicit ceiling. */
    size_t grant;
    /** Retained execution bytes that the I/O arena's wish to retain never evicts; 0: none. */
    size_t exec_floor;
    /** Retained I/O bytes that execution arenas' wish to retain never evicts; 0: none. */
    size_t io_floor;
    /** Most bytes live and leased in all arenas together, never exceeded, adopted storage not
     *  counted; 0: HEARTH_UNBOUNDED, and nothing is counted. HEARTH_UNBOUNDED itself counts, so that
     *  hearth_service_set_live_limit() can set a limit later. */
    size_t live_limit;
    /** The last bytes of live_limit, for HEARTH_PRIORITY_HIGH requests of the I/O arena alone; 0:
     *  none. INVALID without a live_limit or above it. */
    size_t reserve;
    /** Most buffers with storage in each execution arena; 0: HEARTH_EXEC_SLOTS_DEFAULT. */
    size_t exec_slots;
    /** Most buffers with storage in the I/O arena; 0: 2^20. */
    size_t io_slots;
    /** Bytes obtained from the backings since the maintenance thread last ended (or ever) from which
     *  it is started; 0: HEARTH_MAINTENANCE_BYTES_DEFAULT. Less than this may stay for good in an idle
     *  process. */
    size_t maintenance_bytes;
    /** Where execution storage comes from (referenced while in use); NULL: a backing of the
     *  process's default kind for this service's execution arenas alone. */
    struct hearth_backing *exec_backing;
    /** The same for the I/O arena. Between backings of different kinds hearth_io_can_take() is
     *  false. */
    struct hearth_backing *io_backing;
    /** As in struct hearth_exec_options, for all arenas. */
    uint32_t reuse_ratio;
    /** An enum hearth_exhaustion. */
    uint32_t exhaustion;
    /** Retained storage that its arena did not use for this many of its own runs (see
     *  hearth_service_end_run()) goes back; 0: HEARTH_AGE_RUNS_DEFAULT. */
    uint32_t age_runs;
    /** Retained storage that its arena did not use for this many milliseconds goes back, whatever
     *  the runs, and within one and a half times as many; 0: HEARTH_AGE_MS_DEFAULT. */
    uint32_t age_ms;
    /** Bound the ceiling by this percentage (1 to 100) of the smallest memory limit of the
     *  process's control groups, read at creation and once a second by ticks; 0: do not look. Without a
     *  limit there it has no effect; with a `ceiling` the smaller of the two holds. */
    uint32_t ceiling_percent;
    /** HEARTH_SERVICE_* joined. */
    uint32_t flags;
    /** An enum hearth_exec_store, of all execution arenas. Slabs of plans are the service's, and lent to an arena for
     *  the time of a run. */
    uint32_t exec_store;
    /** Must be zero. */
    uint32_t reserved_word;
    uint64_t reserved[3];
};

#define HEARTH_SERVICE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(struct hearth_service_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, 0, 0,  \
            0, 0, 0, 0, 0, 0,                                                                      \
        {                                                                                          \
            0, 0, 0                                                                                \
        }                                                                                          \
    }

/**
 * Create a service. No thread is attached, the calling one included, and no thread is started.
 *
 * `options` may be NULL: no caps, no ceiling, grow, and idle storage ages. The environment variable
 * HEARTH_CONF overrides; see hearth_conf_check().
 * Thread: any. Progress: may make system calls and wait for a grace period.
 * Ownership: the caller holds one reference, given up by hearth_service_unref().
 * Returns INVALID (NULL service, options->size is not one this library knows, an option that is
 * impossible, a non-zero reserved word, HEARTH_CONF cannot be parsed), OVERFLOW (more slots than
 * can exist), NO_MEMORY, BUSY (inside a read section of the caller's own).
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_service_create(const struct hearth_service_options *options,
                      struct hearth_service **service);

/** Take one more reference. Thread: any. Progress: wait-free. NULL is fine. */
HEARTH_API void hearth_service_ref(struct hearth_service *service);

/**
 * Give up a reference. The last one closes the service and gives its retained storage back; caches
 * that are inside an operation finish the work themselves. Outstanding buffers and leases stay
 * valid and are returned as before; the last return gives back payload and cores.
 * Thread: any, also one that was never attached. Progress: lock-free except for the last reference,
 * which may wait for a grace period. NULL is fine.
 */
HEARTH_API void hearth_service_unref(struct hearth_service *service);

/**
 * Close the service: returns at once. From then on attaching, alloc, lease, take, adopt, bulk and
 * prefill answer CLOSED, and waiters wake with CLOSED; free, retain, view, release and export of
 * live buffers go on working, and returned storage goes straight back to the backing. The caller's
 * reference stays.
 * Thread: any. Progress: waits for nobody's operation; takes the locks of the waiters' queue and of
 * the maintenance thread's sleep, which are held for moments.
 * Returns OK, CLOSED (already closed), INVALID.
 */
HEARTH_API enum hearth_status hearth_service_close(struct hearth_service *service);

/**
 * This thread's execution arena. The first call of a thread attaches it: it takes over an arena
 * that an ended thread left behind, with its warm storage, or creates one. No shutdown call is
 * needed: at thread exit the retained storage goes to the next thread, within the caps and the
 * ceiling. A call from a thread-exit destructor after that attaches once more.
 *
 * Thread: any. Progress: wait-free when the thread is attached; the first call may make system
 * calls.
 * Ownership: the arena is the service's, and *arena is valid on this thread until it detaches or
 * exits or the last reference to the service goes; buffers may be returned to it from anywhere at
 * any time. hearth_exec_destroy(), hearth_exec_detach() and hearth_exec_release_owner() on it are
 * INVALID.
 * Returns CLOSED, NO_MEMORY, BUSY (re-entered from a signal handler during the first call, or in the
 * last round of a thread's exit destructors, after which nobody would detach it), INVALID.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status hearth_service_exec(struct hearth_service *service,
                                                                   struct hearth_exec **arena);

/**
 * This thread's execution arena for work that is nested `depth` levels deep, such as the body of a
 * subgraph: work at one depth does not find its storage taken, or its figures moved, by the work that
 * it interrupts. Depth 0 is hearth_service_exec(). Each other depth is an arena of its own, attached
 * by its first use (the thread itself with it, if it was not), and the same one for later calls of
 * this thread. It is given up with the thread's other arenas. An arena that an ended thread left
 * serves any depth of another thread; one of the same depth is preferred.
 *
 * Everything said of execution arenas holds for it: exec_cap bounds it by itself; ceiling, floors and
 * limits bound all of them together; trims, ageing and ticks reach it. hearth_service_thread_count()
 * counts threads, whatever their depths. hearth_service_prefill() and hearth_service_alloc_bulk() mean
 * depth 0.
 *
 * Thread: any. Progress: wait-free when there is an arena for the depth (a walk over the thread's
 * arenas, of all services); else as the first call of hearth_service_exec().
 * Ownership: as hearth_service_exec().
 * Returns as hearth_service_exec(), BUSY also when re-entered from a signal handler during any such
 * call; INVALID also for a depth above HEARTH_CHILD_DEPTH_MAX.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_service_child_exec(struct hearth_service *service, unsigned depth,
                          struct hearth_exec **arena);

/**
 * Detach the calling thread now instead of at its exit, for pools that keep threads idle. Its
 * outstanding buffers stay valid; its retained storage, at all depths, goes to the next threads that
 * attach.
 * Thread: any; OK when it was not attached. Progress: lock-free outside the backing.
 * Returns OK, BUSY (called from inside an operation of one of its arenas: it stays attached as it
 * was), INVALID.
 */
HEARTH_API enum hearth_status hearth_service_detach(struct hearth_service *service);

/**
 * The service's I/O arena. Thread: any. Progress: wait-free.
 * Ownership: the service's; valid while the caller holds a reference to the service, or one taken
 * with hearth_io_ref(). hearth_io_close() and hearth_io_destroy() on it are INVALID. NULL for NULL.
 */
HEARTH_API struct hearth_io *hearth_service_io(const struct hearth_service *service);

/**
 * The backing that one domain's storage comes from. Thread: any. Wait-free.
 * Ownership: the service's; take a reference with hearth_backing_ref() to keep it longer. NULL for
 * NULL and for an unknown domain.
 */
HEARTH_API struct hearth_backing *hearth_service_backing(const struct hearth_service *service,
                                                         enum hearth_domain domain);

/**
 * Tell that the calling thread finished one run: the clock of ageing by runs for its execution
 * arenas of all depths and, once per call, for the I/O arena. It gives back at most a bounded slice
 * of aged storage from each. Never calling it leaves ageing by time. hearth_session_run() calls it.
 * Thread: any; nothing happens when it is not attached. Progress: wait-free when nothing aged, else
 * as the backing. Returns OK, CLOSED, BUSY (re-entered), INVALID.
 */
HEARTH_API enum hearth_status hearth_service_end_run(struct hearth_service *service);

/* Giving memory back */

/**
 * Give retained storage back, least recently freed first, from the shared lists, the ended threads'
 * pool and the idle caches of other threads, until `goal_bytes` were released (HEARTH_UNBOUNDED:
 * all) or `budget_ns` nanoseconds have passed (0: no bound). Large storage is released in chunks,
 * so the budget is overrun by one chunk or one backing call at most; the goal by less than one
 * buffer. The order is exact within one arena, and to a quarter of age_ms between arenas.
 *
 * With a budget other than 0 it does not wait for a grace period: what needs one is left to the
 * next call, and report->more says so.
 *
 * Live and leased buffers are untouched. No free waits for a trim; an alloc that meets a visit of its
 * own arena lets it get on a bounded number of times, which takes microseconds. Caches that served an
 * operation since the last pass are not visited but asked to give back in slices of their own;
 * their bytes are reported as kept_busy. There is at most one visiting pass per millisecond and
 * service. Without a budget a trim waits for the one that runs, and looks twice, a millisecond apart,
 * so that it knows who is idle; with one it does neither, and says `more` when it cannot know yet.
 *
 * `report` may be NULL; report->size must be set (HEARTH_TRIM_REPORT_INIT), members beyond it are
 * not written. It is also written, as far as the work went, when the answer is BUSY.
 * Thread: any. Progress: waits for nobody's operation; may wait for a grace period when budget_ns
 * is 0.
 * Returns OK whatever was released, BUSY (inside a read section of the caller's own: what needs no
 * grace period was done; or called back from a pass, by a misuse callback: nothing was done),
 * INVALID.
 */
HEARTH_API enum hearth_status hearth_service_trim(struct hearth_service *service, size_t goal_bytes,
                                                  uint64_t budget_ns,
                                                  struct hearth_trim_report *report);

/**
 * One bounded slice (about a millisecond) of what the maintenance thread does: age, finish closed
 * arenas and ended threads, look at the container's limit again. For event loops, and needed with
 * HEARTH_SERVICE_NO_THREAD. Calling it more often than each millisecond has no effect.
 * Thread: any. Progress: waits for nobody's operation; may wait for a grace period.
 * Returns OK, BUSY, INVALID. OK after the close.
 */
HEARTH_API enum hearth_status hearth_service_tick(struct hearth_service *service);

/* Limits while running. Thread: any. Each evicts at once what is above the new limit and reachable;
 * caches inside an operation follow with their next one. Progress: as hearth_service_trim() with a
 * budget of 0. */

/** Bound the retained bytes of all arenas together; HEARTH_UNBOUNDED lifts the bound, 0 retains
 *  nothing. Lowering it takes effect for new grants at once; retained bytes follow as caches are
 *  reached. Returns BUSY, INVALID. */
HEARTH_API enum hearth_status hearth_service_set_ceiling(struct hearth_service *service,
                                                         size_t bytes);

/** Bound the retained bytes of each arena of the given domains (enum hearth_domain, joined), those
 *  of threads that attach later included. Returns BUSY, INVALID (no or an unknown domain). */
HEARTH_API enum hearth_status hearth_service_set_retention_cap(struct hearth_service *service,
                                                               uint32_t domains, size_t bytes);

/**
 * Change the hard limit on live bytes and its reserve. Buffers already live above a lowered limit
 * stay; new requests are refused until enough were returned. Raising it serves waiters.
 * Returns INVALID (reserve above the limit, a reserve with HEARTH_UNBOUNDED, or a service that was
 * created without a live_limit and so does not count).
 */
HEARTH_API enum hearth_status hearth_service_set_live_limit(struct hearth_service *service,
                                                            size_t bytes, size_t reserve);

/** Change the ageing; the values are those of the options, 0 included. Returns INVALID. */
HEARTH_API enum hearth_status hearth_service_set_ageing(struct hearth_service *service,
                                                        uint32_t age_runs, uint32_t age_ms);

/* Exhaustion */

/** Why the calling thread's last refused request (NO_MEMORY or TIMEOUT) on a service was
 *  refused. */
struct hearth_refusal {
    size_t size;              /**< sizeof(struct hearth_refusal), set by the caller. */
    uint64_t asked_bytes;     /**< The rounded request. */
    uint64_t live_limit;      /**< The limit then; UINT64_MAX if there was none. */
    uint64_t live_bytes;      /**< Capacity live and leased then. */
    uint64_t reclaimed_bytes; /**< Retained storage given back while trying. */
    uint64_t busy_bytes;      /**< Retained in caches inside an operation: not reachable. */
    uint64_t pending_bytes;   /**< Returned, not yet taken in: not reachable. */
    uint64_t reserved_bytes;  /**< In the reserve, closed to a request of its priority. */
    /** Other than 0: the backing gave nothing, as opposed to a limit of ours. */
    uint64_t backing_refused;
    /** Other than 0: hearth_service_cancel() ended the wait, as opposed to its deadline. */
    uint64_t cancelled;
};

#define HEARTH_REFUSAL_INIT                                                                        \
    {                                                                                              \
        sizeof(struct hearth_refusal), 0, 0, 0, 0, 0, 0, 0, 0, 0                                   \
    }

/**
 * Read why this thread's last refusal happened, if it was by `service`; else all zero. Of each thread
 * the last one is remembered, by whatever service.
 * refusal->size must be set; members beyond it are not written. Thread: any. Progress: wait-free.
 * Returns INVALID.
 */
HEARTH_API enum hearth_status hearth_service_refusal(const struct hearth_service *service,
                                                     struct hearth_refusal *refusal);

/** A 64-bit name of the calling thread, never reused and never 0, for hearth_service_cancel(). The
 *  first call of a thread may allocate; 0 if that failed. Thread: any. */
HEARTH_API uint64_t hearth_service_waiter(struct hearth_service *service);

/**
 * Wake requests that wait for storage: that of the thread named `waiter`, or all (0). They answer
 * TIMEOUT before their deadline, having taken nothing; hearth_refusal.cancelled tells the two
 * apart. A thread that is named and does not wait now has its next wait on this service ended, so a
 * cancel is not lost when it comes just before the wait; several of them end one wait. With 0 a
 * request that starts to wait afterwards is not affected. `cancelled`, if not NULL, receives how
 * many were woken now.
 * Thread: any. Progress: takes the waiters' queue lock. Returns OK, INVALID.
 */
HEARTH_API enum hearth_status hearth_service_cancel(struct hearth_service *service, uint64_t waiter,
                                                    size_t *cancelled);

/* Many at once */

/** For hearth_service_prefill(): write to each page now, so that the first use causes no fault. */
#define HEARTH_PREFILL_TOUCH 1u

/**
 * Obtain storage ahead of need: afterwards at least `count` free buffers of one domain serve
 * requests like `request` at the same time. For HEARTH_DOMAIN_EXEC they are in the calling thread's
 * arena, which is attached if needed. `flags`: HEARTH_PREFILL_* joined. request->deadline_ns,
 * priority and zero have no effect. It obtains storage under HEARTH_EXHAUSTION_FAIL too.
 *
 * Prefilled storage counts as retained, and ages as any.
 * Thread: any. Progress: makes system calls; all or nothing.
 * Returns OVERFLOW, NO_MEMORY (the backing refused, or a cap or the ceiling would not let that much
 * be retained), NO_SLOT, CLOSED, BUSY (re-entered), INVALID.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_service_prefill(struct hearth_service *service, enum hearth_domain domain,
                       const struct hearth_request *request, size_t count, uint32_t flags);

/**
 * Take `count` buffers of one domain, each as described by `request`: all or none (entries
 * of `bufs` may be NULL then). For
 * HEARTH_DOMAIN_EXEC from the calling thread's arena. A waiting I/O request waits for all of them
 * together and holds none meanwhile.
 *
 * Thread: any. Progress: as hearth_alloc_ex(). Ownership: as hearth_alloc_ex(), for each of
 * bufs[0] to bufs[count - 1]. 0 buffers are OK.
 * Returns as hearth_alloc_ex(); INVALID for a NULL or an unknown domain.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_service_alloc_bulk(struct hearth_service *service, enum hearth_domain domain,
                          const struct hearth_request *request, size_t count,
                          struct hearth_buf **bufs);

/**
 * Return `count` live buffers of this service, of either domain and of any thread: all or none.
 * Each is checked before the first one is returned, so one that cannot be returned, or is there
 * twice, leaves all as they were; `bad`, if not NULL, then receives its index. Only if another thread
 * wrongly returns one of them at the same moment the others are returned all the same.
 * Thread: any. Progress: lock-free outside the backing.
 * Returns FOREIGN, STALE, LEASED of the entry at *bad; INVALID for a NULL.
 */
HEARTH_API enum hearth_status hearth_service_free_bulk(struct hearth_service *service,
                                                       struct hearth_buf *const *bufs, size_t count,
                                                       size_t *bad);

/** Take `count` leases from the I/O arena, each with one reference: all or none. As
 *  hearth_service_alloc_bulk(). */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_service_lease_bulk(struct hearth_service *service, const struct hearth_request *request,
                          size_t count, struct hearth_lease *leases);

/**
 * Give up one reference of each of `count` leases, of any arenas. This one is not all or none: a
 * reference once given up cannot be taken back. Every entry is tried; `released`, if not NULL,
 * receives how many were OK.
 * Thread: any. Progress: as hearth_lease_release(). Returns the first answer that was not OK, or
 * OK.
 */
HEARTH_API enum hearth_status hearth_lease_release_bulk(const struct hearth_lease *leases,
                                                        size_t count, size_t *released);

/* Getters. Thread: any. Progress: lock-free, proportional to the attached threads. 0 for NULL.
 * Exact at quiescence, within the operations in flight otherwise; none is ever negative. */

/** Threads attached at present. */
HEARTH_API size_t hearth_service_thread_count(const struct hearth_service *service);
/** Requests waiting for storage at present. */
HEARTH_API size_t hearth_service_waiter_count(const struct hearth_service *service);
/** Logical bytes of live and leased buffers, adopted ones included. */
HEARTH_API size_t hearth_service_live_bytes(const struct hearth_service *service);
/** Capacity of live and leased buffers: what live_limit bounds; adopted storage does not count. */
HEARTH_API size_t hearth_service_live_capacity(const struct hearth_service *service);
/** Capacity of free buffers: what the ceiling bounds. */
HEARTH_API size_t hearth_service_retained_bytes(const struct hearth_service *service);
/** Credit granted and not filled with retained storage: at most grant for each thread that used the
 *  service and has not exited, half of it for each of its arenas of a depth above 0, and what a thread
 *  left that exited during a visit, until the next one. */
HEARTH_API size_t hearth_service_stranded_bytes(const struct hearth_service *service);
/** The ceiling in force, the container's included; HEARTH_UNBOUNDED if there is none. */
HEARTH_API size_t hearth_service_ceiling(const struct hearth_service *service);
/** Storage obtained from the backings and not given back. */
HEARTH_API size_t hearth_service_footprint(const struct hearth_service *service);

/* Leak checks, for tests */

struct hearth_leak_check;

/** One buffer that was taken inside a leak check and not returned. Valid during the callback
 *  only. */
struct hearth_leak {
    size_t size;                  /**< sizeof(struct hearth_leak), set by the library. */
    const struct hearth_buf *buf; /**< The buffer. Do not return it from here. */
    size_t bytes;                 /**< Logical bytes. */
    uint64_t age_ns;              /**< Time since it was taken. */
    uint32_t domain;              /**< enum hearth_domain */
    uint32_t references;          /**< References of its lease; 0 when it is not leased. */
    const char *site; /**< Where it was taken, one frame per line; "" if that is not known. */
};

/**
 * Begin a leak check on one service, or on every arena of the process (`service` NULL). Until its
 * end each buffer taken is recorded with time and site, by all threads; that is slow, and
 * allocates. Checks may nest and overlap.
 * Thread: any. Ownership: hearth_leak_check_end() ends it, exactly once; the service is referenced.
 * Returns INVALID, NO_MEMORY, CLOSED.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_leak_check_begin(struct hearth_service *service, struct hearth_leak_check **check);

/**
 * End a leak check: call `fn` for every buffer that was taken since its begin and is still out, or,
 * with a NULL `fn`, print one line for each to standard error. `count`, if not NULL, receives their
 * number in either case.
 * Thread: any. Returns OK when nothing is outstanding, BUSY when something is (the check has ended
 * all the same), INVALID for NULL.
 */
HEARTH_API HEARTH_NODISCARD enum hearth_status
hearth_leak_check_end(struct hearth_leak_check *check,
                      void (*fn)(void *context, const struct hearth_leak *leak), void *context,
                      size_t *count);

HEARTH_END_DECLS

#endif
