/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs that repeat themselves, more or less exactly, on an arena with lists, which test_model.c
 * compares with a model of the contract, and on one with plans: see twins.h. HEARTH_TEST_SEED=n runs seed n
 * alone. */
#include "twins.h"

#include <stdlib.h>
#include <string.h>

enum { SEEDS = 40, ROUTINES = 40, STEPS = 320 };

struct step {
    enum { ALLOC, FREE, RESIZE, RESIZE_KEEP } kind;
    unsigned place;
    struct hearth_request request;
};

/* What a run does. */
struct routine {
    unsigned count;
    struct step steps[STEPS];
};

static struct twins twins;

/* It ends with nothing live. */
static void write_routine(struct routine *routine)
{
    unsigned live[TWINS], count = 0, next = 0;
    unsigned target = 2 + (unsigned)twins_draw(&twins, 40);
    unsigned most = 8 + (unsigned)twins_draw(&twins, STEPS - TWINS - 8);
    routine->count = 0;
    twins.size_most = 1 + twins_draw(&twins, 16);
    while (next < TWINS && routine->count < most) {
        struct step step = {.kind = FREE};
        if (count == 0 || twins_draw(&twins, (uint64_t)2 * target) > count) {
            step.kind = ALLOC;
            step.place = live[count++] = next++;
            if (twins_draw(&twins, 16) == 0)
                step.request.alignment = (size_t)1 << twins_draw(&twins, 14);
            step.request.zero = twins_draw(&twins, 8) == 0;
        } else {
            unsigned i = (unsigned)twins_draw(&twins, count);
            step.place = live[i];
            if (twins_draw(&twins, 12) == 0)
                step.kind = twins_draw(&twins, 2) ? RESIZE : RESIZE_KEEP;
            else
                live[i] = live[--count];
        }
        step.request.size = twins_size(&twins);
        routine->steps[routine->count++] = step;
    }
    while (count > 0)
        routine->steps[routine->count++] = (struct step){.kind = FREE, .place = live[--count]};
}

static void play_step(const struct step *step)
{
    struct twin *twin = &twins.places[step->place], *kept = &twins.kept[step->place % TWINS_KEPT];
    struct hearth_request request = step->request;
    bool strange = twins.noise && twins_draw(&twins, twins.noise) == 0;
    twins.step++;
    if (strange && twins_draw(&twins, 2))
        twins_something(&twins);
    if (strange && twins_draw(&twins, 2))
        request.size = twins_size(&twins);
    if (strange && twins_draw(&twins, 4) == 0)
        return; /* left out */
    if (step->kind == ALLOC) {
        twins_alloc(&twins, twin, &request);
    } else if (step->kind != FREE) {
        twins_resize(&twins, twin, request.size, step->kind == RESIZE_KEEP);
    } else if (strange && twins_draw(&twins, 4) == 0 && kept->owner == 0) {
        *kept = *twin; /* it outlives the run */
        twin->owner = 0;
    } else {
        twins_free(&twins, twin);
    }
}

/* Twice at least; what it leaves is left for a while. */
static void play_again_and_again(const struct routine *routine)
{
    unsigned times = 2 + (unsigned)twins_draw(&twins, 6);
    bool told = twins_draw(&twins, 2);
    uint64_t key = twins_draw(&twins, 4);
    for (unsigned k = 0; k < times; k++) {
        static const unsigned noises[] = {0, 0, 0, 100, 20, 4};
        twins.noise = noises[twins_draw(&twins, sizeof noises / sizeof *noises)];
        if (told)
            twins_run(&twins, true, key);
        for (unsigned i = 0; i < routine->count; i++) {
            play_step(&routine->steps[i]);
            twins_compare(&twins);
        }
        for (unsigned i = 0; i < TWINS + TWINS_KEPT; i++)
            if (i < TWINS || twins.noise == 0)
                twins_free(&twins, i < TWINS ? &twins.places[i] : &twins.kept[i - TWINS]);
        twins_compare(&twins);
        if (told)
            twins_run(&twins, false, 0);
        twins_compare(&twins);
    }
}

/* Returns how many requests plans served. */
static uint64_t run_seed(uint64_t seed)
{
    static const size_t slots[] = {0, 0, 8, 0, 40, 100};
    static const size_t caps[] = {0, 0, 100000, 0, 1000000};
    static const size_t limits[] = {0, 0, 0, 65536};
    static struct routine routines[2]; /* a new one, and the one before */
    twins_open(&twins, seed, slots[seed % 6], caps[seed % 5], limits[seed % 4]);
    write_routine(&routines[0]);
    for (unsigned k = 0; k < ROUTINES; k++) {
        write_routine(&routines[1]);
        for (unsigned i = 0; i < 3; i++)
            play_again_and_again(&routines[i % 2]);
        if (twins_draw(&twins, 2))
            routines[0] = routines[1];
    }
    struct hearth_exec_stats stats = stats_of(twins.arena[1]);
    twins_close(&twins);
    return stats.plan_hits;
}

Test(exec_plans_model, lists_and_plans_agree, .timeout = 280)
{
    const char *chosen = getenv("HEARTH_TEST_SEED");
    uint64_t hits = 0;
    misuse_record();
    if (chosen) {
        (void)run_seed(strtoull(chosen, NULL, 0));
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        hits += run_seed(seed);
    cr_assert(hits > 100000, "plans served %llu requests", (unsigned long long)hits);
}
