/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Following run plans: the rule's cases one by one, then random runs of several plans in one slab against a player
 * that knows who has what. How much of a run that strays is served is in test_run_plan_resync.c. Not covered:
 * threads, of which plans know nothing.
 */
#include "pack_check.h"
#include "plan_check.h"
#include "plan_player.h"
#include "support.h"

#include <stdlib.h>

/* 16 requests of `size`, each returned before the next. */
static struct hearth__run_record *one_by_one(size_t size)
{
    struct hearth__run_record *record = plan_record(HEARTH__RUN_LEAST);
    for (uint32_t i = 0; i < record->count; i++)
        record->requests[i] =
            (struct hearth__run_request){.size = size, .most = size, .end = i + 1};
    return record;
}

static struct player *play(struct hearth__run_record *record)
{
    struct hearth__plan *plan = plan_made(record, UINT64_MAX);
    plan_check(plan, record);
    free(record);
    struct player *player = player_open(&plan, 1);
    player->watch = 1;
    return player;
}

static uint32_t ask(struct player *player, size_t size)
{
    return player_ask(player, size, NULL, NULL);
}

Test(run_plan, a_run_as_planned)
{
    struct player *player = play(one_by_one(64));
    for (uint32_t run = 0; run < 3; run++) {
        cr_assert(player_begin(player, player->book->plans[0]));
        for (uint32_t i = 0; i < 16; i++)
            player_return(player, ask(player, 64));
        cr_assert_eq(ask(player, 64), PLAYER_LISTS, "beyond the end");
        player_end(player);
    }
    assert_size(player->served, 48);
    assert_size(player->sought, 0);
    assert_size(player->unknown, 3);
    player_close(player);
}

Test(run_plan, late_is_blocked)
{
    struct player *player = play(one_by_one(64));
    cr_assert(player_begin(player, player->book->plans[0]));
    uint32_t late = ask(player, 64);
    cr_assert_eq(ask(player, 64), PLAYER_LISTS);
    cr_assert_eq(ask(player, 64), PLAYER_LISTS);
    assert_size(player->blocked, 2);
    player_return(player, late);
    /* 1 and 2 are given up. */
    cr_assert_neq(ask(player, 64), PLAYER_LISTS);
    assert_size((uint32_t)player->run.number, 1);
    assert_size(player->run.cursor - player->run.entries, 4);
    player_close(player);
}

static void return_it(struct player *player, void *index)
{
    player_return(player, *(uint32_t *)index);
}

Test(run_plan, blocked_may_ask_again)
{
    struct player *player = play(one_by_one(64));
    cr_assert(player_begin(player, player->book->plans[0]));
    uint32_t late = ask(player, 64);
    cr_assert_neq(player_ask(player, 64, return_it, &late), PLAYER_LISTS);
    assert_size(player->blocked, 0);
    player_close(player);
}

Test(run_plan, skipped_ones_hide_nobody)
{
    /* All at one offset, each of twice the size of the one before. */
    struct hearth__run_record *record = one_by_one(64);
    for (uint32_t i = 0; i < 16; i++)
        record->requests[i].size = record->requests[i].most = (size_t)64 << i;
    struct player *player = play(record);
    cr_assert(player_begin(player, player->book->plans[0]));
    uint32_t late = ask(player, 64);
    cr_assert_eq(ask(player, 64 << 2), PLAYER_LISTS, "0 is there, 1 was skipped");
    cr_assert_eq(ask(player, 64 << 4), PLAYER_LISTS);
    player_return(player, late);
    uint32_t third = ask(player, 64 << 3);
    cr_assert_neq(third, PLAYER_LISTS);
    player_return(player, third);
    /* What was given up for it comes too late. */
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(ask(player, (size_t)64 << i), PLAYER_LISTS);
    player_close(player);
}

Test(run_plan, what_is_carried_is_in_the_way)
{
    struct player *player = play(one_by_one(64));
    struct hearth__plan *plan = player->book->plans[0];
    cr_assert(player_begin(player, plan));
    uint32_t carried = ask(player, 64);
    player_end(player);
    cr_assert(player_begin(player, plan));
    assert_size(plan->blocked, 16);
    cr_assert_eq(ask(player, 64), PLAYER_LISTS);
    player_return(player, carried);
    cr_assert_eq(ask(player, 64), PLAYER_LISTS, "for this run");
    cr_assert_eq(ask(player, HEARTH__PLAN_OFF), PLAYER_LISTS);
    player_end(player);
    assert_size(plan->blocked, 0);
    cr_assert(player_begin(player, plan));
    cr_assert_neq(ask(player, 64), PLAYER_LISTS);
    player_close(player);
}

