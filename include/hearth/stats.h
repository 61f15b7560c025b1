/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file stats.h
 * Numbers: snapshots of an arena, JSON, page observation, and the configuration string.
 *
 * Reading costs the owner nothing: its counters have one writer and are read without a lock.
 */
#ifndef HEARTH_STATS_H
#define HEARTH_STATS_H

#include <hearth/backing.h>
#include <hearth/exec.h>
#include <hearth/export.h>
#include <hearth/io.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

/**
 * The one list of an execution arena's figures: X(name, unit, text). It makes the struct and the
 * JSON. Units: "count", "bytes". New figures are added at the end.
 */
#define HEARTH_EXEC_STATS_MAP(X)                                                                   \
    X(live_count, "count", "buffers handed out and not returned")                                  \
    X(live_bytes, "bytes", "logical bytes of live buffers")                                        \
    X(live_capacity, "bytes", "capacity of live buffers")                                          \
    X(peak_bytes, "bytes", "largest live_bytes since the last reset")                              \
    X(retained_count, "count", "free buffers that kept their storage")                             \
    X(retained_bytes, "bytes", "capacity of free buffers")                                         \
    X(pending_count, "count", "returned by other threads, not yet taken in")                       \
    X(pending_bytes, "bytes", "capacity of pending buffers")                                       \
    X(footprint, "bytes", "storage obtained from the backing and not given back")                  \
    X(retention_cap, "bytes", "bound on retained_bytes")                                           \
    X(slots, "count", "most buffers with storage at a time")                                       \
    X(allocs, "count", "buffers handed out so far")                                                \
    X(frees, "count", "buffers returned so far, pending ones included")                            \
    X(remote_frees, "count", "returns by other threads so far")                                    \
    X(hits, "count", "requests served from retained storage")                                      \
    X(misses, "count", "requests that needed the backing")                                         \
    X(backing_acquires, "count", "storage obtained: from the backing, or for buffers taken")       \
    X(backing_releases, "count", "storage given back, buffers taken included")                     \
    X(evictions, "count", "buffers given back because of the retention cap")                       \
    X(bypasses, "count", "returned buffers larger than the cap, given straight back")              \
    X(trims, "count", "calls to trim")                                                             \
    X(misuses, "count", "wrong calls answered with a status")                                      \
    X(purged_bytes, "bytes", "pages of free spans given back to the kernel so far")                \
    X(rearrangements, "count", "segments of spans given back to be one piece again")               \
    X(runs, "count", "runs that ended, of arenas with plans")                                      \
    X(planned_runs, "count", "runs that followed a plan")                                          \
    X(plan_hits, "count", "requests served by a plan")                                             \
    X(plan_misses, "count", "requests of planned runs that the lists served")                      \
    X(plan_blocked, "count", "of these: the place was not free yet")                               \
    X(plans_made, "count", "runs laid out so far")                                                 \
    X(plans, "count", "plans of the slab used last")                                               \
    X(slab_bytes, "bytes", "size of the slab used last")                                           \
    X(plan_bytes, "bytes", "of it, what the plan used last takes")                                 \
    X(plan_bound, "bytes", "most bytes that the runs it was made from had live at a time")         \
    X(cold_bytes, "bytes",                                                                         \
      "of retained_bytes: not resident, beside what caps and the ceiling bound")

/** One reading of an execution arena. */
struct hearth_exec_stats {
    size_t size; /**< sizeof(struct hearth_exec_stats), set by the caller. */
    /** Whether the figures belong together: none of them changed while they were read. After a few
     *  attempts a reading is given out all the same, each figure then within the sizes of the
     *  operations that ran. */
    bool consistent;
#define HEARTH_STATS_MEMBER(name, unit, text) uint64_t name;
    HEARTH_EXEC_STATS_MAP(HEARTH_STATS_MEMBER)
#undef HEARTH_STATS_MEMBER
};

#define HEARTH_STATS_ZERO(name, unit, text) , 0
#define HEARTH_EXEC_STATS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct hearth_exec_stats), false HEARTH_EXEC_STATS_MAP(HEARTH_STATS_ZERO)           \
    }

/**
 * Read an arena's figures together, in O(1), while its owner works.
 * stats->size must be set; members beyond it are not written.
 * Thread: any, while the arena exists. Progress: wait-free (bounded attempts).
 * Returns INVALID for NULL or a size of 0.
 */
HEARTH_API enum hearth_status hearth_exec_stats(const struct hearth_exec *arena,
                                                struct hearth_exec_stats *stats);

/**
 * Write a reading as one JSON object. At most `bytes` bytes including the terminating NUL are
 * written; *needed, if not NULL, receives the length of the whole text without the NUL.
 * Thread: any. Returns OVERFLOW when the text did not fit (it is cut and terminated), INVALID.
 */
HEARTH_API enum hearth_status hearth_exec_stats_json(const struct hearth_exec_stats *stats,
                                                     char *text, size_t bytes, size_t *needed);

/**
 * The one list of an I/O arena's figures, as HEARTH_EXEC_STATS_MAP. New figures are added at the end.
 */
