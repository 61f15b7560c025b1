/* SPDX-License-Identifier: Apache-2.0 */
/* The scripts of plan_runs.h. */
#include "plan_runs.h"

#include <string.h>

static void add(struct script *script, bool take, size_t value)
{
    cr_assert_lt(script->acts_count, SCRIPT_ACTS);
    script->acts[script->acts_count++] = (struct act){take, value};
    script->takes += take;
    cr_assert_leq(script->takes, SCRIPT_TAKES);
}

static void clear(struct script *script)
{
    memset(script, 0, sizeof *script);
}

/* A run told by its requests: sizes, and the number of requests made before the return of each. */
struct outline {
    size_t takes;
    size_t sizes[SCRIPT_TAKES];
    size_t ends[SCRIPT_TAKES];
};

static struct script script_of(const struct outline *outline)
{
    struct script script;
    clear(&script);
    for (size_t i = 0; i < outline->takes; i++) {
        add(&script, true, outline->sizes[i]);
        for (size_t j = 0; j <= i; j++) {
            if (outline->ends[j] == i + 1 || (i + 1 == outline->takes && outline->ends[j] > i))
                add(&script, false, j);
        }
    }
    return script;
}

static struct outline outline_of(const struct script *script)
{
    struct outline outline = {.takes = 0};
    for (size_t i = 0; i < script->acts_count; i++) {
        const struct act *act = &script->acts[i];
        if (act->take)
            outline.sizes[outline.takes++] = act->value;
        else
            outline.ends[act->value] = outline.takes;
    }
    return outline;
}

void script_net(struct script *script, size_t takes, unsigned seed)
{
    struct outline outline = {.takes = takes};
    uint32_t state = seed * 2654435761u + 1;
    for (size_t i = 0; i < takes; i++) {
        state = state * 1664525u + 1013904223u;
        size_t units = 1 + (state >> 16) % 1024;
        for (size_t j = 0; j < i; j++) {
            if (outline.sizes[j] == units * 64) {
                units = 1 + units % 1024;
                j = SIZE_MAX; /* from the beginning */
            }
        }
        outline.sizes[i] = units * 64;
        outline.ends[i] = i % 9 == 0 ? takes : i + 2 + (state >> 8) % 8;
    }
    *script = script_of(&outline);
    EXPECT_SIZE(takes, script->takes);
}

void script_pile(struct script *script, size_t takes, size_t size, size_t step)
{
    clear(script);
    for (size_t i = 0; i < takes; i++)
        add(script, true, size + i * step);
    for (size_t i = 0; i < takes; i++)
        add(script, false, i);
}

struct script script_scaled(const struct script *script, size_t numerator, size_t denominator)
{
    struct script scaled = *script;
    for (size_t i = 0; i < scaled.acts_count; i++) {
        struct act *act = &scaled.acts[i];
        if (act->take)
            act->value = (act->value * numerator / denominator + 63) / 64 * 64;
    }
    return scaled;
}

struct script script_resized(const struct script *script, size_t number, size_t size)
{
    struct outline outline = outline_of(script);
    outline.sizes[number] = size;
    return script_of(&outline);
}

struct script script_extra(const struct script *script, size_t number, size_t size)
{
    struct outline outline = outline_of(script);
    for (size_t i = 0; i < outline.takes; i++)
        outline.ends[i] += outline.ends[i] > number;
    for (size_t i = outline.takes++; i > number; i--) {
        outline.sizes[i] = outline.sizes[i - 1];
        outline.ends[i] = outline.ends[i - 1];
    }
    outline.sizes[number] = size;
    return script_of(&outline);
}

struct script script_missing(const struct script *script, size_t number)
{
    struct outline outline = outline_of(script);
    outline.takes--;
    for (size_t i = number; i < outline.takes; i++) {
        outline.sizes[i] = outline.sizes[i + 1];
        outline.ends[i] = outline.ends[i + 1];
    }
    for (size_t i = 0; i < outline.takes; i++)
        outline.ends[i] -= outline.ends[i] > number;
    return script_of(&outline);
}

struct script script_swapped(const struct script *script, size_t number)
{
    struct outline outline = outline_of(script);
    size_t size = outline.sizes[number], end = outline.ends[number];
    outline.sizes[number] = outline.sizes[number + 1];
    outline.ends[number] = outline.ends[number + 1];
    outline.sizes[number + 1] = size;
    outline.ends[number + 1] = end < number + 2 ? number + 2 : end;
    return script_of(&outline);
}

struct script script_cut(const struct script *script, size_t takes)
{
    struct outline outline = outline_of(script);
    outline.takes = takes;
    return script_of(&outline);
}

struct script script_longer(const struct script *script, size_t takes, size_t size)
{
    struct outline outline = outline_of(script);
    for (size_t i = 0; i < takes; i++) {
        outline.sizes[outline.takes] = size;
        outline.ends[outline.takes] = outline.takes + 1;
        outline.takes++;
    }
    outline.ends[0] = outline.takes;
    return script_of(&outline);
}

struct script script_twice(const struct script *script)
{
    struct outline outline = outline_of(script);
    size_t takes = outline.takes;
    for (size_t i = 0; i < takes; i++) {
        outline.sizes[takes + i] = outline.sizes[i];
        outline.ends[takes + i] = outline.ends[i] + takes;
    }
    outline.takes = outline.ends[0] = 2 * takes;
    return script_of(&outline);
}

struct script script_late(const struct script *script, size_t distance)
{
    struct outline outline = outline_of(script);
    for (size_t i = 0; i < outline.takes; i++)
        outline.ends[i] += (i * 7 + 3) % (distance + 1);
    return script_of(&outline);
}

size_t script_peak(const struct script *script)
{
    size_t live = 0, peak = 0;
    struct outline outline = outline_of(script);
    for (size_t i = 0, takes = 0; i < script->acts_count; i++) {
        const struct act *act = &script->acts[i];
        live = act->take ? live + outline.sizes[takes++] : live - outline.sizes[act->value];
        peak = live > peak ? live : peak;
    }
    return peak;
}
