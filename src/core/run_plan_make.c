/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run plans: making one from a recorded run, a slice at a time. core/pack.h lays the run out; what is left is
 * to find each entry's predecessors: who used its bytes last. A sorted row of pieces keeps for each range of
 * the slab the entry that painted it last; an entry takes the painters of the pieces it covers, and paints them.
 */
#include "core/pack.h"
#include "core/run_plan.h"

#include <stdlib.h>
#include <string.h>

/* Layouts so close to the bound are as good as it gets, in thousandths. */
#define ACCEPT 2u

/* Requests by which a buffer that another thread returns may be late without being in the way. */
#define REMOTE_MARGIN 4u

/* A plan with more predecessors than this for each entry is not made. */
#define EDGES_MOST 8u

/* What linking one entry costs, in the packer's units. */
#define LINK_WORK 200u

#define NOBODY UINT32_MAX

struct piece {
    uint32_t begin;
    uint32_t painter;
};

struct hearth__planning {
    struct hearth__plan *plan;
    struct hearth__pack_item *items; /* of what is not planned out */
    uint32_t *numbers;               /* of their requests */
    size_t *places;                  /* their offsets */
    size_t item_count;
    void *packer_memory;
    struct hearth__packer *packer;
    bool packed, failed;
    struct piece *pieces; /* room for two more than twice the entries */
    uint32_t piece_count;
    uint32_t *seen; /* by entry: the last one that has it as a predecessor */
    uint32_t linked;
};

size_t hearth__run_record_bytes(uint32_t count)
{
    return sizeof(struct hearth__run_record) + (size_t)count * sizeof(struct hearth__run_request);
}

bool hearth__run_record_equal(const struct hearth__run_record *a,
                              const struct hearth__run_record *b)
{
    if (a->count != b->count || a->key != b->key)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (a->requests[i].size != b->requests[i].size)
            return false;
    return true;
}

void hearth__run_record_unite(struct hearth__run_record *into,
                              const struct hearth__run_record *from)
{
    for (uint32_t i = 0; i < into->count; i++) {
        struct hearth__run_request *a = &into->requests[i];
        const struct hearth__run_request *b = &from->requests[i];
        a->most = a->most < b->most ? b->most : a->most;
        a->end = a->end < b->end ? b->end : a->end; /* HEARTH__RUN_NO_END is the last */
        a->taken |= b->taken;
        a->remote |= b->remote;
    }
}

/* One block for a plan and its arrays. */
static struct hearth__plan *plan_create(uint32_t count)
{
    size_t entries = ((size_t)count + 2) * sizeof(struct hearth__plan_entry);
    size_t sizes = (size_t)count * sizeof(size_t);
    size_t words = (size_t)count * sizeof(uint32_t);
    char *block = calloc(1, sizeof(struct hearth__plan) + entries + sizes + 3 * words);
    if (block == NULL)
        return NULL;
    struct hearth__plan *plan = (struct hearth__plan *)(void *)block;
    block += sizeof *plan;
    plan->count = count;
    plan->entries = (struct hearth__plan_entry *)(void *)block;
    plan->sizes = (size_t *)(void *)(block + entries);
    plan->offsets = (uint32_t *)(void *)(block + entries + sizes);
    plan->units = (uint32_t *)(void *)(block + entries + sizes + words);
    plan->ends = (uint32_t *)(void *)(block + entries + sizes + 2 * words);
    for (uint32_t i = 0; i < count + 2; i++)
        plan->entries[i] = hearth__no_entries[0];
    return plan;
}

void hearth__plan_free(struct hearth__plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->edges);
    free(plan);
}

static bool is_planned(const struct hearth__run_request *request)
{
    return request->end != HEARTH__RUN_NO_END && !request->taken &&
           request->most <= HEARTH__PACK_TOTAL_MAX;
}

static void collect(struct hearth__planning *planning, const struct hearth__run_record *record)
{
    struct hearth__plan *plan = planning->plan;
    for (uint32_t i = 0; i < record->count; i++) {
        const struct hearth__run_request *request = &record->requests[i];
        plan->sizes[i] = request->size;
        plan->offsets[i] = UINT32_MAX;
        plan->ends[i] = request->end;
        if (!is_planned(request)) {
            plan->off_count++;
            /* What was kept may not be kept for ever; what is taken goes by another way. */
            plan->entries[i].weight = request->end == HEARTH__RUN_NO_END && !request->taken;
            continue;
        }
        uint32_t end = request->end + (request->remote ? REMOTE_MARGIN : 0);
        end = end > i ? end : i + 1;
        size_t most = request->most == 0 ? 1 : request->most;
        planning->numbers[planning->item_count] = i;
        planning->items[planning->item_count++] =
            (struct hearth__pack_item){.size = most, .begin = i, .end = end};
        plan->units[i] = (uint32_t)((most + HEARTH__WEIGHT_UNIT - 1) / HEARTH__WEIGHT_UNIT);
    }
}

