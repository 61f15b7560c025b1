/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes: 64, 128, 192, 256, then four per doubling (320, 384, 448, 512, 640, ...).
 *
 * These are the sizes that jemalloc really uses for requests aligned to 64 bytes, so that a class's
 * size is the backing's usable size, and internal waste is below 25 % (below 20 % on average).
 * Pure functions; a class is a small index.
 */
#ifndef HEARTH_CORE_SIZE_CLASS_H
#define HEARTH_CORE_SIZE_CLASS_H

#include <stddef.h>
#include <stdint.h>

/* The last class is 7 * 2^60 bytes, the largest that does not exceed PTRDIFF_MAX. */
#define HEARTH__CLASS_COUNT 223u
#define HEARTH__CLASS_SIZE_MAX ((size_t)7 << 60)
#define HEARTH__CLASS_LINEAR 4u /* classes below the geometric part, 64 bytes apart */

/* hearth__class_of() as an index: the word's width saves an instruction on the hottest path. */
static inline size_t hearth__class_index(size_t bytes)
{
    if (bytes <= 256)
        return (bytes - (bytes != 0)) >> 6;
    size_t last = bytes - 1;
    size_t log = (unsigned)__builtin_clzl(last) ^ 63u;
    /* The top three bits of `last` are 4 to 7. */
    return HEARTH__CLASS_LINEAR + (log - 8) * 4 + (last >> (log - 2)) - 4;
}

/* What hearth__class_of() may answer for sizes beyond the last class. */
#define HEARTH__CLASS_LIMIT 228u

/* Smallest class whose size is at least `bytes`; 0 for 0. From HEARTH__CLASS_COUNT on (and below
 * HEARTH__CLASS_LIMIT) for bytes > HEARTH__CLASS_SIZE_MAX. */
static inline unsigned hearth__class_of(size_t bytes)
{
    return (unsigned)hearth__class_index(bytes);
}

/* Bytes of a class. class < HEARTH__CLASS_COUNT. */
static inline size_t hearth__class_size(unsigned class_index)
{
    if (class_index < HEARTH__CLASS_LINEAR)
        return (size_t)(class_index + 1) << 6;
    unsigned step = class_index - HEARTH__CLASS_LINEAR;
    return (size_t)(5 + step % 4) << (step / 4 + 6);
}

/* Largest class whose size is at most `bytes`. bytes >= 64. */
static inline unsigned hearth__class_floor(size_t bytes)
{
    if (bytes >= HEARTH__CLASS_SIZE_MAX)
        return HEARTH__CLASS_COUNT - 1;
    unsigned upper = hearth__class_of(bytes);
    return hearth__class_size(upper) > bytes ? upper - 1 : upper;
}

#endif
