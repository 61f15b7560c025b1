/* SPDX-License-Identifier: Apache-2.0 */
/* Plans against the truth about them, computed the long way: see docs/fuzz.md. The bytes are a
 * graph; a plan that says something else about it aborts. Covered: graphs of up to 60 nodes, fit
 * and unfit. Not covered: names other than numbers, bodies, refused allocations. */
#include "../unit/plans/plan_truth.h"
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static size_t input_of(uint64_t seed, uint8_t *input)
{
    plan_graph_random(seed, input);
    return GRAPH_BYTES;
}

static bool run(const uint8_t *input, size_t size, char *message, size_t bytes)
{
    struct plan_graph graph;
    plan_graph_of(&graph, input, size);
    return plan_truth_check(&graph, NULL, message, bytes);
}

const struct fuzz_target fuzz_target = {"plan", input_of, run};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[512];
    if (!run(data, size, message, sizeof message)) {
        fprintf(stderr, "fuzz_plan: the plan is wrong: %s\n", message);
        abort();
    }
    return 0;
}
