/* SPDX-License-Identifier: Apache-2.0 */
/* Service: its threads' execution arenas in a forked child, where only one of the threads is left. */
#include "concurrent/service.h"

/* An arena of a thread that does not exist here, or one that somebody was visiting. */
static void orphan(struct hearth_exec *arena)
{
    struct hearth__section *section = &arena->section;
    uint32_t attention = hearth__load_relaxed(&section->attention);
    uint64_t owner = hearth__load_relaxed(&arena->owner);
    /* By its owner; or, when it was wound up and shows none, by the list. */
    bool own = owner == hearth__thread_token_peek() || hearth__service_has(arena);
    bool ended = (attention & HEARTH__ATTENTION_ENDED) != 0;
    bool visited = !ended && (attention & HEARTH__ATTENTION_VISITED) != 0;
    bool inside = hearth__section_busy(section) || hearth__load_relaxed(&arena->running) != 0;
    /* A visitor that found the owner inside had no part in what the owner was doing; the owner that found a visitor
     * did. What was wound up already is lost with all it holds if that was going on. */
    if (own ? visited && (!inside || arena->visited) : !ended && (inside || visited))
        hearth__exec_lose(arena, own, visited || hearth__section_busy(section));
    if (!ended)
        (void)hearth__fetch_and_acq_rel(&section->attention, ~HEARTH__ATTENTION_VISITED);
    if (own || (attention & HEARTH__ATTENTION_DEAD) != 0)
        return;
    arena->run.asked = false;
    arena->run.to_end = arena->run.book != NULL;
    hearth__store_relaxed(&arena->owner, HEARTH__OWNER_POOLED);
    hearth__section_leave(section, hearth__exec_gate(arena, HEARTH__OWNER_POOLED));
    attention = hearth__fetch_or_acq_rel(&section->attention, HEARTH__ATTENTION_DEAD);
    /* In the middle of a claim it had no owner yet, and perhaps no hold: rather one too many than one too few. */
    arena->orphans += owner != HEARTH__OWNER_POOLED;
    if ((attention & HEARTH__ATTENTION_GONE) != 0)
        arena->orphaned_at_end = true;
}

void hearth__service_settle_orphans(struct hearth_service *service)
{
    size_t holds = 0;
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service) {
        holds += arena->orphans;
        arena->orphans = 0;
        if (!arena->orphaned_at_end)
            continue;
        arena->orphaned_at_end = false;
        hearth__exec_see_to_end(arena);
        hearth__exec_drop(arena);
    }
    for (; holds > 0; holds--)
        hearth__service_let_go(service);
}

void hearth__service_threads_after_fork(struct hearth_service *service)
{
    struct hearth_exec *arena = hearth__service_arenas(service);
    for (; arena != NULL; arena = arena->next_in_service)
        orphan(arena);
}
