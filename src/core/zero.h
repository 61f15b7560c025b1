/* SPDX-License-Identifier: Apache-2.0 */
/* Storage that reads as zero: what hearth_request.zero asks for. */
#ifndef HEARTH_CORE_ZERO_H
#define HEARTH_CORE_ZERO_H

#include "core/backing.h"

#include <hearth/allocator.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pages go back in multiples of this: no machine that hearth runs on has larger ones by default. */
#define HEARTH__ZERO_PAGE_BYTES ((size_t)4096)

/* Below this a system call costs more than writing. */
#define HEARTH__ZERO_LAZY_LEAST_BYTES ((size_t)64 << 10)

/* Let [data, data + size), the caller's alone, read as zero. `how` is hearth_request.zero, `known`: it does already.
 * The pages that HEARTH_ZERO_LAZY gives back are whole ones inside of the range. */
void hearth__zero(struct hearth_backing *backing, void *data, size_t size, uint32_t how,
                  bool known);

#endif
