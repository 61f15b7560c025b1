/* SPDX-License-Identifier: Apache-2.0 */
#include "json_report.h"

#include <stdio.h>

/* Figures are means of measurements: more digits would be noise. */
#define REAL_DIGITS 8

static json_t *make_array(json_report_row *make_row, const void *rows, size_t count, size_t bytes)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++) {
        /* Takes NULL for an answer. */
        if (json_array_append_new(array, make_row((const char *)rows + i * bytes)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

bool json_report_finish(const char *command)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "hearth %s: ", command);
        perror("standard output");
        return false;
    }
    return true;
}

bool json_report(const char *command, json_report_row *make_row, const void *rows, size_t count,
                 size_t bytes)
{
    json_t *array = make_array(make_row, rows, count, bytes);
    if (array == NULL) {
        fprintf(stderr, "hearth %s: out of memory\n", command);
        return false;
    }
    int failed = json_dumpf(array, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(REAL_DIGITS));
    json_decref(array);
    if (failed == 0) {
        putchar('\n');
    }
    return json_report_finish(command) && failed == 0;
}
