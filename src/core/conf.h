/* SPDX-License-Identifier: Apache-2.0 */
/* HEARTH_CONF: what an operator says overrides what the program asked for. */
#ifndef HEARTH_CORE_CONF_H
#define HEARTH_CORE_CONF_H

#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hearth__conf_backing {
    HEARTH__CONF_BACKING_UNSET,
    HEARTH__CONF_BACKING_JEMALLOC,
    HEARTH__CONF_BACKING_MMAP,
};

/* Debug flags; see docs/debug.md. */
#define HEARTH__DEBUG_POISON 1u     /* patterns in free and in fresh storage */
#define HEARTH__DEBUG_QUARANTINE 2u /* returned storage waits before it is used again */
#define HEARTH__DEBUG_GUARD 4u      /* inaccessible pages around storage */
#define HEARTH__DEBUG_SITES 8u      /* where and when buffers were taken */
#define HEARTH__DEBUG_ABORT 16u     /* a misuse aborts */
#define HEARTH__DEBUG_SCRUB 64u     /* not a key: zeros over what was returned */

struct hearth__conf {
    /* Which of the members below were given. */
    bool has_exec_cap, has_io_cap, has_reuse_ratio, has_slots, has_huge_pages;
    bool has_ceiling, has_live_limit, has_grant, has_exec_floor, has_io_floor;
    bool has_age_ms, has_age_runs, has_maintenance, has_exhaustion, has_ceiling_percent;
    bool maintenance; /* whether a thread for it may be started */
    size_t exec_cap;
    size_t io_cap;
    size_t slots;
    size_t ceiling;
    size_t live_limit;
    size_t grant;
    size_t exec_floor;
    size_t io_floor;
    uint32_t reuse_ratio;
    uint32_t huge_pages; /* enum hearth_huge_pages */
    uint32_t age_ms;     /* or HEARTH_AGE_NEVER */
    uint32_t age_runs;   /* or HEARTH_AGE_NEVER */
    uint32_t exhaustion; /* enum hearth_exhaustion */
    uint32_t ceiling_percent;
    uint32_t exec_store; /* enum hearth_exec_store */
    uint32_t debug;      /* HEARTH__DEBUG_* */
    enum hearth__conf_backing backing;
};

/* Parse `text` (NULL: empty). On INVALID, `message` says what is wrong with which key. */
enum hearth_status hearth__conf_parse(const char *text, struct hearth__conf *conf, char *message,
                                      size_t bytes);

/* Parse the environment's HEARTH_CONF; a bad one is told to the misuse callback for `call`. */
enum hearth_status hearth__conf_environment(const char *call, struct hearth__conf *conf);

#endif
