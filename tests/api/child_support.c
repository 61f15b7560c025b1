/* SPDX-License-Identifier: Apache-2.0 */
#include "child_support.h"

struct rig rig;

void open_rig(void)
{
    rig_open(&rig, SERVICE_OPTIONS(.age_ms = HEARTH_AGE_NEVER));
}

struct hearth_exec *child_of(unsigned depth)
{
    struct hearth_exec *arena = NULL;
    EXPECT(HEARTH_OK, hearth_service_child_exec(rig.service, depth, &arena));
    cr_assert_not_null(arena);
    return arena;
}

void warm_child(unsigned depth, size_t size, size_t count)
{
    struct hearth_buf *bufs[32];
    for (size_t i = 0; i < count; i++)
        bufs[i] = take(child_of(depth), size);
    for (size_t i = 0; i < count; i++)
        give(child_of(depth), bufs[i]);
}

size_t retained_at(unsigned depth)
{
    return hearth_exec_retained_bytes(child_of(depth));
}

void nest(unsigned depth, unsigned deepest)
{
    size_t live = hearth_exec_live_bytes(child_of(depth));
    struct hearth_buf *buf = take(child_of(depth), SIZE_AT(depth));
    fill(buf, (unsigned char)depth);
    if (depth < deepest)
        nest(depth + 1, deepest);
    cr_assert(filled(buf, SIZE_AT(depth), (unsigned char)depth));
    EXPECT_SIZE(live + SIZE_AT(depth), hearth_exec_live_bytes(child_of(depth)));
    give(child_of(depth), buf);
}

void nest_all(void *unused)
{
    (void)unused;
    nest(0, DEPTHS - 1);
}
