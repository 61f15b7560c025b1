/* SPDX-License-Identifier: Apache-2.0 */
#include <hearth/exec.h>
#include <hearth/version.h>

#include <stdio.h>
#include <string.h>

/* Two runs of the same shape: the second must be served from what the first gave back. */
static int run_twice(struct hearth_exec *arena)
{
    const size_t size = 1 << 20;
    void *first = NULL;

    for (int run = 0; run < 2; run++) {
        struct hearth_buf *buf;
        if (hearth_exec_alloc(arena, size, &buf) != HEARTH_OK) {
            return 1;
        }
        void *data = hearth_buf_data(buf);
        memset(data, run, size);
        if (run == 0) {
            first = data;
        } else if (data != first) {
            fprintf(stderr, "a retained buffer was not reused\n");
            return 1;
        }
        if (hearth_exec_free(arena, buf) != HEARTH_OK) {
            return 1;
        }
    }
    return 0;
}

int main(void)
{
    if (hearth_version() != HEARTH_VERSION_NUMBER) {
        fprintf(stderr, "header %d, library %d\n", HEARTH_VERSION_NUMBER, hearth_version());
        return 1;
    }
    struct hearth_exec *arena;
    if (hearth_exec_create(NULL, &arena) != HEARTH_OK) {
        return 1;
    }
    int failed = run_twice(arena);
    if (hearth_exec_destroy(arena) != HEARTH_OK) {
        return 1;
    }
    return failed;
}