Test(run_plan, what_moved_leaves_its_bytes_only)
{
    /* 0 and 1 begin at the same offset, 1 is larger; 2 lies beside 0. */
    struct hearth__run_record *record = one_by_one(128);
    record->requests[0].size = record->requests[0].most = 64;
    struct player *player = play(record);
    struct hearth__plan *plan = player->book->plans[0];
    cr_assert(player_begin(player, plan));
    uint32_t moved = ask(player, 64);
    player_move(player, moved);
    cr_assert_eq(ask(player, 128), PLAYER_LISTS, "the slot is in use");
    player_end(player);
    cr_assert(player_begin(player, plan));
    assert_size(plan->blocked, 0);
    cr_assert_eq(ask(player, 64), PLAYER_LISTS);
    player_return(player, moved);
    cr_assert_neq(ask(player, 128), PLAYER_LISTS);
    player_close(player);
}

Test(run_plan, a_smaller_one_may_have_the_place)
{
    struct player *player = play(one_by_one(640));
    cr_assert(player_begin(player, player->book->plans[0]));
    const struct {
        size_t size;
        bool fits;
    } cases[] = {{639, true}, {321, true}, {320, false}, {641, false}, {0, false}, {640, true}};
    for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
        uint32_t index = ask(player, cases[i].size);
        cr_assert_eq(index != PLAYER_LISTS, cases[i].fits, "%zu", cases[i].size);
        if (index != PLAYER_LISTS)
            player_return(player, index);
    }
    player_close(player);
}

Test(run_plan, no_plan_serves_nothing)
{
    struct player *player = play(one_by_one(64));
    cr_assert(player_begin(player, NULL));
    cr_assert_eq(ask(player, 64), PLAYER_LISTS);
    cr_assert_eq(ask(player, HEARTH__PLAN_OFF), PLAYER_LISTS);
    player_close(player);
}

Test(run_plan, sizes_beyond_all_are_not_served)
{
    struct hearth__run_record *record = one_by_one(64);
    record->requests[0].size = record->requests[0].most = SIZE_MAX;
    struct player *player = play(record);
    cr_assert(player_begin(player, player->book->plans[0]));
    cr_assert_eq(ask(player, SIZE_MAX), PLAYER_LISTS);
    assert_size(player->out, 1);
    for (uint32_t i = 1; i < 16; i++)
        player_return(player, ask(player, 64));
    cr_assert_eq(ask(player, SIZE_MAX), PLAYER_LISTS);
    player_close(player);
}

/* Random runs. */

#define RECORDS 4u
#define ENDLESS UINT32_MAX

struct walk {
    struct player *player;
    struct hearth__run_record *records[RECORDS];
    uint32_t due[PLAYER_LIVE_MOST];
    uint32_t faults; /* in 1000 requests */
    uint32_t time;
    uint64_t state;
    uint64_t operations;
};

static uint32_t draw(struct walk *walk, uint32_t bound)
{
    return pack_draw(&walk->state, bound);
}

/* Runs that begin alike, of few sizes. */
static void make_records(struct walk *walk)
{
    uint32_t sizes = 2 + draw(walk, 6);
    uint32_t units = 1 + draw(walk, 12);
    for (uint32_t k = 0; k < RECORDS; k++) {
        struct hearth__run_record *record = plan_record(HEARTH__RUN_LEAST + draw(walk, 50));
        plan_random_record(record, units, 10, &walk->state);
        uint32_t alike = k == 0 ? 0 : 1 + draw(walk, 20);
        for (uint32_t i = 0; i < record->count; i++) {
            struct hearth__run_request *request = &record->requests[i];
            size_t more = request->most - request->size;
            bool same = i < alike && i < walk->records[0]->count;
            request->size = same ? walk->records[0]->requests[i].size
                                 : 64 * (request->size % sizes) * units / sizes + 1;
            request->most = request->size + more;
        }
        walk->records[k] = record;
    }
}

static void note(struct walk *walk, uint32_t index, uint32_t end)
{
    if (index == PLAYER_LISTS)
        return;
    uint32_t late = draw(walk, 1000) < walk->faults ? draw(walk, 40) : 0;
    walk->due[index] = late == 39 ? ENDLESS : end + late;
}

static void return_due(struct walk *walk, uint32_t time)
{
    for (uint32_t i = 0; i < walk->player->top; i++)
        if (walk->player->live[i].place != NULL && walk->due[i] <= time) {
            player_return(walk->player, i);
            walk->operations++;
        }
}

