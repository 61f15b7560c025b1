/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELDS 5u

/* Foreign text is shown cut, so that a message stays one readable line. */
#define SHOWN "%.40s"

const char *trace_op_name(enum trace_op op)
{
    static const char *const names[] = {"alloc", "free", "export"};
    return names[op];
}

static bool parse_op(const char *text, enum trace_op *op, char *reason)
{
    for (int i = TRACE_ALLOC; i <= TRACE_EXPORT; i++) {
        if (strcmp(text, trace_op_name((enum trace_op)i)) == 0) {
            *op = (enum trace_op)i;
            return true;
        }
    }
    snprintf(reason, TRACE_REASON_BYTES, "unknown op '" SHOWN "' (expected alloc, free or export)",
             text);
    return false;
}

/* Digits and nothing else: strtoull would let signs, spaces and overflow by. */
static bool parse_number(const char *field, const char *text, uint64_t most, uint64_t *number,
                         char *reason)
{
    uint64_t value = 0;
    if (text[0] == '-' && text[1] >= '0' && text[1] <= '9') {
        snprintf(reason, TRACE_REASON_BYTES, "%s is negative: '" SHOWN "'", field, text);
        return false;
    }
    if (text[0] == '\0') {
        snprintf(reason, TRACE_REASON_BYTES, "%s is empty", field);
        return false;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (*at < '0' || *at > '9') {
            snprintf(reason, TRACE_REASON_BYTES, "%s is not a number: '" SHOWN "'", field, text);
            return false;
        }
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (most - digit) / 10) {
            snprintf(reason, TRACE_REASON_BYTES, "%s " SHOWN " is too large (at most %" PRIu64 ")",
                     field, text, most);
            return false;
        }
        value = value * 10 + digit;
    }
    *number = value;
    return true;
}

/* Cuts `text` at its commas. Returns the number of fields; only the first FIELDS are kept. */
static size_t split(char *text, char *fields[FIELDS])
{
    size_t count = 0;
    for (;;) {
        char *comma = strchr(text, ',');
        if (count < FIELDS) {
            fields[count] = text;
        }
        count++;
        if (comma == NULL) {
            return count;
        }
        *comma = '\0';
        text = comma + 1;
    }
}

bool trace_line_parse(const char *text, struct trace_line *line, char reason[TRACE_REASON_BYTES])
{
    char copy[TRACE_LINE_BYTES];
    char *fields[FIELDS];
    uint64_t run;
    uint64_t thread;

    if (text[0] == '\0') {
        snprintf(reason, TRACE_REASON_BYTES, "empty line");
        return false;
    }
    snprintf(copy, sizeof copy, "%s", text);
    size_t count = split(copy, fields);
    if (count != FIELDS) {
        snprintf(reason, TRACE_REASON_BYTES, "%zu fields, expected %u (" TRACE_HEADER ")", count,
                 FIELDS);
        return false;
    }
    if (!parse_number("run", fields[0], UINT32_MAX - 1, &run, reason) ||
        !parse_op(fields[1], &line->op, reason) ||
        !parse_number("id", fields[2], UINT64_MAX, &line->id, reason) ||
        !parse_number("bytes", fields[3], SIZE_MAX, &line->bytes, reason) ||
        !parse_number("thread", fields[4], TRACE_THREAD_MAX, &thread, reason)) {
        return false;
    }
    line->run = (uint32_t)run;
    line->thread = (uint16_t)thread;
    return true;
}
