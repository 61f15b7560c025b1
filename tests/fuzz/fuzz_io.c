/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O arena against the model of its contract, driven by bytes: see docs/fuzz.md. The bytes choose the
 * operations; a disagreement aborts. Covered: one thread. Not covered: deadlines, forks, threads. */
#include "../api/io_driver.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[512];
    if (!io_driver_run(data, size, message, sizeof message)) {
        fprintf(stderr, "fuzz_io: arena and model disagree: %s\n", message);
        abort();
    }
    return 0;
}
