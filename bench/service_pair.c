/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pair: alloc, write one byte, free, on an execution arena alone, on one of a service, and on one of a
 * service with a ceiling that is never reached.
 */
#include "measure.h"
#include "service_cases.h"

#include <hearth/exec.h>

#include <string.h>

struct pair {
    struct hearth_exec *arena;
    size_t bytes;
};

static const char *const arenas[] = {"bare", "service", "ceiling"};

static void run_pairs(void *context, size_t count)
{
    const struct pair *pair = context;
    for (size_t i = 0; i < count; i++) {
        struct hearth_buf *buf;
        bench_must(hearth_exec_alloc(pair->arena, pair->bytes, &buf), "alloc");
        *(volatile unsigned char *)hearth_buf_data(buf) = 1;
        bench_must(hearth_exec_free(pair->arena, buf), "free");
    }
}

/* The arena lives as long as the process. */
static bool open_arena(const char *name, struct hearth_exec **arena)
{
    struct hearth_service_options options = HEARTH_SERVICE_OPTIONS_INIT;
    if (strcmp(name, "bare") == 0) {
        bench_must(hearth_exec_create(NULL, arena), "arena");
        return true;
    }
    if (strcmp(name, "ceiling") == 0) {
        options.ceiling = (size_t)1 << 30;
    } else if (strcmp(name, "service") != 0) {
        return false;
    }
    bench_must(hearth_service_exec(bench_open_service(&options), arena), "attach");
    return true;
}

bool bench_service_run_pairs(const char *arena, size_t bytes, size_t count)
{
    struct pair pair = {NULL, bytes};
    if (!open_arena(arena, &pair.arena)) {
        return false;
    }
    run_pairs(&pair, count);
    return true;
}

void bench_service_pair(bool quick)
{
    struct bench_plan plan = {quick ? 100000 : 500000, quick ? 2 : 5, quick ? 5 : 31};
    for (size_t i = 0; i < sizeof arenas / sizeof *arenas; i++) {
        struct pair pair = {NULL, 4096};
        (void)open_arena(arenas[i], &pair.arena);
        struct bench_figure figure = bench_measure(&plan, run_pairs, &pair);
        bench_tell("pair", arenas[i], "time", figure.ns, "ns");
    }
}
