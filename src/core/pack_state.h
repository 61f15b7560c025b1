/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the packer share. Sizes and offsets are in units of HEARTH__PACK_ALIGNMENT. */
#ifndef HEARTH_CORE_PACK_STATE_H
#define HEARTH_CORE_PACK_STATE_H

#include "core/pack.h"

/* Entries of block lists for each buffer, see pack_fit.c. */
#define HEARTH__PACK_ENTRIES 5u

enum hearth__pack_phase {
    HEARTH__PACK_SORT,
    HEARTH__PACK_SWEEP,
    HEARTH__PACK_START, /* a pass */
    HEARTH__PACK_RUN,
    HEARTH__PACK_DONE,
};

/* A placed buffer in a block list. */
struct hearth__pack_entry {
    uint32_t offset;
    uint32_t top;
    uint32_t first;
    uint32_t last;
};

/* A list of all placed buffers that are alive in a block of sections, by offset. */
struct hearth__pack_block {
    uint32_t start; /* of its entries */
    uint32_t count;
    uint32_t cursor;
};

/* An element to be sorted. */
struct hearth__pack_key {
    uint64_t key;
    uint32_t value;
};

/* The two kinds of passes. */
enum hearth__pack_kind {
    HEARTH__PACK_BY_SKYLINE,
    HEARTH__PACK_BY_FIT,
    HEARTH__PACK_BASES,
};

/* The best layout of a kind, and the order that led to it. */
struct hearth__pack_base {
    uint64_t total; /* UINT64_MAX: none yet */
    enum hearth__pack_method method;
    uint32_t *order;
    uint32_t *offsets;
};

/* Of a pass that keeps a skyline, see pack_skyline.c. */
struct hearth__pack_skyline {
    uint64_t *heap; /* windows, lowest first: height above first section */
    /* By a window's first section; the first section by its last one. */
    uint32_t *heights;
    uint32_t *lasts;
    uint32_t *firsts;
    /* Buffers that are not placed yet, by begin, and the best of each tile of them. */
    uint32_t *candidate_firsts;
    uint32_t *candidate_lasts;
    uint32_t *ranks;
    uint32_t *tile_ranks;
    uint32_t *tile_lasts;
    uint32_t heap_count;
    uint32_t candidate_count;
    uint32_t squeeze_at;
};

struct hearth__packer {
    struct hearth__pack_options options;
    enum hearth__pack_phase phase;
    enum hearth__pack_method method; /* of the pass that runs */
    uint32_t scheduled;              /* methods that had their turn */
    uint32_t passes;
    uint64_t work;  /* done so far */
    uint64_t pause; /* where the slice ends */
    uint64_t random;

    uint32_t count;  /* buffers as given */
    uint32_t active; /* those that have bytes; arrays below are of these, by begin */
    uint32_t sections;
    uint32_t block_shift;
    uint32_t blocks;
    uint32_t accept; /* a total that is good enough */
    bool fits_cheap; /* lowest-gap passes are affordable */
    uint64_t bound;
    uint64_t limit; /* a pass that goes beyond is given up */

    uint32_t placed; /* by the pass that runs */
    uint64_t top;    /* of it */
    enum hearth__pack_kind kind;

    struct hearth__pack_skyline skyline;
    struct hearth__pack_base bases[HEARTH__PACK_BASES];
    uint32_t *places; /* index of the caller's item */
    uint32_t *sizes;
    uint32_t *first; /* section of its begin */
    uint32_t *last;
    uint32_t *busiest; /* most units alive in one of its sections */
    uint32_t *order;
    uint32_t *offsets;
    struct hearth__pack_block *block_lists;
    /* Used by sorting, sweeping, and each kind of pass in turn. */
    void *scratch;
};

/* Sort `count` keys, ascending and stable, from `keys`; `spare` has as many. Answers which of the two
 * holds the result. */
struct hearth__pack_key *hearth__pack_sort_keys(struct hearth__pack_key *keys,
                                                struct hearth__pack_key *spare, size_t count,
                                                uint64_t *work);

/* The two steps before the first pass: sections, lifetimes in sections, the bound. */
void hearth__pack_sort_events(struct hearth__packer *packer);
void hearth__pack_sweep(struct hearth__packer *packer);

/* The order that a method asks for. */
void hearth__pack_sort_order(struct hearth__packer *packer, enum hearth__pack_method method);

/* Passes: start, then run until the slice ends; false: the slice has ended. At the end `placed` is
 * `active`, or less where the limit was met. */
void hearth__pack_fit_start(struct hearth__packer *packer);
bool hearth__pack_fit_run(struct hearth__packer *packer);
void hearth__pack_skyline_start(struct hearth__packer *packer);
bool hearth__pack_skyline_run(struct hearth__packer *packer);

/* An order for the search to try. */
void hearth__pack_search_next(struct hearth__packer *packer, enum hearth__pack_kind kind);

#endif
