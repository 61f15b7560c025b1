/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing: buffers whose sizes and lifetimes are known, laid out in one slab. Offsets are multiples of
 * HEARTH__PACK_ALIGNMENT; buffers that are alive at the same time share no byte; the slab's size comes
 * close to the most bytes alive at one time, below which no layout can go. docs/pack.md has the
 * algorithm and its figures.
 *
 * A pure function: the same buffers and options give the same layout, in one call or in many slices,
 * as work is counted rather than timed. Only a deadline reads the clock, and only when one is given.
 * No threads: a packer belongs to one caller at a time.
 */
#ifndef HEARTH_CORE_PACK_H
#define HEARTH_CORE_PACK_H

#include <hearth/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEARTH__PACK_ALIGNMENT ((size_t)64)

/* Offsets are counted in 32 bits: a slab has at most this many bytes. */
#define HEARTH__PACK_TOTAL_MAX ((size_t)(UINT32_MAX - 1) * HEARTH__PACK_ALIGNMENT)

/* A unit of work is a step of an inner loop, 1 to 3 ns. The default budget is this for each buffer, for
 * 1,000 of them at least and 50,000 at most. */
#define HEARTH__PACK_WORK ((uint64_t)1000)

/* A buffer, alive in the steps begin <= step < end of a run. */
struct hearth__pack_item {
    size_t size; /* 0: takes no bytes, its offset is 0 */
    uint32_t begin;
    uint32_t end; /* above `begin` */
};

struct hearth__pack_options {
    uint64_t work;        /* units of work in all, once there is a layout; 0: default */
    uint64_t seed;        /* of the search; any value is fine */
    uint64_t deadline_ns; /* stop when hearth__now_ns() is past it and a layout is there; 0: none */
    uint32_t accept;      /* stop when the total is within this many thousandths of the bound */
};

/* How a layout came to be. */
enum hearth__pack_method {
    HEARTH__PACK_NONE,    /* nothing to lay out, or not laid out yet */
    HEARTH__PACK_SIZES,   /* lowest gap that fits, largest first */
    HEARTH__PACK_BUSIEST, /* the same, those of the busiest section first */
    HEARTH__PACK_SKYLINE, /* always the lowest possible offset; ties: busiest section first */
    HEARTH__PACK_LONGEST, /* the same; ties: longest lifetime first */
    HEARTH__PACK_AREAS,   /* the same; ties: largest size times lifetime first */
    HEARTH__PACK_SEARCH,  /* improved by moving buffers forward in the order */
    HEARTH__PACK_METHODS,
};

struct hearth__pack_report {
    size_t total; /* bytes of the slab */
    size_t bound; /* most bytes alive at one time, sizes rounded: the total is never below */
    uint64_t work;
    uint32_t passes; /* layouts tried, those given up midway included */
    enum hearth__pack_method method;
};

/* Lay out `count` buffers at once; `offsets` has a place for each. `options` may be NULL.
 * NO_MEMORY; INVALID: a lifetime is empty; OVERFLOW: the slab would pass HEARTH__PACK_TOTAL_MAX, or
 * `count` is above HEARTH__PACK_COUNT_MAX. Nothing is written then. */
enum hearth_status hearth__pack(const struct hearth__pack_item *items, size_t count,
                                const struct hearth__pack_options *options, size_t *offsets,
                                struct hearth__pack_report *report);

/* The same in slices. */
struct hearth__packer;

#define HEARTH__PACK_COUNT_MAX ((size_t)1 << 26)

/* Bytes of a packer for this many buffers; about 140 for each. 0: too many. */
size_t hearth__packer_bytes(size_t count);

/* A packer in memory of hearth__packer_bytes() bytes, aligned as malloc() aligns. Reads the items, which
 * may be forgotten afterwards. There is nothing to end: the memory is the caller's. INVALID, OVERFLOW: as
 * above. */
enum hearth_status hearth__packer_init(void *memory, const struct hearth__pack_item *items,
                                       size_t count, const struct hearth__pack_options *options,
                                       struct hearth__packer **packer);

/* Go on for about `work` units; true when nothing is left to do. Sorts are not interrupted: up to 30
 * units for each buffer. */
bool hearth__packer_step(struct hearth__packer *packer, uint64_t work);

/* The best layout so far. BUSY: there is none yet, go on; OVERFLOW: there will be none. */
enum hearth_status hearth__packer_layout(const struct hearth__packer *packer, size_t *offsets,
                                         struct hearth__pack_report *report);

#endif
