/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run plans: following one.
 *
 * Problem. A plan says where each buffer of a run lies, and lets later ones lie where earlier ones did. A run that
 * does not go as planned, with one buffer returned late, must not get two owners of one byte.
 *
 * Picture. An entry's predecessors are the entries that used its bytes last, in the order of the plan: one for each
 * piece of its range that somebody had before.
 *
 *     offset  |  1   1   1 |   4   4        predecessors of 4: 2 and 1 (the last painters of its range)
 *             |    2   2 | 3   4   4        predecessors of 3: 2
 *             +-----------------------> requests
 *
 * Rule. An entry is served only if each of its predecessors is over in this run: it was served and came back, or it
 * was given up. To give one up that was not served, its own predecessors must be over. What is over is never
 * served again in this run.
 *
 * Why that is exact. Let q be live and e be served, and a byte of both the same. In the order of the plan, the
 * entries that use this byte form a chain in which each is a predecessor of the next. Say q comes before e. All of
 * the chain between them was over when e was served, and each was served or given up only when the one before was
 * over; so q was over, and it cannot be live. Say e comes before q. When q was served, e was over, so e is not served
 * any more in this run. What is live from an earlier run is not in the chain: entries that touch its bytes are
 * off for as long (hearth__plan_block()), and the rule passes over them as over others that were not served.
 *
 * States of an entry in a run: not served yet; live (its place's slot is live with the entry's tag); over. The slot
 * of a place is shared by all entries that begin at its offset, which are never live together.
 *
 * Cost. Serving in order looks at 1.1 to 1.6 predecessors on recorded runs; a return stores one word.
 *
 * Source. Planned layouts replayed by position: Sekiyama et al., "Profile-guided memory optimization for deep neural
 * networks", 2018. The guard and the return to the plan after a mismatch are ours.
 */
#include "core/run_plan.h"

/* Entries looked at on either side of the cursor. */
#define WINDOW 4

/* Entries before the cursor that tell whether it is one off. */
#define LOOK_BACK 12u

/* Entries given up for one request, one behind the other. */
#define DEPTH 64u

/* After so many requests in a row that were not expected, the next entries of the size are looked for, so far. */
#define STRAYED 8u
#define FAR 256u

struct hearth_buf hearth__no_place;

struct hearth__plan_entry hearth__no_entries[2] = {
    {.place = &hearth__no_place, .size = HEARTH__PLAN_OFF},
    {.place = &hearth__no_place, .size = HEARTH__PLAN_OFF},
};

static bool is_over(const struct hearth__plan_run *run, uint32_t i)
{
    return run->entries[i].over == run->number;
}

static bool is_live(const struct hearth__plan_run *run, uint32_t i)
{
    const struct hearth_buf *place = run->entries[i].place;
    return hearth__word_state(hearth__load_relaxed(&place->state)) == HEARTH__LIVE &&
           hearth__place_entry(place) == &run->entries[i];
}

/* The first predecessor that is not over, or the entry itself when all are. */
static uint32_t first_open(const struct hearth__plan_run *run, uint32_t i)
{
    for (uint32_t e = run->entries[i].first; e != run->entries[i + 1].first; e++)
        if (!is_over(run, run->edges[e]))
            return run->edges[e];
    return i;
}

/* Give up what stands in the entry's way and was not served. False: something is live. */
static bool clear_the_way(struct hearth__plan_run *run, uint32_t i)
{
    uint32_t stack[DEPTH];
    unsigned depth = 0;
    stack[depth++] = i;
    while (depth != 0) {
        uint32_t top = stack[depth - 1];
        uint32_t open = first_open(run, top);
        if (open == top) {
            depth--;
            /* Of zero length: only now, as what comes after it relies on what came before. */
            if (top != i)
                run->entries[top].over = run->number;
            continue;
        }
        if (is_live(run, open) || depth == DEPTH)
            return false;
#ifdef HEARTH_BROKEN_PLAN_SKIP_SHALLOW
        run->entries[open].over = run->number;
#else
        stack[depth++] = open;
#endif
    }
    return true;
}

