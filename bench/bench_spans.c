/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_spans [TRACE.csv...]: the store for large blocks beside lists and best fit.
 *
 * Without arguments: nanoseconds of one take and give, for several sizes and mixes. With traces (tools/hearth
 * replays the same files): execution events only, five passes each; footprint over peak live of
 *
 *   lists      an execution arena as it is
 *   spans      blocks from the threshold on in spans, the others in an execution arena
 *   best fit   one coalescing space without an end, tightest gap first, for the blocks from the threshold on
 *
 * and the passes after which the backing was not called any more.
 */
#include "measure.h"

#include "core/span_heap.h"

#include <hearth/exec.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MOST 20000u
#define IDS_MOST 16384u
#define GAPS_MOST 4096u
#define PASSES 5u
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

struct event {
    bool is_alloc;
    size_t id, bytes;
};

static struct event events[EVENTS_MOST];
static size_t event_count;
static bool is_export[IDS_MOST];

static void check(enum hearth_status status, const char *what)
{
    if (status != HEARTH_OK)
        bench_die(what, hearth_status_name(status));
}

static void read_line(char *line)
{
    char *fields[4] = {NULL};
    for (unsigned i = 0; i < 4; i++)
        fields[i] = strsep(&line, ",");
    if (fields[3] == NULL || strcmp(fields[0], "run") == 0)
        return;
    size_t id = strtoull(fields[2], NULL, 10);
    if (id >= IDS_MOST || event_count == EVENTS_MOST)
        bench_die("a trace is too long", fields[2]);
    if (strcmp(fields[1], "export") == 0)
        is_export[id] = true;
    else
        events[event_count++] = (struct event){
            .is_alloc = strcmp(fields[1], "alloc") == 0,
            .id = id,
            .bytes = strtoull(fields[3], NULL, 10),
        };
}

static void read_trace(const char *path)
{
    char line[256];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        bench_die("cannot read", path);
    event_count = 0;
    memset(is_export, 0, sizeof is_export);
    while (fgets(line, sizeof line, file) != NULL)
        read_line(line);
    (void)fclose(file);
}

/* A space without an end. */

struct gap {
    size_t at, bytes;
    bool is_free;
};

static struct gap gaps[GAPS_MOST];
static size_t gap_count;
static size_t top;

static size_t best_take(size_t bytes)
{
    size_t best = gap_count;
    bytes = (bytes + 63) / 64 * 64;
    for (size_t i = 0; i < gap_count; i++) {
        if (gaps[i].is_free && gaps[i].bytes >= bytes &&
            (best == gap_count || gaps[i].bytes < gaps[best].bytes))
            best = i;
    }
    if (gap_count + 2 > GAPS_MOST)
        bench_die("too many gaps", "best fit");
    if (best == gap_count) {
        bool extends = gap_count != 0 && gaps[gap_count - 1].is_free;
        best = extends ? gap_count - 1 : gap_count++;
        if (!extends)
            gaps[best] = (struct gap){top, 0, true};
        gaps[best].bytes = bytes;
        top = gaps[best].at + bytes;
    }
    if (gaps[best].bytes > bytes) {
        memmove(&gaps[best + 1], &gaps[best], (gap_count++ - best) * sizeof gaps[0]);
        gaps[best + 1].at += bytes;
        gaps[best + 1].bytes -= bytes;
        gaps[best].bytes = bytes;
    }
    gaps[best].is_free = false;
    return gaps[best].at;
}

static void best_give(size_t at)
{
    size_t i = 0;
    while (gaps[i].at != at || gaps[i].is_free)
        i++;
    gaps[i].is_free = true;
    if (i + 1 < gap_count && gaps[i + 1].is_free) {
        gaps[i].bytes += gaps[i + 1].bytes;
        memmove(&gaps[i + 1], &gaps[i + 2], (--gap_count - i - 1) * sizeof gaps[0]);
    }
    if (i > 0 && gaps[i - 1].is_free) {
        gaps[i - 1].bytes += gaps[i].bytes;
        memmove(&gaps[i], &gaps[i + 1], (--gap_count - i) * sizeof gaps[0]);
    }
}

/* One replay. Blocks below `threshold` are an arena's, the others a heap's; with SIZE_MAX all are the arena's. */

struct replay {
    size_t threshold;
    struct hearth_exec *arena;
    struct hearth__span_heap heap;
    size_t live, peak, large_live, large_peak, most_footprint, warm_passes;
    uint64_t obtained;
};

static struct hearth_buf *bufs[IDS_MOST];
static struct hearth__span *spans[IDS_MOST];
static size_t places[IDS_MOST];
static size_t sizes[IDS_MOST];

static size_t footprint(const struct replay *replay)
{
    return hearth_exec_footprint(replay->arena) + replay->heap.spans->segment_bytes;
}

