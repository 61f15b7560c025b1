/* SPDX-License-Identifier: Apache-2.0 */
/* Execution arena: where runs begin and end. */
#include "concurrent/exec.h"

enum hearth_status hearth_exec_run_begin(struct hearth_exec *arena, uint64_t key)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    (void)key;
    enum hearth_status status = hearth__exec_begin(arena, "hearth_exec_run_begin");
    if (status == HEARTH_OK)
        hearth__exec_end(arena, &after);
    return status;
}

enum hearth_status hearth_exec_run_end(struct hearth_exec *arena)
{
    struct hearth__exec_after after = HEARTH__EXEC_AFTER_INIT;
    enum hearth_status status = hearth__exec_begin(arena, "hearth_exec_run_end");
    if (status == HEARTH_OK)
        hearth__exec_end(arena, &after);
    return status;
}
