/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <hearth/status.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VIOLATIONS_PRINTED 10
#define SMOKE_SECONDS 15u /* below the limit of scripts/expect-failure */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static _Atomic(uint64_t) violations;
static uint64_t started_ns;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void usage(const char *name)
{
    fprintf(stderr, "usage: %s [--threads N] [--seconds N] [--seed S] [--smoke]\n", name);
    exit(2);
}

static uint64_t number(const char *name, const char *text, uint64_t most)
{
    char *end;
    unsigned long long value = text == NULL ? 0 : strtoull(text, &end, 0);
    if (text == NULL || *text == '\0' || *end != '\0' || value > most)
        usage(name);
    return value;
}

static void give_up(int signal)
{
    static const char text[] = "violation: no end in sight: FAIL\n";
    (void)signal;
    (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    _exit(1);
}

/* A corrupted list may well be a circle: not to end in time is a failure, too. */
static void watch_over(const struct stress_options *options)
{
    signal(SIGALRM, give_up);
    (void)alarm(options->smoke ? SMOKE_SECONDS : 2 * options->seconds + SMOKE_SECONDS);
}

static void ignore_misuse(void *context, const struct hearth_misuse *misuse)
{
    (void)context;
    (void)misuse;
}

struct stress_options stress_parse(int argc, char **argv, const char *name, unsigned threads)
{
    static const struct hearth_misuse_handler quiet = {ignore_misuse, NULL};
    struct stress_options options = {.threads = threads, .seconds = 10};
    options.seed = now_ns() % 1000000000u + 1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--smoke") == 0)
            options.smoke = true;
        else if (strcmp(argv[i], "--threads") == 0)
            options.threads = (unsigned)number(name, argv[++i], 64);
        else if (strcmp(argv[i], "--seconds") == 0)
            options.seconds = (unsigned)number(name, argv[++i], 86400);
        else if (strcmp(argv[i], "--seed") == 0)
            options.seed = number(name, argv[++i], UINT64_MAX);
        else
            usage(name);
    }
    if (options.threads == 0)
        usage(name);
    printf("%s: seed %" PRIu64 ", %u threads\n", name, options.seed, options.threads);
    fflush(stdout);
    started_ns = now_ns();
    watch_over(&options);
    (void)hearth_misuse_set_handler(&quiet);
    return options;
}

uint64_t stress_seed(const struct stress_options *options, unsigned thread)
{
    uint64_t state = options->seed + GOLDEN * (thread + 1);
    (void)stress_next(&state);
    return state | 1;
}

uint64_t stress_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * GOLDEN >> 16;
}

bool stress_goes_on(const struct stress_options *options, uint64_t rounds, uint64_t smoke_rounds)
{
    if (atomic_load_explicit(&violations, memory_order_relaxed) > VIOLATIONS_PRINTED)
        return false;
    if (options->smoke)
        return rounds < smoke_rounds;
    return now_ns() - started_ns < (uint64_t)options->seconds * 1000000000u;
}

void stress_violation(const char *format, ...)
{
    if (atomic_fetch_add_explicit(&violations, 1, memory_order_relaxed) >= VIOLATIONS_PRINTED)
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("violation: ", stdout);
    vprintf(format, arguments);
    fputs("\n", stdout);
    fflush(stdout);
    va_end(arguments);
}

int stress_verdict(const char *name, const struct stress_options *options, const char *counts)
{
    uint64_t found = atomic_load_explicit(&violations, memory_order_relaxed);
    printf("%s: %s, seed %" PRIu64 ", %" PRIu64 " violations: %s\n", name, counts, options->seed,
           found, found == 0 ? "PASS" : "FAIL");
    return found == 0 ? 0 : 1;
}

static uint64_t word_at(uint64_t tag, size_t i)
{
    return (tag + i) * GOLDEN;
}

/* Not memcpy and friends: compilers turn them into code that ThreadSanitizer does not see. */
void stress_fill(struct hearth_buf *buf, uint64_t tag)
{
    uint64_t *words = hearth_buf_data(buf);
    size_t count = hearth_buf_size(buf) / sizeof *words;
    for (size_t i = 0; i < count; i++)
        words[i] = word_at(tag, i);
}

bool stress_check(const struct hearth_buf *buf, uint64_t tag)
{
    const uint64_t *words = hearth_buf_data(buf);
    size_t count = hearth_buf_size(buf) / sizeof *words;
    for (size_t i = 0; i < count; i++) {
        if (words[i] != word_at(tag, i))
            return false;
    }
    return true;
}

void stress_must(enum hearth_status status, const char *what)
{
    if (status == HEARTH_OK)
        return;
    printf("%s: %s\n", what, hearth_status_name(status));
    fflush(stdout);
    abort();
}