/* The cursor stays. */
static bool serve(struct hearth__plan_run *run, uint32_t i, struct hearth_buf **place)
{
    struct hearth__plan_entry *entry = &run->entries[i];
    if (entry->size == HEARTH__PLAN_OFF || is_over(run, i) ||
        hearth__word_state(hearth__load_relaxed(&entry->place->state)) != HEARTH__FREE ||
        !clear_the_way(run, i))
        return false;
    hearth__place_serve(entry->place, entry);
    *place = entry->place;
    return true;
}

static bool serve_exact(struct hearth__plan *plan, struct hearth__plan_run *run, uint32_t i,
                        size_t size, struct hearth_buf **place)
{
    if (i >= plan->count || plan->sizes[i] != size || !serve(run, i, place))
        return false;
    run->cursor = &run->entries[i + 1];
    return true;
}

/* The nearest entry on either side that asks for exactly this; after many requests that were not expected, the
 * next one of this size. */
static bool serve_near(struct hearth__plan *plan, struct hearth__plan_run *run, uint32_t at,
                       size_t size, struct hearth_buf **place)
{
    for (uint32_t distance = 1; distance <= WINDOW; distance++)
        /* Below 0 wraps to far beyond the end. */
        if (serve_exact(plan, run, at + distance, size, place) ||
            serve_exact(plan, run, at - distance, size, place))
            return true;
    if (run->strayed == 0 || run->strayed % STRAYED != 0)
        return false;
    for (uint32_t distance = WINDOW + 1; distance <= FAR; distance++)
        if (serve_exact(plan, run, at + distance, size, place))
            return true;
    return false;
}

/* Whether one of the entries just passed asked for this: then the cursor is ahead of the run. */
static bool is_ahead(const struct hearth__plan *plan, uint32_t at, size_t size)
{
    for (uint32_t distance = 1; distance <= WINDOW && distance <= at; distance++)
        if (plan->sizes[at - distance] == size)
            return true;
    return false;
}

/* How many of the last entries are live or back against what is expected, if the run is at `to`, not at `at`. */
static uint32_t surprises(const struct hearth__plan *plan, const struct hearth__plan_run *run,
                          uint32_t at, uint32_t to)
{
    uint32_t count = 0;
    uint32_t i = at > LOOK_BACK ? at - LOOK_BACK : 0;
    for (i = i > run->aligned ? i : run->aligned; i < at; i++) {
        uint32_t as = i + to - at;
        bool live = is_live(run, i);
        if ((live || is_over(run, i)) && (as >= plan->count || live != (plan->ends[as] > to)))
            count++;
    }
    return count;
}

/*
 * What is asked for fits where the cursor is, but the place is not free: a buffer is late, or among requests of one
 * size some came in addition or not at all. What is back and what is not tells which, as lives differ.
 */
static uint32_t realign(const struct hearth__plan *plan, const struct hearth__plan_run *run,
                        uint32_t at, size_t size)
{
    const uint32_t others[] = {at + 1, at - 1};
    uint32_t best = at;
    uint32_t least = surprises(plan, run, at, at);
    for (uint32_t k = 0; k < 2; k++) {
        if (others[k] >= plan->count || plan->sizes[others[k]] != size)
            continue;
        uint32_t count = surprises(plan, run, at, others[k]);
        if (count < least) {
            best = others[k];
            least = count;
        }
    }
    return best;
}

/* Whether a request may have the place of one that asked for more: not for less than half of it. */
static bool is_smaller(const struct hearth__plan *plan, uint32_t i, size_t size)
{
    size_t room = (size_t)plan->units[i] * HEARTH__WEIGHT_UNIT;
    return size <= room && size > room / 2;
}

