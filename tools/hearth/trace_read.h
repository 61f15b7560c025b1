/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a trace file into events. */
#ifndef HEARTH_TOOL_TRACE_READ_H
#define HEARTH_TOOL_TRACE_READ_H

#include "trace.h"

/**
 * Fill events, event_count, slot_count, run_count and thread_count from trace->path. On false
 * `message` says why; trace->events may be set and must be freed either way.
 */
bool trace_read(struct trace *trace, char message[TRACE_MESSAGE_BYTES]);

#endif
