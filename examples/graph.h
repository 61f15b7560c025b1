/* SPDX-License-Identifier: Apache-2.0 */
/* What the examples of executors have in common: a small graph that is run on one, and checked. */
#ifndef HEARTH_EXAMPLES_GRAPH_H
#define HEARTH_EXAMPLES_GRAPH_H

#include <hearth/executor.h>

#include <stdbool.h>

/* Runs the graph several times on an executor, prints one line that starts with `name`, and answers
 * whether every run was right. Any thread may call it, also one of the executor's. */
bool graph_run(const char *name, const struct hearth_executor *executor);

#endif
