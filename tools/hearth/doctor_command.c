/* SPDX-License-Identifier: Apache-2.0 */
/* `hearth doctor`: runs all checks and prints them. */
#include "command.h"
#include "doctor.h"

#include <hearth/status.h>
#include <hearth/version.h>

#include <argp.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define FINDINGS_MAX 64u

struct doctor_options {
    const char *root;
    bool json;
};

struct doctor_report {
    struct doctor_finding findings[FINDINGS_MAX];
    size_t count;
};

static const char *const level_names[] = {"ok", "note", "warn"};

void doctor_advise(struct doctor_finding *finding, enum doctor_level level, const char *format, ...)
{
    va_list args;
    finding->level = level;
    va_start(args, format);
    vsnprintf(finding->advice, sizeof finding->advice, format, args);
    va_end(args);
}

void doctor_say(struct doctor_finding *finding, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(finding->value, sizeof finding->value, format, args);
    va_end(args);
}

/* Probing provokes refusals; the findings explain them, so the library need not. */
static void hear_nothing(void *context, const struct hearth_misuse *misuse)
{
    (void)context;
    (void)misuse;
}

static const struct hearth_misuse_handler quiet = {.fn = hear_nothing};

static void examine(const char *root, const struct doctor_check *checks, size_t count,
                    struct doctor_report *report)
{
    for (size_t i = 0; i < count && report->count < FINDINGS_MAX; i++) {
        struct doctor_finding *finding = &report->findings[report->count++];
        *finding = (struct doctor_finding){.name = checks[i].name};
        checks[i].run(root, finding);
    }
}

static bool print_json(const struct doctor_report *report)
{
    json_t *findings = json_array();
    for (size_t i = 0; i < report->count; i++) {
        const struct doctor_finding *finding = &report->findings[i];
        json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s}", "name", finding->name,
                                                  "level", level_names[finding->level], "value",
                                                  finding->value, "advice", finding->advice));
    }
    json_t *whole =
        json_pack("{s:s, s:o}", "hearth", hearth_version_string(), "findings", findings);
    bool ok = whole != NULL && json_dumpf(whole, stdout, JSON_INDENT(2)) == 0;
    json_decref(whole);
    putchar('\n');
    return ok;
}

static bool print_text(const struct doctor_report *report)
{
    size_t not_ok = 0;
    for (size_t i = 0; i < report->count; i++) {
        const struct doctor_finding *finding = &report->findings[i];
        printf("%-4s  %-22s %s\n", level_names[finding->level], finding->name, finding->value);
        if (finding->advice[0] != '\0') {
            printf("      -> %s\n", finding->advice);
        }
        not_ok += finding->level == DOCTOR_WARN ? 1 : 0;
    }
    printf("\nhearth %s: %zu checks, %zu to act on\n", hearth_version_string(), report->count,
           not_ok);
    return true;
}

static const struct argp_option options_table[] = {
    {"json", 'j', NULL, 0, "Print one JSON object instead of lines", 0},
    {"root", 'R', "DIR", OPTION_HIDDEN, "Read /proc and /sys below DIR", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct doctor_options *options = state->input;
    switch (key) {
    case 'j':
        options->json = true;
        return 0;
    case 'R':
        options->root = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': doctor takes none", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char doc[] =
    "Print what matters to hearth on this machine, and what to change.\v"
    "Each line is ok, note (good to know) or warn (worth changing); docs/doctor.md says why.";

int doctor_command(int argc, char **argv)
{
    static const struct argp argp = {.options = options_table, .parser = parse_option, .doc = doc};
    struct doctor_options options = {.root = ""};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) {
        return COMMAND_BAD_INPUT;
    }
    struct doctor_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        fprintf(stderr, "hearth doctor: out of memory\n");
        return COMMAND_ERRORS;
    }
    hearth_misuse_set_handler(&quiet);
    examine(options.root, doctor_hearth_checks, doctor_hearth_check_count, report);
    examine(options.root, doctor_memory_checks, doctor_memory_check_count, report);
    examine(options.root, doctor_machine_checks, doctor_machine_check_count, report);
    bool ok = options.json ? print_json(report) : print_text(report);
    free(report);
    if (!ok || fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "hearth doctor: cannot write to standard output\n");
        return COMMAND_ERRORS;
    }
    return COMMAND_OK;
}
