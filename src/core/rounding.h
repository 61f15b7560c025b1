/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What serves a request: the class that a backing really lends for a size, and how far beyond it a free
 * buffer may still be used. Tables made once per arena, read-only afterwards.
 */
#ifndef HEARTH_CORE_ROUNDING_H
#define HEARTH_CORE_ROUNDING_H

#include "core/size_class.h"
#include "core/store.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hearth__rounding {
    /* For the class of a request; HEARTH__CLASS_COUNT: cannot be lent. */
    uint8_t rounded[HEARTH__CLASS_LIMIT];
    /* For a rounded class: the last class that may serve it. */
    uint8_t reach[HEARTH__CLASS_COUNT];
};

static_assert(HEARTH__CLASS_COUNT <= UINT8_MAX, "classes fit the tables");

/* `ratio`: how many times the rounded request a buffer may be. `granule`: the backing's. */
void hearth__rounding_init(struct hearth__rounding *rounding, uint32_t ratio, size_t granule);

/* What serves a request. False when the size cannot be rounded. */
bool hearth__rounding_want(const struct hearth__rounding *rounding, size_t size,
                           unsigned alignment_log, struct hearth__want *want);

#endif
