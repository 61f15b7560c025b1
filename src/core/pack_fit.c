/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowest gap that fits, in a given order: the pass of Pisarchyk and Lee's greedy algorithms (2020, there
 * with the tightest gap; the lowest did no worse in any measurement).
 *
 * The gap is found without a look at most of what is placed: sections are cut into blocks, each with a
 * list of the placed buffers alive in it, by offset. A candidate offset starts at 0 and only rises: each
 * list that the buffer's life touches raises it above what is in the way, and lists take turns until
 * none does. As a list's earlier entries can never be in the way again, a cursor passes each entry once.
 */
#include "core/pack_state.h"

#include <string.h>

static struct hearth__pack_entry *entries_of(const struct hearth__packer *packer)
{
    return packer->scratch;
}

void hearth__pack_fit_start(struct hearth__packer *packer)
{
    for (uint32_t i = 0; i < packer->blocks; i++)
        packer->block_lists[i].count = 0;
    packer->work += packer->blocks;
}

/* Raise `offset` until the block has room for the buffer there. */
static uint64_t raise(struct hearth__packer *packer, struct hearth__pack_block *block,
                      uint64_t offset, uint32_t buffer)
{
    const struct hearth__pack_entry *entries = entries_of(packer) + block->start;
    uint32_t size = packer->sizes[buffer];
    uint32_t first = packer->first[buffer];
    uint32_t last = packer->last[buffer];
    uint32_t cursor = block->cursor;
    for (; cursor < block->count && entries[cursor].offset < offset + size; cursor++) {
        const struct hearth__pack_entry *entry = &entries[cursor];
        if (entry->top > offset && entry->first <= last && entry->last >= first)
            offset = entry->top;
    }
    packer->work += cursor - block->cursor + 1;
    block->cursor = cursor;
    return offset;
}

static uint64_t lowest_gap(struct hearth__packer *packer, uint32_t buffer)
{
    struct hearth__pack_block *from =
        &packer->block_lists[packer->first[buffer] >> packer->block_shift];
    struct hearth__pack_block *to =
        &packer->block_lists[packer->last[buffer] >> packer->block_shift];
    for (struct hearth__pack_block *block = from; block <= to; block++)
        block->cursor = 0;
    uint64_t offset = 0;
    size_t agree = 0;
    size_t all = (size_t)(to - from) + 1;
    for (struct hearth__pack_block *block = from; agree < all;) {
        uint64_t raised = raise(packer, block, offset, buffer);
        agree = raised == offset ? agree + 1 : 1;
        offset = raised;
        block = block == to ? from : block + 1;
    }
    return offset;
}

/* The cursors stand where the buffer belongs, or behind entries that start at its top at most. */
static void place(struct hearth__packer *packer, uint32_t buffer, uint32_t offset)
{
    struct hearth__pack_entry entry = {
        .offset = offset,
        .top = offset + packer->sizes[buffer],
        .first = packer->first[buffer],
        .last = packer->last[buffer],
    };
    uint32_t to = entry.last >> packer->block_shift;
    for (uint32_t i = entry.first >> packer->block_shift; i <= to; i++) {
        struct hearth__pack_block *block = &packer->block_lists[i];
        struct hearth__pack_entry *entries = entries_of(packer) + block->start;
        uint32_t at = block->cursor;
        while (at > 0 && entries[at - 1].offset > offset)
            at--;
        memmove(&entries[at + 1], &entries[at], (block->count - at) * sizeof(*entries));
        entries[at] = entry;
        /* Moving is far cheaper than looking. */
        packer->work += block->cursor - at + (block->count - at) / 8 + 1;
        block->count++;
    }
    packer->offsets[buffer] = offset;
    if (entry.top > packer->top)
        packer->top = entry.top;
}

bool hearth__pack_fit_run(struct hearth__packer *packer)
{
    while (packer->placed < packer->active) {
        if (packer->work >= packer->pause)
            return false;
        uint32_t buffer = packer->order[packer->placed];
        uint64_t offset = lowest_gap(packer, buffer);
        if (offset + packer->sizes[buffer] > packer->limit)
            return true;
        place(packer, buffer, (uint32_t)offset);
        packer->placed++;
    }
    return true;
}
