/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An encoder of two layers with four heads, whose heads are parallel branches; pair features beside it, which
 * are large and cheap; and a tail of reductions, two of them with one output inside and one outside.
 *
 *     x -> embed ----------------------> + -> layer 0 -> layer 1 -> norm -> hidden -> max_sum ------> pool ->
 *            \-> left, right -> pair -> mean                              \-> mean_variance -/   logits -> probs
 */
#include "scenarios_graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define INPUT_COLUMNS 64u
#define LAYERS 2u
#define CLASSES 100u

#define NO_VALUE UINT32_MAX

__attribute__((format(printf, 4, 5))) static uint32_t
add_value(struct scenario_graph *graph, uint32_t rows, uint32_t columns, const char *format, ...)
{
    struct scenario_value *value = &graph->values[graph->value_count];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(value->name, sizeof value->name, format, arguments);
    va_end(arguments);
    value->rows = rows;
    value->columns = columns;
    value->bytes = (size_t)rows * columns * sizeof(float);
    return graph->value_count++;
}

static uint32_t weight(struct scenario_graph *graph, uint32_t rows, uint32_t columns)
{
    uint32_t value = add_value(graph, rows, columns, "weight%u", graph->value_count);
    graph->values[value].initial = true;
    return value;
}

/* The node that makes `output`, under its name. Unused inputs are NO_VALUE. */
static struct scenario_node *add_node(struct scenario_graph *graph, enum scenario_kind kind,
                                      uint32_t output, uint32_t a, uint32_t b, uint32_t c)
{
    struct scenario_node *node = &graph->nodes[graph->node_count++];
    const uint32_t inputs[] = {a, b, c};
    memcpy(node->name, graph->values[output].name, sizeof node->name);
    node->kind = kind;
    node->outputs[node->output_count++] = output;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0] && inputs[i] != NO_VALUE; i++) {
        node->inputs[node->input_count++] = inputs[i];
        graph->values[inputs[i]].uses++;
    }
    return node;
}

static uint32_t rows_of(const struct scenario_graph *graph, uint32_t value)
{
    return graph->values[value].rows;
}

static uint32_t columns_of(const struct scenario_graph *graph, uint32_t value)
{
    return graph->values[value].columns;
}

static uint32_t matmul(struct scenario_graph *graph, uint32_t input, uint32_t columns,
                       const char *name, uint32_t number)
{
    uint32_t matrix = weight(graph, columns_of(graph, input), columns);
    uint32_t out = add_value(graph, rows_of(graph, input), columns, "%s%u", name, number);
    add_node(graph, SCENARIO_MATMUL, out, input, matrix, NO_VALUE);
    return out;
}

/* An elementwise node in its first input's storage. */
static uint32_t in_place(struct scenario_graph *graph, enum scenario_kind kind, uint32_t input,
                         uint32_t other, const char *name, uint32_t number)
{
    uint32_t out =
        add_value(graph, rows_of(graph, input), columns_of(graph, input), "%s%u", name, number);
    add_node(graph, kind, out, input, other, NO_VALUE)->in_place = true;
    return out;
}

static uint32_t layer_norm(struct scenario_graph *graph, uint32_t input, const char *name,
                           uint32_t number)
{
    uint32_t columns = columns_of(graph, input);
    uint32_t scale = weight(graph, 1, columns);
    uint32_t shift = weight(graph, 1, columns);
    uint32_t out = add_value(graph, rows_of(graph, input), columns, "%s%u", name, number);
    struct scenario_node *node = add_node(graph, SCENARIO_LAYER_NORM, out, input, scale, shift);
    node->workspace = columns * sizeof(float);
    return out;
}

static uint32_t head(struct scenario_graph *graph, uint32_t input, uint32_t number)
{
    uint32_t rows = rows_of(graph, input);
    uint32_t columns = graph->shape.width / SCENARIO_HEADS;
    uint32_t query = matmul(graph, input, columns, "query", number);
    query = in_place(graph, SCENARIO_BIAS, query, weight(graph, 1, columns), "biased", number);
    uint32_t key = matmul(graph, input, columns, "key", number);
    uint32_t values = matmul(graph, input, columns, "values", number);
    uint32_t scores = add_value(graph, rows, rows, "scores%u", number);
    add_node(graph, SCENARIO_MATMUL_SCALED, scores, query, key, NO_VALUE);
    uint32_t shares = in_place(graph, SCENARIO_SOFTMAX, scores, NO_VALUE, "shares", number);
    uint32_t mixed = add_value(graph, rows, columns, "mixed%u", number);
    add_node(graph, SCENARIO_MATMUL, mixed, shares, values, NO_VALUE);
    return mixed;
}

