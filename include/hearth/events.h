/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file events.h
 * Events of a run: what was made, reused, copied and released, with live and peak bytes.
 *
 * Experimental until 1.0: names, structs and values may change in any version. In libhearth-runtime.
 */
#ifndef HEARTH_EVENTS_H
#define HEARTH_EVENTS_H

#include <hearth/export.h>
#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

HEARTH_BEGIN_DECLS

/** What happened in a step. */
enum hearth_event_kind {
    HEARTH_EVENT_NODE_BEGIN = 1,
    HEARTH_EVENT_NODE_END = 2, /**< The kernel returned, whatever it answered. */
    HEARTH_EVENT_MADE = 3,     /**< A value got storage. */
    HEARTH_EVENT_REUSED = 4,   /**< A value took over an input's storage. */
    HEARTH_EVENT_RELEASED = 5, /**< A value died at its last use. */
    HEARTH_EVENT_COPIED = 6,   /**< A payload copy; see the causes in the file comment. */
    HEARTH_EVENT_TAKEN = 7,    /**< Execution storage was taken by the I/O arena, without a copy. */
    HEARTH_EVENT_EXPORTED = 8, /**< An output became a lease. */
};

/** One event, valid during the callback only. */
struct hearth_event {
    size_t size;                   /**< sizeof(struct hearth_event), set by the library. */
    uint32_t kind;                 /**< enum hearth_event_kind */
    uint32_t thread;               /**< 0: the thread that called run; others from 1. */
    size_t step;                   /**< Nodes started before this one in the run. */
    size_t node;                   /**< HEARTH_NODE_NONE outside of nodes. */
    const char *value;             /**< The value's name; NULL for NODE_BEGIN and NODE_END. */
    uint64_t bytes;                /**< The value's logical bytes. */
    uint64_t execution_live_bytes; /**< Logical bytes of the run in execution arenas now. */
    uint64_t execution_peak_bytes; /**< The largest of them since the run began. */
    uint64_t io_live_bytes;        /**< Logical bytes of the run in the I/O arena now. */
    uint64_t io_peak_bytes;        /**< The largest of them since the run began. */
};

/** An event callback. It runs on the thread the event happened on, in a parallel run on several at
 *  once, outside of the library's protected sections. The object outlives what it was given to. */
struct hearth_event_handler {
    void (*fn)(void *user, const struct hearth_event *event);
    void *user;
};

HEARTH_END_DECLS

#endif
