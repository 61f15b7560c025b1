/* SPDX-License-Identifier: Apache-2.0 */
/* The errors that one thread met: counted, and the first few kept until they can be printed outside
 * the measured part. */
#ifndef HEARTH_TOOL_REPLAY_LOG_H
#define HEARTH_TOOL_REPLAY_LOG_H

#include "pattern.h"
#include "trace.h"

#include <hearth/status.h>

#include <stdbool.h>
#include <stdint.h>

enum replay_failure_kind {
    REPLAY_FAILED_ALLOC,
    REPLAY_FAILED_FREE,
    REPLAY_FAILED_CHECK,
    REPLAY_FAILED_TELL,
    REPLAY_FAILURE_KINDS,
};

struct replay_failure {
    struct trace_event event;
    enum replay_failure_kind kind;
    enum hearth_status status;
    struct pattern_mismatch mismatch;
    uint32_t clone;
    uint32_t pass;
    bool by_consumer;
};

/* Failures kept per thread and kind; the rest is counted. */
#define REPLAY_FAILURES_KEPT 2u

struct replay_log {
    uint64_t errors[REPLAY_FAILURE_KINDS];
    struct replay_failure failures[REPLAY_FAILURE_KINDS][REPLAY_FAILURES_KEPT];
};

static inline void replay_log_add(struct replay_log *log, const struct replay_failure *failure)
{
    uint64_t before = log->errors[failure->kind]++;
    if (before < REPLAY_FAILURES_KEPT) {
        log->failures[failure->kind][before] = *failure;
    }
}

#endif
