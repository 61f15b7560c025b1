/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O arena against the model of its contract, driven by bytes: see docs/fuzz.md. The bytes choose the
 * operations; a disagreement aborts. Covered: one thread. Not covered: deadlines, forks, threads. */
#include "../api/io_driver.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPERATIONS_MOST = 300 };

static size_t input_of(uint64_t seed, uint8_t *input)
{
    uint64_t state = seed;
    uint8_t length[2];
    io_driver_random(&state, length, sizeof length);
    size_t operations = 1 + (size_t)(length[0] << 8 | length[1]) % OPERATIONS_MOST;
    size_t size = IO_DRIVER_BYTES(operations);
    io_driver_random(&state, input, size);
    return size;
}

const struct fuzz_target fuzz_target = {"io", input_of, io_driver_run};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[512];
    if (!io_driver_run(data, size, message, sizeof message)) {
        fprintf(stderr, "fuzz_io: arena and model disagree: %s\n", message);
        abort();
    }
    return 0;
}
