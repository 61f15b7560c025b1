/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debugging at run time: patterns, shadow and acquisition sites, told of by arenas on their general
 * paths. See docs/debug.md. An arena whose flags are not 0 has its plain paths closed.
 */
#ifndef HEARTH_CORE_DEBUG_H
#define HEARTH_CORE_DEBUG_H

#include "core/atomic.h"
#include "core/buf.h"
#include "core/conf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What memory holds that nobody should read, each cause with a pattern of its own. Repeated over a word
 * none is a plausible pointer, count or float. */
#define HEARTH__POISON_RETURNED 0xdb /* the buffer was returned: use after return */
#define HEARTH__POISON_FRESH 0xfa /* handed out and never written: use of uninitialised storage */

/* Set by itself, in addition to those of HEARTH_CONF: under AddressSanitizer and valgrind's memcheck, what
 * is not handed out is inaccessible. */
#define HEARTH__DEBUG_SHADOW 32u

/* HEARTH__DEBUG_SHADOW if a tool is there that it is for, else 0. */
uint32_t hearth__debug_ambient(void);

/* Leak checks that are on, for which all arenas record sites. Writer: concurrent/leak.c. */
extern _Atomic(uint32_t) hearth__debug_checks;

/* Of the flags in HEARTH_CONF those that an arena looks at on its paths, and the ambient one. */
static inline uint32_t hearth__debug_arena(uint32_t conf)
{
    const uint32_t paths = HEARTH__DEBUG_POISON | HEARTH__DEBUG_QUARANTINE | HEARTH__DEBUG_SITES;
    return (conf & paths) | hearth__debug_ambient();
}

/* An arena's flags together with what is asked of all of them at present. */
static inline uint32_t hearth__debug_flags(uint32_t own)
{
    return hearth__load_relaxed(&hearth__debug_checks) == 0 ? own : own | HEARTH__DEBUG_SITES;
}

/* A buffer is about to be handed out with `size` logical bytes: its capacity becomes accessible. `zero`: its
 * logical bytes are zero or will be set to it; else what they hold is nobody's business. The caller's alone;
 * any flags. */
void hearth__debug_taken(uint32_t flags, struct hearth_buf *buf, size_t size, bool zero);

/* As above for storage that is about to go over to a buffer which is out already, and stays what it was. */
void hearth__debug_moved(uint32_t flags, struct hearth_buf *spare);

/* A buffer came home, and is not reusable yet. */
void hearth__debug_returned(uint32_t flags, struct hearth_buf *buf);

/* Storage is on its way to a backing, which may do with it what it likes. */
void hearth__debug_released(void *data, size_t bytes);

/* Whether a returned buffer's storage holds nothing but HEARTH__POISON_RETURNED; else the first other
 * byte's place. */
bool hearth__debug_intact(const struct hearth_buf *buf, size_t *at);

/* Acquisition sites: sites.c. */

#define HEARTH__SITE_FRAMES 8

struct hearth__site {
    uint64_t serial;  /* of the taking, among all */
    uint64_t time_ns; /* of CLOCK_MONOTONIC */
    void *frames[HEARTH__SITE_FRAMES];
};

/* Takings so far: one that is recorded later has a larger serial. */
uint64_t hearth__site_serial(void);

/* The first backtrace of a process loads the unwinder: to be called where that may allocate. */
void hearth__site_prepare(void);

/* Note the calling thread's stack as the site at which the buffer, in its present generation, was taken. */
void hearth__site_record(const struct hearth_buf *buf);

/* The site at which generation `generation` of a slot was taken; false if it is not known. */
bool hearth__site_find(uint32_t index, uint64_t generation, struct hearth__site *site);

/* One frame per entry, `separator` between them. Always terminated. */
void hearth__site_text(const struct hearth__site *site, const char *separator, char *text,
                       size_t bytes);

#endif