#define HEARTH_IO_STATS_MAP(X)                                                                     \
    X(live_count, "count",                                                                         \
      "buffers handed out and not returned, leased and adopted ones included")                     \
    X(owned_count, "count", "live buffers that are not leased")                                    \
    X(leased_count, "count", "live buffers held through leases")                                   \
    X(live_bytes, "bytes", "logical bytes of live buffers")                                        \
    X(leased_bytes, "bytes", "logical bytes of leased buffers")                                    \
    X(live_capacity, "bytes", "capacity of live buffers, adopted storage not counted")             \
    X(peak_bytes, "bytes", "largest live_bytes since the last reset")                              \
    X(retained_count, "count", "free buffers that kept their storage")                             \
    X(retained_bytes, "bytes", "capacity of free buffers")                                         \
    X(pending_count, "count", "returned, not yet reusable")                                        \
    X(pending_bytes, "bytes", "capacity of pending buffers")                                       \
    X(footprint, "bytes", "storage obtained from a backing and not given back")                    \
    X(retention_cap, "bytes", "bound on retained_bytes")                                           \
    X(slots, "count", "most buffers with storage at a time")                                       \
    X(misses, "count", "requests that needed the backing")                                         \
    X(backing_acquires, "count", "storage obtained: misses, buffers taken and adopted")            \
    X(backing_releases, "count", "storage given back, or for buffers taken")                       \
    X(exports, "count", "live buffers exported to leases")                                         \
    X(refills, "count", "chains taken from the shared lists into threads' magazines")              \
    X(flushes, "count", "chains given from threads' magazines to the shared lists")                \
    X(evictions, "count", "buffers given back because of the retention cap")                       \
    X(bypasses, "count", "returned buffers larger than the cap, given straight back")              \
    X(trims, "count", "calls to trim")                                                             \
    X(lost_bytes, "bytes", "retained in caches that were abandoned when the process was forked")   \
    X(misuses, "count", "wrong calls that named this arena, answered with a status")

/** One reading of an I/O arena. */
struct hearth_io_stats {
    size_t size;     /**< sizeof(struct hearth_io_stats), set by the caller. */
    bool consistent; /**< As in struct hearth_exec_stats. */
#define HEARTH_STATS_MEMBER(name, unit, text) uint64_t name;
    HEARTH_IO_STATS_MAP(HEARTH_STATS_MEMBER)
#undef HEARTH_STATS_MEMBER
};

#define HEARTH_IO_STATS_INIT                                                                       \
    {                                                                                              \
        sizeof(struct hearth_io_stats), false HEARTH_IO_STATS_MAP(HEARTH_STATS_ZERO)               \
    }

/**
 * Read an I/O arena's figures together, while all threads work.
 * stats->size must be set; members beyond it are not written.
 * Thread: any, while the caller holds a reference. Progress: without a lock, proportional to the threads
 * that used the arena (bounded attempts).
 * Returns INVALID for NULL or a size of 0.
 */
HEARTH_API enum hearth_status hearth_io_stats(const struct hearth_io *io,
                                              struct hearth_io_stats *stats);

/** As hearth_exec_stats_json(), for an I/O arena. */
HEARTH_API enum hearth_status hearth_io_stats_json(const struct hearth_io_stats *stats, char *text,
                                                   size_t bytes, size_t *needed);

/** As hearth_exec_stats_json(), for a backing's counters. */
HEARTH_API enum hearth_status hearth_backing_stats_json(const struct hearth_backing_stats *stats,
                                                        char *text, size_t bytes, size_t *needed);

/** Whose page faults to read. */
enum hearth_scope {
    HEARTH_SCOPE_THREAD = 0,
    HEARTH_SCOPE_PROCESS = 1,
};

/** Page faults and memory as the kernel counts them. */
struct hearth_page_stats {
    size_t size; /**< sizeof(struct hearth_page_stats), set by the caller. */
    uint64_t minor_faults;
    uint64_t major_faults;
    /** Resident bytes of the process; 0 where the kernel does not tell. */
    uint64_t resident_bytes;
};

#define HEARTH_PAGE_STATS_INIT                                                                     \
    {                                                                                              \
        sizeof(struct hearth_page_stats), 0, 0, 0                                                  \
    }

/**
 * Read page figures. Thread: any. Makes system calls; reading them causes no fault of its own once it
 * was called before. Returns INVALID.
 */
HEARTH_API enum hearth_status hearth_page_stats(enum hearth_scope scope,
                                                struct hearth_page_stats *stats);

/**
 * Parse a configuration string as HEARTH_CONF is parsed: comma-separated key:value pairs, sizes with
 * an optional K, M, G or T (powers of 1024).
 *
 *     exec_cap:SIZE      retention cap of execution arenas ("unbounded" lifts it)
 *     io_cap:SIZE        retention cap of I/O arenas
 *     reuse_ratio:N      1 to 1024
 *     slots:N            slots of an arena
 *     backing:NAME       jemalloc or mmap
 *     huge_pages:MODE    default, on or off
 *     debug:FLAGS        poison, quarantine, guard, sites, abort (joined by +); docs/debug.md
 *
 * and for services:
 *
 *     ceiling:SIZE       bytes retained in all arenas together ("unbounded" lifts it)
 *     ceiling_percent:N  1 to 100, of the control group's memory limit
 *     grant:SIZE         credit taken from the ceiling at a time
 *     exec_floor:SIZE    retained execution bytes that the I/O arena never evicts
 *     io_floor:SIZE      retained I/O bytes that execution arenas never evict
 *     live_limit:SIZE    bytes live and leased in all arenas together ("unbounded" lifts it)
 *     exhaustion:POLICY  grow, fail or wait
 *     age_ms:N           milliseconds, or never; 0: the default
 *     age_runs:N         runs, or never; 0: the default
 *     maintenance:MODE   on or off: whether a thread may be started for it
 *
 * Nothing is applied. `message`, if not NULL, receives one line that names the bad key or value and
 * what would be right, or an empty string.
 * Thread: any. Returns INVALID for a string that HEARTH_CONF would be refused for. NULL is OK.
 */
HEARTH_API enum hearth_status hearth_conf_check(const char *text, char *message, size_t bytes);

HEARTH_END_DECLS

#endif
