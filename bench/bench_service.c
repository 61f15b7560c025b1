/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what a service promises; scripts/bench service starts it, and docs/bench.md has the cases.
 *
 *     pair     alloc and free on an arena of a service, and on one without
 *     spike    2.5 GiB for a moment, then small requests on 16 threads, then a trim
 *     storm    owners at work while somebody trims in a loop
 *     slices   a million idle buffers given back in slices of a millisecond
 *     idle     512 MiB for a moment, then nobody calls hearth
 *
 * Output: one line per figure: case, setting, name, value, unit; tabs between.
 */
#include "measure.h"
#include "program.h"
#include "service_cases.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

struct options {
    const char *cases; /* comma-separated; NULL: all */
    const char *arena; /* not NULL: only run `pairs` pairs of it, untimed */
    size_t pairs;
    size_t bytes;
    bool quick;
};

static const char usage[] =
    "usage: bench_service [--cases NAME,...] [--quick]\n"
    "       bench_service --arena bare|service|ceiling --pairs COUNT --bytes N\n"
    "The second form runs COUNT pairs on one thread and reports nothing, for counting\n"
    "instructions.\n";

static _Noreturn void bad_option(const char *what, const char *value)
{
    fprintf(stderr, "bench_service: %s: %s\n%s", what, value, usage);
    exit(2);
}

static size_t parse_count(const char *option, const char *text)
{
    size_t value = bench_parse_count(text);
    if (value == 0) {
        bad_option(option, text);
    }
    return value;
}

static void check_cases(const char *cases)
{
    size_t known = 0;
    for (size_t i = 0; i < bench_service_case_count; i++) {
        known += bench_listed(cases, bench_service_cases[i].name);
    }
    if (known != bench_word_count(cases)) {
        bad_option("--cases: unknown or repeated case in", cases);
    }
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"cases", required_argument, NULL, 'c'},
        {"quick", no_argument, NULL, 'q'},
        {"arena", required_argument, NULL, 'a'},
        {"pairs", required_argument, NULL, 'n'},
        {"bytes", required_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.cases = NULL};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'c':
            options.cases = optarg;
            check_cases(optarg);
            break;
        case 'q':
            options.quick = true;
            break;
        case 'a':
            options.arena = optarg;
            break;
        case 'n':
            options.pairs = parse_count("--pairs", optarg);
            break;
        case 'b':
            options.bytes = parse_count("--bytes", optarg);
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (optind < argc) {
        bad_option("unexpected argument", argv[optind]);
    }
    if ((options.arena == NULL) != (options.pairs == 0) ||
        (options.pairs == 0) != (options.bytes == 0)) {
        bad_option("--arena, --pairs and --bytes", "each needs the others");
    }
    return options;
}

struct case_run {
    const struct bench_service_case *one;
    bool quick;
};

static void run_case(const void *context)
{
    const struct case_run *run = context;
    run->one->run(run->quick);
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    if (options.arena != NULL) {
        if (!bench_service_run_pairs(options.arena, options.bytes, options.pairs)) {
            bad_option("--arena", options.arena);
        }
        return 0;
    }
    for (size_t i = 0; i < bench_service_case_count; i++) {
        struct case_run run = {&bench_service_cases[i], options.quick};
        if (options.cases != NULL && !bench_listed(options.cases, run.one->name)) {
            continue;
        }
        if (!bench_isolated(run.one->name, run_case, &run, run.one->seconds)) {
            bench_die(run.one->name, "did not end");
        }
    }
    return 0;
}
