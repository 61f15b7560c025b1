/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_options.h"

#include "command.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_THREADS = 't',
    KEY_RUNS = 'r',
    KEY_WARMUP = 'w',
    KEY_SCENARIO = 's',
    KEY_JSON = 'j',
    KEY_SEED = 0x100,
};

static const struct argp_option options_table[] = {
    {"scenario", KEY_SCENARIO, "NAME[,NAME...]", 0,
     "Only these: destroyed, kept, large-intermediates, alternating, trim (default: all)", 0},
    {"threads", KEY_THREADS, "N[,N...]", 0,
     "1: a serial run; more: an executor of so many threads (default 1,2,8)", 0},
    {"runs", KEY_RUNS, "R", 0, "Measured runs of each row (default 20)", 0},
    {"warmup", KEY_WARMUP, "W", 0, "Runs before that (default 3)", 0},
    {"seed", KEY_SEED, "S", 0, "Of weights and inputs (default 1)", 0},
    {"json", KEY_JSON, NULL, 0, "Print one JSON array instead of a table", 0},
    {0},
};

static const char doc[] =
    "Run a graph of 89 nodes in five scenarios, serially and on executors, and judge what it costs "
    "per "
    "run.\v"
    "docs/scenarios.md describes the graph, the scenarios and every figure.\n"
    "\n"
    "Exit status: 0 every row is as promised, 1 one is not, 2 an option is impossible.";

/* Digits only. Returns false when the text is no number of `least` to `most`. */
static bool to_number(const char *text, size_t length, uint64_t least, uint64_t most,
                      uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9' || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(text[i] - '0'), number)) {
            return false;
        }
    }
    return length > 0 && *number >= least && *number <= most;
}

static uint64_t parse_number(struct argp_state *state, const char *option, const char *arg,
                             uint64_t least, uint64_t most)
{
    uint64_t number;
    if (!to_number(arg, strlen(arg), least, most, &number)) {
        argp_error(state, "%s '%s': give a number from %" PRIu64 " to %" PRIu64, option, arg, least,
                   most);
    }
    return number;
}

static void parse_threads(struct argp_state *state, const char *arg,
                          struct scenario_options *options)
{
    const char *at = arg;
    options->thread_counts = 0;
    for (;;) {
        size_t length = strcspn(at, ",");
        uint64_t threads;
        if (options->thread_counts == SCENARIO_LIST_MAX) {
            argp_error(state, "--threads '%s': at most %u numbers in one list", arg,
                       SCENARIO_LIST_MAX);
            return;
        }
        if (!to_number(at, length, 1, SCENARIO_THREADS_MAX, &threads)) {
            argp_error(state, "--threads '%s': give numbers from 1 to %u, separated by commas", arg,
                       SCENARIO_THREADS_MAX);
            return;
        }
        options->threads[options->thread_counts++] = (uint32_t)threads;
        if (at[length] == '\0') {
            return;
        }
        at += length + 1;
    }
}

static bool choose(const char *name, size_t length, struct scenario_options *options)
{
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        const char *known = scenario_name((enum scenario_number)i);
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            options->chosen[i] = true;
            return true;
        }
    }
    return false;
}

static void parse_scenarios(struct argp_state *state, const char *arg,
                            struct scenario_options *options)
{
    const char *at = arg;
    for (;;) {
        size_t length = strcspn(at, ",");
        if (!choose(at, length, options)) {
            argp_error(state,
                       "--scenario '%s': expected destroyed, kept, large-intermediates, "
                       "alternating or trim, separated by commas",
                       arg);
            return;
        }
        if (at[length] == '\0') {
            return;
        }
        at += length + 1;
    }
}

static void choose_all_if_none(struct scenario_options *options)
{
    bool any = false;
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        any |= options->chosen[i];
    }
    for (int i = 0; i < SCENARIO_COUNT; i++) {
        options->chosen[i] |= !any;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct scenario_options *options = state->input;
    switch (key) {
    case KEY_SCENARIO:
        parse_scenarios(state, arg, options);
        return 0;
    case KEY_THREADS:
        parse_threads(state, arg, options);
        return 0;
    case KEY_RUNS:
        options->runs = (uint32_t)parse_number(state, "--runs", arg, 1, SCENARIO_RUNS_MAX);
        return 0;
    case KEY_WARMUP:
        options->warmup = (uint32_t)parse_number(state, "--warmup", arg, 0, SCENARIO_RUNS_MAX);
        return 0;
    case KEY_SEED:
        options->seed = parse_number(state, "--seed", arg, 0, UINT64_MAX);
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        return EINVAL;
    case ARGP_KEY_END:
        choose_all_if_none(options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void scenario_options_parse(int argc, char **argv, struct scenario_options *options)
{
    static const struct argp argp = {.options = options_table, .parser = parse_option, .doc = doc};
    *options = (struct scenario_options){
        .threads = {1, 2, 8}, .thread_counts = 3, .runs = 20, .warmup = 3, .seed = 1};
    if (argp_parse(&argp, argc, argv, 0, NULL, options) != 0) {
        exit(COMMAND_BAD_INPUT);
    }
}
