/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published heuristics for the same problem, written from their descriptions, for comparison. They are
 * plain: what counts here is the total, and their time is of the simple code below.
 */
#ifndef BENCH_PACK_PEERS_H
#define BENCH_PACK_PEERS_H

#include "core/pack.h"

struct pack_peer {
    const char *name;
    /** The total in bytes; sizes are rounded to HEARTH__PACK_ALIGNMENT. */
    size_t (*total)(const struct hearth__pack_item *items, size_t count);
};

/** Ends with an entry without a name. */
extern const struct pack_peer pack_peers[];

#endif
