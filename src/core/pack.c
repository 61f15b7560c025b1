/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packer's course: sort, sweep, a row of passes, then a search until the budget is used. A pass places
 * the buffers one by one and is given up where it can no longer beat what is there. Everything stops as
 * soon as a layout is good enough; the bound of the sweep says when, which for most runs is soon.
 * docs/pack.md tells why these passes.
 */
#include "core/pack.h"

#include "core/clock.h"
#include "core/pack_state.h"

#include <assert.h>
#include <stdlib.h>

/* Between two looks at the clock: some tens of microseconds. */
#define DEADLINE_SLICE 20000u

/* The default budget is for so many buffers at least and at most. */
#define BUDGET_COUNT_MIN ((size_t)1000)
#define BUDGET_COUNT_MAX ((size_t)50000)

/* As good as no limit, and sums stay in range. */
#define WORK_MAX (UINT64_MAX / 2)

/* The greatest number of all is no height. */
#define HEIGHT_MAX ((uint64_t)UINT32_MAX - 1)

#define CACHE_LINE ((size_t)64)

/* Passes in the order in which they run. */
static const enum hearth__pack_method methods[] = {
    HEARTH__PACK_SIZES,   HEARTH__PACK_SKYLINE, HEARTH__PACK_AREAS,
    HEARTH__PACK_LONGEST, HEARTH__PACK_BUSIEST,
};

#define METHODS (sizeof(methods) / sizeof(methods[0]))

