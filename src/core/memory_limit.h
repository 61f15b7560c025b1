/* SPDX-License-Identifier: Apache-2.0 */
/* What the container allows: the memory limits of the process's control groups. */
#ifndef HEARTH_CORE_MEMORY_LIMIT_H
#define HEARTH_CORE_MEMORY_LIMIT_H

#include <stddef.h>

/*
 * The smallest memory limit in bytes of the control groups that this process is in and of those above
 * them, as far as its mounts show them: memory.max of version 2, memory.limit_in_bytes of version 1.
 * SIZE_MAX when there is none, none can be found, or it is written in a way that is not known.
 *
 * `root` goes before every path that is opened: "" but in tests. Opens and reads files, allocates
 * nothing; any thread.
 */
size_t hearth__memory_limit(const char *root);

#endif
