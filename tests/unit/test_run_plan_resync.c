/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of a run is served by its plan when it does not quite go as planned: runs of a real engine with faults
 * put in, against floors. The player sees to it that no byte has two owners meanwhile.
 */
#include "pack_check.h"
#include "plan_check.h"
#include "plan_player.h"
#include "support.h"

#include <criterion/logging.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 1000u

/* The first run of a trace as the execution arena sees it: without what is exported. */
struct trace {
    struct {
        unsigned long id;
        size_t size;
        uint32_t end;
    } requests[REQUESTS_MAX];
    uint32_t count;
};

static uint32_t find(const struct trace *trace, unsigned long id)
{
    for (uint32_t i = 0; i < trace->count; i++)
        if (trace->requests[i].id == id)
            return i;
    return REQUESTS_MAX;
}

/* Exports come after what is before them, so that they are taken out at the end. */
static void read_events(FILE *file, struct trace *trace, bool *exported)
{
    char line[128];
    while (fgets(line, sizeof line, file) != NULL) {
        char op[16];
        unsigned long run, id, bytes;
        if (sscanf(line, "%lu,%15[a-z],%lu,%lu", &run, op, &id, &bytes) != 4 || run != 0)
            continue;
        if (strcmp(op, "alloc") == 0) {
            cr_assert_lt(trace->count, REQUESTS_MAX);
            trace->requests[trace->count].id = id;
            trace->requests[trace->count].size = bytes;
            trace->requests[trace->count++].end = HEARTH__RUN_NO_END;
            continue;
        }
        uint32_t i = find(trace, id);
        cr_assert_lt(i, REQUESTS_MAX);
        if (strcmp(op, "free") == 0)
            trace->requests[i].end = trace->count;
        else
            exported[i] = true;
    }
}

static struct hearth__run_record *read_run(const char *name)
{
    static struct trace trace;
    bool exported[REQUESTS_MAX] = {false};
    uint32_t before[REQUESTS_MAX + 1] = {0}; /* requests that are not exported */
    char path[4096];
    (void)snprintf(path, sizeof path, HEARTH_TEST_DATA "/traces/%s.csv", name);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    trace.count = 0;
    read_events(file, &trace, exported);
    (void)fclose(file);
    for (uint32_t i = 0; i < trace.count; i++)
        before[i + 1] = before[i] + !exported[i];
    struct hearth__run_record *record = plan_record(before[trace.count]);
    for (uint32_t i = 0; i < trace.count; i++) {
        if (exported[i])
            continue;
        cr_assert_leq(trace.requests[i].end, trace.count, "%s: %u is not returned", name, i);
        record->requests[before[i]] = (struct hearth__run_request){
            .size = trace.requests[i].size,
            .most = trace.requests[i].size,
            .end = before[trace.requests[i].end],
        };
    }
    return record;
}

enum fault { LATE, SWAP, EXTRA, MISSING, RESIZED, MIXED, FAULTS };

/* A run of a record with faults. */
struct fault_run {
    struct player *player;
    const struct hearth__run_record *record;
    uint32_t due[PLAYER_LIVE_MOST];
    uint32_t at;
    uint64_t state;
    uint64_t requests;
};

static void ask_for(struct fault_run *run, size_t size, uint32_t end)
{
    struct player *player = run->player;
    for (uint32_t i = 0; i < player->top; i++)
        if (player->live[i].place != NULL && run->due[i] <= run->at)
            player_return(player, i);
    uint32_t index = player_ask(player, size, NULL, NULL);
    if (index != PLAYER_LISTS)
        run->due[index] = end;
    run->requests++;
}

static void ask_as_recorded(struct fault_run *run, uint32_t i)
{
    if (i < run->record->count)
        ask_for(run, run->record->requests[i].size, run->record->requests[i].end);
}

/* Request `at`, and the next ones, with a fault. */
static void fail_one(struct fault_run *run, enum fault fault)
{
    const struct hearth__run_record *record = run->record;
    const struct hearth__run_request *request = &record->requests[run->at];
    size_t size = request->size;
    switch (fault) {
    case LATE:
        ask_for(run, size, request->end + 1 + pack_draw(&run->state, 32));
        break;
    case SWAP:
        ask_as_recorded(run, run->at + 1);
        ask_as_recorded(run, run->at++);
        break;
    case EXTRA:
        size = record->requests[pack_draw(&run->state, record->count)].size;
        ask_for(run, size, run->at + 1 + pack_draw(&run->state, 16));
        ask_as_recorded(run, run->at);
        break;
    case RESIZED:
        size = size / 2 + 1 + (size_t)((double)size * pack_draw(&run->state, 1000) / 1000);
        ask_for(run, size, request->end);
        break;
    default:
        break;
    }
}

/* The share of requests that the plan serves, over many runs with one fault in `every` requests. */
static double share_served(const char *name, enum fault fault, uint32_t every, uint32_t runs)
{
    struct hearth__run_record *record = read_run(name);
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    cr_assert_not_null(plan);
    assert_size(plan->off_count, 0);
    struct fault_run run = {.player = player_open(&plan, 1), .record = record, .state = 5};
    for (uint32_t k = 0; k < runs; k++) {
        cr_assert(player_begin(run.player, plan));
        for (run.at = 0; run.at < record->count; run.at++) {
            enum fault kind = fault == MIXED ? (enum fault)pack_draw(&run.state, MIXED) : fault;
            if (pack_draw(&run.state, every) == every / 2)
                fail_one(&run, kind);
            else
                ask_as_recorded(&run, run.at);
        }
        for (uint32_t i = 0; i < run.player->top; i++)
            if (run.player->live[i].place != NULL)
                player_return(run.player, i);
        player_end(run.player);
    }
    double share = (double)run.player->served / (double)run.requests;
    player_close(run.player);
    free(record);
    return share;
}

static const char *const traces[] = {"cls", "det640", "det640_parallel", "rec", "vad"};

/* Percent of the requests, on the worst of the traces: with one fault in 333 requests, and in 33. */
static const struct {
    const char *kind;
    double rare, often;
} floors[FAULTS] = {
    [LATE] = {"late", 96, 76},       [SWAP] = {"swap", 98, 88},       [EXTRA] = {"extra", 97, 84},
    [MISSING] = {"missing", 96, 75}, [RESIZED] = {"resized", 99, 97}, [MIXED] = {"mixed", 97, 84},
};

static void check_floor(enum fault fault, uint32_t every, double floor)
{
    for (size_t i = 0; i < COUNT_OF(traces); i++) {
        double share = 100 * share_served(traces[i], fault, every, 100);
        cr_log_info("%s, one in %u %s: %.1f %%", traces[i], every, floors[fault].kind, share);
        cr_assert_geq(share, floor, "%s, one in %u %s: %.1f %%", traces[i], every,
                      floors[fault].kind, share);
    }
}

Test(run_plan_resync, rare_faults)
{
    for (enum fault fault = LATE; fault < FAULTS; fault++)
        check_floor(fault, 333, floors[fault].rare);
}

Test(run_plan_resync, many_faults)
{
    for (enum fault fault = LATE; fault < FAULTS; fault++)
        check_floor(fault, 33, floors[fault].often);
}

Test(run_plan_resync, no_faults)
{
    for (size_t i = 0; i < COUNT_OF(traces); i++)
        cr_assert_eq(share_served(traces[i], MIXED, UINT32_MAX, 3), 1, "%s", traces[i]);
}