/* Return, move, or forget some live one. */
static void disturb(struct walk *walk)
{
    uint32_t top = walk->player->top;
    uint32_t first = draw(walk, top);
    uint32_t k = 0;
    while (k < top && walk->player->live[(first + k) % top].place == NULL)
        k++;
    if (k == top)
        return;
    uint32_t index = (first + k) % top;
    walk->operations++;
    switch (draw(walk, 4)) {
    case 0:
        player_move(walk->player, index);
        break;
    case 1:
        walk->due[index] = ENDLESS;
        break;
    default:
        player_return(walk->player, index);
    }
}

static void wait_for(struct player *player, void *context)
{
    (void)player;
    struct walk *walk = context;
    for (uint32_t k = draw(walk, 4); k > 0; k--)
        disturb(walk);
}

static void ask_for(struct walk *walk, size_t size, uint32_t end)
{
    walk->operations++;
    return_due(walk, walk->time++);
    note(walk, player_ask(walk->player, size, draw(walk, 2) == 0 ? wait_for : NULL, walk), end);
}

/* Something else than request `at`. Answers where the run goes on. */
static uint32_t stray(struct walk *walk, const struct hearth__run_record *record, uint32_t at)
{
    const struct hearth__run_request *request = &record->requests[at];
    const struct hearth__run_request *other = &record->requests[draw(walk, record->count)];
    switch (draw(walk, 7)) {
    case 0: /* a swap */
        if (at + 1 == record->count)
            return at;
        ask_for(walk, request[1].size, request[1].end);
        ask_for(walk, request->size, request->end);
        return at + 2;
    case 1:
        return at + 1 + draw(walk, 6);
    case 2:
        ask_for(walk, other->size, walk->time + draw(walk, 20));
        return at;
    case 3:
        ask_for(walk, request->size - draw(walk, (uint32_t)request->size), request->end);
        return at + 1;
    case 4:
        ask_for(walk, request->size + draw(walk, 100), request->end);
        return at + 1;
    case 5:
        disturb(walk);
        return at;
    default:
        return draw(walk, 5) == 0 ? draw(walk, record->count) : at;
    }
}

static void run_once(struct walk *walk)
{
    struct player *player = walk->player;
    const struct hearth__run_record *record = walk->records[draw(walk, RECORDS)];
    struct hearth__plan *plan = hearth__book_choose(player->book, 0, record->requests[0].size);
    cr_assert_not_null(plan);
    while (!player_begin(player, draw(walk, 20) == 0 ? NULL : plan))
        return_due(walk, ENDLESS);
    walk->time = 0;
    uint32_t most = 4 * record->count;
    for (uint32_t at = 0; at < record->count && most > 0; most--) {
        if (draw(walk, 1000) < walk->faults)
            at = stray(walk, record, at);
        else {
            const struct hearth__run_request *request = &record->requests[at++];
            uint32_t end = request->end;
            ask_for(walk, request->size, end == HEARTH__RUN_NO_END ? draw(walk, 300) : end);
        }
    }
    return_due(walk, record->count + draw(walk, 100));
    for (uint32_t i = 0; i < walk->player->top; i++)
        walk->due[i] = draw(walk, 3) == 0 ? walk->due[i] : draw(walk, record->count);
    player_end(player);
}

/* Number wraps in every other world. */
static void walk_world(struct walk *walk, uint32_t world, uint32_t runs)
{
    const uint32_t faults[] = {0, 3, 30, 100, 300, 700};
    struct hearth__plan *plans[RECORDS];
    walk->faults = faults[world % COUNT_OF(faults)];
    walk->state = world + 1;
    make_records(walk);
    for (uint32_t k = 0; k < RECORDS; k++)
        plans[k] = plan_made(walk->records[k], UINT64_MAX);
    walk->player = player_open(plans, RECORDS);
    walk->player->watch = 3;
    for (uint32_t run = 0; run < runs; run++) {
        /* Then the numbers of the first runs come again. */
        if (run == runs / 3 && world % 2 == 0)
            walk->player->book->number = UINT32_MAX - 5;
        run_once(walk);
    }
}

Test(run_plan, random_runs_share_no_byte)
{
    static struct walk walk;
    uint64_t switched = 0;
    uint64_t carried = 0;
    uint64_t sought = 0;
    for (uint32_t world = 0; world < 120; world++) {
        walk_world(&walk, world, 150);
        switched += walk.player->switched;
        carried += walk.player->carried;
        sought += walk.player->sought;
        if (world % 2 == 0)
            cr_assert_lt(walk.player->book->number, 10000, "wrapped");
        player_close(walk.player);
        for (uint32_t k = 0; k < RECORDS; k++)
            free(walk.records[k]);
    }
    cr_assert_gt(walk.operations, 1000000, "%zu", (size_t)walk.operations);
    cr_assert(switched > 1000 && carried > 10000 && sought > 50000, "%zu %zu %zu", (size_t)switched,
              (size_t)carried, (size_t)sought);
}
