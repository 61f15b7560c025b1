/* SPDX-License-Identifier: Apache-2.0 */
/* Least significant digit first: linear, stable, no recursion, and digits that are all alike cost nothing
 * but a look. */
#include "core/pack_state.h"

#include <string.h>

#define DIGIT_BITS 11u
#define DIGITS ((64 + DIGIT_BITS - 1) / DIGIT_BITS)
#define BUCKETS (1u << DIGIT_BITS)

static uint32_t digit_of(const struct hearth__pack_key *key, unsigned shift)
{
    return (uint32_t)(key->key >> shift) & (BUCKETS - 1);
}

static void scatter(const struct hearth__pack_key *from, struct hearth__pack_key *to, size_t count,
                    unsigned shift)
{
    uint32_t starts[BUCKETS];
    memset(starts, 0, sizeof(starts));
    for (size_t i = 0; i < count; i++)
        starts[digit_of(&from[i], shift)]++;
    uint32_t sum = 0;
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        uint32_t here = starts[bucket];
        starts[bucket] = sum;
        sum += here;
    }
    for (size_t i = 0; i < count; i++)
        to[starts[digit_of(&from[i], shift)]++] = from[i];
}

/* For few elements the tables of buckets would cost more than the elements. */
static void insert(struct hearth__pack_key *keys, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct hearth__pack_key key = keys[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1].key > key.key; at--)
            keys[at] = keys[at - 1];
        keys[at] = key;
    }
}

struct hearth__pack_key *hearth__pack_sort_keys(struct hearth__pack_key *keys,
                                                struct hearth__pack_key *spare, size_t count,
                                                uint64_t *work)
{
    *work += count;
    if (count <= 64) {
        insert(keys, count);
        return keys;
    }
    uint64_t varies = 0;
    for (size_t i = 1; i < count; i++)
        varies |= keys[i].key ^ keys[0].key;
    for (unsigned digit = 0; digit < DIGITS; digit++) {
        unsigned shift = digit * DIGIT_BITS;
        if ((varies >> shift & (BUCKETS - 1)) == 0)
            continue;
        scatter(keys, spare, count, shift);
        struct hearth__pack_key *sorted = spare;
        spare = keys;
        keys = sorted;
        *work += 2 * count + BUCKETS;
    }
    return keys;
}
