/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of run plans share: recorded runs, and oracles that know nothing of how plans are made. */
#ifndef HEARTH_TESTS_UNIT_PLAN_CHECK_H
#define HEARTH_TESTS_UNIT_PLAN_CHECK_H

#include "core/run_plan.h"

/* Requests of one unit each that are never returned; the caller frees it. */
struct hearth__run_record *plan_record(uint32_t count);

/* Random lives and sizes of up to `units` units. `odd` in 100 requests are never returned, taken, remote, grown
 * or of no size. */
void plan_random_record(struct hearth__run_record *record, uint32_t units, uint32_t odd,
                        uint64_t *state);

/* Whether a request gets a place, and when it is over at the latest. */
bool plan_has_place(const struct hearth__run_record *record, uint32_t i);
uint32_t plan_end(const struct hearth__run_record *record, uint32_t i);

/* Plan to the end, this much work at a time. */
struct hearth__plan *plan_made(const struct hearth__run_record *record, uint64_t work);

/* Fails the test unless the plan is one of the record: sizes, what is planned out, nobody's bytes shared in time,
 * the bytes and the bound as they are, each entry's predecessors those who had its bytes last. */
void plan_check(const struct hearth__plan *plan, const struct hearth__run_record *record);

/* Whether two plans are the same. */
bool plan_same(const struct hearth__plan *a, const struct hearth__plan *b);

#endif
