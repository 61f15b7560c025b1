/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Execution arena: what it owes to the service it belongs to.
 *
 * Ceiling. While there is one, the plain paths are closed (METERED), and the general ones keep two figures: the
 * weight in the store, and what of it was charged to the budget. A return that finds no credit takes it from
 * the budget, a grant at a time, before the storage is kept; what the store no longer fills is given back at
 * the end of the operation, but for half a grant. So between operations
 *
 *     stored <= charge <= stored + grant / 2
 *
 * and the sum of all charges is what the budget lent. A return that gets no credit makes room in its own store,
 * least recently freed first, and asks the service, once it is outside, to make room elsewhere for the next one:
 * so an idle thread's storage gives way to a busy one's within a few runs.
 *
 * Asked. A pass that finds the owner at work leaves word (ASKED) of what is too old; the owner gives it back in
 * slices, at the end of its next operations.
 */
#include "concurrent/exec_spans.h"
#include "concurrent/service.h"

/* Slots given back in one slice. */
#define SLICE 16u

void hearth__exec_meter(struct hearth_exec *arena, bool walk)
{
    if (arena->budget == NULL || arena->metering)
        return;
    if (walk || arena->with_plans) {
        size_t slots;
        size_t bytes;
        arena->store->ops->count(arena->store, &slots, &bytes);
        arena->stored = (int64_t)(hearth__weight_of(slots, bytes) + arena->span_stored);
    } else {
        arena->stored = (int64_t)(hearth__exec_retained(arena) -
                                  hearth__weight_of(0, hearth__load_relaxed(&arena->cold_bytes)));
    }
    arena->metering = true;
}

static int64_t grant_of(const struct hearth_exec *arena)
{
    return hearth__units(arena->budget->grant);
}

bool hearth__exec_charge(struct hearth_exec *arena, const struct hearth_buf *buf,
                         struct hearth__exec_after *after)
{
    if (!arena->metering)
        return true;
    int64_t need = arena->stored + (int64_t)hearth__load_relaxed(&buf->weight) - arena->charge;
    if (need <= 0)
        return true;
    int64_t got = hearth__budget_charge(arena->budget, need, need + grant_of(arena) / 4);
    arena->charge += got;
    if (got != 0)
        return true;
    if (after->visiting || (int64_t)hearth__load_relaxed(&buf->weight) >
                               hearth__units(hearth__budget_ceiling(arena->budget)))
        return false; /* what is larger than the ceiling evicts nobody */
    arena->room_wanted = need;
    if (arena->stored < need)
        return false;
    while (need > 0) {
        struct hearth_buf *victim =
            hearth__exec_store_evict(arena, UINT64_MAX, hearth__exec_bytes_of(need));
        if (victim == NULL)
            return arena->spans != NULL; /* pages of theirs go at the end of the operation */
        need -= (int64_t)hearth__exec_stored_weight(victim);
        hearth__cell_add(&arena->cells.evictions, 1);
        hearth__exec_chain_push(after, victim);
    }
    return true;
}

bool hearth__exec_charge_ahead(struct hearth_exec *arena, int64_t weight)
{
    int64_t need = arena->stored + weight - arena->charge;
    if (!arena->metering || need <= 0)
        return true;
    int64_t got = hearth__budget_charge(arena->budget, need, need);
    arena->charge += got;
    return got != 0;
}

/* Charge for what the store holds, or evict it. */
static void catch_up(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    while (arena->stored > arena->charge) {
        int64_t need = arena->stored - arena->charge;
        int64_t got = hearth__budget_charge(arena->budget, need, need);
        arena->charge += got;
        if (got != 0 || after->visiting)
            return;
        struct hearth_buf *victim =
            hearth__exec_store_evict(arena, UINT64_MAX, hearth__exec_bytes_of(need));
        if (victim == NULL)
            return;
        hearth__cell_add(&arena->cells.evictions, 1);
        hearth__exec_chain_push(after, victim);
    }
}

/* Below zero, after the ceiling came down: the arena's part of making it good. */
static void give_in(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    int64_t missing = hearth__budget_missing(arena->budget);
    while (missing > 0) {
        int64_t surplus = arena->charge - arena->stored;
        int64_t amount = surplus < missing ? surplus : missing;
        if (amount > 0) {
            arena->charge -= amount;
            hearth__budget_refund(arena->budget, amount);
        }
        missing = hearth__budget_missing(arena->budget);
        struct hearth_buf *victim =
            missing > 0 && !after->visiting
                ? hearth__exec_store_evict(arena, UINT64_MAX, hearth__exec_bytes_of(missing))
                : NULL;
        if (victim == NULL)
            return;
        hearth__cell_add(&arena->cells.evictions, 1);
        hearth__exec_chain_push(after, victim);
    }
}

