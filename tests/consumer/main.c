/* SPDX-License-Identifier: Apache-2.0 */
#include <hearth/exec.h>
#include <hearth/io.h>
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

/* A buffer that leaves: the lease holds it after the last reference to its arena is gone. */
static int outlive_the_arena(void)
{
    const size_t size = 100000;
    struct hearth_io *io;
    struct hearth_lease lease;

    if (hearth_io_create(NULL, &io) != HEARTH_OK) {
        return 1;
    }
    if (hearth_io_lease(io, size, &lease) != HEARTH_OK) {
        return 1;
    }
    hearth_io_unref(io);
    memset(hearth_lease_data(lease), 1, size);
    if (hearth_lease_size(lease) != size || hearth_lease_release(lease) != HEARTH_OK) {
        return 1;
    }
    if (hearth_lease_valid(lease)) {
        fprintf(stderr, "a released lease is still valid\n");
        return 1;
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
    return failed || outlive_the_arena();
}
