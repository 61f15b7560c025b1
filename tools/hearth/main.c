/* SPDX-License-Identifier: Apache-2.0 */
/* The hearth command: picks a subcommand and leaves everything else to it. */
#include "command.h"

#include <hearth/version.h>

#include <argp.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    char *title; /* What the command calls itself in its messages: argp takes it from argv[0]. */
    int (*run)(int argc, char **argv);
};

struct choice {
    const struct command *command;
    int argc;
    char **argv;
};

static char replay_title[] = "hearth replay";
static char doctor_title[] = "hearth doctor";
static char scenarios_title[] = "hearth scenarios";

static const struct command commands[] = {
    {"replay", replay_title, replay_command},
    {"doctor", doctor_title, doctor_command},
    {"scenarios", scenarios_title, scenarios_command},
};

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct choice *choice = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        choice->command = find_command(arg);
        if (choice->command == NULL) {
            argp_error(state, "unknown command '%s'; the commands are replay, doctor and scenarios",
                       arg);
            return EINVAL;
        }
        choice->argc = state->argc - state->next + 1;
        choice->argv = &state->argv[state->next - 1];
        state->next = state->argc; /* The rest is the command's own. */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command given; the commands are replay, doctor and scenarios");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "hearth %s\n", hearth_version_string());
}

static const char doc[] = "Buffers that keep their pages warm: measure it here.\n"
                          "\n"
                          "Commands:\n"
                          "  replay     replay allocation traces and count what they cost\n"
                          "  doctor     print what matters here and what to change\n"
                          "  scenarios  run a graph in five scenarios and judge what it costs\n"
                          "\n"
                          "'hearth COMMAND --help' tells more about each.\v"
                          "Exit status: 0 fine, 1 errors were found, 2 wrong input or options.";

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = parse_option, .args_doc = "COMMAND [ARG...]", .doc = doc};
    struct choice choice = {0};

    argp_program_version_hook = print_version;
    argp_err_exit_status = COMMAND_BAD_INPUT;
    error_t error = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice);
    if (error != 0 || choice.command == NULL) {
        return COMMAND_BAD_INPUT;
    }
    choice.argv[0] = choice.command->title;
    return choice.command->run(choice.argc, choice.argv);
}
