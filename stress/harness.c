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
#define SMOKE_ENOUGH 5u   /* on a machine that is slow or busy: fewer rounds than were meant */
#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

#define MARKED_WORDS ((size_t)4) /* at either end */
#define LENT_MOST 65536u

static _Atomic(uint64_t) violations;
static _Atomic(void *) lent[LENT_MOST]; /* the bases of segments that are out, by cookie */
static _Atomic(uint64_t) next_cookie;
static uint64_t started_ns;

uint64_t stress_now_ns(void)
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

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN true
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN false
#endif

/* A corrupted list may well be a circle: not to end in time is a failure, too. ThreadSanitizer keeps a handler from
 * a thread that goes round without a call, so there the signal itself ends the program. */
static void watch_over(const struct stress_options *options)
{
    if (!UNDER_TSAN)
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
    options.seed = stress_now_ns() % 1000000000u + 1;
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
    started_ns = stress_now_ns();
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
    if (options->smoke && rounds >= smoke_rounds)
        return false;
    unsigned seconds = options->smoke ? SMOKE_ENOUGH : options->seconds;
    return stress_now_ns() - started_ns < (uint64_t)seconds * 1000000000u;
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

uint64_t stress_found(void)
{
    return atomic_load_explicit(&violations, memory_order_relaxed);
}

int stress_verdict(const char *name, const struct stress_options *options, const char *counts)
{
    uint64_t found = stress_found();
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

void stress_mark(void *data, size_t size, uint64_t tag)
{
    uint64_t *words = data;
    size_t count = size / sizeof *words;
    size_t marked = count < MARKED_WORDS ? count : MARKED_WORDS;
    for (size_t i = 0; i < marked; i++) {
        words[i] = word_at(tag, i);
        words[count - 1 - i] = word_at(tag, count - 1 - i);
    }
}

bool stress_marked(const void *data, size_t size, uint64_t tag)
{
    const uint64_t *words = data;
    size_t count = size / sizeof *words;
    size_t marked = count < MARKED_WORDS ? count : MARKED_WORDS;
    for (size_t i = 0; i < marked; i++) {
        if (words[i] != word_at(tag, i) || words[count - 1 - i] != word_at(tag, count - 1 - i))
            return false;
    }
    return true;
}

static enum hearth_status lender_acquire(void *context, size_t bytes, size_t alignment,
                                         struct hearth_segment *segment)
{
    struct stress_lender *self = context;
    bytes = (bytes + alignment - 1) & ~(alignment - 1);
    void *base = aligned_alloc(alignment, bytes);
    if (base == NULL)
        return HEARTH_NO_MEMORY;
    uint64_t cookie;
    void *nothing;
    do {
        cookie = atomic_fetch_add_explicit(&next_cookie, 1, memory_order_relaxed) % LENT_MOST;
        nothing = NULL;
    } while (!atomic_compare_exchange_strong_explicit(&lent[cookie], &nothing, base,
                                                      memory_order_relaxed, memory_order_relaxed));
    *segment = (struct hearth_segment){.base = base, .length = bytes, .cookie = cookie};
    atomic_fetch_add_explicit(&self->acquires, 1, memory_order_relaxed);
    return HEARTH_OK;
}

static void lender_release(void *context, const struct hearth_segment *segment)
{
    struct stress_lender *self = context;
    void *out = segment->cookie >= LENT_MOST
                    ? NULL
                    : atomic_exchange_explicit(&lent[segment->cookie], NULL, memory_order_relaxed);
    if (out == NULL || out != segment->base) {
        stress_violation("storage came back twice, or other than it was lent");
        return;
    }
    atomic_fetch_add_explicit(&self->releases, 1, memory_order_relaxed);
    stress_mark(segment->base, segment->length, UINT64_MAX);
    free(segment->base);
}

/* Marked at its ends, so that what is there of somebody's payload is found changed. */
static size_t lender_discard(void *context, void *base, size_t length)
{
    (void)context;
    stress_mark(base, length, UINT64_MAX);
    return length;
}

static void lender_destroy(void *context)
{
    struct stress_lender *self = context;
    uint64_t acquires = atomic_load_explicit(&self->acquires, memory_order_relaxed);
    uint64_t releases = atomic_load_explicit(&self->releases, memory_order_relaxed);
    /* In a forked child what a thread that is not there had in hand is lost. */
    if (acquires != releases && !atomic_load_explicit(&self->child, memory_order_relaxed))
        stress_violation("the backing ended: %" PRIu64 " segments lent, %" PRIu64 " came back",
                         acquires, releases);
    atomic_fetch_add_explicit(&self->destroys, 1, memory_order_release);
}

struct hearth_backing *stress_lender_open(struct stress_lender *lender)
{
    static const struct hearth_backing_ops ops = {
        .size = sizeof ops,
        .name = "lender",
        .acquire = lender_acquire,
        .release = lender_release,
        .discard = lender_discard,
        .destroy = lender_destroy,
    };
    struct hearth_backing *backing = NULL;
    stress_must(hearth_backing_create(&ops, lender, &backing), "backing");
    return backing;
}

struct hearth_io *stress_io_open(struct stress_lender *lender, struct hearth_io_options options)
{
    struct hearth_io *io = NULL;
    options.backing = lender == NULL ? NULL : stress_lender_open(lender);
    stress_must(hearth_io_create(&options, &io), "create");
    hearth_backing_unref(options.backing);
    return io;
}

static void look_at(const char *name, size_t value, size_t most)
{
    if (value > most)
        stress_violation("%s is %zu, at most %zu is possible", name, value, most);
}

void stress_io_look(const struct hearth_io *io, size_t count, size_t bytes)
{
    look_at("live_count", hearth_io_live_count(io), count);
    look_at("owned_count", hearth_io_owned_count(io), count);
    look_at("leased_count", hearth_io_leased_count(io), count);
    look_at("retained_count", hearth_io_retained_count(io), count);
    look_at("pending_count", hearth_io_pending_count(io), count);
    look_at("live_bytes", hearth_io_live_bytes(io), bytes);
    look_at("leased_bytes", hearth_io_leased_bytes(io), bytes);
    look_at("live_capacity", hearth_io_live_capacity(io), bytes);
    look_at("peak_bytes", hearth_io_peak_bytes(io), bytes);
    look_at("retained_bytes", hearth_io_retained_bytes(io), bytes);
    look_at("pending_bytes", hearth_io_pending_bytes(io), bytes);
    look_at("footprint", hearth_io_footprint(io), bytes);
}

void stress_io_home(struct hearth_io *io)
{
    look_at("live_count at the end", hearth_io_live_count(io), 0);
    look_at("owned_count at the end", hearth_io_owned_count(io), 0);
    look_at("leased_count at the end", hearth_io_leased_count(io), 0);
    look_at("live_bytes at the end", hearth_io_live_bytes(io), 0);
    look_at("leased_bytes at the end", hearth_io_leased_bytes(io), 0);
    look_at("live_capacity at the end", hearth_io_live_capacity(io), 0);
    look_at("pending_count at the end", hearth_io_pending_count(io), 0);
    size_t retained = hearth_io_retained_bytes(io);
    size_t footprint = hearth_io_footprint(io);
    size_t released = 0;
    if (retained != footprint)
        stress_violation("at the end %zu bytes are retained of %zu", retained, footprint);
    stress_must(hearth_io_trim(io, &released), "trim");
    if (released != footprint)
        stress_violation("trim found %zu bytes of %zu", released, footprint);
    look_at("retained_count after trim", hearth_io_retained_count(io), 0);
    look_at("footprint after trim", hearth_io_footprint(io), 0);
}
