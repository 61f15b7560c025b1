/* SPDX-License-Identifier: Apache-2.0 */
/* What a fuzz target is to replay.c. */
#ifndef HEARTH_TESTS_FUZZ_FUZZ_H
#define HEARTH_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MOST = 1 << 16 };

struct fuzz_target {
    const char *name;
    /* The input of a seed: nothing else decides it, so the seed names it. */
    size_t (*input_of)(uint64_t seed, uint8_t *input);
    /* False: a disagreement, and which. */
    bool (*run)(const uint8_t *input, size_t size, char *message, size_t bytes);
};

extern const struct fuzz_target fuzz_target;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
