/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies in bodies for the programs about them: levels that pass on what the innermost one makes. */
#ifndef HEARTH_TESTS_API_BODY_SUPPORT_H
#define HEARTH_TESTS_API_BODY_SUPPORT_H

#include "run_support.h"

enum { DEEPEST = 3 };

/* A plan from s to n: `leaf` for depth 1; deeper, a node with a body of one depth less, whose kernel lends it s
 * and puts what it makes. With `route`, n is routed all the way. */
struct hearth_plan *nested_plan(unsigned depth, bool route, kernel_fn *leaf, void *user);

/* Run body 0 of the node once: s is its input 0, n becomes its output 0. */
enum hearth_status pass_body(struct hearth_context *context, bool route);

#endif
