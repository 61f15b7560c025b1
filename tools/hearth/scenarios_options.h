/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_TOOL_SCENARIOS_OPTIONS_H
#define HEARTH_TOOL_SCENARIOS_OPTIONS_H

#include "scenarios.h"

/* Numbers in a list of threads. */
#define SCENARIO_LIST_MAX 16u

struct scenario_options {
    bool chosen[SCENARIO_COUNT];
    uint32_t threads[SCENARIO_LIST_MAX];
    uint32_t thread_counts;
    uint32_t runs;
    uint32_t warmup;
    uint64_t seed;
    bool json;
};

/** Exits with COMMAND_BAD_INPUT and a message that names the option when one is impossible. */
void scenario_options_parse(int argc, char **argv, struct scenario_options *options);

#endif
