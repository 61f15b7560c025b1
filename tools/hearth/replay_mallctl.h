/* SPDX-License-Identifier: Apache-2.0 */
/* The control calls of a jemalloc that replaced malloc in this process. Hearth's private copy has
 * other names and is never found here. */
#ifndef HEARTH_TOOL_REPLAY_MALLCTL_H
#define HEARTH_TOOL_REPLAY_MALLCTL_H

#include <stdbool.h>
#include <stddef.h>

/** Whether malloc is jemalloc's. */
bool replay_mallctl_present(void);

/** Bytes it keeps resident at this moment. False: not present, or built without statistics. */
bool replay_mallctl_resident(size_t *bytes);

/** Give back all free pages of all its arenas. */
void replay_mallctl_purge(void);

#endif