void hearth__exec_settle(struct hearth_exec *arena, struct hearth__exec_after *after)
{
#ifdef HEARTH_BROKEN_UNCHARGED
    arena->charge = arena->stored;
#endif
    if (!arena->metering)
        return;
    catch_up(arena, after);
    if (hearth__unlikely(hearth__budget_missing(arena->budget) > 0))
        give_in(arena, after);
    int64_t surplus = arena->charge - arena->stored;
    int64_t grant = grant_of(arena);
    if (surplus > grant / 2) {
        arena->charge -= surplus - grant / 4;
        hearth__budget_refund(arena->budget, surplus - grant / 4);
    }
}

void hearth__exec_discharge(struct hearth_exec *arena)
{
    if (!arena->metering)
        return;
    int64_t surplus = arena->charge - arena->stored;
    if (surplus <= 0)
        return;
    arena->charge -= surplus;
    hearth__budget_refund(arena->budget, surplus);
}

struct hearth_buf *hearth__exec_evict_within(struct hearth_exec *arena, uint64_t before,
                                             size_t most, size_t goal)
{
    size_t warm = most == 0 || goal < most ? goal : most;
    struct hearth_buf *buf = hearth__exec_store_evict(arena, before, warm);
    if (buf == NULL || most == 0 || (buf->alignment_log & HEARTH__MARK_SEGMENT) != 0 ||
        hearth__buf_capacity(buf) <= most)
        return buf;
    arena->stored += (int64_t)hearth__load_relaxed(&buf->weight);
    arena->store->ops->give_back(arena->store, buf);
    return NULL;
}

void hearth__exec_take_cap(struct hearth_exec *arena)
{
    if ((hearth__load_relaxed(&arena->section.attention) & HEARTH__ATTENTION_CREDIT) == 0)
        return;
    (void)hearth__fetch_and_acquire(&arena->section.attention, ~HEARTH__ATTENTION_CREDIT);
    hearth__exec_set_cap(arena, hearth__load_relaxed(&arena->service->exec_cap));
}

void hearth__exec_serve(struct hearth_exec *arena, struct hearth__exec_after *after)
{
    uint32_t attention = hearth__load_acquire(&arena->section.attention);
    if ((attention & HEARTH__ATTENTION_CREDIT) != 0) {
        hearth__exec_take_cap(arena);
        hearth__exec_evict_to(arena, hearth__load_relaxed(&arena->retention_cap), after);
    }
    hearth__exec_settle(arena, after);
    uint64_t before = 0;
    if ((attention & HEARTH__ATTENTION_CLOSED) != 0)
        before = UINT64_MAX;
    else if ((attention & HEARTH__ATTENTION_ASKED) != 0)
        before = hearth__load_relaxed(&arena->asked_before);
    else
        return;
    (void)hearth__fetch_and_acquire(&arena->section.attention, ~HEARTH__ATTENTION_ASKED);
    if (hearth__exec_evict_old(arena, before, SLICE, after) == SLICE)
        (void)hearth__fetch_or_release(&arena->section.attention, HEARTH__ATTENTION_ASKED);
    hearth__exec_settle(arena, after);
}

void hearth__exec_after(struct hearth_exec *arena, int64_t wanted)
{
    if (wanted > 0)
        (void)hearth__service_make_room(arena->service, arena, wanted);
    hearth__section_barrier();
    if ((hearth__load_acquire(&arena->section.attention) & HEARTH__ATTENTION_GONE) != 0)
        hearth__exec_end_own(arena);
}

bool hearth__exec_reclaim_others(struct hearth_exec *arena)
{
    return arena->service != NULL && hearth__service_reclaim(arena->service) != 0;
}

void hearth__exec_grew(struct hearth_exec *arena, size_t bytes)
{
    if (arena->service != NULL)
        hearth__service_grew(arena->service, bytes);
}

enum hearth_status hearth__exec_refused(struct hearth_exec *arena, const struct hearth__want *want,
                                        bool by_limit)
{
    if (arena->service != NULL)
        hearth__service_refused(arena->service, want->bytes, HEARTH_PRIORITY_NORMAL,
                                by_limit || arena->fixed ? 0 : HEARTH__REFUSED_BY_BACKING);
    return HEARTH_NO_MEMORY;
}
