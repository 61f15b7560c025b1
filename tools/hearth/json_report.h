/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that a command prints: one array with an object for each row. */
#ifndef HEARTH_TOOL_JSON_REPORT_H
#define HEARTH_TOOL_JSON_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A row as an object; NULL: out of memory. */
typedef json_t *json_report_row(const void *row);

/* Print `count` rows of `bytes` bytes each. False, and a line for `command` on standard error, if memory or the
 * output failed. */
bool json_report(const char *command, json_report_row *make_row, const void *rows, size_t count,
                 size_t bytes);

/* What a table printed has to get out, too. */
bool json_report_finish(const char *command);

#endif
