/* SPDX-License-Identifier: Apache-2.0 */
/* Hearth as a subject: an execution arena with default options, through its public calls. */
#include "measure.h"

#include <hearth/exec.h>

static inline void *take(void *arena, size_t bytes)
{
    struct hearth_buf *buf;
    enum hearth_status status = hearth_exec_alloc(arena, bytes, &buf);
    if (__builtin_expect(status != HEARTH_OK, 0)) {
        bench_die("hearth_exec_alloc", hearth_status_text(status));
    }
    return buf;
}

static inline void *data(void *block)
{
    return hearth_buf_data(block);
}

static inline void give(void *arena, void *block)
{
    enum hearth_status status = hearth_exec_free(arena, block);
    if (__builtin_expect(status != HEARTH_OK, 0)) {
        bench_die("hearth_exec_free", hearth_status_text(status));
    }
}

#include "exec_loops.h"

static void *open_arena(void)
{
    struct hearth_exec *arena;
    enum hearth_status status = hearth_exec_create(NULL, &arena);
    if (status != HEARTH_OK) {
        bench_die("hearth_exec_create", hearth_status_text(status));
    }
    return arena;
}

static void close_arena(void *arena)
{
    enum hearth_status status = hearth_exec_destroy(arena);
    if (status != HEARTH_OK) {
        bench_die("hearth_exec_destroy", hearth_status_text(status));
    }
}

const struct bench_subject bench_subject_hearth = {
    .name = "hearth", .open = open_arena, .close = close_arena, BENCH_EXEC_LOOPS};
