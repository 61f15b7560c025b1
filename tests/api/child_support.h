/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs about nested work share: arenas by their depth, on the service of `rig`. */
#ifndef HEARTH_TESTS_API_CHILD_SUPPORT_H
#define HEARTH_TESTS_API_CHILD_SUPPORT_H

#include "service_support.h"

extern struct rig rig;

/* Of a depth, its storage is told by its size. */
enum { DEPTHS = 4 };
#define SIZE_AT(depth) ((size_t)100 * KIB << (depth))
#define CAPACITY_AT(depth) ((size_t)112 * KIB << (depth))
#define SUM_AT ((size_t)15 * 112 * KIB) /* of all depths */

/* Without ageing. */
void open_rig(void);

/* The calling thread's arena. */
struct hearth_exec *child_of(unsigned depth);
size_t retained_at(unsigned depth);

/* As warm_exec(). */
void warm_child(unsigned depth, size_t size, size_t count);

/* Work that nests, each depth with a buffer that is live while the deeper ones work. */
void nest(unsigned depth, unsigned deepest);
void nest_all(void *unused);

#endif
