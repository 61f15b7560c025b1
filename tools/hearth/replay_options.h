/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `hearth replay`. */
#ifndef HEARTH_TOOL_REPLAY_OPTIONS_H
#define HEARTH_TOOL_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Entries of a --threads list. */
#define REPLAY_LIST_MAX 16u

struct replay_options {
    char **traces; /* Paths; part of argv. */
    size_t trace_count;
    uint32_t clones[REPLAY_LIST_MAX];
    size_t clone_counts;
    uint32_t runs;
    uint32_t warmup;
    uint32_t consumers; /* 0: none. */
    uint32_t hold;
    const char *allocator;
    const char *backing; /* NULL: the default one. */
    size_t stride;
    bool json;
};

/** Parse; ends the program with a message that names the option when something is wrong. */
void replay_options_parse(int argc, char **argv, struct replay_options *options);

#endif
