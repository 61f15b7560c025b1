/* SPDX-License-Identifier: Apache-2.0 */
/* Options that are lists of names, and what is to be measured because of them. */
#ifndef HEARTH_TOOL_REPLAY_LISTS_H
#define HEARTH_TOOL_REPLAY_LISTS_H

#include "replay_options.h"

#include <argp.h>

/* Both end the program with a message that names the wrong word and the known ones. */
void replay_parse_allocators(struct argp_state *state, const char *arg,
                             struct replay_options *options);
void replay_parse_stores(struct argp_state *state, const char *arg, struct replay_options *options);

/** RATE[:KIND[,KIND...]], the rate in per cent. Ends the program likewise. */
void replay_parse_faults(struct argp_state *state, const char *arg, struct replay_options *options);

/** Once all options are known: the subjects. */
void replay_choose_subjects(struct argp_state *state, struct replay_options *options);

#endif
