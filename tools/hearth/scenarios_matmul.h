/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEARTH_TOOL_SCENARIOS_MATMUL_H
#define HEARTH_TOOL_SCENARIOS_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

/** out = scale a b, or scale a b^T: a has `rows` rows of `inner` columns, out `rows` of `columns`. */
void scenario_matmul(const float *a, const float *b, float *out, uint32_t rows, uint32_t columns,
                     uint32_t inner, bool transposed, float scale);

#endif
