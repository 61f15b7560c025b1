/* SPDX-License-Identifier: Apache-2.0 */
#include "player.h"

#include "service.h"

#include <inttypes.h>

#define RUNS_MOST 24 /* of a life */
#define BULK 4
#define NESTED 20 /* buffers of the first script */

static uint64_t draw(struct player *self, uint64_t below)
{
    return stress_next(&self->random) % below;
}

static void show(struct player *self, struct hearth_exec *arena)
{
    (void)pthread_mutex_lock(&self->lock);
    self->shown = arena;
    (void)pthread_mutex_unlock(&self->lock);
}

void player_attach(struct player *self)
{
    stress_must(hearth_service_exec(self->service, &self->arena), "an attach");
    self->before = (struct hearth_exec_stats)HEARTH_EXEC_STATS_INIT;
    self->taken = 0;
    stress_must(hearth_exec_stats(self->arena, &self->before), "stats");
    show(self, self->arena);
}

/* The thread ends, or goes on with another arena. */
void player_leave(struct player *self)
{
    struct hearth_exec_stats now = HEARTH_EXEC_STATS_INIT;
    stress_must(hearth_exec_stats(self->arena, &now), "stats");
    show(self, NULL);
    if (now.allocs - self->before.allocs != self->taken)
        stress_violation("%" PRIu64 " taken, %" PRIu64 " counted", self->taken,
                         now.allocs - self->before.allocs);
    /* Of runs that ended meanwhile, one of which the thread before began. */
    uint64_t hits = now.plan_hits - self->before.plan_hits;
    uint64_t misses = now.plan_misses - self->before.plan_misses;
    self->tally.hits += hits;
    self->tally.misses += misses;
    self->tally.blocked += now.plan_blocked - self->before.plan_blocked;
    self->tally.made += now.plans_made - self->before.plans_made;
    self->tally.takes += self->taken;
    self->tally.calm_hits += self->weather == CALM ? hits : 0;
    self->tally.calm_takes += self->weather == CALM ? self->taken : 0;
    self->arena = NULL;
}

static uint64_t next_owner(struct player *self)
{
    return (uint64_t)(self->number + 1) << 48 | ++self->serial;
}

static void take(struct player *self, struct stress_block *block, size_t size)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    request.size = size;
    if (self->noise != 0 && draw(self, 64) == 0)
        request.zero = 1;
    if (self->noise != 0 && draw(self, 128) == 0)
        request.alignment = (size_t)64 << draw(self, 7);
    self->taken += stress_block_take(self->arena, &request, next_owner(self), block);
}

/* Whose thread took it does not matter: it may have come from a box, or from the thread before. */
static void give(struct player *self, struct stress_block *block)
{
    bool own = block->exec != NULL && block->exec == self->arena;
    stress_block_return(block, own, stress_next(&self->random));
}

static void exchange_blocks(struct stress_block *a, struct stress_block *b)
{
    struct stress_block other = *a;
    *a = *b;
    *b = other;
}

/* Its time has come, but not all are punctual. */
static void let_go(struct player *self, struct stress_block *block)
{
    uint64_t how = self->noise == 0 ? 255 : draw(self, self->noise == 1 ? 512 : 128);
    if (block->buf == NULL)
        return;
    if (how < 4 && !self->child)
        stress_block_post(block, draw(self, 64));
    else if (how < 6)
        exchange_blocks(block, &self->kept[draw(self, KEPT)]);
    else if (how < 14)
        exchange_blocks(block, &self->late[draw(self, LATE)]);
    else if (how < 16 && block->exec == self->arena)
        stress_block_move(block, hearth_service_io(self->service));
    give(self, block);
}

/* Within what was asked for, or beyond it. */
static void resize(struct player *self, struct stress_block *block)
{
    size_t size = block->size * (1 + draw(self, 16)) / 8;
    size = size < 64 ? 64 : size;
    if (block->buf != NULL && block->exec == self->arena)
        stress_block_resize(block, size > STRESS_SIZE_MOST ? STRESS_SIZE_MOST : size,
                            draw(self, 2) == 0);
}

/* BUSY: a visitor did not get on. */
static void expect_told(enum hearth_status status, const char *what)
{
    if (status != HEARTH_BUSY)
        stress_expect(status, what);
}

static void trim(struct player *self)
{
    size_t goal = draw(self, 2) == 0 ? HEARTH_UNBOUNDED : (size_t)draw(self, 4u << 20);
    uint64_t budget_ns = draw(self, 4) == 0 ? 0 : 100000;
    if (draw(self, 4) == 0)
        stress_expect(hearth_exec_trim(self->arena, NULL), "a trim of an arena");
    else
        (void)stress_service_trim(self->service, goal, budget_ns, false);
}

