/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_options.h"

#include "command.h"
#include "replay.h"
#include "replay_lists.h"

#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_THREADS = 't',
    KEY_RUNS = 'r',
    KEY_WARMUP = 'w',
    KEY_ALLOCATOR = 'a',
    KEY_JSON = 'j',
    KEY_CONSUMERS = 'c',
    KEY_BACKING = 0x100,
    KEY_CHECK,
    KEY_HOLD,
    KEY_STORE,
    KEY_TELL_RUNS,
    KEY_FRESH_THREADS,
    KEY_INJECT,
    KEY_SEED,
    KEY_ROW_FD,
};

static const struct argp_option options_table[] = {
    {"threads", KEY_THREADS, "N[,N...]", 0,
     "Clones of the trace side by side; a list measures one after the other (default 1)", 0},
    {"runs", KEY_RUNS, "R", 0, "Measured passes over each file (default 10)", 0},
    {"warmup", KEY_WARMUP, "W", 0,
     "Passes over each file before that (default 3; with --hold K at least K + 3, and raised to "
     "that)",
     0},
    {"consumers", KEY_CONSUMERS, "N", 0,
     "Hand exported allocations to N threads, which check and free them (default: none)", 0},
    {"hold", KEY_HOLD, "K", 0,
     "Consumers keep what a clone exported in its last K runs (default 0; needs --consumers)", 0},
    {"allocator", KEY_ALLOCATOR, "NAME[,NAME...]", 0,
     "hearth, service, malloc or jemalloc (default hearth)", 0},
    {"store", KEY_STORE, "NAME[,NAME...]", 0,
     "Hearth's store of execution storage: lists, spans or plans (default lists). Several are "
     "compared, "
     "with malloc and jemalloc beside them unless --allocator is given",
     0},
    {"backing", KEY_BACKING, "NAME", 0,
     "Hearth's backing: jemalloc or mmap (default: as HEARTH_CONF and the build say)", 0},
    {"check", KEY_CHECK, "HOW", 0,
     "Where buffers are written and checked: pages (default) or lines of 64 bytes", 0},
    {"tell-runs", KEY_TELL_RUNS, NULL, 0,
     "Tell hearth where a run begins and ends (default: it finds out)", 0},
    {"fresh-threads", KEY_FRESH_THREADS, NULL, 0,
     "A new thread for each run of a clone, of one service unless --allocator is given", 0},
    {"inject", KEY_INJECT, "RATE[:KIND[,KIND...]]", 0,
     "Put faults into RATE per cent of the allocations of measured runs: late, swap, extra, "
     "missing, resize "
     "(default: all); also --tell-runs and --check lines",
     0},
    {"seed", KEY_SEED, "N", 0, "Which faults (default 1; needs --inject)", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON array instead of a table", 0},
    {"row-fd", KEY_ROW_FD, "FD", OPTION_HIDDEN, "For this program's own use", 0},
    {0},
};

static const char doc[] =
    "Replay allocation traces, write and check every buffer, and report what it costs per engine "
    "run.\v"
    "TRACE is a CSV file with the header run,op,id,bytes,thread; docs/replay.md describes it and "
    "every figure.\n"
    "\n"
    "Exit status: 0 no errors, 1 errors were found, 2 a trace is malformed or an option "
    "impossible.";

/* Digits only. Returns false when `text` is no number of `least` to `most`. */
static bool to_number(const char *text, size_t length, uint32_t least, uint32_t most,
                      uint32_t *number)
{
    uint64_t value = 0;
    if (length == 0 || length > 10) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    *number = (uint32_t)value;
    return value >= least && value <= most;
}

static void parse_number(struct argp_state *state, const char *option, const char *arg,
                         uint32_t least, uint32_t most, uint32_t *number)
{
    if (!to_number(arg, strlen(arg), least, most, number)) {
        argp_error(state, "%s '%s': give a number from %" PRIu32 " to %" PRIu32, option, arg, least,
                   most);
    }
}

static void parse_threads(struct argp_state *state, const char *arg, struct replay_options *options)
{
    const char *at = arg;
    options->clone_counts = 0;
    for (;;) {
        size_t length = strcspn(at, ",");
        if (options->clone_counts == REPLAY_LIST_MAX) {
            argp_error(state, "--threads '%s': at most %u numbers in one list", arg,
                       REPLAY_LIST_MAX);
            return;
        }
        uint32_t *clones = &options->clones[options->clone_counts++];
        if (!to_number(at, length, 1, REPLAY_CLONES_MAX, clones)) {
            argp_error(state, "--threads '%s': give numbers from 1 to %u, separated by commas", arg,
                       REPLAY_CLONES_MAX);
            return;
        }
        if (at[length] == '\0') {
            return;
        }
        at += length + 1;
    }
}

static void parse_seed(struct argp_state *state, const char *arg, struct replay_options *options)
{
    uint32_t seed = 0;
    parse_number(state, "--seed", arg, 0, UINT32_MAX, &seed);
    options->faults.seed = seed;
    options->seed_given = true;
}

static void parse_check(struct argp_state *state, const char *arg, struct replay_options *options)
{
    options->stride_given = true;
    if (strcmp(arg, "pages") == 0) {
        options->stride = REPLAY_STRIDE_PAGES;
    } else if (strcmp(arg, "lines") == 0) {
        options->stride = REPLAY_STRIDE_LINES;
    } else {
        argp_error(state, "--check '%s': expected pages or lines", arg);
    }
}

/* What can only be judged once all options are known. */
static void check_together(struct argp_state *state, const struct replay_options *options)
{
    if (options->seed_given && options->faults.rate == 0) {
        argp_error(state, "--seed %" PRIu64 ": it chooses faults: give --inject as well",
                   options->faults.seed);
    }
    if (options->faults.rate > 0 && (options->consumers > 0 || options->fresh_threads)) {
        argp_error(state,
                   "--inject goes neither with --consumers nor with --fresh-threads: drop one");
    }
    if (options->hold > 0 && options->consumers == 0) {
        argp_error(state, "--hold %" PRIu32 ": somebody has to hold: give --consumers as well",
                   options->hold);
    }
}

/* Until the consumers hold what they will hold, each run needs more than the one before. */
static void raise_warmup(struct replay_options *options)
{
    uint32_t least = options->hold + REPLAY_WARMUP_BEYOND_HOLD;
    if (options->hold > 0 && options->warmup < least) {
        options->warmup = least;
    }
}

/* Buffers outlive their runs, so that nobody can find out where a run ends; and overlaps are what to look for. */
static void prepare_faults(struct replay_options *options)
{
    if (options->faults.rate > 0) {
        options->tell_runs = true;
        options->stride = options->stride_given ? options->stride : REPLAY_STRIDE_LINES;
    }
}

/* Of stores, and of what they are measured with. */
static error_t parse_store_option(int key, char *arg, struct argp_state *state)
{
    struct replay_options *options = state->input;
    uint32_t fd = 0;
    switch (key) {
    case KEY_STORE:
        replay_parse_stores(state, arg, options);
        return 0;
    case KEY_ROW_FD:
        parse_number(state, "--row-fd", arg, 0, INT32_MAX, &fd);
        options->row_fd = (int)fd;
        return 0;
    case KEY_TELL_RUNS:
        options->tell_runs = true;
        return 0;
    case KEY_FRESH_THREADS:
        options->fresh_threads = true;
        return 0;
    case KEY_INJECT:
        replay_parse_faults(state, arg, options);
        return 0;
    case KEY_SEED:
        parse_seed(state, arg, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct replay_options *options = state->input;
    switch (key) {
    case KEY_THREADS:
        parse_threads(state, arg, options);
        return 0;
    case KEY_RUNS:
        parse_number(state, "--runs", arg, 1, REPLAY_PASSES_MAX, &options->runs);
        return 0;
    case KEY_WARMUP:
        parse_number(state, "--warmup", arg, 0, REPLAY_PASSES_MAX, &options->warmup);
        return 0;
    case KEY_CONSUMERS:
        parse_number(state, "--consumers", arg, 1, REPLAY_CONSUMERS_MAX, &options->consumers);
        return 0;
    case KEY_HOLD:
        parse_number(state, "--hold", arg, 0, REPLAY_HOLD_MAX, &options->hold);
        return 0;
    case KEY_ALLOCATOR:
        replay_parse_allocators(state, arg, options);
        return 0;
    case KEY_BACKING:
        options->backing = arg;
        if (strcmp(arg, "jemalloc") != 0 && strcmp(arg, "mmap") != 0) {
            argp_error(state, "--backing '%s': expected jemalloc or mmap", arg);
        }
        return 0;
    case KEY_CHECK:
        parse_check(state, arg, options);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        options->traces = state->argv + state->next;
        options->trace_count = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no trace given; the project's are in tests/data/traces");
        return 0;
    case ARGP_KEY_END:
        check_together(state, options);
        prepare_faults(options);
        replay_choose_subjects(state, options);
        raise_warmup(options);
        return 0;
    default:
        return parse_store_option(key, arg, state);
    }
}

void replay_options_parse(int argc, char **argv, struct replay_options *options)
{
    static const struct argp argp = {
        .options = options_table, .parser = parse_option, .args_doc = "TRACE...", .doc = doc};
    *options = (struct replay_options){.clones = {1},
                                       .clone_counts = 1,
                                       .runs = 10,
                                       .warmup = 3,
                                       .row_fd = -1,
                                       .faults = {.seed = 1},
                                       .stride = REPLAY_STRIDE_PAGES};
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0) {
        exit(COMMAND_BAD_INPUT);
    }
}
