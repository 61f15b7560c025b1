/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Always the lowest possible offset: of all buffers that are left, one that can lie lowest is placed next;
 * the order decides between equals. It is the first descent of MiniMalloc (Moffitt 2023), which shows that
 * some such row of choices is optimal, and the best-fit rule for strips (Burke, Kendall and Whitwell 2004;
 * Sekiyama et al. 2018 for memory) with other orders.
 *
 * Offsets never decrease, so what is placed has a skyline: windows of sections of one height each. What
 * can lie lowest lies in a lowest window, all of its life. If nothing fits there, the window rises to its
 * lower neighbour and joins it. With n buffers there are n placements and at most 2 n rises, so that it
 * does not matter here how many buffers meet: only what a window looks through does.
 *
 *                  +-------+             a window w between two higher ones: buffers that live
 *        +---------+       |   +----     within w may be placed; if there are none, w rises to
 *        |         |       +---+         the left neighbour's height and both are one window
 *        +    w    +
 *
 * Candidates are in the order of their begins, so a window's are in a row, and those that were placed are
 * squeezed out from time to time. Tiles of candidates tell which can be skipped.
 *
 * scratch: heap | windows | candidates | tiles.
 */
#include "core/pack_state.h"

#define TILE_SHIFT 5
#define TILE ((uint32_t)1 << TILE_SHIFT)

#define NONE UINT32_MAX

static struct hearth__pack_skyline *skyline_of(struct hearth__packer *packer)
{
    return &packer->skyline;
}

static void push(struct hearth__packer *packer, uint64_t entry)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint64_t *heap = skyline->heap;
    uint32_t at = skyline->heap_count++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
        packer->work++;
    }
    heap[at] = entry;
}

static uint64_t pop(struct hearth__packer *packer)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint64_t *heap = skyline->heap;
    uint64_t lowest = heap[0];
    uint64_t entry = heap[--skyline->heap_count];
    uint32_t count = skyline->heap_count;
    uint32_t at = 0;
    for (uint32_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= entry)
            break;
        heap[at] = heap[child];
        at = child;
        packer->work++;
    }
    heap[at] = entry;
    packer->work += 2;
    return lowest;
}

/* A window, known by its begin; it is found from its last section, too. */
static void open_window(struct hearth__packer *packer, uint32_t first, uint32_t last,
                        uint32_t height)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    skyline->heights[first] = height;
    skyline->lasts[first] = last;
    skyline->firsts[last] = first;
    push(packer, (uint64_t)height << 32 | first);
}

static void sum_up_tile(struct hearth__pack_skyline *skyline, uint32_t tile)
{
    uint32_t from = tile << TILE_SHIFT;
    uint32_t to = from + TILE < skyline->candidate_count ? from + TILE : skyline->candidate_count;
    uint32_t rank = NONE;
    uint32_t last = NONE;
    for (uint32_t i = from; i < to; i++) {
        uint32_t here = skyline->candidate_lasts[i];
        last = here < last ? here : last;
        here = here == NONE ? NONE : skyline->ranks[i];
        rank = here < rank ? here : rank;
    }
    skyline->tile_ranks[tile] = rank;
    skyline->tile_lasts[tile] = last;
}

static void sum_up(struct hearth__packer *packer)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    for (uint32_t tile = 0; tile << TILE_SHIFT < skyline->candidate_count; tile++)
        sum_up_tile(skyline, tile);
    packer->work += skyline->candidate_count;
}

/* Drop the candidates that are placed. */
static void squeeze(struct hearth__packer *packer)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < skyline->candidate_count; i++) {
        if (skyline->candidate_lasts[i] == NONE)
            continue;
        skyline->candidate_firsts[kept] = skyline->candidate_firsts[i];
        skyline->candidate_lasts[kept] = skyline->candidate_lasts[i];
        skyline->ranks[kept++] = skyline->ranks[i];
    }
    packer->work += skyline->candidate_count;
    skyline->candidate_count = kept;
    skyline->squeeze_at = kept / 2;
    sum_up(packer);
}

void hearth__pack_skyline_start(struct hearth__packer *packer)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t active = packer->active;
    uint32_t *next = packer->scratch;
    skyline->heap = packer->scratch;
    next += 4 * (size_t)active + 4;
    skyline->heights = next;
    skyline->lasts = next += packer->sections;
    skyline->firsts = next += packer->sections;
    skyline->candidate_firsts = next += packer->sections;
    skyline->candidate_lasts = next += active;
    skyline->ranks = next += active;
    skyline->tile_ranks = next += active;
    skyline->tile_lasts = next + active / TILE + 1;
    for (uint32_t i = 0; i < active; i++) {
        skyline->candidate_firsts[i] = packer->first[i];
        skyline->candidate_lasts[i] = packer->last[i];
        skyline->ranks[packer->order[i]] = i;
    }
    skyline->candidate_count = active;
    skyline->squeeze_at = active / 2;
    sum_up(packer);
    skyline->heap_count = 0;
    open_window(packer, 0, packer->sections - 1, 0);
    packer->work += active;
}