static void play_alloc(struct replay *replay, const struct event *event)
{
    size_t id = event->id;
    sizes[id] = event->bytes;
    replay->live += event->bytes;
    if (replay->live > replay->peak)
        replay->peak = replay->live;
    if (event->bytes >= replay->threshold) {
        check(hearth__span_heap_take(&replay->heap, event->bytes, 6, &spans[id]), "take");
        places[id] = best_take(event->bytes);
        replay->large_live += event->bytes;
        if (replay->large_live > replay->large_peak)
            replay->large_peak = replay->large_live;
    } else {
        check(hearth_exec_alloc(replay->arena, event->bytes, &bufs[id]), "hearth_exec_alloc");
    }
    if (footprint(replay) > replay->most_footprint)
        replay->most_footprint = footprint(replay);
}

static void play_free(struct replay *replay, size_t id)
{
    replay->live -= sizes[id];
    if (spans[id] != NULL) {
        hearth__span_heap_give(&replay->heap, spans[id]);
        best_give(places[id]);
        replay->large_live -= sizes[id];
        spans[id] = NULL;
    } else if (bufs[id] != NULL) {
        check(hearth_exec_free(replay->arena, bufs[id]), "hearth_exec_free");
        bufs[id] = NULL;
    }
}

static void play(struct replay *replay, struct hearth_backing *backing, size_t threshold)
{
    *replay = (struct replay){.threshold = threshold};
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    options.backing = backing;
    gap_count = 0;
    top = 0;
    check(hearth_exec_create(&options, &replay->arena), "hearth_exec_create");
    check(hearth__span_heap_init(&replay->heap, backing, SIZE_MAX), "hearth__span_heap_init");
    for (unsigned pass = 0; pass < PASSES; pass++) {
        uint64_t before = replay->heap.obtained_count;
        for (size_t i = 0; i < event_count; i++) {
            if (is_export[events[i].id])
                continue;
            if (events[i].is_alloc)
                play_alloc(replay, &events[i]);
            else
                play_free(replay, events[i].id);
        }
        if (replay->heap.obtained_count != before)
            replay->warm_passes = pass + 1;
    }
}

static void end(struct replay *replay)
{
    hearth__span_heap_fini(&replay->heap);
    check(hearth_exec_destroy(replay->arena), "hearth_exec_destroy");
}

static double over(size_t bytes, size_t peak)
{
    return peak == 0 ? 0 : (double)bytes / (double)peak;
}

static void bench_trace(struct hearth_backing *backing, const char *path)
{
    static const size_t thresholds[] = {4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB};
    const char *name = strrchr(path, '/');
    struct replay replay;
    read_trace(path);
    play(&replay, backing, SIZE_MAX);
    printf("%-20s peak %8zu KiB  lists %.3f\n", name == NULL ? path : name + 1, replay.peak / KIB,
           over(footprint(&replay), replay.peak));
    end(&replay);
    for (size_t i = 0; i < sizeof thresholds / sizeof thresholds[0]; i++) {
        play(&replay, backing, thresholds[i]);
        printf("  from %5zu KiB: spans %.3f (most %.3f, warm after %zu passes, %zu segments)"
               "  large blocks alone: spans %.3f, best fit %.3f\n",
               thresholds[i] / KIB, over(footprint(&replay), replay.peak),
               over(replay.most_footprint, replay.peak), replay.warm_passes,
               replay.heap.spans->segment_count,
               over(replay.heap.spans->segment_bytes, replay.large_peak),
               over(top, replay.large_peak));
        end(&replay);
    }
}

/* Time. */

#define HELD 64u

struct pairs {
    struct hearth__span_heap heap;
    size_t bytes;
    size_t spread; /* sizes differ by up to this */
    struct hearth__span *held[HELD];
    uint64_t random;
};

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* One pair a time, nothing else lent but what splits the space. */
static void same_again(void *context, size_t count)
{
    struct pairs *pairs = context;
    struct hearth__span *span;
    for (size_t i = 0; i < count; i++) {
        if (hearth__span_heap_take(&pairs->heap, pairs->bytes, 6, &span) != HEARTH_OK)
            bench_die("take", "same_again");
        hearth__span_heap_give(&pairs->heap, span);
    }
}

/* One of those that are lent is given back, and another one taken. */
static void replace(void *context, size_t count)
{
    struct pairs *pairs = context;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = next_random(&pairs->random);
        struct hearth__span **at = &pairs->held[random % HELD];
        size_t bytes = pairs->bytes + (pairs->spread == 0 ? 0 : (random >> 8) % pairs->spread);
        hearth__span_heap_give(&pairs->heap, *at);
        if (hearth__span_heap_take(&pairs->heap, bytes, 6, at) != HEARTH_OK)
            bench_die("take", "replace");
    }
}

