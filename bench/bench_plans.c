/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_plans [--rounds N] [--runs N --store lists|spans|plans] TRACE...
 *
 * What an allocation and its free cost when a plan serves them, beside list hits and spans, on the first run
 * of each trace and on a made up one of 400 buffers. Payloads are not touched. The stores take turns, round by
 * round, in one process. Then how long planning takes, of each trace and of a made up run of 10,000 buffers.
 *
 * One line each, tab-separated:
 *     pair      sequence, buffers, store, ns per alloc and free (median of the rounds), smallest and largest
 *               round, share of requests that a plan served
 *     planning  sequence, buffers, run from which on all is planned (0: never), longest slice of planning at a run's
 *               end in us, the last one, with the slab, in us, and that with pages that the kernel has to give first,
 *               all ends of runs in ms, longest alloc or free in us, plan over bound
 *
 * With --runs so many runs of the first sequence on one store and nothing else, for callgrind.
 */
#include "measure.h"
#include "plans_sequence.h"
#include "program.h"

#include <hearth/exec.h>
#include <hearth/stats.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SYNTHETIC 400
#define LARGE 10000
#define ROUNDS 21
#define ROUNDS_MOST 200
#define BATCH_NS 1000000u

/* Runs after which every store is warm and a plan is made. */
#define WARM_RUNS 12

/* Runs to wait for a plan, and arenas tried: the quickest counts, other load only adds. */
#define PLANNING_RUNS 400
#define PLANNING_ARENAS 4

static const char *const store_names[] = {"lists", "spans", "plans"};
#define STORES 3

static struct hearth_exec *open_arena(uint32_t store)
{
    struct hearth_exec_options options = HEARTH_EXEC_OPTIONS_INIT;
    struct hearth_exec *arena = NULL;
    options.store = store + 1;
    enum hearth_status status = hearth_exec_create(&options, &arena);
    if (status != HEARTH_OK)
        bench_die("hearth_exec_create", hearth_status_text(status));
    return arena;
}

static void close_arena(struct hearth_exec *arena)
{
    enum hearth_status status = hearth_exec_destroy(arena);
    if (status != HEARTH_OK)
        bench_die("hearth_exec_destroy", hearth_status_text(status));
}

static struct hearth_exec_stats read_stats(const struct hearth_exec *arena)
{
    struct hearth_exec_stats stats = HEARTH_EXEC_STATS_INIT;
    hearth_exec_stats(arena, &stats);
    return stats;
}

/* Of this thread's processor time: other load takes turns, and is not to be measured. */
static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double time_runs(struct hearth_exec *arena, struct plans_sequence *sequence, size_t runs)
{
    uint64_t start = now_ns();
    for (size_t i = 0; i < runs; i++)
        plans_run(arena, sequence);
    return (double)(now_ns() - start) / (double)(runs * sequence->buffers);
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static void print_pair(const struct plans_sequence *sequence, uint32_t store, double *samples,
                       size_t rounds, double share)
{
    qsort(samples, rounds, sizeof(*samples), compare);
    printf("pair\t%s\t%zu\t%s\t%.2f\t%.2f\t%.2f\t%.3f\n", sequence->name, sequence->buffers,
           store_names[store], samples[rounds / 2], samples[0], samples[rounds - 1], share);
}

static void measure_pairs(struct plans_sequence *sequence, size_t rounds)
{
    static double samples[STORES][ROUNDS_MOST];
    struct hearth_exec *arenas[STORES];
    struct hearth_exec_stats before[STORES];
    size_t runs = 1;
    for (uint32_t store = 0; store < STORES; store++) {
        arenas[store] = open_arena(store);
        time_runs(arenas[store], sequence, WARM_RUNS);
        before[store] = read_stats(arenas[store]);
    }
    while (time_runs(arenas[0], sequence, runs) * (double)(runs * sequence->buffers) < BATCH_NS)
        runs *= 2;
    for (size_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < STORES; i++) {
            uint32_t store = (uint32_t)((round + i) % STORES); /* None always comes first. */
            samples[store][round] = time_runs(arenas[store], sequence, runs);
        }
    }
    for (uint32_t store = 0; store < STORES; store++) {
        struct hearth_exec_stats after = read_stats(arenas[store]);
        double share = (double)(after.plan_hits - before[store].plan_hits) /
                       (double)(after.allocs - before[store].allocs);
        print_pair(sequence, store, samples[store], rounds, share);
        close_arena(arenas[store]);
    }
    fflush(stdout);
}

/* Nanoseconds. Planning is done at the ends of runs: slices, and in the last one the slab is made as well. */
struct planning {
    unsigned ready; /* Run from which on a plan serves all; 0: none. */
    uint64_t slice; /* The longest run_end before the last one. */
    uint64_t last;  /* The run_end that made the plan. */
    uint64_t ends;  /* All of them. */
    uint64_t step;  /* The longest alloc or free. */
    double over_bound;
};

