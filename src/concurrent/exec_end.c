/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: the end of one that belongs to a service.
 *
 * Problem. When the last user of a service is gone, its arenas have to end: those of threads that are idle, for
 * they may never call again; those of threads that are in the middle of an operation; and those whose threads
 * exit at this moment. Exactly once each, with nobody waiting for an operation that may last.
 *
 * Picture. The end is a visit that is never over.
 *
 *     closer                                        owner
 *     raise GONE                                    an operation that begins sees GONE: hands off, CLOSED
 *     raise VISITED, membarrier
 *     owner outside, and nothing running?           at the end of an operation: running = 0, then look:
 *       yes: raise ENDED, end the arena               GONE? raise VISITED. It was down: raise ENDED, end it
 *       no:  lower VISITED, membarrier, look again                    It was up: whoever has it looks again
 *
 * Whoever has VISITED when the owner is outside ends the arena. An owner that finds VISITED up has stored
 * `running` before, and the visitor, who lowers the flag after that, looks again; so does any other visitor
 * that finds GONE when it lowers. The closer returns while an operation is running, for then the owner comes
 * to its end, looks, and finds the flag down.
 *
 * Holds. The core must stay while storage is out, while the owner's thread has it on its list and while the service
 * has it in its registry. DEAD and GONE are raised once each, by the
 * thread when it gives the arena up and by the closer; whoever comes second gives up the owner's hold.
 *
 * Ordering. section.visit, section.leave, exec.outstanding, exec.holds, service.owner.
 */
#include "concurrent/exec.h"

#include "concurrent/membarrier.h"
#include "core/perturb.h"

#include <sched.h>

/* VISITED is the caller's, and the owner is outside. */
static void end_now(struct hearth_exec *arena)
{
    (void)hearth__fetch_or_acq_rel(&arena->section.attention, HEARTH__ATTENTION_ENDED);
    (void)hearth__exec_wind_up(arena);
}

void hearth__exec_see_to_end(struct hearth_exec *arena)
{
    struct hearth__section *section = &arena->section;
    for (;;) {
        uint32_t before = hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_VISITED);
        if ((before & HEARTH__ATTENTION_ENDED) != 0)
            return;
        if ((before & HEARTH__ATTENTION_VISITED) != 0) {
            /* A visit is short. */
            (void)sched_yield();
            continue;
        }
        /* Where the kernel has none of the kind, it takes the time that makes up for it. */
        (void)hearth__membarrier();
        HEARTH__PERTURB("section.visit");
        if (hearth__section_visit(section) && hearth__load_acquire(&arena->running) == 0) {
            end_now(arena);
            return;
        }
        (void)hearth__section_lower(section);
        (void)hearth__membarrier();
        /* EDGE section.leave, observe: an operation that goes on now ends later, and looks then. */
        if (hearth__load_acquire(&arena->running) != 0)
            return;
        (void)sched_yield();
    }
}

bool hearth__exec_close(struct hearth_exec *arena)
{
    /* EDGE service.owner, observe: of the two who give an arena up the second sees the first. */
    uint32_t before = hearth__fetch_or_acq_rel(&arena->section.attention,
                                               HEARTH__ATTENTION_GONE | HEARTH__ATTENTION_CLOSED);
    hearth__exec_see_to_end(arena);
    return (before & HEARTH__ATTENTION_DEAD) != 0;
}

void hearth__exec_end_own(struct hearth_exec *arena)
{
    if (hearth__load_relaxed(&arena->running) != 0)
        return;
#ifdef HEARTH_BROKEN_END_TWICE
    end_now(arena);
#else
    if (hearth__section_raise(&arena->section))
        end_now(arena);
#endif
}
