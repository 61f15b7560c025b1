/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grace periods: the only user of liburcu (flavour bp). See the essay in reclaim.c and ADR 0008.
 */
#ifndef HEARTH_CONCURRENT_RECLAIM_H
#define HEARTH_CONCURRENT_RECLAIM_H

#include <hearth/status.h>

#include <stdbool.h>

/* A read section, for threads that have no section of their own (section.h). May be nested, also into
 * one of the caller's own. Async-signal-safe. */
void hearth__reclaim_enter(void);
void hearth__reclaim_leave(void);

/* Something that has to wait for a grace period. */
struct hearth__retired {
    struct hearth__retired *next;
    /* Wait until every section that the object knows of, and that began before the call, has ended. A
     * membarrier was issued before. */
    void (*wait)(struct hearth__retired *retired);
    /* The grace period is over. Called once; the object may be gone afterwards. */
    void (*after)(struct hearth__retired *retired);
};

/* Put on the list of those who wait. Lock-free. */
void hearth__reclaim_retire(struct hearth__retired *retired);

/* In a forked child, while it has one thread: whether it is on the list. */
bool hearth__reclaim_is_waiting(const struct hearth__retired *retired);

/* Whether anything waits. Wait-free. */
bool hearth__reclaim_pending(void);

/* Serve everything that waits with one grace period; on return everything that was retired before the call
 * has been served, by whomever. Waits for sections and for other reclaimers. BUSY inside a read section of
 * the caller's own: nothing is lost. */
enum hearth_status hearth__reclaim_run(void);

/* Whether a grace period could be waited for: not inside a read section of the caller's own. */
bool hearth__reclaim_may_wait(void);

/* Called in a forked child, while it has one thread, before anybody else may use the library. */
struct hearth__fork_hook {
    void (*child)(void);
    struct hearth__fork_hook *next;
};

/* For constructors. */
void hearth__reclaim_on_fork(struct hearth__fork_hook *hook);

#endif
