/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures what routing costs per node; scripts/bench runtime starts it, and docs/bench.md has the cases.
 *
 *     chain60, chain600       empty kernels, serially: each node uses the one before
 *     layered60, layered600   empty kernels, serially: layers of six, three inputs each
 *     parallel                empty kernels, layered600, on pools of 2 and 8 threads
 *     spin                    kernels of 20 us, layered600, serially and on pools of 2 and 8 threads
 *
 * Output: a line for the origin of malloc, then one per figure: case, largest size, ns per node, 10th
 * and 90th percentile, threads; tabs between.
 */
#include "measure.h"
#include "program.h"
#include "runtime_cases.h"
#include "runtime_graph.h"

#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPIN_NS 20000.0
#define CASE_SECONDS 120u

struct runtime_case {
    const char *name;
    const char *form;
    size_t nodes;
    double spin_ns;
    bool parallel;
};

struct options {
    const char *cases; /* comma-separated; NULL: all */
    const struct bench_runtime_subject *subject;
    size_t runs; /* not 0: only do so many runs of the first case, untimed */
    bool quick;
};

struct case_run {
    const struct runtime_case *one;
    const struct options *options;
};

static const struct runtime_case cases[] = {
    {"chain60", "chain", 60, 0, false},     {"chain600", "chain", 600, 0, false},
    {"layered60", "layered", 60, 0, false}, {"layered600", "layered", 600, 0, false},
    {"parallel", "layered", 600, 0, true},  {"spin", "layered", 600, SPIN_NS, true},
};

static const struct bench_runtime_subject *const subjects[] = {
    &bench_runtime_hearth,
    &bench_runtime_arena_loop,
    &bench_runtime_malloc_loop,
};

static const char usage[] =
    "usage: bench_runtime --subject hearth|loop|malloc [--cases NAME,...] [--quick]\n"
    "       bench_runtime --subject NAME --cases NAME --runs COUNT\n"
    "The second form does COUNT serial runs and reports nothing, for counting instructions.\n";

static _Noreturn void bad_option(const char *what, const char *value)
{
    fprintf(stderr, "bench_runtime: %s: %s\n%s", what, value, usage);
    exit(2);
}

static void check_cases(const char *list)
{
    size_t known = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        known += bench_listed(list, cases[i].name);
    }
    if (known != bench_word_count(list)) {
        bad_option("--cases: unknown or repeated case in", list);
    }
}

static const struct bench_runtime_subject *find_subject(const char *name)
{
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++) {
        if (strcmp(subjects[i]->name, name) == 0) {
            return subjects[i];
        }
    }
    bad_option("--subject", name);
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"subject", required_argument, NULL, 's'}, {"cases", required_argument, NULL, 'c'},
        {"runs", required_argument, NULL, 'n'},    {"quick", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    struct options options = {.cases = NULL};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 's':
            options.subject = find_subject(optarg);
            break;
        case 'c':
            options.cases = optarg;
            check_cases(optarg);
            break;
        case 'n':
            options.runs = bench_parse_count(optarg);
            if (options.runs == 0) {
                bad_option("--runs", optarg);
            }
            break;
        case 'q':
            options.quick = true;
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
    if (options.subject == NULL) {
        bad_option("--subject", "is needed");
    }
    return options;
}

static void tell(const struct runtime_case *one, struct bench_figure figure, unsigned threads)
{
    double nodes = (double)one->nodes;
    printf("%s\t%zu\t%.3f\t%.3f\t%.3f\t%u\n", one->name, GRAPH_BYTES_MAX, figure.ns / nodes,
           figure.low / nodes, figure.high / nodes, threads);
}

static void measure_serial(const struct case_run *run)
{
    struct bench_plan plan = {run->options->quick ? 100000 : 500000, run->options->quick ? 2 : 5,
                              run->options->quick ? 5 : 31};
    bench_pin(bench_cpu_from_end(0));
    void *opened = run->options->subject->open(run->one->form, run->one->nodes);
    tell(run->one, bench_measure(&plan, run->options->subject->run, opened), 1);
}

struct parallel_run {
    const struct case_run *run;
    unsigned threads; /* of the pool; 0: serially */
    size_t work;
};

/* Several threads can also be fast by luck: one plain median. */
static void measure_on(const void *context)
{
    const struct parallel_run *parallel = context;
    const struct runtime_case *one = parallel->run->one;
    bool quick = parallel->run->options->quick;
    bool spin = one->spin_ns > 0;
    struct bench_plan plan = {quick ? 1000000 : 5000000, 1, quick ? 5 : (spin ? 25 : 61)};
    void *opened = bench_runtime_open_on(one->form, one->nodes, parallel->threads, parallel->work);
    tell(one, bench_measure(&plan, bench_runtime_run_on, opened),
         parallel->threads == 0 ? 1 : parallel->threads);
}

/* The same work in all of them: it is measured once. */
static void measure_parallel(const struct case_run *run)
{
    static const unsigned threads[] = {0, 2, 8};
    bool spin = run->one->spin_ns > 0;
    size_t work = spin ? bench_runtime_calibrate(run->one->spin_ns) : 0;
    for (size_t i = spin ? 0 : 1; i < sizeof threads / sizeof *threads; i++) {
        struct parallel_run parallel = {run, threads[i], work};
        if (!bench_isolated(run->one->name, measure_on, &parallel, CASE_SECONDS)) {
            bench_die(run->one->name, "did not end");
        }
    }
}

static void run_case(const void *context)
{
    const struct case_run *run = context;
    if (run->options->runs != 0) {
        void *opened = run->options->subject->open(run->one->form, run->one->nodes);
        run->options->subject->run(opened, run->options->runs);
    } else if (!run->one->parallel) {
        measure_serial(run);
    }
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    if (options.runs == 0) {
        printf("# malloc=%s\n", bench_malloc_origin());
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct case_run run = {&cases[i], &options};
        if (options.cases != NULL && !bench_listed(options.cases, run.one->name)) {
            continue;
        }
        if (options.runs != 0) {
            run_case(&run);
            return 0;
        }
        if (!bench_isolated(run.one->name, run_case, &run, CASE_SECONDS)) {
            bench_die(run.one->name, "did not end");
        }
        if (run.one->parallel && options.subject == &bench_runtime_hearth) {
            measure_parallel(&run);
        }
    }
    return 0;
}
