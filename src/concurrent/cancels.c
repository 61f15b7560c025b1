/* SPDX-License-Identifier: Apache-2.0 */
#include "concurrent/cancels.h"

#include <stdlib.h>
#include <string.h>

void hearth__cancels_init(struct hearth__cancels *cancels)
{
    cancels->tokens = cancels->inline_tokens;
    cancels->count = 0;
    cancels->size = HEARTH__CANCELS_INLINE;
}

void hearth__cancels_fini(struct hearth__cancels *cancels)
{
    if (cancels->tokens != cancels->inline_tokens)
        free(cancels->tokens);
    hearth__cancels_init(cancels);
}

bool hearth__cancels_take(struct hearth__cancels *cancels, uint64_t token)
{
    for (size_t i = 0; i < cancels->count; i++) {
        if (cancels->tokens[i] != token)
            continue;
        cancels->count--;
        memmove(&cancels->tokens[i], &cancels->tokens[i + 1],
                (cancels->count - i) * sizeof cancels->tokens[0]);
        return true;
    }
    return false;
}

static void grow(struct hearth__cancels *cancels)
{
    size_t size = cancels->size * 2;
    if (size == 0 || size > HEARTH__CANCELS_MOST)
        return;
    uint64_t *larger = malloc(size * sizeof *larger);
    if (larger == NULL)
        return;
    memcpy(larger, cancels->tokens, cancels->count * sizeof *larger);
    if (cancels->tokens != cancels->inline_tokens)
        free(cancels->tokens);
    cancels->tokens = larger;
    cancels->size = size;
}

void hearth__cancels_add(struct hearth__cancels *cancels, uint64_t token)
{
    /* Once again is once, and the youngest. */
    (void)hearth__cancels_take(cancels, token);
    if (cancels->count == cancels->size)
        grow(cancels);
    if (cancels->count == cancels->size)
        (void)hearth__cancels_take(cancels, cancels->tokens[0]);
    cancels->tokens[cancels->count++] = token;
}
