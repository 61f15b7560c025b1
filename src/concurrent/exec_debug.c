/* SPDX-License-Identifier: Apache-2.0 */
/* Execution arena: quarantine. What is in it counts as retained, goes to the store in the order in which it was
 * returned, and is reported by the operation that found it changed, outside of its section. */
#include "concurrent/exec.h"

bool hearth__exec_let_go(struct hearth_exec *arena)
{
    struct hearth_buf *buf = hearth__quarantine_pop(&arena->quarantine, &arena->overwritten);
    if (buf == NULL)
        return false;
    arena->stored -= (int64_t)hearth__load_relaxed(&buf->weight);
    hearth__exec_store_give(arena, buf, false);
    return true;
}

void hearth__exec_detain(struct hearth_exec *arena, struct hearth_buf *buf)
{
    arena->stored += (int64_t)hearth__load_relaxed(&buf->weight);
    hearth__quarantine_push(&arena->quarantine, buf);
    while (hearth__quarantine_full(&arena->quarantine))
        (void)hearth__exec_let_go(arena);
}

struct hearth__overwritten hearth__exec_overwritten(struct hearth_exec *arena)
{
    struct hearth__overwritten overwritten = arena->overwritten;
    arena->overwritten = (struct hearth__overwritten){0};
    return overwritten;
}

void hearth__exec_tell_overwritten(struct hearth_exec *arena,
                                   const struct hearth__overwritten *overwritten)
{
    size_t misuses = hearth__quarantine_report(overwritten, "hearth_exec_free", &arena->allocator);
    (void)hearth__fetch_add_relaxed(&arena->misuses, misuses);
}
