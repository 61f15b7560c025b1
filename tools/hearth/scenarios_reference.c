/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_reference.h"

#include "mix.h"
#include "scenarios_kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE 64u

/* Evenly spread over -limit to limit. */
static void fill(float *data, size_t count, uint64_t seed, float limit)
{
    for (size_t i = 0; i < count; i++) {
        float unit = (float)(mix64(seed + i) >> 40) / (float)(UINT32_C(1) << 24);
        data[i] = limit * (2.0F * unit - 1.0F);
    }
}

static float *make_values(const struct scenario_value *value, uint64_t seed, float limit)
{
    float *data = malloc(value->bytes);
    if (data != NULL) {
        fill(data, value->bytes / sizeof *data, seed, limit);
    }
    return data;
}

void scenario_weights_destroy(struct scenario_weights *weights)
{
    for (size_t i = 0; i < SCENARIO_VALUES_MAX; i++) {
        free(weights->data[i]);
        weights->data[i] = NULL;
    }
}

bool scenario_weights_create(const struct scenario_graph *graph, uint64_t seed,
                             struct scenario_weights *weights)
{
    *weights = (struct scenario_weights){.data = {NULL}};
    for (uint32_t i = 1; i < graph->value_count; i++) {
        const struct scenario_value *value = &graph->values[i];
        if (!value->initial) {
            continue;
        }
        /* Matrices keep the size of what they multiply; rows are scales and shifts. */
        float limit = value->rows > 1 ? sqrtf(3.0F / (float)value->rows) : 1.0F;
        weights->data[i] = make_values(value, mix64(seed ^ mix64(i)), limit);
        if (weights->data[i] == NULL) {
            scenario_weights_destroy(weights);
            return false;
        }
    }
    return true;
}

uint64_t scenario_sum(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t sum = bytes;
    for (size_t i = 0; i < bytes; i += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, at + i, sizeof word);
        sum = mix64(sum ^ word);
    }
    return sum;
}

void scenario_reference_destroy(struct scenario_reference *reference)
{
    free(reference->input);
    for (size_t i = 0; i < SCENARIO_OUTPUTS_MAX; i++) {
        free(reference->outputs[i]);
    }
    *reference = (struct scenario_reference){.input = NULL};
}

static bool compute_node(const struct scenario_graph *graph, const struct scenario_node *node,
                         float *const *data)
{
    struct scenario_call call = {.graph = graph, .node = node};
    for (uint32_t i = 0; i < node->input_count; i++) {
        call.inputs[i] = data[node->inputs[i]];
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        call.outputs[i] = data[node->outputs[i]];
    }
    call.workspace = malloc(node->workspace + 1);
    if (call.workspace == NULL) {
        return false;
    }
    scenario_compute(&call);
    free(call.workspace);
    return true;
}

/* Every value that nodes make gets a place in one block. */
static size_t place(const struct scenario_graph *graph, const struct scenario_weights *weights,
                    char *block, float **data)
{
    size_t used = 0;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const struct scenario_value *value = &graph->values[i];
        if (value->initial) {
            data[i] = weights->data[i];
        } else {
            data[i] = block == NULL ? NULL : (float *)(void *)(block + used);
            used += (value->bytes + LINE - 1) / LINE * LINE;
        }
    }
    return used;
}

static bool copy_output(const struct scenario_value *value, const float *from, float **to)
{
    *to = malloc(value->bytes);
    if (*to != NULL) {
        memcpy(*to, from, value->bytes);
    }
    return *to != NULL;
}

static bool compute(const struct scenario_graph *graph, float *const *data,
                    struct scenario_reference *reference)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < graph->node_count; i++) {
        ok = compute_node(graph, &graph->nodes[i], data);
    }
    for (uint32_t i = 0; ok && i < graph->output_count; i++) {
        uint32_t value = graph->outputs[i];
        ok = copy_output(&graph->values[value], data[value], &reference->outputs[i]);
    }
    return ok;
}

bool scenario_reference_create(const struct scenario_graph *graph,
                               const struct scenario_weights *weights, uint64_t seed,
                               struct scenario_reference *reference)
{
    float *data[SCENARIO_VALUES_MAX];
    char *block = malloc(place(graph, weights, NULL, data) + 1);
    *reference = (struct scenario_reference){.input = make_values(&graph->values[0], seed, 1.0F)};
    bool ok = block != NULL && reference->input != NULL;
    if (ok) {
        place(graph, weights, block, data);
        data[0] = reference->input;
        ok = compute(graph, data, reference);
    }
    free(block);
    if (!ok) {
        scenario_reference_destroy(reference);
    }
    return ok;
}
