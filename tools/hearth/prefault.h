/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the tool itself that takes part in a measurement. It comes straight from mmap, so that
 * it stays out of the allocator under test, and its pages are present before anything is measured.
 */
#ifndef HEARTH_TOOL_PREFAULT_H
#define HEARTH_TOOL_PREFAULT_H

#include <stddef.h>

/** Zeroed, resident memory for `count` items of `bytes` each; NULL when there is none. */
void *prefault_alloc(size_t count, size_t bytes);

/** Make the calling thread's next pages of stack resident: how deep a call goes varies from run to run, and a
 *  first touch would count as a fault of whatever was called. */
void prefault_stack(void);

/** NULL is fine. `count` and `bytes` as they were given to prefault_alloc(). */
void prefault_free(void *memory, size_t count, size_t bytes);

#endif