static bool prepare(struct hearth__planning *planning, const struct hearth__run_record *record)
{
    const struct hearth__pack_options options = {.accept = ACCEPT};
    uint32_t count = record->count;
    planning->plan = plan_create(count);
    planning->items = calloc(count, sizeof *planning->items);
    planning->numbers = calloc(count, sizeof *planning->numbers);
    planning->places = calloc(count, sizeof *planning->places);
    planning->pieces = calloc(2 * (size_t)count + 2, sizeof *planning->pieces);
    planning->seen = calloc(count, sizeof *planning->seen);
    planning->packer_memory = malloc(hearth__packer_bytes(count));
    if (planning->plan == NULL || planning->items == NULL || planning->numbers == NULL ||
        planning->places == NULL || planning->pieces == NULL || planning->seen == NULL ||
        planning->packer_memory == NULL)
        return false;
    planning->plan->edges = calloc((size_t)count * EDGES_MOST, sizeof(uint32_t));
    if (planning->plan->edges == NULL)
        return false;
    planning->plan->key = record->key;
    collect(planning, record);
    return planning->item_count != 0 &&
           hearth__packer_init(planning->packer_memory, planning->items, planning->item_count,
                               &options, &planning->packer) == HEARTH_OK;
}

struct hearth__planning *hearth__planning_begin(const struct hearth__run_record *record)
{
    if (record->count < HEARTH__RUN_LEAST || record->overflow)
        return NULL;
    struct hearth__planning *planning = calloc(1, sizeof *planning);
    if (planning == NULL)
        return NULL;
    if (!prepare(planning, record)) {
        planning->failed = true;
        (void)hearth__planning_end(planning);
        return NULL;
    }
    planning->pieces[0] = (struct piece){0, NOBODY};
    planning->piece_count = 1;
    memset(planning->seen, 0xff, record->count * sizeof *planning->seen);
    return planning;
}

/* The packer is done. */
static bool lay_out(struct hearth__planning *planning)
{
    struct hearth__plan *plan = planning->plan;
    struct hearth__pack_report report;
    if (hearth__packer_layout(planning->packer, planning->places, &report) != HEARTH_OK)
        return false;
    plan->bytes = report.total;
    plan->bound = report.bound;
    for (size_t k = 0; k < planning->item_count; k++) {
        uint32_t i = planning->numbers[k];
        plan->offsets[i] = (uint32_t)(planning->places[k] / HEARTH__WEIGHT_UNIT);
        plan->entries[i].size = plan->sizes[i];
        plan->entries[i].weight =
            hearth__weight_of(1, (size_t)plan->units[i] * HEARTH__WEIGHT_UNIT);
    }
    return true;
}

/* The last piece that begins at or below. */
static uint32_t piece_at(const struct hearth__planning *planning, uint32_t offset)
{
    uint32_t low = 0;
    uint32_t high = planning->piece_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (planning->pieces[middle].begin <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static bool add_edge(struct hearth__planning *planning, uint32_t i, uint32_t painter)
{
    struct hearth__plan *plan = planning->plan;
    if (painter == NOBODY || planning->seen[painter] == i)
        return true;
    if (plan->edge_count == plan->count * EDGES_MOST)
        return false;
    planning->seen[painter] = i;
    plan->edges[plan->edge_count++] = painter;
    return true;
}

/* Entry i takes over its range. */
static bool paint(struct hearth__planning *planning, uint32_t i)
{
    struct hearth__plan *plan = planning->plan;
    plan->entries[i].first = plan->edge_count;
    if (plan->units[i] == 0)
        return true;
    uint32_t begin = plan->offsets[i];
    uint32_t end = begin + plan->units[i];
    uint32_t first = piece_at(planning, begin);
    uint32_t last = piece_at(planning, end - 1);
    for (uint32_t k = first; k <= last; k++)
        if (!add_edge(planning, i, planning->pieces[k].painter))
            return false;
    struct piece made[3];
    uint32_t count = 0;
    if (planning->pieces[first].begin < begin)
        made[count++] = planning->pieces[first];
    made[count++] = (struct piece){begin, i};
    if (last + 1 == planning->piece_count || planning->pieces[last + 1].begin > end)
        made[count++] = (struct piece){end, planning->pieces[last].painter};
    uint32_t rest = planning->piece_count - (last + 1);
    memmove(&planning->pieces[first + count], &planning->pieces[last + 1],
            rest * sizeof *planning->pieces);
    memcpy(&planning->pieces[first], made, count * sizeof *made);
    planning->piece_count = first + count + rest;
    return true;
}

static void link_some(struct hearth__planning *planning, uint64_t work)
{
    struct hearth__plan *plan = planning->plan;
    uint64_t most = work / LINK_WORK + 1;
    for (; most > 0 && planning->linked < plan->count; most--)
        if (!paint(planning, planning->linked++)) {
            planning->failed = true;
            return;
        }
    if (planning->linked == plan->count)
        for (uint32_t i = 0; i < 2; i++)
            plan->entries[plan->count + i].first = plan->edge_count;
}

uint32_t hearth__planning_count(const struct hearth__planning *planning)
{
    return planning->plan->count;
}

bool hearth__planning_step(struct hearth__planning *planning, uint64_t work)
{
    if (planning->failed)
        return true;
    if (!planning->packed) {
        if (!hearth__packer_step(planning->packer, work))
            return false;
        planning->packed = true;
        planning->failed = !lay_out(planning);
        return planning->failed;
    }
    link_some(planning, work);
    return planning->failed || planning->linked == planning->plan->count;
}

struct hearth__plan *hearth__planning_end(struct hearth__planning *planning)
{
    struct hearth__plan *plan = planning->plan;
    bool made = !planning->failed && plan != NULL && planning->linked == plan->count;
    free(planning->items);
    free(planning->numbers);
    free(planning->places);
    free(planning->pieces);
    free(planning->seen);
    free(planning->packer_memory);
    free(planning);
    if (made)
        return plan;
    hearth__plan_free(plan);
    return NULL;
}