static void move_limits(struct player *self)
{
    static const size_t caps[] = {EXEC_CAP, 1 << 20, EXEC_CAP, 1 << 16, EXEC_CAP, 0, 2 << 20};
    size_t cap = caps[draw(self, sizeof caps / sizeof *caps)];
    switch (draw(self, 3)) {
    case 0:
        stress_expect(hearth_service_set_retention_cap(self->service, HEARTH_DOMAIN_EXEC, cap),
                      "a cap");
        return;
    case 1:
        stress_expect(
            hearth_service_set_ceiling(self->service, draw(self, 2) == 0 ? cap : HEARTH_UNBOUNDED),
            "a ceiling");
        return;
    default:
        stress_expect(hearth_exec_set_retention_cap(self->arena, cap), "an arena's cap");
    }
}

/* Some at once, in the middle of whatever run. */
static void take_bulk(struct player *self)
{
    struct hearth_request request = HEARTH_REQUEST_INIT;
    struct hearth_buf *bufs[BULK] = {NULL};
    struct stress_block blocks[BULK];
    request.size = (size_t)64 << draw(self, 8);
    enum hearth_status status =
        hearth_service_alloc_bulk(self->service, HEARTH_DOMAIN_EXEC, &request, BULK, bufs);
    stress_expect(status, "a bulk request");
    if (status != HEARTH_OK)
        return;
    self->taken += BULK;
    for (unsigned i = 0; i < BULK; i++)
        stress_block_begin(self->arena, bufs[i], request.size, next_owner(self), &blocks[i]);
    for (unsigned i = 0; i < BULK; i++)
        stress_block_check(&blocks[i]);
    stress_expect(hearth_service_free_bulk(self->service, bufs, BULK, NULL), "a bulk return");
}

/* A run inside of the run, in an arena of its own. */
static void nest(struct player *self)
{
    struct stress_block blocks[NESTED] = {{.buf = NULL}};
    const struct stress_script *script = &self->scripts[0];
    struct hearth_exec *arena = NULL;
    stress_must(hearth_service_child_exec(self->service, 1 + (unsigned)draw(self, 2), &arena),
                "a nested arena");
    for (unsigned i = 0; i < script->count; i++) {
        const struct stress_step *step = &script->steps[i];
        struct hearth_request request = HEARTH_REQUEST_INIT;
        request.size = step->size;
        if (step->size == 0)
            stress_block_return(&blocks[step->place], true, stress_next(&self->random));
        else
            (void)stress_block_take(arena, &request, next_owner(self), &blocks[step->place]);
    }
}

/* What may happen between any two steps of a run. */
static void happen(struct player *self)
{
    switch (draw(self, 4096)) {
    case 0:
        stress_expect(hearth_service_end_run(self->service), "the end of a run");
        return;
    case 1:
        expect_told(hearth_exec_run_end(self->arena), "run_end");
        return;
    case 2:
        expect_told(hearth_exec_run_begin(self->arena, draw(self, STRESS_SCRIPTS)), "run_begin");
        return;
    case 3:
    case 4:
        if (self->weather != CALM)
            trim(self);
        return;
    case 5:
    case 6:
        if (self->weather == LIMITS)
            move_limits(self);
        return;
    case 8:
    case 9:
        take_bulk(self);
        return;
    case 10:
    case 11:
        nest(self);
        return;
    case 7:
        stress_expect(hearth_service_tick(self->service), "a tick");
        return;
    default:
        break;
    }
    if (draw(self, 64) == 0)
        give(self, &self->late[draw(self, LATE)]);
    if (draw(self, 512) == 0)
        give(self, &self->kept[draw(self, KEPT)]);
}

void player_play(struct player *self, const struct stress_script *script, unsigned from,
                 unsigned until)
{
    for (unsigned i = from; i < until; i++) {
        const struct stress_step *step = &script->steps[i];
        struct stress_block *block = &self->held[step->place];
        if (self->noise != 0)
            happen(self);
        if (step->size == 0)
            let_go(self, block);
        else
            take(self, block, step->size);
        if (step->size != 0 && self->noise != 0 && draw(self, 256) == 0) {
            resize(self, block);
            if (draw(self, 4) == 0) /* and it outlives the run */
                exchange_blocks(block, &self->kept[draw(self, KEPT)]);
        }
    }
}