static uint32_t layer(struct scenario_graph *graph, uint32_t input, uint32_t number)
{
    uint32_t heads[SCENARIO_HEADS];
    uint32_t width = graph->shape.width;
    uint32_t normal = layer_norm(graph, input, "norm", 2 * number);
    for (uint32_t i = 0; i < SCENARIO_HEADS; i++) {
        heads[i] = head(graph, normal, number * SCENARIO_HEADS + i);
    }
    uint32_t joined = add_value(graph, rows_of(graph, input), width, "joined%u", number);
    struct scenario_node *node =
        add_node(graph, SCENARIO_CONCAT, joined, heads[0], heads[1], heads[2]);
    node->inputs[node->input_count++] = heads[3];
    graph->values[heads[3]].uses++;
    uint32_t attention = matmul(graph, joined, width, "attention", number);
    attention = in_place(graph, SCENARIO_ADD, attention, input, "attended", number);
    normal = layer_norm(graph, attention, "norm", 2 * number + 1);
    uint32_t hidden = matmul(graph, normal, graph->shape.hidden, "inner", number);
    uint32_t bias = weight(graph, 1, graph->shape.hidden);
    hidden = in_place(graph, SCENARIO_BIAS_GELU, hidden, bias, "active", number);
    uint32_t outer = matmul(graph, hidden, width, "outer", number);
    return in_place(graph, SCENARIO_ADD, outer, attention, "layer", number);
}

static uint32_t pair_features(struct scenario_graph *graph, uint32_t input)
{
    uint32_t rows = rows_of(graph, input);
    uint32_t channels = graph->shape.channels;
    uint32_t left = matmul(graph, input, channels, "left", 0);
    uint32_t right = matmul(graph, input, channels, "right", 0);
    uint32_t pair = add_value(graph, rows, rows * channels, "pair");
    struct scenario_node *node = add_node(graph, SCENARIO_PAIR, pair, left, right, NO_VALUE);
    node->workspace = graph->values[right].bytes; /* where the peak is, so that it counts there */
    uint32_t positive = in_place(graph, SCENARIO_RELU, pair, NO_VALUE, "positive", 0);
    uint32_t mean = add_value(graph, rows, channels, "pair_mean");
    node = add_node(graph, SCENARIO_PAIR_MEAN, mean, positive, NO_VALUE, NO_VALUE);
    node->workspace = channels * sizeof(double);
    uint32_t back = matmul(graph, mean, graph->shape.width, "pair_back", 0);
    return in_place(graph, SCENARIO_ADD, back, input, "paired", 0);
}

static void declare(struct scenario_graph *graph, uint32_t value)
{
    graph->values[value].declared = true;
    graph->outputs[graph->output_count++] = value;
}

/* One output declared, the other not; the declared one first. */
static uint32_t max_sum(struct scenario_graph *graph, uint32_t input)
{
    uint32_t rows = rows_of(graph, input);
    uint32_t maxima = add_value(graph, rows, 1, "row_maxima");
    uint32_t sums = add_value(graph, rows, 1, "row_sums");
    struct scenario_node *node =
        add_node(graph, SCENARIO_MAX_SUM, maxima, input, NO_VALUE, NO_VALUE);
    node->outputs[node->output_count++] = sums;
    node->workspace = rows * sizeof(double);
    declare(graph, maxima);
    return sums;
}

/* The declared one second. */
static uint32_t mean_variance(struct scenario_graph *graph, uint32_t input)
{
    uint32_t rows = rows_of(graph, input);
    uint32_t means = add_value(graph, rows, 1, "row_means");
    uint32_t variances = add_value(graph, rows, 1, "row_variances");
    struct scenario_node *node =
        add_node(graph, SCENARIO_MEAN_VARIANCE, means, input, NO_VALUE, NO_VALUE);
    node->outputs[node->output_count++] = variances;
    node->workspace = rows * sizeof(double);
    declare(graph, variances);
    return means;
}

void scenario_graph_init(struct scenario_graph *graph, const struct scenario_shape *shape)
{
    memset(graph, 0, sizeof *graph);
    graph->shape = *shape;
    uint32_t state = add_value(graph, shape->rows, INPUT_COLUMNS, "x");
    graph->values[state].initial = true;
    state = matmul(graph, state, shape->width, "embed", 0);
    state = in_place(graph, SCENARIO_BIAS, state, weight(graph, 1, shape->width), "embedded", 0);
    state = pair_features(graph, state);
    for (uint32_t i = 0; i < LAYERS; i++) {
        state = layer(graph, state, i);
    }
    uint32_t hidden = layer_norm(graph, state, "hidden", 0);
    if (shape->hidden_out) {
        declare(graph, hidden);
    }
    uint32_t sums = max_sum(graph, hidden);
    uint32_t means = mean_variance(graph, hidden);
    uint32_t pooled = add_value(graph, 1, shape->width, "pooled");
    add_node(graph, SCENARIO_POOL, pooled, hidden, sums, means);
    uint32_t logits = matmul(graph, pooled, CLASSES, "logits", 0);
    uint32_t probs = add_value(graph, 1, CLASSES, "probs");
    add_node(graph, SCENARIO_SOFTMAX, probs, logits, NO_VALUE, NO_VALUE);
    declare(graph, probs);
}

static bool is_intermediate(const struct scenario_value *value)
{
    return !value->initial && !value->declared;
}

bool scenario_reuses(const struct scenario_graph *graph, const struct scenario_node *node)
{
    const struct scenario_value *input = &graph->values[node->inputs[0]];
    return node->in_place && input->uses == 1 && is_intermediate(input) &&
           is_intermediate(&graph->values[node->outputs[0]]);
}

size_t scenario_output_bytes(const struct scenario_graph *graph)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < graph->output_count; i++) {
        bytes += graph->values[graph->outputs[i]].bytes;
    }
    return bytes;
}
