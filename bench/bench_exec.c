/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures one allocator: hearth's execution arena, or whatever malloc the process runs with.
 * scripts/bench exec starts it once per allocator, case and round; docs/bench.md has the matrix.
 *
 *     case          sizes                  one operation
 *     pair          256 B ... 64 MiB       alloc, write one byte, free
 *     mixed         64 sizes to 4 MiB      free one of 16 at random, alloc another, write one byte
 *     first_touch   64 KiB, 1, 16 MiB      alloc, write every page; nothing was touched before
 *     warm_touch    64 KiB, 1, 16 MiB      alloc, write every page, free
 *     remote_free   4 KiB, 64 KiB          alloc, write one byte, free on another thread
 *
 * Output: a comment line that names the malloc in use, then one line per figure:
 * case, bytes, ns per operation, 10th and 90th percentile of the samples; tabs between.
 */
#include "exec_cases.h"

#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct options {
    const struct bench_subject *subject;
    const char *cases; /* comma-separated; NULL: all */
    bool quick;
    bool threaded;
    size_t pairs; /* not 0: only run this many pairs, untimed */
    size_t bytes;
};

static const char usage[] =
    "usage: bench_exec [--allocator hearth|malloc] [--cases NAME,...] [--quick] [--threaded]\n"
    "       bench_exec [--allocator hearth|malloc] --pairs COUNT --bytes N [--threaded]\n"
    "--threaded: a second thread exists, and sleeps.\n"
    "The second form runs COUNT pairs and reports nothing, for counting instructions.\n";

static _Noreturn void bad_option(const char *what, const char *value)
{
    fprintf(stderr, "bench_exec: %s: %s\n%s", what, value, usage);
    exit(2);
}

static size_t parse_count(const char *option, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || value == 0) {
        bad_option(option, text);
    }
    return (size_t)value;
}

static const struct bench_subject *parse_subject(const char *name)
{
    if (strcmp(name, bench_subject_hearth.name) == 0) {
        return &bench_subject_hearth;
    }
    if (strcmp(name, bench_subject_malloc.name) == 0) {
        return &bench_subject_malloc;
    }
    bad_option("--allocator", name);
}

/* Whether `name` is one of the comma-separated words of `list`. */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *word = list; word != NULL; word = strchr(word, ',')) {
        word += *word == ',';
        if (strncmp(word, name, length) == 0 && (word[length] == ',' || word[length] == '\0')) {
            return true;
        }
    }
    return false;
}

static void check_cases(const char *list)
{
    size_t words = 1;
    size_t known = 0;
    for (const char *c = list; *c != '\0'; c++) {
        words += *c == ',';
    }
    for (size_t i = 0; i < bench_exec_case_count; i++) {
        known += listed(list, bench_exec_cases[i].name);
    }
    if (known != words) {
        bad_option("--cases: unknown or repeated case in", list);
    }
}

static struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"allocator", required_argument, NULL, 'a'}, {"cases", required_argument, NULL, 'c'},
        {"quick", no_argument, NULL, 'q'},           {"pairs", required_argument, NULL, 'p'},
        {"bytes", required_argument, NULL, 'b'},     {"help", no_argument, NULL, 'h'},
        {"threaded", no_argument, NULL, 't'},        {NULL, 0, NULL, 0},
    };
    struct options options = {.subject = &bench_subject_hearth};
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'a':
            options.subject = parse_subject(optarg);
            break;
        case 'c':
            options.cases = optarg;
            break;
        case 'q':
            options.quick = true;
            break;
        case 't':
            options.threaded = true;
            break;
        case 'p':
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
    if ((options.pairs == 0) != (options.bytes == 0)) {
        bad_option("--pairs and --bytes", "each needs the other");
    }
    if (options.cases != NULL) {
        check_cases(options.cases);
    }
    return options;
}

/* The file that malloc comes from, so that a peer that was not preloaded cannot pass for one. */
static const char *malloc_origin(void)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    if (symbol == NULL || dladdr(symbol, &info) == 0 || info.dli_fname == NULL) {
        return "unknown";
    }
    return info.dli_fname;
}

static void *sleep_for_ever(void *unused)
{
    for (;;) {
        pause();
    }
    return unused;
}

/* Some allocators, glibc's among them, leave out their locks as long as there is one thread. */
static void start_sleeper(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, sleep_for_ever, NULL) != 0) {
        bench_die("--threaded", "no thread");
    }
}

static void run_size(const struct options *options, const struct bench_case *one, size_t bytes)
{
    if (strcmp(one->name, "remote_free") != 0) {
        bench_pin(bench_cpu_from_end(0));
    }
    if (options->threaded) {
        start_sleeper();
    }
    const struct bench_plan *plan = options->quick ? &one->quick : &one->plan;
    struct bench_figure figure = one->run(options->subject, bytes, plan);
    printf("%s\t%zu\t%.3f\t%.3f\t%.3f\n", one->name, bytes, figure.ns, figure.low, figure.high);
}

/* Each figure in a process of its own: what one case taught the allocator (thresholds, retained
 * memory, that there are threads) must not change the next. */
static void run_isolated(const struct options *options, const struct bench_case *one, size_t bytes)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run_size(options, one, bytes);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        bench_die(one->name, "the case's process failed");
    }
}

static void run_cases(const struct options *options)
{
    printf("# malloc=%s\n", malloc_origin());
    for (size_t i = 0; i < bench_exec_case_count; i++) {
        const struct bench_case *one = &bench_exec_cases[i];
        if (options->cases != NULL && !listed(options->cases, one->name)) {
            continue;
        }
        for (size_t s = 0; s < BENCH_CASE_SIZES_MAX && one->sizes[s] != 0; s++) {
            run_isolated(options, one, one->sizes[s]);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = parse_options(argc, argv);
    if (options.pairs != 0) {
        if (options.threaded) {
            start_sleeper();
        }
        void *arena = options.subject->open();
        options.subject->pair(arena, options.bytes, options.pairs);
        options.subject->close(arena);
        return 0;
    }
    run_cases(&options);
    return 0;
}