/* The first candidate that begins in this section or later. */
static uint32_t candidate_from(const struct hearth__pack_skyline *skyline, uint32_t section)
{
    uint32_t low = 0;
    uint32_t high = skyline->candidate_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (skyline->candidate_firsts[middle] < section)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The candidate that comes first in the order of those that live within the window; NONE. */
static uint32_t choose(struct hearth__packer *packer, uint32_t first, uint32_t last)
{
    const struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t i = candidate_from(skyline, first);
    uint32_t best = NONE;
    uint32_t best_at = NONE;
    uint32_t looked = 0;
    while (i < skyline->candidate_count && skyline->candidate_firsts[i] <= last) {
        uint32_t tile = i >> TILE_SHIFT;
        uint32_t end = (tile + 1) << TILE_SHIFT;
        looked += 2;
        if (skyline->tile_ranks[tile] >= best || skyline->tile_lasts[tile] > last) {
            i = end;
            continue;
        }
        if (end > skyline->candidate_count)
            end = skyline->candidate_count;
        looked += (end - i) / 2;
        /* Without branches: they would be wrong about as often as right. */
        for (; i < end; i++) {
            uint32_t rank = skyline->candidate_lasts[i] <= last ? skyline->ranks[i] : NONE;
            best_at = rank < best ? i : best_at;
            best = rank < best ? rank : best;
        }
    }
    packer->work += looked + 32;
    return best_at;
}

/* Join neighbours of the same height. */
static uint32_t widen(struct hearth__packer *packer, uint32_t first)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t height = skyline->heights[first];
    uint32_t last = skyline->lasts[first];
    while (last + 1 < packer->sections && skyline->heights[last + 1] == height) {
        uint32_t next = last + 1;
        last = skyline->lasts[next];
        skyline->heights[next] = NONE;
    }
    while (first > 0 && skyline->heights[skyline->firsts[first - 1]] == height) {
        skyline->heights[first] = NONE;
        first = skyline->firsts[first - 1];
    }
    skyline->lasts[first] = last;
    skyline->firsts[last] = first;
    return first;
}

/* Nothing fits into the window: up to its lower neighbour. */
static void rise(struct hearth__packer *packer, uint32_t first)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t last = skyline->lasts[first];
    uint32_t left = first > 0 ? skyline->heights[skyline->firsts[first - 1]] : NONE;
    uint32_t right = last + 1 < packer->sections ? skyline->heights[last + 1] : NONE;
    open_window(packer, first, last, left < right ? left : right);
}

static void place(struct hearth__packer *packer, uint32_t window, uint32_t candidate, uint32_t top)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    uint32_t height = skyline->heights[window];
    uint32_t end = skyline->lasts[window];
    uint32_t first = skyline->candidate_firsts[candidate];
    uint32_t last = skyline->candidate_lasts[candidate];
    if (first > window)
        open_window(packer, window, first - 1, height);
    if (last < end)
        open_window(packer, last + 1, end, height);
    open_window(packer, first, last, top);
    skyline->candidate_lasts[candidate] = NONE;
    packer->offsets[packer->order[skyline->ranks[candidate]]] = height;
    packer->top = top > packer->top ? top : packer->top;
    packer->placed++;
    if (packer->active - packer->placed <= skyline->squeeze_at)
        squeeze(packer);
    else
        sum_up_tile(skyline, candidate >> TILE_SHIFT);
    packer->work += TILE / 2;
}

bool hearth__pack_skyline_run(struct hearth__packer *packer)
{
    struct hearth__pack_skyline *skyline = skyline_of(packer);
    while (packer->placed < packer->active) {
        if (packer->work >= packer->pause)
            return false;
        uint64_t entry = pop(packer);
        uint32_t window = (uint32_t)entry;
        uint32_t height = (uint32_t)(entry >> 32);
        /* Joined with another meanwhile, or built upon. */
        if (skyline->heights[window] != height)
            continue;
        window = widen(packer, window);
        uint32_t candidate = choose(packer, window, skyline->lasts[window]);
        if (candidate == NONE) {
            rise(packer, window);
            continue;
        }
        uint32_t buffer = packer->order[skyline->ranks[candidate]];
        uint64_t top = (uint64_t)height + packer->sizes[buffer];
        if (top > packer->limit)
            return true;
        place(packer, window, candidate, (uint32_t)top);
    }
    return true;
}
