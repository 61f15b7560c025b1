/* SPDX-License-Identifier: Apache-2.0 */
/*
 * - request_best: online, the tightest gap among what is alive, spans coalesce. ONNX Runtime's memory
 *   pattern works so.
 * - request_first: online, the lowest gap.
 * - size_best: greedy by size with the tightest gap, Pisarchyk and Lee 2020; TensorFlow Lite's planner.
 * - breadth_best: greedy by breadth, the same paper: buffers of the busiest step first, each by size.
 * - length_best: longest life first; XLA takes the better one of this and size_best.
 * - strip: lowest segment of the skyline, longest life that fits: Burke, Kendall and Whitwell 2004 for
 *   strips, used for memory by Sekiyama et al. 2018.
 */
#include "pack_peers.h"

#include "measure.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    size_t size;
    size_t offset;
    size_t merit; /* the greater comes first */
    size_t then;  /* among equals */
    uint32_t begin;
    uint32_t end;
    uint32_t at; /* as given */
    bool placed;
};

static struct piece *copy(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = calloc(count + 1, sizeof(*pieces));
    if (pieces == NULL)
        bench_die("no memory", "pieces");
    for (size_t i = 0; i < count; i++) {
        pieces[i] = (struct piece){
            .size = (items[i].size + HEARTH__PACK_ALIGNMENT - 1) / HEARTH__PACK_ALIGNMENT *
                    HEARTH__PACK_ALIGNMENT,
            .begin = items[i].begin,
            .end = items[i].end,
            .at = (uint32_t)i,
        };
    }
    return pieces;
}

static int by_merit(const void *left, const void *right)
{
    const struct piece *a = left;
    const struct piece *b = right;
    if (a->merit != b->merit)
        return a->merit < b->merit ? 1 : -1;
    if (a->then != b->then)
        return a->then < b->then ? 1 : -1;
    return a->at < b->at ? -1 : 1;
}

/* Place one after the other in a list by offset; the lowest or the tightest gap. */
static size_t in_order(struct piece *pieces, size_t count, bool tightest)
{
    qsort(pieces, count, sizeof(*pieces), by_merit);
    struct piece **placed = calloc(count + 1, sizeof(struct piece *));
    if (placed == NULL)
        bench_die("no memory", "placed");
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        struct piece *piece = &pieces[i];
        size_t floor = 0;
        size_t gap = SIZE_MAX;
        size_t offset = SIZE_MAX;
        for (size_t j = 0; j < i && (tightest || offset == SIZE_MAX); j++) {
            const struct piece *other = placed[j];
            if (other->begin >= piece->end || piece->begin >= other->end)
                continue;
            if (other->offset >= floor + piece->size && other->offset - floor < gap) {
                gap = other->offset - floor;
                offset = floor;
            }
            floor = other->offset + other->size > floor ? other->offset + other->size : floor;
        }
        piece->offset = offset != SIZE_MAX ? offset : floor;
        size_t at = i;
        for (; at > 0 && placed[at - 1]->offset > piece->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = piece;
        total = piece->offset + piece->size > total ? piece->offset + piece->size : total;
    }
    free(placed);
    free(pieces);
    return total;
}

/* Most bytes alive at the begin of some piece of its life: counted by brute force over begins. */
static void set_breadth(struct piece *pieces, size_t count)
{
    uint32_t steps = 0;
    for (size_t i = 0; i < count; i++)
        steps = pieces[i].end > steps ? pieces[i].end : steps;
    size_t *loads = calloc((size_t)steps + 1, sizeof(*loads));
    if (loads == NULL)
        bench_die("no memory", "loads");
    for (size_t i = 0; i < count; i++) {
        for (uint32_t step = pieces[i].begin; step < pieces[i].end; step++)
            loads[step] += pieces[i].size;
    }
    for (size_t i = 0; i < count; i++) {
        for (uint32_t step = pieces[i].begin; step < pieces[i].end; step++)
            pieces[i].merit = loads[step] > pieces[i].merit ? loads[step] : pieces[i].merit;
        pieces[i].then = pieces[i].size;
    }
    free(loads);
}

static size_t request_best(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    for (size_t i = 0; i < count; i++)
        pieces[i].merit = UINT32_MAX - pieces[i].begin;
    return in_order(pieces, count, true);
}

static size_t request_first(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    for (size_t i = 0; i < count; i++)
        pieces[i].merit = UINT32_MAX - pieces[i].begin;
    return in_order(pieces, count, false);
}

