/* SPDX-License-Identifier: Apache-2.0 */
/* Run under valgrind by memcheck.sh: reads a buffer after it was returned, which memcheck has to see, or, with
 * the argument "clean", does nothing wrong, of which it has nothing to say. */
#include <hearth/exec.h>
#include <hearth/io.h>

#include <stdio.h>
#include <string.h>

static int exec_use(int wrong)
{
    struct hearth_exec *arena = NULL;
    struct hearth_buf *buf = NULL;
    int sum = 0;
    if (hearth_exec_create(NULL, &arena) != HEARTH_OK)
        return -1;
    for (int i = 0; i < 10; i++) {
        const struct hearth_request request = {.size = 1000, .zero = i % 2 == 0};
        if (hearth_exec_alloc_ex(arena, &request, &buf) != HEARTH_OK)
            return -1;
        unsigned char *data = hearth_buf_data(buf);
        if (!request.zero)
            memset(data, 1, 1000);
        sum += data[999];
        if (hearth_buf_resize_keep(buf, 100000) != HEARTH_OK)
            return -1;
        data = hearth_buf_data(buf);
        sum += data[999];
        if (hearth_exec_free(arena, buf) != HEARTH_OK)
            return -1;
        if (wrong)
            sum += *(volatile unsigned char *)data;
    }
    return hearth_exec_destroy(arena) == HEARTH_OK ? sum : -1;
}

static int io_use(int wrong)
{
    struct hearth_io *io = NULL;
    struct hearth_lease lease;
    int sum = 0;
    if (hearth_io_create(NULL, &io) != HEARTH_OK)
        return -1;
    for (size_t size = 100; size < 1000000; size *= 3) {
        for (int i = 0; i < 3; i++) {
            if (hearth_io_lease(io, size, &lease) != HEARTH_OK)
                return -1;
            unsigned char *data = hearth_lease_data(lease);
            memset(data, 1, size);
            sum += data[size - 1];
            if (hearth_lease_release(lease) != HEARTH_OK)
                return -1;
            if (wrong)
                sum += *(volatile unsigned char *)data;
        }
    }
    return hearth_io_destroy(io) == HEARTH_OK ? sum : -1;
}

int main(int argc, char **argv)
{
    int wrong = argc > 1 && strcmp(argv[1], "clean") != 0;
    int exec_sum = exec_use(wrong);
    int io_sum = io_use(wrong);
    printf("%d %d\n", exec_sum, io_sum);
    return exec_sum < 0 || io_sum < 0;
}
