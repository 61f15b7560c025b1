/* SPDX-License-Identifier: Apache-2.0 */
#include "pack_instances.h"

#include "measure.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const pack_kind_names[PACK_KINDS] = {
    [PACK_INFERENCE] = "inference", [PACK_TRAINING] = "training", [PACK_RANDOM] = "random",
    [PACK_DENSE] = "dense",         [PACK_TIGHT] = "tight",
};

static void *obtain(size_t count, size_t bytes)
{
    void *memory = calloc(count, bytes);
    if (memory == NULL)
        bench_die("no memory", "instances");
    return memory;
}

/* The item of a trace's allocation; its `end` is 0 while it lives. */
static struct hearth__pack_item *find(struct pack_instance *instance, const unsigned long *ids,
                                      unsigned long id)
{
    for (size_t i = instance->count; i > 0; i--) {
        if (ids[i - 1] == id)
            return &instance->items[i - 1];
    }
    return NULL;
}

struct pack_instance pack_read_trace(const char *path)
{
    enum { EVENTS_MAX = 65536 };
    FILE *file = fopen(path, "r");
    if (file == NULL)
        bench_die(path, strerror(errno));
    struct pack_instance instance = {obtain(EVENTS_MAX, sizeof(*instance.items)), 0};
    unsigned long *ids = obtain(EVENTS_MAX, sizeof(*ids));
    char line[128];
    uint32_t step = 0;
    while (fgets(line, sizeof(line), file) != NULL && instance.count < EVENTS_MAX) {
        char op[16];
        unsigned long run = 0;
        unsigned long id = 0;
        unsigned long bytes = 0;
        /* NOLINTNEXTLINE(cert-err34-c): the header does not match, and no number is out of range. */
        if (sscanf(line, "%lu,%15[a-z],%lu,%lu", &run, op, &id, &bytes) != 4 || run != 0)
            continue;
        struct hearth__pack_item *item = find(&instance, ids, id);
        step++;
        if (strcmp(op, "alloc") == 0) {
            ids[instance.count] = id;
            instance.items[instance.count++] = (struct hearth__pack_item){bytes, step, 0};
        } else if (item != NULL && strcmp(op, "free") == 0) {
            item->end = step;
        } else if (item != NULL) {
            item->size = 0;
        }
    }
    fclose(file);
    free(ids);
    for (size_t i = 0; i < instance.count; i++) {
        if (instance.items[i].end == 0)
            instance.items[i].end = step + 1;
    }
    return instance;
}

static uint32_t draw(uint64_t *state, uint32_t bound)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*state >> 32) * bound >> 32);
}

/* 64 B to 4 MiB, each power of two as likely, mostly multiples of a few numbers as tensors are. */
static size_t draw_size(uint64_t *state)
{
    size_t scale = (size_t)64 << draw(state, 16);
    return scale + scale / 16 * draw(state, 16);
}

static struct hearth__pack_item draw_item(enum pack_kind kind, uint32_t at, uint32_t count,
                                          uint64_t *state)
{
    uint32_t begin = at;
    uint32_t life = 1;
    switch (kind) {
    case PACK_INFERENCE:
        life = draw(state, 20) == 0 ? 1 + draw(state, count / 8 + 1) : 1 + draw(state, 4);
        break;
    case PACK_TRAINING:
        begin = at < count / 2 ? at : at + count / 2;
        life = 1 + draw(state, 3);
        if (at < count / 2 && draw(state, 2) == 0)
            life = 2 * (count - at) - begin;
        break;
    case PACK_RANDOM:
        begin = draw(state, count);
        life = 1 + draw(state, count / 16 + 1);
        break;
    default:
        begin = draw(state, count);
        life = 1 + draw(state, count);
        break;
    }
    uint32_t end = begin + life < 2 * count ? begin + life : 2 * count;
    return (struct hearth__pack_item){draw_size(state), begin, end};
}

/* Cut one of the pieces in two, in time or in size, until there are enough. */
static void cut(struct pack_instance *instance, uint64_t *state)
{
    struct hearth__pack_item *items = instance->items;
    uint32_t steps = 1u << 20;
    items[0] = (struct hearth__pack_item){(size_t)64 << 20, 0, steps};
    size_t made = 1;
    while (made < instance->count) {
        /* The larger of three: pieces stay within some orders of magnitude. */
        uint32_t pick = draw(state, (uint32_t)made);
        for (int i = 0; i < 2; i++) {
            uint32_t other = draw(state, (uint32_t)made);
            double area = (double)items[pick].size * (items[pick].end - items[pick].begin);
            if ((double)items[other].size * (items[other].end - items[other].begin) > area)
                pick = other;
        }
        struct hearth__pack_item *item = &items[pick];
        uint32_t units = (uint32_t)(item->size / 64);
        uint32_t life = item->end - item->begin;
        struct hearth__pack_item rest = *item;
        if (draw(state, 2) == 0 && life > 1) {
            item->end = item->begin + 1 + draw(state, life - 1);
            rest.begin = item->end;
        } else if (units > 1) {
            item->size = (size_t)64 * (1 + draw(state, units - 1));
            rest.size -= item->size;
        } else {
            continue;
        }
        items[made++] = rest;
    }
}

struct pack_instance pack_make(enum pack_kind kind, size_t count, uint64_t seed)
{
    struct pack_instance instance = {obtain(count, sizeof(*instance.items)), count};
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (kind == PACK_TIGHT) {
        cut(&instance, &state);
        return instance;
    }
    for (size_t i = 0; i < count; i++)
        instance.items[i] = draw_item(kind, (uint32_t)i, (uint32_t)count, &state);
    return instance;
}
