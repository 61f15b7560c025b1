/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that hears about misuse. Not to be called inside an arena's section: it runs user code. */
#ifndef HEARTH_CORE_MISUSE_H
#define HEARTH_CORE_MISUSE_H

#include <hearth/status.h>

/* Count a misuse and tell the callback. Returns `status`, so that a call can end with it. */
enum hearth_status hearth__misuse(enum hearth_status status, const char *call,
                                  const struct hearth_allocator *arena, const void *slot);

/* Count a misuse that was found where the callback may not run. Returns `status`. */
enum hearth_status hearth__misuse_untold(enum hearth_status status);

/* As above, with a sentence of its own instead of the one that goes with the status. */
enum hearth_status hearth__misuse_detail(enum hearth_status status, const char *call,
                                         const struct hearth_allocator *arena, const void *slot,
                                         const char *detail);

/* From now on a misuse prints its line, after the callback was told, and aborts the process. */
void hearth__misuse_set_abort(void);

#endif
