/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_TOOL_SCENARIOS_REPORT_H
#define HEARTH_TOOL_SCENARIOS_REPORT_H

#include "scenarios.h"

/** Both return false, with a message on stderr, when it could not be printed. */
bool scenario_report_json(const struct scenario_row *rows, size_t count);
bool scenario_report_table(const struct scenario_row *rows, size_t count);

#endif
