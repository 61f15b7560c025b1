/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include "mix.h"

#include <string.h>

/* A mark is eight bytes, or what is left before the last byte, which is a mark of its own. */
#define MARK_BYTES sizeof(uint64_t)

static uint64_t mark_at(uint64_t seed, size_t offset)
{
    return mix64(seed + offset);
}

static size_t mark_length(size_t bytes, size_t offset)
{
    size_t left = bytes - 1 - offset;
    return left < MARK_BYTES ? left : MARK_BYTES;
}

/* The next offset whose address is a multiple of the stride. */
static size_t next_offset(const void *data, size_t offset, size_t stride)
{
    uintptr_t address = (uintptr_t)data + offset;
    return (size_t)(((address | (stride - 1)) + 1) - (uintptr_t)data);
}

void pattern_write(void *data, size_t bytes, size_t stride, uint64_t seed)
{
    unsigned char *at = data;
    if (bytes == 0) {
        return;
    }
    for (size_t offset = 0; offset < bytes - 1; offset = next_offset(data, offset, stride)) {
        uint64_t mark = mark_at(seed, offset);
        size_t length = mark_length(bytes, offset);
        if (length == MARK_BYTES) {
            memcpy(at + offset, &mark, MARK_BYTES); /* One store: the length is a constant here. */
        } else {
            memcpy(at + offset, &mark, length);
        }
    }
    at[bytes - 1] = (unsigned char)mark_at(seed, bytes - 1);
}

bool pattern_check(const void *data, size_t bytes, size_t stride, uint64_t seed,
                   struct pattern_mismatch *mismatch)
{
    const unsigned char *at = data;
    if (bytes == 0) {
        return true;
    }
    for (size_t offset = 0; offset < bytes - 1; offset = next_offset(data, offset, stride)) {
        uint64_t expected = mark_at(seed, offset);
        size_t length = mark_length(bytes, offset);
        bool same = length == MARK_BYTES ? memcmp(at + offset, &expected, MARK_BYTES) == 0
                                         : memcmp(at + offset, &expected, length) == 0;
        if (!same) {
            uint64_t found = expected;
            memcpy(&found, at + offset, length);
            *mismatch = (struct pattern_mismatch){offset, expected, found};
            return false;
        }
    }
    unsigned char expected = (unsigned char)mark_at(seed, bytes - 1);
    if (at[bytes - 1] != expected) {
        *mismatch = (struct pattern_mismatch){bytes - 1, expected, at[bytes - 1]};
        return false;
    }
    return true;
}
