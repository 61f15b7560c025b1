/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to an I/O arena: when they give up the GIL, and how they wait. */
#include "arena.h"

/* A request that waits looks for signals this often, and takes its place in the queue anew. */
#define SIGNALS_NS 500000000u

/* Until a deadline, without the GIL. A signal's exception ends it with *raised. */
static enum hearth_status wait_for_lease(struct hearth_io *io, struct hearthpy_asked *asked,
                                         struct hearth_lease *lease, bool *raised)
{
    for (;;) {
        enum hearth_status status;
        uint64_t now = hearthpy_now_ns();
        uint64_t slice = now + SIGNALS_NS < asked->deadline ? now + SIGNALS_NS : asked->deadline;
        asked->request.deadline_ns = slice;
        Py_BEGIN_ALLOW_THREADS
        status = hearth_io_lease_ex(io, &asked->request, lease);
        Py_END_ALLOW_THREADS
        *raised = status != HEARTH_OK && PyErr_CheckSignals() != 0;
        /* TIMEOUT before its time: nothing there is to wait for, or the wait was cancelled. */
        if (*raised || status != HEARTH_TIMEOUT || slice == asked->deadline ||
            hearthpy_now_ns() < slice)
            return status;
    }
}

static enum hearth_status lease_now(struct hearth_io *io, const struct hearthpy_asked *asked,
                                    struct hearth_lease *lease)
{
    enum hearth_status status;
    if (asked->request.zero == 0 || asked->request.size < HEARTHPY_ZERO_ALONE)
        return hearth_io_lease_ex(io, &asked->request, lease);
    Py_BEGIN_ALLOW_THREADS
    status = hearth_io_lease_ex(io, &asked->request, lease);
    Py_END_ALLOW_THREADS
    return status;
}

enum hearth_status hearthpy_io_lease(struct hearth_io *io, bool may_wait,
                                     struct hearthpy_asked *asked, struct hearth_lease *lease,
                                     bool *raised)
{
    enum hearth_status status = lease_now(io, asked, lease);
    *raised = false;
    if (status == HEARTH_NO_MEMORY && asked->waits && may_wait)
        status = wait_for_lease(io, asked, lease, raised);
    return status;
}