/* Returns what run_end took. */
static uint64_t timed_run(struct hearth_exec *arena, struct plans_sequence *sequence,
                          uint64_t *longest)
{
    plans_begin(arena);
    uint64_t last = now_ns();
    for (size_t i = 0; i < sequence->count; i++) {
        plans_do_step(arena, sequence, &sequence->steps[i]);
        uint64_t now = now_ns();
        *longest = now - last > *longest ? now - last : *longest;
        last = now;
    }
    hearth_exec_run_end(arena);
    return now_ns() - last;
}

/* The first run fills the lists, and its calls to the backing are no planning. */
static struct planning plan_once(struct plans_sequence *sequence)
{
    struct hearth_exec *arena = open_arena(2);
    struct planning planning = {.ready = 0};
    plans_run(arena, sequence);
    for (unsigned run = 2; run <= PLANNING_RUNS && planning.ready == 0; run++) {
        struct hearth_exec_stats before = read_stats(arena);
        uint64_t took = timed_run(arena, sequence, &planning.step);
        struct hearth_exec_stats after = read_stats(arena);
        planning.ends += took;
        if (after.plans_made > before.plans_made) {
            planning.last = took;
        } else if (after.plan_hits - before.plan_hits == after.allocs - before.allocs) {
            planning.ready = run;
            planning.over_bound = (double)after.plan_bytes / (double)after.plan_bound;
        } else if (took > planning.slice) {
            planning.slice = took;
        }
    }
    close_arena(arena);
    return planning;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void measure_planning(struct plans_sequence *sequence)
{
    struct planning first = plan_once(sequence);
    struct planning best = first;
    for (int i = 1; i < PLANNING_ARENAS; i++) {
        struct planning other = plan_once(sequence);
        best.slice = least(best.slice, other.slice);
        best.last = least(best.last, other.last);
        best.ends = least(best.ends, other.ends);
        best.step = least(best.step, other.step);
    }
    printf("planning\t%s\t%zu\t%u\t%.1f\t%.1f\t%.1f\t%.3f\t%.1f\t%.4f\n", sequence->name,
           sequence->buffers, best.ready, (double)best.slice / 1e3, (double)best.last / 1e3,
           (double)first.last / 1e3, (double)best.ends / 1e6, (double)best.step / 1e3,
           best.over_bound);
    fflush(stdout);
}

static void measure(struct plans_sequence *sequence, size_t rounds)
{
    if (rounds > 0)
        measure_pairs(sequence, rounds);
    else
        measure_planning(sequence);
    plans_sequence_end(sequence);
}

static uint32_t find_store(const char *name)
{
    for (uint32_t store = 0; store < STORES; store++) {
        if (strcmp(store_names[store], name) == 0)
            return store;
    }
    bench_die(name, "no such store: lists, spans or plans");
}

static void only_run(struct plans_sequence sequence, uint32_t store, size_t runs)
{
    struct hearth_exec *arena = open_arena(store);
    for (size_t i = 0; i < WARM_RUNS + runs; i++)
        plans_run(arena, &sequence);
    close_arena(arena);
    plans_sequence_end(&sequence);
}

int main(int argc, char **argv)
{
    size_t rounds = ROUNDS;
    size_t runs = 0;
    uint32_t store = 0;
    int first = 1;
    for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
        if (strcmp(argv[first], "--rounds") == 0)
            rounds = bench_parse_count(argv[first + 1]);
        else if (strcmp(argv[first], "--runs") == 0)
            runs = bench_parse_count(argv[first + 1]);
        else if (strcmp(argv[first], "--store") == 0)
            store = find_store(argv[first + 1]);
        else
            bench_die(argv[first], "unknown option");
    }
    if (rounds == 0 || rounds > ROUNDS_MOST)
        bench_die("--rounds", "give a number from 1 to 200");
    bench_pin(bench_cpu_from_end(0));
    if (runs > 0) {
        only_run(first < argc ? plans_read(argv[first]) : plans_make(SYNTHETIC, 1), store, runs);
        return 0;
    }
    /* With 0 rounds: planning. */
    for (size_t pass = 0; pass < 2; pass++) {
        for (int i = first; i < argc; i++) {
            struct plans_sequence sequence = plans_read(argv[i]);
            measure(&sequence, pass == 0 ? rounds : 0);
        }
        struct plans_sequence made = plans_make(pass == 0 ? SYNTHETIC : LARGE, 1);
        measure(&made, pass == 0 ? rounds : 0);
    }
    return 0;
}
