/* SPDX-License-Identifier: Apache-2.0 */
/* What a context gets before a run, and what is made of its outputs afterwards. */
#ifndef HEARTH_STRESS_SESSION_INPUTS_H
#define HEARTH_STRESS_SESSION_INPUTS_H

#include "driver.h"

#include <stdbool.h>

/* No value of a run is larger. */
#define VALUE_BYTES_MOST ((size_t)9000 * sizeof(uint64_t))

/* Give the context all initial inputs, and bind some outputs. False: a request was refused. */
bool inputs_give(struct driver *self, struct place *place);

/* The outputs are there, with the right stamps. */
void outputs_check(const struct driver *self, struct place *place);

/* Those that were left in the context are still what they were. */
void outputs_check_left(const struct place *place);

/* Export, take, remove or leave them. */
void outputs_use(struct driver *self, struct place *place);

/* Clear the context. */
void outputs_clear(struct place *place);

#endif