static size_t size_best(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    for (size_t i = 0; i < count; i++) {
        pieces[i].merit = pieces[i].size;
        pieces[i].then = pieces[i].end - pieces[i].begin;
    }
    return in_order(pieces, count, true);
}

static size_t breadth_best(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    set_breadth(pieces, count);
    return in_order(pieces, count, true);
}

static size_t length_best(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    for (size_t i = 0; i < count; i++) {
        pieces[i].merit = pieces[i].end - pieces[i].begin;
        pieces[i].then = pieces[i].size;
    }
    return in_order(pieces, count, true);
}

/* A part of the skyline: from `begin` to the begin of the next. */
struct segment {
    uint32_t begin;
    size_t height;
};

struct skyline {
    struct segment *segments; /* the last one only ends the one before it */
    size_t count;
};

static void remove_segment(struct skyline *skyline, size_t at)
{
    skyline->count--;
    memmove(&skyline->segments[at], &skyline->segments[at + 1],
            (skyline->count - at) * sizeof(*skyline->segments));
}

static void insert_segment(struct skyline *skyline, size_t at, struct segment segment)
{
    memmove(&skyline->segments[at + 1], &skyline->segments[at],
            (skyline->count - at) * sizeof(*skyline->segments));
    skyline->segments[at] = segment;
    skyline->count++;
}

/* Equal neighbours become one. */
static void merge(struct skyline *skyline, size_t at)
{
    struct segment *segments = skyline->segments;
    if (at + 2 < skyline->count && segments[at + 1].height == segments[at].height)
        remove_segment(skyline, at + 1);
    if (at > 0 && segments[at - 1].height == segments[at].height)
        remove_segment(skyline, at);
}

/* The lowest segment has room for nothing: up to its lower neighbour. */
static void lift(struct skyline *skyline, size_t at)
{
    struct segment *segments = skyline->segments;
    size_t left = at > 0 ? segments[at - 1].height : SIZE_MAX;
    size_t right = at + 2 < skyline->count ? segments[at + 1].height : SIZE_MAX;
    segments[at].height = left < right ? left : right;
    merge(skyline, at);
}

static void cover(struct skyline *skyline, size_t at, const struct piece *piece)
{
    struct segment whole = skyline->segments[at];
    if (skyline->segments[at + 1].begin > piece->end)
        insert_segment(skyline, at + 1, (struct segment){piece->end, whole.height});
    if (whole.begin < piece->begin)
        insert_segment(skyline, ++at, (struct segment){piece->begin, whole.height});
    skyline->segments[at].height = whole.height + piece->size;
    merge(skyline, at);
}

static size_t strip(const struct hearth__pack_item *items, size_t count)
{
    struct piece *pieces = copy(items, count);
    for (size_t i = 0; i < count; i++) {
        pieces[i].merit = pieces[i].end - pieces[i].begin;
        pieces[i].then = pieces[i].size;
    }
    qsort(pieces, count, sizeof(*pieces), by_merit);
    struct skyline skyline = {calloc(2 * count + 4, sizeof(struct segment)), 2};
    if (skyline.segments == NULL)
        bench_die("no memory", "segments");
    skyline.segments[1].begin = UINT32_MAX;
    size_t total = 0;
    for (size_t left = count; left > 0;) {
        size_t lowest = 0;
        for (size_t i = 1; i + 1 < skyline.count; i++) {
            if (skyline.segments[i].height < skyline.segments[lowest].height)
                lowest = i;
        }
        uint32_t begin = skyline.segments[lowest].begin;
        uint32_t end = skyline.segments[lowest + 1].begin;
        size_t at = 0;
        while (at < count &&
               (pieces[at].placed || pieces[at].begin < begin || pieces[at].end > end))
            at++;
        if (at == count) {
            lift(&skyline, lowest);
            continue;
        }
        pieces[at].placed = true;
        size_t top = skyline.segments[lowest].height + pieces[at].size;
        total = top > total ? top : total;
        cover(&skyline, lowest, &pieces[at]);
        left--;
    }
    free(skyline.segments);
    free(pieces);
    return total;
}

const struct pack_peer pack_peers[] = {
    {"request_best", request_best},
    {"request_first", request_first},
    {"size_best", size_best},
    {"breadth_best", breadth_best},
    {"length_best", length_best},
    {"strip", strip},
    {NULL, NULL},
};
