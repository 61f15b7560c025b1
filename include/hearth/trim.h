/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file trim.h
 * What a trim reports: how much it gave back, and why the rest stayed.
 *
 * Filled by hearth_io_trim_ex() and hearth_service_trim().
 */
#ifndef HEARTH_TRIM_H
#define HEARTH_TRIM_H

#include <stddef.h>
#include <stdint.h>

/**
 * The one list of a trim report's figures: X(name, unit, text). With nobody else working,
 * released_bytes and the kept_* figures add up to the footprint before the trim, except that
 * kept_by_backing is beside the sum: it is storage already given back to the backing. New figures
 * are added at the end.
 */
#define HEARTH_TRIM_REPORT_MAP(X)                                                                  \
    X(released_bytes, "bytes", "retained storage given back to the backing")                       \
    X(released_exec_bytes, "bytes", "the part of it from execution arenas")                        \
    X(released_io_bytes, "bytes", "the part of it from the I/O arena")                             \
    X(purged_bytes, "bytes", "pages given back to the kernel: by the backing, or of free spans")   \
    X(kept_live, "bytes", "capacity handed out and not leased, and cold spans between")            \
    X(kept_leased, "bytes", "capacity handed out through leases")                                  \
    X(kept_pending, "bytes", "returned, not yet taken in by the owner")                            \
    X(kept_busy, "bytes", "retained in caches that were inside an operation or too active")        \
    X(kept_unreached, "bytes", "retained, left because of the goal, the budget or a grace period") \
    X(kept_lost, "bytes", "in caches abandoned when this process was forked")                      \
    X(kept_by_backing, "bytes", "given back, but kept by the backing")                             \
    X(visited_caches, "count", "threads' caches visited")                                          \
    X(busy_caches, "count", "threads' caches left alone")                                          \
    X(elapsed_ns, "nanoseconds", "time the call took")

/** What a trim did, and why the rest stayed. Adopted storage is in none of the figures. */
struct hearth_trim_report {
    size_t size; /**< sizeof(struct hearth_trim_report), set by the caller. */
    /** Other than 0: the budget ended the trim, or what is left needs a grace period that it did
     *  not wait for. Calling again continues. */
    uint64_t more;
#define HEARTH_TRIM_MEMBER(name, unit, text) uint64_t name;
    HEARTH_TRIM_REPORT_MAP(HEARTH_TRIM_MEMBER)
#undef HEARTH_TRIM_MEMBER
};

#define HEARTH_TRIM_REPORT_INIT                                                                    \
    {                                                                                              \
        sizeof(struct hearth_trim_report), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0             \
    }

#endif
