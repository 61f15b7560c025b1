/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_check.h"

#include "pack_check.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#define NOBODY UINT32_MAX

struct hearth__run_record *plan_record(uint32_t count)
{
    struct hearth__run_record *record = calloc(1, hearth__run_record_bytes(count));
    cr_assert_not_null(record);
    record->count = count;
    for (uint32_t i = 0; i < count; i++)
        record->requests[i] =
            (struct hearth__run_request){.size = 64, .most = 64, .end = HEARTH__RUN_NO_END};
    return record;
}

static void make_odd(struct hearth__run_request *request, uint64_t *state)
{
    switch (pack_draw(state, 5)) {
    case 0:
        request->end = HEARTH__RUN_NO_END;
        break;
    case 1:
        request->taken = true;
        break;
    case 2:
        request->remote = true;
        break;
    case 3:
        request->most += pack_draw(state, 300);
        break;
    default:
        request->size = request->most = 0;
    }
}

void plan_random_record(struct hearth__run_record *record, uint32_t units, uint32_t odd,
                        uint64_t *state)
{
    for (uint32_t i = 0; i < record->count; i++) {
        struct hearth__run_request *request = &record->requests[i];
        uint32_t life = 1 + pack_draw(state, 1 + pack_draw(state, record->count));
        uint32_t end = i + life < record->count ? i + life : record->count;
        size_t size = 1 + pack_draw(state, 64 * (1 + pack_draw(state, units)));
        *request = (struct hearth__run_request){.size = size, .most = size, .end = end};
        if (pack_draw(state, 100) < odd)
            make_odd(request, state);
    }
}

bool plan_has_place(const struct hearth__run_record *record, uint32_t i)
{
    const struct hearth__run_request *request = &record->requests[i];
    return request->end != HEARTH__RUN_NO_END && !request->taken &&
           request->most <= HEARTH__PACK_TOTAL_MAX;
}

uint32_t plan_end(const struct hearth__run_record *record, uint32_t i)
{
    const struct hearth__run_request *request = &record->requests[i];
    uint32_t end = request->end + (request->remote ? 4 : 0);
    return end > i ? end : i + 1;
}

struct hearth__plan *plan_made(const struct hearth__run_record *record, uint64_t work)
{
    struct hearth__planning *planning = hearth__planning_begin(record);
    if (planning == NULL)
        return NULL;
    while (!hearth__planning_step(planning, work))
        continue;
    return hearth__planning_end(planning);
}

static void check_entry(const struct hearth__plan *plan, const struct hearth__run_record *record,
                        uint32_t i)
{
    const struct hearth__plan_entry *entry = &plan->entries[i];
    const struct hearth__run_request *request = &record->requests[i];
    assert_size(plan->sizes[i], request->size);
    cr_assert_eq(entry->place, &hearth__no_place);
    cr_assert_eq(entry->over, 0);
    cr_assert_eq(plan->ends[i], request->end);
    if (!plan_has_place(record, i)) {
        assert_size(plan->offsets[i], UINT32_MAX);
        assert_size(plan->units[i], 0);
        assert_size(entry->size, HEARTH__PLAN_OFF);
        return;
    }
    size_t most = request->most > request->size ? request->most : request->size;
    assert_size(plan->units[i], most == 0 ? 1 : (most + 63) / 64);
    assert_size(entry->size, request->size);
    assert_size(hearth__weight_count(entry->weight), 1);
    assert_size(hearth__weight_capacity(entry->weight), (size_t)plan->units[i] * 64);
    cr_assert_leq(((size_t)plan->offsets[i] + plan->units[i]) * 64, plan->bytes);
}

static void check_lives(const struct hearth__plan *plan, const struct hearth__run_record *record)
{
    size_t top = 0;
    size_t peak = 0;
    uint32_t out = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        size_t load = 0;
        out += plan->units[i] == 0;
        if (plan->units[i] == 0)
            continue;
        size_t end = (size_t)plan->offsets[i] + plan->units[i];
        top = end > top ? end : top;
        /* Who is there when i begins: i comes after j, and before j's end. */
        for (uint32_t j = 0; j <= i; j++) {
            if (plan->units[j] == 0 || plan_end(record, j) <= i)
                continue;
            load += plan->units[j];
            cr_assert(j == i || end <= plan->offsets[j] ||
                          (size_t)plan->offsets[j] + plan->units[j] <= plan->offsets[i],
                      "%u and %u share bytes", j, i);
        }
        peak = load > peak ? load : peak;
    }
    assert_size(plan->off_count, out);
    assert_size(plan->bytes, top * 64);
    assert_size(plan->bound, peak * 64);
}

static void check_edges(const struct hearth__plan *plan)
{
    size_t units = plan->bytes / 64;
    uint32_t *painter = malloc((units + 1) * sizeof *painter);
    bool *wanted = calloc(plan->count, sizeof *wanted);
    cr_assert(painter != NULL && wanted != NULL);
    memset(painter, 0xff, (units + 1) * sizeof *painter);
    for (uint32_t i = 0; i < plan->count; i++) {
        size_t wants = 0;
        for (uint32_t unit = 0; unit < plan->units[i]; unit++) {
            uint32_t *at = &painter[plan->offsets[i] + unit];
            if (*at != NOBODY && *at != i && !wanted[*at]) {
                wanted[*at] = true;
                wants++;
            }
            *at = i;
        }
        uint32_t first = plan->entries[i].first;
        uint32_t end = plan->entries[i + 1].first;
        cr_assert_eq(end - first, wants, "%u has %u predecessors, not %zu", i, end - first, wants);
        for (uint32_t k = first; k != end; k++) {
            cr_assert(wanted[plan->edges[k]], "%u is none of %u", plan->edges[k], i);
            wanted[plan->edges[k]] = false;
        }
    }
    assert_size(plan->entries[0].first, 0);
    for (uint32_t i = plan->count; i < plan->count + 2; i++) {
        assert_size(plan->entries[i].first, plan->edge_count);
        assert_size(plan->entries[i].size, HEARTH__PLAN_OFF);
        cr_assert_eq(plan->entries[i].place, &hearth__no_place);
    }
    free(painter);
    free(wanted);
}

void plan_check(const struct hearth__plan *plan, const struct hearth__run_record *record)
{
    cr_assert_not_null(plan);
    assert_size(plan->count, record->count);
    cr_assert_eq(plan->key, record->key);
    cr_assert_not(plan->placed);
    assert_size(plan->blocked, 0);
    for (uint32_t i = 0; i < plan->count; i++)
        check_entry(plan, record, i);
    check_lives(plan, record);
    check_edges(plan);
}

bool plan_same(const struct hearth__plan *a, const struct hearth__plan *b)
{
    if (a->count != b->count || a->edge_count != b->edge_count || a->bytes != b->bytes ||
        a->bound != b->bound || a->off_count != b->off_count || a->key != b->key)
        return false;
    for (uint32_t i = 0; i < a->count + 2; i++)
        if (a->entries[i].size != b->entries[i].size ||
            a->entries[i].first != b->entries[i].first ||
            a->entries[i].weight != b->entries[i].weight)
            return false;
    return memcmp(a->offsets, b->offsets, a->count * sizeof *a->offsets) == 0 &&
           memcmp(a->units, b->units, a->count * sizeof *a->units) == 0 &&
           memcmp(a->sizes, b->sizes, a->count * sizeof *a->sizes) == 0 &&
           memcmp(a->edges, b->edges, a->edge_count * sizeof *a->edges) == 0;
}
