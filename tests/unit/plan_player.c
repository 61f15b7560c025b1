/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_player.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

#define WAS_SERVED 1u
#define WAS_OVER 2u

#define UNIT HEARTH__WEIGHT_UNIT

struct player *player_open(struct hearth__plan **plans, uint32_t count)
{
    struct player *player = calloc(1, sizeof *player);
    cr_assert_not_null(player);
    struct hearth__book *book = player->book = hearth__book_create();
    cr_assert_not_null(book);
    uint32_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        book->plans[book->plan_count++] = plans[i];
        most = plans[i]->count > most ? plans[i]->count : most;
    }
    size_t need = hearth__book_need(book);
    player->slab = aligned_alloc(UNIT, need);
    player->was = calloc(most, 1);
    cr_assert(player->slab != NULL && player->was != NULL);
    book->slab = (struct hearth_segment){.base = player->slab, .length = need};
    assert_ok(hearth__book_place(book, &player->arena));
    for (uint32_t i = PLAYER_LIVE_MOST; i > 0; i--)
        player->unused[player->unused_count++] = i - 1;
    return player;
}

void player_close(struct player *player)
{
    for (uint32_t i = 0; i < player->top; i++)
        if (player->live[i].place != NULL)
            player_return(player, i);
    (void)hearth__book_take_slab(player->book);
    hearth__book_free(player->book);
    free(player->slab);
    free(player->was);
    free(player);
}

uint32_t player_live_count(const struct player *player)
{
    return PLAYER_LIVE_MOST - player->unused_count;
}

static void follow_none(struct player *player)
{
    player->plan = NULL;
    player->run.cursor = player->run.entries = hearth__no_entries;
    player->run.edges = NULL;
}

static void follow(struct player *player, struct hearth__plan *plan, uint32_t at)
{
    size_t live = hearth__book_follow(player->book, plan, at, &player->run);
    assert_size(live, player_live_count(player));
    for (uint32_t i = 0; i < player->top; i++)
        cr_assert(player->live[i].place == NULL ||
                  hearth__place_entry(player->live[i].place) == NULL);
    player->plan = plan;
    memset(player->was, 0, plan->count);
}

bool player_begin(struct player *player, struct hearth__plan *plan)
{
    uint32_t before = player->book->number;
    player->run.number = hearth__book_next_number(player->book, player_live_count(player) != 0);
    player->asked = 0;
    follow_none(player);
    if (player->run.number == 0) {
        cr_assert(before == UINT32_MAX && player_live_count(player) != 0);
        return false;
    }
    cr_assert_eq(player->run.number, before == UINT32_MAX ? 1 : before + 1);
    player->carried += player_live_count(player);
    if (plan != NULL)
        follow(player, plan, 0);
    return true;
}

void player_end(struct player *player)
{
    if (player->plan != NULL)
        hearth__book_run_end(player->book, player->plan, 1, 1);
    assert_size(hearth__book_live(player->book, NULL), player_live_count(player));
    follow_none(player);
    player->run.number = 0;
}

/* What is over stays over, and what is not served and over is not live. */
static void watch(struct player *player)
{
    for (uint32_t i = 0; i < player->plan->count; i++) {
        bool over = player->plan->entries[i].over == player->run.number;
        cr_assert(over || (player->was[i] & WAS_OVER) == 0, "%u is not over any more", i);
        player->was[i] |= over ? WAS_OVER : 0;
    }
}

static void check_alone(const struct player *player, uint32_t unit, uint32_t units,
                        uint32_t ordinal)
{
    for (uint32_t i = 0; i < player->top; i++) {
        const struct player_live *live = &player->live[i];
        bool apart = live->unit + live->units <= unit || unit + units <= live->unit;
        cr_assert(live->place == NULL || live->moved || apart,
                  "%u lies where one of %u units at %u is live", ordinal, live->units, live->unit);
    }
}

static uint32_t enter(struct player *player, struct hearth_buf *place, size_t size)
{
    const struct hearth__plan *plan = player->plan;
    uint32_t ordinal = (uint32_t)(hearth__place_entry(place) - plan->entries);
    cr_assert_lt(ordinal, plan->count);
    cr_assert_eq(player->was[ordinal], 0, "%u is served, again or after it was over", ordinal);
    player->was[ordinal] |= WAS_SERVED;
    cr_assert_eq(place, plan->entries[ordinal].place);
    cr_assert_eq(hearth__word_state(place->state), HEARTH__FREE);
    cr_assert_eq(place->flags, 0);
    cr_assert_eq(place->data, (char *)player->slab + (size_t)plan->offsets[ordinal] * UNIT);
    uint32_t units = (uint32_t)(hearth__buf_capacity(place) / UNIT);
    cr_assert_eq(units, plan->units[ordinal]);
    cr_assert_leq(size, (size_t)units * UNIT, "%zu in %u units", size, units);
    uint32_t index = player->unused[--player->unused_count];
    player->top = index < player->top ? player->top : index + 1;
    uint32_t unit = plan->offsets[ordinal];
    check_alone(player, unit, units, ordinal);
    player->live[index] = (struct player_live){place, place->data, unit, units, false};
    uint64_t generation = hearth__word_generation(place->state);
    hearth__store_relaxed(&place->state, hearth__word(generation, HEARTH__LIVE));
    hearth__store_relaxed(&place->size, size);
    player->served++;
    player->served_bytes += size;
    return index;
}

