/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_pack [--seeds N] [--work N] [--skip-peers] [TRACE...]: totals over the lower bound, work and time of
 * the packer and of published heuristics, for the first run of each trace and for N made up runs of each
 * kind of 400 and of 10,000 buffers. One line for each, tab-separated: instance, buffers, who, method,
 * total/bound, work, passes, milliseconds of processor time. `first` is the packer's first pass alone.
 */
#include "measure.h"
#include "pack_instances.h"
#include "pack_peers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const method_names[HEARTH__PACK_METHODS] = {
    [HEARTH__PACK_NONE] = "none",       [HEARTH__PACK_SIZES] = "sizes",
    [HEARTH__PACK_BUSIEST] = "busiest", [HEARTH__PACK_SKYLINE] = "skyline",
    [HEARTH__PACK_LONGEST] = "longest", [HEARTH__PACK_AREAS] = "areas",
    [HEARTH__PACK_SEARCH] = "search",
};

/* Times; the smallest counts. */
#define REPEATS 5

struct settings {
    uint64_t work;
    bool peers;
};

/* Of this thread's processor time: other load takes turns, and is not to be measured. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double milliseconds_since(uint64_t start)
{
    return (double)(now_ns() - start) / 1e6;
}

static void measure_packer(const char *name, const struct pack_instance *instance, uint64_t work,
                           size_t *bound)
{
    struct hearth__pack_options options = {.work = work};
    struct hearth__pack_report report = {0};
    size_t *offsets = calloc(instance->count + 1, sizeof(*offsets));
    double best = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = now_ns();
        enum hearth_status status =
            hearth__pack(instance->items, instance->count, &options, offsets, &report);
        if (status != HEARTH_OK)
            bench_die(name, hearth_status_name(status));
        double took = milliseconds_since(start);
        best = took < best ? took : best;
    }
    free(offsets);
    *bound = report.bound;
    printf("%s\t%zu\t%s\t%s\t%.4f\t%" PRIu64 "\t%u\t%.3f\n", name, instance->count,
           work == 1 ? "first" : "hearth", method_names[report.method],
           (double)report.total / (double)report.bound, report.work, report.passes, best);
}

static void measure(const char *name, const struct pack_instance *instance,
                    const struct settings *settings)
{
    size_t bound = 0;
    measure_packer(name, instance, 1, &bound);
    measure_packer(name, instance, settings->work, &bound);
    for (const struct pack_peer *peer = pack_peers; settings->peers && peer->name != NULL; peer++) {
        uint64_t start = now_ns();
        size_t total = peer->total(instance->items, instance->count);
        printf("%s\t%zu\t%s\t\t%.4f\t0\t1\t%.3f\n", name, instance->count, peer->name,
               (double)total / (double)bound, milliseconds_since(start));
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct settings settings = {.peers = true};
    size_t sizes[] = {400, 10000};
    uint64_t seeds = 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--skip-peers") == 0) {
            settings.peers = false;
        } else if (strcmp(argv[i], "--work") == 0 && i + 1 < argc) {
            settings.work = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            seeds = strtoull(argv[++i], NULL, 10);
        } else {
            struct pack_instance instance = pack_read_trace(argv[i]);
            const char *slash = strrchr(argv[i], '/');
            measure(slash != NULL ? slash + 1 : argv[i], &instance, &settings);
            free(instance.items);
        }
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (enum pack_kind kind = 0; kind < PACK_KINDS; kind++) {
            for (uint64_t seed = 1; seed <= seeds; seed++) {
                struct pack_instance instance = pack_make(kind, sizes[i], seed);
                char name[64];
                snprintf(name, sizeof(name), "%s#%" PRIu64, pack_kind_names[kind], seed);
                measure(name, &instance, &settings);
                free(instance.items);
            }
        }
    }
    return 0;
}
