/* SPDX-License-Identifier: Apache-2.0 */
/* One line of a trace file, without any knowledge of the lines around it. */
#ifndef HEARTH_TOOL_TRACE_LINE_H
#define HEARTH_TOOL_TRACE_LINE_H

#include "trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_HEADER "run,op,id,bytes,thread"

/* Longer than five 64-bit numbers: whatever does not fit is no trace line. */
#define TRACE_LINE_BYTES 256u

/* Why a line was refused; part of a message. */
#define TRACE_REASON_BYTES 320u

struct trace_line {
    uint64_t id;
    uint64_t bytes;
    uint32_t run;
    uint16_t thread;
    enum trace_op op;
};

/** Parse a line without its newline. On false `reason` says what is wrong with it. */
bool trace_line_parse(const char *text, struct trace_line *line, char reason[TRACE_REASON_BYTES]);

const char *trace_op_name(enum trace_op op);

#endif
