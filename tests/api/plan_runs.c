/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_runs.h"

#include <string.h>

void stage_on(struct stage *stage, struct hearth_exec *arena, struct memory *memory)
{
    memset(stage, 0, sizeof *stage);
    stage->arena = arena;
    stage->memory = memory;
    stage->words = (uint64_t)(uintptr_t)stage << 20;
}

void stage_open(struct stage *stage, struct memory *memory, size_t cap)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    options.store = HEARTH_EXEC_STORE_PLANS;
    options.retention_cap = cap;
    options.backing = memory ? memory->backing : NULL;
    EXPECT(HEARTH_OK, hearth_exec_create(&options, &arena));
    cr_assert_not_null(arena);
    stage_on(stage, arena, memory);
}

void stage_close(struct stage *stage)
{
    EXPECT_SIZE(0, stage->live_count);
    stage_check(stage);
    EXPECT(HEARTH_OK, hearth_exec_destroy(stage->arena));
}

void stage_check(const struct stage *stage)
{
    const struct hearth_exec *arena = stage->arena;
    EXPECT_SIZE(stage->live_count, hearth_exec_live_count(arena));
    EXPECT_SIZE(stage->live_bytes, hearth_exec_live_bytes(arena));
    EXPECT_SIZE(stage->live_capacity, hearth_exec_live_capacity(arena));
    if (stage->shared)
        cr_assert_geq(hearth_exec_peak_bytes(arena), stage->peak_bytes);
    else
        EXPECT_SIZE(stage->peak_bytes, hearth_exec_peak_bytes(arena));
    if (!stage->shared)
        EXPECT_SIZE(0, hearth_exec_pending_bytes(arena));
    check_identity(arena, stage->memory);
    cr_assert_leq(hearth_exec_retained_bytes(arena), hearth_exec_retention_cap(arena),
                  "%zu bytes are retained with a cap of %zu", hearth_exec_retained_bytes(arena),
                  hearth_exec_retention_cap(arena));
}

static void check_unless_quick(const struct stage *stage)
{
    if (!stage->quick)
        stage_check(stage);
}

/* All of the capacity is the holder's. */
static void paint(struct place *place)
{
    for (size_t i = 0; i + sizeof place->word <= place->capacity; i += sizeof place->word)
        memcpy(place->data + i, &place->word, sizeof place->word);
}

static void look(const struct place *place, size_t bytes)
{
    unsigned char word[sizeof place->word];
    memcpy(word, &place->word, sizeof word);
    size_t whole = bytes / sizeof word * sizeof word;
    bool same = memcmp(place->data + whole, word, bytes - whole) == 0;
    if (whole > 0)
        same = same && memcmp(place->data, word, sizeof word) == 0 &&
               memcmp(place->data, place->data + sizeof word, whole - sizeof word) == 0;
    cr_assert(same, "a buffer of %zu bytes at %p was written by another holder", place->size,
              (void *)place->data);
}

static void apart(const struct stage *stage, const struct place *place)
{
    for (unsigned i = 0; i < STAGE_PLACES; i++) {
        const struct place *other = &stage->places[i];
        if (other->buf == NULL || other == place)
            continue;
        cr_assert_neq(other->buf, place->buf, "one descriptor has two holders");
        cr_assert(other->data + other->capacity <= place->data ||
                      place->data + place->capacity <= other->data,
                  "%zu bytes at %p and %zu bytes at %p overlap", other->capacity,
                  (void *)other->data, place->capacity, (void *)place->data);
    }
}

static void measure(struct place *place)
{
    place->data = hearth_buf_data(place->buf);
    place->size = hearth_buf_size(place->buf);
    place->capacity = hearth_buf_capacity(place->buf);
    cr_assert_geq(place->capacity, place->size);
    cr_assert_eq(place->capacity % 64, 0);
    cr_assert_eq((uintptr_t)place->data % HEARTH_ALIGNMENT, 0);
}

static void count_in(struct stage *stage, const struct place *place)
{
    stage->live_count++;
    stage->live_bytes += place->size;
    stage->live_capacity += place->capacity;
    if (stage->peak_bytes < stage->live_bytes)
        stage->peak_bytes = stage->live_bytes;
}

static void count_out(struct stage *stage, const struct place *place)
{
    stage->live_count--;
    stage->live_bytes -= place->size;
    stage->live_capacity -= place->capacity;
}

enum hearth_status stage_try(struct stage *stage, const struct hearth_request *request,
                             unsigned *index)
{
    struct place *place = stage->places;
    while (place->buf != NULL)
        place++;
    cr_assert_lt(place - stage->places, STAGE_PLACES);
    enum hearth_status status = request->alignment == 0 && request->zero == 0
                                    ? hearth_exec_alloc(stage->arena, request->size, &place->buf)
                                    : hearth_exec_alloc_ex(stage->arena, request, &place->buf);
    if (status != HEARTH_OK) {
        cr_assert_null(place->buf);
    } else {
        measure(place);
        EXPECT_SIZE(request->size, place->size);
        if (request->alignment != 0)
            cr_assert_eq((uintptr_t)place->data % request->alignment, 0);
        if (request->zero)
            cr_assert(filled(place->buf, place->size, 0), "%zu bytes are not zero", place->size);
        apart(stage, place);
        place->word = ++stage->words * UINT64_C(0x9e3779b97f4a7c15);
        paint(place);
        count_in(stage, place);
        *index = (unsigned)(place - stage->places);
    }
    check_unless_quick(stage);
    return status;
}

