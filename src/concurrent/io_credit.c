/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O arena: the retention cap, the peak and the limit on live bytes, without a counter that everybody writes.
 *
 * Cap. What may still be retained is credit, in weights (buf.h). All of it belongs to the arena at first; a
 * thread borrows a quantum at a time by CAS, pays for what it retains and is refunded for what it reuses
 * with plain stores, and repays what it has beyond two quanta. So
 *
 *     arena's credit + credit of all caches + weight of what is retained = cap
 *
 * whoever moves what, the cap is never passed, and at most 2 quanta per thread are stranded. A quantum is
 * a 1024th of the cap: with 64 threads an eighth of the cap may be out of reach. While the cap is unbounded
 * the same runs with quanta so large that nobody comes back for more. Lowering the cap may make the arena's
 * credit negative until surplus is repaid and buffers are evicted; a thread in the middle of an operation
 * then may retain one more buffer within the credit it has.
 *
 * Peak. A thread that hands out more than ever before sums up all cells, and so never sees too much. It looks
 * when its own net of live bytes passes the value at which, as far as it knows of the others, a new peak begins;
 * to know of them each tells the arena its net when it is 2 MiB (or 8 of its buffers) ahead or behind. That
 * is exact while one thread uses the arena, and else low by at most as much for each other thread.
 *
 * Limit. Reserved by CAS, exact; arenas with a limit do without the plain paths.
 */
#include "concurrent/io.h"

/* Live bytes that a thread may be ahead or behind before it tells the arena, or so many of its buffers. */
#define LEAD_LEAST ((int64_t)2 << 20)
#define LEAD_BUFFERS 8

/* Quanta that fit the cap. */
#define QUANTA 1024

/* To the cap that is in force, whoever set it last. */
static void set_quantum(struct hearth_io *arena)
{
    size_t cap;
    bool bounded;
    do {
        cap = hearth__load_relaxed(&arena->retention_cap);
        bounded = arena->service != NULL && hearth__budget_bounded(arena->budget);
        int64_t quantum = hearth__units(cap) / QUANTA;
        int64_t most = bounded ? hearth__units(arena->budget->grant) / 4 : quantum;
        hearth__store_relaxed(&arena->quantum, quantum < most ? quantum : most);
    } while (hearth__load_relaxed(&arena->retention_cap) != cap ||
             (arena->service != NULL && hearth__budget_bounded(arena->budget) != bounded));
}

void hearth__io_credit_init(struct hearth_io *arena, size_t cap)
{
    hearth__store_relaxed(&arena->retention_cap, cap);
    hearth__store_relaxed(&arena->credit, hearth__units(cap));
    set_quantum(arena);
}

void hearth__io_credit_ceiling(struct hearth_io *arena)
{
    set_quantum(arena);
}

void hearth__io_credit_change(struct hearth_io *arena, size_t from, size_t to)
{
    set_quantum(arena);
    (void)hearth__fetch_add_relaxed(&arena->credit, hearth__units(to) - hearth__units(from));
}

bool hearth__io_credit_borrow(struct hearth__io_access *access, hearth__weight weight)
{
    struct hearth_io *arena = access->arena;
    int64_t own = access->cache == NULL ? 0 : access->cache->credit;
    int64_t least = (int64_t)weight - own;
    int64_t quantum = access->cache == NULL ? 0 : hearth__load_relaxed(&arena->quantum);
    int64_t credit = hearth__load_relaxed(&arena->credit);
    int64_t amount;
    do {
        if (credit < least)
            return false;
        amount = credit < least + quantum ? credit : least + quantum;
    } while (!hearth__cas_weak_relaxed(&arena->credit, &credit, credit - amount));
    if (arena->service != NULL) {
        int64_t got = hearth__budget_charge(arena->budget, least, amount);
        if (got < amount)
            (void)hearth__fetch_add_relaxed(&arena->credit, amount - got);
        if (got == 0)
            return false;
        amount = got;
    }
    if (access->cache != NULL)
        access->cache->credit = own + amount - (int64_t)weight;
    return true;
}

void hearth__io_credit_repay(struct hearth__io_cache *cache)
{
    int64_t quantum = hearth__load_relaxed(&cache->arena->quantum);
    cache->credit_most = 2 * quantum;
    if (cache->credit <= cache->credit_most)
        return;
    hearth__io_credit_return(cache->arena, cache->credit - quantum);
    cache->credit = quantum;
}

static uint64_t at_least_zero(int64_t value)
{
    return value < 0 ? 0 : (uint64_t)value;
}

/* Live bytes as far as threads told. */
static uint64_t told(const struct hearth_io *arena, int64_t more)
{
    return at_least_zero((int64_t)hearth__load_relaxed(&arena->base) +
                         hearth__load_relaxed(&arena->net) + more);
}

void hearth__io_lead_slow(struct hearth__io_cache *cache, size_t size)
{
    struct hearth_io *arena = cache->arena;
    int64_t most = (int64_t)LEAD_BUFFERS * (int64_t)size;
    most = most > LEAD_LEAST ? most : LEAD_LEAST;
    if (cache->ahead > most || cache->ahead < -most) {
        (void)hearth__fetch_add_relaxed(&arena->net, cache->ahead);
        cache->ahead = 0;
    }
    uint64_t peak = hearth__load_relaxed(&cache->peak);
    uint64_t live = told(arena, cache->ahead);
    if (live > peak) {
        live = hearth_io_live_bytes(arena);
        if (live > peak) {
            peak = live;
            hearth__store_release(&cache->peak, peak);
        }
    }
    int64_t until = cache->ahead + (int64_t)(peak - live);
    cache->ahead_most = until < most ? until : most;
    cache->ahead_least = -most;
}

void hearth__io_count_up(struct hearth__io_access *access, size_t size)
{
    if (access->cache != NULL) {
        hearth__io_lead(access->cache, size);
        return;
    }
    struct hearth_io *arena = access->arena;
    (void)hearth__fetch_add_relaxed(&arena->net, (int64_t)size);
    uint64_t peak = hearth__load_relaxed(&arena->peak);
    if (told(arena, 0) <= peak)
        return;
    uint64_t live = hearth_io_live_bytes(arena);
    while (live > peak && !hearth__cas_weak_relaxed(&arena->peak, &peak, live))
        ;
}

void hearth__io_count_down(struct hearth__io_access *access, size_t size)
{
    if (access->cache != NULL)
        hearth__io_lag(access->cache, size);
    else
        (void)hearth__fetch_add_relaxed(&access->arena->net, -(int64_t)size);
}