/* Whether an entry nearby asks for exactly this, and may still be served. */
static bool is_near(const struct hearth__plan *plan, const struct hearth__plan_run *run,
                    uint32_t at, size_t size)
{
    for (uint32_t i = at > WINDOW ? at - WINDOW : 0; i <= at + WINDOW && i < plan->count; i++)
        if (plan->sizes[i] == size && run->entries[i].size == size && !is_over(run, i) &&
            !is_live(run, i))
            return true;
    return false;
}

/* The first entry from the cursor on that was neither served nor given up. */
static uint32_t next_fresh(const struct hearth__plan *plan, const struct hearth__plan_run *run)
{
    uint32_t at = (uint32_t)(run->cursor - run->entries);
    while (at < plan->count && (is_over(run, at) || is_live(run, at)))
        at++;
    return at < plan->count ? at : plan->count;
}

/* A request as it is expected, that cannot be served at once. */
static enum hearth__plan_answer seek_here(struct hearth__plan *plan, struct hearth__plan_run *run,
                                          uint32_t at, size_t size, bool again,
                                          struct hearth_buf **place)
{
    if (serve_exact(plan, run, at, size, place))
        return HEARTH__PLAN_SERVED;
    if (run->entries[at].size == HEARTH__PLAN_OFF) {
        run->cursor++;
        if (plan->units[at] != 0)
            return HEARTH__PLAN_CARRIED;
        run->kept += run->entries[at].weight != 0;
        return HEARTH__PLAN_OUT;
    }
    if (again)
        return HEARTH__PLAN_BLOCKED;
    uint32_t to = realign(plan, run, at, size);
    run->cursor = &run->entries[to + 1];
    if (to == at)
        return HEARTH__PLAN_BLOCKED;
    run->aligned = at;
    return serve_exact(plan, run, to, size, place) ? HEARTH__PLAN_SERVED : HEARTH__PLAN_BLOCKED;
}

static enum hearth__plan_answer seek(struct hearth__plan *plan, struct hearth__plan_run *run,
                                     size_t size, bool again, struct hearth_buf **place)
{
    uint32_t at = next_fresh(plan, run);
    run->cursor = &run->entries[at];
    if (at < plan->count && plan->sizes[at] == size)
        return seek_here(plan, run, at, size, again, place);
    if (serve_near(plan, run, at, size, place))
        return HEARTH__PLAN_SERVED;
    if (at == plan->count)
        return HEARTH__PLAN_UNKNOWN;
    if (is_smaller(plan, at, size) && !is_near(plan, run, at, size) && serve(run, at, place)) {
        run->cursor++;
        return HEARTH__PLAN_SERVED;
    }
    /* Instead of what was expected, or in addition to it: not so far ahead that it would not be found. */
    if (run->strayed < WINDOW && !is_ahead(plan, at, size))
        run->cursor++;
    return HEARTH__PLAN_UNKNOWN;
}

enum hearth__plan_answer hearth__plan_seek(struct hearth__plan *plan, struct hearth__plan_run *run,
                                           size_t size, bool again, struct hearth_buf **place)
{
    enum hearth__plan_answer answer = seek(plan, run, size, again, place);
    run->strayed = answer == HEARTH__PLAN_UNKNOWN ? run->strayed + 1 : 0;
    return answer;
}

void hearth__plan_block(struct hearth__plan *plan, size_t offset, size_t bytes)
{
    size_t begin = offset / HEARTH__WEIGHT_UNIT;
    size_t end = (offset + bytes + HEARTH__WEIGHT_UNIT - 1) / HEARTH__WEIGHT_UNIT;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct hearth__plan_entry *entry = &plan->entries[i];
        if (entry->size == HEARTH__PLAN_OFF || plan->offsets[i] >= end ||
            (size_t)plan->offsets[i] + plan->units[i] <= begin)
            continue;
        entry->size = HEARTH__PLAN_OFF;
        plan->blocked++;
    }
}

void hearth__plan_unblock(struct hearth__plan *plan)
{
    if (plan->blocked == 0)
        return;
    for (uint32_t i = 0; i < plan->count; i++)
        if (plan->units[i] != 0)
            plan->entries[i].size = plan->sizes[i];
    plan->blocked = 0;
}