/* The next array in the packer's memory; without a packer, only its size. */
static void *take(char *memory, size_t *used, size_t bytes)
{
    size_t at = *used;
    *used += (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return memory == NULL ? NULL : memory + at;
}

static size_t lay_memory(struct hearth__packer *packer, char *memory, size_t count)
{
    size_t used = 0;
    size_t numbers = count * sizeof(uint32_t);
    take(memory, &used, sizeof(*packer));
    packer->places = take(memory, &used, numbers);
    packer->sizes = take(memory, &used, numbers);
    packer->first = take(memory, &used, numbers);
    packer->last = take(memory, &used, numbers);
    packer->busiest = take(memory, &used, numbers);
    packer->order = take(memory, &used, numbers);
    packer->offsets = take(memory, &used, numbers);
    for (int i = 0; i < HEARTH__PACK_BASES; i++) {
        packer->bases[i].total = UINT64_MAX;
        packer->bases[i].order = take(memory, &used, numbers);
        packer->bases[i].offsets = take(memory, &used, numbers);
    }
    packer->block_lists = take(memory, &used, count * sizeof(struct hearth__pack_block));
    packer->scratch =
        take(memory, &used, count * HEARTH__PACK_ENTRIES * sizeof(struct hearth__pack_entry));
    return used;
}

static_assert(HEARTH__PACK_ENTRIES * sizeof(struct hearth__pack_entry) >=
                  4 * sizeof(struct hearth__pack_key),
              "the scratch holds two events of each buffer, twice");

size_t hearth__packer_bytes(size_t count)
{
    struct hearth__packer sized;
    return count > HEARTH__PACK_COUNT_MAX ? 0 : lay_memory(&sized, NULL, count);
}

/* Note a buffer that takes bytes and its two events. */
static enum hearth_status note(struct hearth__packer *packer, const struct hearth__pack_item *item,
                               uint32_t place)
{
    if (item->begin >= item->end)
        return HEARTH_INVALID;
    if (item->size > HEARTH__PACK_TOTAL_MAX)
        return HEARTH_OVERFLOW;
    if (item->size == 0)
        return HEARTH_OK;
    uint32_t number = packer->active++;
    packer->order[number] = place;
    packer->offsets[number] = (uint32_t)((item->size - 1) / HEARTH__PACK_ALIGNMENT + 1);
    struct hearth__pack_key *events =
        (struct hearth__pack_key *)packer->scratch + 2 * (size_t)number;
    events[0] = (struct hearth__pack_key){.key = (uint64_t)item->begin << 1 | 1, .value = number};
    events[1] = (struct hearth__pack_key){.key = (uint64_t)item->end << 1, .value = number};
    return HEARTH_OK;
}

static uint64_t default_work(size_t count)
{
    if (count < BUDGET_COUNT_MIN)
        return HEARTH__PACK_WORK * BUDGET_COUNT_MIN;
    return HEARTH__PACK_WORK * (count < BUDGET_COUNT_MAX ? count : BUDGET_COUNT_MAX);
}

enum hearth_status hearth__packer_init(void *memory, const struct hearth__pack_item *items,
                                       size_t count, const struct hearth__pack_options *options,
                                       struct hearth__packer **packer)
{
    if (count > HEARTH__PACK_COUNT_MAX)
        return HEARTH_OVERFLOW;
    struct hearth__packer *made = memory;
    *made = (struct hearth__packer){.count = (uint32_t)count};
    lay_memory(made, memory, count);
    if (options != NULL)
        made->options = *options;
    if (made->options.work == 0)
        made->options.work = default_work(count);
    made->random = made->options.seed;
    for (size_t i = 0; i < count; i++) {
        enum hearth_status status = note(made, &items[i], (uint32_t)i);
        if (status != HEARTH_OK)
            return status;
    }
    made->work = 2 * count;
    if (made->active == 0) {
        made->bases[0].total = 0;
        made->phase = HEARTH__PACK_DONE;
    }
    *packer = made;
    return HEARTH_OK;
}

/* The bound is known. */
static void start_passes(struct hearth__packer *packer)
{
    uint64_t accept = packer->bound + packer->bound * packer->options.accept / 1000;
    packer->accept = accept < HEIGHT_MAX ? (uint32_t)accept : (uint32_t)HEIGHT_MAX;
    packer->phase = packer->bound > HEIGHT_MAX ? HEARTH__PACK_DONE : HEARTH__PACK_START;
}

static const struct hearth__pack_base *best_of(const struct hearth__packer *packer)
{
    const struct hearth__pack_base *bases = packer->bases;
    return &bases[bases[1].total < bases[0].total ? 1 : 0];
}

static enum hearth__pack_kind kind_of(enum hearth__pack_method method)
{
    return method == HEARTH__PACK_SIZES || method == HEARTH__PACK_BUSIEST ? HEARTH__PACK_BY_FIT
                                                                          : HEARTH__PACK_BY_SKYLINE;
}

/* Choose what to try next and its order; false: there is nothing. */
static bool choose_pass(struct hearth__packer *packer)
{
    while (packer->scheduled < METHODS) {
        packer->method = methods[packer->scheduled++];
        packer->kind = kind_of(packer->method);
        if (packer->kind == HEARTH__PACK_BY_FIT && !packer->fits_cheap)
            continue;
        uint64_t total = packer->bases[packer->kind].total;
        packer->limit = total < HEIGHT_MAX ? total - 1 : HEIGHT_MAX;
        hearth__pack_sort_order(packer, packer->method);
        return true;
    }
    if (best_of(packer)->total == UINT64_MAX)
        return false;
    packer->method = HEARTH__PACK_SEARCH;
    packer->kind = packer->fits_cheap && packer->kind == HEARTH__PACK_BY_SKYLINE
                       ? HEARTH__PACK_BY_FIT
                       : HEARTH__PACK_BY_SKYLINE;
    /* As good is good enough: it may lead on. */
    uint64_t total = packer->bases[packer->kind].total;
    packer->limit = total < HEIGHT_MAX ? total : HEIGHT_MAX;
    hearth__pack_search_next(packer, packer->kind);
    return true;
}

/* The budget ends everything once there is a layout. */
static bool used_up(const struct hearth__packer *packer)
{
    return best_of(packer)->total != UINT64_MAX && packer->work >= packer->options.work;
}

static void start_pass(struct hearth__packer *packer)
{
    if (best_of(packer)->total <= packer->accept || used_up(packer) || !choose_pass(packer)) {
        packer->phase = HEARTH__PACK_DONE;
        return;
    }
    packer->passes++;
    packer->placed = 0;
    packer->top = 0;
    if (packer->kind == HEARTH__PACK_BY_SKYLINE)
        hearth__pack_skyline_start(packer);
    else
        hearth__pack_fit_start(packer);
    packer->phase = HEARTH__PACK_RUN;
}

static void swap(uint32_t **left, uint32_t **right)
{
    uint32_t *kept = *left;
    *left = *right;
    *right = kept;
}

static void end_pass(struct hearth__packer *packer)
{
    packer->phase = HEARTH__PACK_START;
    if (packer->placed < packer->active)
        return;
    struct hearth__pack_base *base = &packer->bases[packer->kind];
    if (packer->top < base->total)
        base->method = packer->method;
    base->total = packer->top;
    swap(&base->order, &packer->order);
    swap(&base->offsets, &packer->offsets);
}

static void run_pass(struct hearth__packer *packer)
{
    uint64_t pause = packer->pause;
    if (best_of(packer)->total != UINT64_MAX && packer->pause > packer->options.work)
        packer->pause = packer->options.work;
    bool ended = packer->kind == HEARTH__PACK_BY_SKYLINE ? hearth__pack_skyline_run(packer)
                                                         : hearth__pack_fit_run(packer);
    packer->pause = pause;
    if (ended)
        end_pass(packer);
    else if (used_up(packer))
        packer->phase = HEARTH__PACK_DONE;
}

bool hearth__packer_step(struct hearth__packer *packer, uint64_t work)
{
    packer->pause = packer->work + (work < WORK_MAX ? work : WORK_MAX) + 1;
    while (packer->phase != HEARTH__PACK_DONE && packer->work < packer->pause) {
        switch (packer->phase) {
        case HEARTH__PACK_SORT:
            hearth__pack_sort_events(packer);
            packer->phase = HEARTH__PACK_SWEEP;
            break;
        case HEARTH__PACK_SWEEP:
            hearth__pack_sweep(packer);
            start_passes(packer);
            break;
        case HEARTH__PACK_START:
            start_pass(packer);
            break;
        case HEARTH__PACK_RUN:
            run_pass(packer);
            break;
        case HEARTH__PACK_DONE:
            break;
        }
    }
    return packer->phase == HEARTH__PACK_DONE;
}

enum hearth_status hearth__packer_layout(const struct hearth__packer *packer, size_t *offsets,
                                         struct hearth__pack_report *report)
{
    const struct hearth__pack_base *best = best_of(packer);
    if (best->total == UINT64_MAX)
        return packer->phase == HEARTH__PACK_DONE ? HEARTH_OVERFLOW : HEARTH_BUSY;
    for (uint32_t i = 0; i < packer->count; i++)
        offsets[i] = 0;
    for (uint32_t i = 0; i < packer->active; i++)
        offsets[packer->places[i]] = best->offsets[i] * HEARTH__PACK_ALIGNMENT;
    if (report != NULL) {
        *report = (struct hearth__pack_report){
            .total = (size_t)best->total * HEARTH__PACK_ALIGNMENT,
            .bound = (size_t)packer->bound * HEARTH__PACK_ALIGNMENT,
            .work = packer->work,
            .passes = packer->passes,
            .method = best->method,
        };
    }
    return HEARTH_OK;
}

static void run(struct hearth__packer *packer)
{
    uint64_t deadline = packer->options.deadline_ns;
    if (deadline == 0) {
        hearth__packer_step(packer, UINT64_MAX);
        return;
    }
    while (!hearth__packer_step(packer, DEADLINE_SLICE)) {
        if (best_of(packer)->total != UINT64_MAX && hearth__now_ns() > deadline)
            return;
    }
}

enum hearth_status hearth__pack(const struct hearth__pack_item *items, size_t count,
                                const struct hearth__pack_options *options, size_t *offsets,
                                struct hearth__pack_report *report)
{
    size_t bytes = hearth__packer_bytes(count);
    if (bytes == 0)
        return HEARTH_OVERFLOW;
    void *memory = malloc(bytes);
    if (memory == NULL)
        return HEARTH_NO_MEMORY;
    struct hearth__packer *packer;
    enum hearth_status status = hearth__packer_init(memory, items, count, options, &packer);
    if (status == HEARTH_OK) {
        run(packer);
        status = hearth__packer_layout(packer, offsets, report);
    }
    free(memory);
    return status;
}
