/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_TOOL_SCENARIOS_ROW_H
#define HEARTH_TOOL_SCENARIOS_ROW_H

#include "scenarios.h"

/** Measure a row in this process. Returns false, with a message on stderr, when it cannot be run here. */
bool scenario_measure(struct scenario_row *row);

/**
 * Whether a row is as promised. If not, `why` names the figure in one line.
 */
bool scenario_accept(const struct scenario_row *row, char *why, size_t bytes);

#endif