/* Another plan, if one is like this up to here and goes on with `size`; whether the run was like it or not. */
static enum hearth__plan_answer try_other(struct player *player, size_t size,
                                          struct hearth_buf **place)
{
    struct hearth__book *book = player->book;
    struct hearth__plan *other = hearth__book_other(book, player->plan, player->asked, size);
    uint32_t number = other == NULL ? 0 : hearth__book_next_number(book, true);
    if (number == 0)
        return HEARTH__PLAN_UNKNOWN;
    hearth__plan_unblock(player->plan);
    player->run.number = number;
    player->switched++;
    follow(player, other, player->asked);
    return hearth__plan_seek(other, &player->run, size, false, place);
}

static enum hearth__plan_answer seek(struct player *player, size_t size, struct hearth_buf **place,
                                     void (*wait)(struct player *, void *), void *context)
{
    enum hearth__plan_answer answer;
    if (wait != NULL) {
        answer = hearth__plan_seek(player->plan, &player->run, size, true, place);
        if (answer != HEARTH__PLAN_BLOCKED)
            return answer;
        wait(player, context);
        *place = hearth__plan_step(&player->run, size);
        if (*place != NULL)
            return HEARTH__PLAN_SERVED;
    }
    return hearth__plan_seek(player->plan, &player->run, size, false, place);
}

static void count_answer(struct player *player, enum hearth__plan_answer answer)
{
    switch (answer) {
    case HEARTH__PLAN_SERVED:
        player->sought++;
        break;
    case HEARTH__PLAN_OUT:
        player->out++;
        break;
    case HEARTH__PLAN_BLOCKED:
        player->blocked++;
        break;
    case HEARTH__PLAN_CARRIED:
        player->off++;
        break;
    case HEARTH__PLAN_UNKNOWN:
        player->unknown++;
        break;
    }
}

uint32_t player_ask(struct player *player, size_t size, void (*wait)(struct player *, void *),
                    void *context)
{
    uint32_t index = PLAYER_LISTS;
    player->bytes += size;
    if (player->plan == NULL) {
        cr_assert_null(hearth__plan_step(&player->run, size));
        player->asked++;
        return index;
    }
    struct hearth_buf *place = hearth__plan_step(&player->run, size);
    if (place == NULL) {
        enum hearth__plan_answer answer = seek(player, size, &place, wait, context);
        if (answer == HEARTH__PLAN_UNKNOWN)
            answer = try_other(player, size, &place);
        cr_assert_eq(answer == HEARTH__PLAN_SERVED, place != NULL);
        count_answer(player, answer);
    }
    if (place != NULL)
        index = enter(player, place, size);
    player->asked++;
    if (player->watch != 0 && player->asked % player->watch == 0)
        watch(player);
    ptrdiff_t cursor = player->run.cursor - player->run.entries;
    cr_assert(cursor >= 0 && cursor <= (ptrdiff_t)player->plan->count);
    return index;
}

static void be_over(struct player *player, const struct player_live *live)
{
    struct hearth__plan_entry *entry = hearth__place_entry(live->place);
    if (player->plan != NULL && entry != NULL)
        entry->over = player->run.number;
}

void player_return(struct player *player, uint32_t index)
{
    struct player_live *live = &player->live[index];
    struct hearth_buf *place = live->place;
    cr_assert_eq(hearth__word_state(place->state), HEARTH__LIVE);
    if (live->moved)
        hearth__book_restore(place, live->home);
    else
        be_over(player, live);
    uint64_t generation = hearth__word_generation(place->state);
    hearth__store_relaxed(&place->state, hearth__word(generation + 1, HEARTH__FREE));
    live->place = NULL;
    player->unused[player->unused_count++] = index;
}

void player_move(struct player *player, uint32_t index)
{
    struct player_live *live = &player->live[index];
    if (live->moved)
        return;
    static char elsewhere[64];
    be_over(player, live);
    live->moved = true;
    hearth__store_relaxed(&live->place->stamp, 0);
    live->place->flags |= HEARTH__BUF_MOVED;
    hearth__payload_clear(live->home);
    hearth__store_relaxed(&live->place->data, elsewhere);
}
