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

/* Debug flags. */
#define HEARTH__DEBUG_POISON 1u

struct hearth__conf {
    /* Which of the members below were given. */
    bool has_exec_cap, has_io_cap, has_reuse_ratio, has_slots, has_huge_pages;
    size_t exec_cap;
    size_t io_cap;
    size_t slots;
    uint32_t reuse_ratio;
    uint32_t huge_pages; /* enum hearth_huge_pages */
    uint32_t debug;      /* HEARTH__DEBUG_* */
    enum hearth__conf_backing backing;
};

/* Parse `text` (NULL: empty). On INVALID, `message` says what is wrong with which key. */
enum hearth_status hearth__conf_parse(const char *text, struct hearth__conf *conf, char *message,
                                      size_t bytes);

/* Parse the environment's HEARTH_CONF; a bad one is told to the misuse callback for `call`. */
enum hearth_status hearth__conf_environment(const char *call, struct hearth__conf *conf);

#endif
