/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From items to the problem that passes work on. Steps become sections: a section is a row of begins
 * with no end between them, and the buffers alive at its end include all that are alive anywhere in it or
 * before the next begin. Two buffers meet exactly if they share a section; there are at most as many
 * sections as buffers, far fewer where buffers come and go in bulk.
 *
 * Buffers are numbered by begin, so that neighbours in time are neighbours in memory.
 */
#include "core/pack_state.h"

#include <assert.h>

/* Lowest-gap passes are left out where each buffer meets so many others that one of them would cost as much
 * as several of the other kind. */
#define FIT_LOOKS 512u

/* An event's key: its step, and ends before the begins of the same step. */
#define EVENT_BEGINS ((uint64_t)1)

void hearth__pack_sort_events(struct hearth__packer *packer)
{
    struct hearth__pack_key *events = packer->scratch;
    uint32_t active = packer->active;
    struct hearth__pack_key *sorted = hearth__pack_sort_keys(events, events + 2 * (size_t)active,
                                                             2 * (size_t)active, &packer->work);
    if (sorted != events) {
        for (size_t i = 0; i < 2 * (size_t)active; i++)
            events[i] = sorted[i];
    }
}

/* The load of a section that may still be the busiest of a life that has begun: later ones are lower. */
struct peak {
    uint32_t section;
    uint64_t load;
};

static uint64_t busiest_since(const struct peak *peaks, uint32_t count, uint32_t section)
{
    uint32_t low = 0;
    uint32_t high = count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (peaks[middle].section >= section)
            high = middle;
        else
            low = middle + 1;
    }
    return peaks[low].load;
}

/* What the sweep carries along. */
struct sweep {
    uint64_t load;
    uint64_t length; /* sum of lives, in sections beyond the first of each */
    uint32_t begun;  /* buffers, also the number of the next */
    uint32_t sections;
    uint32_t peak_count;
    bool begins; /* the last event was a begin: the section is open */
    struct peak *peaks;
    uint32_t *numbers; /* of buffers, by the order in which they were given */
};

static void begin(struct hearth__packer *packer, struct sweep *sweep, uint32_t given)
{
    if (!sweep->begins)
        sweep->sections++;
    sweep->begins = true;
    uint32_t number = sweep->begun++;
    sweep->numbers[given] = number;
    packer->places[number] = packer->order[given];
    packer->sizes[number] = packer->offsets[given];
    packer->first[number] = sweep->sections - 1;
    sweep->load += packer->offsets[given];
}

static void end(struct hearth__packer *packer, struct sweep *sweep, uint32_t given)
{
    uint32_t section = sweep->sections - 1;
    if (sweep->begins) {
        if (sweep->load > packer->bound)
            packer->bound = sweep->load;
        while (sweep->peak_count > 0 && sweep->peaks[sweep->peak_count - 1].load <= sweep->load)
            sweep->peak_count--;
        sweep->peaks[sweep->peak_count++] = (struct peak){section, sweep->load};
    }
    sweep->begins = false;
    uint32_t number = sweep->numbers[given];
    packer->last[number] = section;
    /* Too large for the field is too large for a layout, which is found at the end. */
    packer->busiest[number] =
        (uint32_t)busiest_since(sweep->peaks, sweep->peak_count, packer->first[number]);
    sweep->length += section - packer->first[number];
    sweep->load -= packer->offsets[given];
}

/* Blocks of sections, as small as the entries allow. A life of `length` sections beyond its first touches
 * at most length / 2^shift + 2 blocks. */
static void cut_blocks(struct hearth__packer *packer, uint64_t length)
{
    uint32_t active = packer->active;
    uint32_t shift = 0;
    while (length >> shift > (uint64_t)(HEARTH__PACK_ENTRIES - 2) * active)
        shift++;
    packer->block_shift = shift;
    packer->blocks = ((packer->sections - 1) >> shift) + 1;
    struct hearth__pack_block *blocks = packer->block_lists;
    for (uint32_t i = 0; i < packer->blocks; i++)
        blocks[i].count = 0;
    for (uint32_t i = 0; i < active; i++) {
        for (uint32_t block = packer->first[i] >> shift; block <= packer->last[i] >> shift; block++)
            blocks[block].count++;
    }
    uint32_t start = 0;
    uint64_t looks = 0;
    for (uint32_t i = 0; i < packer->blocks; i++) {
        blocks[i].start = start;
        start += blocks[i].count;
        /* Each buffer looks at all entries, in the worst case, half of them on average. */
        looks += (uint64_t)blocks[i].count * blocks[i].count / 2;
    }
    packer->fits_cheap = looks <= (uint64_t)FIT_LOOKS * active;
    assert(start <= (uint64_t)HEARTH__PACK_ENTRIES * active);
}

void hearth__pack_sweep(struct hearth__packer *packer)
{
    const struct hearth__pack_key *events = packer->scratch;
    uint32_t active = packer->active;
    struct sweep sweep = {
        /* Behind the events in the scratch, and an array that passes need later. */
        .peaks = (struct peak *)((struct hearth__pack_key *)packer->scratch + 2 * (size_t)active),
        .numbers = packer->bases[0].order,
    };
    for (size_t i = 0; i < 2 * (size_t)active; i++) {
        if ((events[i].key & EVENT_BEGINS) != 0)
            begin(packer, &sweep, events[i].value);
        else
            end(packer, &sweep, events[i].value);
    }
    packer->sections = sweep.sections;
    cut_blocks(packer, sweep.length);
    packer->work += 16 * (uint64_t)active;
}
