/* SPDX-License-Identifier: Apache-2.0 */
/* What bench_pack lays out: recorded runs, and runs made up from a seed. */
#ifndef BENCH_PACK_INSTANCES_H
#define BENCH_PACK_INSTANCES_H

#include "core/pack.h"

struct pack_instance {
    struct hearth__pack_item *items;
    size_t count;
};

/** The first run of a recorded trace, without what was exported. Ends the process when it cannot be read. */
struct pack_instance pack_read_trace(const char *path);

/** The kinds of made up runs. */
enum pack_kind {
    PACK_INFERENCE, /* short lives, one in twenty long; each step frees about what it asked for */
    PACK_TRAINING,  /* a forward half that keeps one in two until its mirror image frees it */
    PACK_RANDOM,    /* lives of any length up to a sixteenth of the run */
    PACK_DENSE,     /* lives of any length */
    PACK_TIGHT,     /* a rectangle cut at random: a layout without a hole exists */
    PACK_KINDS,
};

extern const char *const pack_kind_names[PACK_KINDS];

struct pack_instance pack_make(enum pack_kind kind, size_t count, uint64_t seed);

#endif