void player_clean_up(struct player *self)
{
    struct stress_block block = {.buf = NULL};
    for (unsigned i = 0; i < LATE; i++)
        give(self, &self->late[i]);
    for (unsigned i = 0; i < KEPT && (self->noise == 0 || draw(self, 4) == 0); i++)
        give(self, &self->kept[i]);
    for (unsigned i = 0; i < 64 && !self->child; i += self->noise == 0 ? 1 : 8) {
        stress_block_post(&block, i);
        give(self, &block);
    }
}

static void run(struct player *self, unsigned which)
{
    const struct stress_script *script = &self->scripts[which];
    bool told = self->number % 2 == 0 || draw(self, 16) == 0;
    if (self->noise != 0 && draw(self, self->noise == 1 ? 8 : 2) == 0) {
        stress_script_vary(&self->varied, script, &self->scripts[draw(self, STRESS_SCRIPTS)],
                           &self->random);
        script = &self->varied;
    }
    if (told)
        expect_told(hearth_exec_run_begin(self->arena, draw(self, 8) == 0 ? 0 : which + 1),
                    "run_begin");
    player_play(self, script, 0, script->count);
    if (draw(self, 2) == 0)
        player_clean_up(self);
    if (told)
        expect_told(hearth_exec_run_end(self->arena), "run_end");
    if (draw(self, 8) == 0)
        stress_expect(hearth_service_end_run(self->service), "the end of a run");
    player_clean_up(self);
    self->tally.runs++;
}

/* The thread ends, and others have to see to what it has. */
static void end_in_mid_run(struct player *self)
{
    const struct stress_script *script = &self->scripts[draw(self, STRESS_SCRIPTS)];
    player_play(self, script, 0, (unsigned)draw(self, script->count));
    for (unsigned i = 0; i < STRESS_PLACES; i++) {
        if (self->held[i].buf == NULL)
            continue;
        if (!self->child)
            stress_block_post(&self->held[i], i);
        give(self, &self->held[i]);
    }
}

void player_live(struct player *self)
{
    unsigned runs = draw(self, 3) == 0 ? 1 : 4 + (unsigned)draw(self, RUNS_MOST);
    unsigned which = (unsigned)draw(self, STRESS_SCRIPTS);
    unsigned rotate = (unsigned)draw(self, 4); /* 0, 1: the same script; 2: two; 3: any */
    self->noise = (unsigned)draw(self, 5) / 2; /* two in five without */
    if (self->steady) {
        runs = RUNS_MOST / 2;
        rotate = 0;
        self->noise = 0;
    }
    player_attach(self);
    player_clean_up(self);
    for (unsigned i = 0; i < runs && stress_goes_on(self->options, 0, 1); i++) {
        run(self, which);
        if (rotate >= 2)
            which = rotate == 2 ? which ^ 1 : (unsigned)draw(self, STRESS_SCRIPTS);
    }
    if (draw(self, 4) == 0)
        end_in_mid_run(self);
    player_leave(self);
    self->tally.threads++;
}

static void *live(void *argument)
{
    player_live(argument);
    return NULL;
}

void *player_work(void *argument)
{
    struct player *self = argument;
    for (unsigned i = 0; i < self->lives && stress_goes_on(self->options, 0, 1) &&
                         !atomic_load_explicit(&self->ended, memory_order_relaxed);
         i++) {
        pthread_t other;
        bool here = draw(self, 2) == 0;
        self->steady = i == 0;
        if (here)
            player_live(self);
        else if (pthread_create(&other, NULL, live, self) == 0)
            (void)pthread_join(other, NULL);
        if (here && draw(self, 2) == 0)
            stress_expect(hearth_service_detach(self->service), "a detach");
    }
    return NULL;
}

void player_init(struct player *self, const struct stress_options *options,
                 const struct stress_script *scripts, unsigned number)
{
    self->options = options;
    self->scripts = scripts;
    self->number = number;
    self->random = stress_seed(options, number);
    (void)pthread_mutex_init(&self->lock, NULL);
}

size_t player_kept(const struct player *self)
{
    size_t capacity = 0;
    for (unsigned i = 0; i < KEPT + LATE; i++) {
        const struct stress_block *block = i < KEPT ? &self->kept[i] : &self->late[i - KEPT];
        if (block->buf == NULL)
            continue;
        stress_block_check(block);
        capacity += hearth_buf_capacity(block->buf);
    }
    return capacity;
}

void player_return_all(struct player *self)
{
    for (unsigned i = 0; i < KEPT + LATE; i++)
        stress_block_return(i < KEPT ? &self->kept[i] : &self->late[i - KEPT], false,
                            stress_next(&self->random));
}