unsigned stage_take(struct stage *stage, size_t size)
{
    const struct hearth_request request = {.size = size};
    unsigned place = 0;
    EXPECT(HEARTH_OK, stage_try(stage, &request, &place));
    return place;
}

struct hearth_buf *stage_buf(const struct stage *stage, unsigned index)
{
    cr_assert_not_null(stage->places[index].buf);
    return stage->places[index].buf;
}

void stage_verify(const struct stage *stage, unsigned index)
{
    const struct place *place = &stage->places[index];
    cr_assert_not_null(place->buf);
    cr_assert_eq(hearth_buf_data(place->buf), place->data);
    EXPECT_SIZE(place->size, hearth_buf_size(place->buf));
    EXPECT_SIZE(place->capacity, hearth_buf_capacity(place->buf));
    look(place, place->capacity);
}

struct hearth_buf *stage_hand_over(struct stage *stage, unsigned index)
{
    stage_verify(stage, index);
    struct place *place = &stage->places[index];
    struct hearth_buf *buf = place->buf;
    count_out(stage, place);
    place->buf = NULL;
    return buf;
}

void stage_give(struct stage *stage, unsigned index)
{
    give(stage->arena, stage_hand_over(stage, index));
    check_unless_quick(stage);
}

void stage_resize(struct stage *stage, unsigned index, size_t size, bool keep)
{
    stage_verify(stage, index);
    struct place *place = &stage->places[index];
    size_t before = place->size;
    uint64_t generation = hearth_buf_generation(place->buf);
    EXPECT(HEARTH_OK, (keep ? hearth_buf_resize_keep : hearth_buf_resize)(place->buf, size));
    cr_assert_eq(hearth_buf_generation(place->buf), generation);
    count_out(stage, place);
    measure(place);
    EXPECT_SIZE(size, place->size);
    if (keep)
        look(place, before < size ? before : size);
    apart(stage, place);
    paint(place);
    count_in(stage, place);
    check_unless_quick(stage);
}

void play_begin(struct play *play, struct stage *stage, const struct script *script)
{
    *play = (struct play){.stage = stage, .script = script};
}

static void play_act(struct play *play)
{
    const struct act *act = &play->script->acts[play->at++];
    if (act->take)
        play->places[play->takes++] = stage_take(play->stage, act->value);
    else if (!play->keeps[act->value])
        stage_give(play->stage, play->places[act->value]);
}

void play_to(struct play *play, size_t number)
{
    cr_assert_lt(number, play->script->takes);
    while (play->takes <= number)
        play_act(play);
}

void play_end(struct play *play)
{
    while (play->at < play->script->acts_count)
        play_act(play);
    stage_check(play->stage);
}

bool play_live(const struct play *play, size_t number)
{
    bool live = number < play->takes && !play->keeps[number];
    for (size_t i = 0; i < play->at; i++)
        live = live && (play->script->acts[i].take || play->script->acts[i].value != number);
    return live;
}

unsigned play_keep(struct play *play, size_t number)
{
    cr_assert(play_live(play, number));
    play->keeps[number] = true;
    return play->places[number];
}

size_t play_run(struct stage *stage, const struct script *script)
{
    static _Thread_local struct play play;
    uint64_t hits = stats_of(stage->arena).plan_hits;
    play_begin(&play, stage, script);
    play_end(&play);
    return (size_t)(stats_of(stage->arena).plan_hits - hits);
}

size_t play_told(struct stage *stage, const struct script *script, uint64_t key)
{
    EXPECT(HEARTH_OK, hearth_exec_run_begin(stage->arena, key));
    uint64_t hits = stats_of(stage->arena).plan_hits;
    (void)play_run(stage, script);
    EXPECT(HEARTH_OK, hearth_exec_run_end(stage->arena));
    check_unless_quick(stage);
    return (size_t)(stats_of(stage->arena).plan_hits - hits);
}

void play_served(struct stage *stage, const struct script *script)
{
    struct hearth_exec_stats before = stats_of(stage->arena);
    uint64_t acquires = stage->memory ? stage->memory->acquires : 0;
    uint64_t releases = stage->memory ? stage->memory->releases : 0;
    EXPECT_SIZE(script->takes, play_run(stage, script));
    struct hearth_exec_stats after = stats_of(stage->arena);
    EXPECT_SIZE(before.plan_misses, after.plan_misses);
    EXPECT_SIZE(before.plan_blocked, after.plan_blocked);
    EXPECT_SIZE(before.runs + 1, after.runs);
    EXPECT_SIZE(before.planned_runs + 1, after.planned_runs);
    EXPECT_SIZE(before.misses, after.misses);
    EXPECT_SIZE(before.plans_made, after.plans_made);
    if (stage->memory) {
        EXPECT_SIZE(acquires, stage->memory->acquires);
        EXPECT_SIZE(releases, stage->memory->releases);
    }
}

void play_learn(struct stage *stage, const struct script *script)
{
    (void)play_run(stage, script);
    (void)play_run(stage, script);
    play_served(stage, script);
}

void expect_compact(const struct stage *stage, size_t peak)
{
    size_t footprint = hearth_exec_footprint(stage->arena);
    cr_assert_leq(footprint, peak + peak / 20 + 4 * KIB, "footprint %zu for a peak of %zu",
                  footprint, peak);
}
