/* SPDX-License-Identifier: Apache-2.0 */
/* Orders: those that passes start from, and those that the search makes of the best. */
#include "core/pack_state.h"

#include <string.h>

/* The two moves take turns. As kinds do from pass to pass, moves do from two passes to the next two. */
#define TURNS 2u

/* The greater comes first; equals stay in the order of requests. */
static uint64_t merit(const struct hearth__packer *packer, enum hearth__pack_method method,
                      uint32_t buffer)
{
    uint64_t size = packer->sizes[buffer];
    uint64_t length = packer->last[buffer] - packer->first[buffer] + UINT64_C(1);
    switch (method) {
    case HEARTH__PACK_SIZES:
        return size << 32 | length;
    case HEARTH__PACK_BUSIEST:
        return (uint64_t)packer->busiest[buffer] << 32 | size;
    case HEARTH__PACK_SKYLINE:
        return (uint64_t)packer->busiest[buffer] << 32 | length;
    case HEARTH__PACK_LONGEST:
        return length << 32 | size;
    case HEARTH__PACK_AREAS:
        return size * length;
    default:
        return 0;
    }
}

static void sort_order(struct hearth__packer *packer, struct hearth__pack_key *keys)
{
    keys = hearth__pack_sort_keys(keys, keys + packer->active, packer->active, &packer->work);
    for (uint32_t i = 0; i < packer->active; i++)
        packer->order[i] = keys[i].value;
    packer->work += 2 * (uint64_t)packer->active;
}

void hearth__pack_sort_order(struct hearth__packer *packer, enum hearth__pack_method method)
{
    struct hearth__pack_key *keys = packer->scratch;
    for (uint32_t i = 0; i < packer->active; i++)
        keys[i] = (struct hearth__pack_key){.key = ~merit(packer, method, i), .value = i};
    sort_order(packer, keys);
}

/* In this order a lowest-gap pass puts nothing higher than it is in that layout. */
static void order_by_offset(struct hearth__packer *packer, const uint32_t *offsets)
{
    struct hearth__pack_key *keys = packer->scratch;
    for (uint32_t i = 0; i < packer->active; i++)
        keys[i] = (struct hearth__pack_key){.key = offsets[i], .value = i};
    sort_order(packer, keys);
}

/* A number below `bound`: Steele, Lea and Flood's SplitMix (2014). */
static uint32_t draw(struct hearth__packer *packer, uint32_t bound)
{
    uint64_t mix = packer->random += UINT64_C(0x9e3779b97f4a7c15);
    mix = (mix ^ mix >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mix = (mix ^ mix >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(((mix ^ mix >> 31) >> 32) * bound >> 32);
}

/* One of the buffers that reach the top. */
static uint32_t draw_topmost(struct hearth__packer *packer, const struct hearth__pack_base *base)
{
    uint32_t chosen = 0;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < packer->active; i++) {
        if (base->offsets[i] + (uint64_t)packer->sizes[i] == base->total &&
            draw(packer, ++seen) == 0)
            chosen = i;
    }
    return chosen;
}

/* One that is alive together with `buffer`; itself, if there is none. */
static uint32_t draw_neighbour(struct hearth__packer *packer, uint32_t buffer)
{
    uint32_t chosen = buffer;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < packer->active; i++) {
        if (packer->first[i] <= packer->last[buffer] && packer->last[i] >= packer->first[buffer] &&
            i != buffer && draw(packer, ++seen) == 0)
            chosen = i;
    }
    return chosen;
}

/* Move a buffer that reaches the top, or one that is in its way perhaps, forward in the order. */
static void move_one(struct hearth__packer *packer, const struct hearth__pack_base *base)
{
    uint32_t buffer = draw_topmost(packer, base);
    if (draw(packer, 2) == 0)
        buffer = draw_neighbour(packer, buffer);
    uint32_t from = 0;
    while (base->order[from] != buffer)
        from++;
    uint32_t to = draw(packer, from + 1);
    memcpy(packer->order, base->order, packer->active * sizeof(*packer->order));
    memmove(&packer->order[to + 1], &packer->order[to], (from - to) * sizeof(*packer->order));
    packer->order[to] = buffer;
    packer->work += 4 * (uint64_t)packer->active;
}

/* Move all that reach above some height forward, a height above the bound: whoever lies there is what
 * the layout got wrong. Joslin and Clements (1999) blame and reorder so. */
static void move_blamed(struct hearth__packer *packer, const struct hearth__pack_base *base)
{
    uint32_t over = (uint32_t)(base->total - packer->bound);
    uint64_t height = packer->bound + draw(packer, over);
    uint32_t front = 0;
    uint32_t blamed = 0;
    for (uint32_t i = 0; i < packer->active; i++)
        blamed += base->offsets[i] + (uint64_t)packer->sizes[i] > height;
    for (uint32_t i = 0; i < packer->active; i++) {
        uint32_t buffer = base->order[i];
        if (base->offsets[buffer] + (uint64_t)packer->sizes[buffer] > height)
            packer->order[front++] = buffer;
        else
            packer->order[blamed++] = buffer;
    }
    packer->work += 4 * (uint64_t)packer->active;
}

void hearth__pack_search_next(struct hearth__packer *packer, enum hearth__pack_kind kind)
{
    const struct hearth__pack_base *skyline = &packer->bases[HEARTH__PACK_BY_SKYLINE];
    const struct hearth__pack_base *base = &packer->bases[kind];
    if (kind == HEARTH__PACK_BY_FIT && skyline->total < base->total)
        order_by_offset(packer, skyline->offsets);
    else if ((packer->passes & TURNS) == 0)
        move_blamed(packer, base);
    else
        move_one(packer, base);
}
