/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan must say about a graph, computed the long way: every pair of nodes,
 * Floyd-Warshall. */
#ifndef HEARTH_TESTS_UNIT_PLANS_PLAN_TRUTH_H
#define HEARTH_TESTS_UNIT_PLANS_PLAN_TRUTH_H

#include "plan_graph.h"

#include <stdbool.h>

/* Builds the plan and compares answer, arrays and questions; on false, why it is wrong. *fit, if
 * not NULL: whether the graph makes a plan. */
bool plan_truth_check(const struct plan_graph *graph, bool *fit, char *why, size_t bytes);

#endif
