/* SPDX-License-Identifier: Apache-2.0 */
/* Random sequences on an I/O arena and on the model of its contract, several thousand short ones and a few
 * long ones; the driver compares everything after each operation. HEARTH_TEST_SEED=n runs seed n alone, with
 * HEARTH_TEST_OPERATIONS=m operations. Not covered: more than one thread (stress/). */
#include "io_driver.h"
#include "support.h"

#include <stdlib.h>

#ifdef __SANITIZE_ADDRESS__ /* several times slower */
enum { SHORT_SEEDS = 800, LONG_SEEDS = 3 };
#else
enum { SHORT_SEEDS = 4000, LONG_SEEDS = 12 };
#endif
enum { SHORT = 300, LONG = 20000 };

static void run_seed(uint64_t seed, size_t operations)
{
    size_t count = IO_DRIVER_BYTES(operations);
    uint8_t *bytes = malloc(count);
    uint64_t state = seed;
    char message[512];
    cr_assert_not_null(bytes);
    io_driver_random(&state, bytes, count);
    if (!io_driver_run(bytes, count, message, sizeof message))
        cr_assert_fail("HEARTH_TEST_SEED=%llu HEARTH_TEST_OPERATIONS=%zu: %s",
                       (unsigned long long)seed, operations, message);
    free(bytes);
}

static void run_seeds(uint64_t seeds, size_t operations)
{
    const char *seed = getenv("HEARTH_TEST_SEED"), *chosen = getenv("HEARTH_TEST_OPERATIONS");
    if (seed) {
        run_seed(strtoull(seed, NULL, 0), chosen ? strtoull(chosen, NULL, 0) : operations);
        return;
    }
    for (uint64_t i = 1; i <= seeds; i++)
        run_seed(i, operations);
}

Test(io_model, short_sequences_agree, .timeout = 280)
{
    run_seeds(SHORT_SEEDS, SHORT);
}

Test(io_model, long_sequences_agree, .timeout = 280)
{
    run_seeds(LONG_SEEDS, LONG);
}
