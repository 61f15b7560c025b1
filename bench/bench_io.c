/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one pool of buffers: hearth's I/O arena or a peer. Each peer is a program of its own,
 * bench_io_<name>; scripts/bench io starts them in turn, and docs/bench.md has the matrix.
 *
 *     case                    threads          one operation
 *     acquire_release         1                take a counted buffer, release it
 *     alloc_export_release    1                take a buffer, make it a counted one, release it
 *     retain_release          1                take, one more reference, release, release
 *     cross_thread            2                take, hand over, release on another thread
 *     pairs                   1, 2, 4, 8, 64   take and release, on all threads at once
 *
 * Output: comment lines that name the malloc in use and what is left out, then one line per figure:
 * case, bytes, ns per operation, 10th and 90th percentile of the samples, threads; tabs between.
 */
#include "io_cases.h"
#include "program.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Most figures take a second at most, on a busy machine some. */
#define FIGURE_SECONDS 120u
#define STALL_SECONDS 20u

struct options {
    const char *cases; /* comma-separated; NULL: all */
    bool quick;
    size_t count; /* not 0: only run this many operations of one case, untimed */
    size_t bytes;
};

static const char usage[] =
    "usage: bench_io_<name> [--cases NAME,...] [--quick]\n"
    "       bench_io_<name> --cases NAME --count COUNT --bytes N\n"
    "The second form runs COUNT operations on one thread and reports nothing, for counting\n"
    "instructions.\n";

static _Noreturn void bad_option(const char *what, const char *value)
{
    fprintf(stderr, "bench_io: %s: %s\n%s", what, value, usage);
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

static void check_options(const struct options *options)
{
    if (options->cases != NULL) {
        size_t known = 0;
        for (size_t i = 0; i < bench_io_case_count; i++) {
            known += bench_listed(options->cases, bench_io_cases[i].name);
        }
        if (known != bench_word_count(options->cases)) {
            bad_option("--cases: unknown or repeated case in", options->cases);
        }
    }
    if ((options->count == 0) != (options->bytes == 0)) {
        bad_option("--count and --bytes", "each needs the other");
    }
    if (options->count != 0 && (options->cases == NULL || bench_word_count(options->cases) != 1)) {
        bad_option("--count", "needs one case");
    }
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"cases", required_argument, NULL, 'c'}, {"quick", no_argument, NULL, 'q'},
        {"count", required_argument, NULL, 'n'}, {"bytes", required_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    struct options options = {0};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'c':
            options.cases = optarg;
            break;
        case 'q':
            options.quick = true;
            break;
        case 'n':
            options.count = parse_count("--count", optarg);
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
    check_options(&options);
    return options;
}

struct figure_run {
    const struct bench_io_case *one;
    struct bench_io_run run;
};

static void run_figure(const void *context)
{
    const struct figure_run *figure_run = context;
    const struct bench_io_run *run = &figure_run->run;
    struct bench_figure figure = figure_run->one->run(run);
    printf("%s\t%zu\t%.3f\t%.3f\t%.3f\t%u\n", figure_run->one->name, run->bytes, figure.ns,
           figure.low, figure.high, run->threads);
}

static void run_isolated(const struct bench_io_case *one, const struct bench_io_run *run)
{
    struct figure_run figure_run = {one, *run};
    unsigned seconds = bench_io_subject.stalls ? STALL_SECONDS : FIGURE_SECONDS;
    if (bench_isolated(one->name, run_figure, &figure_run, seconds)) {
        return;
    }
    if (!bench_io_subject.stalls) {
        bench_die(one->name, "did not end");
    }
    printf("# note=%s of %zu bytes on %u threads did not end at least once\n", one->name,
           run->bytes, run->threads);
}

static void run_case(const struct bench_io_case *one, bool quick)
{
    const struct bench_plan *plan = quick ? &one->quick : &one->plan;
    for (const size_t *bytes = bench_io_sizes; *bytes != 0; bytes++) {
        for (size_t t = 0; t < BENCH_IO_COUNTS_MAX && one->threads[t] != 0; t++) {
            struct bench_io_run run = {one->loop, *bytes, one->threads[t], plan};
            if (*bytes <= bench_io_subject.bytes_max) {
                run_isolated(one, &run);
            }
        }
    }
}

static void report_left_out(void)
{
    for (const size_t *bytes = bench_io_sizes; *bytes != 0; bytes++) {
        if (*bytes > bench_io_subject.bytes_max) {
            printf("# note=no buffers of %zu bytes: the largest is %zu\n", *bytes,
                   bench_io_subject.bytes_max);
        }
    }
}

static void run_untimed(const struct bench_io_case *one, size_t bytes, size_t count)
{
    if (one->threads[0] != 1 || one->threads[1] != 0) {
        bad_option("--count: not a case of one thread", one->name);
    }
    void *pool = bench_io_subject.open(bytes, 1);
    bench_io_subject.loops[one->loop](pool, bytes, count);
    bench_io_subject.close(pool);
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    if (options.count == 0) {
        printf("# malloc=%s\n", bench_malloc_origin());
        report_left_out();
    }
    for (size_t i = 0; i < bench_io_case_count; i++) {
        const struct bench_io_case *one = &bench_io_cases[i];
        if ((options.cases != NULL && !bench_listed(options.cases, one->name)) ||
            bench_io_subject.loops[one->loop] == NULL) {
            continue;
        }
        if (options.count != 0) {
            run_untimed(one, options.bytes, options.count);
        } else {
            run_case(one, options.quick);
        }
    }
    return 0;
}
