/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands and their exit statuses. */
#ifndef HEARTH_TOOL_COMMAND_H
#define HEARTH_TOOL_COMMAND_H

enum command_status {
    COMMAND_OK = 0,
    COMMAND_ERRORS = 1,    /* It ran and found errors. */
    COMMAND_BAD_INPUT = 2, /* Wrong options, malformed input, or it could not run here. */
};

int replay_command(int argc, char **argv);
int doctor_command(int argc, char **argv);
int scenarios_command(int argc, char **argv);

#endif
