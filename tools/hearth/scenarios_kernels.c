/* SPDX-License-Identifier: Apache-2.0 */
#include "scenarios_kernels.h"

#include "scenarios_matmul.h"

#include <math.h>
#include <string.h>

static const struct scenario_value *input(const struct scenario_call *call, uint32_t slot)
{
    return &call->graph->values[call->node->inputs[slot]];
}

static const struct scenario_value *output(const struct scenario_call *call, uint32_t slot)
{
    return &call->graph->values[call->node->outputs[slot]];
}

static size_t count_of(const struct scenario_value *value)
{
    return (size_t)value->rows * value->columns;
}

static void matmul(const struct scenario_call *call, bool scaled)
{
    uint32_t inner = input(call, 0)->columns;
    scenario_matmul(call->inputs[0], call->inputs[1], call->outputs[0], output(call, 0)->rows,
                    output(call, 0)->columns, inner, scaled,
                    scaled ? 1.0F / sqrtf((float)inner) : 1.0F);
}

static float gelu(float x)
{
    return 0.5F * x * (1.0F + tanhf(0.7978846F * (x + 0.044715F * x * x * x)));
}

static void bias(const struct scenario_call *call, bool with_gelu)
{
    const struct scenario_value *value = output(call, 0);
    for (size_t i = 0; i < value->rows; i++) {
        const float *from = call->inputs[0] + i * value->columns;
        float *to = call->outputs[0] + i * value->columns;
        for (size_t j = 0; j < value->columns; j++) {
            float sum = from[j] + call->inputs[1][j];
            to[j] = with_gelu ? gelu(sum) : sum;
        }
    }
}

static void add(const struct scenario_call *call)
{
    size_t count = count_of(output(call, 0));
    for (size_t i = 0; i < count; i++) {
        call->outputs[0][i] = call->inputs[0][i] + call->inputs[1][i];
    }
}

static void relu(const struct scenario_call *call)
{
    size_t count = count_of(output(call, 0));
    for (size_t i = 0; i < count; i++) {
        float x = call->inputs[0][i];
        call->outputs[0][i] = x > 0.0F ? x : 0.0F;
    }
}

static void layer_norm(const struct scenario_call *call)
{
    const struct scenario_value *value = output(call, 0);
    size_t columns = value->columns;
    float *centred = call->workspace;
    for (size_t i = 0; i < value->rows; i++) {
        const float *from = call->inputs[0] + i * columns;
        float *to = call->outputs[0] + i * columns;
        float sum = 0.0F;
        float squares = 0.0F;
        for (size_t j = 0; j < columns; j++) {
            sum += from[j];
        }
        for (size_t j = 0; j < columns; j++) {
            centred[j] = from[j] - sum / (float)columns;
            squares += centred[j] * centred[j];
        }
        float scale = 1.0F / sqrtf(squares / (float)columns + 1e-5F);
        for (size_t j = 0; j < columns; j++) {
            to[j] = centred[j] * scale * call->inputs[1][j] + call->inputs[2][j];
        }
    }
}

static void softmax(const struct scenario_call *call)
{
    const struct scenario_value *value = output(call, 0);
    for (size_t i = 0; i < value->rows; i++) {
        const float *from = call->inputs[0] + i * value->columns;
        float *to = call->outputs[0] + i * value->columns;
        float most = from[0];
        float sum = 0.0F;
        for (size_t j = 1; j < value->columns; j++) {
            most = from[j] > most ? from[j] : most;
        }
        for (size_t j = 0; j < value->columns; j++) {
            to[j] = expf(from[j] - most);
            sum += to[j];
        }
        for (size_t j = 0; j < value->columns; j++) {
            to[j] /= sum;
        }
    }
}

static void concat(const struct scenario_call *call)
{
    const struct scenario_value *value = output(call, 0);
    for (size_t i = 0; i < value->rows; i++) {
        float *to = call->outputs[0] + i * value->columns;
        for (uint32_t slot = 0; slot < call->node->input_count; slot++) {
            size_t columns = input(call, slot)->columns;
            memcpy(to, call->inputs[slot] + i * columns, columns * sizeof *to);
            to += columns;
        }
    }
}