static void bench_time(struct hearth_backing *backing)
{
    static const size_t cases[] = {64 * KIB, MIB, 8 * MIB, 64 * MIB};
    const struct bench_plan plan = {200000, 5, 9};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pairs pairs = {.bytes = cases[i], .random = 7};
        struct hearth__span *wall;
        check(hearth__span_heap_init(&pairs.heap, backing, SIZE_MAX), "hearth__span_heap_init");
        check(hearth__span_heap_take(&pairs.heap, 64 * KIB, 6, &wall), "take");
        struct bench_figure same = bench_measure(&plan, same_again, &pairs);
        for (unsigned j = 0; j < HELD; j++)
            check(hearth__span_heap_take(&pairs.heap, pairs.bytes, 6, &pairs.held[j]), "take");
        struct bench_figure others = bench_measure(&plan, replace, &pairs);
        pairs.spread = pairs.bytes;
        struct bench_figure mixed = bench_measure(&plan, replace, &pairs);
        printf("%6zu KiB: take and give %.1f ns, one of %u replaced %.1f ns, of sizes up to twice "
               "that %.1f ns\n",
               cases[i] / KIB, same.ns, HELD, others.ns, mixed.ns);
        for (unsigned j = 0; j < HELD; j++)
            hearth__span_heap_give(&pairs.heap, pairs.held[j]);
        hearth__span_heap_give(&pairs.heap, wall);
        hearth__span_heap_fini(&pairs.heap);
    }
}

/* The same in an arena: what a program has of it. */
struct arena_pairs {
    struct hearth_exec *arena;
    size_t bytes;
    size_t spread;
    struct hearth_buf *held[HELD];
    uint64_t random;
};

static void arena_same_again(void *context, size_t count)
{
    struct arena_pairs *pairs = context;
    struct hearth_buf *buf;
    for (size_t i = 0; i < count; i++)
        if (hearth_exec_alloc(pairs->arena, pairs->bytes, &buf) != HEARTH_OK ||
            hearth_exec_free(pairs->arena, buf) != HEARTH_OK)
            bench_die("pair", "arena_same_again");
}

/* No request fits what was returned last. */
static void arena_two_sizes(void *context, size_t count)
{
    struct arena_pairs *pairs = context;
    struct hearth_buf *buf;
    for (size_t i = 0; i < count; i++)
        if (hearth_exec_alloc(pairs->arena, i % 2 == 0 ? pairs->bytes : pairs->bytes / 4 * 3,
                              &buf) != HEARTH_OK ||
            hearth_exec_free(pairs->arena, buf) != HEARTH_OK)
            bench_die("pair", "arena_two_sizes");
}

static void arena_replace(void *context, size_t count)
{
    struct arena_pairs *pairs = context;
    for (size_t i = 0; i < count; i++) {
        uint64_t random = next_random(&pairs->random);
        struct hearth_buf **at = &pairs->held[random % HELD];
        size_t bytes = pairs->bytes + (pairs->spread == 0 ? 0 : (random >> 8) % pairs->spread);
        if (hearth_exec_free(pairs->arena, *at) != HEARTH_OK ||
            hearth_exec_alloc(pairs->arena, bytes, at) != HEARTH_OK)
            bench_die("pair", "arena_replace");
    }
}

/* Until most places where a block may begin were used: each new one costs a page of the address table. */
#define WARM_MIXED 300000u

static void bench_arena_time(struct hearth_backing *backing)
{
    static const size_t cases[] = {KIB, 64 * KIB, MIB, 8 * MIB, 64 * MIB};
    const struct bench_plan plan = {200000, 5, 9};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct arena_pairs pairs = {.bytes = cases[i], .random = 7};
        struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
        struct hearth_buf *wall;
        options.backing = backing;
        options.store = HEARTH_EXEC_STORE_SPANS;
        check(hearth_exec_create(&options, &pairs.arena), "hearth_exec_create");
        check(hearth_exec_alloc(pairs.arena, 64 * KIB, &wall), "alloc");
        struct bench_figure same = bench_measure(&plan, arena_same_again, &pairs);
        struct bench_figure two = bench_measure(&plan, arena_two_sizes, &pairs);
        for (unsigned j = 0; j < HELD; j++)
            check(hearth_exec_alloc(pairs.arena, pairs.bytes, &pairs.held[j]), "alloc");
        struct bench_figure others = bench_measure(&plan, arena_replace, &pairs);
        pairs.spread = pairs.bytes;
        arena_replace(&pairs, WARM_MIXED);
        struct bench_figure mixed = bench_measure(&plan, arena_replace, &pairs);
        printf("%6zu KiB: arena's pair %.1f ns, of two sizes in turn %.1f ns, one of %u replaced "
               "%.1f ns, of sizes up to twice that %.1f ns\n",
               cases[i] / KIB, same.ns, two.ns, HELD, others.ns, mixed.ns);
        for (unsigned j = 0; j < HELD; j++)
            check(hearth_exec_free(pairs.arena, pairs.held[j]), "free");
        check(hearth_exec_free(pairs.arena, wall), "free");
        check(hearth_exec_destroy(pairs.arena), "hearth_exec_destroy");
    }
}

int main(int argc, char **argv)
{
    struct hearth_backing *backing;
    check(hearth_backing_default(&backing), "hearth_backing_default");
    bench_pin(bench_cpu_from_end(0));
    for (int i = 1; i < argc; i++)
        bench_trace(backing, argv[i]);
    if (argc < 2) {
        bench_time(backing);
        bench_arena_time(backing);
    }
    return 0;
}
