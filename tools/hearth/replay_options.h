/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `hearth replay`. */
#ifndef HEARTH_TOOL_REPLAY_OPTIONS_H
#define HEARTH_TOOL_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay_allocator.h"
#include "replay_inject.h"

/* Entries of a --threads list. */
#define REPLAY_LIST_MAX 16u

/* Entries of --allocator and of --store, and what they make together with the peers. */
#define REPLAY_NAMES_MAX 8u
#define REPLAY_SUBJECTS_MAX (REPLAY_NAMES_MAX * REPLAY_NAMES_MAX + 2u)

struct replay_options {
    char **traces; /* Paths; part of argv. */
    size_t trace_count;
    uint32_t clones[REPLAY_LIST_MAX];
    size_t clone_counts;
    uint32_t runs;
    uint32_t warmup;
    uint32_t consumers; /* 0: none. */
    uint32_t hold;
    const char *allocators[REPLAY_NAMES_MAX];
    size_t allocator_count;
    const char *stores[REPLAY_NAMES_MAX];
    size_t store_count;
    bool stores_given;
    const char *backing; /* NULL: the default one. */
    /* Each hearth with each store, then what they are compared with. */
    struct replay_subject subjects[REPLAY_SUBJECTS_MAX];
    size_t subject_count;
    size_t peer_count; /* The last ones: nobody asked for them, and they are measured briefly. */
    int row_fd; /* Where the only row goes as bytes, for the process that asked; -1: it is printed. */
    size_t stride;
    struct replay_faults faults;
    bool seed_given;
    bool stride_given;
    bool tell_runs;
    bool fresh_threads;
    bool json;
};

/** Parse; ends the program with a message that names the option when something is wrong. */
void replay_options_parse(int argc, char **argv, struct replay_options *options);

#endif
