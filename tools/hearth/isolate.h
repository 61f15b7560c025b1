/* SPDX-License-Identifier: Apache-2.0 */
/* A measurement in a process of its own, so that none starts on another's warm memory. */
#ifndef HEARTH_TOOL_ISOLATE_H
#define HEARTH_TOOL_ISOLATE_H

#include "command.h"

#include <stddef.h>

/** Zeroed memory for `count` items of `bytes` each that child processes write to for this one; NULL when
 *  there is none. */
void *isolate_alloc(size_t count, size_t bytes);

/** NULL is fine. `count` and `bytes` as they were given to isolate_alloc(). */
void isolate_free(void *memory, size_t count, size_t bytes);

/**
 * Call fn(argument) in a child process, and return what it returned. A child that a signal ends, or a
 * sanitizer, is COMMAND_ERRORS, with a line on stderr that begins with `what`.
 * The caller has no other threads.
 */
enum command_status isolate_call(const char *what, enum command_status (*fn)(void *argument),
                                 void *argument);

#endif