static void pair(const struct scenario_call *call)
{
    size_t rows = input(call, 0)->rows;
    size_t channels = input(call, 0)->columns;
    float *to = call->outputs[0];
    float *negative = call->workspace;
    for (size_t i = 0; i < rows * channels; i++) {
        negative[i] = -call->inputs[1][i];
    }
    for (size_t i = 0; i < rows; i++) {
        for (size_t j = 0; j < rows; j++) {
            for (size_t c = 0; c < channels; c++) {
                *to++ = call->inputs[0][i * channels + c] + negative[j * channels + c];
            }
        }
    }
}

static void pair_mean(const struct scenario_call *call)
{
    size_t rows = output(call, 0)->rows;
    size_t channels = output(call, 0)->columns;
    const float *from = call->inputs[0];
    double *sums = call->workspace;
    for (size_t i = 0; i < rows; i++) {
        memset(sums, 0, channels * sizeof *sums);
        for (size_t j = 0; j < rows; j++) {
            for (size_t c = 0; c < channels; c++) {
                sums[c] += (double)*from++;
            }
        }
        for (size_t c = 0; c < channels; c++) {
            call->outputs[0][i * channels + c] = (float)(sums[c] / (double)rows);
        }
    }
}

static void max_sum(const struct scenario_call *call)
{
    size_t columns = input(call, 0)->columns;
    double *sums = call->workspace;
    for (size_t i = 0; i < input(call, 0)->rows; i++) {
        const float *from = call->inputs[0] + i * columns;
        float most = from[0];
        sums[i] = 0;
        for (size_t j = 0; j < columns; j++) {
            most = from[j] > most ? from[j] : most;
            sums[i] += (double)from[j];
        }
        call->outputs[0][i] = most;
        call->outputs[1][i] = (float)sums[i];
    }
}

static void mean_variance(const struct scenario_call *call)
{
    size_t columns = input(call, 0)->columns;
    double *means = call->workspace;
    for (size_t i = 0; i < input(call, 0)->rows; i++) {
        const float *from = call->inputs[0] + i * columns;
        double squares = 0;
        means[i] = 0;
        for (size_t j = 0; j < columns; j++) {
            means[i] += (double)from[j] / (double)columns;
        }
        for (size_t j = 0; j < columns; j++) {
            squares += ((double)from[j] - means[i]) * ((double)from[j] - means[i]);
        }
        call->outputs[0][i] = (float)means[i];
        call->outputs[1][i] = (float)(squares / (double)columns);
    }
}

static void pool(const struct scenario_call *call)
{
    size_t columns = output(call, 0)->columns;
    memset(call->outputs[0], 0, columns * sizeof *call->outputs[0]);
    size_t rows = input(call, 0)->rows;
    for (size_t i = 0; i < rows; i++) {
        float share = (call->inputs[1][i] / (float)columns + call->inputs[2][i]) / (float)rows;
        for (size_t j = 0; j < columns; j++) {
            call->outputs[0][j] += call->inputs[0][i * columns + j] * share;
        }
    }
}

void scenario_compute(const struct scenario_call *call)
{
    switch (call->node->kind) {
    case SCENARIO_MATMUL:
    case SCENARIO_MATMUL_SCALED:
        matmul(call, call->node->kind == SCENARIO_MATMUL_SCALED);
        return;
    case SCENARIO_BIAS:
    case SCENARIO_BIAS_GELU:
        bias(call, call->node->kind == SCENARIO_BIAS_GELU);
        return;
    case SCENARIO_ADD:
        add(call);
        return;
    case SCENARIO_LAYER_NORM:
        layer_norm(call);
        return;
    case SCENARIO_SOFTMAX:
        softmax(call);
        return;
    case SCENARIO_CONCAT:
        concat(call);
        return;
    case SCENARIO_PAIR:
        pair(call);
        return;
    case SCENARIO_RELU:
        relu(call);
        return;
    case SCENARIO_PAIR_MEAN:
        pair_mean(call);
        return;
    case SCENARIO_MAX_SUM:
        max_sum(call);
        return;
    case SCENARIO_MEAN_VARIANCE:
        mean_variance(call);
        return;
    case SCENARIO_POOL:
        pool(call);
        return;
    }
}
