/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, and what they keep between runs. */
#ifndef HEARTH_RUNTIME_SESSION_H
#define HEARTH_RUNTIME_SESSION_H

#include "core/atomic.h"
#include "runtime/context.h"
#include "runtime/demand.h"
#include "runtime/run.h"

#include <hearth/session.h>

#include <pthread.h>

struct hearth__lane;

struct hearth_session {
    struct hearth_plan *plan;       /* referenced */
    struct hearth_service *service; /* referenced; NULL */
    struct hearth__demand demand;   /* of runs so far */
    _Atomic(uint64_t) active; /* runs that are going on; ENDED is added by destroy. Writer: any */
    _Atomic(uint64_t) runs;   /* so far */
    pthread_mutex_t lock;
    struct hearth__lane *lanes;    /* not in use; guarded by lock */
    struct hearth__holder *bodies; /* not in use; guarded by lock */
};

/* Around everything that a session must not end under. */
void hearth__session_enter(struct hearth_session *session);
void hearth__session_leave(struct hearth_session *session);

/* A body's context from the session's idle ones, or a new one. */
enum hearth_status hearth__session_body(struct hearth_session *session, struct hearth_plan *plan,
                                        struct hearth__holder **body);
void hearth__session_return_body(struct hearth_session *session, struct hearth__holder *body);

/* Run on this thread and whatever helpers the executor sends (run_parallel.c). The run was not begun. */
enum hearth_status hearth__run_parallel(struct hearth__run *run,
                                        const struct hearth_executor *executor, uint32_t *threads);

/* Calls that an executor may run at a time. */
uint32_t hearth__executor_threads(const struct hearth_executor *executor);

/* At a session's beginning: lanes for so many parallel runs at a time. False: no memory; what is there stays. */
bool hearth__lanes_create(struct hearth_session *session, uint32_t count);

/* At a session's end: its idle lanes. */
void hearth__lanes_end(struct hearth_session *session);

#endif
