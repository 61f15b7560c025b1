/* SPDX-License-Identifier: Apache-2.0 */
#include "core/rounding.h"

#define PAGE_ALIGNMENT ((size_t)4096)

/* Alignments beyond a page make every backing lend at least this much. */
#define WIDE_ALIGNMENT_BYTES ((size_t)16 << 10)

/* The class that a backing of this granule really lends for a request of this class. */
static unsigned rounded_class(unsigned class_index, size_t granule)
{
    size_t bytes = hearth__class_size(class_index);
    while (bytes % granule != 0) {
        if (__builtin_add_overflow(bytes, granule - 1, &bytes))
            return HEARTH__CLASS_COUNT;
        bytes &= ~(granule - 1);
        if (bytes > HEARTH__CLASS_SIZE_MAX)
            return HEARTH__CLASS_COUNT;
        bytes = hearth__class_size(hearth__class_of(bytes));
    }
    return hearth__class_of(bytes);
}

void hearth__rounding_init(struct hearth__rounding *rounding, uint32_t ratio, size_t granule)
{
    for (unsigned i = 0; i < HEARTH__CLASS_COUNT; i++) {
        size_t most;
        rounding->rounded[i] = (uint8_t)rounded_class(i, granule);
        if (__builtin_mul_overflow(hearth__class_size(i), (size_t)ratio, &most))
            most = HEARTH__CLASS_SIZE_MAX;
        rounding->reach[i] = (uint8_t)hearth__class_floor(most);
    }
    for (unsigned i = HEARTH__CLASS_COUNT; i < HEARTH__CLASS_LIMIT; i++)
        rounding->rounded[i] = HEARTH__CLASS_COUNT;
}

bool hearth__rounding_want(const struct hearth__rounding *rounding, size_t size,
                           unsigned alignment_log, struct hearth__want *want)
{
    size_t bytes = size == 0 ? 1 : size;
    if (alignment_log > HEARTH__ALIGNMENT_LOG_MIN) {
        size_t alignment = (size_t)1 << alignment_log;
        if (alignment > PAGE_ALIGNMENT && bytes < WIDE_ALIGNMENT_BYTES)
            bytes = WIDE_ALIGNMENT_BYTES;
        size_t unit = alignment < PAGE_ALIGNMENT ? alignment : PAGE_ALIGNMENT;
        if (__builtin_add_overflow(bytes, unit - 1, &bytes))
            return false;
        bytes &= ~(unit - 1);
    }
    if (bytes > HEARTH__CLASS_SIZE_MAX)
        return false;
    unsigned rounded = rounding->rounded[hearth__class_of(bytes)];
    if (rounded == HEARTH__CLASS_COUNT)
        return false;
    want->size = size;
    want->size_class = rounded;
    want->bytes = hearth__class_size(rounded);
    want->last_class = rounding->reach[rounded];
    want->alignment_log = alignment_log;
    return true;
}
